package pantile.hdfs.raidp;

import java.util.concurrent.TimeUnit;

/**
 * Has copies to a disk's spare wait while a recovery uses the node: blocks without a replica come
 * before blocks with one.
 *
 * <p>For several threads.
 */
final class RightOfWay {
  /** A recovery that asks for nothing so long is over, or elsewhere. */
  private static final long RECENT_NS = TimeUnit.SECONDS.toNanos(1);

  /** The longest wait of a copy; its sender and the NameNode wait for longer. */
  private static final long WAIT_NS_MOST = TimeUnit.SECONDS.toNanos(20);

  private static final int STEP_MS = 50;

  private volatile long used = System.nanoTime() - RECENT_NS;

  /** A recovery asks the node for something. */
  void use() {
    used = System.nanoTime();
  }

  /** Waits while a recovery uses the node, a bounded time. */
  void give() {
    long end = System.nanoTime() + WAIT_NS_MOST;
    try {
      while (System.nanoTime() - used < RECENT_NS && System.nanoTime() < end) {
        Thread.sleep(STEP_MS);
      }
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
    }
  }
}
