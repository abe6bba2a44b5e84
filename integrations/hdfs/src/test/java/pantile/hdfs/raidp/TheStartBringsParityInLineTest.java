package pantile.hdfs.raidp;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.TreeSet;
import org.apache.hadoop.util.DataChecksum;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import pantile.hdfs.RaidpCode;

/** Whatever happened while the add-on or the DataNode was away, the start makes parity right. */
class TheStartBringsParityInLineTest {
  private static final Header HEADER = new Header("a", 4, 0, 200, "pool");

  /** A replica in memory, with checksums that may be wrong. */
  private static final class Replica {
    final long block;
    long generation = 1;
    byte[] content;
    boolean rots;

    Replica(long block, int bytes) {
      this.block = block;
      content = RaidpCluster.content("" + block, bytes);
    }

    Held held() {
      StorageName name = StorageName.of("a", 0, 1 + (int) block % 3);
      return new Held(block, generation, content.length, true, name) {
        @Override
        InputStream data(long offset) {
          return new ByteArrayInputStream(content, (int) offset, content.length);
        }

        @Override
        InputStream checksums() {
          DataChecksum sums = DataChecksum.newDataChecksum(DataChecksum.Type.CRC32, 512);
          int chunks = (content.length + 511) / 512;
          byte[] file = new byte[7 + 4 * chunks];
          ByteBuffer of = ByteBuffer.wrap(file);
          of.putShort((short) 1).put(sums.getHeader());
          sums.calculateChunkedSums(ByteBuffer.wrap(content), of.slice());
          file[10] ^= (byte) (rots ? 1 : 0);
          return new ByteArrayInputStream(file);
        }
      };
    }
  }

  private final Map<Long, Replica> disk = new ConcurrentSkipListMap<>();

  /** Kept copies of replicas that were deleted or shortened. */
  private final Map<Long, Replica> kept = new ConcurrentSkipListMap<>();
  private final CrashingDisk medium = new CrashingDisk(-1);

  private final Keeper.Replicas replicas =
      new Keeper.Replicas() {
        @Override
        public Held get(long block) {
          Replica replica = disk.get(block);
          return replica == null ? null : replica.held();
        }

        @Override
        public Collection<Long> finalized() {
          return new ArrayList<>(disk.keySet());
        }

        @Override
        public List<Held> kept(long block) {
          return kept.containsKey(block) ? List.of(kept.get(block).held()) : List.of();
        }

        @Override
        public Collection<Long> kept() {
          return new ArrayList<>(kept.keySet());
        }

        @Override
        public boolean isDeleted(Entry entry) {
          return kept.containsKey(entry.blockId) && !disk.containsKey(entry.blockId);
        }
      };

  private void put(long block, int bytes) {
    disk.put(block, new Replica(block, bytes));
  }

  private Keeper started() throws IOException {
    if (!LocalAddOn.exists(medium)) {
      LocalAddOn.create(medium, HEADER);
    }
    return begun(() -> new LocalAddOn(medium, false));
  }

  private Keeper begun(Keeper.Opener opener) throws IOException {
    Keeper keeper = new Keeper(opener, replicas, 0, 1 << 20, 50, 10_000);
    keeper.open();
    keeper.begin();
    settled(keeper);
    return keeper;
  }

  /** Waits until a keeper has processed all blocks, repeated tries included. */
  private static void settled(Keeper keeper) throws IOException {
    try {
      Thread.sleep(150);
      assertTrue(RaidpCluster.within(60, keeper::isIdle));
    } catch (Exception error) {
      throw new IOException(error);
    }
  }

  /** Deletes a block as the guard does, which keeps it first. */
  private void delete(Keeper keeper, long block) {
    kept.put(block, disk.remove(block));
    keeper.sync(block);
  }

  /**
   * Returns the blocks in parity, and checks that parity is the sum of their content on the disk.
   */
  private String inParity() throws IOException {
    RaidpCode code = RaidpCode.of(4);
    TreeSet<Long> blocks = new TreeSet<>();
    try (LocalAddOn addOn = new LocalAddOn(medium, true)) {
      Map<Integer, ByteBuffer> rows = new TreeMap<>();
      for (Entry entry : addOn.entries()) {
        blocks.add(entry.blockId);
        ByteBuffer content = ByteBuffer.allocateDirect((int) entry.length);
        Replica replica = disk.get(entry.blockId);
        content.put(replica == null ? new byte[0] : replica.content);
        content.clear();
        ByteBuffer sum = rows.computeIfAbsent(entry.row, row -> ByteBuffer.allocateDirect(1 << 20));
        code.fold(0, entry.partner, sum, content);
      }
      for (Map.Entry<Integer, ByteBuffer> row : rows.entrySet()) {
        byte[] expected = new byte[1 << 20];
        row.getValue().get(expected);
        ByteBuffer parity = ByteBuffer.allocate(1 << 20);
        addOn.read(row.getKey(), 0, parity);
        assertArrayEquals(expected, parity.array(), "row " + row.getKey());
      }
    }
    return blocks.toString();
  }

  @Test
  void blocksThatCameAndThatChangedMeanwhile() throws IOException {
    for (long block = 1; block <= 5; block++) {
      put(block, 100_000 * (int) block);
    }
    started().close();
    assertEquals("[1, 2, 3, 4, 5]", inParity());
    put(6, 1);
    // Blocks were truncated, appended to, or replaced by one with the same id and a later
    // generation.
    disk.get(2L).content = RaidpCluster.content("other", 150_000);
    disk.get(2L).generation = 2;
    started().close();
    assertEquals("[1, 2, 3, 4, 5, 6]", inParity());
  }

  @Test
  void blocksThatAreGoneStayUntilTheyAreForgotten() throws IOException {
    for (long block = 1; block <= 6; block++) {
      put(block, 100_000);
    }
    started().close();
    Replica lost = disk.remove(4L);
    disk.remove(1L);
    Keeper keeper = started();
    disk.put(4L, lost);
    keeper.sync(4);
    assertThrows(AssertionError.class, this::inParity);
    keeper.forget();
    settled(keeper);
    keeper.close();
    assertEquals("[2, 3, 4, 5, 6]", inParity());
  }

  @Test
  void whatRotsNeitherComesNorGoesByItsBytes() throws IOException {
    put(1, 100_000);
    put(2, 200_000);
    Keeper keeper = started();
    put(4, 100_000);
    disk.get(4L).rots = true;
    keeper.sync(4);
    assertEquals(false, keeper.isCurrent());
    assertEquals("[1, 2]", inParity());
    // The bytes are wrong and their checksums right: the CRC of the entry finds it.
    disk.get(1L).content[5] ^= 1;
    delete(keeper, 1);
    assertEquals("[2]", inParity());
    disk.get(4L).rots = false;
    settled(keeper);
    assertEquals(true, keeper.isCurrent());
    keeper.close();
    assertEquals("[2, 4]", inParity());
  }

  @Test
  void aFullAddOnLetsBlocksGoAndThenTakesThoseThatWaited() throws IOException {
    // Blocks of one superchunk: a row each, of 16 of the 200 tiles. One block of another is in the
    // first row; its tiles are rewritten when one of the two leaves.
    put(3, 1 << 20);
    put(4, 1 << 20);
    Keeper keeper = started();
    for (long block = 3; block <= 45; block += 3) {
      put(block, 1 << 20);
      keeper.sync(block);
    }
    assertEquals("[3, 4, 6, 9, 12, 15, 18, 21, 24, 27, 30, 33]", inParity());
    assertEquals(false, keeper.isCurrent());
    for (long block = 3; block <= 15; block += 3) {
      delete(keeper, block);
    }
    settled(keeper);
    assertEquals(true, keeper.isCurrent());
    keeper.close();
    assertEquals("[4, 18, 21, 24, 27, 30, 33, 36, 39, 42, 45]", inParity());
  }

  @Test
  void twoBlocksOfARowThatChangedMeanwhileDoNotWaitForEachOther() throws IOException {
    put(3, 100_000);
    put(4, 100_000);
    started().close();
    for (Replica replica : disk.values()) {
      replica.content = RaidpCluster.content("longer " + replica.block, 200_000);
      replica.generation = 2;
    }
    Keeper keeper = started();
    assertEquals(true, keeper.isCurrent());
    assertEquals("[3, 4]", inParity());
    delete(keeper, 3);
    keeper.close();
    assertEquals("[4]", inParity());
  }

  @Test
  void aShortenedBlockIsExchangedByItsKeptCopyThoughItsRowLacksAnother() throws IOException {
    put(1, 200_000);
    put(2, 100_000);
    Keeper keeper = started();
    // The block was lost without an order to delete it, so the row cannot be summed up from the
    // disk.
    Replica lost = disk.remove(2L);
    kept.put(1L, disk.get(1L));
    Replica shorter = new Replica(1, 150_000);
    shorter.generation = 2;
    disk.put(1L, shorter);
    keeper.sync(1);
    assertTrue(keeper.isCurrent());
    keeper.close();
    disk.put(2L, lost);
    assertEquals("[1, 2]", inParity());
  }

  @Test
  void anAppendedBlockIsFollowedThoughItsRowLacksAnother() throws IOException {
    put(1, 100_000);
    put(2, 100_000);
    started().close();
    Replica lost = disk.remove(2L);
    // The block was appended to while no keeper followed: the CRC shows that its first bytes are
    // the same.
    byte[] longer = Arrays.copyOf(disk.get(1L).content, 300_000);
    disk.get(1L).content = longer;
    disk.get(1L).generation = 2;
    Keeper keeper = started();
    assertTrue(keeper.isCurrent());
    keeper.close();
    disk.put(2L, lost);
    assertEquals("[1, 2]", inParity());
  }

  @Test
  void aBlockThatWasDeletedWhileTheAddOnWasAwayLeavesAtTheStart() throws IOException {
    put(1, 100_000);
    put(2, 100_000);
    started().close();
    kept.put(1L, disk.remove(1L));
    started().close();
    assertEquals("[2]", inParity());
  }

  @Test
  void aFailureWhileTheAddOnIsMeasuredDoesNotSkipTheStart() throws Exception {
    put(1, 100_000);
    LocalAddOn.create(medium, HEADER);
    int[] fails = {1};
    Keeper keeper =
        new Keeper(
            () ->
                new Faults.Changed(new LocalAddOn(medium, false)) {
                  @Override
                  public long freeBytes() throws IOException {
                    if (fails[0]-- > 0) {
                      throw new IOException("lost");
                    }
                    return real.freeBytes();
                  }
                },
            replicas, 0, 1 << 20, 50, 10_000);
    assertThrows(IOException.class, keeper::open);
    keeper.begin();
    assertTrue(RaidpCluster.within(60, keeper::isCurrent));
    keeper.close();
    assertEquals("[1]", inParity());
  }

  @Test
  void anInterruptedWriterDoesNotCloseTheAddOn(@TempDir Path folder) throws IOException {
    put(1, 100_000);
    int[] opened = {0};
    // The add-on is on a file system, where an interrupted thread closes the channel that it uses.
    Keeper keeper =
        begun(
            () -> {
              opened[0]++;
              return AddOns.local(folder, HEADER, false);
            });
    put(2, 1_000_000);
    Thread.currentThread().interrupt();
    keeper.sync(2);
    assertTrue(Thread.interrupted());
    settled(keeper);
    assertTrue(keeper.isCurrent());
    assertEquals(2, keeper.inParity());
    keeper.close();
    assertEquals(1, opened[0]);
  }
}
