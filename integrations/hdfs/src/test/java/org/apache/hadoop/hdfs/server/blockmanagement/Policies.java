package org.apache.hadoop.hdfs.server.blockmanagement;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.server.namenode.FSNamesystem;

/** Starts a placement policy as a NameNode does, which no other package can. */
public final class Policies {
  private Policies() {}

  /** Starts a policy; throws the error with which the NameNode would end. */
  public static void start(Configuration conf, FSNamesystem namesystem) {
    DatanodeManager nodes = namesystem.getBlockManager().getDatanodeManager();
    new RaidpPlacementPolicy()
        .initialize(
            conf, nodes.getFSClusterStats(), nodes.getNetworkTopology(), nodes.getHost2DatanodeMap());
  }
}
