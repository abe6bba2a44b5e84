package pantile.hdfs.raidp;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Kept copies are links that outlive the block, and serve the entries that need them. */
class KeptCopiesAreFoundAgainTest {
  private static final StorageName NAME = StorageName.of("a", 0, 1);

  @TempDir Path folder;

  private final Kept kept = new Kept("BP-1");

  private Path block(long id, long generation, int bytes) throws IOException {
    Path data = folder.resolve("blk_" + id);
    Files.write(data, RaidpCluster.content(id + "_" + generation, bytes));
    Files.write(meta(data, generation), new byte[] {1, 2, 3});
    return data;
  }

  private static Path meta(Path data, long generation) {
    return data.resolveSibling(data.getFileName() + "_" + generation + ".meta");
  }

  private void keep(Path data, long id, long generation, Kept.Reason reason) throws IOException {
    kept.keep(
        folder, NAME, id, generation, reason, data.toFile(), meta(data, generation).toFile());
  }

  private Kept listed() throws IOException {
    Kept again = new Kept("BP-1");
    again.list(folder, NAME);
    return again;
  }

  @Test
  void aCopyOutlivesItsBlockAndARestart() throws IOException {
    Path data = block(7, 1001, 5_000);
    keep(data, 7, 1001, Kept.Reason.DELETED);
    Files.delete(data);
    Files.delete(meta(data, 1001));
    List<Kept.Copy> found = listed().of(7);
    assertEquals(1, found.size());
    Kept.Copy copy = found.get(0);
    assertEquals(1001, copy.generation());
    assertEquals(5_000, copy.length());
    assertEquals(1, copy.partner());
    assertEquals(Kept.Reason.DELETED, copy.reason);
    try (InputStream in = copy.data(4_000)) {
      byte[] whole = RaidpCluster.content("7_1001", 5_000);
      assertArrayEquals(Arrays.copyOfRange(whole, 4_000, 5_000), in.readAllBytes());
    }
    kept.drop(kept.of(7).get(0));
    assertEquals(List.of(), listed().all());
    try (Stream<Path> left = Files.list(folder.resolve(Kept.FOLDER).resolve("BP-1"))) {
      assertEquals(List.of(), left.collect(Collectors.toList()));
    }
  }

  @Test
  void aLinkOfChecksumsAloneIsNoCopyAndIsReplaced() throws IOException {
    // The process ended between the two links: the block was not deleted.
    Path data = block(7, 1001, 5_000);
    Path own = folder.resolve(Kept.FOLDER).resolve("BP-1");
    Files.createDirectories(own);
    Files.write(own.resolve("blk_7_1001.meta"), new byte[] {9});
    assertEquals(List.of(), listed().all());
    keep(data, 7, 1001, Kept.Reason.DELETED);
    assertArrayEquals(
        new byte[] {1, 2, 3}, Files.readAllBytes(own.resolve("blk_7_1001.meta")));
    assertEquals(1, listed().all().size());
  }

  @Test
  void anotherFileOfTheSameGenerationReplacesACopy() throws IOException {
    keep(block(7, 1001, 5_000), 7, 1001, Kept.Reason.OPEN);
    Files.delete(folder.resolve("blk_7"));
    keep(block(7, 1001, 9_000), 7, 1001, Kept.Reason.DELETED);
    assertEquals(1, listed().of(7).size());
    assertEquals(9_000, listed().of(7).get(0).length());
  }

  @Test
  void theLeastGenerationThatIsLongEnoughServesAnEntry() throws IOException {
    // The block was appended to, truncated, and appended to again beyond its old length.
    keep(block(7, 1002, 6_000), 7, 1002, Kept.Reason.SHORTENED);
    Files.delete(folder.resolve("blk_7"));
    keep(block(7, 1004, 9_000), 7, 1004, Kept.Reason.DELETED);
    List<Kept.Copy> copies = kept.of(7);
    assertEquals(1002, Kept.version(null, copies, 1001, 5_000).generation());
    assertEquals(1002, Kept.version(null, copies, 1002, 6_000).generation());
    assertEquals(1004, Kept.version(null, copies, 1003, 3_000).generation());
    assertNull(Kept.version(null, copies, 1005, 1));
    assertNull(Kept.version(null, copies, 1004, 9_001));
    // A live replica counts like a copy, by its generation.
    Held live = copies.get(1);
    assertEquals(1002, Kept.version(live, copies.subList(0, 1), 1001, 5_000).generation());
    assertEquals(1004, Kept.version(live, copies.subList(0, 1), 1003, 3_000).generation());
  }
}
