package pantile.hdfs.raidp;

import java.io.Closeable;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Comparator;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.Semaphore;
import java.util.function.IntSupplier;
import java.util.stream.Collectors;
import javax.management.ObjectName;
import org.apache.hadoop.hdfs.DFSConfigKeys;
import org.apache.hadoop.hdfs.client.BlockReportOptions;
import org.apache.hadoop.hdfs.server.datanode.DataNode;
import org.apache.hadoop.io.ArrayPrimitiveWritable;
import org.apache.hadoop.ipc.ProtocolSignature;
import org.apache.hadoop.ipc.RPC;
import org.apache.hadoop.ipc.Server;
import org.apache.hadoop.metrics2.util.MBeans;
import org.apache.hadoop.security.AccessControlException;
import org.apache.hadoop.security.UserGroupInformation;
import pantile.hdfs.RaidpCode;

/** Answers other nodes of the array and JMX about a disk and its add-on. */
public final class PeerServer implements PeerProtocol, RaidpMXBean, Closeable {
  private static final long FRESH_NS = 60_000_000_000L;

  private final DataNode node;
  private final Settings settings;
  private final String pool;
  private final Keeper keeper;
  private final DiskReplicas replicas;
  private final Releasing releasing;
  private final IntSupplier waiting;
  private final Rebuilder rebuilder;
  private final Orders orders;

  /** Permits for sums at a time; the other threads of the IPC server stay free for reads. */
  private final Semaphore sums;

  private int absent;
  private long absentSince;
  private ObjectName bean;
  private volatile boolean closed;

  PeerServer(
      DataNode node,
      Settings settings,
      String pool,
      Keeper keeper,
      DiskReplicas replicas,
      Releasing releasing,
      Partners partners,
      IntSupplier waiting) {
    this.node = node;
    this.settings = settings;
    this.pool = pool;
    this.keeper = keeper;
    this.replicas = replicas;
    this.releasing = releasing;
    this.waiting = waiting;
    rebuilder =
        new Rebuilder(
            partners, RaidpCode.of(settings.disks), pool, PeerServer::addOn, disk -> disk == settings.disk);
    orders = new Orders(rebuilder);
    int threads =
        node.getConf()
            .getInt(
                DFSConfigKeys.DFS_DATANODE_HANDLER_COUNT_KEY,
                DFSConfigKeys.DFS_DATANODE_HANDLER_COUNT_DEFAULT);
    sums = new Semaphore(Math.max(1, threads / 3));
  }

  void begin() {
    Peer.makeEngineReady();
    node.ipcServer.addProtocol(RPC.RpcKind.RPC_WRITABLE, PeerProtocol.class, this);
    bean = MBeans.register("DataNode", "RaidpDisk-" + settings.array + "-" + settings.disk, this);
  }

  private void requireOpen() throws IOException {
    if (closed) {
      throw new IOException("disk " + settings.disk + " is closed");
    }
  }

  @Override
  public ArrayPrimitiveWritable counts(long[] blocks) throws IOException {
    requireOpen();
    long[] counts = new long[blocks.length];
    for (int i = 0; i < blocks.length; i++) {
      counts[i] = keeper.counts(blocks[i]);
    }
    return new ArrayPrimitiveWritable(counts);
  }

  @Override
  public ArrayPrimitiveWritable places(long[] blocks) throws IOException {
    requireOpen();
    long[] places = new long[PLACE_NUMBERS * blocks.length];
    for (int i = 0; i < blocks.length; i++) {
      Held held = replicas.get(blocks[i]);
      boolean isHome = held != null && held.partner() != settings.disk;
      places[PLACE_NUMBERS * i] = isHome ? held.partner() : keeper.partnerOf(blocks[i]);
      places[PLACE_NUMBERS * i + 1] = isHome ? 1 : 0;
    }
    return new ArrayPrimitiveWritable(places);
  }

  private Held version(long block, long generation, long length) {
    return Kept.version(replicas.get(block), replicas.kept(block), generation, length);
  }

  @Override
  public ArrayPrimitiveWritable versions(long[] blocks, long[] generations, long[] lengths)
      throws IOException {
    requireOpen();
    long[] versions = new long[blocks.length];
    for (int i = 0; i < blocks.length; i++) {
      Held held = version(blocks[i], generations[i], lengths[i]);
      versions[i] = held == null ? Peer.NONE : held.generation();
    }
    return new ArrayPrimitiveWritable(versions);
  }

  @Override
  public ArrayPrimitiveWritable read(
      long block, long generation, long length, long offset, int bytes) throws IOException {
    requireOpen();
    if (offset < 0 || bytes < 0 || bytes > AddOn.BYTES_MOST || offset + bytes > length) {
      throw new IOException("bytes " + offset + " to " + (offset + bytes) + " of " + length);
    }
    Held held = version(block, generation, length);
    if (held == null) {
      throw new FileNotFoundException(
          "disk " + settings.disk + " has no version of blk_" + block + "_" + generation + " of "
              + length + " bytes");
    }
    ByteBuffer to = ByteBuffer.allocate(bytes);
    try (BlockReader reader = new BlockReader(held, offset, offset + bytes)) {
      while (to.hasRemaining()) {
        ByteBuffer piece = reader.next();
        piece.position((int) Math.max(0, offset - reader.offset()));
        to.put(piece);
      }
    }
    return new ArrayPrimitiveWritable(to.array());
  }

  private void read(Order.Term term, long offset, ByteBuffer to) throws IOException {
    if (term.disk == settings.disk) {
      int bytes = to.remaining();
      to.put((byte[]) read(term.block, term.generation, term.length, offset, bytes).get());
    } else {
      rebuilder.read(term, offset, to);
    }
  }

  @Override
  public ArrayPrimitiveWritable sum(Order.Terms terms, long offset, int bytes)
      throws IOException {
    requireOpen();
    requireBytes(offset, bytes);
    if (!sums.tryAcquire()) {
      return new ArrayPrimitiveWritable(new byte[0]);
    }
    try {
      // Each node begins with its own block, so that not all ask the same one first.
      List<Order.Term> turned = new ArrayList<>(terms.all);
      turned.sort(
          Comparator.comparingInt(
              term -> Math.floorMod(term.disk - settings.disk, settings.disks)));
      ByteBuffer sum = ByteBuffer.allocateDirect(bytes);
      rebuilder.add(this::read, turned, offset, sum);
      byte[] content = new byte[bytes];
      sum.get(content);
      return new ArrayPrimitiveWritable(content);
    } finally {
      sums.release();
    }
  }

  @Override
  public ArrayPrimitiveWritable parity(int row, long offset, int bytes) throws IOException {
    requireOpen();
    requireBytes(offset, bytes);
    ByteBuffer parity = ByteBuffer.allocate(bytes);
    keeper.parity(row, offset, parity);
    return new ArrayPrimitiveWritable(parity.array());
  }

  private static void requireBytes(long offset, int bytes) throws IOException {
    if (offset < 0 || bytes < 0 || bytes > AddOn.BYTES_MOST) {
      throw new IOException(
          bytes + " bytes from " + offset + " on; a call moves at most " + AddOn.BYTES_MOST);
    }
  }

  /** Opens an add-on that a server keeps, for an order. */
  private static AddOn addOn(Order.Row row, Deque<Closeable> open) throws IOException {
    if (row.place.startsWith("/")) {
      throw new IOException(row.place + " is a folder of another node");
    }
    AddOn addOn = AddOns.read(row.place, row.disk);
    open.push(addOn);
    return addOn;
  }

  @Override
  public String[] rebuild(Order order) throws IOException {
    requireOpen();
    requireOwnUser();
    return orders.start(order);
  }

  @Override
  public String[] status() throws IOException {
    requireOpen();
    List<String> pairs = new ArrayList<>();
    Collections.addAll(pairs, "array", settings.array, "pool", pool);
    Collections.addAll(pairs, "disks", "" + settings.disks, "disk", "" + settings.disk);
    Collections.addAll(pairs, "add-on", settings.addOn, "state", getAddOnState());
    Collections.addAll(pairs, "parity", "" + getBlocksInParity());
    Collections.addAll(pairs, "behind", "" + getBlocksBehind());
    Collections.addAll(pairs, "spare", "" + keeper.spares().size());
    Collections.addAll(pairs, "absent", "" + keeper.absent());
    Collections.addAll(pairs, "kept", "" + getKeptCopies(), "kept-bytes", "" + getKeptBytes());
    Collections.addAll(pairs, "waiting", "" + getDeletesWaiting());
    return pairs.toArray(new String[0]);
  }

  private static ArrayPrimitiveWritable page(List<long[]> items, long above, int most) {
    int bound = Math.max(1, Math.min(most, Peer.ITEMS_MOST));
    List<long[]> some =
        items.stream()
            .filter(item -> item[0] > above)
            .sorted(Comparator.comparingLong(item -> item[0]))
            .limit(bound)
            .collect(Collectors.toList());
    return new ArrayPrimitiveWritable(some.stream().flatMapToLong(Arrays::stream).toArray());
  }

  @Override
  public ArrayPrimitiveWritable replicas(long above, int most) throws IOException {
    requireOpen();
    List<long[]> items = new ArrayList<>();
    for (long block : replicas.finalized()) {
      Held held = replicas.get(block);
      if (held != null) {
        items.add(new long[] {block, held.generation(), held.length(), held.partner()});
      }
    }
    return page(items, above, most);
  }

  @Override
  public ArrayPrimitiveWritable entries(long above, int most) throws IOException {
    requireOpen();
    List<long[]> items = new ArrayList<>();
    for (Entry one : keeper.entries()) {
      items.add(
          new long[] {
            one.blockId, one.generation, one.length, one.partner, one.row, one.crc
          });
    }
    return page(items, above, most);
  }

  /** Refuses users other than the DataNode's. */
  private static void requireOwnUser() throws IOException {
    String asks = Server.getRemoteUser() == null ? null : Server.getRemoteUser().getShortUserName();
    String own = UserGroupInformation.getLoginUser().getShortUserName();
    if (!own.equals(asks)) {
      throw new AccessControlException(asks + " is not " + own + ", the DataNode's user");
    }
  }

  @Override
  public int forget() throws IOException {
    requireOpen();
    requireOwnUser();
    return keeper.forget();
  }

  @Override
  public void reportBlocks() throws IOException {
    requireOpen();
    requireOwnUser();
    node.triggerBlockReport(new BlockReportOptions.Factory().setIncremental(false).build());
  }

  @Override
  public long getProtocolVersion(String protocol, long clientVersion) {
    return PeerProtocol.versionID;
  }

  @Override
  public ProtocolSignature getProtocolSignature(
      String protocol, long clientVersion, int clientMethodsHash) throws IOException {
    return ProtocolSignature.getProtocolSignature(this, protocol, clientVersion, clientMethodsHash);
  }

  @Override
  public String getArray() {
    return settings.array;
  }

  @Override
  public int getDisk() {
    return settings.disk;
  }

  @Override
  public String getAddOnState() {
    String fault = keeper.fault();
    return fault == null ? "works" : fault;
  }

  @Override
  public boolean isCurrent() {
    return keeper.isCurrent();
  }

  @Override
  public int getBlocksInParity() {
    return keeper.inParity();
  }

  @Override
  public int getBlocksBehind() {
    return keeper.behind();
  }

  /**
   * Returns the number, which is computed at most once a minute, because all entries are looked up.
   */
  @Override
  public synchronized int getBlocksInParityAlone() {
    if (absentSince == 0 || System.nanoTime() - absentSince > FRESH_NS) {
      absent = keeper.absent();
      absentSince = System.nanoTime();
    }
    return absent;
  }

  @Override
  public int getKeptCopies() {
    return replicas.kept.all().size();
  }

  @Override
  public long getKeptBytes() {
    return replicas.kept.all().stream().mapToLong(Held::length).sum();
  }

  @Override
  public String getPartnersThatDoNotAnswer() {
    return releasing.silent();
  }

  @Override
  public int getDeletesWaiting() {
    return waiting.getAsInt();
  }

  @Override
  public void close() {
    closed = true;
    orders.close();
    if (bean != null) {
      MBeans.unregister(bean);
    }
  }
}
