package pantile.hdfs.raidp;

import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo;
import org.apache.hadoop.hdfs.protocol.HdfsConstants.DatanodeReportType;
import org.apache.hadoop.hdfs.server.protocol.DatanodeStorageReport;
import org.apache.hadoop.hdfs.server.protocol.StorageReport;

/** The live DataNodes of an array, by the number of their disk. */
final class Nodes {
  private final String array;
  private final Map<Integer, DatanodeInfo> byDisk = new HashMap<>();
  private final Set<Integer> spares = new TreeSet<>();

  /**
   * Asks the NameNode, which answers only a superuser.
   *
   * @throws IOException if two nodes say that they are the same disk.
   */
  Nodes(DistributedFileSystem files, String array) throws IOException {
    this.array = array;
    DatanodeStorageReport[] live =
        files.getClient().getNamenode().getDatanodeStorageReport(DatanodeReportType.LIVE);
    for (DatanodeStorageReport node : live) {
      for (StorageReport storage : node.getStorageReports()) {
        StorageName name = StorageName.parse(storage.getStorage().getStorageID());
        if (name == null || !name.equals(StorageName.of(array, name.disk, name.partner))) {
          continue;
        }
        if (name.isSpare()) {
          spares.add(name.disk);
        }
        DatanodeInfo other = byDisk.put(name.disk, node.getDatanodeInfo());
        if (other != null && !other.equals(node.getDatanodeInfo())) {
          throw new IOException(
              "both " + other + " and " + node.getDatanodeInfo() + " are disk " + name.disk
                  + " of array " + array + "; stop one of them");
        }
      }
    }
  }

  /** The node of a disk; null if it is not live. */
  DatanodeInfo of(int disk) {
    return byDisk.get(disk);
  }

  /** Returns a copy of the set of disks that have a live node. */
  Set<Integer> disks() {
    return new TreeSet<>(byDisk.keySet());
  }

  /** Returns a copy of the set of disks whose node is live and has a spare. */
  Set<Integer> spares() {
    return new TreeSet<>(spares);
  }

  /** A storage of a disk whose node is live, as {@link Pairs} wants it. */
  Pairs.End<DatanodeInfo> end(int disk, int partner) {
    DatanodeInfo node = byDisk.get(disk);
    return new Pairs.End<>(
        StorageName.of(array, disk, partner),
        node,
        node.getDatanodeUuid(),
        node.getIpAddr(),
        node.getHostName(),
        node.getNetworkLocation(),
        false,
        Pairs.UNKNOWN,
        0);
  }
}
