package pantile.hdfs;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Arrays;
import org.apache.hadoop.HadoopIllegalArgumentException;
import org.apache.hadoop.io.erasurecode.ECChunk;
import org.apache.hadoop.io.erasurecode.ErasureCoderOptions;
import org.apache.hadoop.io.erasurecode.rawcoder.DummyRawEncoder;

/**
 * Computes the parity units of data units.
 *
 * <p>It extends a concrete class of Hadoop and overrides all of its public methods. The abstract
 * class above that one cannot be extended here: its methods have parameters of package-private
 * types. Any number of threads may use one encoder at the same time.
 */
final class Encoder extends DummyRawEncoder {
  private final Code code;
  private final boolean[] written;

  Encoder(Family family, ErasureCoderOptions options) {
    super(options);
    code = Code.of(family, options);
    written = new boolean[code.units()];
    Arrays.fill(written, code.k, code.units(), true);
  }

  @Override
  public boolean preferDirectBuffer() {
    return true;
  }

  @Override
  public void encode(ByteBuffer[] inputs, ByteBuffer[] outputs) throws IOException {
    if (inputs.length != code.k) {
      throw new HadoopIllegalArgumentException("Invalid inputs length");
    }
    if (outputs.length != code.m) {
      throw new HadoopIllegalArgumentException("Invalid outputs length");
    }
    if (Coder.check(inputs, outputs) < code.k) {
      throw new HadoopIllegalArgumentException("Invalid buffer found, not allowing null");
    }
    int bytes = Coder.length(inputs);
    if (bytes == 0) {
      return;
    }
    ByteBuffer[] columns = Arrays.copyOf(inputs, code.units());
    System.arraycopy(outputs, 0, columns, code.k, code.m);
    Coder.run(
        columns,
        written,
        bytes,
        (direct, offsets, tile) -> Native.encode(code.handle, direct, offsets, tile));
    Coder.consume(inputs);
  }

  @Override
  public void encode(byte[][] inputs, byte[][] outputs) throws IOException {
    encode(Coder.wrap(inputs), Coder.wrap(outputs));
  }

  @Override
  public void encode(ECChunk[] inputs, ECChunk[] outputs) throws IOException {
    encode(Coder.buffers(inputs), Coder.buffers(outputs));
  }
}
