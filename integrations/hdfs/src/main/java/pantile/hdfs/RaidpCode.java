package pantile.hdfs;

import java.nio.ByteBuffer;
import java.util.Collections;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;

/**
 * The code {@code raidp:N,weighted} as add-ons see it: which superchunk two disks share, and a
 * disk's parity as a sum of its superchunks.
 *
 * <p>Coefficients and arithmetic are the library's. Any range of bytes that is the same in all rows
 * is a stripe by itself, so calls take ranges of any length. Any number of threads may use one.
 */
public final class RaidpCode {
  /** The fewest disks: two disks alone are a mirror. */
  public static final int DISKS_LEAST = 3;

  /** The most disks that the family of codes allows. */
  public static final int DISKS_MOST = 64;

  private static final ConcurrentMap<Integer, RaidpCode> OPEN = new ConcurrentHashMap<>();

  /** Number of disks. */
  public final int disks;

  /** Pantile's name of the code. */
  public final String spec;

  /** The codec, for {@link Native}; it is never closed. */
  final long handle;

  private final int[] weights;

  /** For each coefficient the codec of one equation, parity = coefficient times content. */
  private final long[] products = new long[256];

  private RaidpCode(int disks) {
    this.disks = disks;
    spec = spec(disks);
    handle = Native.open(spec);
    weights = Native.weights(spec, disks);
    for (int weight : weights) {
      if (weight != 0 && products[weight] == 0) {
        products[weight] =
            Native.openText(
                Equations.text(1, Collections.singletonList(Collections.singletonMap(0, weight))));
      }
    }
  }

  /** Returns the name of the code of so many disks. */
  public static String spec(int disks) {
    return "raidp:" + disks + ",weighted";
  }

  /**
   * Returns the code of so many disks.
   *
   * @throws IllegalArgumentException if there is none.
   * @throws UnsatisfiedLinkError if the native library is not there.
   */
  public static RaidpCode of(int disks) {
    if (disks < DISKS_LEAST || disks > DISKS_MOST) {
      throw new IllegalArgumentException(
          disks + " disks; RAIDP takes " + DISKS_LEAST + " to " + DISKS_MOST);
    }
    Native.check();
    return OPEN.computeIfAbsent(disks, RaidpCode::new);
  }

  /**
   * Returns the coefficient of the superchunk shared with a partner in the parity of a disk.
   *
   * @throws IllegalArgumentException if these are not two disks of the code.
   */
  public int weight(int disk, int partner) {
    boolean both = disk >= 0 && disk < disks && partner >= 0 && partner < disks;
    int weight = both ? weights[disk * disks + partner] : 0;
    if (weight == 0) {
      throw new IllegalArgumentException(
          "disks " + disk + " and " + partner + " of " + disks + " share no superchunk");
    }
    return weight;
  }

  /**
   * Adds content of the superchunk shared with a partner to the parity of a disk, from the buffers'
   * positions on, all that remains of the content; a second call with the same content removes it.
   * Both buffers are direct, and their positions stay.
   */
  public void fold(int disk, int partner, ByteBuffer parity, ByteBuffer content) {
    fold(weight(disk, partner), parity, content);
  }

  /** Adds content times one of the code's coefficients to a sum, as the other {@code fold} does. */
  public void fold(int weight, ByteBuffer parity, ByteBuffer content) {
    if (weight < 0 || weight > 255 || products[weight] == 0) {
      throw new IllegalArgumentException(weight + " is no coefficient of " + spec);
    }
    if (content.remaining() > parity.remaining()) {
      throw new IllegalArgumentException(
          content.remaining() + " bytes for parity of " + parity.remaining());
    }
    Native.fold(
        products[weight],
        parity,
        parity.position(),
        content,
        content.position(),
        content.remaining());
  }
}
