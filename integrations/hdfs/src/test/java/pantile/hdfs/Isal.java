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
 * libisal as a coder of Hadoop, for direct buffers, by a call of the same shape as ours: what
 * {@link Benchmark} compares with, since libhadoop is in no registry. It checks nothing.
 */
final class Isal implements RawErasureCoderFactory {
  static native long prepare(int k, int m, int[] wanted);

  static native void run(long prepared, ByteBuffer[] columns, int[] offsets, int bytes);

  private static void run(long prepared, ByteBuffer[] columns, ByteBuffer[] inputs) {
    int[] offsets = new int[columns.length];
    int bytes = Coder.length(inputs);
    for (int i = 0; i < columns.length; i++) {
      offsets[i] = columns[i] == null ? 0 : columns[i].position();
    }
    run(prepared, columns, offsets, bytes);
    Coder.consume(inputs);
  }

  @Override
  public RawErasureEncoder createEncoder(ErasureCoderOptions options) {
    int k = options.getNumDataUnits();
    int m = options.getNumParityUnits();
    long prepared = prepare(k, m, IntStream.range(k, k + m).toArray());
    return new DummyRawEncoder(options) {
      @Override
      public boolean preferDirectBuffer() {
        return true;
      }

      @Override
      public void encode(ByteBuffer[] inputs, ByteBuffer[] outputs) {
        ByteBuffer[] columns = Arrays.copyOf(inputs, k + m);
        System.arraycopy(outputs, 0, columns, k, m);
        Isal.run(prepared, columns, inputs);
      }
    };
  }

  @Override
  public RawErasureDecoder createDecoder(ErasureCoderOptions options) {
    return new DummyRawDecoder(options) {
      private int[] last = {};
      private long prepared;

      @Override
      public boolean preferDirectBuffer() {
        return true;
      }

      @Override
      public synchronized void decode(ByteBuffer[] inputs, int[] erased, ByteBuffer[] outputs) {
        if (!Arrays.equals(erased, last)) {
          prepared = prepare(getNumDataUnits(), getNumParityUnits(), erased);
          last = erased.clone();
        }
        ByteBuffer[] columns = inputs.clone();
        for (int i = 0; i < erased.length; i++) {
          columns[erased[i]] = outputs[i];
        }
        Isal.run(prepared, columns, inputs);
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
