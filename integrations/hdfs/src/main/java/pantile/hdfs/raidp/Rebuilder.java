package pantile.hdfs.raidp;

import java.io.Closeable;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.function.IntPredicate;
import java.util.zip.CRC32;
import org.apache.hadoop.hdfs.BlockReader;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo;
import org.apache.hadoop.hdfs.protocol.ExtendedBlock;
import org.apache.hadoop.hdfs.util.DataTransferThrottler;
import org.apache.hadoop.ipc.RemoteException;
import org.apache.hadoop.security.token.Token;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import pantile.hdfs.Equations;
import pantile.hdfs.RaidpCode;
import pantile.hdfs.Replica;

/**
 * Carries out orders, on a DataNode or in the command: sums rows up window by window, solves them,
 * and writes the lost blocks to DataNodes.
 *
 * <p>The nodes that have a row's blocks share its sums: each node computes one part of the window
 * from the blocks of all nodes, and sends that partial sum. So for a row of n blocks each node
 * sends and receives about one block, and the node that rebuilds receives one.
 *
 * <p>Safe for several threads. Memory: for each order that runs at most {@link #ORDER_BYTES}, and
 * for each sum {@link #READS_MOST} times {@link #PART_BYTES}.
 */
final class Rebuilder implements Closeable {
  private static final Logger LOG = LoggerFactory.getLogger(Rebuilder.class);

  /** The bytes of a partial sum, which is one answer of a node. */
  private static final int PART_BYTES = 256 * 1024;

  /** The terms that are read at once. */
  private static final int READS_MOST = 16;

  /** The parts begin at multiples of this number, at which HDFS's checksums begin. */
  private static final int PART_STEP = 4096;

  private static final int ORDER_BYTES = 16 << 20;

  /** Reads bytes of a term. */
  interface Reading {
    void read(Order.Term term, long offset, ByteBuffer to) throws IOException;
  }

  /** Opens the add-on of a row, if the order has the place of that add-on. */
  interface Opening {
    AddOn open(Order.Row row, Deque<Closeable> open) throws IOException;
  }

  private final Partners partners;
  private final RaidpCode code;
  private final String pool;
  private final Opening opening;
  private final IntPredicate isHere;
  private final ExecutorService threads =
      Executors.newCachedThreadPool(
          work -> {
            Thread thread = new Thread(work, "RAIDP sums");
            thread.setDaemon(true);
            return thread;
          });

  /** Rebuilds blocks of a pool; the node of a disk that is here sums its own blocks by itself. */
  Rebuilder(
      Partners partners, RaidpCode code, String pool, Opening opening, IntPredicate isHere) {
    this.partners = partners;
    this.code = code;
    this.pool = pool;
    this.opening = opening;
    this.isHere = isHere;
  }

  @Override
  public void close() {
    threads.shutdownNow();
  }

  /**
   * Adds a range of terms to a sum; reads some of them at once.
   *
   * @throws Outcome.Unreadable if one of them cannot be read.
   */
  void add(Reading reading, List<Order.Term> terms, long offset, ByteBuffer sum)
      throws IOException {
    int most = Math.min(sum.remaining(), PART_BYTES);
    for (int from = 0; from < sum.remaining(); from += most) {
      ByteBuffer part = part(sum, sum.position() + from, Math.min(most, sum.remaining() - from));
      for (int first = 0; first < terms.size(); first += READS_MOST) {
        int end = Math.min(terms.size(), first + READS_MOST);
        addAtOnce(reading, terms.subList(first, end), offset + from, part);
      }
    }
  }

  private void addAtOnce(
      Reading reading, List<Order.Term> terms, long offset, ByteBuffer part) throws IOException {
    Map<Order.Term, Future<ByteBuffer>> contents = new LinkedHashMap<>();
    for (Order.Term term : terms) {
      int bytes = term.bytes(offset, part.remaining());
      if (bytes > 0) {
        contents.put(term, threads.submit(() -> read(reading, term, offset, bytes)));
      }
    }
    for (Map.Entry<Order.Term, Future<ByteBuffer>> one : contents.entrySet()) {
      code.fold(one.getKey().weight, part, end(one.getValue()));
    }
  }

  private static ByteBuffer read(Reading reading, Order.Term term, long offset, int bytes)
      throws IOException {
    ByteBuffer content = ByteBuffer.allocateDirect(bytes);
    try {
      reading.read(term, offset, content);
    } catch (IOException error) {
      throw new Outcome.Unreadable(
          term.content(),
          "blk_" + term.block + "_" + term.generation + " of disk " + term.disk + ": "
              + error.getMessage(),
          error);
    }
    content.flip();
    return content;
  }

  /** Waits for what a thread does. */
  private static <T> T end(Future<T> future) throws IOException {
    try {
      return future.get();
    } catch (ExecutionException failed) {
      if (failed.getCause() instanceof IOException) {
        throw (IOException) failed.getCause();
      }
      throw new IOException(failed.getCause());
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      throw new IOException("interrupted");
    }
  }

  /** Reads a term from the node of its disk. */
  void read(Order.Term term, long offset, ByteBuffer to) throws IOException {
    try {
      partners.of(term.disk).read(term.block, term.generation, term.length, offset, to);
    } catch (RemoteException answer) {
      throw answer;
    } catch (IOException silent) {
      partners.failed(term.disk);
      throw silent;
    }
  }

  /**
   * Rebuilds the wanted blocks of an order.
   *
   * @throws IOException if anything is in the way; nothing of it is left.
   */
  Outcome run(Order order) throws IOException {
    Deque<Closeable> open = new ArrayDeque<>();
    try {
      return new Run(order, open).run();
    } finally {
      for (Closeable one : open) {
        try {
          one.close();
        } catch (IOException error) {
          // A connection that does not close changes no read or written bytes.
          LOG.debug("a connection of an order did not close", error);
        }
      }
    }
  }

  private static ByteBuffer window(ByteBuffer buffer, int number, int bytes) {
    return part(buffer, number * bytes, bytes);
  }

  private static ByteBuffer part(ByteBuffer buffer, int from, int bytes) {
    ByteBuffer part = buffer.duplicate();
    part.limit(from + bytes);
    part.position(from);
    return part.slice();
  }

  /** An order under way. */
  private final class Run {
    private final Order order;
    private final Deque<Closeable> open;
    private final DataTransferThrottler throttle;
    private final Map<Order.Row, AddOn> addOns = new LinkedHashMap<>();

    /** Nodes that failed to make a part: they are not asked for others. */
    private final Set<Integer> silent = ConcurrentHashMap.newKeySet();

    private long fromMirrors;
    private long fromAddOns;
    private long written;

    Run(Order order, Deque<Closeable> open) throws IOException {
      this.order = order;
      this.open = open;
      throttle =
          order.bytesPerSecond == 0 ? null : new DataTransferThrottler(order.bytesPerSecond);
      for (Order.Row row : order.rows) {
        if (!row.place.isEmpty()) {
          addOns.put(row, opening.open(row, open));
        }
      }
    }

    Outcome run() throws IOException {
      int count = order.unknowns.size();
      int rows = order.rows.size();
      List<Map<Integer, Integer>> system = new ArrayList<>();
      order.rows.forEach(row -> system.add(row.unknowns));
      Equations equations = new Equations(count, system);
      open.push(equations::close);
      List<Target> targets = new ArrayList<>();
      for (Order.Unknown unknown : order.unknowns) {
        targets.add(unknown.isWanted ? new Target(unknown) : null);
      }
      int nodes = order.rows.stream().mapToInt(row -> row.known.all.size()).max().orElse(0);
      int most =
          Math.min(Math.max(1, nodes) * PART_BYTES, ORDER_BYTES / (count + rows + 1))
              / PART_STEP * PART_STEP;
      ByteBuffer sums = ByteBuffer.allocateDirect(rows * most);
      ByteBuffer unknowns = ByteBuffer.allocateDirect(count * most);
      long length = order.length();
      for (long offset = 0; offset < length; offset += most) {
        int bytes = (int) Math.min(most, length - offset);
        for (int r = 0; r < rows; r++) {
          sum(order.rows.get(r), offset, window(sums, r, bytes));
        }
        equations.solve(unknowns, sums, bytes);
        for (int u = 0; u < count; u++) {
          if (targets.get(u) != null) {
            targets.get(u).write(offset, window(unknowns, u, bytes));
          }
        }
      }
      // No target is finished before all targets are known to be right.
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
      return new Outcome(fromMirrors, fromAddOns, written);
    }

    private void take(int bytes) {
      if (throttle != null) {
        throttle.throttle(bytes);
      }
    }

    /** Fills a window with a row's parity minus its known blocks. */
    private void sum(Order.Row row, long offset, ByteBuffer sum) throws IOException {
      int bytes = sum.remaining();
      List<Order.Term> here = new ArrayList<>();
      List<Order.Term> away = new ArrayList<>();
      for (Order.Term term : row.known.all) {
        int some = term.bytes(offset, bytes);
        if (some > 0) {
          (isHere.test(term.disk) ? here : away).add(term);
          fromMirrors += some;
          take(some);
        }
      }
      sum.put(new byte[bytes]);
      sum.clear();
      List<Future<?>> parts = share(away, offset, sum);
      ByteBuffer own = ByteBuffer.allocateDirect(bytes);
      parity(row, offset, own);
      own.clear();
      add(Rebuilder.this::read, here, offset, own);
      for (Future<?> part : parts) {
        end(part);
      }
      code.fold(1, sum, own);
    }

    /** Reads parity in pieces that add-ons take. */
    private void parity(Order.Row row, long offset, ByteBuffer to) throws IOException {
      int bytes = to.remaining();
      for (int done = 0; done < bytes; done += AddOn.BYTES_MOST) {
        ByteBuffer piece = part(to, done, Math.min(AddOn.BYTES_MOST, bytes - done));
        if (row.place.isEmpty()) {
          partners.of(row.disk).parity(row.row, offset + done, piece);
        } else {
          addOns.get(row).read(row.row, offset + done, piece);
        }
      }
      fromAddOns += bytes;
      take(bytes);
    }

    /** Has the nodes of terms each make a part of a window. */
    private List<Future<?>> share(List<Order.Term> terms, long offset, ByteBuffer sum) {
      Set<Integer> nodes = new TreeSet<>();
      terms.forEach(term -> nodes.add(term.disk));
      nodes.removeAll(silent);
      List<Future<?>> parts = new ArrayList<>();
      if (terms.isEmpty()) {
        return parts;
      }
      int bytes = sum.remaining();
      int each =
          Math.min(
              (bytes / Math.max(1, nodes.size()) + PART_STEP) / PART_STEP * PART_STEP,
              AddOn.BYTES_MOST);
      List<Integer> turns = new ArrayList<>(nodes);
      Order.Terms all = new Order.Terms(terms);
      for (int from = 0; from < bytes; from += each) {
        Integer node = turns.isEmpty() ? null : turns.get(from / each % turns.size());
        ByteBuffer part = part(sum, from, Math.min(each, bytes - from));
        long at = offset + from;
        parts.add(
            threads.submit(
                () -> {
                  partOf(all, at, part, node);
                  return null;
                }));
      }
      return parts;
    }

    /** Has a node make a part; makes it here if the node is null or fails. */
    private void partOf(Order.Terms terms, long offset, ByteBuffer part, Integer node)
        throws IOException {
      if (node != null) {
        try {
          partners.of(node).sum(terms, offset, part.duplicate());
          return;
        } catch (IOException error) {
          LOG.info("RAIDP: disk {} makes no sum: {}", node, error.getMessage());
          silent.add(node);
        }
      }
      part.put(new byte[part.remaining()]);
      part.clear();
      add(Rebuilder.this::read, terms.all, offset, part);
    }

    /** The storage that a rebuilt block goes to; HDFS makes the other replica. */
    private final class Target {
      private final Order.Unknown unknown;
      private final DatanodeInfo node;
      private final ReplicaWriter writer;
      private final ExtendedBlock block;
      private final CRC32 crc = new CRC32();

      Target(Order.Unknown unknown) throws IOException {
        this.unknown = unknown;
        block = new ExtendedBlock(pool, unknown.block, unknown.length, unknown.generation);
        node = partners.node(unknown.disk);
        String storage = partners.storage(unknown.disk, unknown.partner).toString();
        writer = new ReplicaWriter(partners.files(), node, storage, block);
        open.push(writer);
      }

      void write(long offset, ByteBuffer content) throws IOException {
        content.limit((int) Math.max(0, Math.min(content.limit(), unknown.length - offset)));
        int bytes = content.remaining();
        crc.update(content.duplicate());
        writer.write(content);
        written += bytes;
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

      /**
       * Finishes the block. The node does not report whether it accepted the block, so its last
       * byte is read back.
       */
      void finish() throws IOException {
        writer.finish();
        try (BlockReader reader =
            new Replica(partners.files(), node, block, new Token<>())
                .open("raidp recover", unknown.length - 1, 1)) {
          if (reader.read(ByteBuffer.allocate(1)) != 1) {
            throw new EOFException(block + " is not on " + node + " after it was written");
          }
        }
      }
    }
  }
}
