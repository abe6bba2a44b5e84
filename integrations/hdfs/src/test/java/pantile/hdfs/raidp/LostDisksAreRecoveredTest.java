package pantile.hdfs.raidp;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.PrintStream;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.IntFunction;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileUtil;
import org.apache.hadoop.hdfs.MiniDFSCluster.DataNodeProperties;
import org.apache.hadoop.hdfs.protocol.LocatedBlock;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.MethodOrderer;
import org.junit.jupiter.api.Order;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestMethodOrder;

/** Disks are emptied, `raidp recover` runs, and every file is what it was. */
@TestMethodOrder(MethodOrderer.OrderAnnotation.class)
class LostDisksAreRecoveredTest {
  private static final int DISKS = 6;

  /** The folder of the server that keeps all add-ons. */
  private static Path folder;

  private static AddOnServer server;
  private static RaidpCluster cluster;
  private static final Map<String, byte[]> FILES = new HashMap<>();

  @BeforeAll
  static void start() throws Exception {
    folder = Files.createTempDirectory("add-ons");
    server = new AddOnServer(folder, new InetSocketAddress("127.0.0.1", 0));
    cluster = new RaidpCluster(DISKS, DatasetFactory.class, "127.0.0.1:" + server.port());
    // The blocks have many lengths, and are so many that every two disks share some.
    for (int i = 0; i < 40; i++) {
      String name = "/file-" + i;
      FILES.put(name, RaidpCluster.content(name, 700_000 + 61_803 * i));
      cluster.write(name, FILES.get(name));
    }
    for (int i = 0; i < 40; i += 7) {
      String name = "/file-" + i;
      assertTrue(cluster.files.delete(RaidpCluster.path(name), false));
      FILES.remove(name);
    }
    // Deleted blocks leave parity when the DataNodes hear of it; a disk that fails earlier keeps
    // them.
    assertTrue(
        RaidpCluster.within(
            60,
            () -> {
              long left = 0;
              for (int disk = 0; disk < DISKS; disk++) {
                try (AddOn addOn = AddOns.read(served(disk), disk)) {
                  left += addOn.entries().size();
                }
              }
              for (String name : FILES.keySet()) {
                left -= 2 * cluster.blocks(name).size();
              }
              return left == 0;
            }),
        "deleted blocks are in parity");
    assertEquals("", cluster.faults());
  }

  @AfterAll
  static void stop() throws Exception {
    cluster.close();
    server.close();
    FileUtil.fullyDelete(folder.toFile());
  }

  /** Returns the address of an add-on for clients of its server. */
  private static String served(int disk) {
    return cluster.addOns[disk];
  }

  /** Returns the path of an add-on on the machine of its server. */
  private static String local(int disk) {
    return folder.resolve(Integer.toString(disk)).toString();
  }

  private static int status;

  private static String recover(IntFunction<String> place, int... disks) {
    List<String> arguments = new ArrayList<>(List.of("recover"));
    for (int disk : disks) {
      arguments.addAll(List.of("--add-on", disk + "=" + place.apply(disk)));
    }
    return tool(arguments);
  }

  private static String tool(List<String> arguments) {
    ByteArrayOutputStream said = new ByteArrayOutputStream();
    PrintStream to = new PrintStream(said, true);
    Configuration conf = new Configuration(cluster.conf);
    conf.set("fs.defaultFS", cluster.files.getUri().toString());
    status = RaidpTool.run(conf, arguments, to, to);
    return said.toString();
  }

  /** Takes nodes down and puts empty disks in the place of theirs; returns how to start them. */
  private static Map<Integer, DataNodeProperties> lose(int... disks) throws Exception {
    Map<Integer, DataNodeProperties> stopped = new HashMap<>();
    for (int disk : disks) {
      List<File> directories = cluster.directories(disk);
      stopped.put(disk, cluster.mini.stopDataNode(cluster.index(disk)));
      for (File directory : directories) {
        // Files that a stopping node still writes can make the first attempt fail.
        assertTrue(RaidpCluster.within(20, () -> FileUtil.fullyDeleteContents(directory)));
      }
    }
    return stopped;
  }

  private static long missing() throws Exception {
    return Missing.of(cluster.files).size();
  }

  /** Returns the number of missing blocks once the NameNode has taken all reports. */
  private static long settled() throws Exception {
    long seen = -1;
    for (long now = missing(); now != seen; now = missing()) {
      seen = now;
      Thread.sleep(6_000);
    }
    return seen;
  }

  /** Checks every file byte by byte, and that every block has two replicas. */
  private static void allHaveTwoCopies() throws Exception {
    for (Map.Entry<String, byte[]> file : FILES.entrySet()) {
      assertTrue(RaidpCluster.same(file.getValue(), cluster.read(file.getKey())), file.getKey());
    }
    assertTrue(
        RaidpCluster.within(
            90,
            () -> {
              for (String name : FILES.keySet()) {
                for (LocatedBlock block : cluster.blocks(name)) {
                  if (block.getLocations().length < 2) {
                    return false;
                  }
                }
              }
              return true;
            }),
        "a block has one replica");
  }

  /** Checks files and replicas, and that every add-on is right. */
  private static void allIsWell() throws Exception {
    allHaveTwoCopies();
    assertEquals("", cluster.faults());
  }

  /** Waits until all lost nodes are taken for dead; returns how many blocks are missing. */
  private static long allAreDead() throws Exception {
    assertTrue(RaidpCluster.within(60, () -> missing() > 0), "nothing is missing");
    assertTrue(
        RaidpCluster.within(
            60,
            () -> {
              long before = missing();
              Thread.sleep(2_000);
              return before == missing();
            }));
    return missing();
  }

  private static String whole(int... disks) {
    String said = recover(disk -> disk == disks[0] ? local(disk) : served(disk), disks);
    assertEquals(0, status, said);
    assertTrue(said.contains("blocks of which HDFS has no replica now: 0"), said);
    return said;
  }

  private static boolean hasSpareCopies() {
    return tool(List.of("status")).matches("(?s).* [1-9][0-9]* spare copies.*");
  }

  private static void areBack(Map<Integer, DataNodeProperties> stopped) throws Exception {
    for (DataNodeProperties one : stopped.values()) {
      assertTrue(cluster.mini.restartDataNode(one, true));
    }
    cluster.mini.waitActive();
  }

  @Test
  @Order(1)
  void twoDisksAreWholeInSparesAndComeHome() throws Exception {
    Map<Integer, DataNodeProperties> stopped = lose(1, 4);
    long lost = allAreDead();
    // Node 2, which has mirrors, is away for some seconds meanwhile.
    Map<Integer, DataNodeProperties> away = new HashMap<>();
    away.put(2, cluster.mini.stopDataNode(cluster.index(2)));
    Thread back =
        new Thread(
            () -> {
              try {
                Thread.sleep(3_000);
                areBack(away);
              } catch (Exception error) {
                throw new IllegalStateException(error);
              }
            });
    back.start();
    String said = whole(1, 4);
    back.join();
    assertTrue(said.contains("rebuilt " + lost + " blocks"), said);
    allHaveTwoCopies();
    assertTrue(hasSpareCopies());
    areBack(stopped);
    assertTrue(RaidpCluster.within(60, () -> !hasSpareCopies()), "a spare has copies");
    said = whole(1, 4);
    assertTrue(said.contains("rebuilt 0 blocks"), said);
    allIsWell();
  }

  @Test
  @Order(2)
  void threeDisksWithNodesInTheirPlacesNeedNoNames() throws Exception {
    Map<Integer, DataNodeProperties> stopped = lose(0, 2, 3);
    allAreDead();
    areBack(stopped);
    long lost = settled();
    String said = whole();
    assertTrue(said.contains("rebuilt " + lost + " blocks"), said);
    said = whole();
    assertTrue(said.contains("rebuilt 0 blocks"), said);
    assertTrue(RaidpCluster.within(60, () -> !hasSpareCopies()), "a spare has copies");
    allIsWell();
  }

  @Test
  @Order(3)
  void whatIsWrongIsSaid() {
    String said = tool(List.of("recover", "--add-on", "1=/nowhere"));
    assertEquals(2, status, said);
    said = tool(List.of("recover", "--add-on", "1=" + local(2)));
    assertEquals(2, status, said);
    assertTrue(said.contains("is of disk 2 of 6"), said);
    said = tool(List.of("recover", "--bytes-per-s", "5", "--add-on", "1=" + served(1)));
    assertEquals(2, status, said);
    assertTrue(said.contains("from 1048576 on"), said);
    said = tool(List.of("recover", "--dry-run", "--add-on", "1=" + served(1)));
    assertEquals(0, status, said);
    assertTrue(said.contains("survives 20 of 20 sets of three disks"), said);
    assertTrue(said.contains("on node i + 1, 2 of 20 sets of three nodes"), said);
  }
}
