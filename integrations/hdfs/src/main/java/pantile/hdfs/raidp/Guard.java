package pantile.hdfs.raidp;

import java.io.Closeable;
import java.io.IOException;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.hdfs.protocol.Block;
import org.apache.hadoop.hdfs.protocol.ExtendedBlock;
import org.apache.hadoop.hdfs.server.blockmanagement.BlockIdManager;
import org.apache.hadoop.hdfs.server.datanode.DataNode;
import org.apache.hadoop.hdfs.server.datanode.ReplicaInfo;
import org.apache.hadoop.hdfs.server.datanode.fsdataset.FsDatasetSpi;
import org.apache.hadoop.hdfs.server.datanode.fsdataset.FsVolumeSpi;
import org.apache.hadoop.hdfs.server.datanode.fsdataset.impl.AddBlockPoolException;
import org.apache.hadoop.hdfs.server.protocol.StorageReport;
import org.apache.hadoop.util.DiskChecker.DiskOutOfSpaceException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A wrapper between a DataNode and its dataset: every call that changes complete blocks passes
 * through it, and {@link Keeper} then updates the add-on.
 *
 * <p>A block that is to be deleted or shortened is kept first ({@link Kept}); HDFS's thread does
 * not wait for the add-on then. Blocks under construction have no parity. Changes that parity
 * cannot follow are refused: moves between volumes, volumes that come while the DataNode runs, a
 * second block pool, erasure-coded blocks, and every method that {@link DatasetMethods} does not
 * name.
 */
final class Guard implements InvocationHandler {
  private static final Logger LOG = LoggerFactory.getLogger(Guard.class);

  /** Opens the add-on for a block pool. */
  interface AddOnOpener {
    AddOn open(String pool) throws IOException;
  }

  private final FsDatasetSpi<?> real;
  private final Settings settings;
  private final AddOnOpener opener;
  private final AddOnServer server;

  /** The DataNode; null for a dataset without one. */
  private final DataNode node;

  /** Blocks that are not removed yet, since they could not be kept. */
  private final Map<Long, Block> waiting = new ConcurrentHashMap<>();

  private volatile String pool;
  private volatile Keeper keeper;
  private volatile DiskReplicas replicas;
  private final Deque<Closeable> open = new ArrayDeque<>();

  Guard(
      FsDatasetSpi<?> real,
      Settings settings,
      AddOnOpener opener,
      AddOnServer server,
      DataNode node) {
    this.real = real;
    this.settings = settings;
    this.opener = opener;
    this.server = server;
    this.node = node;
    if (!DatasetMethods.unknown().isEmpty()) {
      LOG.warn(
          "RAIDP does not know these methods of this Hadoop, and refuses them: {}",
          DatasetMethods.unknown());
    }
  }

  @Override
  public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
    switch (DatasetMethods.of(method)) {
      case PASS:
        return call(method, arguments);
      case GUARD:
        return guarded(method, arguments);
      default:
        throw refusal(method);
    }
  }

  /** Returns the reason why a method is refused, as an exception that it may throw. */
  private static Exception refusal(Method method) {
    String why;
    switch (method.getName()) {
      case "moveBlockAcrossStorage":
      case "moveBlockAcrossVolumes":
        why = "a block stays in its superchunk: RAIDP moves none between volumes of a disk";
        break;
      case "addVolume":
        why = "with RAIDP directories are added while the DataNode is stopped";
        break;
      case "deleteBlockPool":
        why = "take the DataNode out of RAIDP before its block pool is deleted";
        break;
      default:
        why = "RAIDP's parity cannot follow " + DatasetMethods.name(method);
    }
    for (Class<?> thrown : method.getExceptionTypes()) {
      if (thrown.isAssignableFrom(IOException.class)) {
        return new IOException(why);
      }
    }
    return new UnsupportedOperationException(why);
  }

  private Object guarded(Method method, Object[] arguments) throws Throwable {
    switch (method.getName()) {
      case "finalizeBlock":
      case "recoverClose":
        return thenSync(method, arguments, id(arguments[0]));
      case "updateReplicaUnderRecovery":
        return recovered(method, arguments);
      case "createRbw":
      case "createTemporary":
        return created(method, arguments);
      case "invalidate":
        return invalidated(method, arguments);
      case "invalidateMissingBlock":
        return thenChanged(method, arguments, ((Block) arguments[1]).getBlockId());
      case "checkAndUpdate":
        return thenChanged(method, arguments, ((FsVolumeSpi.ScanInfo) arguments[1]).getBlockId());
      case "getStorageReports":
        return reports((StorageReport[]) call(method, arguments));
      case "addBlockPool":
        return poolAdded(method, arguments);
      case "shutdown":
        return shutDown(method, arguments);
      default:
        throw refusal(method);
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

  private Object thenSync(Method method, Object[] arguments, long block) throws Throwable {
    try {
      return call(method, arguments);
    } finally {
      if (keeper != null) {
        keeper.sync(block);
      }
    }
  }

  private Object thenChanged(Method method, Object[] arguments, long block) throws Throwable {
    try {
      return call(method, arguments);
    } finally {
      if (keeper != null) {
        keeper.changed(block);
      }
    }
  }

  /** Handles the end of a lease recovery or of a truncate, which may make a block shorter. */
  private Object recovered(Method method, Object[] arguments) throws Throwable {
    long old = id(arguments[0]);
    long copy = (Long) arguments[2];
    long bytes = (Long) arguments[3];
    boolean inPlace = copy == old || copy <= 0;
    keeper();
    ReplicaInfo info = replicas.info(old);
    if (inPlace && info != null && info.getNumBytes() > bytes) {
      replicas.keep(info, Kept.Reason.SHORTENED);
    }
    try {
      return call(method, arguments);
    } finally {
      keeper.sync(old);
      if (!inPlace) {
        keeper.sync(copy);
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
    if (name != null && !name.isSpare() && keeper().room(name.partner) < block.getNumBytes()) {
      throw new DiskOutOfSpaceException(
          "the add-on of disk " + settings.disk + " has no room for a block of "
              + block.getNumBytes() + " bytes of superchunk " + name.partner);
    }
    keeper();
    Object made =
        method.getName().equals("createTemporary")
            ? replaced(method, arguments, block)
            : call(method, arguments);
    waiting.remove(block.getBlockId());
    replicas.stays(block.getBlockId());
    return made;
  }

  /**
   * Handles a copy that the NameNode sends. An old copy on this disk, which missed an append,
   * counts as gone first and is replaced: HDFS would use another node instead, and RAIDP has no
   * other for the block.
   */
  private Object replaced(Method method, Object[] arguments, ExtendedBlock block)
      throws Throwable {
    ReplicaInfo old = replicas.info(block.getBlockId());
    if (old == null || old.getGenerationStamp() >= block.getGenerationStamp()) {
      return call(method, arguments);
    }
    replicas.leave(old);
    boolean isTransfer = true; // Only a transfer replaces an older replica.
    try {
      return call(
          method, new Object[] {arguments[0], arguments[1], arguments[2], isTransfer});
    } catch (IOException error) {
      replicas.stays(block.getBlockId());
      throw error;
    } finally {
      keeper.changed(block.getBlockId());
    }
  }

  private Object invalidated(Method method, Object[] arguments) throws Throwable {
    Keeper follows = keeper();
    List<Block> ready = new ArrayList<>();
    List<Long> left = new ArrayList<>();
    for (Block block : (Block[]) arguments[1]) {
      if (isThere(block)) {
        try {
          replicas.leave(replicas.info(block.getBlockId()));
        } catch (IOException error) {
          if (waiting.put(block.getBlockId(), block) == null) {
            LOG.warn("RAIDP: {} is removed later: {}", block, error.getMessage());
          }
          continue;
        }
        left.add(block.getBlockId());
      }
      // HDFS removes nothing of another generation, and logs it.
      waiting.remove(block.getBlockId());
      ready.add(block);
    }
    try {
      return call(method, new Object[] {arguments[0], ready.toArray(new Block[0])});
    } finally {
      left.forEach(follows::changed);
    }
  }

  private boolean isThere(Block block) {
    ReplicaInfo info = replicas.info(block.getBlockId());
    return info != null && info.getGenerationStamp() == block.getGenerationStamp();
  }

  /** Removes blocks that could not be kept before; forgets those that are gone otherwise. */
  private void removeWaiting() throws IOException {
    replicas.settle();
    waiting.values().removeIf(block -> !isThere(block));
    if (!waiting.isEmpty()) {
      remove(new ArrayList<>(waiting.values()));
    }
  }

  private void remove(List<Block> blocks) throws IOException {
    try {
      invalidated(
          FsDatasetSpi.class.getMethod("invalidate", String.class, Block[].class),
          new Object[] {pool, blocks.toArray(new Block[0])});
    } catch (IOException | RuntimeException error) {
      throw error;
    } catch (Throwable other) {
      throw new IOException(other);
    }
  }

  /**
   * Returns reports in which a superchunk has its share of the disk's space, limited by the space
   * of the add-on for its parity.
   */
  private StorageReport[] reports(StorageReport[] reports) {
    StorageReport[] ours = new StorageReport[reports.length];
    for (int i = 0; i < reports.length; i++) {
      StorageReport report = reports[i];
      StorageName name = StorageName.parse(report.getStorage().getStorageID());
      int share = settings.disks;
      long capacity = Math.max(report.getCapacity() / share, report.getDfsUsed());
      long remaining = Math.min(report.getRemaining() / share, capacity - report.getDfsUsed());
      Keeper known = keeper;
      if (name != null && !name.isSpare() && known != null) {
        remaining = Math.min(remaining, known.room(name.partner));
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

  /**
   * Opens the block pool. An add-on in a folder is opened before HDFS's dataset knows the pool: if
   * that fails HDFS asks again, for another NameNode or at the next start, and finds nothing half
   * done.
   */
  private synchronized Object poolAdded(Method method, Object[] arguments) throws Throwable {
    String added = (String) arguments[0];
    if (pool != null && !pool.equals(added)) {
      throw new IOException(
          "an array of RAIDP is of one block pool, " + pool + "; federation is not possible");
    }
    if (keeper != null) {
      return call(method, arguments);
    }
    DiskReplicas found = new DiskReplicas(real, added);
    Keeper made =
        new Keeper(() -> opener.open(added), found, settings.disk, settings.blockBytes);
    if (settings.addOn.startsWith("/")) {
      made.open();
    }
    boolean isOpen = false;
    try {
      Object result = call(method, arguments);
      isOpen = true;
      return result;
    } catch (AddBlockPoolException someDirectoriesFailed) {
      // HDFS goes on with the other volumes, and so does RAIDP.
      isOpen = true;
      throw someDirectoriesFailed;
    } finally {
      if (isOpen) {
        begin(added, found, made);
      } else {
        made.close();
      }
    }
  }

  private void begin(String added, DiskReplicas found, Keeper made) {
    List<Block> halfRemoved = found.halfRemoved();
    for (Block block : halfRemoved) {
      found.leavesStill(block);
    }
    pool = added;
    replicas = found;
    keeper = made;
    open.push(made);
    made.begin();
    if (!halfRemoved.isEmpty()) {
      LOG.info("RAIDP: {} blocks whose removal was interrupted are removed", halfRemoved.size());
      try {
        remove(halfRemoved);
      } catch (IOException error) {
        LOG.warn("RAIDP: they are not", error);
      }
    }
    Partners partners = Partners.of(node, settings);
    Releasing releasing = new Releasing(made, found, this::removeWaiting, partners);
    open.push(releasing);
    releasing.begin();
    if (node != null) {
      Homing homing = new Homing(made, found, partners, settings.disk, added);
      open.push(homing);
      homing.begin();
      PeerServer peers =
          new PeerServer(
              node, settings, added, made, found, releasing, partners, waiting::size);
      open.push(peers);
      peers.begin();
    }
  }

  private Object shutDown(Method method, Object[] arguments) throws Throwable {
    try {
      return call(method, arguments);
    } finally {
      synchronized (this) {
        if (server != null) {
          open.addLast(server);
        }
        for (Closeable one : open) {
          try {
            one.close();
          } catch (IOException | RuntimeException error) {
            LOG.warn("RAIDP: {} does not close", one, error);
          }
        }
        open.clear();
      }
    }
  }
}
