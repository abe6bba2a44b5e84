package pantile.hdfs.raidp;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import pantile.hdfs.Equations;

/**
 * The rows of add-ons from which lost blocks can be computed now.
 *
 * <p>A row of an add-on is an equation: its parity is the sum of its blocks. A block whose copies
 * are both lost is an unknown. It is in one row of each of its two disks, seldom of the same
 * number. Rows with one unknown are solved one by one. If every row has more unknowns, rows and
 * unknowns form cycles, which the native library solves as one system. A row with an unknown that
 * is in no other row does not help to find others, and waits. Solved blocks make other rows
 * solvable, so the caller plans again.
 */
final class RecoveryPlan {
  /** A row of a disk's add-on. */
  static final class Row {
    final int disk;
    final int row;
    final List<Entry> known = new ArrayList<>();
    final Map<Unknown, Entry> unknown = new LinkedHashMap<>();

    Row(int disk, int row) {
      this.disk = disk;
      this.row = row;
    }

    List<Integer> place() {
      return Arrays.asList(disk, row);
    }
  }

  /** An unknown: one content of a block that no disk has. */
  static final class Unknown {
    final long blockId;
    final long generation;
    final long length;
    final int crc;
    final boolean wanted;
    final List<Row> rows = new ArrayList<>();

    Unknown(Entry entry, boolean wanted) {
      blockId = entry.blockId;
      generation = entry.generation;
      length = entry.length;
      crc = entry.crc;
      this.wanted = wanted;
    }
  }

  /** A step: rows that together determine as many unknowns. */
  static final class Step {
    final List<Row> rows;
    final List<Unknown> unknowns;

    Step(List<Row> rows, List<Unknown> unknowns) {
      this.rows = rows;
      this.unknowns = unknowns;
    }

    /** Returns the equations of its rows: for each row, the coefficient of each unknown in it. */
    List<Map<Integer, Integer>> sums(Weights weights) {
      List<Map<Integer, Integer>> sums = new ArrayList<>();
      for (Row row : rows) {
        Map<Integer, Integer> sum = new TreeMap<>();
        row.unknown.forEach(
            (unknown, entry) ->
                sum.put(unknowns.indexOf(unknown), weights.of(row.disk, entry.partner)));
        sums.add(sum);
      }
      return sums;
    }

    /** The bytes of the longest unknown. */
    long length() {
      return unknowns.stream().mapToLong(unknown -> unknown.length).max().orElse(0);
    }
  }

  /** The coefficient of the superchunk shared with a partner in a disk's parity. */
  interface Weights {
    int of(int disk, int partner);
  }

  /** The content that a block has to have. */
  static final class Wanted {
    final long generation;
    final long length;

    Wanted(long generation, long length) {
      this.generation = generation;
      this.length = length;
    }
  }

  /** Steps that can be done now; no two compute the same block. */
  final List<Step> steps = new ArrayList<>();

  /** The blocks that are wanted and in no row of any add-on that was given. */
  final Set<Long> uncovered;

  private final Collection<Row> rows;
  private final Set<Unknown> unknowns = new LinkedHashSet<>();
  private final Weights weights;
  private final Map<List<Integer>, Integer> failures;

  /**
   * Plans the steps that can be done now.
   *
   * @param addOns the entries of the add-ons of failed disks, by disk.
   * @param wanted the blocks that the NameNode misses, by block id.
   * @param holes contents ({@link Entry#content}) of deleted blocks, which are on no disk any more.
   * @param failures the number of failures of each row (disk, row): others are preferred.
   */
  RecoveryPlan(
      Map<Integer, List<Entry>> addOns,
      Map<Long, Wanted> wanted,
      Set<List<Long>> holes,
      Map<List<Integer>, Integer> failures,
      Weights weights) {
    this.weights = weights;
    this.failures = failures;
    uncovered = new HashSet<>(wanted.keySet());
    Map<List<Integer>, Row> byPlace = new LinkedHashMap<>();
    Map<List<Long>, Unknown> byContent = new LinkedHashMap<>();
    addOns.forEach(
        (disk, entries) -> {
          for (Entry entry : entries) {
            Row row =
                byPlace.computeIfAbsent(Arrays.asList(disk, entry.row), at -> new Row(disk, entry.row));
            Wanted want = wanted.get(entry.blockId);
            if (want == null && !holes.contains(entry.content())) {
              row.known.add(entry);
              continue;
            }
            // An entry of another generation or length has another content of the block, which no
            // disk has either.
            boolean isIt =
                want != null && want.generation == entry.generation && want.length == entry.length;
            Unknown unknown =
                byContent.computeIfAbsent(
                    Arrays.asList(entry.blockId, entry.generation, entry.length),
                    content -> new Unknown(entry, isIt));
            row.unknown.put(unknown, entry);
            unknown.rows.add(row);
            if (isIt) {
              uncovered.remove(entry.blockId);
            }
          }
        });
    unknowns.addAll(byContent.values());
    rows = byPlace.values();
    single();
    if (steps.isEmpty()) {
      cycles();
    }
  }

  /**
   * Adds steps of rows with one unknown; of two rows with the same unknown, the one of the disk
   * with fewer steps.
   */
  private void single() {
    Map<Integer, Integer> load = new TreeMap<>();
    Comparator<Row> least =
        Comparator.<Row>comparingInt(row -> failures.getOrDefault(row.place(), 0))
            .thenComparingInt(row -> load.getOrDefault(row.disk, 0));
    for (Unknown unknown : unknowns) {
      Row best = null;
      for (Row row : unknown.rows) {
        boolean better = best == null || least.compare(row, best) < 0;
        if (unknown.wanted && row.unknown.size() == 1 && better) {
          best = row;
        }
      }
      if (best != null) {
        load.merge(best.disk, 1, Integer::sum);
        steps.add(new Step(Collections.singletonList(best), Collections.singletonList(unknown)));
      }
    }
  }

  private void cycles() {
    Set<Row> left = new LinkedHashSet<>(rows);
    left.removeIf(row -> row.unknown.isEmpty());
    boolean changed = true;
    while (changed) {
      changed = left.removeIf(row -> row.unknown.keySet().stream().anyMatch(u -> in(u, left) < 2));
    }
    while (!left.isEmpty()) {
      Step step = connected(left.iterator().next(), left);
      left.removeAll(step.rows);
      boolean useful = step.unknowns.stream().anyMatch(unknown -> unknown.wanted);
      if (useful && isSolvable(step)) {
        steps.add(step);
      }
    }
  }

  private static long in(Unknown unknown, Set<Row> rows) {
    return unknown.rows.stream().filter(rows::contains).count();
  }

  private static Step connected(Row first, Set<Row> left) {
    Set<Row> rows = new LinkedHashSet<>();
    Set<Unknown> unknowns = new LinkedHashSet<>();
    List<Row> next = new ArrayList<>(Collections.singletonList(first));
    while (!next.isEmpty()) {
      Row row = next.remove(next.size() - 1);
      if (!left.contains(row) || !rows.add(row)) {
        continue;
      }
      for (Unknown unknown : row.unknown.keySet()) {
        unknowns.add(unknown);
        next.addAll(unknown.rows);
      }
    }
    return new Step(new ArrayList<>(rows), new ArrayList<>(unknowns));
  }

  private boolean isSolvable(Step step) {
    if (step.rows.size() < step.unknowns.size()) {
      return false;
    }
    try (Equations equations = new Equations(step.unknowns.size(), step.sums(weights))) {
      return equations.areSolvable();
    }
  }
}
