package pantile.hdfs.raidp;

import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.hadoop.hdfs.server.datanode.fsdataset.FsDatasetSpi;

/**
 * The rule for each method of HDFS's dataset, by name and types of its parameters.
 *
 * <p>A method that is not here is refused: one that another Hadoop adds may change blocks in a way
 * that parity does not follow.
 */
final class DatasetMethods {
  /** The ways to treat a method. */
  enum Rule {
    /** The method changes no complete block, and is passed to HDFS's dataset. */
    PASS,

    /** {@link Guard} has code for the method. */
    GUARD,

    /** Parity cannot follow the changes of the method. */
    REFUSE
  }

  private static final Map<String, Rule> RULES = new HashMap<>();

  private static void put(Rule rule, String... methods) {
    for (String method : methods) {
      RULES.put(method, rule);
    }
  }

  static {
    put(
        Rule.GUARD,
        "addBlockPool(String,Configuration)",
        "checkAndUpdate(String,ScanInfo)",
        "createRbw(StorageType,String,ExtendedBlock,boolean)",
        "createRbw(StorageType,String,ExtendedBlock,boolean,long)",
        "createTemporary(StorageType,String,ExtendedBlock,boolean)",
        "finalizeBlock(ExtendedBlock,boolean)",
        "getStorageReports(String)",
        "invalidate(String,Block[])",
        "invalidateMissingBlock(String,Block)",
        "recoverClose(ExtendedBlock,long,long)",
        "shutdown()",
        "updateReplicaUnderRecovery(ExtendedBlock,long,long,long)");
    put(
        Rule.REFUSE,
        "addVolume(StorageLocation,List)",
        "deleteBlockPool(String,boolean)",
        "moveBlockAcrossStorage(ExtendedBlock,StorageType,String)",
        "moveBlockAcrossVolumes(ExtendedBlock,FsVolumeSpi)",
        "onCompleteLazyPersist(String,long,long,File[],FsVolumeSpi)");
    put(
        Rule.PASS,
        // Appends: HDFS breaks links first, and the block's content in parity stays.
        "append(ExtendedBlock,long,long)",
        "recoverAppend(ExtendedBlock,long,long)",
        // Blocks under construction, which have no parity.
        "adjustCrcChannelPosition(ExtendedBlock,ReplicaOutputStreams,int)",
        "convertTemporaryToRbw(ExtendedBlock)",
        "initReplicaRecovery(RecoveringBlock)",
        "onFailLazyPersist(String,long)",
        "recoverRbw(ExtendedBlock,long,long,long)",
        "submitBackgroundSyncFileRangeRequest(ExtendedBlock,ReplicaOutputStreams,long,long,int)",
        "unfinalizeBlock(ExtendedBlock)",
        // Directories that fail: their blocks stay in parity.
        "handleVolumeFailures(Set)",
        "removeVolumes(Collection,boolean)",
        "shutdownBlockPool(String)",
        // Memory, pins, upgrades: blocks stay as they are. Trash has a deleted block's file.
        "cache(String,long[])",
        "uncache(String,long[])",
        "setPinning(ExtendedBlock)",
        "clearRollingUpgradeMarker(String)",
        "clearTrash(String)",
        "enableTrash(String)",
        "setRollingUpgradeMarker(String)",
        "setLastDirScannerFinishTime(long)",
        // Methods that only read.
        "acquireDatasetLockManager()",
        "checkBlock(ExtendedBlock,long,ReplicaState)",
        "contains(ExtendedBlock)",
        "deepCopyReplica(String)",
        "getBlockInputStream(ExtendedBlock,long)",
        "getBlockLocalPathInfo(ExtendedBlock)",
        "getBlockPoolUsed(String)",
        "getBlockReports(String)",
        "getCacheCapacity()",
        "getCacheReport(String)",
        "getCacheUsed()",
        "getCapacity()",
        "getDfsUsed()",
        "getEstimatedCapacityLostTotal()",
        "getFailedStorageLocations()",
        "getFinalizedBlocks(String)",
        "getFsVolumeReferences()",
        "getLastDirScannerFinishTime()",
        "getLastVolumeFailureDate()",
        "getLength(ExtendedBlock)",
        "getMetaDataInputStream(ExtendedBlock)",
        "getMetrics(MetricsCollector,boolean)",
        "getMountVolumeMap()",
        "getNumBlocksCached()",
        "getNumBlocksFailedToCache()",
        "getNumBlocksFailedToUncache()",
        "getNumFailedVolumes()",
        "getPendingAsyncDeletions()",
        "getPinning(ExtendedBlock)",
        "getRemaining()",
        "getReplica(String,long)",
        "getReplicaString(String,long)",
        "getReplicaVisibleLength(ExtendedBlock)",
        "getStorage(String)",
        "getStorageInfo()",
        "getStoredBlock(String,long)",
        "getTmpInputStreams(ExtendedBlock,long,long)",
        "getVolume(ExtendedBlock)",
        "getVolumeFailureSummary()",
        "getVolumeInfoMap()",
        "getVolumeList()",
        "hasEnoughResource()",
        "isCached(String,long)",
        "isDeletingBlock(String,long)",
        "isValidBlock(ExtendedBlock)",
        "isValidRbw(ExtendedBlock)",
        "trashEnabled(String)");
  }

  private DatasetMethods() {}

  /** The name of a method in the table. */
  static String name(Method method) {
    return method.getName()
        + Arrays.stream(method.getParameterTypes())
            .map(Class::getSimpleName)
            .collect(Collectors.joining(",", "(", ")"));
  }

  /** The rule for a method; {@code REFUSE} for one that is not known. */
  static Rule of(Method method) {
    return method.getDeclaringClass() == Object.class
        ? Rule.PASS
        : RULES.getOrDefault(name(method), Rule.REFUSE);
  }

  /** The methods of this Hadoop's interface that the table does not name. */
  static TreeSet<String> unknown() {
    TreeSet<String> unknown = new TreeSet<>();
    for (Method method : FsDatasetSpi.class.getMethods()) {
      unknown.add(name(method));
    }
    unknown.removeAll(RULES.keySet());
    return unknown;
  }

  /** Returns the methods of the table that this Hadoop's interface does not have. */
  static TreeSet<String> gone() {
    TreeSet<String> gone = new TreeSet<>(RULES.keySet());
    for (Method method : FsDatasetSpi.class.getMethods()) {
      gone.remove(name(method));
    }
    return gone;
  }
}
