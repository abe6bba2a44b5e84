package pantile.hdfs;

import java.nio.ByteBuffer;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Direct memory into which buffers on the heap are copied: a tile for each column, small enough to
 * stay in a second-level cache.
 *
 * <p>Pooled for the process, not for the thread: DataNodes have thousands of threads, few of which
 * code at a time. Bound: half a MiB for each call that runs, of which {@link #KEPT_MOST} are kept.
 */
final class Room implements AutoCloseable {
  /** Bytes of a tile: 16 tiles fill half of a second-level cache of 1 MiB. */
  static final int TILE_BYTES = 32 * 1024;

  private static final int KEPT_MOST = 32;

  private static final ConcurrentLinkedQueue<Room> FREE = new ConcurrentLinkedQueue<>();
  private static final AtomicInteger KEPT = new AtomicInteger();

  final ByteBuffer[] tiles = new ByteBuffer[Native.COLUMNS_MOST];

  private Room() {
    ByteBuffer all = ByteBuffer.allocateDirect(TILE_BYTES * tiles.length);
    for (int i = 0; i < tiles.length; i++) {
      all.limit((i + 1) * TILE_BYTES);
      all.position(i * TILE_BYTES);
      tiles[i] = all.slice();
    }
  }

  /** Returns memory that no other call uses until it is closed. */
  static Room take() {
    Room room = FREE.poll();
    if (room == null) {
      return new Room();
    }
    KEPT.decrementAndGet();
    return room;
  }

  @Override
  public void close() {
    if (KEPT.incrementAndGet() <= KEPT_MOST) {
      FREE.add(this);
    } else {
      KEPT.decrementAndGet();
    }
  }
}
