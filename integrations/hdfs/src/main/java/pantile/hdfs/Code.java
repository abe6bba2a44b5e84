package pantile.hdfs;

import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import org.apache.hadoop.HadoopIllegalArgumentException;
import org.apache.hadoop.io.erasurecode.ErasureCoderOptions;

/**
 * A code of k data units and m parity units, with its open codec in the library.
 *
 * <p>Invariant: k + m &lt;= 16, any k units give the others, and every coefficient is a byte: HDFS
 * hands over slices of any length from any offset of a cell, and takes the first k units that
 * answer. So few codes exist that each is kept until the process ends.
 */
final class Code {
  private static final ConcurrentMap<String, Code> OPEN = new ConcurrentHashMap<>();

  final int k;
  final int m;

  /** The codec, for {@link Native}; it is never closed. */
  final long handle;

  private Code(String spec, int k, int m) {
    this.k = k;
    this.m = m;
    this.handle = Native.open(spec);
  }

  int units() {
    return k + m;
  }

  /**
   * Returns the code behind a codec's name.
   *
   * @throws HadoopIllegalArgumentException if the codec has none of that size, with the reason.
   * @throws UnsatisfiedLinkError if the native library is not there.
   */
  static Code of(Family family, ErasureCoderOptions options) {
    return of(family, options.getNumDataUnits(), options.getNumParityUnits());
  }

  /** Returns the code of a family with so many units, as the other {@code of} does. */
  static Code of(Family family, int k, int m) {
    if (k < 1 || m < 1 || k + m > Native.COLUMNS_MOST) {
      throw new HadoopIllegalArgumentException(
          family.codec + " with " + k + " data and " + m + " parity units: a block group has 2 to "
              + Native.COLUMNS_MOST + " blocks, at least one of each");
    }
    String spec = family.spec(k, m);
    Native.check();
    return OPEN.computeIfAbsent(spec, name -> new Code(name, k, m));
  }
}
