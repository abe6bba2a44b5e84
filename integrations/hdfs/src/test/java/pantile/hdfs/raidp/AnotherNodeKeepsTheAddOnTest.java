package pantile.hdfs.raidp;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * An add-on at a server works as a local one; while the server is away, blocks are written and none
 * is removed.
 */
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
      // A new writer takes the add-on over; then the old one connects again, and ends the new one's
      // connection.
      AddOn next = AddOns.write(where, header);
      add(next, new Entry(3, 1, 10, 1, 0, 0));
      next.close();
      assertEquals(2, AddOns.read(where, 2).entries().size());
    }
  }

  private static final Header HEADER = new Header("a", 5, 2, 100, "pool");

  /** A server of one add-on on a disk. */
  private static AddOnServer serverOf(Disk disk) throws IOException {
    LocalAddOn.create(disk, HEADER);
    return new AddOnServer((number, wanted) -> new LocalAddOn(disk, false), ANY);
  }

  @Test
  void aCommitThatEndsLateIsInTheEntriesOfTheNextConnection() throws Exception {
    CountDownLatch reached = new CountDownLatch(1);
    CountDownLatch release = new CountDownLatch(1);
    Disk slow =
        FailingDisk.gated(
            new CrashingDisk(-1),
            (file, what) -> {
              if (file.equals("parity") && what.equals("force")) {
                reached.countDown();
                try {
                  release.await();
                } catch (InterruptedException stopped) {
                  throw new IOException(stopped);
                }
              }
            });
    ExecutorService threads = Executors.newCachedThreadPool();
    AddOnServer server = serverOf(slow);
    try {
      String where = "127.0.0.1:" + server.port();
      AddOn first = AddOns.write(where, HEADER);
      Future<?> late =
          threads.submit(
              () -> {
                add(first, new Entry(1, 1, 100, 3, 0, 0));
                return null;
              });
      assertTrue(reached.await(30, TimeUnit.SECONDS));
      // The node connects again while its commit is still under way.
      Future<List<Entry>> next =
          threads.submit(
              () -> {
                try (AddOn second = AddOns.write(where, HEADER)) {
                  return second.entries();
                }
              });
      assertThrows(TimeoutException.class, () -> next.get(1, TimeUnit.SECONDS));
      release.countDown();
      assertEquals(1, next.get(30, TimeUnit.SECONDS).size());
      assertThrows(ExecutionException.class, () -> late.get(30, TimeUnit.SECONDS));
    } finally {
      release.countDown();
      server.close();
      threads.shutdownNow();
    }
  }

  @Test
  void aChangeOfAnOldStateIsRefused() throws Exception {
    try (AddOnServer server = serverOf(new CrashingDisk(-1))) {
      String where = "127.0.0.1:" + server.port();
      AddOn first = AddOns.write(where, HEADER);
      assertEquals(0, first.entries().size());
      add(first, new Entry(1, 1, 100, 3, 0, 0));
      try (AddOn second = AddOns.write(where, HEADER)) {
        add(second, new Entry(2, 1, 100, 4, 0, 0));
      }
      // The node clears the row and sums up the entries that it knows.
      IOException refused =
          assertThrows(
              IOException.class,
              () -> {
                for (int again = 0; again < 2; again++) {
                  try (AddOn.Change change = first.change()) {
                    change.clear(0);
                    change.commit(List.of(1L), List.of());
                  }
                }
              });
      if (!String.valueOf(refused.getMessage()).contains("was changed since")) {
        // The connection was lost, and the next change is refused.
        refused = assertThrows(IOException.class, first::change);
      }
      assertTrue(refused.getMessage().contains("was changed since"), refused.getMessage());
      assertEquals(2, first.entries().size());
      add(first, new Entry(3, 1, 100, 0, 0, 0));
      first.close();
    }
  }

  @Test
  void anAddOnThatFailedIsOpenedAgain() throws Exception {
    boolean[] full = {false};
    Disk disk = FailingDisk.of(new CrashingDisk(-1), name -> full[0] && name.equals("journal"));
    try (AddOnServer server = serverOf(disk)) {
      AddOn addOn = AddOns.write("127.0.0.1:" + server.port(), HEADER);
      add(addOn, new Entry(1, 1, 100, 3, 0, 0));
      full[0] = true;
      assertThrows(IOException.class, () -> add(addOn, new Entry(2, 1, 100, 4, 0, 0)));
      full[0] = false;
      add(addOn, new Entry(2, 1, 100, 4, 0, 0));
      assertEquals(2, addOn.entries().size());
      addOn.close();
    }
  }

  @Test
  void closingEndsACallThatANodeDoesNotAnswer() throws Exception {
    // The server accepts connections, answers the first request, and then is silent.
    ExecutorService threads = Executors.newCachedThreadPool();
    try (ServerSocket mute = new ServerSocket(0)) {
      threads.submit(
          () -> {
            Wire wire = new Wire(mute.accept());
            wire.receive();
            wire.send(
                Wire.GOOD,
                to -> {
                  HEADER.write(to);
                  to.writeLong(0);
                });
            return null;
          });
      AddOn addOn = AddOns.write("127.0.0.1:" + mute.getLocalPort(), HEADER);
      Future<?> hangs = threads.submit(() -> addOn.entries());
      assertThrows(TimeoutException.class, () -> hangs.get(1, TimeUnit.SECONDS));
      threads.submit(
              () -> {
                assertEquals(2, addOn.header().disk);
                addOn.close();
                return null;
              })
          .get(30, TimeUnit.SECONDS);
      assertThrows(ExecutionException.class, () -> hangs.get(30, TimeUnit.SECONDS));
    } finally {
      threads.shutdownNow();
    }
  }

  @Test
  void moreEntriesThanAMessageHolds() throws Exception {
    int blocks = 2 * Wire.PAGE_ENTRIES + 3;
    CrashingDisk disk = new CrashingDisk(-1);
    try (AddOnServer server = serverOf(disk)) {
      List<Entry> many = new ArrayList<>();
      for (int block = 0; block < blocks; block++) {
        many.add(new Entry(block, 1, 10, 3, block, 0));
      }
      try (LocalAddOn addOn = new LocalAddOn(disk, false);
          AddOn.Change change = addOn.change()) {
        change.commit(List.of(), many);
      }
      try (AddOn reader = AddOns.read("127.0.0.1:" + server.port(), 2)) {
        List<Entry> read = reader.entries();
        assertEquals(blocks, read.size());
        assertEquals(blocks, read.stream().mapToLong(entry -> entry.blockId).distinct().count());
      }
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
