package pantile.hdfs.raidp;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Which block is in which row of a disk's parity. A row has at most one block of each superchunk;
 * it is as long as the longest of them.
 *
 * <p>Not for several threads.
 */
final class SlotMap {
  /** The blocks of a row by partner, and the longest one's bytes. */
  private static final class Row {
    final Map<Integer, Entry> slots = new HashMap<>();
    long length;

    void measure() {
      length = slots.values().stream().mapToLong(entry -> entry.length).max().orElse(0);
    }
  }

  private final Map<Long, Entry> byBlock = new HashMap<>();
  private final List<Row> rows = new ArrayList<>();

  /** A copy of all entries. */
  List<Entry> entries() {
    return new ArrayList<>(byBlock.values());
  }

  /** The entry of a block; null if it is in no row. */
  Entry get(long blockId) {
    return byBlock.get(blockId);
  }

  int size() {
    return byBlock.size();
  }

  /** The entries of a row. */
  Collection<Entry> row(int row) {
    return row < rows.size() ? new ArrayList<>(rows.get(row).slots.values()) : new ArrayList<>();
  }

  /** How many rows there are; all from there on are empty. */
  int rows() {
    return rows.size();
  }

  private Entry at(int row, int partner) {
    return row < 0 || row >= rows.size() ? null : rows.get(row).slots.get(partner);
  }

  /** The bytes of a row. */
  long length(int row) {
    return row < rows.size() ? rows.get(row).length : 0;
  }

  /** The bytes of the longest row. */
  long longest() {
    return rows.stream().mapToLong(row -> row.length).max().orElse(0);
  }

  /** The bytes of rows in which a superchunk has no block: room that costs no parity. */
  long slack(int partner) {
    return rows.stream()
        .filter(row -> !row.slots.containsKey(partner))
        .mapToLong(row -> row.length)
        .sum();
  }

  /**
   * The row for a new block of a superchunk: the shortest that is long enough, else the longest
   * that is shorter, so that parity grows least. Cost: all rows are looked at.
   */
  int choose(int partner, long length) {
    int best = -1;
    long bestLength = -1;
    for (int row = 0; row < rows.size(); row++) {
      if (rows.get(row).slots.containsKey(partner)) {
        continue;
      }
      long here = length(row);
      boolean fits = here >= length;
      boolean bestFits = bestLength >= length;
      if (best < 0 || (fits != bestFits ? fits : fits ? here < bestLength : here > bestLength)) {
        best = row;
        bestLength = here;
      }
    }
    return best < 0 ? rows.size() : best;
  }

  /**
   * Whether a change can be: blocks that leave are there, and those that come find their slots
   * free.
   *
   * @throws IOException if not, with the reason.
   */
  void check(Collection<Long> removed, Collection<Entry> added, int disks, int disk)
      throws IOException {
    Map<Long, Entry> leaving = new HashMap<>();
    for (long block : removed) {
      Entry entry = byBlock.get(block);
      if (entry == null) {
        throw new IOException("blk_" + block + " is not in the add-on");
      }
      leaving.put(block, entry);
    }
    Map<Long, Entry> coming = new HashMap<>();
    for (Entry entry : added) {
      Entry other = at(entry.row, entry.partner);
      boolean taken = other != null && !leaving.containsKey(other.blockId);
      boolean known = byBlock.containsKey(entry.blockId) && !leaving.containsKey(entry.blockId);
      for (Entry beside : coming.values()) {
        taken |= beside.row == entry.row && beside.partner == entry.partner;
      }
      if (taken || known || coming.put(entry.blockId, entry) != null) {
        throw new IOException(entry + " cannot come: its slot or its block is taken");
      }
      if (entry.row < 0 || entry.length < 0 || entry.partner == disk || entry.partner >= disks) {
        throw new IOException(entry + " is no block of disk " + disk + " of " + disks);
      }
    }
  }

  /** Makes a change that {@link #check} allows. */
  void apply(Collection<Long> removed, Collection<Entry> added) {
    for (long block : removed) {
      Entry entry = byBlock.remove(block);
      if (entry != null) {
        rows.get(entry.row).slots.remove(entry.partner);
        rows.get(entry.row).measure();
      }
    }
    for (Entry entry : added) {
      while (rows.size() <= entry.row) {
        rows.add(new Row());
      }
      byBlock.put(entry.blockId, entry);
      rows.get(entry.row).slots.put(entry.partner, entry);
      rows.get(entry.row).measure();
    }
  }
}
