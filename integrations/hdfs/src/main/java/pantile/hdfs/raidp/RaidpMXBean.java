package pantile.hdfs.raidp;

/** The numbers of a disk of RAIDP in its DataNode's JMX: {@code RaidpDisk-ARRAY-DISK}. */
public interface RaidpMXBean {
  /** The name of the array. */
  String getArray();

  /** The number of the disk. */
  int getDisk();

  /** {@code works}, or the reason why the add-on cannot be used. */
  String getAddOnState();

  /** True if every complete block is in parity as it is. */
  boolean isCurrent();

  /** Blocks in parity; -1 while the add-on is not open. */
  int getBlocksInParity();

  /** Blocks whose last change parity has not followed. */
  int getBlocksBehind();

  /** Blocks in parity that are neither on the disk nor kept. */
  int getBlocksInParityAlone();

  /** Copies of deleted and shortened blocks that an add-on still counts. */
  int getKeptCopies();

  /** The bytes of these copies. */
  long getKeptBytes();

  /** Partners that did not answer when they were last asked to let go of copies. */
  String getPartnersThatDoNotAnswer();

  /** Blocks that could not be kept, and so are not deleted yet. */
  int getDeletesWaiting();
}
