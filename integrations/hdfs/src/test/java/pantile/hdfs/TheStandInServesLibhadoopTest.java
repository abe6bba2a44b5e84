package pantile.hdfs;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.ByteBuffer;
import java.nio.file.Paths;
import java.util.Arrays;
import java.util.List;
import org.apache.hadoop.io.erasurecode.rawcoder.RSRawErasureCoderFactory;
import org.apache.hadoop.io.erasurecode.rawcoder.RawErasureDecoder;
import org.apache.hadoop.io.erasurecode.rawcoder.RawErasureEncoder;
import org.junit.jupiter.api.Test;

/**
 * Our {@code libisal.so.2}, opened and called as libhadoop does, writes the bytes of Hadoop's Java
 * coder and reads them.
 */
class TheStandInServesLibhadoopTest {
  private static final int[][] CODES = {{3, 2}, {6, 3}, {10, 4}, {12, 4}};

  private static final int[] LENGTHS = {1, 7, 63, 1000, 37857, 131073};

  private static byte[][] parityOfJava(int k, int m, int bytes) throws Exception {
    return Units.parity(new RSRawErasureCoderFactory(), Units.painted(k, bytes), m);
  }

  /** Returns units in direct buffers at odd offsets; null stays null. */
  private static ByteBuffer[] direct(byte[][] units) {
    ByteBuffer[] buffers = new ByteBuffer[units.length];
    for (int i = 0; i < units.length; i++) {
      buffers[i] = units[i] == null ? null : Units.buffer(units[i], true, 2 * i + 1);
    }
    return buffers;
  }

  private static ByteBuffer[] outputs(int count, int bytes) {
    return direct(Units.painted(count, bytes));
  }

  @Test
  void theLoaderFindsOursByTheName() {
    assertEquals(
        Paths.get(System.getProperty("pantile.isal")).resolveSibling("libisal.so.2"),
        Paths.get(Isal.file()));
  }

  @Test
  void itWritesTheBytesOfTheJavaCoder() throws Exception {
    for (int[] code : CODES) {
      RawErasureEncoder encoder = new Isal().createEncoder(Units.options(code[0], code[1]));
      for (int bytes : LENGTHS) {
        ByteBuffer[] made = outputs(code[1], bytes);
        encoder.encode(direct(Units.painted(code[0], bytes)), made);
        byte[][] want = parityOfJava(code[0], code[1], bytes);
        for (int p = 0; p < code[1]; p++) {
          assertArrayEquals(want[p], Units.bytes(made[p]), Arrays.toString(code) + " " + bytes);
        }
      }
    }
  }

  @Test
  void updatesAddUpToTheSame() throws Exception {
    for (int[] code : CODES) {
      ByteBuffer[] data = direct(Units.painted(code[0], 1003));
      ByteBuffer[] columns = Arrays.copyOf(data, code[0] + code[1]);
      System.arraycopy(direct(new byte[code[1]][1003]), 0, columns, code[0], code[1]);
      Isal.run(Isal.encoder(code[0], code[1]), columns, true);
      byte[][] want = parityOfJava(code[0], code[1], 1003);
      for (int p = 0; p < code[1]; p++) {
        assertArrayEquals(want[p], Units.bytes(columns[code[0] + p]), Arrays.toString(code));
      }
    }
  }

  /** Decodes from every unit that is left, and from only the last k of them. */
  @Test
  void itDecodesEveryLossOfWhatTheJavaCoderWrote() throws Exception {
    for (int[] code : CODES) {
      int k = code[0];
      byte[][] all = Units.joined(Units.painted(k, 1003), parityOfJava(k, code[1], 1003));
      RawErasureDecoder decoder = new Isal().createDecoder(Units.options(k, code[1]));
      // The sets are ascending, data before parity, as libhadoop assumes.
      List<int[]> sets = Units.sets(k + code[1], code[1]);
      for (int[] erased : sets) {
        for (int spare : new int[] {0, code[1] - erased.length}) {
          byte[][] inputs = all.clone();
          for (int unit : erased) {
            inputs[unit] = null;
          }
          for (int unit = 0, left = spare; left > 0; unit++) {
            left -= inputs[unit] == null ? 0 : 1;
            inputs[unit] = null;
          }
          ByteBuffer[] made = outputs(erased.length, 1003);
          decoder.decode(direct(inputs), erased, made);
          for (int i = 0; i < erased.length; i++) {
            assertArrayEquals(all[erased[i]], Units.bytes(made[i]), Arrays.toString(erased));
          }
        }
      }
    }
  }
}
