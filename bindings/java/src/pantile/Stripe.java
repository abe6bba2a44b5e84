package pantile;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.function.IntPredicate;

/** The shards of a call as native code takes them, checked; of a copy, so that they stay so. */
final class Stripe {
  /** The most shards of one native call. */
  static final int SHARDS_MOST = 1024;

  final Object[] shards;

  /** Offset and length of each direct buffer; null if the shards are arrays. */
  final int[] places;

  /** The bytes of an element; 0 if all shards are missing. */
  final int element;

  private final int[] lengths;

  private Stripe(Object[] shards, int[] places, int[] lengths, int element) {
    this.shards = shards;
    this.places = places;
    this.lengths = lengths;
    this.element = element;
  }

  /**
   * Takes shards whose columns have so many rows. Those of columns that are written can be written
   * to. One that is null or empty is missing.
   */
  static Stripe of(Object[] given, int[] rows, IntPredicate isWritten) {
    if (given.length != rows.length) {
      throw new IllegalArgumentException(
          given.length + " shards; a stripe of this code has " + rows.length);
    }
    Stripe stripe = of(given, isWritten);
    int element = 0;
    for (int i = 0; i < rows.length; i++) {
      int length = stripe.lengths[i];
      if (length == 0) {
        continue;
      }
      element = element == 0 ? length / rows[i] : element;
      if (element == 0 || length != (long) element * rows[i]) {
        throw new IllegalArgumentException(
            "shard " + i + " has " + length + " bytes for " + rows[i]
                + " rows; elements of this stripe have " + element);
      }
    }
    return new Stripe(stripe.shards, stripe.places, stripe.lengths, element);
  }

  /** Takes shards, of any lengths. */
  static Stripe of(Object[] given, IntPredicate isWritten) {
    boolean isDirect = given instanceof ByteBuffer[];
    Object[] shards = Arrays.copyOf(given, given.length, Object[].class);
    int[] lengths = new int[shards.length];
    int[] places = isDirect ? new int[2 * shards.length] : null;
    for (int i = 0; i < shards.length; i++) {
      if (shards[i] == null) {
        continue;
      }
      if (!isDirect) {
        lengths[i] = ((byte[]) shards[i]).length;
      } else {
        ByteBuffer buffer = (ByteBuffer) shards[i];
        lengths[i] = buffer.remaining();
        places[2 * i] = buffer.position();
        places[2 * i + 1] = lengths[i];
        if (!buffer.isDirect()) {
          throw new IllegalArgumentException(
              "buffer " + i + " is not direct: use ByteBuffer.allocateDirect, or byte[] shards");
        }
        if (buffer.isReadOnly() && isWritten.test(i)) {
          throw new IllegalArgumentException("buffer " + i + " is written and is read-only");
        }
      }
      if (lengths[i] == 0) {
        shards[i] = null;
      }
    }
    return new Stripe(shards, places, lengths, 0);
  }

  /** Returns the stripe if no shard is missing. */
  Stripe whole() {
    for (int i = 0; i < shards.length; i++) {
      if (shards[i] == null) {
        throw new IllegalArgumentException("shard " + i + " is missing");
      }
    }
    return this;
  }

  /** Returns the stripe if some shard is there. */
  Stripe some() {
    if (element == 0) {
      throw new IllegalArgumentException("all shards are missing");
    }
    return this;
  }

  /** Returns the length of a shard; 0 if it is missing. */
  int length(int column) {
    return lengths[column];
  }

  /** Puts a new shard in a column, of the kind of the others. */
  Object fill(int column, int bytes) {
    shards[column] = places == null ? new byte[bytes] : ByteBuffer.allocateDirect(bytes);
    lengths[column] = bytes;
    if (places != null) {
      places[2 * column] = 0;
      places[2 * column + 1] = bytes;
    }
    return shards[column];
  }

  /** Returns this stripe with another one behind it, or with content or data. */
  Stripe with(Stripe other) {
    Object[] all = Arrays.copyOf(shards, shards.length + other.shards.length);
    System.arraycopy(other.shards, 0, all, shards.length, other.shards.length);
    int[] where = null;
    if (places != null) {
      where = Arrays.copyOf(places, places.length + other.places.length);
      System.arraycopy(other.places, 0, where, places.length, other.places.length);
    }
    return new Stripe(all, where, null, element);
  }

  /** Joins equally long stripes to the shards of one native call. */
  static Stripe of(Stripe[] stripes) {
    int columns = stripes[0].shards.length;
    Object[] all = new Object[stripes.length * columns];
    int[] where = stripes[0].places == null ? null : new int[2 * all.length];
    for (int i = 0; i < stripes.length; i++) {
      System.arraycopy(stripes[i].shards, 0, all, i * columns, columns);
      if (where != null) {
        System.arraycopy(stripes[i].places, 0, where, 2 * i * columns, 2 * columns);
      }
    }
    return new Stripe(all, where, null, stripes[0].element);
  }
}
