package org.apache.hadoop.hdfs.server.blockmanagement;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.EnumMap;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ThreadLocalRandom;
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
import pantile.hdfs.raidp.StorageName;

/**
 * Places both copies of a block in the two storages that are one superchunk: the one on disk i that
 * is named after disk j, and the one on disk j that is named after disk i.
 *
 * <p>So any two disks share one superchunk and nothing else. What there is to know stands in the
 * ids of the storages ({@link StorageName}); storages of other names get nothing. A block that has
 * one copy left gets the other in its mirror or nowhere: where the mirror's disk is gone, RAIDP
 * repairs.
 *
 * <p>In this package of Hadoop's, since what a policy is given cannot be named in any other. It is
 * named in {@code dfs.block.replicator.classname}.
 */
public class RaidpPlacementPolicy extends BlockPlacementPolicyDefault {
  private static final Logger LOG = LoggerFactory.getLogger(RaidpPlacementPolicy.class);

  /** How long a sentence is not said again. */
  private static final long QUIET_MS = 60_000;

  private static final int COPIES = 2;

  private NetworkTopology nodes;

  /** When a sentence was said last: one for each DataNode, and a few more. */
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
      // Not in the NameNode: the Balancer asks whether blocks can be moved, which none can.
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
      targets = pair(writer, storages(excluded, blockBytes));
    } else if (chosen.size() == 1 && wanted == 1) {
      StorageName name = StorageName.parse(chosen.get(0).getStorageID());
      DatanodeStorageInfo mirror =
          name == null ? null : storages(excluded, blockBytes).get(name.mirror());
      if (mirror != null) {
        targets.add(mirror);
      }
    } else if (chosen.isEmpty()) {
      LOG.warn("RAIDP: {} wants {} copies of a block; it can have two", path, wanted);
    }
    if (returnChosen) {
      targets.addAll(0, chosen);
    }
    return targets.toArray(DatanodeStorageInfo.EMPTY_ARRAY);
  }

  /** The storages that may take such a block, by name. */
  private Map<StorageName, DatanodeStorageInfo> storages(Set<Node> excluded, long blockBytes) {
    Map<StorageName, DatanodeStorageInfo> storages = new HashMap<>();
    for (Node leaf : nodes.getLeaves(NodeBase.ROOT)) {
      DatanodeDescriptor node = (DatanodeDescriptor) leaf;
      if (node.isDecommissionInProgress()) {
        warn(
            node + " is being decommissioned, which does not end: its blocks have no other place."
                + " Take it back into service; to move its disk, stop it, and start a DataNode with"
                + " the same number and add-on and with empty directories");
      }
      if (!node.isAlive() || !node.isInService() || excluded != null && excluded.contains(node)) {
        continue;
      }
      for (DatanodeStorageInfo storage : node.getStorageInfos()) {
        StorageName name = StorageName.parse(storage.getStorageID());
        if (name != null
            && storage.getState() == DatanodeStorage.State.NORMAL
            && storage.getRemaining() >= blockBytes) {
          storages.put(name, storage);
        }
      }
    }
    return storages;
  }

  /**
   * Both ends of the superchunk with the fewest blocks, of those of the writer's disk if it has one
   * of the array; the writer's end comes first.
   */
  private static List<DatanodeStorageInfo> pair(
      Node writer, Map<StorageName, DatanodeStorageInfo> storages) {
    List<DatanodeStorageInfo> best = new ArrayList<>();
    boolean bestIsNear = false;
    int bestBlocks = 0;
    int ties = 0;
    ThreadLocalRandom random = ThreadLocalRandom.current();
    for (Map.Entry<StorageName, DatanodeStorageInfo> entry : storages.entrySet()) {
      DatanodeStorageInfo here = entry.getValue();
      DatanodeStorageInfo there = storages.get(entry.getKey().mirror());
      if (there == null) {
        continue;
      }
      boolean near = here.getDatanodeDescriptor().equals(writer);
      int blocks = Math.max(here.numBlocks(), there.numBlocks());
      boolean same = !best.isEmpty() && near == bestIsNear && blocks == bestBlocks;
      boolean better =
          best.isEmpty() || near && !bestIsNear || near == bestIsNear && blocks < bestBlocks;
      ties = same ? ties + 1 : better ? 1 : ties;
      if (better || same && random.nextInt(ties) == 0) {
        best = new ArrayList<>();
        best.add(here);
        best.add(there);
        bestIsNear = near;
        bestBlocks = blocks;
      }
    }
    return best;
  }

  /**
   * First those go that have no mirror among the copies: a balancer's, or an old one's. A pair
   * stays, also if its file was given replication 1: one copy would be lost with its disk.
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
    List<StorageName> names = new ArrayList<>();
    available.forEach(storage -> names.add(StorageName.parse(storage.getStorageID())));
    List<DatanodeStorageInfo> odd = new ArrayList<>();
    for (DatanodeStorageInfo storage : candidates) {
      StorageName name = StorageName.parse(storage.getStorageID());
      boolean paired = name != null && names.contains(name.mirror());
      if (!paired && odd.size() < candidates.size() - kept) {
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

  /** Two disks share one superchunk, so copies on two nodes are where they must be. */
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
