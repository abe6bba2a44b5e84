package pantile.hdfs.raidp;

import java.io.IOException;
import java.io.InputStream;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.hdfs.protocol.Block;
import org.apache.hadoop.hdfs.protocol.ExtendedBlock;
import org.apache.hadoop.hdfs.server.blockmanagement.BlockIdManager;
import org.apache.hadoop.hdfs.server.common.HdfsServerConstants.ReplicaState;
import org.apache.hadoop.hdfs.server.datanode.ReplicaInfo;
import org.apache.hadoop.hdfs.server.datanode.fsdataset.FsDatasetSpi;
import org.apache.hadoop.hdfs.server.datanode.fsdataset.FsVolumeSpi;
import org.apache.hadoop.hdfs.server.protocol.StorageReport;
import org.apache.hadoop.util.DiskChecker.DiskOutOfSpaceException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Stands between a DataNode and its dataset: whatever changes complete blocks passes here, and
 * {@link Keeper} has the add-on follow.
 *
 * <p>Blocks under construction have no parity. What cannot be followed is refused: moves between
 * volumes, volumes that come while the DataNode runs, a second block pool, erasure-coded blocks.
 */
final class Guard implements InvocationHandler {
  private static final Logger LOG = LoggerFactory.getLogger(Guard.class);

  /** How long it takes to try again what failed. */
  private static final long RETRY_MS = 3_000;

  /** Opens the add-on for a block pool. */
  interface AddOnOpener {
    AddOn open(String pool) throws IOException;
  }

  private final FsDatasetSpi<?> real;
  private final Settings settings;
  private final AddOnOpener opener;
  private final AddOnServer server;

  /** Blocks that are about to be removed: parity is without them already. */
  private final Set<Long> condemned = ConcurrentHashMap.newKeySet();

  /** Blocks that wait for the add-on to be removed. */
  private final Set<Block> doomed = ConcurrentHashMap.newKeySet();

  private volatile String pool;
  private volatile Keeper keeper;
  private volatile boolean closed;

  Guard(FsDatasetSpi<?> real, Settings settings, AddOnOpener opener, AddOnServer server) {
    this.real = real;
    this.settings = settings;
    this.opener = opener;
    this.server = server;
  }

  @Override
  public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
    switch (method.getName()) {
      case "finalizeBlock":
        return thenSync(method, arguments, id(arguments[0]));
      case "append":
      case "recoverAppend":
        grows(id(arguments[0]));
        return call(method, arguments);
      case "recoverClose":
        grows(id(arguments[0]));
        return thenSync(method, arguments, id(arguments[0]));
      case "updateReplicaUnderRecovery":
        return recovered(method, arguments);
      case "createRbw":
      case "createTemporary":
        return created(method, arguments);
      case "invalidate":
        return invalidated(method, arguments);
      case "invalidateMissingBlock":
        return thenSync(method, arguments, ((Block) arguments[1]).getBlockId());
      case "checkAndUpdate":
        return thenSync(method, arguments, ((FsVolumeSpi.ScanInfo) arguments[1]).getBlockId());
      case "getStorageReports":
        return reports((StorageReport[]) call(method, arguments));
      case "moveBlockAcrossStorage":
      case "moveBlockAcrossVolumes":
        throw new IOException(
            "a block stays in its superchunk: RAIDP moves none between volumes of a disk");
      case "addVolume":
        throw new IOException("with RAIDP directories are added while the DataNode is stopped");
      case "deleteBlockPool":
        throw new IOException("take the DataNode out of RAIDP before its block pool is deleted");
      case "addBlockPool":
        return poolAdded(method, arguments);
      case "shutdown":
        return shutDown(method, arguments);
      default:
        return call(method, arguments);
    }
  }

  private Object call(Method method, Object[] arguments) throws Throwable {
    try {
      return method.invoke(real, arguments);
    } catch (InvocationTargetException thrown) {
      throw thrown.getCause();
    }
  }

  private static long id(Object block) {
    return ((ExtendedBlock) block).getBlockId();
  }

  private Keeper keeper() throws IOException {
    if (keeper == null) {
      throw new IOException("the block pool is not open yet");
    }
    return keeper;
  }

  private void grows(long block) throws IOException {
    if (real.getReplica(pool, block) != null) {
      keeper().grows(block);
    }
  }

  private Object thenSync(Method method, Object[] arguments, long block) throws Throwable {
    try {
      return call(method, arguments);
    } finally {
      if (keeper != null) {
        keeper.sync(block);
      }
    }
  }

  /** The end of a lease recovery or of a truncate, which may make a block shorter. */
  private Object recovered(Method method, Object[] arguments) throws Throwable {
    long old = id(arguments[0]);
    long copy = (Long) arguments[2];
    long bytes = (Long) arguments[3];
    boolean inPlace = copy == old || copy <= 0;
    if (inPlace && keeper().hasBeyond(old, bytes)) {
      keeper().leave(old);
    } else {
      grows(old);
    }
    try {
      return call(method, arguments);
    } finally {
      keeper().sync(old);
      if (!inPlace) {
        keeper().sync(copy);
      }
    }
  }

  private Object created(Method method, Object[] arguments) throws Throwable {
    String storageId = (String) arguments[1];
    ExtendedBlock block = (ExtendedBlock) arguments[2];
    if (BlockIdManager.isStripedBlockID(block.getBlockId())) {
      throw new IOException(
          block + " is erasure-coded; an array of RAIDP has replicated files alone");
    }
    StorageName name = StorageName.parse(storageId);
    if (name != null && keeper().room(name.partner) < block.getNumBytes()) {
      throw new DiskOutOfSpaceException(
          "the add-on of disk " + settings.disk + " has no room for a block of "
              + block.getNumBytes() + " bytes of superchunk " + name.partner);
    }
    Object made =
        method.getName().equals("createTemporary")
            ? replaced(method, arguments, block)
            : call(method, arguments);
    condemned.remove(block.getBlockId());
    doomed.removeIf(old -> old.getBlockId() == block.getBlockId());
    keeper().begins(block.getBlockId());
    return made;
  }

  /**
   * A copy that the NameNode sends. An old one that may lie here, which missed an append, has to
   * go: HDFS would take another node instead, and RAIDP has no other.
   */
  private Object replaced(Method method, Object[] arguments, ExtendedBlock block)
      throws Throwable {
    ReplicaInfo old = replica(block.getBlockId());
    if (old == null || old.getGenerationStamp() >= block.getGenerationStamp()) {
      return call(method, arguments);
    }
    keeper().leave(block.getBlockId());
    boolean replacesOld = true;
    try {
      return call(
          method, new Object[] {arguments[0], arguments[1], arguments[2], replacesOld});
    } catch (IOException error) {
      keeper().sync(block.getBlockId());
      throw error;
    }
  }

  private Object invalidated(Method method, Object[] arguments) throws Throwable {
    List<Block> ready = new ArrayList<>();
    List<Block> left = new ArrayList<>();
    for (Block block : (Block[]) arguments[1]) {
      ReplicaInfo replica = replica(block.getBlockId());
      if (replica == null || replica.getGenerationStamp() != block.getGenerationStamp()) {
        // Nothing will be removed; HDFS says so.
        ready.add(block);
        continue;
      }
      try {
        keeper().leave(block.getBlockId(), () -> condemned.add(block.getBlockId()));
        left.add(block);
        ready.add(block);
        doomed.remove(block);
      } catch (IOException error) {
        if (doomed.add(block)) {
          LOG.warn("RAIDP: {} is removed later: {}", block, error.getMessage());
        }
      }
    }
    try {
      return call(method, new Object[] {arguments[0], ready.toArray(new Block[0])});
    } catch (IOException error) {
      for (Block block : left) {
        ReplicaInfo replica = replica(block.getBlockId());
        if (replica != null && replica.getGenerationStamp() != block.getGenerationStamp()) {
          condemned.remove(block.getBlockId());
          keeper().sync(block.getBlockId());
        }
      }
      throw error;
    }
  }

  private ReplicaInfo replica(long block) {
    @SuppressWarnings("deprecation") // What it should be instead is not in the interface.
    Object replica = real.getReplica(pool, block);
    return (ReplicaInfo) replica;
  }

  /** A superchunk has its share of the disk, as far as the add-on has room for its parity. */
  private StorageReport[] reports(StorageReport[] reports) {
    StorageReport[] ours = new StorageReport[reports.length];
    for (int i = 0; i < reports.length; i++) {
      StorageReport report = reports[i];
      StorageName name = StorageName.parse(report.getStorage().getStorageID());
      int share = settings.disks - 1;
      long capacity = Math.max(report.getCapacity() / share, report.getDfsUsed());
      long remaining = Math.min(report.getRemaining() / share, capacity - report.getDfsUsed());
      if (name != null && keeper != null) {
        remaining = Math.min(remaining, keeper.room(name.partner));
      }
      ours[i] =
          new StorageReport(
              report.getStorage(),
              report.isFailed(),
              capacity,
              report.getDfsUsed(),
              remaining,
              report.getBlockPoolUsed(),
              capacity - report.getDfsUsed() - remaining,
              report.getMount());
    }
    return ours;
  }

  private Object poolAdded(Method method, Object[] arguments) throws Throwable {
    String added = (String) arguments[0];
    if (pool != null && !pool.equals(added)) {
      throw new IOException(
          "an array of RAIDP is of one block pool, " + pool + "; federation is not possible");
    }
    Object result = call(method, arguments);
    if (pool == null) {
      pool = added;
      Keeper made =
          new Keeper(() -> opener.open(added), new Replicas(), settings.disk, settings.blockBytes);
      keeper = made;
      try {
        made.start();
        if (settings.forgets) {
          made.forget();
        }
      } catch (IOException error) {
        if (settings.addOn.startsWith("/")) {
          throw error;
        }
        // Its node may be starting, too.
        LOG.warn("RAIDP: {}; it is tried again", error.getMessage());
      }
      Thread retry = new Thread(this::retry, "RAIDP add-on of disk " + settings.disk);
      retry.setDaemon(true);
      retry.start();
    }
    return result;
  }

  private void retry() {
    while (!closed) {
      try {
        Thread.sleep(RETRY_MS);
        if (closed) {
          return;
        }
        if (!keeper.isCurrent()) {
          keeper.retry();
        }
        condemned.removeIf(block -> replica(block) == null);
        if (!doomed.isEmpty()) {
          invalidated(
              FsDatasetSpi.class.getMethod("invalidate", String.class, Block[].class),
              new Object[] {pool, doomed.toArray(new Block[0])});
        }
      } catch (InterruptedException stopped) {
        return;
      } catch (Throwable error) {
        LOG.warn("RAIDP: what failed before fails again", error);
      }
    }
  }

  private Object shutDown(Method method, Object[] arguments) throws Throwable {
    closed = true;
    try {
      return call(method, arguments);
    } finally {
      if (keeper != null) {
        keeper.close();
      }
      if (server != null) {
        server.close();
      }
    }
  }

  /** The replicas of the dataset. */
  private final class Replicas implements Keeper.Replicas {
    @Override
    public Held get(long block) {
      ReplicaInfo replica = replica(block);
      return replica == null || condemned.contains(block) ? null : new OfDataset(replica);
    }

    @Override
    public Collection<Long> finalized() {
      List<Long> blocks = new ArrayList<>();
      for (Object replica : real.getFinalizedBlocks(pool)) {
        blocks.add(((ReplicaInfo) replica).getBlockId());
      }
      return blocks;
    }
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
