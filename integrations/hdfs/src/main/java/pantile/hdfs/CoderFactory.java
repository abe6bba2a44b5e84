package pantile.hdfs;

import org.apache.hadoop.io.erasurecode.ErasureCoderOptions;
import org.apache.hadoop.io.erasurecode.rawcoder.RawErasureCoderFactory;
import org.apache.hadoop.io.erasurecode.rawcoder.RawErasureDecoder;
import org.apache.hadoop.io.erasurecode.rawcoder.RawErasureEncoder;

/**
 * Makes our coders for Hadoop, which finds it by {@link java.util.ServiceLoader} and asks for a
 * coder of some size.
 *
 * <p>It throws {@link UnsatisfiedLinkError} if the native library cannot be loaded, and {@link
 * org.apache.hadoop.HadoopIllegalArgumentException} if the codec has no code of that size. Hadoop
 * then takes the next coder of the codec; of `raidq` there is none.
 */
public abstract class CoderFactory implements RawErasureCoderFactory {
  private final Family family;

  private CoderFactory(Family family) {
    this.family = family;
  }

  @Override
  public RawErasureEncoder createEncoder(ErasureCoderOptions options) {
    return new Encoder(family, options);
  }

  @Override
  public RawErasureDecoder createDecoder(ErasureCoderOptions options) {
    return new Decoder(family, options);
  }

  @Override
  public String getCoderName() {
    return family.coder();
  }

  @Override
  public String getCodecName() {
    return family.codec;
  }

  /** The factory of codec `rs`. */
  public static final class Rs extends CoderFactory {
    public Rs() {
      super(Family.RS);
    }
  }

  /** The factory of codec `rs-legacy`. */
  public static final class RsLegacy extends CoderFactory {
    public RsLegacy() {
      super(Family.RS_LEGACY);
    }
  }

  /** The factory of codec `xor`. */
  public static final class Xor extends CoderFactory {
    public Xor() {
      super(Family.XOR);
    }
  }

  /** The factory of codec `raidq`. */
  public static final class Raidq extends CoderFactory {
    public Raidq() {
      super(Family.RAIDQ);
    }
  }
}
