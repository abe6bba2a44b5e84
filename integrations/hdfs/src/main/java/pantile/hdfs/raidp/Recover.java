package pantile.hdfs.raidp;

import java.io.Closeable;
import java.io.EOFException;
import java.io.IOException;
import java.io.PrintStream;
import java.net.ConnectException;
import java.net.SocketTimeoutException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
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
import org.apache.hadoop.net.NetUtils;
import pantile.hdfs.RaidpCode;
import pantile.hdfs.Triples;

/**
 * The command `raidp recover`: blocks whose two disks both failed are rebuilt from the add-ons of
 * the failed disks and the mirrors of their other blocks.
 *
 * <p>It plans and gives orders; DataNodes carry them out, each with its share. Orders that need an
 * add-on in a folder are carried out here. It keeps no state: the work is the list of blocks that
 * the NameNode misses. If it is ended at any moment and started again, it goes on with the blocks
 * that are still missing.
 */
final class Recover {
  private static final String USAGE =
      "usage: " + RaidpTool.RECOVER + "\n"
          + "Has the blocks that lost both disks rebuilt: in their places where these have live nodes,\n"
          + "else in the spares of other disks.\n"
          + "  --add-on DISK=PLACE  the add-on of a disk without a live node: a folder of this machine,\n"
          + "                       or host:port of its server\n"
          + "  --threads N          so many blocks at a time on each node (4 unless said)\n"
          + "  --bytes-per-s N      so many bytes on each node that rebuilds, read and written; at\n"
          + "                       least 1048576\n"
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

  /** The pause before a node is asked how far an order is: from, to. */
  private static final int POLL_MS_LEAST = 50;

  private static final int POLL_MS_MOST = 1_000;

  /** Stands for the disk of orders that are carried out in this process. */
  private static final int HERE = -1;

  private final Configuration conf;
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
      return null;
    }
  }

  private Recover(
      Configuration conf,
      DistributedFileSystem files,
      Options options,
      PrintStream out,
      PrintStream err) {
    this.conf = conf;
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
    return new Recover(conf, (DistributedFileSystem) files, options, out, err).run();
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

  /** Opens all add-ons, also those that are open: a folder is read as it was when it was opened. */
  private void open(Map<Integer, AddOn> addOns) throws IOException {
    for (Map.Entry<Integer, String> place : options.places.entrySet()) {
      AddOn before = addOns.put(place.getKey(), AddOns.read(place.getValue(), place.getKey()));
      if (before != null) {
        before.close();
      }
    }
  }

  private int run(Map<Integer, AddOn> addOns) throws IOException {
    Header header = options.places.isEmpty() ? askArray() : agree(addOns);
    RaidpCode code = RaidpCode.of(header.disks);
    sayTriples(code);
    try (Partners partners = new Partners(conf, header.array, files);
        Wave wave = new Wave(partners, code, header, addOns)) {
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

  /** Asks the nodes of the one array that the NameNode knows. */
  private Header askArray() throws IOException {
    try (ArrayView view = ArrayView.of(files, conf, out)) {
      return view.header();
    }
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

  /** Returns the header that all add-ons share, except for the disk. */
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
    out.println(
        "rebuilt " + wave.rebuilt.size() + " blocks: read " + wave.bytesFromMirrors
            + " bytes from mirrors and " + wave.bytesFromAddOns + " from add-ons, wrote "
            + wave.bytesWritten + "; on " + wave.executors.size() + " nodes");
    // DataNodes report new blocks to the NameNode with a delay.
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

  /** Error: no storage can take a block, so there is no reason to try again at once. */
  private static final class NoNode extends IOException {
    private static final long serialVersionUID = 1;

    NoNode(String what) {
      super(what);
    }
  }

  /** Plans steps and has them carried out, repeatedly, until no further step is possible. */
  private final class Wave implements Closeable {
    final Set<Long> rebuilt = new HashSet<>();
    final Set<Integer> executors = new TreeSet<>();
    long bytesFromMirrors;
    long bytesFromAddOns;
    long bytesWritten;
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
    private final Partners partners;
    private final Rebuilder rebuilder;
    private final Random random = new Random();
    private Set<Long> uncovered = new HashSet<>();

    /** A counter by which spares take turns. */
    private int turn = random.nextInt(RaidpCode.DISKS_MOST);

    Wave(Partners partners, RaidpCode code, Header header, Map<Integer, AddOn> addOns) {
      this.partners = partners;
      this.header = header;
      this.addOns = addOns;
      weights = code::weight;
      rebuilder =
          new Rebuilder(
              partners, code, header.pool, (row, open) -> addOns.get(row.disk), this::isHere);
      sources =
          new Sources(
              (disk, blocks, generations, lengths) ->
                  partners.of(disk).generations(blocks, generations, lengths));
    }

    @Override
    public void close() {
      rebuilder.close();
    }

    private boolean isHere(int disk) {
      DatanodeInfo node = nodes.of(disk);
      return node != null
          && NetUtils.isLocalAddress(NetUtils.createSocketAddr(node.getXferAddr()).getAddress());
    }

    /** Asks the NameNode for live nodes and missing blocks at the same moment. */
    void look() throws IOException {
      nodes = partners.look();
      for (int again = 0; ; again++) {
        missing = Missing.of(files);
        Nodes after = partners.look();
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
      if (wanted.isEmpty()) {
        return new ArrayList<>();
      }
      open(addOns);
      Map<Integer, List<Entry>> entries = new TreeMap<>();
      for (Map.Entry<Integer, AddOn> addOn : addOns.entrySet()) {
        entries.put(addOn.getKey(), addOn.getValue().entries());
      }
      addOfNodes(entries);
      Set<Long> unasked = new HashSet<>(wanted.keySet());
      if (options.dryRun) {
        // No disk has them, and they are no holes.
        unasked.addAll(rebuilt);
      }
      sources.refresh(entries, unasked, nodes.disks());
      RecoveryPlan plan = new RecoveryPlan(entries, wanted, sources.gone(), failures, weights);
      uncovered = plan.uncovered;
      List<RecoveryPlan.Step> steps = new ArrayList<>(plan.steps);
      steps.removeIf(
          step -> step.unknowns.stream().anyMatch(u -> tries.getOrDefault(u.blockId, 0) >= TRIES));
      return steps;
    }

    /** Adds the entries of add-ons whose nodes live and whose disks lack blocks. */
    private void addOfNodes(Map<Integer, List<Entry>> entries) {
      ExecutorService threads = Executors.newCachedThreadPool();
      Map<Integer, Future<List<Entry>>> answers = new TreeMap<>();
      for (int disk : nodes.disks()) {
        if (!entries.containsKey(disk)) {
          answers.put(
              disk,
              threads.submit(
                  () -> {
                    Peer peer = partners.of(disk);
                    return peer.status().getOrDefault("absent", "0").equals("0")
                        ? new ArrayList<>()
                        : peer.entries();
                  }));
        }
      }
      threads.shutdown();
      for (Map.Entry<Integer, Future<List<Entry>>> answer : answers.entrySet()) {
        try {
          entries.put(answer.getKey(), answer.getValue().get());
        } catch (ExecutionException failed) {
          err.println(
              "pantile-hdfs: disk " + answer.getKey() + " does not answer: "
                  + failed.getCause().getMessage());
        } catch (InterruptedException interrupted) {
          Thread.currentThread().interrupt();
          return;
        }
      }
    }

    /** Returns the order to a node for a step. */
    private Order order(RecoveryPlan.Step step) throws IOException {
      Order order = new Order();
      order.number = random.nextLong();
      order.bytesPerSecond = options.bytesPerSecond / options.threads;
      List<Map<Integer, Integer>> system = step.sums(weights);
      for (int r = 0; r < step.rows.size(); r++) {
        RecoveryPlan.Row from = step.rows.get(r);
        Order.Row row =
            new Order.Row(from.disk, from.row, options.places.getOrDefault(from.disk, ""));
        for (Entry entry : from.known) {
          Integer disk = sources.of(entry);
          if (disk == null) {
            throw new Outcome.Unreadable(
                entry.content(),
                entry + ": its disks do not answer " + sources.silent(),
                null);
          }
          row.known.all.add(
              new Order.Term(
                  weights.of(from.disk, entry.partner),
                  disk,
                  entry.blockId,
                  entry.generation,
                  entry.length));
        }
        row.unknowns.putAll(system.get(r));
        order.rows.add(row);
      }
      for (RecoveryPlan.Unknown one : step.unknowns) {
        int[] target = one.wanted ? target(one) : new int[2];
        order.unknowns.add(
            new Order.Unknown(
                one.blockId,
                one.generation,
                one.length,
                one.crc,
                one.wanted,
                target[0],
                target[1]));
      }
      return order;
    }

    /** Chooses a disk with a live node, and the partner whose storage on it gets a block. */
    private int[] target(RecoveryPlan.Unknown unknown) throws NoNode {
      RecoveryPlan.Row first = unknown.rows.get(0);
      int disk = first.disk;
      int partner = first.unknown.get(unknown).partner;
      List<int[]> places = new ArrayList<>();
      if (nodes.of(disk) != null) {
        places.add(new int[] {disk, partner});
      }
      if (nodes.of(partner) != null) {
        places.add(new int[] {partner, disk});
      }
      if (!places.isEmpty()) {
        long number = unknown.blockId + tries.getOrDefault(unknown.blockId, 0);
        return places.get((int) Math.floorMod(number, (long) places.size()));
      }
      List<Integer> spares = new ArrayList<>(nodes.spares());
      if (spares.isEmpty()) {
        throw new NoNode(
            "neither disk " + disk + " nor " + partner + " has a live node, and no other has a"
                + " spare; start a node in the place of one of them, with empty directories");
      }
      Set<Integer> here = new TreeSet<>(spares);
      here.removeIf(one -> !isHere(one));
      if (options.places.getOrDefault(disk, "").startsWith("/") && !here.isEmpty()) {
        // It is rebuilt here.
        spares = new ArrayList<>(here);
      }
      turn++;
      int spare = spares.get(Math.floorMod(turn, spares.size()));
      return new int[] {spare, spare};
    }

    /** The disk whose node carries an order out. */
    private int executor(Order order) {
      if (order.rows.stream().anyMatch(row -> row.place.startsWith("/"))) {
        return HERE;
      }
      return order.unknowns.stream().filter(one -> one.isWanted).findFirst().get().disk;
    }

    /** Has an order carried out. */
    private Outcome run(int executor, Order order) throws IOException {
      if (executor == HERE) {
        return rebuilder.run(order);
      }
      for (int pauseMs = POLL_MS_LEAST; ; pauseMs = Math.min(2 * pauseMs, POLL_MS_MOST)) {
        Outcome outcome;
        try {
          outcome = Outcome.of(partners.of(executor).rebuild(order));
        } catch (ConnectException | EOFException | SocketTimeoutException silent) {
          partners.failed(executor);
          throw new IOException(
              "the node of disk " + executor + ", which was to rebuild it, does not answer: "
                  + silent.getMessage(),
              silent);
        }
        if (outcome != null) {
          return outcome;
        }
        pause(pauseMs);
      }
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

    /** Has steps carried out, on all nodes at once; true if one of them was done. */
    private boolean carryOut(List<RecoveryPlan.Step> steps) throws IOException {
      boolean isOneDone = false;
      Map<Integer, ExecutorService> threads = new TreeMap<>();
      try {
        Map<RecoveryPlan.Step, Future<Outcome>> running = new LinkedHashMap<>();
        for (RecoveryPlan.Step step : steps) {
          try {
            Order order = order(step);
            int executor = executor(order);
            executors.add(executor);
            ExecutorService ofNode =
                threads.computeIfAbsent(
                    executor, disk -> Executors.newFixedThreadPool(options.threads));
            running.put(step, ofNode.submit(() -> run(executor, order)));
          } catch (Outcome.Unreadable | NoNode cannot) {
            failed(step, cannot);
          }
        }
        for (Map.Entry<RecoveryPlan.Step, Future<Outcome>> one : running.entrySet()) {
          try {
            Outcome outcome = one.getValue().get();
            bytesFromMirrors += outcome.bytesFromMirrors;
            bytesFromAddOns += outcome.bytesFromAddOns;
            bytesWritten += outcome.bytesWritten;
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
        threads.values().forEach(ExecutorService::shutdownNow);
      }
    }

    private void failed(RecoveryPlan.Step step, Throwable why) {
      if (why instanceof Outcome.Unreadable) {
        sources.doubt(((Outcome.Unreadable) why).content());
      }
      step.rows.forEach(row -> failures.merge(row.place(), 1, Integer::sum));
      for (RecoveryPlan.Unknown unknown : step.unknowns) {
        tries.merge(unknown.blockId, why instanceof NoNode ? TRIES : 1, Integer::sum);
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
        return ": in the parity of none of the add-ons that were given or that live nodes have; name"
            + " those of failed disks: --add-on DISK=PLACE";
      }
      return ": its rows lack more blocks than they have equations; give the add-ons of all failed"
          + " disks" + lacking();
    }

    /** Returns, in words, the number of blocks whose absence makes rows unusable. */
    private String lacking() {
      int gone = sources.gone().size();
      return gone == 0
          ? ""
          : "; " + gone + " blocks that are in parity are on no disk any more" + sources.hope();
    }
  }
}
