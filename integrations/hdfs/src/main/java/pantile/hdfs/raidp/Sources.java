package pantile.hdfs.raidp;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.function.Function;

/**
 * Disks that still have the blocks of rows: as a replica, or kept since it was deleted or changed.
 *
 * <p>The disk of a block's mirror is asked first, then the block's own disk, then all others, which
 * may have it in their spare. A block is gone only if all disks with a live node said so; a disk
 * that does not answer decides nothing. A block is asked for again if one of its two disks has a
 * live node now and had none before.
 */
final class Sources {
  /** Asks the node of a disk, as {@link Peer#generations}. */
  interface Ask {
    long[] generations(int disk, long[] blocks, long[] generations, long[] lengths)
        throws IOException;
  }

  /** An entry of a disk's add-on. */
  private static final class Asked {
    final int disk;
    final Entry entry;

    Asked(int disk, Entry entry) {
      this.disk = disk;
      this.entry = entry;
    }
  }

  private final Ask ask;

  /**
   * The disk of each known content. All entries of a content, in either disk's add-on, are read
   * from the same disk.
   */
  private final Map<List<Long>, Integer> known = new HashMap<>();

  /** Contents that are gone, with the disks that had no live node to be asked. */
  private final Map<List<Long>, Set<Integer>> gone = new HashMap<>();

  /** Reasons why nodes did not answer in the last round, by disk. */
  private final Map<Integer, String> silent = new TreeMap<>();

  Sources(Ask ask) {
    this.ask = ask;
  }

  /** Returns the disk to read an entry from; null if that is not known. */
  Integer of(Entry entry) {
    return known.get(entry.content());
  }

  /** Forgets the disk of a content whose read failed, so that it is asked for again. */
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
    List<Asked> left = new ArrayList<>();
    entries.forEach(
        (disk, some) -> {
          for (Entry entry : some) {
            boolean asked = known.containsKey(entry.content()) || gone.containsKey(entry.content());
            if (!asked && !wanted.contains(entry.blockId)) {
              left.add(new Asked(disk, entry));
            }
          }
        });
    find(left, live, one -> Collections.singleton(one.entry.partner));
    find(left, live, one -> Collections.singleton(one.disk));
    find(left, live, one -> live);
    for (Asked one : left) {
      Set<Integer> unasked = new HashSet<>();
      unasked.add(one.disk);
      unasked.add(one.entry.partner);
      unasked.removeAll(live);
      if (silent.isEmpty()) {
        gone.put(one.entry.content(), unasked);
      }
    }
  }

  /** Asks disks, all at once, and removes the entries that one of them has from a list. */
  private void find(
      List<Asked> left, Set<Integer> live, Function<Asked, Set<Integer>> disksOf) {
    Map<Integer, List<Asked>> ofDisks = new TreeMap<>();
    for (Asked one : left) {
      for (int disk : disksOf.apply(one)) {
        if (live.contains(disk) && !silent.containsKey(disk)) {
          ofDisks.computeIfAbsent(disk, number -> new ArrayList<>()).add(one);
        }
      }
    }
    if (ofDisks.isEmpty()) {
      return;
    }
    ExecutorService threads = Executors.newFixedThreadPool(ofDisks.size());
    Map<Integer, Future<long[]>> answers = new TreeMap<>();
    ofDisks.forEach(
        (disk, some) ->
            answers.put(
                disk,
                threads.submit(
                    () ->
                        ask.generations(
                            disk,
                            some.stream().mapToLong(one -> one.entry.blockId).toArray(),
                            some.stream().mapToLong(one -> one.entry.generation).toArray(),
                            some.stream().mapToLong(one -> one.entry.length).toArray()))));
    threads.shutdown();
    answers.forEach((disk, answer) -> take(disk, ofDisks.get(disk), answer));
    left.removeIf(one -> known.containsKey(one.entry.content()));
  }

  private void take(int disk, List<Asked> asked, Future<long[]> answer) {
    try {
      long[] found = answer.get();
      for (int i = 0; i < found.length; i++) {
        if (found[i] != Peer.NONE) {
          known.putIfAbsent(asked.get(i).entry.content(), disk);
        }
      }
    } catch (ExecutionException failed) {
      silent.put(disk, String.valueOf(failed.getCause().getMessage()));
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      silent.put(disk, "interrupted");
    }
  }
}
