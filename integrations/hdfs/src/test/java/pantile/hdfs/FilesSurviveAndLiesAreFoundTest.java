package pantile.hdfs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.stream.IntStream;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.protocol.LocatedBlock;
import org.apache.hadoop.io.erasurecode.CodecUtil;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.MethodOrderer;
import org.junit.jupiter.api.Order;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestMethodOrder;

/** On a cluster with our coders what is written comes back, and `verify` names the wrong block. */
@TestMethodOrder(MethodOrderer.OrderAnnotation.class)
class FilesSurviveAndLiesAreFoundTest {
  private static final Object[][] POLICIES = {{"rs", 6, 3}, {"raidq", 8, 4}, {"raidq", 12, 4}};

  private static Cluster cluster;

  @BeforeAll
  static void start() throws Exception {
    cluster = new Cluster();
  }

  @AfterAll
  static void stop() {
    cluster.close();
  }

  private static Path path(Object[] policy, String name) {
    return new Path(Cluster.folder((String) policy[0], (int) policy[1], (int) policy[2]), name);
  }

  @Test
  @Order(1)
  void whatIsWrittenIsReadAndAddsUp() throws Exception {
    for (Object[] policy : POLICIES) {
      assertEquals(
          Encoder.class,
          CodecUtil.createRawEncoder(
                  cluster.conf,
                  (String) policy[0],
                  Units.options((int) policy[1], (int) policy[2]))
              .getClass());
      int group = (int) policy[1] * Cluster.BLOCK_BYTES;
      for (int bytes : new int[] {1, 100_000, group, group + 777_777}) {
        Path path = path(policy, "file-" + bytes);
        cluster.write(path, Cluster.content(bytes));
        assertTrue(Cluster.same(Cluster.content(bytes), cluster.read(path)), path.toString());
      }
      Cluster.Said said = cluster.tool("verify", path(policy, "x").getParent().toString());
      assertEquals(Tool.GOOD, said.status, said.text);
      assertTrue(said.text.contains("2 block groups"), said.text);
    }
  }

  @Test
  @Order(2)
  void aBlockThatLiesIsNamedAndRebuilt() throws Exception {
    for (Object[] policy : new Object[][] {POLICIES[0], POLICIES[1]}) {
      int bytes = 1_500_000;
      for (int unit : new int[] {1, (int) policy[1]}) {
        Path path = path(policy, "lie-" + unit);
        cluster.write(path, Cluster.content(bytes));
        LocatedBlock block = cluster.blocks(path, 0)[unit];
        cluster.change(block, IntStream.range(1000, 1040).asLongStream().toArray(), true);

        Cluster.Said said = cluster.tool("verify", path.toString());
        assertEquals(Tool.WRONG, said.status, said.text);
        assertTrue(said.text.contains("block " + unit + " ("), said.text);
        assertTrue(said.text.contains(block.getBlock().getBlockName()), said.text);
        assertTrue(said.text.contains("WRONG from byte 1000 to 1039"), said.text);
        assertEquals(1, said.text.split("WRONG", -1).length - 1, said.text);

        said = cluster.tool("verify", "--repair", path.toString());
        assertTrue(said.text.contains("reported to the NameNode as corrupt: block [" + unit + "]"), said.text);
        awaitGood(path);
        assertTrue(Cluster.same(Cluster.content(bytes), cluster.read(path)));
      }
    }
  }

  @Test
  @Order(3)
  void singleBytesAreFoundAndRepairedOnlyWhenAskedTo() throws Exception {
    for (Object[] policy : new Object[][] {POLICIES[0], POLICIES[1]}) {
      Path path = path(policy, "one-byte");
      cluster.write(path, Cluster.content(2_000_000));
      cluster.change(cluster.blocks(path, 0)[2], new long[] {70_000, 90_000}, true);
      Cluster.Said said = cluster.tool("verify", "--repair", path.toString());
      assertEquals(Tool.WRONG, said.status);
      assertTrue(said.text.contains("block 2 ("), said.text);
      assertTrue(said.text.contains("WRONG from byte 70000 to 90000"), said.text);
      // The evidence is that of one range: two ranges are not two independent witnesses.
      String bits = policy == POLICIES[0] ? "once in 2^12 (less" : "once in 2^20 (less";
      assertTrue(said.text.contains(bits), said.text);
      assertTrue(said.text.contains("no block is accused with enough evidence"), said.text);

      said = cluster.tool("verify", "--repair", "--evidence", "4", path.toString());
      assertTrue(said.text.contains("reported to the NameNode as corrupt: block [2]"), said.text);
      awaitGood(path);
      assertTrue(Cluster.same(Cluster.content(2_000_000), cluster.read(path)));
    }
  }

  @Test
  @Order(4)
  void rotThatItsChecksumSeesIsReportedWithTheReason() throws Exception {
    Path path = path(POLICIES[0], "rot");
    cluster.write(path, Cluster.content(1_000_000));
    cluster.change(cluster.blocks(path, 0)[0], new long[] {5_000}, false);
    Cluster.Said said = cluster.tool("verify", "--repair", path.toString());
    assertTrue(said.text.contains("its checksum fails at byte"), said.text);
    assertTrue(said.text.contains("reported to the NameNode as corrupt: block [0]"), said.text);
    awaitGood(path);
  }

  @Test
  @Order(5)
  void moreLiesThanCanBeToldApartAreReportedToNobody() throws Exception {
    Path path = path(POLICIES[0], "three");
    cluster.write(path, Cluster.content(1_000_000));
    for (int unit : new int[] {0, 3, 7}) {
      cluster.change(cluster.blocks(path, 0)[unit], new long[] {200, 201, 202, 203, 204, 205}, true);
    }
    Cluster.Said said = cluster.tool("verify", "--repair", path.toString());
    assertEquals(Tool.WRONG, said.status);
    assertTrue(said.text.contains("which block is wrong cannot be told"), said.text);
    assertTrue(said.text.contains("nothing is reported"), said.text);
    cluster.files.delete(path, false);
  }

  @Test
  @Order(6)
  void whatCannotBeLookedAtIsSaid() throws Exception {
    Cluster.Said said = cluster.tool("verify", "/nothing");
    assertEquals(Tool.FAILED, said.status);
    assertTrue(said.text.contains("/nothing"), said.text);
    assertEquals(Tool.FAILED, cluster.tool("verify").status);
    assertEquals(Tool.FAILED, cluster.tool("verify", "--nonsense", "/").status);
    assertEquals(Tool.FAILED, cluster.tool("verify", "--evidence", "0", "/").status);
    Path plain = new Path("/plain");
    cluster.write(plain, Cluster.content(1000));
    said = cluster.tool("verify", "/plain");
    assertEquals(Tool.GOOD, said.status);
    assertTrue(said.text.contains("replicated"), said.text);
    said = cluster.tool("check");
    assertEquals(Tool.GOOD, said.status, said.text);
  }

  @Test
  @Order(7)
  void withAsManyNodesDownAsParitiesFilesAreReadAndRebuilt() throws Exception {
    int bytes = 8 * Cluster.BLOCK_BYTES + 123_457;
    Path raidq = path(POLICIES[1], "down");
    Path wide = path(POLICIES[2], "down");
    Path rs = path(POLICIES[0], "down");
    for (Path path : new Path[] {raidq, wide, rs}) {
      cluster.write(path, Cluster.content(bytes));
    }
    // Nodes of data and parity units are stopped; no more units of rs may be lost.
    List<Integer> dead = cluster.stop(cluster.blocks(raidq, 0), 0, 3, 9);
    for (Path path : new Path[] {raidq, wide, rs}) {
      assertTrue(Cluster.same(Cluster.content(bytes), cluster.read(path)), path.toString());
    }
    // 13 nodes are left: enough for 8 + 4 and 6 + 3.
    for (Path path : new Path[] {raidq, rs}) {
      awaitGood(path);
    }
    dead.addAll(cluster.stop(cluster.blocks(wide, 0), live(wide, dead)));
    assertTrue(Cluster.same(Cluster.content(bytes), cluster.read(wide)), "four nodes down");
    assertTrue(Cluster.same(Cluster.content(bytes), cluster.read(raidq)));
    Cluster.Said said = cluster.tool("verify", wide.toString());
    assertEquals(Tool.FAILED, said.status, said.text);
    assertTrue(said.text.contains("12 blocks can be read; 13 are needed to check anything"), said.text);
  }

  /** Returns a unit whose node is live. */
  private static int live(Path path, List<Integer> dead) throws Exception {
    LocatedBlock[] blocks = cluster.blocks(path, 0);
    for (int unit = 0; unit < blocks.length; unit++) {
      if (blocks[unit] != null && !dead.contains(blocks[unit].getLocations()[0].getXferPort())) {
        return unit;
      }
    }
    throw new AssertionError("all are down");
  }

  private static void awaitGood(Path path) throws Exception {
    Cluster.Said said = null;
    for (int tries = 0; tries < 120; tries++) {
      said = cluster.tool("verify", path.toString());
      if (said.status == Tool.GOOD) {
        return;
      }
      Thread.sleep(500);
    }
    throw new AssertionError("still wrong after a minute: " + said.text);
  }
}
