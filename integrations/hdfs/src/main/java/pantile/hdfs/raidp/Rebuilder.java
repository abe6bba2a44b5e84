package pantile.hdfs.raidp;

import java.io.Closeable;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.zip.CRC32;
import org.apache.hadoop.hdfs.BlockReader;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo;
import org.apache.hadoop.hdfs.protocol.ExtendedBlock;
import org.apache.hadoop.hdfs.util.DataTransferThrottler;
import org.apache.hadoop.security.token.Token;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import pantile.hdfs.Equations;
import pantile.hdfs.RaidpCode;
import pantile.hdfs.Replica;

/**
 * Carries out steps of a plan: reads rows and mirrors window by window, solves, and gives the
 * rebuilt blocks to DataNodes.
 *
 * <p>For several threads. Memory: for each step that runs, at most {@link #STEP_BYTES} and the
 * packets of its connections, of which there are at most {@link #STREAMS_MOST}.
 */
final class Rebuilder implements Closeable {
  private static final Logger LOG = LoggerFactory.getLogger(Rebuilder.class);

  /** Of each row at a time. */
  private static final int WINDOW_BYTES = 128 * 1024;

  private static final int STEP_BYTES = 64 << 20;

  /** Connections of a step to mirrors; a step that reads more of them asks the nodes for pieces. */
  private static final int STREAMS_MOST = 64;

  /** No disk that a block belongs to has a live node; to try again at once is of no use. */
  static final class NoNode extends IOException {
    private static final long serialVersionUID = 1;

    NoNode(String what) {
      super(what);
    }
  }

  /** A mirror could not be read. */
  static final class Unreadable extends IOException {
    private static final long serialVersionUID = 1;

    final Entry entry;

    Unreadable(Entry entry, String why, IOException cause) {
      super(entry + ": " + why, cause);
      this.entry = entry;
    }
  }

  /** Error: the rebuilt block differs from the lost one. */
  static final class Wrong extends IOException {
    private static final long serialVersionUID = 1;

    Wrong(String what) {
      super(what);
    }
  }

  final AtomicLong bytesFromMirrors = new AtomicLong();
  final AtomicLong bytesFromAddOns = new AtomicLong();
  final AtomicLong bytesWritten = new AtomicLong();

  private final DistributedFileSystem files;
  private final RaidpCode code;
  private final RecoveryPlan.Weights weights;
  private final Map<Integer, AddOn> addOns;
  private final DataTransferThrottler throttle;

  /** One connection to each node, for content that is no replica any more. */
  private final Map<String, Peer> peers = new ConcurrentHashMap<>();

  private volatile Nodes nodes;
  private volatile Sources sources;
  private volatile Map<Long, Missing> missing;

  /** The throttle may be null: as fast as it goes. */
  Rebuilder(
      DistributedFileSystem files,
      RaidpCode code,
      RecoveryPlan.Weights weights,
      Map<Integer, AddOn> addOns,
      DataTransferThrottler throttle) {
    this.files = files;
    this.code = code;
    this.weights = weights;
    this.addOns = addOns;
    this.throttle = throttle;
  }

  /** Sets the known nodes and blocks, for the next steps. */
  void look(Nodes nodes, Sources sources, Map<Long, Missing> missing) {
    this.nodes = nodes;
    this.sources = sources;
    this.missing = missing;
  }

  /** Returns a connection to a node. */
  Peer peer(DatanodeInfo node) throws IOException {
    String address = node.getIpcAddr(false);
    Peer peer = peers.get(address);
    if (peer == null) {
      peer = Peer.of(node, files.getConf());
      Peer other = peers.putIfAbsent(address, peer);
      if (other != null) {
        peer.close();
        peer = other;
      }
    }
    return peer;
  }

  @Override
  public void close() {
    peers.values().forEach(Peer::close);
  }

  /**
   * Rebuilds the wanted blocks of a step.
   *
   * @param streams true to read live replicas as clients do, false to have nodes look for each
   *     piece, which is slow and sees what was changed meanwhile.
   * @throws IOException if anything is in the way; nothing of it is left.
   */
  void run(RecoveryPlan.Step step, boolean streams) throws IOException {
    Deque<Closeable> open = new ArrayDeque<>();
    try {
      run(step, streams, open);
    } finally {
      closeAll(open);
    }
  }

  private void run(RecoveryPlan.Step step, boolean streams, Deque<Closeable> open) throws IOException {
    int count = step.unknowns.size();
    int rows = step.rows.size();
    int most = Math.min(WINDOW_BYTES, STEP_BYTES / (count + rows + 1));
    Equations equations = new Equations(count, step.sums(weights));
    open.push(equations::close);
    int known = step.rows.stream().mapToInt(row -> row.known.size()).sum();
    List<List<Mirror>> mirrors = new ArrayList<>();
    for (RecoveryPlan.Row row : step.rows) {
      List<Mirror> ofRow = new ArrayList<>();
      for (Entry entry : row.known) {
        Mirror mirror = new Mirror(row.disk, entry, streams && known <= STREAMS_MOST);
        ofRow.add(mirror);
        open.push(mirror);
      }
      mirrors.add(ofRow);
    }
    List<Target> targets = new ArrayList<>();
    for (RecoveryPlan.Unknown unknown : step.unknowns) {
      Target target = unknown.wanted ? new Target(unknown, open) : null;
      targets.add(target);
    }
    ByteBuffer sums = ByteBuffer.allocateDirect(rows * most);
    ByteBuffer unknowns = ByteBuffer.allocateDirect(count * most);
    ByteBuffer content = ByteBuffer.allocateDirect(most);
    long length = step.length();
    for (long offset = 0; offset < length; offset += most) {
      int bytes = (int) Math.min(most, length - offset);
      for (int r = 0; r < rows; r++) {
        sum(step.rows.get(r), mirrors.get(r), offset, window(sums, r, bytes), content);
      }
      equations.solve(unknowns, sums, bytes);
      for (int u = 0; u < count; u++) {
        if (targets.get(u) != null) {
          targets.get(u).write(offset, window(unknowns, u, bytes));
        }
      }
    }
    // None is finished before all are known to be right.
    for (Target target : targets) {
      if (target != null) {
        target.check();
      }
    }
    for (Target target : targets) {
      if (target != null) {
        target.finish();
      }
    }
  }

  /** Closes all, also after a failure, since earlier reads and writes do not depend on it. */
  private static void closeAll(Deque<Closeable> open) {
    for (Closeable one : open) {
      try {
        one.close();
      } catch (IOException error) {
        LOG.debug("a connection of a step did not close", error);
      }
    }
  }

  private static ByteBuffer window(ByteBuffer buffer, int number, int bytes) {
    ByteBuffer window = buffer.duplicate();
    window.limit((number + 1) * bytes);
    window.position(number * bytes);
    return window.slice();
  }

  /** The row's parity without its known blocks. */
  private void sum(
      RecoveryPlan.Row row, List<Mirror> mirrors, long offset, ByteBuffer sum, ByteBuffer content)
      throws IOException {
    int bytes = sum.remaining();
    addOns.get(row.disk).read(row.row, offset, sum.duplicate());
    bytesFromAddOns.addAndGet(bytes);
    take(bytes);
    for (Mirror mirror : mirrors) {
      int there = (int) Math.max(0, Math.min(bytes, mirror.entry.length - offset));
      if (there == 0) {
        continue;
      }
      content.clear();
      content.limit(there);
      mirror.read(offset, content);
      content.flip();
      bytesFromMirrors.addAndGet(there);
      take(there);
      code.fold(row.disk, mirror.entry.partner, sum, content);
    }
  }

  private void take(int bytes) {
    if (throttle != null) {
      throttle.throttle(bytes);
    }
  }

  private ExtendedBlock block(long id, long length, long generation) {
    String pool = addOns.values().iterator().next().header().pool;
    return new ExtendedBlock(pool, id, length, generation);
  }

  /** A block of a row that is not lost: on the partner's disk, or on the disk's own new one. */
  private final class Mirror implements Closeable {
    final Entry entry;
    private final DatanodeInfo node;
    private boolean streams;
    private BlockReader reader;

    Mirror(int disk, Entry entry, boolean streams) throws IOException {
      this.entry = entry;
      Sources.Source source = sources.of(entry);
      if (source == null) {
        String why =
            "disk " + entry.partner + ": " + sources.silent().get(entry.partner) + ", disk " + disk
                + ": " + sources.silent().get(disk);
        throw new Unreadable(entry, "its disks do not answer (" + why + ")", null);
      }
      node = nodes.of(source.disk);
      this.streams = streams && source.isExact;
    }

    /** Fills a buffer with the bytes from an offset on; offsets ascend. */
    void read(long offset, ByteBuffer to) throws IOException {
      if (streams) {
        try {
          stream(offset, to);
          return;
        } catch (IOException gone) {
          // It may have been deleted meanwhile, and kept.
          close();
          streams = false;
          to.position(0);
        }
      }
      try {
        peer(node).read(entry.blockId, entry.generation, entry.length, offset, to);
      } catch (IOException error) {
        throw new Unreadable(entry, error.getMessage(), error);
      }
    }

    private void stream(long offset, ByteBuffer to) throws IOException {
      if (reader == null) {
        reader =
            new Replica(
                    files,
                    node,
                    block(entry.blockId, entry.length, entry.generation),
                    new Token<>())
                .open("raidp recover", offset, entry.length - offset);
      }
      while (to.hasRemaining()) {
        if (reader.read(to) < 0) {
          throw new EOFException(entry + " ends early on " + node);
        }
      }
    }

    @Override
    public void close() throws IOException {
      BlockReader closing = reader;
      reader = null;
      if (closing != null) {
        closing.close();
      }
    }
  }

  /** Target of a rebuilt block: one of its two disks; HDFS makes the other replica. */
  private final class Target {
    private final RecoveryPlan.Unknown unknown;
    private final DatanodeInfo node;
    private final ReplicaWriter writer;
    private final ExtendedBlock block;
    private final CRC32 crc = new CRC32();

    Target(RecoveryPlan.Unknown unknown, Deque<Closeable> open) throws IOException {
      this.unknown = unknown;
      block = block(unknown.blockId, unknown.length, unknown.generation);
      RecoveryPlan.Row first = unknown.rows.get(0);
      int disk = first.disk;
      int partner = first.unknown.get(unknown).partner;
      // Spread over both nodes, where both are there.
      if (nodes.of(disk) == null || nodes.of(partner) != null && unknown.blockId % 2 == 0) {
        int other = disk;
        disk = partner;
        partner = other;
      }
      node = nodes.of(disk);
      if (node == null) {
        throw new NoNode(
            "neither disk " + disk + " nor " + partner + " has a live node; start one in the place"
                + " of one of them, with empty directories");
      }
      writer = new ReplicaWriter(files, node, nodes.storageId(disk, partner), block);
      open.push(writer);
    }

    void write(long offset, ByteBuffer content) throws IOException {
      content.limit((int) Math.max(0, Math.min(content.limit(), unknown.length - offset)));
      int bytes = content.remaining();
      crc.update(content.duplicate());
      writer.write(content);
      bytesWritten.addAndGet(bytes);
      take(bytes);
    }

    /** Parity may have changed while it was read, and mirrors may be rotten. */
    void check() throws IOException {
      if ((int) crc.getValue() != unknown.crc) {
        throw new Wrong(
            "what was rebuilt has not the CRC of " + block.getLocalBlock() + ": a row was changed"
                + " meanwhile, or one of its blocks is not what it was");
      }
    }

    /** The node does not say whether it took the block: its last byte is read back. */
    void finish() throws IOException {
      writer.finish();
      try (BlockReader reader =
          new Replica(files, node, block, new Token<>())
              .open(missing.get(unknown.blockId).file, unknown.length - 1, 1)) {
        if (reader.read(ByteBuffer.allocate(1)) != 1) {
          throw new EOFException(block + " is not on " + node + " after it was written");
        }
      }
    }
  }
}
