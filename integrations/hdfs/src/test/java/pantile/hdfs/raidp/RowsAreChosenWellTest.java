package pantile.hdfs.raidp;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.Test;

/** A block gets a row in which its superchunk has none yet, and in which parity grows least. */
class RowsAreChosenWellTest {
  private static void add(SlotMap slots, long block, int partner, long length, int row) {
    slots.apply(
        Collections.emptyList(),
        Collections.singletonList(new Entry(block, 1, length, partner, row, 0)));
  }

  @Test
  void theShortestThatFitsElseTheLongestElseANewOne() {
    SlotMap slots = new SlotMap();
    assertEquals(0, slots.choose(1, 50));
    add(slots, 1, 1, 50, 0);
    add(slots, 2, 1, 100, 1);
    add(slots, 3, 1, 200, 2);
    assertEquals(1, slots.choose(2, 60));
    assertEquals(0, slots.choose(2, 50));
    assertEquals(2, slots.choose(2, 500));
    assertEquals(3, slots.choose(1, 1));
    add(slots, 4, 2, 60, 1);
    assertEquals(2, slots.choose(2, 60));
    assertEquals(250, slots.slack(2));
    assertEquals(0, slots.slack(1));
    slots.apply(Collections.singletonList(2L), Collections.emptyList());
    assertEquals(60, slots.length(1));
    assertEquals(1, slots.choose(1, 300));
    assertNull(slots.get(2));
  }

  @Test
  void noSlotHasTwoBlocksWhateverComesAndGoes() throws Exception {
    Random random = new Random(1);
    SlotMap slots = new SlotMap();
    Map<Long, Entry> there = new HashMap<>();
    for (long block = 0; block < 5000; block++) {
      int partner = 1 + random.nextInt(15);
      long length = random.nextInt(1000);
      Entry entry = new Entry(block, 1, length, partner, slots.choose(partner, length), 0);
      slots.check(Collections.emptyList(), Collections.singletonList(entry), 16, 0);
      slots.apply(Collections.emptyList(), Collections.singletonList(entry));
      there.put(block, entry);
      if (random.nextInt(3) > 0) {
        long gone = there.keySet().iterator().next();
        slots.check(Collections.singletonList(gone), Collections.emptyList(), 16, 0);
        slots.apply(Collections.singletonList(gone), Collections.emptyList());
        there.remove(gone);
      }
    }
    assertEquals(there.size(), slots.size());
    long parity = 0;
    for (int row = 0; row < slots.rows(); row++) {
      parity += slots.length(row);
    }
    long data = there.values().stream().mapToLong(entry -> entry.length).sum();
    // A 15th is the least possible; the most uneven superchunk determines the excess.
    assertTrue(parity < data / 7, parity + " bytes of parity for " + data);
  }
}
