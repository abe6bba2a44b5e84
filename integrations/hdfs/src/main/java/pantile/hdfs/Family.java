package pantile.hdfs;

import org.apache.hadoop.HadoopIllegalArgumentException;
import org.apache.hadoop.io.erasurecode.ErasureCodeConstants;

/**
 * The codecs, by Hadoop's names, and the codes behind them.
 *
 * <p>The meaning of a name never changes: blocks that were written with it must stay readable. The
 * vectors of the tests hold that.
 */
enum Family {
  /** Hadoop's Reed-Solomon code, and ISA-L's: Cauchy's matrix. */
  RS(ErasureCodeConstants.RS_CODEC_NAME),
  /** Hadoop's older Reed-Solomon code: a BCH code. */
  RS_LEGACY(ErasureCodeConstants.RS_LEGACY_CODEC_NAME),
  /** One parity unit. */
  XOR(ErasureCodeConstants.XOR_CODEC_NAME),
  /** Pantile's code of three or four parity units, of which the first two are those of RAID-6. */
  RAIDQ("raidq");

  /** The codec in a policy's schema. */
  final String codec;

  Family(String codec) {
    this.codec = codec;
  }

  /** Returns the name of our coder in `io.erasurecode.codec.CODEC.rawcoders`. */
  String coder() {
    return codec + "_pantile_native";
  }

  /** Returns the name of Hadoop's Java coder of the codec in that list: the fallback. */
  String java() {
    return codec + "_java";
  }

  /** Returns the family of a codec's name; null if the codec is not one of ours. */
  static Family of(String codec) {
    for (Family family : values()) {
      if (family.codec.equals(codec)) {
        return family;
      }
    }
    return null;
  }

  /**
   * Returns Pantile's spec of the code.
   *
   * @throws HadoopIllegalArgumentException if there is none with so many units that HDFS can use.
   */
  String spec(int k, int m) {
    switch (this) {
      case RS:
        return "rs:" + k + "+" + m;
      case RS_LEGACY:
        return "rs:" + k + "+" + m + ",bch";
      case XOR:
        if (m != 1) {
          throw refusal(k, m, "it has one parity unit; use xor with 1, or rs");
        }
        return "raid5:" + k;
      default:
        return raidq(k, m);
    }
  }

  private String raidq(int k, int m) {
    switch (m) {
      case 3:
        return "raidq:" + k + "+3";
      case 4:
        // The construction that `raidq:k+4` names elsewhere has two rows to a column: a unit is
        // cut in two halves, which slices of any length do not have. This one has one row.
        return "raidq:" + k + "+4,powers";
      default:
        throw refusal(k, m, "it has 3 or 4 parity units here; use rs for other numbers");
    }
  }

  private HadoopIllegalArgumentException refusal(int k, int m, String why) {
    return new HadoopIllegalArgumentException(
        codec + " with " + k + " data and " + m + " parity units: " + why);
  }
}
