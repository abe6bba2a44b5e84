package pantile.hdfs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.ByteBuffer;
import org.junit.jupiter.api.Test;

/** Results of {@link Native#locate} for wrong bytes; docs/hdfs.md has the same numbers. */
class EvidenceGrowsWithWrongBytesTest {
  private static final int BYTES = 1000;

  private static long[] located(Family family, int k, int m, int wrongUnit, int wrongBytes)
      throws Exception {
    byte[][] data = Units.painted(k, BYTES);
    byte[][] all = Units.joined(data, Units.parity(Units.factory(family.codec), data, m));
    ByteBuffer[] columns = new ByteBuffer[k + m];
    for (int i = 0; i < k + m; i++) {
      columns[i] = Units.buffer(all[i], true, 0);
      for (int b = 0; i == wrongUnit && b < wrongBytes; b++) {
        columns[i].put(500 + b, (byte) (columns[i].get(500 + b) ^ (b + 77)));
      }
    }
    return Native.locate(Code.of(family, k, m).handle, columns, BYTES);
  }

  private static void is(long[] finding, int unit, int bytes, int bits) {
    assertEquals(Native.FINDING_NUMBERS, finding.length);
    assertEquals(500, finding[0]);
    assertEquals(bytes, finding[1]);
    assertEquals(0, finding[2], "located");
    assertEquals(bits, finding[3]);
    assertEquals(bits >= 40 ? 1 : 0, finding[4]);
    assertEquals(1L << unit, finding[5]);
  }

  @Test
  void theNumbersOfThePage() throws Exception {
    assertEquals(0, located(Family.RS, 6, 3, -1, 0).length);
    is(located(Family.RS, 6, 3, 2, 1), 2, 1, 12);
    is(located(Family.RS, 6, 3, 7, 3), 7, 3, 44);
    is(located(Family.RAIDQ, 8, 4, 11, 1), 11, 1, 20);
    is(located(Family.RAIDQ, 8, 4, 0, 2), 0, 2, 44);
    is(located(Family.RS, 3, 2, 1, 6), 1, 6, 45);
  }

  @Test
  void oneParityLocatesNothing() throws Exception {
    long[] finding = located(Family.XOR, 2, 1, 1, 9);
    assertTrue(finding[2] != 0 || finding[3] == 0, "not located");
  }

  @Test
  void withoutASpareUnitThereIsNothingToCheck() {
    ByteBuffer[] columns = new ByteBuffer[9];
    for (int i = 0; i < 6; i++) {
      columns[i] = ByteBuffer.allocateDirect(BYTES);
    }
    long handle = Code.of(Family.RS, 6, 3).handle;
    assertThrows(IOException.class, () -> Native.locate(handle, columns, BYTES));
  }
}
