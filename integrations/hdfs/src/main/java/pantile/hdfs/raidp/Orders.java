package pantile.hdfs.raidp;

import java.io.Closeable;
import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/**
 * The orders of recoveries that a DataNode carries out, a few at a time.
 *
 * <p>They are only in memory: a node that is restarted knows none, and gets them again. An order
 * goes on when its command ends. Safe for several threads.
 */
final class Orders implements Closeable {
  /** The orders carried out at a time; others wait. */
  private static final int AT_A_TIME = 4;

  /** The orders that wait, run or ended lately, at most. */
  private static final int MOST = 256;

  /** The time for which the end of an order can be asked for. */
  private static final long KNOWN_NS = 60_000_000_000L;

  private static final class Known {
    final Future<Outcome> future;
    long asked = System.nanoTime();

    Known(Future<Outcome> future) {
      this.future = future;
    }
  }

  private final Rebuilder rebuilder;
  private final Map<Long, Known> known = new HashMap<>();
  private final ExecutorService threads =
      Executors.newFixedThreadPool(
          AT_A_TIME,
          work -> {
            Thread thread = new Thread(work, "RAIDP order");
            thread.setDaemon(true);
            return thread;
          });

  Orders(Rebuilder rebuilder) {
    this.rebuilder = rebuilder;
  }

  /** Starts an order that is not known; returns the words of {@link Outcome} for one that is. */
  synchronized String[] start(Order order) throws IOException {
    long now = System.nanoTime();
    known.values().removeIf(one -> one.future.isDone() && now - one.asked > KNOWN_NS);
    Known one = known.get(order.number);
    if (one == null) {
      if (known.size() >= MOST) {
        throw new IOException("the node has " + MOST + " orders already; try again later");
      }
      known.put(order.number, new Known(threads.submit(() -> rebuilder.run(order))));
      return Outcome.runs();
    }
    if (!one.future.isDone()) {
      one.asked = now;
      return Outcome.runs();
    }
    try {
      return one.future.get().words();
    } catch (ExecutionException failed) {
      return Outcome.words(failed.getCause());
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      throw new IOException("interrupted");
    }
  }

  @Override
  public void close() {
    threads.shutdownNow();
    rebuilder.close();
  }
}
