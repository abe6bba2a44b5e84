package org.apache.hadoop.hdfs.server.blockmanagement;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.server.namenode.FSNamesystem;

/** Starts a placement policy as a NameNode does, which no other package can. */
public final class Policies {
  private Policies() {}

  /** Throws what the NameNode would end with. */
  public static void start(Configuration conf, FSNamesystem namesystem) {
    DatanodeManager nodes = namesystem.getBlockManager().getDatanodeManager();
    new RaidpPlacementPolicy()
        .initialize(
            conf, nodes.getFSClusterStats(), nodes.getNetworkTopology(), nodes.getHost2DatanodeMap());
  }
}
