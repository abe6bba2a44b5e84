package pantile.hdfs.raidp;

import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Optional;
import java.util.Random;
import java.util.concurrent.Callable;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.HdfsConfiguration;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.hdfs.protocol.LocatedBlock;
import org.apache.hadoop.hdfs.server.datanode.DataNode;
import org.apache.hadoop.hdfs.server.datanode.StorageLocation;
import org.apache.hadoop.io.IOUtils;

/** An array of RAIDP in this process: N DataNodes of N storages, each with an add-on. */
final class RaidpCluster implements AutoCloseable {
  static final int BLOCK_BYTES = 1 << 20;
  static final long ADD_ON_BYTES = 64 << 20;

  final int disks;
  final MiniDFSCluster mini;
  final DistributedFileSystem files;
  final Configuration conf;

  /** The place of the add-on of each disk. */
  final String[] addOns;

  private final Path folder;
  private final Configuration[] ofNodes;

  /** An array of local add-ons. */
  RaidpCluster(int disks) throws Exception {
    this(disks, DatasetFactory.class, null);
  }

  /**
   * An array of datasets by a factory, with add-ons at the server of an address, or in folders if
   * that is null.
   */
  RaidpCluster(int disks, Class<? extends DatasetFactory> factory, String server) throws Exception {
    this.disks = disks;
    folder = Paths.get(System.getProperty("pantile.cluster", "target/cluster")).toAbsolutePath();
    org.apache.hadoop.fs.FileUtil.fullyDelete(folder.toFile());
    conf = settings(folder);
    addOns = new String[disks];
    ofNodes = new Configuration[disks];
    for (int i = 0; i < disks; i++) {
      Path own = folder.resolve("add-on-" + i);
      Files.createDirectories(own);
      addOns[i] = server == null ? own.toString() : server;
      ofNodes[i] = new Configuration(false);
      ofNodes[i].set("dfs.datanode.fsdataset.factory", factory.getName());
      ofNodes[i].set("dfs.datanode.fsdataset.volume.choosing.policy", VolumePolicy.class.getName());
      ofNodes[i].set(Settings.ARRAY, "test");
      ofNodes[i].setInt(Settings.DISKS, disks);
      ofNodes[i].setInt(Settings.DISK, i);
      ofNodes[i].set(Settings.ADD_ON, addOns[i]);
      ofNodes[i].setLong(Settings.ADD_ON_BYTES, ADD_ON_BYTES);
    }
    mini =
        new MiniDFSCluster.Builder(conf)
            .numDataNodes(disks)
            .storagesPerDatanode(disks)
            .dataNodeConfOverlays(ofNodes)
            .build();
    mini.waitActive();
    files = mini.getFileSystem();
  }

  private static Configuration settings(Path folder) {
    Configuration conf = new HdfsConfiguration();
    conf.set("hdfs.minidfs.basedir", folder.resolve("dfs").toString());
    conf.set(
        "dfs.block.replicator.classname",
        "org.apache.hadoop.hdfs.server.blockmanagement.RaidpPlacementPolicy");
    conf.setInt("dfs.replication", 2);
    conf.setInt("dfs.replication.max", 2);
    conf.setBoolean("dfs.storage.policy.enabled", false);
    conf.setBoolean("dfs.disk.balancer.enabled", false);
    conf.setInt("dfs.heartbeat.interval", 1);
    conf.setInt("dfs.namenode.heartbeat.recheck-interval", 500);
    conf.setInt("dfs.namenode.redundancy.interval.seconds", 1);
    conf.setInt("dfs.namenode.reconstruction.pending.timeout-sec", 5);
    conf.setInt("dfs.namenode.decommission.interval", 1);
    conf.setLong("dfs.blocksize", BLOCK_BYTES);
    conf.setLong("dfs.namenode.fs-limits.min-block-size", 1024);
    conf.setInt("dfs.datanode.scan.period.hours", -1);
    // The recovery of a truncated block asks a dead node, too.
    conf.setInt("ipc.client.connect.max.retries", 1);
    conf.setInt("ipc.client.connect.retry.interval", 100);
    return conf;
  }

  /** Random bytes, the same for the same name. */
  static byte[] content(String name, int bytes) {
    byte[] content = new byte[bytes];
    new Random(name.hashCode()).nextBytes(content);
    return content;
  }

  static org.apache.hadoop.fs.Path path(String name) {
    return new org.apache.hadoop.fs.Path(name);
  }

  void write(String name, byte[] content) throws Exception {
    try (OutputStream to = files.create(path(name), true)) {
      to.write(content);
    }
  }

  void append(String name, byte[] content) throws Exception {
    try (OutputStream to = files.append(path(name))) {
      to.write(content);
    }
  }

  byte[] read(String name) throws Exception {
    ByteArrayOutputStream content = new ByteArrayOutputStream();
    try (InputStream from = files.open(path(name))) {
      IOUtils.copyBytes(from, content, 1 << 16, false);
    }
    return content.toByteArray();
  }

  List<LocatedBlock> blocks(String name) throws Exception {
    return files.getClient().getLocatedBlocks(name, 0, Long.MAX_VALUE).getLocatedBlocks();
  }

  /** Returns the number of a running DataNode's disk. */
  int disk(DataNode node) {
    return node.getConf().getInt(Settings.DISK, -1);
  }

  /** Returns the index of a disk's node among the running ones; -1 if it does not run. */
  int index(int disk) {
    List<DataNode> nodes = mini.getDataNodes();
    for (int i = 0; i < nodes.size(); i++) {
      if (disk(nodes.get(i)) == disk) {
        return i;
      }
    }
    return -1;
  }

  /** Runs the parity-check of a disk: returns its status, then its output. */
  String check(int disk) {
    ByteArrayOutputStream said = new ByteArrayOutputStream();
    PrintStream to = new PrintStream(said, true);
    Configuration own = new Configuration(mini.getDataNodes().get(index(disk)).getConf());
    int status = RaidpTool.run(own, Collections.singletonList("parity-check"), to, to);
    return status + " " + said;
  }

  /** Returns the findings of all disks' checks; empty if there are none within 30 seconds. */
  String faults() throws Exception {
    List<String> faults = new ArrayList<>();
    within(
        30,
        () -> {
          faults.clear();
          for (int disk = 0; disk < disks; disk++) {
            String said = index(disk) < 0 ? "0" : check(disk);
            if (!said.startsWith("0")) {
              faults.add(said);
            }
          }
          return faults.isEmpty();
        });
    return String.join("", faults);
  }

  /** Returns true if a condition becomes true within so many seconds. */
  static boolean within(int seconds, Callable<Boolean> condition) throws Exception {
    long end = System.nanoTime() + seconds * 1_000_000_000L;
    while (!condition.call()) {
      if (System.nanoTime() > end) {
        return false;
      }
      Thread.sleep(200);
    }
    return true;
  }

  /** The directories of a disk whose node runs. */
  List<File> directories(int disk) throws Exception {
    List<File> directories = new ArrayList<>();
    for (StorageLocation at :
        DataNode.getStorageLocations(mini.getDataNodes().get(index(disk)).getConf())) {
      directories.add(new File(at.getUri()));
    }
    return directories;
  }

  /** The file of a block on a disk whose node runs. */
  File file(int disk, long block) throws Exception {
    return find(disk, block)
        .orElseThrow(() -> new AssertionError("blk_" + block + " is not on disk " + disk));
  }

  /** Returns true if a disk has a file of a block; all nodes run. */
  boolean isOnADisk(long block) throws Exception {
    for (int disk = 0; disk < disks; disk++) {
      if (find(disk, block).isPresent()) {
        return true;
      }
    }
    return false;
  }

  private Optional<File> find(int disk, long block) throws Exception {
    for (File directory : directories(disk)) {
      try (Stream<Path> all = Files.walk(directory.toPath())) {
        Optional<Path> found =
            all.filter(path -> path.getFileName().toString().equals("blk_" + block)).findAny();
        if (found.isPresent()) {
          return found.map(Path::toFile);
        }
      }
    }
    return Optional.empty();
  }

  static boolean same(byte[] a, byte[] b) {
    return Arrays.equals(a, b);
  }

  @Override
  public void close() {
    mini.shutdown(true);
  }
}
