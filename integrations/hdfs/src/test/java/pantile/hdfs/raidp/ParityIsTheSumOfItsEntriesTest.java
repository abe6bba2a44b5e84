package pantile.hdfs.raidp;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import java.util.Set;
import org.junit.jupiter.api.Test;
import pantile.hdfs.RaidpCode;

/** Wherever a crash ends a change of an add-on, its parity is the sum of the blocks it lists. */
class ParityIsTheSumOfItsEntriesTest {
  private static final int DISKS = 5;
  private static final int DISK = 2;
  private static final int TILES = 40;

  /**
   * The least bytes of a journal that is rewritten: so few that the journal is rewritten now and
   * then.
   */
  private static final int JOURNAL_BYTES = 200;

  /**
   * The most bytes of a record: so few that the state takes several records, and a change has 64
   * tiles at most.
   */
  private static final int RECORD_BYTES = 1024;

  private static final Header HEADER = new Header("a", DISKS, DISK, TILES, "pool");

  /** A block's bytes, from its id and generation alone; a later generation is longer. */
  private static byte[] content(long block, int bytes) {
    byte[] content = new byte[bytes];
    new Random(block).nextBytes(content);
    return content;
  }

  private static void holds(LocalAddOn addOn) throws IOException {
    RaidpCode code = RaidpCode.of(DISKS);
    int bytes = 8 * Header.TILE_BYTES;
    Set<Integer> rows = new HashSet<>(Arrays.asList(0, 1, 2, 3));
    List<Entry> entries = addOn.entries();
    entries.forEach(entry -> rows.add(entry.row));
    for (int row : rows) {
      ByteBuffer sum = ByteBuffer.allocateDirect(bytes);
      for (Entry entry : entries) {
        if (entry.row == row) {
          ByteBuffer content = ByteBuffer.allocateDirect((int) entry.length);
          content.put(content(entry.blockId, (int) entry.length));
          content.flip();
          code.fold(DISK, entry.partner, sum, content);
        }
      }
      byte[] expected = new byte[bytes];
      sum.duplicate().get(expected);
      ByteBuffer parity = ByteBuffer.allocate(bytes);
      addOn.read(row, 0, parity);
      assertArrayEquals(expected, parity.array(), "row " + row);
    }
  }

  private static void fold(AddOn.Change change, Entry entry, int from, int end) throws IOException {
    ByteBuffer content = ByteBuffer.wrap(content(entry.blockId, end));
    for (int at = from; at < end; at += 100_000) {
      content.limit(Math.min(end, at + 100_000)).position(at);
      change.fold(entry.row, entry.partner, at, content.slice());
    }
  }

  /** Adds, grows, removes and sums up again, in one order; a crash can end it anywhere. */
  private static void work(LocalAddOn addOn) throws IOException {
    List<Entry> there = new ArrayList<>();
    int[] lengths = {70_000, 200_000, 1, 65_536, 131_072, 300_000};
    for (int i = 0; i < lengths.length; i++) {
      int partner = new int[] {0, 1, 3, 4, 0, 1}[i];
      add(addOn, there, new Entry(100 + i, 1000, lengths[i], partner, i / 4, 0));
    }
    grow(addOn, there, 0, 90_000);
    remove(addOn, there, 1);
    recompute(addOn, there, 0, 2);
    grow(addOn, there, 0, 300_000);
    while (!there.isEmpty()) {
      remove(addOn, there, 0);
    }
    assertEquals((long) TILES * Header.TILE_BYTES, addOn.freeBytes());
  }

  private static void add(LocalAddOn addOn, List<Entry> there, Entry entry) throws IOException {
    try (AddOn.Change change = addOn.change()) {
      fold(change, entry, 0, (int) entry.length);
      change.commit(Collections.emptyList(), Collections.singletonList(entry));
    }
    there.add(entry);
  }

  private static void grow(LocalAddOn addOn, List<Entry> there, int i, int bytes)
      throws IOException {
    Entry old = there.get(i);
    Entry grown = new Entry(old.blockId, old.generation + 1, bytes, old.partner, old.row, 0);
    try (AddOn.Change change = addOn.change()) {
      fold(change, grown, (int) old.length, bytes);
      change.commit(
          Collections.singletonList(old.blockId), Collections.singletonList(grown));
    }
    there.set(i, grown);
  }

  private static void remove(LocalAddOn addOn, List<Entry> there, int i) throws IOException {
    Entry old = there.get(i);
    try (AddOn.Change change = addOn.change()) {
      fold(change, old, 0, (int) old.length);
      change.commit(Collections.singletonList(old.blockId), Collections.emptyList());
    }
    there.remove(i);
  }

  private static void recompute(LocalAddOn addOn, List<Entry> there, int row, int without)
      throws IOException {
    Entry gone = there.get(without);
    try (AddOn.Change change = addOn.change()) {
      change.clear(row);
      for (Entry entry : there) {
        if (entry.row == row && entry != gone) {
          fold(change, entry, 0, (int) entry.length);
        }
      }
      change.commit(Collections.singletonList(gone.blockId), Collections.emptyList());
    }
    there.remove(gone);
  }

  private static void holds(CrashingDisk found) throws IOException {
    if (!LocalAddOn.exists(found)) {
      return;
    }
    try (LocalAddOn addOn = new LocalAddOn(found, false)) {
      holds(addOn);
      // The add-on can be changed again after the crash.
      List<Entry> there = addOn.entries();
      if (!there.isEmpty()) {
        remove(addOn, there, 0);
      }
      holds(addOn);
    }
  }

  @Test
  void aCrashAtEachWriteLeavesTheStateBeforeOrBehindAChange() throws IOException {
    CrashingDisk whole = new CrashingDisk(-1);
    LocalAddOn.create(whole, HEADER);
    try (LocalAddOn addOn = new LocalAddOn(whole, false, JOURNAL_BYTES, RECORD_BYTES)) {
      work(addOn);
      holds(addOn);
    }
    assertTrue(whole.steps() > 60, "only " + whole.steps() + " steps");
    Set<Integer> sizes = new HashSet<>();
    for (int step = 0; step < whole.steps(); step++) {
      CrashingDisk disk = new CrashingDisk(step);
      assertThrows(
          IOException.class,
          () -> {
            LocalAddOn.create(disk, HEADER);
            work(new LocalAddOn(disk, false, JOURNAL_BYTES, RECORD_BYTES));
          });
      holds(disk.afterKill());
      for (int seed = 0; seed < 8; seed++) {
        holds(disk.afterPowerLoss(new Random(seed)));
      }
      if (LocalAddOn.exists(disk)) {
        sizes.add(new LocalAddOn(disk.afterKill(), true).entries().size());
      }
    }
    assertEquals(new HashSet<>(Arrays.asList(0, 1, 2, 3, 4, 5, 6)), sizes);
  }

  @Test
  void aChangeThatIsNotCommittedHasNotHappened() throws IOException {
    CrashingDisk disk = new CrashingDisk(-1);
    LocalAddOn.create(disk, HEADER);
    try (LocalAddOn addOn = new LocalAddOn(disk, false)) {
      List<Entry> there = new ArrayList<>();
      add(addOn, there, new Entry(7, 1000, 100_000, 0, 0, 0));
      long free = addOn.freeBytes();
      try (AddOn.Change change = addOn.change()) {
        fold(change, new Entry(8, 1000, 400_000, 1, 0, 0), 0, 400_000);
        change.clear(0);
        fold(change, new Entry(9, 1000, 200_000, 3, 0, 0), 0, 200_000);
      }
      holds(addOn);
      assertEquals(free, addOn.freeBytes());
    }
  }

  @Test
  void whatDoesNotFitIsRefusedAndChangesNothing() throws IOException {
    CrashingDisk disk = new CrashingDisk(-1);
    LocalAddOn.create(disk, HEADER);
    try (LocalAddOn addOn = new LocalAddOn(disk, false)) {
      List<Entry> there = new ArrayList<>();
      int large = 30 * Header.TILE_BYTES;
      add(addOn, there, new Entry(7, 1000, 100_000, 0, 0, 0));
      IOException full =
          assertThrows(
              IOException.class,
              () -> add(addOn, there, new Entry(8, 1000, 2 * large, 0, 1, 0)));
      assertTrue(full.getMessage().contains("is full"), full.getMessage());
      for (Entry bad :
          new Entry[] {
            new Entry(7, 1001, 10, 1, 0, 0), new Entry(9, 1000, 10, 0, 0, 0)
          }) {
        assertThrows(IOException.class, () -> add(addOn, there, bad), bad.toString());
      }
      holds(addOn);
      assertEquals(1, addOn.entries().size());
    }
  }

  @Test
  void aTileThatRotsAndAJournalThatIsDamagedAreSeen() throws IOException {
    CrashingDisk disk = new CrashingDisk(-1);
    LocalAddOn.create(disk, HEADER);
    List<Entry> there = new ArrayList<>();
    try (LocalAddOn addOn = new LocalAddOn(disk, false)) {
      add(addOn, there, new Entry(7, 1000, 100_000, 0, 0, 0));
      add(addOn, there, new Entry(8, 1000, 100_000, 1, 0, 0));
    }
    Disk.Content parity = disk.open("parity");
    parity.write(3 * Header.TILE_BYTES + 5, ByteBuffer.wrap(new byte[] {1, 2, 3}));
    try (LocalAddOn addOn = new LocalAddOn(disk, true)) {
      IOException rot =
          assertThrows(
              IOException.class, () -> addOn.read(0, 0, ByteBuffer.allocate(200_000)));
      assertTrue(rot.getMessage().contains("not what was written"), rot.getMessage());
    }
    Disk.Content journal = disk.open("journal");
    ByteBuffer some = ByteBuffer.allocate(1);
    journal.read(100, some);
    journal.write(100, ByteBuffer.wrap(new byte[] {(byte) (some.get(0) ^ 1)}));
    IOException damaged =
        assertThrows(IOException.class, () -> new LocalAddOn(disk, true).close());
    assertTrue(damaged.getMessage().contains("damaged"), damaged.getMessage());
  }

  @Test
  void theJournalDoesNotGrowForEver() throws IOException {
    CrashingDisk disk = new CrashingDisk(-1);
    LocalAddOn.create(disk, HEADER);
    try (LocalAddOn addOn = new LocalAddOn(disk, false)) {
      List<Entry> there = new ArrayList<>();
      add(addOn, there, new Entry(7, 1000, 10, 0, 0, 0));
      long largest = 0;
      for (int i = 0; i < 8_000; i++) {
        Entry old = there.get(0);
        Entry next = new Entry(7, old.generation + 1, 10, 0, 0, 0);
        try (AddOn.Change change = addOn.change()) {
          change.commit(Collections.singletonList(7L), Collections.singletonList(next));
        }
        there.set(0, next);
        largest = Math.max(largest, disk.open("journal").size());
      }
      assertTrue(largest < 300_000, "" + largest);
      assertTrue(disk.open("journal").size() < largest);
      holds(addOn);
    }
    try (LocalAddOn addOn = new LocalAddOn(disk, true)) {
      assertEquals(9_000, addOn.entries().get(0).generation);
      holds(addOn);
    }
  }

  @Test
  void anAddOnWhoseTilesFillNoRecordGoesOn() throws IOException {
    CrashingDisk disk = new CrashingDisk(-1);
    LocalAddOn.create(disk, new Header("a", DISKS, DISK, 300, "pool"));
    List<Entry> there = new ArrayList<>();
    try (LocalAddOn addOn = new LocalAddOn(disk, false, JOURNAL_BYTES, RECORD_BYTES)) {
      for (int i = 0; i < 60; i++) {
        add(addOn, there, new Entry(100 + i, 1000, 140_000 + i, i % 2, i / 2, 0));
        assertEquals(false, addOn.isBroken(), "after block " + i);
      }
      IOException large =
          assertThrows(
              IOException.class,
              () -> add(addOn, there, new Entry(7, 1000, 70 * Header.TILE_BYTES, 3, 99, 0)));
      assertTrue(large.getMessage().contains("too large for an add-on"), large.getMessage());
      assertEquals(false, addOn.isBroken());
      remove(addOn, there, 59);
      holds(addOn);
    }
    assertTrue(disk.open("journal").size() > 2 * RECORD_BYTES);
    try (LocalAddOn addOn = new LocalAddOn(disk, true, JOURNAL_BYTES, RECORD_BYTES)) {
      assertEquals(there.size(), addOn.entries().size());
      assertEquals((300L - 30 * 3) * Header.TILE_BYTES, addOn.freeBytes());
      holds(addOn);
    }
  }

  @Test
  void aRowsNumberTakesNoMemory() throws IOException {
    CrashingDisk disk = new CrashingDisk(-1);
    LocalAddOn.create(disk, HEADER);
    List<Entry> there = new ArrayList<>();
    try (LocalAddOn addOn = new LocalAddOn(disk, false)) {
      add(addOn, there, new Entry(7, 1000, 100_000, 0, Integer.MAX_VALUE - 1, 0));
      assertThrows(
          IOException.class,
          () -> {
            try (AddOn.Change change = addOn.change()) {
              change.fold(0, 1, 1L << 46, ByteBuffer.wrap(new byte[1]));
            }
          });
      holds(addOn);
    }
    try (LocalAddOn addOn = new LocalAddOn(disk, false)) {
      remove(addOn, there, 0);
      assertEquals((long) TILES * Header.TILE_BYTES, addOn.freeBytes());
    }
  }

  @Test
  void aReaderSeesThatARowWasChangedAndThatOneRotted() throws IOException {
    CrashingDisk disk = new CrashingDisk(-1);
    LocalAddOn.create(disk, HEADER);
    List<Entry> there = new ArrayList<>();
    try (LocalAddOn addOn = new LocalAddOn(disk, false)) {
      add(addOn, there, new Entry(7, 1000, 60_000, 0, 0, 0));
      add(addOn, there, new Entry(8, 1000, 60_000, 0, 1, 0));
      try (LocalAddOn reader = new LocalAddOn(disk, true)) {
        remove(addOn, there, 0);
        add(addOn, there, new Entry(9, 1000, 50_000, 1, 5, 0));
        assertThrows(
            LocalAddOn.Changed.class, () -> reader.read(0, 0, ByteBuffer.allocate(100)));
        reader.read(1, 0, ByteBuffer.allocate(100));
        disk.open("parity").write(Header.TILE_BYTES, ByteBuffer.wrap(new byte[9]));
        IOException rot =
            assertThrows(IOException.class, () -> reader.read(1, 0, ByteBuffer.allocate(100)));
        assertTrue(rot.getMessage().contains("is not what was written"), rot.getMessage());
      }
    }
  }

  @Test
  void aJournalThatCannotBeWrittenAnewGoesOn() throws IOException {
    CrashingDisk medium = new CrashingDisk(-1);
    LocalAddOn.create(medium, HEADER);
    boolean[] full = {true};
    List<Entry> there = new ArrayList<>();
    Disk disk = FailingDisk.of(medium, name -> full[0] && name.equals("journal.new"));
    try (LocalAddOn addOn = new LocalAddOn(disk, false, JOURNAL_BYTES, RECORD_BYTES)) {
      for (int i = 0; i < 30; i++) {
        add(addOn, there, new Entry(i, 1000, 10, 0, i, 0));
      }
      long before = medium.open("journal").size();
      full[0] = false;
      for (int i = 30; i < 1000; i++) {
        remove(addOn, there, 0);
        add(addOn, there, new Entry(i, 1000, 10, 0, i % 30, 0));
      }
      assertTrue(medium.open("journal").size() < 10 * before);
      holds(addOn);
    }
    try (LocalAddOn addOn = new LocalAddOn(medium, true)) {
      assertEquals(30, addOn.entries().size());
      holds(addOn);
    }
  }
}
