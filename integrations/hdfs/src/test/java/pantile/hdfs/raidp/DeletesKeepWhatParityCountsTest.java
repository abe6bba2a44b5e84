package pantile.hdfs.raidp;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.IOException;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.zip.CRC32;
import javax.management.MBeanServer;
import javax.management.ObjectName;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileUtil;
import org.apache.hadoop.hdfs.MiniDFSCluster.DataNodeProperties;
import org.apache.hadoop.hdfs.protocol.ExtendedBlock;
import org.apache.hadoop.hdfs.protocol.LocatedBlock;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.MethodOrderer;
import org.junit.jupiter.api.Order;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestMethodOrder;

/** A block that a disk deletes or shortens stays there until both add-ons have released it. */
@TestMethodOrder(MethodOrderer.OrderAnnotation.class)
class DeletesKeepWhatParityCountsTest {
  private static final int DISKS = 5;

  private static RaidpCluster cluster;
  private static final Map<String, byte[]> FILES = new TreeMap<>();

  @BeforeAll
  static void start() throws Exception {
    cluster = new RaidpCluster(DISKS);
    for (int i = 0; i < 60; i++) {
      write("/file-" + i, 100_000 + 7_919 * i);
    }
  }

  @AfterAll
  static void stop() {
    cluster.close();
  }

  private static void write(String name, int bytes) throws Exception {
    FILES.put(name, RaidpCluster.content(name, bytes));
    cluster.write(name, FILES.get(name));
  }

  private static void delete(String name) throws Exception {
    assertTrue(cluster.files.delete(RaidpCluster.path(name), false));
    FILES.remove(name);
  }

  private static void truncate(String name, int bytes) throws Exception {
    cluster.files.truncate(RaidpCluster.path(name), bytes);
    FILES.put(name, Arrays.copyOf(FILES.get(name), bytes));
  }

  private static Peer peer(int disk) throws IOException {
    int port = cluster.mini.getDataNodes().get(cluster.index(disk)).getIpcPort();
    return Peer.of(new InetSocketAddress("127.0.0.1", port), cluster.conf);
  }

  private static long number(int disk, String what) throws IOException {
    return Long.parseLong(peer(disk).status().get(what));
  }

  private static int live() {
    return cluster.mini.getNamesystem().getNumLiveDataNodes();
  }

  private static long kept() throws IOException {
    long kept = 0;
    for (int disk = 0; disk < DISKS; disk++) {
      kept += cluster.index(disk) < 0 ? 0 : number(disk, "kept");
    }
    return kept;
  }

  private static int status;

  private static String tool(String... arguments) {
    ByteArrayOutputStream said = new ByteArrayOutputStream();
    PrintStream to = new PrintStream(said, true);
    Configuration conf = new Configuration(cluster.conf);
    conf.set("fs.defaultFS", cluster.files.getUri().toString());
    status = RaidpTool.run(conf, List.of(arguments), to, to);
    return said.toString();
  }

  /**
   * Returns the names of files whose one block is on a disk, by the partner that shares the block.
   */
  private static Map<Integer, List<String>> on(int disk) throws Exception {
    Map<Integer, List<String>> names = new HashMap<>();
    for (String name : FILES.keySet()) {
      for (LocatedBlock block : cluster.blocks(name)) {
        StorageName at = StorageName.parse(block.getStorageIDs()[0]);
        if (at.disk == disk || at.partner == disk) {
          int partner = at.disk == disk ? at.partner : at.disk;
          names.computeIfAbsent(partner, p -> new ArrayList<>()).add(name);
        }
      }
    }
    return names;
  }

  private static List<Entry> entries(int disk) throws IOException {
    try (AddOn addOn = AddOns.read(cluster.addOns[disk], disk)) {
      return addOn.entries();
    }
  }

  /**
   * Checks that every block of a row is on its mirror's disk, live or kept, with the content that
   * is in parity.
   */
  private static void everyMirrorHas(int disk) throws Exception {
    for (Entry entry : entries(disk)) {
      if (cluster.index(entry.partner) < 0) {
        continue;
      }
      ByteBuffer content = ByteBuffer.allocate((int) entry.length);
      while (content.hasRemaining()) {
        int end = Math.min(content.capacity(), content.position() + 100_003);
        content.limit(end);
        peer(entry.partner)
            .read(entry.blockId, entry.generation, entry.length, content.position(), content);
        content.limit(content.capacity());
      }
      CRC32 crc = new CRC32();
      crc.update(content.array());
      assertEquals(entry.crc, (int) crc.getValue(), "" + entry);
    }
  }

  @Test
  @Order(1)
  void aDeleteIsKeptUntilBothHaveLetGoAndNoLonger() throws Exception {
    String said = tool("check");
    assertEquals(0, status, said);
    assertTrue(said.contains("margin: any 2 more disks can fail without data loss"), said);
    for (int i = 0; i < 60; i += 6) {
      delete("/file-" + i);
    }
    assertTrue(RaidpCluster.within(60, () -> kept() > 0));
    assertTrue(RaidpCluster.within(60, () -> kept() == 0), () -> tool("status"));
    assertEquals("", cluster.faults());
    assertEquals(2 * FILES.size(), entryCount());
  }

  private static long entryCount() throws IOException {
    long entries = 0;
    for (int disk = 0; disk < DISKS; disk++) {
      entries += entries(disk).size();
    }
    return entries;
  }

  @Test
  @Order(2)
  void deletesAndTruncatesWhileADiskIsAwayLeaveItsRowsWhole() throws Exception {
    int away = 1;
    Map<Integer, List<String>> names = on(away);
    DataNodeProperties stopped = cluster.mini.stopDataNode(cluster.index(away));
    // Else the recovery of a truncated block may wait for it.
    assertTrue(RaidpCluster.within(60, () -> live() < DISKS));
    int changed = 0;
    int count = 0;
    for (List<String> ofPartner : names.values()) {
      for (String name : ofPartner) {
        count++;
        if (count % 3 == 0) {
          delete(name);
        } else if (count % 3 == 1) {
          truncate(name, FILES.get(name).length / 2);
        }
        changed += count % 3 == 2 ? 0 : 1;
      }
    }
    assertTrue(count >= 6, "only " + count + " blocks are on disk " + away);
    // Each file was changed on one disk, and its old block is kept there.
    int all = changed;
    assertTrue(RaidpCluster.within(120, () -> kept() == all), () -> all + " " + tool("status"));
    for (String name : FILES.keySet()) {
      assertTrue(
          RaidpCluster.within(60, () -> cluster.files.isFileClosed(RaidpCluster.path(name))));
    }
    Thread.sleep(8_000);
    assertEquals(all, kept());
    everyMirrorHas(away);
    // The old content of a truncated block that grows beyond its old length is no prefix of the
    // block.
    for (String name : names.values().iterator().next()) {
      if (FILES.containsKey(name)) {
        byte[] more = RaidpCluster.content(name + "+", 300_000);
        byte[] old = FILES.get(name);
        byte[] both = Arrays.copyOf(old, old.length + more.length);
        System.arraycopy(more, 0, both, old.length, more.length);
        cluster.append(name, more);
        FILES.put(name, both);
      }
    }
    everyMirrorHas(away);
    // Nodes that start again find by listing what they kept.
    long before = kept();
    int other = names.keySet().iterator().next();
    assertTrue(cluster.mini.restartDataNode(cluster.index(other)));
    cluster.mini.waitActive();
    assertTrue(RaidpCluster.within(60, () -> kept() == before), () -> tool("status"));
    everyMirrorHas(away);
    String said = tool("status");
    assertEquals(1, status, said);
    assertTrue(said.contains("disk 1 of 5: no live node"), said);
    // Once the node is back, all copies are released.
    assertTrue(cluster.mini.restartDataNode(stopped, true));
    cluster.mini.waitActive();
    cluster.mini.triggerBlockReports();
    assertTrue(RaidpCluster.within(90, () -> kept() == 0), () -> tool("status"));
    assertEquals("", cluster.faults());
    everyFileIsWhatItWas();
  }

  private static void everyFileIsWhatItWas() throws Exception {
    for (Map.Entry<String, byte[]> file : FILES.entrySet()) {
      assertTrue(RaidpCluster.same(file.getValue(), cluster.read(file.getKey())), file.getKey());
    }
  }

  @Test
  @Order(3)
  void anEntryWithoutItsMirrorIsFoundAndCostsMargin() throws Exception {
    assertTrue(RaidpCluster.within(60, () -> tool("check").contains("any 2 more")), tool("check"));
    // A replica is lost without an order to delete it; with replication 1 it is not made again.
    int disk = 2;
    Entry entry = entries(disk).get(0);
    String name = null;
    for (String one : FILES.keySet()) {
      for (LocatedBlock block : cluster.blocks(one)) {
        name = block.getBlock().getBlockId() == entry.blockId ? one : name;
      }
    }
    cluster.files.setReplication(RaidpCluster.path(name), (short) 1);
    File data = cluster.file(entry.partner, entry.blockId);
    assertTrue(data.delete());
    assertTrue(new File(data.getPath() + "_" + entry.generation + ".meta").delete());
    ExtendedBlock block = cluster.blocks(name).get(0).getBlock();
    cluster.mini.getDataNodes().get(cluster.index(entry.partner)).getFSDataset()
        .invalidateMissingBlock(block.getBlockPoolId(), block.getLocalBlock());
    String said = tool("check");
    assertEquals(1, status, said);
    assertTrue(said.contains("disk 2 counts blk_" + entry.blockId), said);
    assertTrue(said.contains("has no copy"), said);
    assertTrue(said.contains("1 faults"), said);
    cluster.files.setReplication(RaidpCluster.path(name), (short) 2);
    assertTrue(RaidpCluster.within(60, () -> tool("check").contains(" 0 faults")), tool("check"));
  }

  @Test
  @Order(4)
  void theStateIsInJmx() throws Exception {
    MBeanServer beans = ManagementFactory.getPlatformMBeanServer();
    ObjectName name = new ObjectName("Hadoop:service=DataNode,name=RaidpDisk-test-3");
    assertEquals("works", beans.getAttribute(name, "AddOnState"));
    // Copies of the test before are kept until both add-ons have let go.
    for (String none : List.of("BlocksBehind", "KeptCopies")) {
      assertTrue(
          RaidpCluster.within(60, () -> beans.getAttribute(name, none).equals(0)),
          () -> none + ": " + tool("status"));
    }
    assertEquals(entries(3).size(), beans.getAttribute(name, "BlocksInParity"));
  }

  @Test
  @Order(5)
  void forgettingAsksTheNameNodeFirst() throws Exception {
    // A block is deleted while its disk is lost, and the disk comes back empty.
    int disk = 4;
    assertTrue(RaidpCluster.within(60, () -> kept() == 0));
    List<String> doomed = new ArrayList<>();
    on(disk).values().forEach(names -> doomed.add(names.get(0)));
    List<File> directories = cluster.directories(disk);
    DataNodeProperties stopped = cluster.mini.stopDataNode(cluster.index(disk));
    for (File directory : directories) {
      assertTrue(RaidpCluster.within(20, () -> FileUtil.fullyDeleteContents(directory)));
    }
    String said = tool("forget", "2");
    assertEquals(2, status, said);
    assertTrue(said.contains("disks without an answer are {4="), said);
    assertTrue(RaidpCluster.within(60, () -> live() < DISKS));
    for (String name : doomed) {
      delete(name);
    }
    assertTrue(RaidpCluster.within(60, () -> kept() == doomed.size()), () -> tool("status"));
    assertTrue(cluster.mini.restartDataNode(stopped, true));
    cluster.mini.waitActive();
    // Copies go to spares and home again, before or after the first look.
    for (int look = 0; look < 3; look++) {
      assertTrue(
          RaidpCluster.within(
              90,
              () ->
                  cluster.files.getLowRedundancyBlocksCount() == 0
                      && !tool("status").matches("(?s).* [1-9][0-9]* spare copies.*")),
          () -> tool("status"));
      Thread.sleep(4_000);
    }
    assertEquals(doomed.size(), kept());
    said = tool("forget", "" + disk);
    assertEquals(0, status, said);
    assertTrue(said.contains(doomed.size() + " blocks left parity"), said);
    assertTrue(RaidpCluster.within(60, () -> kept() == 0), () -> tool("status"));
    assertEquals("", cluster.faults());
    everyFileIsWhatItWas();
    assertFalse(tool("check").contains("no copy"));
    assertEquals(0, status);
  }

  /**
   * Returns the folder in which a disk keeps copies of the blocks that it shares with a partner.
   */
  private static File keptFolder(int disk, int partner) throws Exception {
    for (File directory : cluster.directories(disk)) {
      String version = Files.readString(new File(directory, "current/VERSION").toPath());
      if (version.contains(StorageName.of("test", disk, partner).toString())) {
        return new File(directory, Kept.FOLDER);
      }
    }
    throw new AssertionError("disk " + disk + " has no directory for " + partner);
  }

  @Test
  @Order(6)
  void aBlockThatCannotBeKeptIsNotDeletedYetAndIsNotWaitedForOnceItIsGone() throws Exception {
    int disk = 0;
    int partner = 3;
    List<String> names = on(disk).get(partner);
    assertTrue(names.size() >= 2, "" + names);
    File folder = keptFolder(disk, partner);
    assertTrue(RaidpCluster.within(60, () -> kept() == 0));
    assertTrue(FileUtil.fullyDelete(folder) && folder.createNewFile());
    List<ExtendedBlock> blocks = new ArrayList<>();
    for (String name : names.subList(0, 2)) {
      blocks.add(cluster.blocks(name).get(0).getBlock());
      delete(name);
    }
    assertTrue(RaidpCluster.within(60, () -> number(disk, "waiting") == 2), () -> tool("status"));
    assertTrue(tool("status").contains("2 deletes waiting"));
    assertEquals(1, status);
    File first = cluster.file(disk, blocks.get(0).getBlockId());
    File second = cluster.file(disk, blocks.get(1).getBlockId());
    // A replica is lost without an order, as when the directory scanner finds no file.
    File aside = new File(first.getPath() + ".aside");
    assertTrue(first.renameTo(aside));
    cluster.mini.getDataNodes().get(cluster.index(disk)).getFSDataset().invalidateMissingBlock(
        blocks.get(0).getBlockPoolId(), blocks.get(0).getLocalBlock());
    assertTrue(RaidpCluster.within(30, () -> number(disk, "waiting") == 1), () -> tool("status"));
    assertTrue(second.exists());
    assertTrue(folder.delete());
    assertTrue(RaidpCluster.within(30, () -> number(disk, "waiting") == 0), () -> tool("status"));
    assertTrue(RaidpCluster.within(30, () -> !second.exists()));
    assertTrue(aside.delete() || !aside.exists());
    // Its entry has no block any more, and no copy was kept because no delete was ordered.
    assertTrue(RaidpCluster.within(30, () -> tool("forget", "" + disk).contains("left parity")));
    assertTrue(RaidpCluster.within(60, () -> kept() == 0), () -> tool("status"));
    assertEquals("", cluster.faults());
  }

  @Test
  @Order(7)
  void aRemovalThatACrashInterruptedIsEndedAtTheStart() throws Exception {
    int disk = 0;
    int partner = 2;
    String name = on(disk).get(partner).get(0);
    ExtendedBlock block = cluster.blocks(name).get(0).getBlock();
    File data = cluster.file(disk, block.getBlockId());
    Object before = Files.getAttribute(data.toPath(), "unix:ino");
    File folder = new File(keptFolder(disk, partner), block.getBlockPoolId());
    DataNodeProperties stopped = cluster.mini.stopDataNode(cluster.index(disk));
    String stem = "blk_" + block.getBlockId() + "_" + block.getGenerationStamp();
    assertTrue(folder.isDirectory() || folder.mkdirs());
    Files.createLink(new File(folder, stem + ".deleted").toPath(), data.toPath());
    Files.createLink(
        new File(folder, stem + ".meta").toPath(),
        new File(data.getParentFile(), stem + ".meta").toPath());
    assertTrue(cluster.mini.restartDataNode(stopped, true));
    cluster.mini.waitActive();
    // The replica is removed, and made again from the mirror, as any replica that is lost.
    assertTrue(
        RaidpCluster.within(
            60,
            () ->
                cluster.blocks(name).get(0).getLocations().length == 2
                    && data.exists()
                    && !before.equals(Files.getAttribute(data.toPath(), "unix:ino"))));
    assertTrue(RaidpCluster.within(60, () -> kept() == 0), () -> tool("status"));
    assertEquals("", cluster.faults());
    everyFileIsWhatItWas();
    assertTrue(RaidpCluster.within(60, () -> tool("check").contains("any 2 more")), tool("check"));
  }
}
