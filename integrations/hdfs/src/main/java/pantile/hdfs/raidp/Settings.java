package pantile.hdfs.raidp;

import java.net.InetSocketAddress;
import java.util.HashSet;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.StorageType;
import org.apache.hadoop.hdfs.DFSConfigKeys;
import org.apache.hadoop.hdfs.server.datanode.DataNode;
import org.apache.hadoop.hdfs.server.datanode.StorageLocation;
import java.io.IOException;
import pantile.hdfs.RaidpCode;

/** Settings of a DataNode for RAIDP, and the features of HDFS that it cannot use with it. */
final class Settings {
  static final String ARRAY = "pantile.raidp.array";
  static final String DISKS = "pantile.raidp.disks";
  static final String DISK = "pantile.raidp.disk";
  static final String ADD_ON = "pantile.raidp.addon";
  static final String ADD_ON_BYTES = "pantile.raidp.addon.bytes";
  static final String SERVER_ADDRESS = "pantile.raidp.server.address";
  static final String SERVER_FOLDER = "pantile.raidp.server.folder";

  final String array;
  final int disks;
  final int disk;

  /** The place of the add-on: a folder by its absolute path, or {@code host:port}. */
  final String addOn;

  final long addOnBytes;

  /** The bytes of a whole block. */
  final long blockBytes;

  /** Address at which add-ons of other disks are served; null for none. */
  final InetSocketAddress serverAddress;

  final String serverFolder;

  private Settings(Configuration conf) throws IOException {
    array = needed(conf, ARRAY, "the name that all nodes of an array give it");
    disks = number(conf, DISKS, RaidpCode.DISKS_LEAST, RaidpCode.DISKS_MOST);
    disk = number(conf, DISK, 0, disks - 1);
    addOn = needed(conf, ADD_ON, "a folder on another disk, or host:port of a node that serves it");
    if (!addOn.startsWith("/")) {
      address(ADD_ON, addOn);
    }
    blockBytes =
        conf.getLongBytes(
            DFSConfigKeys.DFS_BLOCK_SIZE_KEY, DFSConfigKeys.DFS_BLOCK_SIZE_DEFAULT);
    addOnBytes = conf.getLongBytes(ADD_ON_BYTES, 0);
    long most = (long) Integer.MAX_VALUE * Header.TILE_BYTES;
    if (addOnBytes < 2 * blockBytes || addOnBytes > most) {
      throw new IOException(
          ADD_ON_BYTES + " is " + addOnBytes + "; the parity of a disk takes what a superchunk takes,"
              + " from two blocks (" + 2 * blockBytes + ") to " + most + " bytes");
    }
    String address = conf.getTrimmed(SERVER_ADDRESS);
    serverAddress = address == null ? null : address(SERVER_ADDRESS, address);
    serverFolder =
        serverAddress == null
            ? null
            : needed(conf, SERVER_FOLDER, "the folder of the add-ons that this node serves");
  }

  /**
   * Reads the settings of a DataNode.
   *
   * @throws IOException if a setting is missing or wrong, or lets HDFS make changes that parity
   *     cannot follow; the message has the setting to change.
   */
  static Settings of(Configuration conf) throws IOException {
    Settings settings = new Settings(conf);
    off(conf, DFSConfigKeys.DFS_DISK_BALANCER_ENABLED, true,
        "the disk balancer moves blocks between superchunks");
    off(conf, DFSConfigKeys.DFS_BLOCK_ACCESS_TOKEN_ENABLE_KEY, false,
        "RAIDP's recovery has no keys for block tokens");
    if (!conf.get("hadoop.security.authentication", "simple").equals("simple")) {
      throw new IOException(
          "hadoop.security.authentication must be simple: what RAIDP's nodes say to each other is"
              + " not authenticated");
    }
    off(conf, "hadoop.security.authorization", false,
        "it refuses what RAIDP's nodes ask each other");
    String policy = conf.get(DFSConfigKeys.DFS_DATANODE_FSDATASET_VOLUME_CHOOSING_POLICY_KEY, "");
    if (!policy.equals(VolumePolicy.class.getName())) {
      throw new IOException(
          DFSConfigKeys.DFS_DATANODE_FSDATASET_VOLUME_CHOOSING_POLICY_KEY + " must be "
              + VolumePolicy.class.getName() + ": blocks must lie where the NameNode puts them");
    }
    Set<StorageLocation> folders = new HashSet<>(DataNode.getStorageLocations(conf));
    for (StorageLocation folder : folders) {
      if (folder.getStorageType() != StorageType.DISK) {
        throw new IOException(
            folder + " is no [DISK]: storage policies would move blocks between superchunks");
      }
    }
    if (folders.size() != settings.disks) {
      throw new IOException(
          "dfs.datanode.data.dir lists " + folders.size() + " directories; a disk of "
              + settings.disks + " has " + settings.disks
              + ", one for each partner and one for spare copies");
    }
    return settings;
  }

  private static void off(Configuration conf, String key, boolean usual, String why)
      throws IOException {
    if (conf.getBoolean(key, usual)) {
      throw new IOException(key + " must be false: " + why);
    }
  }

  private static String needed(Configuration conf, String key, String what) throws IOException {
    String value = conf.getTrimmed(key, "");
    if (value.isEmpty()) {
      throw new IOException(key + " is not set: " + what);
    }
    return value;
  }

  private static int number(Configuration conf, String key, int least, int most)
      throws IOException {
    String value = needed(conf, key, "a number from " + least + " to " + most);
    if (!value.matches("[0-9]{1,5}")
        || Integer.parseInt(value) < least
        || Integer.parseInt(value) > most) {
      throw new IOException(key + " is " + value + "; it takes " + least + " to " + most);
    }
    return Integer.parseInt(value);
  }

  private static InetSocketAddress address(String key, String value) throws IOException {
    try {
      return AddOns.address(value);
    } catch (IllegalArgumentException error) {
      throw new IOException(key + ": " + error.getMessage());
    }
  }

  /** Returns the header with which the add-on is created. */
  Header header(String pool) {
    return new Header(array, disks, disk, (int) (addOnBytes / Header.TILE_BYTES), pool);
  }
}
