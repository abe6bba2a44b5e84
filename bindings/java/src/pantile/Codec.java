package pantile;

import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.IntPredicate;
import java.util.function.LongPredicate;

/**
 * Computes with the stripes of one code: parity for data, lost shards from the others.
 *
 * <p>A code is named by a spec such as {@code rs:10+4}, {@code raid6:8} or {@code lrc:12,2,2}. A
 * stripe is a list of shards, one for each column. A shard is its rows, one element behind the
 * other, and all elements of a stripe have the same length; most codes have one row, so that all
 * shards have the same length. Shards are arrays, or direct buffers from position to limit, which
 * stay as they are. A shard that is null or empty is missing.
 *
 * <p>Wrong input is an {@link IllegalArgumentException} with the library's message, a call after
 * {@link #close} an {@link IllegalStateException}; neither changes a byte. Any number of threads can
 * use a codec at the same time. The shards are the caller's: no two calls may write the same ones.
 */
public final class Codec implements AutoCloseable {
  private final Handle handle;
  private final Cleaner.Cleanable cleanable;
  private final String spec;
  private final int tolerance;
  private final long fingerprint;
  private final int[] rows;
  private final int[] data;
  private final int[] parity;
  private final long dataCells;

  /** Opens the codec of a spec. */
  public Codec(String spec) {
    this(spec.getBytes(StandardCharsets.UTF_8), false);
  }

  private Codec(byte[] definition, boolean isFile) {
    for (int i = 0; !isFile && i < definition.length; i++) {
      if (definition[i] == 0) {
        throw new IllegalArgumentException("a spec has no zero byte; byte " + i + " is one");
      }
    }
    handle = new Handle("codec", Native.open(definition, isFile), Native::close);
    cleanable = handle.ownedBy(this);
    long[] shape = Native.shape(handle.get());
    int columns = (int) shape[0];
    tolerance = (int) shape[1];
    fingerprint = shape[2];
    rows = new int[columns];
    data = new int[columns];
    parity = new int[columns];
    long cells = 0;
    for (int i = 0; i < columns; i++) {
      rows[i] = (int) shape[3 + 3 * i];
      data[i] = (int) shape[4 + 3 * i];
      parity[i] = (int) shape[5 + 3 * i];
      cells += data[i];
    }
    dataCells = cells;
    spec = new String(Native.text(handle.get(), false), StandardCharsets.UTF_8);
    Reference.reachabilityFence(this);
  }

  /** Opens the codec of a code file (docs/code-files.md), which need not be trusted. */
  public static Codec fromText(String file) {
    return new Codec(file.getBytes(StandardCharsets.UTF_8), true);
  }

  /** Returns the version of the native library. */
  public static String version() {
    return Native.version();
  }

  /** Returns the canonical spec. That of a code file identifies, and does not define. */
  public String spec() {
    return spec;
  }

  /** Returns the code as a code file, that {@link #fromText} reads. */
  public String text() {
    long stamp = handle.enter();
    try {
      return new String(Native.text(handle.get(), true), StandardCharsets.UTF_8);
    } finally {
      leave(stamp);
    }
  }

  /** Returns the count of columns, and so of the shards of a stripe. */
  public int columns() {
    return rows.length;
  }

  /** Returns the elements of a shard of this column. */
  public int rows(int column) {
    return rows[column];
  }

  /** Returns the elements of a stripe that hold data. */
  public int dataCells() {
    return (int) dataCells;
  }

  /** Returns how many columns can be lost, whichever they are. */
  public int tolerance() {
    return tolerance;
  }

  /** Returns a number that equal codes have in common. */
  public long fingerprint() {
    return fingerprint;
  }

  private void leave(long stamp) {
    handle.leave(stamp);
    Reference.reachabilityFence(this);
  }

  /** Computes all parity of a stripe from its data. Every shard has its full length before. */
  public void encode(byte[][] shards) {
    encodeAll(new Object[][] {shards}, -1);
  }

  /** Computes all parity of direct buffers. */
  public void encode(ByteBuffer[] shards) {
    encodeAll(new Object[][] {shards}, -1);
  }

  /**
   * Encodes many stripes, up to 1,024 shards in one native call. If it fails, the stripes before the
   * one in the message can be encoded; none is if a shard is missing or has another length.
   */
  public void encodeBatch(byte[][][] stripes) {
    encodeAll(stripes, 0);
  }

  /** Encodes many stripes of direct buffers. */
  public void encodeBatch(ByteBuffer[][] stripes) {
    encodeAll(stripes, 0);
  }

  private void encodeAll(Object[][] stripes, int first) {
    Stripe[] all = new Stripe[stripes.length];
    for (int i = 0; i < all.length; i++) {
      try {
        all[i] = Stripe.of(stripes[i], rows, column -> parity[column] > 0).whole();
      } catch (IllegalArgumentException why) {
        if (first < 0) {
          throw why;
        }
        throw new IllegalArgumentException("stripe " + i + ": " + why.getMessage(), why);
      }
    }
    int most = Stripe.SHARDS_MOST / rows.length;
    long stamp = handle.enter();
    try {
      for (int from = 0, to; from < all.length; from = to) {
        to = from + 1;
        while (to < all.length && to - from < most && all[to].element == all[from].element) {
          to++;
        }
        Stripe some = all[from];
        if (to - from > 1) {
          some = Stripe.of(Arrays.copyOfRange(all, from, to));
        }
        Native.encode(
            handle.get(), some.shards, some.places, rows.length, some.element,
            first < 0 ? -1 : from);
      }
    } finally {
      leave(stamp);
    }
  }

  /**
   * Returns true if the shards that are there satisfy all equations between them. Too few for any
   * equation are an {@link IllegalArgumentException}.
   */
  public boolean verify(byte[][] shards) {
    return verifyAny(shards);
  }

  /** Verifies direct buffers. */
  public boolean verify(ByteBuffer[] shards) {
    return verifyAny(shards);
  }

  private boolean verifyAny(Object[] shards) {
    Stripe stripe = Stripe.of(shards, rows, column -> false).some();
    long stamp = handle.enter();
    try {
      return Native.verify(handle.get(), stripe.shards, stripe.places, stripe.element);
    } finally {
      leave(stamp);
    }
  }

  /** Puts new arrays, computed from the others, in the place of all missing shards. */
  public void reconstruct(byte[][] shards) throws NotRecoverableException {
    reconstructAny(shards, null, column -> true);
  }

  /** Puts new direct buffers, computed from the others, in the place of all missing shards. */
  public void reconstruct(ByteBuffer[] shards) throws NotRecoverableException {
    reconstructAny(shards, null, column -> true);
  }

  /** Puts new arrays in the place of the missing shards that hold data. */
  public void reconstructData(byte[][] shards) throws NotRecoverableException {
    reconstructAny(shards, null, column -> data[column] > 0);
  }

  /** Puts new direct buffers in the place of the missing shards that hold data. */
  public void reconstructData(ByteBuffer[] shards) throws NotRecoverableException {
    reconstructAny(shards, null, column -> data[column] > 0);
  }

  /**
   * Computes the shards that are lost into the arrays that are there for them. One that is lost and
   * null is not wanted.
   */
  public void reconstruct(byte[][] shards, boolean[] isLost) throws NotRecoverableException {
    reconstructAny(shards, isLost, column -> false);
  }

  /** Computes the shards that are lost into the direct buffers that are there for them. */
  public void reconstruct(ByteBuffer[] shards, boolean[] isLost) throws NotRecoverableException {
    reconstructAny(shards, isLost, column -> false);
  }

  private void reconstructAny(Object[] shards, boolean[] given, IntPredicate isMade)
      throws NotRecoverableException {
    boolean[] isLost = given == null ? new boolean[shards.length] : given.clone();
    if (isLost.length != shards.length) {
      throw new IllegalArgumentException(
          shards.length + " shards, and " + isLost.length + " entries that say which are lost");
    }
    Stripe stripe = Stripe.of(shards, rows, column -> isLost[column]).some();
    byte[] states = new byte[rows.length];
    boolean isAnyWanted = false;
    for (int i = 0; i < rows.length; i++) {
      if (stripe.shards[i] != null) {
        states[i] = isLost[i] ? Native.WANTED : Native.PRESENT;
      } else if (isMade.test(i)) {
        stripe.fill(i, Math.multiplyExact(rows[i], stripe.element));
        states[i] = Native.WANTED;
      }
      isAnyWanted |= states[i] == Native.WANTED;
    }
    if (!isAnyWanted) {
      return;
    }
    long stamp = handle.enter();
    try {
      Native.reconstruct(handle.get(), stripe.shards, stripe.places, states, stripe.element);
    } finally {
      leave(stamp);
    }
    for (int i = 0; i < rows.length; i++) {
      if (states[i] == Native.WANTED && !isLost[i]) {
        shards[i] = stripe.shards[i];
      }
    }
  }

  /**
   * Replaces bytes of one element, from an offset on, and keeps all parity true. Elements of data
   * count from 0 in user order. Needed are the shard of that element and those of its parities.
   */
  public void update(byte[][] shards, int position, int offset, byte[] content) {
    updateAny(shards, position, offset, new byte[][] {content}, false);
  }

  /** Replaces bytes of direct buffers by those of another one. */
  public void update(ByteBuffer[] shards, int position, int offset, ByteBuffer content) {
    updateAny(shards, position, offset, new ByteBuffer[] {content}, false);
  }

  /**
   * Adds a change, old content xor new content, to the parities that are there, and leaves data
   * alone: for keepers of parity that do not have the data.
   */
  public void updateParity(byte[][] shards, int position, int offset, byte[] change) {
    updateAny(shards, position, offset, new byte[][] {change}, true);
  }

  /** Adds a change to the parities among direct buffers. */
  public void updateParity(ByteBuffer[] shards, int position, int offset, ByteBuffer change) {
    updateAny(shards, position, offset, new ByteBuffer[] {change}, true);
  }

  private void updateAny(
      Object[] shards, int position, int offset, Object[] content, boolean isParityAlone) {
    IntPredicate isWritten = column -> !isParityAlone || parity[column] > 0;
    Stripe stripe = Stripe.of(shards, rows, isWritten).some();
    Stripe bytes = Stripe.of(content, column -> false);
    if (position < 0 || offset < 0) {
      throw new IllegalArgumentException(
          "element " + position + ", offset " + offset + ": neither can be negative");
    }
    if (bytes.shards[0] == null) {
      throw new IllegalArgumentException("the new content has no bytes");
    }
    Stripe all = stripe.with(bytes);
    long stamp = handle.enter();
    try {
      Native.update(
          handle.get(), all.shards, all.places, stripe.element, position, offset, bytes.length(0),
          isParityAlone);
    } finally {
      leave(stamp);
    }
  }

  /** Splits data into the new shards of a stripe, zeros behind them, parity included. */
  public byte[][] split(byte[] data) {
    byte[][] shards = new byte[rows.length][];
    splitTo(shards, new byte[][] {data});
    return shards;
  }

  /** Splits the content of a direct buffer into new direct buffers, parity included. */
  public ByteBuffer[] split(ByteBuffer data) {
    ByteBuffer[] shards = new ByteBuffer[rows.length];
    splitTo(shards, new ByteBuffer[] {data});
    return shards;
  }

  private void splitTo(Object[] shards, Object[] data) {
    Stripe from = Stripe.of(data, column -> false);
    if (from.shards[0] == null) {
      throw new IllegalArgumentException("there are no data to split");
    }
    long stamp = handle.enter();
    try {
      int element = Math.toIntExact(Native.splitBytes(handle.get(), from.length(0)));
      Stripe stripe = Stripe.of(shards, column -> false);
      for (int i = 0; i < rows.length; i++) {
        shards[i] = stripe.fill(i, Math.multiplyExact(rows[i], element));
      }
      Stripe all = stripe.with(from);
      Native.split(handle.get(), all.shards, all.places, element, from.length(0));
    } finally {
      leave(stamp);
    }
  }

  /** Returns the first bytes of the stripe's data. Parity can be missing and is not looked at. */
  public byte[] join(byte[][] shards, int size) {
    return (byte[]) joinAny(shards, size);
  }

  /** Returns the first bytes of the data of direct buffers, in a new direct buffer. */
  public ByteBuffer join(ByteBuffer[] shards, int size) {
    return (ByteBuffer) joinAny(shards, size);
  }

  private Object joinAny(Object[] shards, int size) {
    Stripe stripe = Stripe.of(shards, rows, column -> false).some();
    if (size < 0 || size > stripe.element * dataCells) {
      throw new IllegalArgumentException(
          size + " bytes of data; these shards have " + stripe.element * dataCells);
    }
    Stripe to = Stripe.of(stripe.places == null ? new byte[1][] : new ByteBuffer[1], column -> false);
    Object data = to.fill(0, size);
    Stripe all = stripe.with(to);
    long stamp = handle.enter();
    try {
      if (size > 0) {
        Native.join(handle.get(), all.shards, all.places, stripe.element, size);
      }
    } finally {
      leave(stamp);
    }
    return data;
  }

  /**
   * Returns the wrong shards, and where they are wrong, without checksums; an empty list if the
   * stripe is true. Too few shards to check anything are an {@link IllegalArgumentException}.
   */
  public List<Finding> locate(byte[][] shards) {
    return locateAny(shards);
  }

  /** Locates what is wrong in direct buffers. */
  public List<Finding> locate(ByteBuffer[] shards) {
    return locateAny(shards);
  }

  private List<Finding> locateAny(Object[] shards) {
    Stripe stripe = Stripe.of(shards, rows, column -> false).some();
    long stamp = handle.enter();
    try {
      return Finding.listOf(
          Native.locate(handle.get(), stripe.shards, stripe.places, stripe.element));
    } finally {
      leave(stamp);
    }
  }

  /** Plans the cheapest reads for all of the lost columns. */
  public Plan plan(int element, int... lost) throws NotRecoverableException {
    List<Range> wanted = new ArrayList<>();
    for (int column : lost) {
      if (column < 0 || column >= rows.length) {
        throw new IllegalArgumentException(
            "column " + column + " is lost; the last one of " + spec + " is " + (rows.length - 1));
      }
      wanted.add(new Range(column, 0, Math.multiplyExact(element, rows[column])));
    }
    return plan(element, lost, wanted, null);
  }

  /**
   * Plans the cheapest reads for the wanted ranges of a stripe, of elements of so many bytes, while
   * the lost columns cannot be read. Costs are those of a byte of each column, up to 1,000,000; null
   * stands for 1 each.
   */
  public Plan plan(int element, int[] lost, List<Range> wanted, int[] costs)
      throws NotRecoverableException {
    List<Range> ranges = new ArrayList<>(wanted);
    long[] columns = new long[lost.length];
    for (int i = 0; i < lost.length; i++) {
      columns[i] = lost[i];
    }
    long[] numbers = new long[3 * ranges.size()];
    for (int i = 0; i < ranges.size(); i++) {
      numbers[3 * i] = ranges.get(i).column;
      numbers[3 * i + 1] = ranges.get(i).offset;
      numbers[3 * i + 2] = ranges.get(i).bytes;
    }
    LongPredicate isNegative = number -> number < 0;
    if (element < 1
        || Arrays.stream(columns).anyMatch(isNegative)
        || Arrays.stream(numbers).anyMatch(isNegative)) {
      throw new IllegalArgumentException(
          "elements of " + element + " bytes, or a column, offset or length that is negative");
    }
    long stamp = handle.enter();
    try {
      long plan = Native.plan(handle.get(), element, columns, numbers, costs);
      return new Plan(plan, rows.length, ranges);
    } finally {
      leave(stamp);
    }
  }

  /**
   * Gives the native memory back. It waits for calls that run. Without it the memory is given back
   * after the garbage collector found the codec unreachable. Plans of the codec stay valid.
   */
  @Override
  public void close() {
    cleanable.clean();
  }
}
