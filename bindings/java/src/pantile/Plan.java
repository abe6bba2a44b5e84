package pantile;

import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/** The cheapest reads for ranges of shards while others are lost, and the computation from them. */
public final class Plan implements AutoCloseable {
  private final Handle handle;
  private final Cleaner.Cleanable cleanable;
  private final List<Range> reads;
  private final boolean[] isWanted;

  /** The sum of bytes times cost. */
  public final long cost;

  /** A proven lower bound of the cost: no reads are cheaper if the two are equal. */
  public final long atLeast;

  /** Bytes that a run touches, by column. */
  private final long[] need;

  Plan(long pointer, int columns, List<Range> wanted) {
    handle = new Handle("plan", pointer, Native::closePlan);
    cleanable = handle.ownedBy(this);
    long[] all = Native.reads(pointer);
    cost = all[0];
    atLeast = all[1];
    List<Range> list = new ArrayList<>();
    for (int at = 2; at < all.length; at += 3) {
      list.add(new Range((int) all[at], (int) all[at + 1], (int) all[at + 2]));
    }
    reads = Collections.unmodifiableList(list);
    need = new long[columns];
    isWanted = new boolean[columns];
    for (Range range : wanted) {
      isWanted[range.column] = true;
      list = new ArrayList<>(list);
      list.add(range);
    }
    for (Range range : list) {
      need[range.column] = Math.max(need[range.column], range.offset + (long) range.bytes);
    }
  }

  /** Returns the ranges to read, ascending. */
  public List<Range> reads() {
    return reads;
  }

  /**
   * Computes the wanted ranges in place from those of {@link #reads}. A shard is needed up to the
   * end of its last range that is read or wanted; others can be null.
   */
  public void run(byte[][] shards) {
    runOn(shards);
  }

  /** Computes the wanted ranges of direct buffers, each from its position on. */
  public void run(ByteBuffer[] shards) {
    runOn(shards);
  }

  private void runOn(Object[] shards) {
    if (shards.length != need.length) {
      throw new IllegalArgumentException(
          shards.length + " shards; a stripe of this plan has " + need.length);
    }
    Stripe stripe = Stripe.of(shards, column -> isWanted[column]);
    for (int column = 0; column < need.length; column++) {
      if (stripe.length(column) < need[column]) {
        throw new IllegalArgumentException(
            "shard " + column + " has " + stripe.length(column) + " bytes; the plan needs its first "
                + need[column]);
      }
    }
    long stamp = handle.enter();
    try {
      Native.run(handle.get(), stripe.shards, stripe.places);
    } finally {
      handle.leave(stamp);
      Reference.reachabilityFence(this);
    }
  }

  @Override
  public void close() {
    cleanable.clean();
  }
}
