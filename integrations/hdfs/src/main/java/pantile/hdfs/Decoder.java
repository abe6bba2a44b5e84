package pantile.hdfs;

import java.io.IOException;
import java.nio.ByteBuffer;
import org.apache.hadoop.HadoopIllegalArgumentException;
import org.apache.hadoop.io.erasurecode.ECChunk;
import org.apache.hadoop.io.erasurecode.ErasureCoderOptions;
import org.apache.hadoop.io.erasurecode.rawcoder.DummyRawDecoder;

/**
 * Computes erased units from any k other units.
 *
 * <p>The plan for a pattern of erasures is made once for the process. Erased units may be asked for
 * in any order; each once. Any number of threads may use one decoder at the same time.
 */
final class Decoder extends DummyRawDecoder {
  private final Code code;

  Decoder(Family family, ErasureCoderOptions options) {
    super(options);
    code = Code.of(family, options);
  }

  @Override
  public boolean preferDirectBuffer() {
    return true;
  }

  @Override
  public void decode(ByteBuffer[] inputs, int[] erased, ByteBuffer[] outputs) throws IOException {
    if (inputs.length != code.units()) {
      throw new HadoopIllegalArgumentException("Invalid inputs length");
    }
    if (erased.length != outputs.length) {
      throw new HadoopIllegalArgumentException("erasedIndexes and outputs mismatch in length");
    }
    if (erased.length > code.m) {
      throw new HadoopIllegalArgumentException("Too many erased, not recoverable");
    }
    if (Coder.check(inputs, outputs) < code.k) {
      throw new HadoopIllegalArgumentException(
          "No enough valid inputs are provided, not recoverable");
    }
    int bytes = Coder.length(inputs);
    ByteBuffer[] columns = inputs.clone();
    boolean[] written = new boolean[code.units()];
    for (int i = 0; i < erased.length; i++) {
      int unit = erased[i];
      if (unit < 0 || unit >= code.units() || written[unit]) {
        throw new HadoopIllegalArgumentException(
            "erasedIndexes has " + unit + ": give each of 0 to " + (code.units() - 1)
                + " at most once");
      }
      columns[unit] = outputs[i];
      written[unit] = true;
    }
    if (bytes == 0) {
      return;
    }
    byte[] states = new byte[code.units()];
    for (int i = 0; i < states.length; i++) {
      states[i] = written[i] ? Native.WANTED : columns[i] == null ? Native.ABSENT : Native.PRESENT;
    }
    Coder.run(
        columns,
        written,
        bytes,
        (direct, offsets, tile) ->
            Native.reconstruct(code.handle, direct, offsets, states, tile));
    Coder.consume(inputs);
  }

  @Override
  public void decode(byte[][] inputs, int[] erased, byte[][] outputs) throws IOException {
    decode(Coder.wrap(inputs), erased, Coder.wrap(outputs));
  }

  @Override
  public void decode(ECChunk[] inputs, int[] erased, ECChunk[] outputs) throws IOException {
    decode(Coder.buffers(inputs), erased, Coder.buffers(outputs));
  }
}
