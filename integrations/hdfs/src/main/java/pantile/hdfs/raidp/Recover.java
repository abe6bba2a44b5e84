package pantile.hdfs.raidp;

import java.io.IOException;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo;
import org.apache.hadoop.hdfs.util.DataTransferThrottler;
import pantile.hdfs.RaidpCode;
import pantile.hdfs.Triples;

/**
 * The command `raidp recover`: rebuilds the blocks whose both disks failed, from the add-ons of the
 * failed disks and the mirrors of their other blocks.
 *
 * <p>It keeps no state: its work is the blocks that the NameNode misses. Killed at any moment and
 * started again, it continues with the blocks that are still missing.
 */
final class Recover {
  private static final String USAGE =
      "usage: " + RaidpTool.RECOVER + "\n"
          + "Rebuilds the blocks that lost both disks and gives them to nodes that were started in\n"
          + "the place of the failed ones.\n"
          + "  --add-on DISK=PLACE  the add-on of a failed disk: a folder, or host:port of its server\n"
          + "  --threads N          so many blocks at a time (4 unless said)\n"
          + "  --bytes-per-s N      so many bytes in all, read and written; at least 1048576\n"
          + "  --dry-run            says what would be done\n"
          + "\n"
          + "Exit status: 0 nothing is missing any more, 1 something is, 2 it could not be tried.";

  private static final int GOOD = 0;
  private static final int MISSING = 1;
  private static final int FAILED = 2;

  /** Attempts for a step if its row changed or its nodes do not answer; each waits longer. */
  private static final int TRIES = 5;

  private static final int PAUSE_MS = 1_000;

  private static final int REPORT_MS = 60_000;

  private final DistributedFileSystem files;
  private final PrintStream out;
  private final PrintStream err;
  private final Options options;

  private static final class Options {
    final Map<Integer, String> places = new TreeMap<>();
    int threads = 4;
    long bytesPerSecond;
    boolean dryRun;

    /** Takes arguments; returns their fault, or null. */
    String parse(List<String> arguments) {
      for (int i = 0; i < arguments.size(); i++) {
        String value = i + 1 < arguments.size() ? arguments.get(i + 1) : "";
        switch (arguments.get(i)) {
          case "--dry-run":
            dryRun = true;
            continue;
          case "--add-on":
            if (!value.matches("[0-9]{1,2}=.+")) {
              return "--add-on takes DISK=PLACE, not \"" + value + "\"";
            }
            places.put(
                Integer.parseInt(value.substring(0, value.indexOf('='))),
                value.substring(value.indexOf('=') + 1));
            break;
          case "--threads":
            if (!value.matches("[1-9][0-9]?")) {
              return "--threads takes 1 to 99, not \"" + value + "\"";
            }
            threads = Integer.parseInt(value);
            break;
          case "--bytes-per-s":
            if (!value.matches("[0-9]{7,15}") || Long.parseLong(value) < 1 << 20) {
              return "--bytes-per-s takes a number from 1048576 on, not \"" + value + "\"";
            }
            bytesPerSecond = Long.parseLong(value);
            break;
          default:
            return "no such option: " + arguments.get(i);
        }
        i++;
      }
      return places.isEmpty() ? "which add-ons? name those of the failed disks" : null;
    }
  }

  private Recover(
      DistributedFileSystem files, Options options, PrintStream out, PrintStream err) {
    this.files = files;
    this.options = options;
    this.out = out;
    this.err = err;
  }

  /** Runs the command with the arguments behind its name; returns its exit status. */
  static int run(Configuration conf, List<String> arguments, PrintStream out, PrintStream err)
      throws IOException {
    Options options = new Options();
    String wrong = options.parse(arguments);
    if (wrong != null) {
      err.println("pantile-hdfs: " + wrong + "\n" + USAGE);
      return FAILED;
    }
    FileSystem files = FileSystem.get(conf);
    if (!(files instanceof DistributedFileSystem)) {
      throw new IOException(files.getUri() + " is no HDFS; give -fs hdfs://NAMENODE");
    }
    return new Recover((DistributedFileSystem) files, options, out, err).run();
  }

  private int run() throws IOException {
    Map<Integer, AddOn> addOns = new TreeMap<>();
    try {
      open(addOns);
      return run(addOns);
    } finally {
      for (AddOn addOn : addOns.values()) {
        addOn.close();
      }
    }
  }

  /** Opens all add-ons, again if they are open: a folder shows its content at the opening. */
  private void open(Map<Integer, AddOn> addOns) throws IOException {
    for (Map.Entry<Integer, String> place : options.places.entrySet()) {
      AddOn before = addOns.put(place.getKey(), AddOns.read(place.getValue(), place.getKey()));
      if (before != null) {
        before.close();
      }
    }
  }

  private int run(Map<Integer, AddOn> addOns) throws IOException {
    Header header = agree(addOns);
    RaidpCode code = RaidpCode.of(header.disks);
    sayTriples(code);
    try (Rebuilder rebuilder =
        new Rebuilder(files, code, code::weight, addOns, throttle())) {
      Wave wave = new Wave(rebuilder, code, header, addOns);
      wave.look();
      TreeSet<Integer> without = new TreeSet<>();
      for (int disk = 0; disk < header.disks; disk++) {
        if (wave.nodes.of(disk) == null) {
          without.add(disk);
        }
      }
      out.println("array " + header.array + ": disks without a live node: " + without);
      sayHosts(wave.nodes, header);
      out.println("blocks of which HDFS has no replica: " + wave.missing.size());
      boolean isMissing = !wave.missing.isEmpty();
      wave.all();
      if (options.dryRun) {
        return isMissing ? MISSING : GOOD;
      }
      return report(wave);
    }
  }

  private DataTransferThrottler throttle() {
    return options.bytesPerSecond == 0 ? null : new DataTransferThrottler(options.bytesPerSecond);
  }

  private void sayHosts(Nodes nodes, Header header) {
    List<Pairs.End<DatanodeInfo>> ends = new ArrayList<>();
    for (int disk = 0; disk < header.disks; disk++) {
      DatanodeInfo node = nodes.of(disk);
      for (int partner = 0; node != null && partner < header.disks; partner++) {
        if (partner != disk) {
          ends.add(nodes.end(disk, partner));
        }
      }
    }
    Pairs.costsOfHosts(ends).forEach(out::println);
  }

  /** The header that all add-ons share, but for the disk. */
  private static Header agree(Map<Integer, AddOn> addOns) throws IOException {
    Header first = null;
    for (Map.Entry<Integer, AddOn> addOn : addOns.entrySet()) {
      Header header = addOn.getValue().header();
      first = first == null ? header : first;
      boolean alike =
          header.array.equals(first.array)
              && header.disks == first.disks
              && header.pool.equals(first.pool);
      if (header.disk != addOn.getKey() || !alike) {
        throw new IOException(
            "the add-on given for disk " + addOn.getKey() + " is of " + header
                + (alike ? "" : ", and another one of " + first));
      }
    }
    return first;
  }

  private void sayTriples(RaidpCode code) {
    if (code.disks > Triples.DISKS_MOST) {
      out.println(code.spec + ": sets of three nodes are not counted for more than "
          + Triples.DISKS_MOST + " disks");
      return;
    }
    Triples disks = Triples.count(code, false);
    Triples nodes = Triples.count(code, true);
    out.println(
        code.spec + ": survives " + disks.survived + " of " + disks.all + " sets of three disks;"
            + " with the add-on of disk i on node i + 1, " + nodes.survived + " of " + nodes.all
            + " sets of three nodes");
  }

  private int report(Wave wave) throws IOException {
    Rebuilder did = wave.rebuilder;
    out.println(
        "rebuilt " + wave.rebuilt.size() + " blocks: read " + did.bytesFromMirrors
            + " bytes from mirrors and " + did.bytesFromAddOns + " from add-ons, wrote "
            + did.bytesWritten);
    // DataNodes report to the NameNode what they have by and by.
    Map<Long, Missing> left = Missing.of(files);
    long end = System.nanoTime() + REPORT_MS * 1_000_000L;
    while (left.keySet().stream().anyMatch(wave.rebuilt::contains) && System.nanoTime() < end) {
      pause(500);
      left = Missing.of(files);
    }
    for (Map.Entry<Long, Missing> block : left.entrySet()) {
      String why = wave.why(block.getKey());
      out.println("missing: " + block.getValue().block + " of " + block.getValue().file + why);
    }
    out.println("blocks of which HDFS has no replica now: " + left.size());
    return left.isEmpty() ? GOOD : MISSING;
  }

  private static void pause(int millis) throws IOException {
    try {
      Thread.sleep(millis);
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      throw new IOException("interrupted");
    }
  }

  /** Plans and carries out, again and again, until nothing more can be done. */
  private final class Wave {
    final Rebuilder rebuilder;
    final Set<Long> rebuilt = new HashSet<>();
    Nodes nodes;
    Map<Long, Missing> missing;
    private final Header header;
    private final Map<Integer, AddOn> addOns;
    private final Sources sources;
    private final Map<Long, RecoveryPlan.Wanted> wanted = new LinkedHashMap<>();
    private final Map<Long, String> reasons = new HashMap<>();
    private final Map<Long, Integer> tries = new HashMap<>();
    private final Map<List<Integer>, Integer> failures = new HashMap<>();
    private final RecoveryPlan.Weights weights;

    /** Steps with one of these blocks came out wrong: live replicas changed while they were read. */
    private final Set<Long> wrong = new HashSet<>();

    private Set<Long> uncovered = new HashSet<>();

    Wave(Rebuilder rebuilder, RaidpCode code, Header header, Map<Integer, AddOn> addOns) {
      this.rebuilder = rebuilder;
      this.header = header;
      this.addOns = addOns;
      weights = code::weight;
      sources =
          new Sources(
              (disk, blocks, generations, lengths) ->
                  rebuilder.peer(nodes.of(disk)).generations(blocks, generations, lengths));
    }

    /** Asks the NameNode for live nodes and missing blocks, so that both are of one moment. */
    void look() throws IOException {
      nodes = new Nodes(files, header.array);
      for (int again = 0; ; again++) {
        missing = Missing.of(files);
        Nodes after = new Nodes(files, header.array);
        boolean isOneMoment = after.disks().equals(nodes.disks());
        nodes = after;
        if (isOneMoment) {
          break;
        }
        if (again == TRIES) {
          throw new IOException("nodes come and go; try again when they stay");
        }
        pause(PAUSE_MS);
      }
      wanted.clear();
      missing.forEach(
          (id, one) -> {
            if (!rebuilt.contains(id)) {
              wanted.put(
                  id,
                  new RecoveryPlan.Wanted(
                      one.block.getGenerationStamp(), one.block.getNumBytes()));
            }
          });
    }

    void all() throws IOException {
      while (true) {
        List<RecoveryPlan.Step> steps = plan();
        if (steps.isEmpty()) {
          return;
        }
        if (options.dryRun) {
          steps.forEach(this::done);
        } else if (carryOut(steps)) {
          look();
        } else {
          int most = tries.values().stream().mapToInt(times -> times).max().orElse(0);
          pause(PAUSE_MS << Math.min(most, TRIES));
          look();
        }
      }
    }

    private List<RecoveryPlan.Step> plan() throws IOException {
      open(addOns);
      Map<Integer, List<Entry>> entries = new TreeMap<>();
      for (Map.Entry<Integer, AddOn> addOn : addOns.entrySet()) {
        entries.put(addOn.getKey(), addOn.getValue().entries());
      }
      Set<Long> unasked = new HashSet<>(wanted.keySet());
      if (options.dryRun) {
        // No disk has them, and they are no holes.
        unasked.addAll(rebuilt);
      }
      sources.refresh(entries, unasked, disk -> nodes.of(disk) != null);
      rebuilder.look(nodes, sources, missing);
      RecoveryPlan plan = new RecoveryPlan(entries, wanted, sources.gone(), failures, weights);
      uncovered = plan.uncovered;
      List<RecoveryPlan.Step> steps = new ArrayList<>(plan.steps);
      steps.removeIf(
          step -> step.unknowns.stream().anyMatch(u -> tries.getOrDefault(u.blockId, 0) >= TRIES));
      return steps;
    }

    private void done(RecoveryPlan.Step step) {
      for (RecoveryPlan.Unknown unknown : step.unknowns) {
        if (unknown.wanted) {
          out.println(
              (options.dryRun ? "would rebuild " : "rebuilt ") + "blk_" + unknown.blockId + " of "
                  + unknown.length + " bytes, "
                  + (step.unknowns.size() == 1 ? "" : "with " + (step.unknowns.size() - 1)
                      + " others, ")
                  + "from the add-on of disk " + step.rows.get(0).disk);
          wanted.remove(unknown.blockId);
          rebuilt.add(unknown.blockId);
        }
      }
    }

    /** Carries steps out; true if one of them was done. */
    private boolean carryOut(List<RecoveryPlan.Step> steps) throws IOException {
      boolean isOneDone = false;
      ExecutorService threads = Executors.newFixedThreadPool(options.threads);
      try {
        Map<RecoveryPlan.Step, Future<?>> running = new LinkedHashMap<>();
        for (RecoveryPlan.Step step : steps) {
          running.put(
              step,
              threads.submit(
                  () -> {
                    rebuilder.run(
                        step, step.unknowns.stream().noneMatch(u -> wrong.contains(u.blockId)));
                    return null;
                  }));
        }
        for (Map.Entry<RecoveryPlan.Step, Future<?>> one : running.entrySet()) {
          try {
            one.getValue().get();
            done(one.getKey());
            isOneDone = true;
          } catch (ExecutionException failed) {
            failed(one.getKey(), failed.getCause());
          }
        }
        return isOneDone;
      } catch (InterruptedException interrupted) {
        Thread.currentThread().interrupt();
        throw new IOException("interrupted");
      } finally {
        threads.shutdownNow();
      }
    }

    private void failed(RecoveryPlan.Step step, Throwable why) {
      if (why instanceof Rebuilder.Unreadable) {
        sources.doubt(((Rebuilder.Unreadable) why).entry);
      }
      step.rows.forEach(row -> failures.merge(row.place(), 1, Integer::sum));
      for (RecoveryPlan.Unknown unknown : step.unknowns) {
        tries.merge(unknown.blockId, why instanceof Rebuilder.NoNode ? TRIES : 1, Integer::sum);
        if (why instanceof Rebuilder.Wrong) {
          wrong.add(unknown.blockId);
        }
        reasons.put(unknown.blockId, why.getMessage());
        err.println("pantile-hdfs: blk_" + unknown.blockId + ": " + why.getMessage());
      }
    }

    /** Returns the reason why a block is still missing, for the text behind its name. */
    String why(long blockId) {
      if (rebuilt.contains(blockId)) {
        return ": rebuilt, and the NameNode has not heard of it yet";
      }
      if (reasons.containsKey(blockId)) {
        return ": " + reasons.get(blockId);
      }
      if (uncovered.contains(blockId)) {
        return ": in the parity of none of the add-ons that were given";
      }
      return ": its rows lack more blocks than they have equations; give the add-ons of all failed"
          + " disks" + lacking();
    }

    /** Counts the blocks whose lack makes rows say nothing. */
    private String lacking() {
      int gone = sources.gone().size();
      return gone == 0
          ? ""
          : "; " + gone + " blocks that are in parity are on no disk any more" + sources.hope();
    }
  }
}
