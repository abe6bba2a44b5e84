package pantile.hdfs.raidp;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Set;
import java.util.TreeMap;

/**
 * Assignment of blocks to rows of a disk's parity. A row has at most one block of each superchunk;
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

  private final NavigableMap<Long, Entry> byBlock = new TreeMap<>();

  /**
   * The rows that have blocks. Empty rows take no memory, because another node may send any row
   * number.
   */
  private final NavigableMap<Integer, Row> rows = new TreeMap<>();

  /** A copy of all entries. */
  List<Entry> entries() {
    return new ArrayList<>(byBlock.values());
  }

  /**
   * Returns a copy of at most so many entries, of blocks from an id on, in the order of their ids.
   */
  List<Entry> entries(long from, int most) {
    List<Entry> some = new ArrayList<>();
    for (Entry entry : byBlock.tailMap(from, true).values()) {
      if (some.size() == most) {
        break;
      }
      some.add(entry);
    }
    return some;
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
    Row of = rows.get(row);
    return of == null ? new ArrayList<>() : new ArrayList<>(of.slots.values());
  }

  /** The number from which on all rows are empty. */
  int rows() {
    return rows.isEmpty() ? 0 : rows.lastKey() + 1;
  }

  private Entry at(int row, int partner) {
    Row of = rows.get(row);
    return of == null ? null : of.slots.get(partner);
  }

  /** The bytes of a row. */
  long length(int row) {
    Row of = rows.get(row);
    return of == null ? 0 : of.length;
  }

  /** The bytes of the longest row. */
  long longest() {
    return rows.values().stream().mapToLong(row -> row.length).max().orElse(0);
  }

  /**
   * Returns the bytes of rows in which a superchunk has no block: space that needs no further
   * parity.
   */
  long slack(int partner) {
    return rows.values().stream()
        .filter(row -> !row.slots.containsKey(partner))
        .mapToLong(row -> row.length)
        .sum();
  }

  /**
   * Returns the row for a new block of a superchunk: the shortest row that is long enough, else the
   * longest that is shorter, so that parity grows least. Cost: all rows are looked at.
   */
  int choose(int partner, long length) {
    int best = -1;
    long bestLength = -1;
    int empty = 0;
    for (Map.Entry<Integer, Row> row : rows.entrySet()) {
      empty += row.getKey() == empty ? 1 : 0;
      if (row.getValue().slots.containsKey(partner)) {
        continue;
      }
      long here = row.getValue().length;
      boolean fits = here >= length;
      boolean bestFits = bestLength >= length;
      if (best < 0 || (fits != bestFits ? fits : fits ? here < bestLength : here > bestLength)) {
        best = row.getKey();
        bestLength = here;
      }
    }
    return best < 0 ? empty : best;
  }

  /**
   * Checks that a change is possible: removed blocks are present, and the slots of added blocks are
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
    Set<Long> blocks = new HashSet<>();
    Set<Long> places = new HashSet<>();
    for (Entry entry : added) {
      Entry other = at(entry.row, entry.partner);
      boolean taken = other != null && !leaving.containsKey(other.blockId);
      boolean known = byBlock.containsKey(entry.blockId) && !leaving.containsKey(entry.blockId);
      taken |= !places.add((long) entry.row << 32 | entry.partner);
      if (taken || known || !blocks.add(entry.blockId)) {
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
        Row row = rows.get(entry.row);
        row.slots.remove(entry.partner);
        row.measure();
        if (row.slots.isEmpty()) {
          rows.remove(entry.row);
        }
      }
    }
    for (Entry entry : added) {
      byBlock.put(entry.blockId, entry);
      Row row = rows.computeIfAbsent(entry.row, absent -> new Row());
      row.slots.put(entry.partner, entry);
      row.measure();
    }
  }
}
