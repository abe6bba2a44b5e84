package pantile.hdfs;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.io.erasurecode.ErasureCoderOptions;
import org.apache.hadoop.io.erasurecode.rawcoder.RawErasureCoderFactory;

/** Units of a stripe for tests: painted, encoded, erased. */
final class Units {
  private Units() {}

  static RawErasureCoderFactory factory(String codec) {
    switch (codec) {
      case "rs":
        return new CoderFactory.Rs();
      case "rs-legacy":
        return new CoderFactory.RsLegacy();
      case "xor":
        return new CoderFactory.Xor();
      case "raidq":
        return new CoderFactory.Raidq();
      default:
        throw new IllegalArgumentException(codec);
    }
  }

  static ErasureCoderOptions options(int k, int m) {
    return new ErasureCoderOptions(k, m);
  }

  /** Returns units of bytes that differ between units, and between nearby offsets. */
  static byte[][] painted(int units, int bytes) {
    byte[][] painted = new byte[units][bytes];
    for (int u = 0; u < units; u++) {
      for (int i = 0; i < bytes; i++) {
        painted[u][i] = (byte) ((i % 251) * 7 + u * 31 + i / 251);
      }
    }
    return painted;
  }

  /** Returns parity of data by a factory's encoder, from arrays. */
  static byte[][] parity(RawErasureCoderFactory factory, byte[][] data, int m) throws Exception {
    byte[][] parity = new byte[m][data[0].length];
    factory.createEncoder(options(data.length, m)).encode(data, parity);
    return parity;
  }

  static byte[][] joined(byte[][] data, byte[][] parity) {
    byte[][] all = new byte[data.length + parity.length][];
    System.arraycopy(data, 0, all, 0, data.length);
    System.arraycopy(parity, 0, all, data.length, parity.length);
    return all;
  }

  /** All sets of at least one and at most so many of n numbers, each ascending. */
  static List<int[]> sets(int n, int most) {
    List<int[]> sets = new ArrayList<>();
    for (int mask = 1; mask < 1 << n; mask++) {
      if (Integer.bitCount(mask) <= most) {
        final int chosen = mask;
        sets.add(java.util.stream.IntStream.range(0, n).filter(i -> (chosen >> i & 1) == 1).toArray());
      }
    }
    return sets;
  }

  /** A copy of bytes in a buffer, direct or not, at an odd offset of a larger one. */
  static ByteBuffer buffer(byte[] bytes, boolean direct, int offset) {
    int size = bytes.length + offset + 5;
    ByteBuffer all = direct ? ByteBuffer.allocateDirect(size) : ByteBuffer.allocate(size);
    all.position(offset);
    all.put(bytes);
    all.position(offset);
    all.limit(offset + bytes.length);
    return all;
  }

  static byte[] bytes(ByteBuffer buffer) {
    byte[] bytes = new byte[buffer.remaining()];
    buffer.duplicate().get(bytes);
    return bytes;
  }
}
