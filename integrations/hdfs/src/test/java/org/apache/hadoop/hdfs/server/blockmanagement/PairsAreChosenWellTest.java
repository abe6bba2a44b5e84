package org.apache.hadoop.hdfs.server.blockmanagement;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.Collections;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.DFSTestUtil;
import org.apache.hadoop.hdfs.server.protocol.DatanodeStorage;
import org.apache.hadoop.net.NetworkTopology;
import org.junit.jupiter.api.Test;
import pantile.hdfs.raidp.Pairs;
import pantile.hdfs.raidp.StorageName;

/** The policy as a NameNode asks it, with nodes that report later than it chooses. */
class PairsAreChosenWellTest {
  private static final long BLOCK = 1 << 20;

  private final Configuration conf = new Configuration();
  private final NetworkTopology topology = NetworkTopology.getInstance(conf);
  private final RaidpPlacementPolicy policy = new RaidpPlacementPolicy();
  private final List<DatanodeDescriptor> nodes = new ArrayList<>();

  /** Adds a disk at an address and rack, with so many blocks in each of its storages. */
  private void disk(int disk, int disks, String address, String rack, int blocks, long remaining)
      throws Exception {
    DatanodeDescriptor node = DFSTestUtil.getDatanodeDescriptor(address, 9000 + disk, rack, "host-" + address);
    for (int partner = 0; partner < disks; partner++) {
      if (partner != disk) {
        String id = StorageName.of("a", disk, partner).toString();
        DatanodeStorageInfo storage = node.updateStorage(new DatanodeStorage(id));
        storage.setUtilizationForTesting(1 << 30, 0, remaining, 0);
      }
    }
    node.setAlive(true);
    topology.add(node);
    nodes.add(node);
    for (int partner = 0; partner < disks; partner++) {
      if (partner != disk) {
        count(disk, partner, blocks);
      }
    }
  }

  /** Sets the number of blocks that the NameNode counts in a storage. */
  private void count(int disk, int partner, int blocks) throws Exception {
    Field count = DatanodeStorageInfo.class.getDeclaredField("numBlocks");
    count.setAccessible(true);
    count.set(nodes.get(disk).getStorageInfo("" + StorageName.of("a", disk, partner)), blocks);
  }

  private DatanodeStorageInfo[] choose() {
    policy.initialize(conf, null, topology, null);
    return again();
  }

  /** Chooses, and counts the blocks as scheduled, as a NameNode does. */
  private DatanodeStorageInfo[] again() {
    DatanodeStorageInfo[] chosen =
        policy.chooseTarget(
            "/file", 2, null, Collections.emptyList(), false, null, BLOCK, null, EnumSet.noneOf(org.apache.hadoop.hdfs.AddBlockFlag.class));
    DatanodeStorageInfo.incrementBlocksScheduled(chosen);
    return chosen;
  }

  private static String address(DatanodeStorageInfo storage) {
    return storage.getDatanodeDescriptor().getIpAddr();
  }

  @Test
  void anEmptySuperchunkGetsNoMoreOfABurstThanTwiceTheShareOfItsDisks() throws Exception {
    for (int disk = 0; disk < 6; disk++) {
      disk(disk, 6, "10.0.0." + disk, "/rack", 100, 1 << 29);
    }
    count(3, 4, 0);
    count(4, 3, 0);
    choose();
    Map<String, Integer> load = new HashMap<>();
    for (int block = 0; block < 90; block++) {
      for (DatanodeStorageInfo storage : again()) {
        load.merge(address(storage), 1, Integer::sum);
      }
    }
    // A sixth of 180 copies is 30.
    assertTrue(load.get("10.0.0.3") > 30, "" + load);
    assertTrue(load.values().stream().allMatch(copies -> copies <= 66), "" + load);
  }

  @Test
  void aBurstIsSpreadOverAllPairsBeforeAnyBlockIsReported() throws Exception {
    for (int disk = 0; disk < 6; disk++) {
      disk(disk, 6, "10.0.0." + disk, "/rack", 10, 1 << 29);
    }
    choose();
    Map<String, Integer> pairs = new HashMap<>();
    for (int block = 0; block < 60; block++) {
      DatanodeStorageInfo[] pair = again();
      StorageName name = StorageName.parse(pair[0].getStorageID());
      pairs.merge(Math.min(name.disk, name.partner) + "-" + Math.max(name.disk, name.partner), 1, Integer::sum);
    }
    assertEquals(15, pairs.size(), "" + pairs);
    assertTrue(pairs.values().stream().allMatch(blocks -> blocks <= 6), "" + pairs);
  }

  @Test
  void blocksOnTheirWayTakeRoom() throws Exception {
    for (int disk = 0; disk < 4; disk++) {
      disk(disk, 4, "10.0.0." + disk, "/rack", 0, 3 * BLOCK);
    }
    assertEquals(2, choose().length);
    int placed = 1;
    while (placed < 100 && again().length == 2) {
      placed++;
    }
    // Each of four disks has room for three copies.
    assertTrue(placed <= 6, placed + " blocks were placed");
    assertTrue(placed >= 4, placed + " blocks were placed");
  }

  @Test
  void copiesAreOnTwoHostsAndInTwoRacks() throws Exception {
    for (int disk = 0; disk < 8; disk++) {
      // Two disks on each host, two hosts in each rack.
      disk(disk, 8, "10.0.0." + disk / 2, "/rack-" + disk / 4, 10, 1 << 29);
    }
    choose();
    for (int block = 0; block < 40; block++) {
      DatanodeStorageInfo[] pair = again();
      assertNotEquals(address(pair[0]), address(pair[1]));
      assertNotEquals(
          pair[0].getDatanodeDescriptor().getNetworkLocation(),
          pair[1].getDatanodeDescriptor().getNetworkLocation());
    }
  }

  @Test
  void whereThereIsOneHostItIsUsedAndTheCostIsSaid() throws Exception {
    for (int disk = 0; disk < 3; disk++) {
      disk(disk, 3, "10.0.0.1", "/rack", disk, 1 << 29);
    }
    assertEquals(2, choose().length);
    List<Pairs.End<Integer>> ends = new ArrayList<>();
    for (int disk = 0; disk < 5; disk++) {
      for (int partner = 0; partner < 5; partner++) {
        if (disk != partner) {
          String host = disk < 3 ? "one" : "host-" + disk;
          boolean blocks = disk + partner == 1;
          ends.add(
              new Pairs.End<>(
                  StorageName.of("a", disk, partner), 0, "node-" + disk, host, host, "/rack", false, blocks ? 7 : 0, 0));
        }
      }
    }
    assertEquals(
        List.of(
            "host one has 3 of the 5 disks of an array; its loss takes both copies of 3 of 10 pairs"
                + " of disks, of which 1 hold blocks"),
        Pairs.costsOfHosts(ends));
  }
}
