package pantile.hdfs.raidp;

import java.io.Closeable;
import java.io.IOException;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo;
import org.apache.hadoop.hdfs.protocol.HdfsConstants.DatanodeReportType;
import org.apache.hadoop.hdfs.server.protocol.DatanodeStorageReport;
import org.apache.hadoop.hdfs.server.protocol.StorageReport;
import pantile.hdfs.RaidpCode;

/**
 * The commands `raidp status`, `raidp check` and `raidp forget`: an array as its DataNodes see it.
 *
 * <p>Margin: for each disk and each pair of disks that are present, the repair of their loss is
 * planned as by `raidp recover`, from the entries of all add-ons and the blocks that other disks
 * have, live or kept. Add-ons count as present; no byte of them is read ({@code parity-check} does
 * that). A disk without an answer counts as lost with its add-on.
 */
final class ArrayView implements Closeable {
  private static final int SAID_MOST = 20;

  /** The time without progress after which an order to forget has ended. */
  private static final long FORGET_MS = 20_000;

  private final DistributedFileSystem files;
  private final PrintStream out;
  private final Map<Integer, Peer> peers = new TreeMap<>();
  private final Map<Integer, Map<String, String>> states = new TreeMap<>();
  private final Map<Integer, String> silent = new TreeMap<>();
  private String array = "";
  private int disks;
  private int faults;

  private ArrayView(DistributedFileSystem files, PrintStream out) {
    this.files = files;
    this.out = out;
  }

  /** Asks all nodes of the one array that the NameNode knows. */
  static ArrayView of(DistributedFileSystem files, Configuration conf, PrintStream out)
      throws IOException {
    ArrayView view = new ArrayView(files, out);
    try {
      for (Map.Entry<Integer, DatanodeInfo> node : nodes(files).entrySet()) {
        Peer peer = Peer.of(node.getValue(), conf);
        view.peers.put(node.getKey(), peer);
        view.ask(node.getKey(), peer);
      }
      for (int disk = 0; disk < view.disks; disk++) {
        if (!view.peers.containsKey(disk)) {
          view.silent.put(disk, "no live node");
        }
      }
      if (view.states.isEmpty()) {
        throw new IOException("no DataNode of RAIDP answers: " + view.silent);
      }
      return view;
    } catch (IOException error) {
      view.close();
      throw error;
    }
  }

  private void ask(int disk, Peer peer) {
    try {
      Map<String, String> state = peer.status();
      states.put(disk, state);
      array = state.get("array");
      disks = Integer.parseInt(state.get("disks"));
    } catch (IOException error) {
      silent.put(disk, "does not answer: " + firstLine(error));
    }
  }

  /** Returns a header of the array as its nodes describe it, with disk 0 and no tiles. */
  Header header() {
    String pool = states.values().iterator().next().get("pool");
    return new Header(array, disks, 0, 0, pool);
  }

  private static String firstLine(IOException error) {
    return String.valueOf(error.getMessage()).split("\n")[0];
  }

  private static Map<Integer, DatanodeInfo> nodes(DistributedFileSystem files)
      throws IOException {
    Map<Integer, DatanodeInfo> nodes = new TreeMap<>();
    Set<Long> arrays = new HashSet<>();
    DatanodeStorageReport[] live =
        files.getClient().getNamenode().getDatanodeStorageReport(DatanodeReportType.LIVE);
    for (DatanodeStorageReport node : live) {
      for (StorageReport storage : node.getStorageReports()) {
        StorageName name = StorageName.parse(storage.getStorage().getStorageID());
        if (name != null) {
          arrays.add(name.array);
          nodes.put(name.disk, node.getDatanodeInfo());
        }
      }
    }
    if (arrays.size() != 1) {
      throw new IOException(
          "the NameNode knows storages of " + arrays.size() + " arrays of RAIDP, not of one");
    }
    return nodes;
  }

  /** Prints the state of each disk; returns the number of faults. */
  int status() {
    for (int disk = 0; disk < disks; disk++) {
      Map<String, String> state = states.get(disk);
      if (state == null) {
        faults++;
        out.println("disk " + disk + " of " + disks + ": " + silent.get(disk));
        continue;
      }
      boolean isRight =
          state.get("state").equals("works")
              && state.get("behind").equals("0")
              && state.get("absent").equals("0")
              && state.get("waiting").equals("0");
      faults += isRight ? 0 : 1;
      out.println(
          "disk " + disk + " of " + disks + ": " + state.get("parity") + " blocks in parity, "
              + state.get("behind") + " behind, " + state.get("absent")
              + " in parity and not on the disk, " + state.get("spare") + " spare copies, "
              + state.get("kept") + " kept copies of "
              + state.get("kept-bytes") + " bytes, " + state.get("waiting")
              + " deletes waiting; add-on " + state.get("add-on") + ": " + state.get("state"));
    }
    return faults;
  }

  private void fault(String what) {
    faults++;
    if (faults <= SAID_MOST) {
      out.println("  " + what);
    }
  }

  /** A block that a disk has. */
  private static final class Place {
    long generation;
    long length;
    final Set<Integer> on = new TreeSet<>();
  }

  /** Compares every entry with its mirror, and prints the margin; returns the number of faults. */
  int check() throws IOException {
    int before = status();
    faults = 0;
    Map<Integer, List<Entry>> entries = new TreeMap<>();
    Map<Long, Place> places = new HashMap<>();
    for (int disk : states.keySet()) {
      Map<Long, Entry> byBlock = new HashMap<>();
      List<Entry> all;
      try {
        all = peers.get(disk).entries();
      } catch (IOException error) {
        all = Collections.emptyList();
        fault("disk " + disk + ": " + firstLine(error));
      }
      entries.put(disk, all);
      all.forEach(entry -> byBlock.put(entry.blockId, entry));
      for (long[] replica : peers.get(disk).replicas()) {
        Place place = places.computeIfAbsent(replica[0], block -> new Place());
        if (replica[1] > place.generation) {
          place.generation = replica[1];
          place.length = replica[2];
          place.on.clear();
        }
        if (replica[1] == place.generation) {
          place.on.add(disk);
        }
        Entry entry = byBlock.get(replica[0]);
        boolean isSpare = replica[3] == disk;
        if (!isSpare && (entry == null || entry.generation != replica[1] || entry.length != replica[2])) {
          fault("blk_" + replica[0] + " is on disk " + disk + " without parity");
        }
      }
    }
    Map<Integer, Set<List<Long>>> holes = new TreeMap<>();
    int compared = 0;
    for (Map.Entry<Integer, List<Entry>> one : entries.entrySet()) {
      holes.put(one.getKey(), holes(one.getKey(), one.getValue(), places));
      compared += one.getValue().size();
    }
    if (faults > SAID_MOST) {
      out.println("  ... " + (faults - SAID_MOST) + " more");
    }
    out.println(
        "array " + array + ": " + compared + " entries compared with their mirrors, " + faults
            + " faults");
    return before + faults + margin(entries, places, holes);
  }

  /**
   * Returns the contents in a disk's parity of which neither the mirror nor a spare has a version.
   */
  private Set<List<Long>> holes(int disk, List<Entry> entries, Map<Long, Place> places) {
    Map<Integer, List<Entry>> ofPartners = new TreeMap<>();
    entries.forEach(
        entry -> ofPartners.computeIfAbsent(entry.partner, p -> new ArrayList<>()).add(entry));
    Set<List<Long>> holes = new HashSet<>();
    for (Map.Entry<Integer, List<Entry>> one : ofPartners.entrySet()) {
      List<Entry> some = one.getValue();
      if (!states.containsKey(one.getKey())) {
        continue; // It counts as lost.
      }
      long[] has;
      try {
        has =
            peers.get(one.getKey()).generations(
                some.stream().mapToLong(entry -> entry.blockId).toArray(),
                some.stream().mapToLong(entry -> entry.generation).toArray(),
                some.stream().mapToLong(entry -> entry.length).toArray());
      } catch (IOException error) {
        fault("disk " + one.getKey() + " does not say which blocks it has: " + firstLine(error));
        continue;
      }
      for (int i = 0; i < has.length; i++) {
        if (has[i] == Peer.NONE && !isElsewhere(some.get(i), disk, places)) {
          holes.add(some.get(i).content());
          fault("disk " + disk + " counts " + some.get(i) + ", of which disk " + one.getKey()
              + " has no copy");
        }
      }
    }
    return holes;
  }

  /** True if a disk other than an entry's own has its content as a replica. */
  private static boolean isElsewhere(Entry entry, int disk, Map<Long, Place> places) {
    Place place = places.get(entry.blockId);
    return isOf(entry, place) && place.on.stream().anyMatch(on -> on != disk);
  }

  private static boolean isOf(Entry entry, Place place) {
    return place != null
        && place.generation == entry.generation
        && place.length == entry.length;
  }

  private int margin(
      Map<Integer, List<Entry>> entries,
      Map<Long, Place> places,
      Map<Integer, Set<List<Long>>> holes)
      throws IOException {
    int missing = Missing.of(files).size();
    if (missing > 0) {
      out.println("margin: " + missing + " blocks have no replica now; run raidp recover");
      return missing;
    }
    RaidpCode code = RaidpCode.of(disks);
    List<Integer> there = new ArrayList<>(states.keySet());
    Map<Set<Integer>, Integer> lossesOfOne = new LinkedHashMap<>();
    Map<Set<Integer>, Integer> lossesOfTwo = new LinkedHashMap<>();
    for (int i = 0; i < there.size(); i++) {
      Set<Integer> one = new TreeSet<>(Collections.singleton(there.get(i)));
      count(lossesOfOne, one, lost(code, one, entries, places, holes));
      for (int j = i + 1; j < there.size(); j++) {
        Set<Integer> two = new TreeSet<>(one);
        two.add(there.get(j));
        count(lossesOfTwo, two, lost(code, two, entries, places, holes));
      }
    }
    int margin = !lossesOfOne.isEmpty() ? 0 : !lossesOfTwo.isEmpty() ? 1 : 2;
    out.println(
        "margin: any " + margin + " more disks can fail without data loss"
            + (margin == 2 ? " (sets of three are not counted)" : ""));
    Map<Set<Integer>, Integer> losses = margin == 0 ? lossesOfOne : lossesOfTwo;
    losses.entrySet().stream()
        .sorted((a, b) -> b.getValue() - a.getValue())
        .limit(SAID_MOST)
        .forEach(
            loss ->
                out.println("  disks " + loss.getKey() + ": " + loss.getValue() + " blocks lost"));
    return margin == 2 ? 0 : 1;
  }

  private static void count(Map<Set<Integer>, Integer> losses, Set<Integer> disks, int lost) {
    if (lost > 0) {
      losses.put(disks, lost);
    }
  }

  /** The number of blocks that are lost with some disks and those that do not answer. */
  private int lost(
      RaidpCode code,
      Set<Integer> more,
      Map<Integer, List<Entry>> entries,
      Map<Long, Place> places,
      Map<Integer, Set<List<Long>>> holes) {
    Map<Long, RecoveryPlan.Wanted> wanted = new HashMap<>();
    places.forEach(
        (block, place) -> {
          if (more.containsAll(place.on)) {
            wanted.put(block, new RecoveryPlan.Wanted(place.generation, place.length));
          }
        });
    Map<Integer, List<Entry>> ofLost = new TreeMap<>();
    Set<List<Long>> gone = new HashSet<>();
    Set<Integer> known = new TreeSet<>(more);
    for (Map.Entry<Integer, Map<String, String>> state : states.entrySet()) {
      // The add-on of a replaced disk counts blocks that other disks have.
      if (!state.getValue().get("absent").equals("0")) {
        known.add(state.getKey());
      }
    }
    for (int disk : known) {
      ofLost.put(disk, entries.get(disk));
      gone.addAll(holes.get(disk));
      for (Entry entry : entries.get(disk)) {
        Place place = places.get(entry.blockId);
        boolean isLost =
            (more.contains(entry.partner) || !states.containsKey(entry.partner))
                && (!isOf(entry, place) || more.containsAll(place.on));
        if (isLost && !wanted.containsKey(entry.blockId)) {
          gone.add(entry.content());
        }
      }
    }
    while (!wanted.isEmpty()) {
      RecoveryPlan plan = new RecoveryPlan(ofLost, wanted, gone, new HashMap<>(), code::weight);
      int before = wanted.size();
      plan.steps.forEach(step -> step.unknowns.forEach(one -> wanted.remove(one.blockId)));
      if (wanted.size() == before) {
        break;
      }
    }
    return wanted.size();
  }

  /** Has a disk's entries without a block taken out; returns how many are left. */
  int forget(int disk) throws IOException {
    if (!states.containsKey(disk)) {
      throw new IOException("disk " + disk + ": " + silent.getOrDefault(disk, "there is none"));
    }
    if (!silent.isEmpty()) {
      // The NameNode notices a node that is gone after minutes.
      throw new IOException(
          "what disk " + disk + " still knows may be needed: disks without an answer are " + silent
              + ". Start their nodes first");
    }
    int missing = Missing.of(files).size();
    long low = files.getLowRedundancyBlocksCount();
    if (missing > 0 || low > 0) {
      throw new IOException(
          missing + " blocks have no replica and " + low + " have one: what disk " + disk
              + " still knows may be needed. Run raidp recover first, and wait until"
              + " hdfs fsck / counts 0 under-replicated blocks");
    }
    int spare = 0;
    for (Map<String, String> state : states.values()) {
      spare += Integer.parseInt(state.get("spare"));
    }
    if (spare > 0) {
      throw new IOException(
          spare + " copies are in spares, and what disk " + disk + " still knows says where they"
              + " belong: wait until raidp status counts 0 spare copies");
    }
    int before = peers.get(disk).forget();
    int left = before;
    long end = System.nanoTime() + FORGET_MS * 1_000_000;
    while (left > 0 && System.nanoTime() < end) {
      try {
        Thread.sleep(200);
      } catch (InterruptedException interrupted) {
        Thread.currentThread().interrupt();
        throw new IOException("interrupted");
      }
      int now = Integer.parseInt(peers.get(disk).status().get("absent"));
      end = now < left ? System.nanoTime() + FORGET_MS * 1_000_000 : end;
      left = now;
    }
    out.println(
        "disk " + disk + ": " + (before - left) + " blocks left parity that are not on the disk"
            + (left == 0 ? "" : ", " + left + " did not: its log says why"));
    return left;
  }

  @Override
  public void close() {
    peers.values().forEach(Peer::close);
  }
}
