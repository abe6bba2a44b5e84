package pantile.hdfs.raidp;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;
import pantile.hdfs.Equations;
import pantile.hdfs.RaidpCode;

/**
 * Plans of recovery, carried out in memory: rows, mirrors, and the blocks that the NameNode misses.
 */
class LostBlocksAreFoundInTheRowsTest {
  private static final int BYTES = 24;

  /** An array: for each disk its rows, each with at most one block of each partner. */
  private static final class Array {
    final RaidpCode code;
    final Map<Long, byte[]> contents = new HashMap<>();
    final Map<Integer, List<Entry>> entries = new TreeMap<>();
    final Map<List<Integer>, byte[]> parity = new HashMap<>();

    /**
     * Makes an array; if shuffled, the blocks of a pair of disks are in rows of different order on
     * each disk.
     */
    Array(int disks, int blocks, boolean shuffled, long seed) {
      code = RaidpCode.of(disks);
      Random random = new Random(seed);
      for (int disk = 0; disk < disks; disk++) {
        entries.put(disk, new ArrayList<>());
      }
      long id = 1;
      for (int a = 0; a < disks; a++) {
        for (int b = a + 1; b < disks; b++) {
          List<Integer> rowsOfA = rows(blocks, shuffled, random);
          List<Integer> rowsOfB = rows(blocks, shuffled, random);
          for (int block = 0; block < blocks; block++, id++) {
            int length = 1 + random.nextInt(BYTES);
            byte[] content = new byte[length];
            random.nextBytes(content);
            contents.put(id, content);
            put(a, new Entry(id, 7, length, b, rowsOfA.get(block), 0));
            put(b, new Entry(id, 7, length, a, rowsOfB.get(block), 0));
          }
        }
      }
    }

    private static List<Integer> rows(int blocks, boolean shuffled, Random random) {
      List<Integer> rows = new ArrayList<>();
      for (int row = 0; row < blocks; row++) {
        rows.add(row);
      }
      if (shuffled) {
        Collections.shuffle(rows, random);
      }
      return rows;
    }

    private void put(int disk, Entry entry) {
      entries.get(disk).add(entry);
      fold(disk, entry, parity.computeIfAbsent(List.of(disk, entry.row), at -> new byte[BYTES]));
    }

    void fold(int disk, Entry entry, byte[] sum) {
      ByteBuffer to = direct(sum);
      code.fold(disk, entry.partner, to, direct(contents.get(entry.blockId)));
      to.get(sum);
    }

    int weight(int disk, int partner) {
      byte[] sum = new byte[1];
      ByteBuffer to = direct(sum);
      code.fold(disk, partner, to, direct(new byte[] {1}));
      return to.get(0) & 0xff;
    }

    Set<Long> shared(Set<Integer> lost) {
      Set<Long> ids = new HashSet<>();
      for (int disk : lost) {
        for (Entry entry : entries.get(disk)) {
          if (lost.contains(entry.partner)) {
            ids.add(entry.blockId);
          }
        }
      }
      return ids;
    }

    /**
     * Recovers the blocks that these disks shared, and compares them. Returns those that could not
     * be recovered.
     */
    Set<Long> recover(Set<Integer> lost, Set<Integer> addOns, Set<Long> deleted) throws Exception {
      Map<Long, RecoveryPlan.Wanted> wanted = new TreeMap<>();
      for (long id : shared(lost)) {
        if (!deleted.contains(id)) {
          wanted.put(id, new RecoveryPlan.Wanted(7, contents.get(id).length));
        }
      }
      Map<Integer, List<Entry>> given = new TreeMap<>();
      addOns.forEach(disk -> given.put(disk, entries.get(disk)));
      while (true) {
        RecoveryPlan plan = new RecoveryPlan(given, wanted, contents(deleted), Map.of(), this::weight);
        if (plan.steps.isEmpty()) {
          return wanted.keySet();
        }
        for (RecoveryPlan.Step step : plan.steps) {
          carryOut(step);
          for (RecoveryPlan.Unknown unknown : step.unknowns) {
            assertTrue(
                !unknown.wanted || wanted.remove(unknown.blockId) != null, "made twice");
          }
        }
      }
    }

    private Set<List<Long>> contents(Set<Long> blocks) {
      Set<List<Long>> holes = new HashSet<>();
      for (List<Entry> some : entries.values()) {
        some.stream().filter(e -> blocks.contains(e.blockId)).forEach(e -> holes.add(e.content()));
      }
      return holes;
    }

    private void carryOut(RecoveryPlan.Step step) throws Exception {
      ByteBuffer sums = ByteBuffer.allocateDirect(step.rows.size() * BYTES);
      for (RecoveryPlan.Row row : step.rows) {
        byte[] sum = parity.get(List.of(row.disk, row.row)).clone();
        row.known.forEach(entry -> fold(row.disk, entry, sum));
        sums.put(sum);
      }
      ByteBuffer made = ByteBuffer.allocateDirect(step.unknowns.size() * BYTES);
      try (Equations equations = new Equations(step.unknowns.size(), step.sums(this::weight))) {
        equations.solve(made, sums, BYTES);
      }
      for (RecoveryPlan.Unknown unknown : step.unknowns) {
        byte[] got = new byte[BYTES];
        made.get(got);
        byte[] want = java.util.Arrays.copyOf(contents.get(unknown.blockId), BYTES);
        assertArrayEquals(want, got, "blk_" + unknown.blockId);
      }
    }
  }

  private static ByteBuffer direct(byte[] bytes) {
    ByteBuffer buffer = ByteBuffer.allocateDirect(bytes.length);
    buffer.put(bytes);
    buffer.flip();
    return buffer;
  }

  @Test
  void anyTwoDisksWithEitherAddOn() throws Exception {
    for (boolean shuffled : new boolean[] {false, true}) {
      Array array = new Array(6, 5, shuffled, 46);
      for (int a = 0; a < 6; a++) {
        for (int b = a + 1; b < 6; b++) {
          for (Set<Integer> addOns : List.of(Set.of(a), Set.of(b), Set.of(a, b))) {
            assertEquals(Set.of(), array.recover(Set.of(a, b), addOns, Set.of()));
          }
        }
      }
    }
  }

  @Test
  void anyThreeDisksWithTheirAddOns() throws Exception {
    for (int seed = 0; seed < 4; seed++) {
      Array array = new Array(6, 7, seed > 0, seed);
      for (int a = 0; a < 6; a++) {
        for (int b = a + 1; b < 6; b++) {
          for (int c = b + 1; c < 6; c++) {
            Set<Integer> lost = Set.of(a, b, c);
            assertEquals(Set.of(), array.recover(lost, lost, Set.of()), lost + " seed " + seed);
          }
        }
      }
    }
  }

  @Test
  void ofThreeDisksWithTwoAddOnsNothingIsGuessed() throws Exception {
    Array array = new Array(6, 4, false, 3);
    Set<Long> left = array.recover(Set.of(0, 2, 4), Set.of(0, 2), Set.of());
    assertEquals(array.shared(Set.of(0, 2, 4)), left);
    // With one block fewer in the rows, every recoverable block is recovered.
    array.entries.get(0).removeIf(entry -> entry.partner == 2 && entry.row == 0);
    array.entries.get(2).removeIf(entry -> entry.partner == 0 && entry.row == 0);
    long gone = array.contents.keySet().stream()
        .filter(id -> array.entries.values().stream().flatMap(List::stream).noneMatch(e -> e.blockId == id))
        .findFirst().get();
    array.parity.forEach((place, sum) -> {
      if (place.get(1) == 0 && (place.get(0) == 0 || place.get(0) == 2)) {
        array.fold(place.get(0), new Entry(gone, 7, 0, 2 - place.get(0), 0, 0), sum);
      }
    });
    assertEquals(left.size() - 3, array.recover(Set.of(0, 2, 4), Set.of(0, 2), Set.of()).size());
  }

  @Test
  void aBlockThatWasDeletedSinceSpoilsOnlyTheRowThatHasIt() throws Exception {
    Array array = new Array(5, 4, true, 9);
    // A block of disks 0 and 3, which is in no row of disk 1.
    long deleted =
        array.entries.get(0).stream().filter(entry -> entry.partner == 3).findFirst().get().blockId;
    assertEquals(Set.of(), array.recover(Set.of(0, 1), Set.of(0, 1), Set.of(deleted)));
    assertEquals(1, array.recover(Set.of(0, 1), Set.of(0), Set.of(deleted)).size());
  }

  @Test
  void anotherGenerationOrLengthIsAnotherContent() {
    Array array = new Array(4, 1, false, 1);
    long id = array.shared(Set.of(0, 1)).iterator().next();
    long length = array.contents.get(id).length;
    for (RecoveryPlan.Wanted other :
        List.of(new RecoveryPlan.Wanted(8, length), new RecoveryPlan.Wanted(7, length + 1))) {
      RecoveryPlan plan =
          new RecoveryPlan(
              Map.of(0, array.entries.get(0)), Map.of(id, other), Set.of(), Map.of(), array::weight);
      assertEquals(0, plan.steps.size());
      assertEquals(Set.of(id), plan.uncovered);
    }
  }
}
