package pantile.hdfs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** Counts the losses that an array survives, and solves systems that are given as a code's text. */
class TriplesAreCountedInTheEquationsTest {
  @Test
  void anyThreeDisksAndThreeNodesOfWhichNoTwoAreNeighbours() {
    for (int n : new int[] {5, 6, 9, 16}) {
      int all = n * (n - 1) * (n - 2) / 6;
      Triples disks = Triples.count(RaidpCode.of(n), false);
      assertEquals(all, disks.all);
      assertEquals(all, disks.survived);
      // Ways to choose 3 of n in a circle of which no two are side by side.
      int apart = n * (n - 4) * (n - 5) / 6;
      assertEquals(apart, Triples.count(RaidpCode.of(n), true).survived, n + " nodes");
    }
    assertEquals(352, 16 * 12 * 11 / 6);
  }

  @Test
  void aCycleOfWeightsIsSolvedAndOneOfOnesIsNot() throws Exception {
    List<Map<Integer, Integer>> ones =
        List.of(Map.of(0, 1, 1, 1), Map.of(1, 1, 2, 1), Map.of(2, 1, 0, 1));
    try (Equations open = new Equations(3, ones)) {
      assertFalse(open.areSolvable());
    }
    List<Map<Integer, Integer>> weighted =
        List.of(Map.of(0, 1, 1, 1), Map.of(0, 2, 2, 1), Map.of(1, 2, 2, 2));
    try (Equations closed = new Equations(3, weighted)) {
      assertTrue(closed.areSolvable());
      ByteBuffer sums = ByteBuffer.allocateDirect(6);
      ByteBuffer made = ByteBuffer.allocateDirect(6);
      // The bytes of three unknowns: 1 2, 4 8 and 16 32.
      byte[] want = {1, 2, 4, 8, 16, 32};
      sums.put(new byte[] {1 ^ 4, 2 ^ 8, 2 ^ 16, 4 ^ 32, 8 ^ 32, 16 ^ 64});
      closed.solve(made, sums, 2);
      byte[] got = new byte[6];
      made.get(got);
      org.junit.jupiter.api.Assertions.assertArrayEquals(want, got);
      assertThrows(IllegalArgumentException.class, () -> closed.solve(made, sums, 3));
      assertThrows(
          IllegalArgumentException.class, () -> closed.solve(ByteBuffer.allocate(6), sums, 2));
    }
    try (Equations few = new Equations(2, List.of(Map.of(0, 1, 1, 1)))) {
      assertThrows(
          IOException.class,
          () -> few.solve(ByteBuffer.allocateDirect(2), ByteBuffer.allocateDirect(1), 1));
    }
  }
}
