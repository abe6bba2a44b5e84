package pantile.hdfs.raidp;

import java.io.IOException;
import java.util.List;
import org.apache.hadoop.hdfs.server.datanode.fsdataset.FsVolumeSpi;
import org.apache.hadoop.hdfs.server.datanode.fsdataset.VolumeChoosingPolicy;
import org.apache.hadoop.util.DiskChecker.DiskOutOfSpaceException;

/**
 * Chooses the volume that the NameNode chose: that volume is a superchunk, and its mirror gets the
 * other copy.
 *
 * <p>It is named in {@code dfs.datanode.fsdataset.volume.choosing.policy}.
 */
public final class VolumePolicy<V extends FsVolumeSpi> implements VolumeChoosingPolicy<V> {
  @Override
  public V chooseVolume(List<V> volumes, long replicaBytes, String storageId) throws IOException {
    for (V volume : volumes) {
      if (volume.getStorageID().equals(storageId)) {
        if (volume.getAvailable() < replicaBytes) {
          throw new DiskOutOfSpaceException(
              "storage " + storageId + " has " + volume.getAvailable() + " bytes left, of "
                  + replicaBytes);
        }
        return volume;
      }
    }
    throw new IOException(
        "storage \"" + storageId + "\" is none of this disk; with RAIDP the NameNode says where a"
            + " block lies (dfs.block.replicator.classname)");
  }
}
