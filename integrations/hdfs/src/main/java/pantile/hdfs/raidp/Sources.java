package pantile.hdfs.raidp;

import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.IntPredicate;

/**
 * Disks that still have the blocks of rows: as a replica, or kept since it was deleted or changed.
 *
 * <p>A block is gone only if the disk of its mirror and its own disk both said so, or have no live
 * node; one that does not answer says nothing. Questions are repeated if a disk has a live node and
 * had none before.
 */
final class Sources {
  /** Asks the node of a disk, as {@link Peer#generations}. */
  interface Ask {
    long[] generations(int disk, long[] blocks, long[] generations, long[] lengths)
        throws IOException;
  }

  /** A disk that has a block's content. */
  static final class Source {
    final int disk;

    /** True if its content is of the entry's own generation. */
    final boolean isExact;

    Source(int disk, boolean isExact) {
      this.disk = disk;
      this.isExact = isExact;
    }
  }

  private final Ask ask;
  /** By content: all entries of it, of either disk's add-on, are found at the same places. */
  private final Map<List<Long>, Source> known = new HashMap<>();

  /** Contents that are gone, with the disks that had no live node to be asked. */
  private final Map<List<Long>, Set<Integer>> gone = new HashMap<>();

  /** Reasons why nodes did not answer in the last round, by disk. */
  private final Map<Integer, String> silent = new TreeMap<>();

  Sources(Ask ask) {
    this.ask = ask;
  }

  /** Returns the disk to read an entry from; null if unknown. */
  Source of(Entry entry) {
    return known.get(entry.content());
  }

  /** Has an entry asked for again, of which reading failed. */
  void doubt(Entry entry) {
    known.remove(entry.content());
  }

  /** The contents that no disk has. */
  Set<List<Long>> gone() {
    return new HashSet<>(gone.keySet());
  }

  /** Reasons why lost contents can come back; empty if they cannot. */
  String hope() {
    Set<Integer> unasked = new TreeSet<>();
    gone.values().forEach(unasked::addAll);
    return unasked.isEmpty() ? "" : "; disks without a live node may have kept them: " + unasked;
  }

  /** The disks that have a live node which did not answer, with the reason. */
  Map<Integer, String> silent() {
    return silent;
  }

  /**
   * Asks for all entries of which nothing is known.
   *
   * @param entries of add-ons, by disk.
   * @param wanted blocks of which the NameNode knows no replica: they are not asked for.
   */
  void refresh(Map<Integer, List<Entry>> entries, Set<Long> wanted, IntPredicate isLive) {
    silent.clear();
    gone.values().removeIf(unasked -> unasked.stream().anyMatch(isLive::test));
    for (Map.Entry<Integer, List<Entry>> addOn : entries.entrySet()) {
      int disk = addOn.getKey();
      Map<Integer, List<Entry>> byPartner = new TreeMap<>();
      for (Entry entry : addOn.getValue()) {
        boolean asked = known.containsKey(entry.content()) || gone.containsKey(entry.content());
        if (!asked && !wanted.contains(entry.blockId)) {
          byPartner.computeIfAbsent(entry.partner, partner -> new ArrayList<>()).add(entry);
        }
      }
      List<Entry> left = new ArrayList<>();
      byPartner.forEach((partner, some) -> left.addAll(find(partner, some, isLive)));
      for (Entry entry : find(disk, left, isLive)) {
        Set<Integer> unasked = new HashSet<>();
        boolean isSilent = false;
        for (int one : new int[] {disk, entry.partner}) {
          isSilent |= silent.containsKey(one);
          if (!isLive.test(one)) {
            unasked.add(one);
          }
        }
        if (!isSilent) {
          gone.put(entry.content(), unasked);
        }
      }
    }
  }

  /** Asks one disk for entries; returns those that it does not have, or did not answer for. */
  private List<Entry> find(int disk, List<Entry> entries, IntPredicate isLive) {
    List<Entry> left = new ArrayList<>();
    if (entries.isEmpty() || !isLive.test(disk) || silent.containsKey(disk)) {
      return entries;
    }
    long[] found;
    try {
      found =
          ask.generations(
              disk,
              entries.stream().mapToLong(entry -> entry.blockId).toArray(),
              entries.stream().mapToLong(entry -> entry.generation).toArray(),
              entries.stream().mapToLong(entry -> entry.length).toArray());
    } catch (IOException error) {
      silent.put(disk, String.valueOf(error.getMessage()));
      return entries;
    }
    for (int i = 0; i < found.length; i++) {
      Entry entry = entries.get(i);
      if (found[i] == Peer.NONE) {
        left.add(entry);
      } else {
        known.put(entry.content(), new Source(disk, found[i] == entry.generation));
      }
    }
    return left;
  }
}
