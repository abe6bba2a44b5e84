package pantile.hdfs.raidp;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.Test;

/** A recovery counts a block as gone only when all disks with a node were asked. */
class BlocksAreGoneOnlyWhenAllDisksSaySoTest {
  private final Set<Integer> live = new HashSet<>(List.of(0, 1, 2, 3));

  /** Blocks of each disk, each with the generation that the disk reports. */
  private final Map<Integer, Map<Long, Long>> disks = new HashMap<>();

  private final Set<Integer> hung = new HashSet<>();
  private int asked;

  private final Sources sources =
      new Sources(
          (disk, blocks, generations, lengths) -> {
            asked++;
            if (hung.contains(disk)) {
              throw new IOException("connection refused");
            }
            long[] found = new long[blocks.length];
            for (int i = 0; i < found.length; i++) {
              found[i] = disks.getOrDefault(disk, Map.of()).getOrDefault(blocks[i], Peer.NONE);
            }
            return found;
          });

  private static final Entry ENTRY = new Entry(7, 3, 100, 2, 0, 0);

  private void refresh() {
    sources.refresh(Map.of(0, List.of(ENTRY)), Set.of(), live);
  }

  @Test
  void theMirrorsAnswerCountsFirst() {
    disks.put(2, Map.of(7L, 3L));
    refresh();
    assertEquals(2, sources.of(ENTRY));
    refresh();
    assertEquals(1, asked);
    // The new disk in the block's own place has a later generation with the same first bytes.
    disks.put(0, Map.of(7L, 5L));
    disks.remove(2);
    sources.doubt(ENTRY.content());
    refresh();
    assertEquals(0, sources.of(ENTRY));
  }

  @Test
  void aMirrorThatDoesNotAnswerLeavesNoHole() {
    hung.add(2);
    refresh();
    assertNull(sources.of(ENTRY));
    assertEquals(Set.of(), sources.gone());
    assertEquals("connection refused", sources.silent().get(2));
    hung.clear();
    disks.put(2, Map.of(7L, 3L));
    refresh();
    assertEquals(2, sources.of(ENTRY));
  }

  @Test
  void aMirrorWhoseNodeComesBackEndsAHole() {
    live.remove(2);
    refresh();
    assertEquals(Set.of(ENTRY.content()), sources.gone());
    assertTrue(sources.hope().contains("[2]"), sources.hope());
    live.add(2);
    disks.put(2, Map.of(7L, 3L));
    refresh();
    assertEquals(Set.of(), sources.gone());
    assertEquals(2, sources.of(ENTRY));
  }

  @Test
  void aCopyInASpareOfAnotherDiskIsFoundLast() {
    live.remove(2);
    hung.add(1);
    refresh();
    assertEquals(Set.of(), sources.gone());
    hung.clear();
    disks.put(3, Map.of(7L, 3L));
    refresh();
    assertEquals(3, sources.of(ENTRY));
    assertEquals(Set.of(), sources.gone());
  }

  @Test
  void whatNoDiskHasIsGone() {
    refresh();
    assertEquals(Set.of(ENTRY.content()), sources.gone());
    assertEquals("", sources.hope());
    int before = asked;
    refresh();
    assertEquals(before, asked);
    sources.refresh(Map.of(1, List.of(new Entry(8, 3, 100, 2, 0, 0))), Set.of(8L), live);
    assertEquals(before, asked);
  }
}
