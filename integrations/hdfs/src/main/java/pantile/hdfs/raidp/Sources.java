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

/**
 * Disks that still have the blocks of rows: as a replica, or kept since it was deleted or changed.
 *
 * <p>The disk of a block's mirror is asked first, then its own, then all others, which may have it
 * in their spare. A block is gone only if all disks said so that have a live node; one that does not
 * answer says nothing. What was asked is asked again if one of the block's two disks has a live node
 * that had none.
 */
final class Sources {
  /** Asks the node of a disk, as {@link Peer#generations}. */
  interface Ask {
    long[] generations(int disk, long[] blocks, long[] generations, long[] lengths)
        throws IOException;
  }

  private final Ask ask;
  /** By content: all entries of it, of either disk's add-on, are found at the same places. */
  private final Map<List<Long>, Integer> known = new HashMap<>();

  /** Contents that are gone, with the disks that had no live node to be asked. */
  private final Map<List<Long>, Set<Integer>> gone = new HashMap<>();

  /** Reasons why nodes did not answer in the last round, by disk. */
  private final Map<Integer, String> silent = new TreeMap<>();

  Sources(Ask ask) {
    this.ask = ask;
  }

  /** Which disk to read an entry from; null if that is not known. */
  Integer of(Entry entry) {
    return known.get(entry.content());
  }

  /** Has a content asked for again, of which reading failed. */
  void doubt(List<Long> content) {
    known.remove(content);
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
  void refresh(Map<Integer, List<Entry>> entries, Set<Long> wanted, Set<Integer> live) {
    silent.clear();
    gone.values().removeIf(unasked -> unasked.stream().anyMatch(live::contains));
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
      byPartner.forEach((partner, some) -> left.addAll(find(partner, some, live)));
      List<Entry> nowhere = find(disk, left, live);
      for (int other : live) {
        nowhere = other == disk ? nowhere : find(other, nowhere, live);
      }
      for (Entry entry : nowhere) {
        Set<Integer> unasked = new HashSet<>();
        unasked.add(disk);
        unasked.add(entry.partner);
        unasked.removeAll(live);
        if (silent.isEmpty()) {
          gone.put(entry.content(), unasked);
        }
      }
    }
  }

  /** Asks one disk for entries; returns those that it does not have, or did not answer for. */
  private List<Entry> find(int disk, List<Entry> entries, Set<Integer> live) {
    List<Entry> left = new ArrayList<>();
    if (entries.isEmpty() || !live.contains(disk) || silent.containsKey(disk)) {
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
        known.put(entry.content(), disk);
      }
    }
    return left;
  }
}
