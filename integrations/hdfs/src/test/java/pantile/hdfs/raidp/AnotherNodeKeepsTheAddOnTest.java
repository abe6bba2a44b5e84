package pantile.hdfs.raidp;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collections;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** An add-on at a server is the same; while it is away blocks come and none goes. */
class AnotherNodeKeepsTheAddOnTest {
  private static final InetSocketAddress ANY = new InetSocketAddress("127.0.0.1", 0);

  @TempDir Path folder;

  private static void add(AddOn addOn, Entry entry) throws IOException {
    try (AddOn.Change change = addOn.change()) {
      change.fold(
          entry.row,
          entry.partner,
          0,
          ByteBuffer.wrap(RaidpCluster.content("" + entry.blockId, (int) entry.length)));
      change.commit(Collections.emptyList(), Collections.singletonList(entry));
    }
  }

  @Test
  void whatIsChangedThereIsReadThere() throws Exception {
    Header header = new Header("a", 5, 2, 100, "pool");
    try (AddOnServer server = new AddOnServer(folder, ANY)) {
      String where = "127.0.0.1:" + server.port();
      AddOn writer = AddOns.write(where, header);
      add(writer, new Entry(1, 1, 100_000, 3, 0, 7));
      assertThrows(IOException.class, () -> add(writer, new Entry(2, 1, 10, 3, 0, 0)));
      assertThrows(IOException.class, () -> add(writer, new Entry(2, 1, 500 << 16, 1, 0, 0)));
      try (AddOn.Change change = writer.change()) {
        change.fold(0, 1, 0, ByteBuffer.wrap(new byte[] {1, 2, 3}));
      }
      try (AddOn reader = AddOns.read(where, 2)) {
        assertEquals(1, reader.entries().size());
        assertEquals(7, reader.entries().get(0).crc);
        assertEquals(98L << 16, reader.freeBytes());
        ByteBuffer parity = ByteBuffer.allocate(100_000);
        reader.read(0, 0, parity);
        // The weight of a partner with a higher number is one.
        assertTrue(
            RaidpCluster.same(RaidpCluster.content("1", 100_000), parity.array()));
        assertThrows(IOException.class, reader::change);
      }
      assertThrows(IOException.class, () -> AddOns.read(where, 3));
      assertThrows(
          IOException.class, () -> AddOns.write(where, new Header("b", 5, 2, 100, "pool")));
      // A new writer counts; the old one connects again, and ends that.
      AddOn next = AddOns.write(where, header);
      add(next, new Entry(3, 1, 10, 1, 0, 0));
      next.close();
      assertEquals(2, AddOns.read(where, 2).entries().size());
    }
  }

  @Test
  void whileItIsAwayBlocksComeAndNoneGoes() throws Exception {
    AddOnServer server = new AddOnServer(folder, ANY);
    int port = server.port();
    try (RaidpCluster cluster =
        new RaidpCluster(3, DatasetFactory.class, "127.0.0.1:" + port)) {
      cluster.write("/before", RaidpCluster.content("/before", 200_000));
      assertEquals("", cluster.faults());
      server.close();
      cluster.write("/while", RaidpCluster.content("/while", 300_000));
      cluster.files.delete(RaidpCluster.path("/before"), false);
      assertTrue(
          RaidpCluster.same(RaidpCluster.content("/while", 300_000), cluster.read("/while")));
      Thread.sleep(4_000);
      assertEquals("2", cluster.check(0).substring(0, 1));
      server = new AddOnServer(folder, new InetSocketAddress("127.0.0.1", port));
      assertEquals("", cluster.faults());
      assertTrue(
          RaidpCluster.within(
              30,
              () -> {
                int there = 0;
                for (int disk = 0; disk < 3; disk++) {
                  try (AddOn addOn = AddOns.read("127.0.0.1:" + port, disk)) {
                    there += addOn.entries().size();
                  }
                }
                return there == 2;
              }));
      assertEquals("", cluster.faults());
      assertTrue(Files.exists(folder.resolve("0")));
    } finally {
      server.close();
    }
  }
}
