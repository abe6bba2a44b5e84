package pantile.hdfs;

import org.apache.hadoop.io.erasurecode.ErasureCoderOptions;
import org.apache.hadoop.io.erasurecode.rawcoder.RSRawErasureCoderFactory;
import org.apache.hadoop.io.erasurecode.rawcoder.RawErasureDecoder;
import org.apache.hadoop.io.erasurecode.rawcoder.TestRSRawCoderBase;
import org.apache.hadoop.io.erasurecode.rawcoder.TestXORRawCoderBase;
import org.junit.Before;
import org.junit.jupiter.api.BeforeEach;

/**
 * Hadoop's own suites of raw coders, from its published test jars, with our coders. Those of 3.4
 * are JUnit 4's, those of 3.5 Jupiter's: hence both annotations. One of the tests makes coders
 * without a size, so the sizes are set here; the other tests set their own.
 */
final class HadoopsSuites {
  private HadoopsSuites() {}

  /** Our coder encodes and decodes. */
  public static class RsTest extends TestRSRawCoderBase {
    @Before
    @BeforeEach
    public void setup() {
      encoderFactoryClass = CoderFactory.Rs.class;
      decoderFactoryClass = CoderFactory.Rs.class;
      setAllowDump(false);
      numDataUnits = 6;
      numParityUnits = 3;
    }
  }

  /** Our coder of the older code encodes and decodes. */
  public static class RsLegacyTest extends TestRSRawCoderBase {
    @Before
    @BeforeEach
    public void setup() {
      encoderFactoryClass = CoderFactory.RsLegacy.class;
      decoderFactoryClass = CoderFactory.RsLegacy.class;
      setAllowDump(false);
      numDataUnits = 6;
      numParityUnits = 3;
    }
  }

  /** Our coder encodes, Hadoop's Java coder decodes. */
  public static class RsToJavaTest extends RsTest {
    @Override
    protected RawErasureDecoder createDecoder() {
      return new RSRawErasureCoderFactory()
          .createDecoder(
              new ErasureCoderOptions(numDataUnits, numParityUnits, allowChangeInputs, false));
    }
  }

  /** Hadoop's Java coder encodes, our coder decodes. */
  public static class JavaToRsTest extends TestRSRawCoderBase {
    @Before
    @BeforeEach
    public void setup() {
      encoderFactoryClass = RSRawErasureCoderFactory.class;
      setAllowDump(false);
      numDataUnits = 6;
      numParityUnits = 3;
    }

    @Override
    protected RawErasureDecoder createDecoder() {
      return new CoderFactory.Rs()
          .createDecoder(
              new ErasureCoderOptions(numDataUnits, numParityUnits, allowChangeInputs, false));
    }
  }

  /** Our coder of one parity unit. */
  public static class XorTest extends TestXORRawCoderBase {
    @Before
    @BeforeEach
    public void setup() {
      encoderFactoryClass = CoderFactory.Xor.class;
      decoderFactoryClass = CoderFactory.Xor.class;
      setAllowDump(false);
      numDataUnits = 10;
      numParityUnits = 1;
    }
  }
}
