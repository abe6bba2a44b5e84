package pantile.hdfs.raidp;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Future;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.StorageType;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.hdfs.protocol.DatanodeID;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo;
import org.apache.hadoop.hdfs.protocol.LocatedBlock;
import org.apache.hadoop.hdfs.server.blockmanagement.DatanodeManager;
import org.apache.hadoop.hdfs.server.blockmanagement.RaidpPlacementPolicy;
import org.apache.hadoop.hdfs.server.datanode.DataNode;
import org.apache.hadoop.test.GenericTestUtils;
import org.apache.hadoop.test.GenericTestUtils.LogCapturer;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.MethodOrderer;
import org.junit.jupiter.api.Order;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestMethodOrder;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.slf4j.event.Level;

/** In a cluster, parity is right after every operation of HDFS on blocks. */
@TestMethodOrder(MethodOrderer.OrderAnnotation.class)
class ParityFollowsEveryChangeTest {
  private static final int DISKS = 5;
  private static final int BLOCK = RaidpCluster.BLOCK_BYTES;

  private static RaidpCluster cluster;
  private static final Map<String, byte[]> written = new HashMap<>();

  @BeforeAll
  static void start() throws Exception {
    cluster = new RaidpCluster(DISKS);
  }

  @AfterAll
  static void stop() {
    cluster.close();
  }

  private static void write(String name, int bytes) throws Exception {
    written.put(name, RaidpCluster.content(name, bytes));
    cluster.write(name, written.get(name));
  }

  private static void append(String name, int bytes) throws Exception {
    byte[] old = written.get(name);
    byte[] more = RaidpCluster.content(name + old.length, bytes);
    byte[] all = Arrays.copyOf(old, old.length + bytes);
    System.arraycopy(more, 0, all, old.length, bytes);
    cluster.append(name, more);
    written.put(name, all);
  }

  private static void delete(String name) throws Exception {
    assertTrue(cluster.files.delete(RaidpCluster.path(name), false));
    written.remove(name);
  }

  /** Checks the parity of all disks, the content of all files, and the places of their blocks. */
  private static void allIsRight() throws Exception {
    assertTrue(RaidpCluster.within(60, ParityFollowsEveryChangeTest::allHaveTwo));
    assertTrue(RaidpCluster.within(60, () -> !hasSpareCopies()), "a spare has copies");
    assertEquals("", cluster.faults());
    for (Map.Entry<String, byte[]> file : written.entrySet()) {
      assertTrue(RaidpCluster.same(file.getValue(), cluster.read(file.getKey())), file.getKey());
      for (LocatedBlock block : cluster.blocks(file.getKey())) {
        String[] storages = block.getStorageIDs();
        assertEquals(2, storages.length, file.getKey() + " " + block);
        assertEquals(
            StorageName.parse(storages[0]).mirror(), StorageName.parse(storages[1]), "" + block);
      }
    }
  }

  private static boolean hasSpareCopies() throws Exception {
    for (String name : written.keySet()) {
      for (LocatedBlock block : cluster.blocks(name)) {
        for (String storage : block.getStorageIDs()) {
          if (StorageName.parse(storage).isSpare()) {
            return true;
          }
        }
      }
    }
    return false;
  }

  private static long entries() throws IOException {
    long entries = 0;
    for (int disk = 0; disk < DISKS; disk++) {
      try (AddOn addOn = AddOns.read(cluster.addOns[disk], disk)) {
        entries += addOn.entries().size();
      }
    }
    return entries;
  }

  /** Nor is there a copy that missed an append: the NameNode hears of those in block reports. */
  private static boolean nothingIsToBeDeleted() throws Exception {
    long before = entries();
    cluster.mini.triggerBlockReports();
    Thread.sleep(8_000);
    return cluster.mini.getNamesystem().getPendingDeletionBlocks() == 0 && entries() == before;
  }

  @Test
  @Order(1)
  void filesAreWrittenInPairsOfStorages() throws Exception {
    for (int i = 0; i < 24; i++) {
      write("/file-" + i, new int[] {1, 70_000, BLOCK, 2 * BLOCK + 12_345}[i % 4]);
    }
    allIsRight();
    assertEquals(2 * 6 * (1 + 1 + 1 + 3), entries());
    Set<String> pairs = new HashSet<>();
    for (String name : written.keySet()) {
      for (LocatedBlock block : cluster.blocks(name)) {
        StorageName at = StorageName.parse(block.getStorageIDs()[0]);
        pairs.add(Math.min(at.disk, at.partner) + "-" + Math.max(at.disk, at.partner));
      }
    }
    assertEquals(DISKS * (DISKS - 1) / 2, pairs.size(), "" + pairs);
  }

  @Test
  @Order(2)
  void appendsDeletesAndTruncates() throws Exception {
    append("/file-0", 100);
    append("/file-0", 300_000);
    append("/file-1", 2 * BLOCK);
    append("/file-2", 1);
    allIsRight();
    for (int i = 3; i < 12; i++) {
      delete("/file-" + i);
    }
    // Truncates inside a block, and at the end of one.
    for (int bytes : new int[] {BLOCK + 77, BLOCK}) {
      String name = "/file-15";
      cluster.files.truncate(RaidpCluster.path(name), bytes);
      written.put(name, Arrays.copyOf(written.get(name), bytes));
      assertTrue(
          RaidpCluster.within(30, () -> cluster.files.isFileClosed(RaidpCluster.path(name))));
    }
    append("/file-15", 50_000);
    allIsRight();
  }

  @Test
  @Order(3)
  void truncatesUnderASnapshot() throws Exception {
    org.apache.hadoop.fs.Path folder = RaidpCluster.path("/snap");
    cluster.files.mkdirs(folder);
    cluster.files.allowSnapshot(folder);
    write("/snap/file", 900_000);
    cluster.files.createSnapshot(folder, "s");
    byte[] whole = written.get("/snap/file");
    cluster.files.truncate(RaidpCluster.path("/snap/file"), 400_000);
    written.put("/snap/file", Arrays.copyOf(whole, 400_000));
    assertTrue(
        RaidpCluster.within(
            30, () -> cluster.files.isFileClosed(RaidpCluster.path("/snap/file"))));
    allIsRight();
    assertTrue(RaidpCluster.same(whole, cluster.read("/snap/.snapshot/s/file")));
  }

  @Test
  @Order(4)
  void manyAtTheSameTime() throws Exception {
    ExecutorService threads = Executors.newFixedThreadPool(6);
    List<Future<?>> all = new ArrayList<>();
    Map<String, byte[]> made = new ConcurrentHashMap<>();
    for (int t = 0; t < 6; t++) {
      int thread = t;
      Callable<Void> work =
          () -> {
            for (int i = 0; i < 12; i++) {
              String name = "/many-" + thread + "-" + i;
              byte[] content = RaidpCluster.content(name, 10_000 + 90_000 * ((i + thread) % 9));
              cluster.write(name, content);
              if (i % 3 == 0) {
                byte[] more = RaidpCluster.content(name + "+", 60_000);
                cluster.append(name, more);
                byte[] both = Arrays.copyOf(content, content.length + more.length);
                System.arraycopy(more, 0, both, content.length, more.length);
                content = both;
              }
              if (i % 2 == 0) {
                cluster.files.delete(RaidpCluster.path(name), false);
              } else {
                made.put(name, content);
              }
            }
            return null;
          };
      all.add(threads.submit(work));
    }
    for (Future<?> one : all) {
      one.get();
    }
    threads.shutdown();
    written.putAll(made);
    allIsRight();
  }

  @Test
  @Order(5)
  void whatIsUnderConstructionHasNoParityAndAnAppendKeepsIts() throws Exception {
    write("/open", 200_000);
    assertEquals(2 * 200_000, inParity("/open"));
    try (FSDataOutputStream to = cluster.files.append(RaidpCluster.path("/open"))) {
      to.write(RaidpCluster.content("more", 100_000));
      to.hflush();
      // The first bytes stay in parity; the appended ones are not in it.
      assertEquals(2 * 200_000, inParity("/open"));
      assertEquals("", cluster.faults());
      try (FSDataOutputStream other = cluster.files.create(RaidpCluster.path("/half"))) {
        other.write(1);
        other.hflush();
        assertEquals(0, inParity("/half"));
        assertEquals("", cluster.faults());
      }
      assertEquals(2, inParity("/half"));
    }
    assertEquals(2 * 300_000, inParity("/open"));
    written.remove("/open");
    assertEquals("", cluster.faults());
  }

  /** Returns the bytes of a file's blocks that are in parity, on all disks. */
  private static long inParity(String name) throws Exception {
    Set<Long> blocks = new HashSet<>();
    cluster.blocks(name).forEach(block -> blocks.add(block.getBlock().getBlockId()));
    long bytes = 0;
    for (int disk = 0; disk < DISKS; disk++) {
      try (AddOn addOn = AddOns.read(cluster.addOns[disk], disk)) {
        for (Entry entry : addOn.entries()) {
          bytes += blocks.contains(entry.blockId) ? entry.length : 0;
        }
      }
    }
    return bytes;
  }

  @Test
  @Order(6)
  void aNodeThatStopsAndComesBackCatchesUp() throws Exception {
    int disk = 2;
    MiniDFSCluster.DataNodeProperties stopped = cluster.mini.stopDataNode(cluster.index(disk));
    for (int i = 0; i < 8; i++) {
      write("/meanwhile-" + i, 400_000);
    }
    delete("/file-12");
    delete("/file-15");
    append("/file-13", 10_000);
    assertTrue(cluster.mini.restartDataNode(stopped, true));
    cluster.mini.waitActive();
    assertTrue(RaidpCluster.within(60, ParityFollowsEveryChangeTest::allHaveTwo));
    allIsRight();
  }

  private static boolean allHaveTwo() throws Exception {
    for (String name : written.keySet()) {
      for (LocatedBlock block : cluster.blocks(name)) {
        if (block.getLocations().length != 2) {
          return false;
        }
      }
    }
    return true;
  }

  @Test
  @Order(7)
  void aDiskThatIsReplacedIsFilledFromTheSpares() throws Exception {
    int disk = 1;
    // A disk that fails before it hears of a delete keeps the block in its add-on.
    assertTrue(RaidpCluster.within(60, ParityFollowsEveryChangeTest::nothingIsToBeDeleted));
    long before = entries();
    List<File> directories = cluster.directories(disk);
    MiniDFSCluster.DataNodeProperties stopped = cluster.mini.stopDataNode(cluster.index(disk));
    for (File directory : directories) {
      org.apache.hadoop.fs.FileUtil.fullyDeleteContents(directory);
    }
    // While the disk is lost, blocks with one copy get the other copy in spares.
    assertTrue(RaidpCluster.within(60, () -> hasSpareCopies() && allHaveTwo()));
    assertTrue(cluster.mini.restartDataNode(stopped, true));
    cluster.mini.waitActive();
    assertTrue(RaidpCluster.within(90, ParityFollowsEveryChangeTest::allHaveTwo));
    allIsRight();
    assertEquals(before, entries());
  }

  /** Changes a byte of a block's first copy; returns the number of that copy's disk. */
  private static int rot(LocatedBlock block) throws Exception {
    int disk = StorageName.parse(block.getStorageIDs()[0]).disk;
    File data = cluster.file(disk, block.getBlock().getBlockId());
    try (RandomAccessFile bytes = new RandomAccessFile(data, "rw")) {
      bytes.seek(5_000);
      int old = bytes.read();
      bytes.seek(5_000);
      bytes.write(~old);
    }
    return disk;
  }

  @Test
  @Order(8)
  void aReplicaThatRotDoesNotGetIntoParity() throws Exception {
    write("/rot", 700_000);
    write("/beside", 700_000);
    LocatedBlock block = cluster.blocks("/rot").get(0);
    int disk = rot(block);
    String said = cluster.check(disk);
    assertTrue(said.startsWith("1") && said.contains("blk_" + block.getBlock().getBlockId()), said);
    delete("/rot");
    allIsRight();
  }

  @Test
  @Order(9)
  void aReplicaThatIsReportedCorruptIsMadeAgainAsThePageSays() throws Exception {
    write("/corrupt", 700_000);
    LocatedBlock block = cluster.blocks("/corrupt").get(0);
    rot(block);
    DatanodeInfo[] where = {block.getLocations()[0]};
    String[] storage = {block.getStorageIDs()[0]};
    cluster.files.getClient().reportBadBlocks(
        new LocatedBlock[] {
          new LocatedBlock(
              block.getBlock(), where, storage, new StorageType[] {StorageType.DISK})
        });
    assertEquals(1, cluster.blocks("/corrupt").get(0).getLocations().length);
    cluster.files.setReplication(RaidpCluster.path("/corrupt"), (short) 1);
    File data = cluster.file(StorageName.parse(storage[0]).disk, block.getBlock().getBlockId());
    cluster.mini.triggerBlockReports();
    assertTrue(RaidpCluster.within(30, () -> !data.exists()));
    cluster.files.setReplication(RaidpCluster.path("/corrupt"), (short) 2);
    allIsRight();
    assertTrue(data.exists());
  }

  @Test
  @Order(10)
  void withReplicationOneBothCopiesStay() throws Exception {
    long before = entries();
    String name = written.keySet().iterator().next();
    cluster.files.setReplication(RaidpCluster.path(name), (short) 1);
    assertTrue(nothingIsToBeDeleted());
    cluster.files.setReplication(RaidpCluster.path(name), (short) 2);
    allIsRight();
    assertEquals(before, entries());
  }

  @Test
  @Order(11)
  void aDiskThatIsDecommissionedKeepsItsBlocksAndTheLogSaysWhatToDo() throws Exception {
    Logger log = LoggerFactory.getLogger(RaidpPlacementPolicy.class);
    GenericTestUtils.setLogLevel(log, Level.WARN);
    LogCapturer said = LogCapturer.captureLogs(log);
    DatanodeManager nodes = cluster.mini.getNamesystem().getBlockManager().getDatanodeManager();
    DatanodeID id = cluster.mini.getDataNodes().get(cluster.index(2)).getDatanodeId();
    nodes.getDatanodeAdminManager().startDecommission(nodes.getDatanode(id));
    assertTrue(
        RaidpCluster.within(
            30, () -> said.getOutput().contains("is being decommissioned, which does not end")));
    nodes.getDatanodeAdminManager().stopDecommission(nodes.getDatanode(id));
    said.stopCapturing();
    allIsRight();
  }

  @Test
  @Order(12)
  void whatParityCannotFollowIsRefused() throws Exception {
    assertThrows(
        IOException.class,
        () -> cluster.files.create(RaidpCluster.path("/three"), (short) 3).close());
    assertThrows(
        IOException.class,
        () -> {
          try (FSDataOutputStream to =
              cluster.files.create(
                  RaidpCluster.path("/one"), true, 4096, (short) 1, (long) BLOCK)) {
            to.write(1);
          }
        });
    cluster.files.delete(RaidpCluster.path("/one"), false);
    DataNode node = cluster.mini.getDataNodes().get(0);
    String[][] wrong = {
      {"dfs.disk.balancer.enabled", "true", "disk balancer"},
      {"dfs.block.access.token.enable", "true", "block tokens"},
      {"hadoop.security.authentication", "kerberos", "not authenticated"},
      {"dfs.datanode.fsdataset.volume.choosing.policy", "", "where the NameNode puts them"},
      {Settings.ARRAY, "", "is not set"},
      {Settings.DISKS, "2", "it takes 3 to 64"},
      {Settings.DISKS, "6", "one for each partner"},
      {Settings.DISK, "5", "it takes 0 to 4"},
      {Settings.ADD_ON, "here", "neither an absolute path nor host:port"},
      {Settings.ADD_ON_BYTES, "1000", "from two blocks"},
      {"dfs.datanode.data.dir", "[SSD]/a,/b,/c,/d", "no [DISK]"},
    };
    Settings.of(node.getConf());
    for (String[] one : wrong) {
      Configuration conf = new Configuration(node.getConf());
      conf.set(one[0], one[1]);
      IOException why = assertThrows(IOException.class, () -> Settings.of(conf), one[0]);
      assertTrue(why.getMessage().contains(one[2]), why.getMessage());
    }
    String[][] wrongForTheNameNode = {
      {"dfs.replication.max", "3", "two copies"},
      {"dfs.storage.policy.enabled", "true", "storage policies"},
      {"dfs.block.access.token.enable", "true", "block tokens"},
    };
    for (String[] one : wrongForTheNameNode) {
      Configuration conf = new Configuration(cluster.conf);
      conf.set(one[0], one[1]);
      IllegalArgumentException why =
          assertThrows(
              IllegalArgumentException.class,
              () -> org.apache.hadoop.hdfs.server.blockmanagement.Policies.start(conf, cluster.mini.getNamesystem()),
              one[0]);
      assertTrue(why.getMessage().contains(one[2]), why.getMessage());
    }
    String folder = Files.createTempDirectory("add-on").toString();
    AddOns.write(folder, new Header("test", DISKS, 0, 100, "BP-1")).close();
    Header larger = new Header("test", DISKS + 1, 0, 100, "BP-1");
    IOException why = assertThrows(IOException.class, () -> AddOns.write(folder, larger));
    assertTrue(why.getMessage().contains("copy files to a new array of 6"), why.getMessage());
    org.apache.hadoop.fs.FileUtil.fullyDelete(new File(folder));
  }
}
