package pantile.hdfs.raidp;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Collectors;
import org.apache.hadoop.hdfs.protocol.Block;
import org.apache.hadoop.hdfs.server.common.HdfsServerConstants.ReplicaState;
import org.apache.hadoop.hdfs.server.datanode.ReplicaInfo;
import org.apache.hadoop.hdfs.server.datanode.fsdataset.FsDatasetSpi;
import org.apache.hadoop.hdfs.server.datanode.fsdataset.FsVolumeSpi;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The replicas of a DataNode's dataset, and the copies that it keeps. For several threads. */
final class DiskReplicas implements Keeper.Replicas {
  private static final Logger LOG = LoggerFactory.getLogger(DiskReplicas.class);

  final Kept kept;
  private final FsDatasetSpi<?> real;
  private final String pool;

  /** Blocks that HDFS was asked to remove, and their generations, until they are gone. */
  private final Map<Long, Long> leaving = new ConcurrentHashMap<>();

  /** Lists the copies that were kept before. */
  DiskReplicas(FsDatasetSpi<?> real, String pool) {
    this.real = real;
    this.pool = pool;
    kept = new Kept(pool);
    try (FsDatasetSpi.FsVolumeReferences volumes = real.getFsVolumeReferences()) {
      for (FsVolumeSpi volume : volumes) {
        try {
          kept.list(directory(volume), StorageName.parse(volume.getStorageID()));
        } catch (IOException error) {
          LOG.warn("RAIDP: copies that are kept in {} cannot be listed", volume, error);
        }
      }
    } catch (IOException error) {
      LOG.warn("RAIDP: a directory does not close", error);
    }
  }

  private static Path directory(FsVolumeSpi volume) {
    return Paths.get(volume.getBaseURI());
  }

  /** HDFS's own replica; null if there is none. */
  ReplicaInfo info(long block) {
    @SuppressWarnings("deprecation") // The interface has no other way to it.
    Object replica = real.getReplica(pool, block);
    return (ReplicaInfo) replica;
  }

  private boolean isLeaving(ReplicaInfo info) {
    Long generation = leaving.get(info.getBlockId());
    return generation != null && generation == info.getGenerationStamp();
  }

  @Override
  public Held get(long block) {
    ReplicaInfo info = info(block);
    return info == null || isLeaving(info) ? null : new OfDataset(info);
  }

  @Override
  public Collection<Long> finalized() {
    List<Long> blocks = new ArrayList<>();
    for (Object replica : real.getFinalizedBlocks(pool)) {
      blocks.add(((ReplicaInfo) replica).getBlockId());
    }
    return blocks;
  }

  @Override
  public List<Kept.Copy> kept(long block) {
    return kept.of(block);
  }

  @Override
  public Collection<Long> kept() {
    return kept.all().stream().map(Held::blockId).collect(Collectors.toSet());
  }

  @Override
  public boolean isDeleted(Entry entry) {
    return kept.of(entry.blockId).stream()
        .anyMatch(copy -> copy.isDeleted() && copy.generation() >= entry.generation);
  }

  /** Keeps a replica that HDFS is about to remove; from now on it counts as gone. */
  void leave(ReplicaInfo info) throws IOException {
    synchronized (kept) {
      if (info.getState() != ReplicaState.TEMPORARY) {
        keep(
            info,
            info.getState() == ReplicaState.FINALIZED ? Kept.Reason.DELETED : Kept.Reason.OPEN);
      }
      leaving.put(info.getBlockId(), info.getGenerationStamp());
    }
  }

  /** Records that a block that was kept before its removal counts as gone again. */
  void leavesStill(Block block) {
    leaving.put(block.getBlockId(), block.getGenerationStamp());
  }

  /** Keeps a replica that HDFS is about to shorten. */
  void keep(ReplicaInfo info, Kept.Reason reason) throws IOException {
    FsVolumeSpi volume = info.getVolume();
    try {
      kept.keep(
          directory(volume),
          StorageName.parse(volume.getStorageID()),
          info.getBlockId(),
          info.getGenerationStamp(),
          reason,
          new File(info.getBlockURI()),
          new File(info.getMetadataURI()));
    } catch (NoSuchFileException gone) {
      LOG.warn("RAIDP: {} has no file any more that could be kept", info);
    }
  }

  /** Records that a block is present, or present again. */
  void stays(long block) {
    leaving.remove(block);
  }

  /** Forgets replicas that have left. */
  void settle() {
    leaving
        .entrySet()
        .removeIf(
            one -> {
              ReplicaInfo info = info(one.getKey());
              return info == null || info.getGenerationStamp() != one.getValue();
            });
  }

  /** True while HDFS has not yet removed the file of a copy. */
  boolean isBeingRemoved(Kept.Copy copy) {
    ReplicaInfo info = info(copy.blockId());
    return info != null && isLeaving(info) && info.getGenerationStamp() == copy.generation();
  }

  /** Removes a kept copy whose replica did not change; returns true if it was such a copy. */
  boolean dropIfRedundant(Kept.Copy copy) throws IOException {
    synchronized (kept) {
      Held live = get(copy.blockId());
      boolean isRedundant =
          live != null
              && live.isFinalized()
              && live.generation() == copy.generation()
              && live.length() >= copy.length();
      if (isRedundant) {
        kept.drop(copy);
      }
      return isRedundant;
    }
  }

  /** The blocks whose removal was under way when the DataNode ended. */
  List<Block> halfRemoved() {
    List<Block> blocks = new ArrayList<>();
    for (Kept.Copy copy : kept.all()) {
      ReplicaInfo info = info(copy.blockId());
      try {
        if (copy.isDeleted()
            && info != null
            && info.getGenerationStamp() == copy.generation()
            && Files.isSameFile(Paths.get(info.getBlockURI()), copy.data)) {
          blocks.add(new Block(info));
        }
      } catch (IOException error) {
        LOG.warn("RAIDP: {} cannot be looked at", info, error);
      }
    }
    return blocks;
  }

  /** A replica as it is now. */
  private static final class OfDataset extends Held {
    private final ReplicaInfo replica;

    OfDataset(ReplicaInfo replica) {
      this(replica, replica.getState() == ReplicaState.FINALIZED);
    }

    private OfDataset(ReplicaInfo replica, boolean isFinalized) {
      super(
          replica.getBlockId(),
          replica.getGenerationStamp(),
          isFinalized ? replica.getNumBytes() : replica.getBytesOnDisk(),
          isFinalized,
          StorageName.parse(replica.getStorageUuid()));
      this.replica = replica;
    }

    @Override
    InputStream data(long offset) throws IOException {
      return replica.getDataInputStream(offset);
    }

    @Override
    InputStream checksums() throws IOException {
      return replica.getMetadataInputStream(0);
    }
  }
}
