package pantile.hdfs.raidp;

import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ThreadLocalRandom;

/**
 * Chooses the superchunk of a new block: two storages that are each other's mirror.
 *
 * <p>In this order: on two hosts; on nodes that are not busy; in two racks; with an end at the
 * writer; with the fewest blocks; at random. A superchunk's blocks count from the moment when it
 * was chosen, since its nodes report them later. For several threads.
 */
public final class Pairs<S> {
  /** The time after which a promise that no report confirmed is void: its writer gave up. */
  private static final long PROMISE_MS = 60_000;

  /** A node is busy if its activity is above this many times the mean, and a few more. */
  private static final int BUSY_TIMES = 2;

  private static final int BUSY_MORE = 2;

  /** The number of blocks of a storage that were not counted. */
  public static final int UNKNOWN = -1;

  /** A storage that may take the block, and its node. */
  public static final class End<S> {
    final StorageName name;
    final S storage;
    final String node;
    final String address;
    final String host;
    final String rack;
    final boolean near;
    final int blocks;
    final int activity;

    /**
     * Describes a storage.
     *
     * @param node the node's unique id.
     * @param near true if the writer is on the node.
     * @param activity running transfers of the node, and blocks on their way to it.
     */
    public End(
        StorageName name,
        S storage,
        String node,
        String address,
        String host,
        String rack,
        boolean near,
        int blocks,
        int activity) {
      this.name = name;
      this.storage = storage;
      this.node = node;
      this.address = address;
      this.host = host;
      this.rack = rack;
      this.near = near;
      this.blocks = blocks;
      this.activity = activity;
    }

    /** The storage that was described. */
    public S storage() {
      return storage;
    }

    boolean isOnHostOf(End<S> other) {
      return address.equals(other.address) || host.equals(other.host);
    }
  }

  private static final class Promise {
    final int blocks;
    final long when;

    Promise(int blocks, long when) {
      this.blocks = blocks;
      this.when = when;
    }
  }

  /** The blocks that chosen superchunks will have, by the end with the lower number. */
  private final Map<StorageName, Promise> promises = new ConcurrentHashMap<>();

  /**
   * Returns both storages of the chosen superchunk, the writer's first; an empty list if there is
   * none.
   */
  public List<S> choose(Map<StorageName, End<S>> ends, long nowMs) {
    double busy = busyFrom(ends.values());
    End<S> best = null;
    long[] bestCost = null;
    int ties = 0;
    ThreadLocalRandom random = ThreadLocalRandom.current();
    for (End<S> end : ends.values()) {
      End<S> other = end.name.disk < end.name.partner ? ends.get(end.name.mirror()) : null;
      if (other == null) {
        continue;
      }
      long[] cost = cost(end, other, busy, nowMs);
      int order = bestCost == null ? -1 : compare(cost, bestCost);
      ties = order < 0 ? 1 : order == 0 ? ties + 1 : ties;
      if (order < 0 || order == 0 && random.nextInt(ties) == 0) {
        best = end;
        bestCost = cost;
      }
    }
    List<S> pair = new ArrayList<>();
    if (best != null) {
      End<S> other = ends.get(best.name.mirror());
      promises.put(best.name, new Promise(blocks(best, other, nowMs) + 1, nowMs));
      boolean first = best.near || !other.near && random.nextBoolean();
      pair.add(first ? best.storage : other.storage);
      pair.add(first ? other.storage : best.storage);
    }
    return pair;
  }

  /**
   * Returns the spare for the second copy of a block, null if there is none: on another node and
   * host than the first, in another rack, and with the least to do.
   */
  public End<S> spare(Map<StorageName, End<S>> ends, End<S> first) {
    End<S> best = null;
    long[] bestCost = null;
    int ties = 0;
    for (End<S> end : ends.values()) {
      if (!end.name.isSpare()
          || end.name.array != first.name.array
          || end.node.equals(first.node)) {
        continue;
      }
      long[] cost = {
        end.isOnHostOf(first) ? 1 : 0,
        end.rack.equals(first.rack) ? 1 : 0,
        end.activity,
        end.blocks,
      };
      int order = bestCost == null ? -1 : compare(cost, bestCost);
      ties = order < 0 ? 1 : order == 0 ? ties + 1 : ties;
      if (order < 0 || order == 0 && ThreadLocalRandom.current().nextInt(ties) == 0) {
        best = end;
        bestCost = cost;
      }
    }
    return best;
  }

  private static <S> double busyFrom(Collection<End<S>> ends) {
    Map<String, Integer> activity = new HashMap<>();
    ends.forEach(end -> activity.put(end.node, end.activity));
    double all = activity.values().stream().mapToInt(one -> one).sum();
    return BUSY_TIMES * all / Math.max(1, activity.size()) + BUSY_MORE;
  }

  private long[] cost(End<S> end, End<S> other, double busy, long nowMs) {
    return new long[] {
      end.isOnHostOf(other) ? 1 : 0,
      Math.max(end.activity, other.activity) > busy ? 1 : 0,
      end.rack.equals(other.rack) ? 1 : 0,
      end.near || other.near ? 0 : 1,
      blocks(end, other, nowMs),
    };
  }

  private static int compare(long[] a, long[] b) {
    for (int i = 0; i < a.length; i++) {
      if (a[i] != b[i]) {
        return Long.compare(a[i], b[i]);
      }
    }
    return 0;
  }

  /** The blocks that a superchunk has, or will have. */
  private int blocks(End<S> end, End<S> other, long nowMs) {
    int reported = Math.max(end.blocks, other.blocks);
    Promise promise = promises.get(end.name);
    return promise == null || nowMs - promise.when > PROMISE_MS
        ? reported
        : Math.max(reported, promise.blocks);
  }

  /**
   * Returns the cost of losing a host, a sentence for each host with several disks of an array.
   *
   * @param ends all storages of live nodes, whether they take blocks or not.
   */
  public static <S> List<String> costsOfHosts(Collection<End<S>> ends) {
    Map<StorageName, End<S>> byName = new HashMap<>();
    Map<Long, Map<Integer, End<S>>> arrays = new TreeMap<>();
    for (End<S> end : ends) {
      byName.put(end.name, end);
      arrays.computeIfAbsent(end.name.array, array -> new TreeMap<>()).put(end.name.disk, end);
    }
    List<String> costs = new ArrayList<>();
    for (Map<Integer, End<S>> disks : arrays.values()) {
      Map<String, List<End<S>>> hosts = new TreeMap<>();
      disks.values().forEach(
          disk -> hosts.computeIfAbsent(hostOf(disk, hosts), host -> new ArrayList<>()).add(disk));
      hosts.forEach((host, there) -> {
        if (there.size() > 1) {
          costs.add(cost(host, there, disks.size(), byName));
        }
      });
    }
    return costs;
  }

  /** The name of a host that is known already, by its address or name, or a new one. */
  private static <S> String hostOf(End<S> disk, Map<String, List<End<S>>> hosts) {
    for (Map.Entry<String, List<End<S>>> host : hosts.entrySet()) {
      if (host.getValue().get(0).isOnHostOf(disk)) {
        return host.getKey();
      }
    }
    return disk.host;
  }

  private static <S> String cost(
      String host, List<End<S>> there, int disks, Map<StorageName, End<S>> byName) {
    int used = 0;
    boolean isCounted = true;
    for (End<S> a : there) {
      for (End<S> b : there) {
        End<S> storage = byName.get(a.name.to(b.name.disk));
        isCounted &= storage == null || storage.blocks != UNKNOWN;
        used += a.name.disk < b.name.disk && storage != null && storage.blocks > 0 ? 1 : 0;
      }
    }
    int both = there.size() * (there.size() - 1) / 2;
    return "host " + host + " has " + there.size() + " of the " + disks
        + " disks of an array; its loss takes both copies of " + both + " of "
        + disks * (disks - 1) / 2 + " pairs of disks"
        + (isCounted ? ", of which " + used + " hold blocks" : "");
  }
}
