package pantile.hdfs;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.stream.IntStream;
import org.apache.hadoop.io.erasurecode.ErasureCoderOptions;
import org.apache.hadoop.io.erasurecode.rawcoder.DummyRawDecoder;
import org.apache.hadoop.io.erasurecode.rawcoder.DummyRawEncoder;
import org.apache.hadoop.io.erasurecode.rawcoder.RawErasureCoderFactory;
import org.apache.hadoop.io.erasurecode.rawcoder.RawErasureDecoder;
import org.apache.hadoop.io.erasurecode.rawcoder.RawErasureEncoder;

/**
 * A coder of Hadoop for direct buffers on the library that the loader has as {@code libisal.so.2},
 * opened and called as libhadoop does (libhadoop itself is in no registry), by calls of the same
 * shape as ours. It checks nothing, and its coders are never freed.
 */
final class Isal implements RawErasureCoderFactory {
  private static final String FILE;

  static {
    System.load(System.getProperty("pantile.isal"));
    FILE = open();
  }

  /** Returns the file of the library. */
  static String file() {
    return FILE;
  }

  private static native String open();

  static native long encoder(int k, int m);

  private static native void decodes(long coder, int[] sources, int[] wanted);

  private static native void run(
      long coder, ByteBuffer[] columns, int[] offsets, int bytes, boolean byUpdates);

  /** Runs a coder on the bytes between position and limit of each buffer. */
  static void run(long coder, ByteBuffer[] columns, boolean byUpdates) {
    int[] offsets = new int[columns.length];
    for (int i = 0; i < columns.length; i++) {
      offsets[i] = columns[i] == null ? 0 : columns[i].position();
    }
    run(coder, columns, offsets, Coder.length(columns), byUpdates);
  }

  @Override
  public RawErasureEncoder createEncoder(ErasureCoderOptions options) {
    int k = options.getNumDataUnits();
    int m = options.getNumParityUnits();
    long coder = encoder(k, m);
    return new DummyRawEncoder(options) {
      @Override
      public boolean preferDirectBuffer() {
        return true;
      }

      @Override
      public void encode(ByteBuffer[] inputs, ByteBuffer[] outputs) {
        ByteBuffer[] columns = Arrays.copyOf(inputs, k + m);
        System.arraycopy(outputs, 0, columns, k, m);
        Isal.run(coder, columns, false);
        Coder.consume(inputs);
      }
    };
  }

  @Override
  public RawErasureDecoder createDecoder(ErasureCoderOptions options) {
    int k = options.getNumDataUnits();
    long coder = encoder(k, options.getNumParityUnits());
    return new DummyRawDecoder(options) {
      private int[] sources = {};
      private int[] wanted = {};

      @Override
      public boolean preferDirectBuffer() {
        return true;
      }

      @Override
      public synchronized void decode(ByteBuffer[] inputs, int[] erased, ByteBuffer[] outputs) {
        int[] first =
            IntStream.range(0, inputs.length).filter(i -> inputs[i] != null).limit(k).toArray();
        if (!Arrays.equals(first, sources) || !Arrays.equals(erased, wanted)) {
          sources = first;
          wanted = erased.clone();
          decodes(coder, sources, wanted);
        }
        ByteBuffer[] columns = inputs.clone();
        for (int i = 0; i < erased.length; i++) {
          columns[erased[i]] = outputs[i];
        }
        Isal.run(coder, columns, false);
        Coder.consume(inputs);
      }
    };
  }

  @Override
  public String getCoderName() {
    return "rs_isal";
  }

  @Override
  public String getCodecName() {
    return "rs";
  }
}
