package pantile.hdfs.raidp;

import java.io.Closeable;
import java.io.EOFException;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo;
import org.apache.hadoop.io.ArrayPrimitiveWritable;
import org.apache.hadoop.ipc.RPC;
import org.apache.hadoop.net.NetUtils;
import org.apache.hadoop.security.UserGroupInformation;

/**
 * Asks another DataNode of the array.
 *
 * <p>An IOException means that the node cannot answer now, never that a block is gone.
 */
final class Peer implements Closeable {
  /** The answer of {@link #generations} for an entry whose content the disk does not have. */
  static final long NONE = -1;

  /** Items of a list in one call. */
  static final int ITEMS_MOST = 16_384;

  /**
   * Time of silence after which a node cannot answer; a node that makes a sum waits for other nodes
   * meanwhile.
   */
  private static final int SILENCE_MS = 10_000;

  private static final int SUM_SILENCE_MS = 30_000;

  /** The pause before a node is asked again that makes as many sums as it can. */
  private static final int BUSY_MS = 20;

  private final PeerProtocol proxy;
  private final PeerProtocol patient;

  private Peer(PeerProtocol proxy, PeerProtocol patient) {
    this.proxy = proxy;
    this.patient = patient;
  }

  /** Returns the peer at a DataNode; nothing is sent yet. */
  static Peer of(DatanodeInfo node, Configuration conf) throws IOException {
    return of(NetUtils.createSocketAddr(node.getIpcAddr(false)), conf);
  }

  /** Returns the peer at the address of a DataNode's IPC server. */
  static Peer of(InetSocketAddress address, Configuration conf) throws IOException {
    Configuration impatient = new Configuration(conf);
    impatient.setInt("ipc.client.connect.max.retries", 0);
    impatient.setInt("ipc.client.connect.max.retries.on.timeouts", 0);
    impatient.setInt("ipc.client.connect.timeout", SILENCE_MS);
    useEngine(impatient);
    return new Peer(
        proxy(address, impatient, SILENCE_MS), proxy(address, impatient, SUM_SILENCE_MS));
  }

  private static PeerProtocol proxy(InetSocketAddress address, Configuration conf, int silenceMs)
      throws IOException {
    return RPC.getProxy(
        PeerProtocol.class,
        PeerProtocol.versionID,
        address,
        UserGroupInformation.getCurrentUser(),
        conf,
        NetUtils.getDefaultSocketFactory(conf),
        silenceMs);
  }

  /** Makes Hadoop's RPC serialize arguments by itself, without generated classes. */
  @SuppressWarnings("deprecation") // For new protocols of Hadoop's own, which generate them.
  private static void useEngine(Configuration conf) {
    RPC.setProtocolEngine(
        conf, PeerProtocol.class, org.apache.hadoop.ipc.WritableRpcEngine.class);
  }

  /** Makes a server of this process ready for {@link PeerProtocol}. */
  @SuppressWarnings("deprecation") // As above.
  static void makeEngineReady() {
    org.apache.hadoop.ipc.WritableRpcEngine.ensureInitialized();
  }

  private static long[] part(long[] of, int from, int to) {
    return Arrays.copyOfRange(of, from, to);
  }

  private interface Call<T> {
    T run() throws IOException;
  }

  /** Makes a call, and repeats it if the connection was to a node that was restarted since. */
  private static <T> T call(Call<T> call) throws IOException {
    try {
      return call.run();
    } catch (EOFException stale) {
      return call.run();
    }
  }

  /** See {@link PeerProtocol#counts}. */
  long[] counts(long[] blocks) throws IOException {
    long[] all = new long[blocks.length];
    for (int i = 0; i < blocks.length; i += ITEMS_MOST) {
      int end = Math.min(blocks.length, i + ITEMS_MOST);
      long[] part = part(blocks, i, end);
      long[] some = (long[]) call(() -> proxy.counts(part)).get();
      System.arraycopy(some, 0, all, i, end - i);
    }
    return all;
  }

  /**
   * For each entry the generation of the version, live or kept, whose first bytes are its content;
   * {@link #NONE} if the disk has no such version.
   */
  long[] generations(long[] blocks, long[] generations, long[] lengths) throws IOException {
    long[] all = new long[blocks.length];
    for (int i = 0; i < blocks.length; i += ITEMS_MOST) {
      int end = Math.min(blocks.length, i + ITEMS_MOST);
      long[] ids = part(blocks, i, end);
      long[] ofThem = part(generations, i, end);
      long[] bytes = part(lengths, i, end);
      long[] some = (long[]) call(() -> proxy.versions(ids, ofThem, bytes)).get();
      System.arraycopy(some, 0, all, i, end - i);
    }
    return all;
  }

  /** See {@link PeerProtocol#places}: the numbers of each block. */
  List<long[]> places(long[] blocks) throws IOException {
    List<long[]> all = new ArrayList<>();
    int numbers = PeerProtocol.PLACE_NUMBERS;
    for (int i = 0; i < blocks.length; i += ITEMS_MOST) {
      long[] part = part(blocks, i, Math.min(blocks.length, i + ITEMS_MOST));
      long[] some = (long[]) call(() -> proxy.places(part)).get();
      for (int one = 0; one < part.length; one++) {
        all.add(part(some, numbers * one, numbers * (one + 1)));
      }
    }
    return all;
  }

  /** Fills a buffer with bytes of an entry's content from an offset on; at most a mebibyte. */
  void read(long block, long generation, long length, long offset, ByteBuffer to)
      throws IOException {
    int bytes = to.remaining();
    to.put((byte[]) call(() -> proxy.read(block, generation, length, offset, bytes)).get());
  }

  /** Fills a buffer with the sum of terms from an offset on. */
  void sum(Order.Terms terms, long offset, ByteBuffer to) throws IOException {
    int bytes = to.remaining();
    long end = System.nanoTime() + SUM_SILENCE_MS * 1_000_000L;
    while (true) {
      byte[] sum = (byte[]) call(() -> patient.sum(terms, offset, bytes)).get();
      if (sum.length == bytes) {
        to.put(sum);
        return;
      }
      if (System.nanoTime() > end) {
        throw new IOException("the node makes other sums for too long");
      }
      try {
        Thread.sleep(BUSY_MS);
      } catch (InterruptedException interrupted) {
        Thread.currentThread().interrupt();
        throw new IOException("interrupted");
      }
    }
  }

  /** Fills a buffer with parity of a row of the node's own add-on. */
  void parity(int row, long offset, ByteBuffer to) throws IOException {
    int bytes = to.remaining();
    to.put((byte[]) call(() -> proxy.parity(row, offset, bytes)).get());
  }

  /** See {@link PeerProtocol#rebuild}. */
  String[] rebuild(Order order) throws IOException {
    return call(() -> proxy.rebuild(order));
  }

  /** The state of disk and add-on, by name. */
  Map<String, String> status() throws IOException {
    String[] pairs = call(proxy::status);
    Map<String, String> status = new LinkedHashMap<>();
    for (int i = 0; i + 1 < pairs.length; i += 2) {
      status.put(pairs[i], pairs[i + 1]);
    }
    return status;
  }

  /** The complete replicas. */
  List<long[]> replicas() throws IOException {
    return all(proxy::replicas, PeerProtocol.REPLICA_NUMBERS);
  }

  /** The entries of the add-on. */
  List<Entry> entries() throws IOException {
    List<Entry> entries = new ArrayList<>();
    for (long[] one : all(proxy::entries, PeerProtocol.ENTRY_NUMBERS)) {
      entries.add(new Entry(one[0], one[1], one[2], (int) one[3], (int) one[4], (int) one[5]));
    }
    return entries;
  }

  private interface Page {
    ArrayPrimitiveWritable of(long above, int most) throws IOException;
  }

  private static List<long[]> all(Page page, int numbers) throws IOException {
    List<long[]> all = new ArrayList<>();
    long above = Long.MIN_VALUE;
    while (true) {
      long from = above;
      long[] some = (long[]) call(() -> page.of(from, ITEMS_MOST)).get();
      for (int i = 0; i + numbers <= some.length; i += numbers) {
        all.add(part(some, i, i + numbers));
      }
      if (some.length < numbers * ITEMS_MOST) {
        return all;
      }
      above = some[some.length - numbers];
    }
  }

  /** See {@link PeerProtocol#forget}. */
  int forget() throws IOException {
    return call(proxy::forget);
  }

  /** See {@link PeerProtocol#reportBlocks}. */
  void reportBlocks() throws IOException {
    proxy.reportBlocks();
  }

  @Override
  public void close() {
    RPC.stopProxy(proxy);
    RPC.stopProxy(patient);
  }
}
