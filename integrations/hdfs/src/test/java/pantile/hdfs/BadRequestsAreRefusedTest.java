package pantile.hdfs;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.hadoop.HadoopIllegalArgumentException;
import org.apache.hadoop.io.erasurecode.rawcoder.RawErasureDecoder;
import org.apache.hadoop.io.erasurecode.rawcoder.RawErasureEncoder;
import org.junit.jupiter.api.Test;

/** Sizes, buffers and lists that are wrong get Hadoop's exception, and a sentence. */
class BadRequestsAreRefusedTest {
  private static String refused(String codec, int k, int m) {
    return assertThrows(
            HadoopIllegalArgumentException.class,
            () -> Units.factory(codec).createEncoder(Units.options(k, m)))
        .getMessage();
  }

  @Test
  void codesThatHdfsCannotHave() {
    assertEquals(
        "rs with 17 data and 3 parity units: a block group has 2 to 16 blocks, at least one of each",
        refused("rs", 17, 3));
    assertEquals(
        "raidq with 8 data and 2 parity units: it has 3 or 4 parity units here; use rs for other"
            + " numbers",
        refused("raidq", 8, 2));
    assertTrue(refused("raidq", 13, 4).contains("2 to 16 blocks"));
    assertTrue(refused("xor", 4, 2).contains("one parity unit"));
    assertTrue(refused("rs", 6, 0).contains("at least one of each"));
  }

  @Test
  void buffersOfOtherLengthsKindsOrRights() throws Exception {
    RawErasureEncoder encoder = Units.factory("rs").createEncoder(Units.options(3, 2));
    byte[][] data = Units.painted(3, 10);
    List<ByteBuffer[][]> wrong = new ArrayList<>();
    wrong.add(new ByteBuffer[][] {Coder.wrap(Units.painted(2, 10)), Coder.wrap(new byte[2][10])});
    wrong.add(new ByteBuffer[][] {Coder.wrap(data), Coder.wrap(new byte[3][10])});
    wrong.add(new ByteBuffer[][] {Coder.wrap(data), Coder.wrap(new byte[2][9])});
    wrong.add(new ByteBuffer[][] {Coder.wrap(data), {ByteBuffer.allocate(10), null}});
    wrong.add(
        new ByteBuffer[][] {Coder.wrap(data), {ByteBuffer.allocate(10), ByteBuffer.allocateDirect(10)}});
    wrong.add(
        new ByteBuffer[][] {
          Coder.wrap(data), {ByteBuffer.allocate(10), ByteBuffer.allocate(10).asReadOnlyBuffer()}
        });
    ByteBuffer[] gap = Coder.wrap(data);
    gap[1] = null;
    wrong.add(new ByteBuffer[][] {gap, Coder.wrap(new byte[2][10])});
    for (ByteBuffer[][] call : wrong) {
      assertThrows(HadoopIllegalArgumentException.class, () -> encoder.encode(call[0], call[1]));
    }
  }

  @Test
  void listsOfErasedUnits() throws Exception {
    RawErasureDecoder decoder = Units.factory("rs").createDecoder(Units.options(3, 2));
    byte[][] data = Units.painted(3, 10);
    byte[][] all = Units.joined(data, Units.parity(Units.factory("rs"), data, 2));
    for (int[] erased : new int[][] {{0, 0}, {5}, {-1}, {0, 1, 2}}) {
      byte[][] inputs = all.clone();
      assertThrows(
          HadoopIllegalArgumentException.class,
          () -> decoder.decode(inputs, erased, new byte[erased.length][10]));
    }
    byte[][] few = all.clone();
    few[0] = null;
    few[1] = null;
    few[2] = null;
    assertThrows(
        HadoopIllegalArgumentException.class,
        () -> decoder.decode(few, new int[] {0, 1}, new byte[2][10]));
  }

  @Test
  void outputsThatAreTheSameMemory() {
    RawErasureEncoder encoder = Units.factory("rs").createEncoder(Units.options(3, 2));
    ByteBuffer[] data = new ByteBuffer[3];
    for (int i = 0; i < 3; i++) {
      data[i] = Units.buffer(new byte[10], true, 0);
    }
    ByteBuffer one = ByteBuffer.allocateDirect(10);
    String why =
        assertThrows(
                IllegalArgumentException.class,
                () -> encoder.encode(data, new ByteBuffer[] {one, one.duplicate()}))
            .getMessage();
    assertTrue(why.contains("overlap"), why);
  }

  @Test
  void bytesOutsideAreRefusedByTheNativeSide() {
    Code code = Code.of(Family.RS, 3, 2);
    ByteBuffer[] columns = new ByteBuffer[5];
    for (int i = 0; i < 5; i++) {
      columns[i] = ByteBuffer.allocateDirect(10);
    }
    int[][] offsets = {{0, 0, 0, 0, 1}, {-1, 0, 0, 0, 0}, {0, 0, 0, 0, Integer.MAX_VALUE}};
    for (int[] wrong : offsets) {
      assertThrows(
          IllegalArgumentException.class, () -> Native.encode(code.handle, columns, wrong, 10));
    }
    int[] zeros = new int[5];
    assertThrows(
        IllegalArgumentException.class, () -> Native.encode(code.handle, columns, zeros, 11));
    assertThrows(
        IllegalArgumentException.class, () -> Native.encode(code.handle, columns, zeros, -1));
    assertThrows(
        IndexOutOfBoundsException.class,
        () -> Native.encode(code.handle, columns, new int[4], 10));
    assertThrows(
        IllegalArgumentException.class,
        () -> Native.encode(code.handle, new ByteBuffer[17], new int[17], 10));
    columns[2] = ByteBuffer.allocate(10);
    assertThrows(
        IllegalArgumentException.class, () -> Native.encode(code.handle, columns, zeros, 10));
    assertThrows(IllegalArgumentException.class, () -> Native.open("nonsense"));
  }

  @Test
  void manyThreadsShareOneCoder() throws Exception {
    RawErasureEncoder encoder = Units.factory("raidq").createEncoder(Units.options(8, 4));
    RawErasureDecoder decoder = Units.factory("raidq").createDecoder(Units.options(8, 4));
    ExecutorService threads = Executors.newFixedThreadPool(8);
    List<Future<?>> all = new ArrayList<>();
    List<int[]> sets = Units.sets(12, 4);
    for (int t = 0; t < 8; t++) {
      final int thread = t;
      all.add(threads.submit(() -> {
        for (int round = 0; round < 200; round++) {
          int bytes = 1 + (thread * 7919 + round * 104729) % 70000;
          byte[][] data = Units.painted(8, bytes);
          byte[][] parity = new byte[4][bytes];
          encoder.encode(data, parity);
          int[] erased = sets.get((thread * 97 + round * 31) % sets.size());
          byte[][] units = Units.joined(data, parity);
          byte[][] inputs = units.clone();
          for (int unit : erased) {
            inputs[unit] = null;
          }
          byte[][] made = new byte[erased.length][bytes];
          decoder.decode(inputs, erased, made);
          for (int i = 0; i < erased.length; i++) {
            assertArrayEquals(units[erased[i]], made[i]);
          }
        }
        return null;
      }));
    }
    for (Future<?> one : all) {
      one.get();
    }
    threads.shutdown();
    assertNotSame(Room.take(), Room.take(), "two calls never share room");
  }
}
