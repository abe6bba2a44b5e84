package pantile.hdfs.raidp;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

/** parity-check finds what these tests are to find. */
class PlantedFaultsAreFoundTest {
  private static String faults(Class<? extends DatasetFactory> factory) throws Exception {
    try (RaidpCluster cluster = new RaidpCluster(3, factory, null)) {
      for (int i = 0; i < 6; i++) {
        cluster.write("/file-" + i, RaidpCluster.content("/file-" + i, 300_000));
      }
      cluster.files.delete(RaidpCluster.path("/file-0"), false);
      // What is deleted is deleted some seconds later.
      String[] found = {""};
      RaidpCluster.within(
          20,
          () -> {
            found[0] = "";
            for (int disk = 0; disk < 3; disk++) {
              String said = cluster.check(disk);
              found[0] += said.startsWith("0") ? "" : said;
            }
            return found[0].isEmpty();
          });
      return found[0];
    }
  }

  @Test
  void noneWhereThereIsNone() throws Exception {
    assertEquals("", faults(DatasetFactory.class));
  }

  @Test
  void aForgottenDelete() throws Exception {
    String said = faults(Faults.ForgottenDelete.class);
    assertTrue(said.contains("is in parity and not on the disk"), said);
  }

  @Test
  void aWrongWeight() throws Exception {
    String said = faults(Faults.WrongWeight.class);
    assertTrue(said.contains("parity is WRONG from byte 0 on"), said);
  }
}
