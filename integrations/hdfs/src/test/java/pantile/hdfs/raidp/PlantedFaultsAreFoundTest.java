package pantile.hdfs.raidp;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

/** `parity-check` finds each planted fault. */
class PlantedFaultsAreFoundTest {
  private static String faults(Class<? extends DatasetFactory> factory) throws Exception {
    try (RaidpCluster cluster = new RaidpCluster(3, factory, null)) {
      for (int i = 0; i < 6; i++) {
        cluster.write("/file-" + i, RaidpCluster.content("/file-" + i, 300_000));
      }
      long block = cluster.blocks("/file-0").get(0).getBlock().getBlockId();
      cluster.files.delete(RaidpCluster.path("/file-0"), false);
      // The replicas of the deleted block are removed some seconds later, after they left parity.
      assertTrue(RaidpCluster.within(60, () -> !cluster.isOnADisk(block)));
      StringBuilder found = new StringBuilder();
      for (int disk = 0; disk < 3; disk++) {
        String said = cluster.check(disk);
        found.append(said.startsWith("0") ? "" : said);
      }
      return found.toString();
    }
  }

  @Test
  void noneWhereThereIsNone() throws Exception {
    assertEquals("", faults(DatasetFactory.class));
  }

  @Test
  void aForgottenDelete() throws Exception {
    String said = faults(Faults.ForgottenDelete.class);
    assertTrue(said.contains("parity is WRONG from byte 0 on"), said);
  }

  @Test
  void aWrongWeight() throws Exception {
    String said = faults(Faults.WrongWeight.class);
    assertTrue(said.contains("parity is WRONG from byte 0 on"), said);
  }
}
