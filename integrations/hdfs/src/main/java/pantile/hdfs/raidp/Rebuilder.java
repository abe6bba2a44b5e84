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
import java.util.concurrent.atomic.AtomicLong;
import java.util.zip.CRC32;
import org.apache.hadoop.hdfs.BlockReader;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo;
import org.apache.hadoop.hdfs.protocol.ExtendedBlock;
import org.apache.hadoop.hdfs.util.DataTransferThrottler;
import org.apache.hadoop.security.token.Token;
import pantile.hdfs.Equations;
import pantile.hdfs.RaidpCode;
import pantile.hdfs.Replica;

/**
 * Carries out steps of a plan: reads rows and mirrors window by window, solves, and gives what was
 * lost to DataNodes.
 *
 * <p>For several threads. Memory: for each step that runs, at most {@link #STEP_BYTES} and the
 * packets of its connections: one to each mirror of its rows.
 */
final class Rebuilder {
  /** Of each row at a time. */
  private static final int WINDOW_BYTES = 128 * 1024;

  private static final int STEP_BYTES = 64 << 20;

  /** A block of a row that no node has any more: it was deleted since its disk failed. */
  static final class Deleted extends IOException {
    private static final long serialVersionUID = 1;

    final long blockId;

    Deleted(Entry entry) {
      super("no node has " + entry + " any more: it was deleted after its disk failed");
      blockId = entry.blockId;
    }
  }

  final AtomicLong bytesFromMirrors = new AtomicLong();
  final AtomicLong bytesFromAddOns = new AtomicLong();
  final AtomicLong bytesWritten = new AtomicLong();

  private final DistributedFileSystem files;
  private final RaidpCode code;
  private final RecoveryPlan.Weights weights;
  private final Nodes nodes;
  private final Map<Integer, AddOn> addOns;
  private final Map<Long, Missing> missing;
  private final DataTransferThrottler throttle;

  /** The throttle may be null: as fast as it goes. */
  Rebuilder(
      DistributedFileSystem files,
      RaidpCode code,
      RecoveryPlan.Weights weights,
      Nodes nodes,
      Map<Integer, AddOn> addOns,
      Map<Long, Missing> missing,
      DataTransferThrottler throttle) {
    this.files = files;
    this.code = code;
    this.weights = weights;
    this.nodes = nodes;
    this.addOns = addOns;
    this.missing = missing;
    this.throttle = throttle;
  }

  /**
   * Rebuilds the wanted blocks of a step.
   *
   * @throws Deleted if a row has a block that is nowhere any more.
   * @throws IOException if anything else is in the way; nothing of it is left.
   */
  void run(RecoveryPlan.Step step) throws IOException {
    Deque<Closeable> open = new ArrayDeque<>();
    try {
      run(step, open);
    } finally {
      for (Closeable one : open) {
        one.close();
      }
    }
  }

  private void run(RecoveryPlan.Step step, Deque<Closeable> open) throws IOException {
    int count = step.unknowns.size();
    int rows = step.rows.size();
    int most = Math.min(WINDOW_BYTES, STEP_BYTES / (count + rows + 1));
    Equations equations = new Equations(count, step.sums(weights));
    open.push(equations::close);
    List<List<Mirror>> mirrors = new ArrayList<>();
    for (RecoveryPlan.Row row : step.rows) {
      List<Mirror> ofRow = new ArrayList<>();
      for (Entry entry : row.known) {
        Mirror mirror = new Mirror(row.disk, entry);
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

  /** A block of a row that is not lost: on the partner's node, or on the disk's own new one. */
  private final class Mirror implements Closeable {
    final Entry entry;
    private final List<DatanodeInfo> places = new ArrayList<>();
    private BlockReader reader;
    private boolean isNowhere = true;

    Mirror(int disk, Entry entry) throws IOException {
      this.entry = entry;
      for (int one : new int[] {entry.partner, disk}) {
        if (nodes.of(one) != null) {
          places.add(nodes.of(one));
        }
      }
      if (places.isEmpty()) {
        throw new IOException(
            "neither disk " + disk + " nor " + entry.partner + " has a live node, for " + entry);
      }
    }

    /** Fills a buffer with the bytes from an offset on; offsets ascend. */
    void read(long offset, ByteBuffer to) throws IOException {
      while (true) {
        try {
          if (reader == null) {
            reader =
                new Replica(
                        files,
                        places.get(0),
                        block(entry.blockId, entry.length, entry.generation),
                        new Token<>())
                    .open("raidp recover", offset, entry.length - offset);
          }
          while (to.hasRemaining()) {
            if (reader.read(to) < 0) {
              throw new EOFException(entry + " ends early on " + places.get(0));
            }
          }
          isNowhere = false;
          return;
        } catch (IOException why) {
          close();
          to.position(0);
          isNowhere &= String.valueOf(why.getMessage()).contains("ReplicaNotFoundException");
          places.remove(0);
          if (places.isEmpty()) {
            throw isNowhere ? new Deleted(entry) : why;
          }
        }
      }
    }

    @Override
    public void close() throws IOException {
      if (reader != null) {
        reader.close();
        reader = null;
      }
    }
  }

  /** Where a rebuilt block goes: one of its two disks; HDFS makes the other replica. */
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
        throw new IOException(
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
        throw new IOException(
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
