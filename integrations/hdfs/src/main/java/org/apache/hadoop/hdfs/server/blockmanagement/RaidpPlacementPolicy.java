package org.apache.hadoop.hdfs.server.blockmanagement;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.EnumMap;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.StorageType;
import org.apache.hadoop.hdfs.AddBlockFlag;
import org.apache.hadoop.hdfs.DFSConfigKeys;
import org.apache.hadoop.hdfs.protocol.BlockStoragePolicy;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo;
import org.apache.hadoop.hdfs.server.protocol.DatanodeStorage;
import org.apache.hadoop.net.NetworkTopology;
import org.apache.hadoop.net.Node;
import org.apache.hadoop.net.NodeBase;
import org.apache.hadoop.util.Time;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import pantile.hdfs.raidp.Pairs;
import pantile.hdfs.raidp.StorageName;

/**
 * Places both copies of a block in the two storages that are one superchunk: the one on disk i that
 * is named after disk j, and the one on disk j that is named after disk i.
 *
 * <p>So any two disks share one superchunk and nothing else. The ids of the storages have all that
 * the policy needs ({@link StorageName}); storages with other names get no blocks. A block that has
 * one copy left gets the other in its mirror, or, if the mirror's disk has no live node, in the
 * spare of a disk that has one. {@link Pairs} chooses the superchunk of a new block.
 *
 * <p>It is in this package of Hadoop because no other package can name the types of a policy's
 * arguments. It is named in {@code dfs.block.replicator.classname}.
 */
public class RaidpPlacementPolicy extends BlockPlacementPolicyDefault {
  private static final Logger LOG = LoggerFactory.getLogger(RaidpPlacementPolicy.class);

  /** The time for which a sentence is not logged again. */
  private static final long QUIET_MS = 60_000;

  private static final int COPIES = 2;

  private final Pairs<DatanodeStorageInfo> pairs = new Pairs<>();

  /** Names by storage id, which are parsed once. */
  private final Map<String, StorageName> names = new ConcurrentHashMap<>();

  private NetworkTopology nodes;

  /** The nodes for which the log has the cost of losing a host. */
  private volatile Set<DatanodeDescriptor> described = Collections.emptySet();

  /** The time at which each sentence was last logged: one for each DataNode, and a few more. */
  private final Map<String, Long> said = new ConcurrentHashMap<>();

  @Override
  public void initialize(
      Configuration conf,
      FSClusterStats stats,
      NetworkTopology clusterMap,
      Host2NodesMap host2datanodeMap) {
    super.initialize(conf, stats, clusterMap, host2datanodeMap);
    nodes = clusterMap;
    if (stats == null) {
      // This process is not the NameNode but the Balancer, which asks if blocks can be moved; none
      // can.
      return;
    }
    int most =
        conf.getInt(
            DFSConfigKeys.DFS_REPLICATION_MAX_KEY, DFSConfigKeys.DFS_REPLICATION_MAX_DEFAULT);
    if (most != COPIES) {
      throw new IllegalArgumentException(
          DFSConfigKeys.DFS_REPLICATION_MAX_KEY + " is " + most
              + " and must be 2: with RAIDP a block has two copies, in one superchunk");
    }
    off(conf, DFSConfigKeys.DFS_STORAGE_POLICY_ENABLED_KEY, true,
        "storage policies would move blocks out of their superchunks");
    off(conf, DFSConfigKeys.DFS_BLOCK_ACCESS_TOKEN_ENABLE_KEY, false,
        "RAIDP's recovery has no keys for block tokens");
  }

  /** Warns, at most once a minute. */
  private void warn(String what) {
    long now = Time.monotonicNow();
    Long last = said.get(what);
    if (last == null || now - last >= QUIET_MS) {
      said.put(what, now);
      LOG.warn("RAIDP: {}", what);
    }
  }

  private static void off(Configuration conf, String key, boolean usual, String why) {
    if (conf.getBoolean(key, usual)) {
      throw new IllegalArgumentException(key + " must be false: " + why);
    }
  }

  @Override
  public DatanodeStorageInfo[] chooseTarget(
      String path,
      int wanted,
      Node writer,
      List<DatanodeStorageInfo> chosen,
      boolean returnChosen,
      Set<Node> excluded,
      long blockBytes,
      BlockStoragePolicy storagePolicy,
      EnumSet<AddBlockFlag> flags) {
    return choose(path, wanted, writer, chosen, returnChosen, excluded, blockBytes);
  }

  @Override
  public DatanodeStorageInfo[] chooseTarget(
      String path,
      int wanted,
      Node writer,
      List<DatanodeStorageInfo> chosen,
      boolean returnChosen,
      Set<Node> excluded,
      long blockBytes,
      BlockStoragePolicy storagePolicy,
      EnumSet<AddBlockFlag> flags,
      EnumMap<StorageType, Integer> storageTypes) {
    return choose(path, wanted, writer, chosen, returnChosen, excluded, blockBytes);
  }

  @Override
  DatanodeStorageInfo[] chooseTarget(
      String path,
      int wanted,
      Node writer,
      Set<Node> excluded,
      long blockBytes,
      List<DatanodeDescriptor> favored,
      BlockStoragePolicy storagePolicy,
      EnumSet<AddBlockFlag> flags) {
    return choose(path, wanted, writer, Collections.emptyList(), false, excluded, blockBytes);
  }

  private DatanodeStorageInfo[] choose(
      String path,
      int wanted,
      Node writer,
      List<DatanodeStorageInfo> chosen,
      boolean returnChosen,
      Set<Node> excluded,
      long blockBytes) {
    List<DatanodeStorageInfo> targets = new ArrayList<>();
    if (chosen.isEmpty() && wanted == COPIES) {
      targets = pairs.choose(ends(writer, excluded, blockBytes, true), Time.monotonicNow());
    } else if (chosen.size() == 1 && wanted == 1) {
      addOther(targets, chosen.get(0), writer, excluded, blockBytes);
    } else if (chosen.isEmpty()) {
      LOG.warn("RAIDP: {} wants {} copies of a block; it can have two", path, wanted);
    }
    if (returnChosen) {
      targets.addAll(0, chosen);
    }
    return targets.toArray(DatanodeStorageInfo.EMPTY_ARRAY);
  }

  /** Adds the storage for the copy that a block lacks. */
  private void addOther(
      List<DatanodeStorageInfo> targets,
      DatanodeStorageInfo chosen,
      Node writer,
      Set<Node> excluded,
      long blockBytes) {
    StorageName name = name(chosen);
    if (name == null) {
      return;
    }
    boolean hasPlace = !name.isSpare() && liveDisks(name).contains(name.partner);
    Map<StorageName, Pairs.End<DatanodeStorageInfo>> ends =
        ends(writer, excluded, blockBytes, !hasPlace);
    Pairs.End<DatanodeStorageInfo> other =
        hasPlace
            ? ends.get(name.mirror())
            : pairs.spare(ends, end(name, chosen, writer));
    if (other != null) {
      targets.add(other.storage());
    }
  }

  /** The disks of a storage's array that have a live node. */
  private Set<Integer> liveDisks(StorageName of) {
    Set<Integer> disks = new HashSet<>();
    for (Node leaf : nodes.getLeaves(NodeBase.ROOT)) {
      DatanodeDescriptor node = (DatanodeDescriptor) leaf;
      for (DatanodeStorageInfo storage : node.getStorageInfos()) {
        StorageName name = name(storage);
        if (node.isAlive() && name != null && name.array == of.array) {
          disks.add(name.disk);
        }
      }
    }
    return disks;
  }

  private static Pairs.End<DatanodeStorageInfo> end(
      StorageName name, DatanodeStorageInfo storage, Node writer) {
    DatanodeDescriptor node = storage.getDatanodeDescriptor();
    return new Pairs.End<>(
        name,
        storage,
        node.getDatanodeUuid(),
        node.getIpAddr(),
        node.getHostName(),
        node.getNetworkLocation(),
        node.equals(writer),
        storage.numBlocks(),
        node.getBlocksScheduled() + node.getXceiverCount());
  }

  /** The name of a storage; null if it is none of RAIDP. */
  private StorageName name(DatanodeStorageInfo storage) {
    String id = storage.getStorageID();
    StorageName name = names.get(id);
    if (name == null) {
      name = StorageName.parse(id);
      if (name != null) {
        names.put(id, name);
      }
    }
    return name;
  }

  /**
   * Returns the storages that may take such a block, by name.
   *
   * @param isNew true if the block needs room beside the blocks that are on their way; a lost copy
   * that comes back has its place in parity.
   */
  private Map<StorageName, Pairs.End<DatanodeStorageInfo>> ends(
      Node writer, Set<Node> excluded, long blockBytes, boolean isNew) {
    Map<StorageName, Pairs.End<DatanodeStorageInfo>> ends = new HashMap<>();
    List<Pairs.End<DatanodeStorageInfo>> all = new ArrayList<>();
    Set<DatanodeDescriptor> live = new HashSet<>();
    for (Node leaf : nodes.getLeaves(NodeBase.ROOT)) {
      DatanodeDescriptor node = (DatanodeDescriptor) leaf;
      if (node.isDecommissionInProgress()) {
        warn(
            node + " is being decommissioned, which does not end: its blocks have no other place."
                + " Take it back into service; to move its disk, stop it, and start a DataNode with"
                + " the same number and add-on and with empty directories");
      }
      if (!node.isAlive() || !node.isInService()) {
        continue;
      }
      live.add(node);
      int scheduled = node.getBlocksScheduled();
      for (DatanodeStorageInfo storage : node.getStorageInfos()) {
        StorageName name = name(storage);
        if (name == null || storage.getState() != DatanodeStorage.State.NORMAL) {
          continue;
        }
        Pairs.End<DatanodeStorageInfo> end = end(name, storage, writer);
        all.add(end);
        // All directories of a node are on one disk, which blocks on their way will fill.
        boolean fits = storage.getRemaining() >= blockBytes * (isNew ? scheduled + 1L : 1);
        if (fits && (excluded == null || !excluded.contains(node))) {
          ends.put(name, end);
        }
      }
    }
    sayCosts(live, all);
    return ends;
  }

  /** Logs the cost of losing a host when the set of nodes has changed. */
  private void sayCosts(Set<DatanodeDescriptor> live, List<Pairs.End<DatanodeStorageInfo>> all) {
    if (!live.equals(described)) {
      described = live;
      Pairs.costsOfHosts(all).forEach(
          cost -> LOG.warn("RAIDP: {}. Blocks are placed on two hosts where that is possible", cost));
    }
  }

  /**
   * Chooses the copies to delete. Copies without a mirror among the others are deleted first:
   * copies in a spare, by a balancer, or old ones. A pair stays, also if its file was given
   * replication 1, because a single copy would be lost with its disk.
   */
  @Override
  public List<DatanodeStorageInfo> chooseReplicasToDelete(
      Collection<DatanodeStorageInfo> available,
      Collection<DatanodeStorageInfo> candidates,
      int expected,
      List<StorageType> excessTypes,
      DatanodeDescriptor added,
      DatanodeDescriptor hint) {
    int kept = Math.max(expected, COPIES);
    List<StorageName> paired = new ArrayList<>();
    available.forEach(storage -> paired.add(name(storage)));
    List<DatanodeStorageInfo> odd = new ArrayList<>();
    for (DatanodeStorageInfo storage : candidates) {
      StorageName name = name(storage);
      boolean hasMirror = name != null && !name.isSpare() && paired.contains(name.mirror());
      if (!hasMirror && odd.size() < candidates.size() - kept) {
        odd.add(storage);
      }
    }
    List<DatanodeStorageInfo> left = new ArrayList<>(candidates);
    left.removeAll(odd);
    if (left.size() > kept) {
      odd.addAll(super.chooseReplicasToDelete(available, left, kept, excessTypes, added, hint));
    } else if (left.size() > expected) {
      warn(
          "blocks of files with replication " + expected + " keep both copies; one that is lost is"
              + " not made again before `hdfs dfs -setrep 2`");
    }
    return odd;
  }

  /**
   * Returns that copies on two nodes are placed right: in one superchunk, or in spares for a time.
   */
  @Override
  public BlockPlacementStatus verifyBlockPlacement(DatanodeInfo[] nodes, int copies) {
    return new BlockPlacementStatusDefault(1, 1, 1);
  }

  @Override
  public boolean isMovable(
      Collection<DatanodeInfo> copies, DatanodeInfo source, DatanodeInfo target) {
    return false;
  }
}
