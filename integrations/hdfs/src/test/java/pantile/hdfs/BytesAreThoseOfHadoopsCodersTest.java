package pantile.hdfs;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.ByteBuffer;
import java.util.Random;
import org.apache.hadoop.io.erasurecode.rawcoder.RSLegacyRawErasureCoderFactory;
import org.apache.hadoop.io.erasurecode.rawcoder.RSRawErasureCoderFactory;
import org.apache.hadoop.io.erasurecode.rawcoder.RawErasureCoderFactory;
import org.apache.hadoop.io.erasurecode.rawcoder.RawErasureDecoder;
import org.apache.hadoop.io.erasurecode.rawcoder.XORRawErasureCoderFactory;
import org.junit.jupiter.api.Test;

/** Our coders and Hadoop's Java coders write and read the same bytes. */
class BytesAreThoseOfHadoopsCodersTest {
  private static final int[] LENGTHS = {1, 7, 1000, 37857, 65536, 131073};

  private static RawErasureCoderFactory java(String codec) {
    switch (codec) {
      case "rs":
        return new RSRawErasureCoderFactory();
      case "rs-legacy":
        return new RSLegacyRawErasureCoderFactory();
      default:
        return new XORRawErasureCoderFactory();
    }
  }

  private static void eachCode(Check check) throws Exception {
    check.of("rs", 3, 2);
    check.of("rs", 6, 3);
    check.of("rs", 10, 4);
    check.of("rs-legacy", 6, 3);
    check.of("xor", 2, 1);
    check.of("xor", 10, 1);
  }

  private interface Check {
    void of(String codec, int k, int m) throws Exception;
  }

  @Test
  void parityIsTheSame() throws Exception {
    eachCode((codec, k, m) -> {
      for (int bytes : LENGTHS) {
        byte[][] data = Units.painted(k, bytes);
        byte[][] ours = Units.parity(Units.factory(codec), data, m);
        // Hadoop's coder for the older code overwrites its inputs.
        byte[][] theirs = Units.parity(java(codec), Units.painted(k, bytes), m);
        for (int p = 0; p < m; p++) {
          assertArrayEquals(theirs[p], ours[p], codec + " " + bytes);
        }
      }
    });
  }

  @Test
  void eachDecodesWhatTheOtherWrote() throws Exception {
    eachCode((codec, k, m) -> {
      byte[][] data = Units.painted(k, 1003);
      RawErasureCoderFactory ours = Units.factory(codec);
      RawErasureCoderFactory theirs = java(codec);
      // Erased units are ascending, because Hadoop 3.4.3 computes wrong bytes if a parity is named
      // before a data unit (HADOOP-19180).
      for (int[] erased : Units.sets(k + m, m)) {
        decodes(theirs, Units.joined(data, Units.parity(ours, data, m)), k, m, erased);
        decodes(ours, Units.joined(data, Units.parity(theirs, Units.painted(k, 1003), m)), k, m, erased);
      }
    });
  }

  private static void decodes(
      RawErasureCoderFactory factory, byte[][] all, int k, int m, int[] erased) throws Exception {
    byte[][] inputs = new byte[k + m][];
    int given = 0;
    for (int unit = 0; unit < k + m; unit++) {
      final int u = unit;
      if (java.util.Arrays.stream(erased).noneMatch(e -> e == u) && given < k) {
        inputs[unit] = all[unit].clone();
        given++;
      }
    }
    byte[][] made = new byte[erased.length][all[0].length];
    factory.createDecoder(Units.options(k, m)).decode(inputs, erased, made);
    for (int i = 0; i < erased.length; i++) {
      assertArrayEquals(all[erased[i]], made[i], factory.getCoderName());
    }
  }

  @Test
  void slicesOfACellAreTheCellsBytes() throws Exception {
    Random random = new Random(45);
    for (String code : new String[] {"rs 6 3", "rs-legacy 6 3", "xor 2 1", "raidq 8 4", "raidq 8 3"}) {
      String[] words = code.split(" ");
      int k = Integer.parseInt(words[1]);
      int m = Integer.parseInt(words[2]);
      RawErasureCoderFactory factory = Units.factory(words[0]);
      byte[][] data = Units.painted(k, 131072);
      byte[][] all = Units.joined(data, Units.parity(factory, data, m));
      for (int bytes : new int[] {1, 7, 1000, 37857}) {
        for (boolean direct : new boolean[] {false, true}) {
          int start = random.nextInt(131072 - bytes) | 1;
          slice(factory, all, k, m, Math.min(start, 131072 - bytes), bytes, direct);
        }
      }
    }
  }

  private static byte[] cut(byte[] unit, int start, int bytes) {
    return java.util.Arrays.copyOfRange(unit, start, start + bytes);
  }

  private static void slice(
      RawErasureCoderFactory factory, byte[][] all, int k, int m, int start, int bytes, boolean direct)
      throws Exception {
    ByteBuffer[] data = new ByteBuffer[k];
    ByteBuffer[] parity = new ByteBuffer[m];
    for (int i = 0; i < k; i++) {
      data[i] = Units.buffer(cut(all[i], start, bytes), direct, 3 + i);
    }
    for (int p = 0; p < m; p++) {
      parity[p] = Units.buffer(new byte[bytes], direct, 5 + p);
    }
    factory.createEncoder(Units.options(k, m)).encode(data, parity);
    for (int p = 0; p < m; p++) {
      assertEquals(5 + p, parity[p].position(), "outputs stay where they are");
      assertArrayEquals(cut(all[k + p], start, bytes), Units.bytes(parity[p]));
    }
    for (ByteBuffer input : data) {
      assertEquals(0, input.remaining(), "inputs are moved to their ends");
    }
    ByteBuffer[] units = new ByteBuffer[k + m];
    for (int i = m; i < k + m; i++) {
      units[i] = Units.buffer(cut(all[i], start, bytes), direct, 1);
    }
    // The erased units are not in ascending order.
    int[] erased = new int[m];
    ByteBuffer[] made = new ByteBuffer[m];
    for (int i = 0; i < m; i++) {
      erased[i] = m - 1 - i;
      made[i] = Units.buffer(new byte[bytes], direct, 7);
    }
    factory.createDecoder(Units.options(k, m)).decode(units, erased, made);
    for (int i = 0; i < m; i++) {
      assertArrayEquals(cut(all[erased[i]], start, bytes), Units.bytes(made[i]));
      assertEquals(7, made[i].position());
    }
  }

  /** Hadoop 3.4.3's coder fails here (HADOOP-19180). */
  @Test
  void aParityMayBeAskedForBeforeADataUnit() throws Exception {
    byte[][] data = Units.painted(6, 100);
    byte[][] all = Units.joined(data, Units.parity(Units.factory("rs"), data, 3));
    RawErasureDecoder decoder = Units.factory("rs").createDecoder(Units.options(6, 3));
    byte[][] inputs = all.clone();
    inputs[0] = null;
    inputs[6] = null;
    byte[][] made = new byte[2][100];
    decoder.decode(inputs, new int[] {6, 0}, made);
    assertArrayEquals(all[6], made[0]);
    assertArrayEquals(all[0], made[1]);
  }
}
