package pantile.hdfs.raidp;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.CountDownLatch;
import org.apache.hadoop.util.DataChecksum;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** After one time-out of an add-on that hangs, no writer, delete or report waits for it again. */
class AHungAddOnIsNotInTheWayTest {
  private static final int STALL_MS = 500;

  @TempDir Path folder;

  private final Map<Long, Held> disk = new ConcurrentSkipListMap<>();

  private final Keeper.Replicas replicas =
      new Keeper.Replicas() {
        @Override
        public Held get(long block) {
          return disk.get(block);
        }

        @Override
        public Collection<Long> finalized() {
          return new ArrayList<>(disk.keySet());
        }

        @Override
        public List<Held> kept(long block) {
          return List.of();
        }

        @Override
        public Collection<Long> kept() {
          return List.of();
        }

        @Override
        public boolean isDeleted(Entry entry) {
          return false;
        }
      };

  private void put(long block) {
    byte[] content = RaidpCluster.content("" + block, 10_000);
    disk.put(
        block,
        new Held(block, 1, content.length, true, StorageName.of("a", 0, 1 + (int) block % 3)) {
          @Override
          InputStream data(long offset) {
            return new ByteArrayInputStream(content, (int) offset, content.length);
          }

          @Override
          InputStream checksums() {
            ByteBuffer file = ByteBuffer.allocate(7);
            file.putShort((short) 1);
            file.put(DataChecksum.newDataChecksum(DataChecksum.Type.NULL, 512).getHeader());
            return new ByteArrayInputStream(file.array());
          }
        });
  }

  /** An add-on that hangs in each change until the test releases it. */
  private final class Hanging extends Faults.Changed {
    private final CountDownLatch hangs;

    Hanging(CountDownLatch hangs) throws IOException {
      super(AddOns.local(folder, new Header("a", 4, 0, 200, "pool"), false));
      this.hangs = hangs;
    }

    @Override
    public Change change() throws IOException {
      try {
        hangs.await();
      } catch (InterruptedException stopped) {
        throw new IOException(stopped);
      }
      return real.change();
    }
  }

  private static long ms(Runnable work) {
    long begin = System.nanoTime();
    work.run();
    return (System.nanoTime() - begin) / 1_000_000;
  }

  @Test
  void oneWriterWaitsAndNoOther() throws Exception {
    CountDownLatch hangs = new CountDownLatch(1);
    Keeper keeper = new Keeper(() -> new Hanging(hangs), replicas, 0, 1 << 20, 100, STALL_MS);
    keeper.open();
    keeper.begin();
    assertTrue(RaidpCluster.within(60, keeper::isCurrent));
    assertNull(keeper.fault());
    put(1);
    long first = ms(() -> keeper.sync(1));
    assertTrue(first >= STALL_MS && first < 10_000, first + " ms");
    assertNotNull(keeper.fault());
    long others =
        ms(
            () -> {
              for (long block = 2; block <= 40; block++) {
                put(block);
                keeper.sync(block);
              }
            });
    assertTrue(others < 20L * STALL_MS, others + " ms for 39 blocks");
    // The first block is in the change that hangs, or was still queued when its writer gave up.
    int behind = keeper.behind();
    assertTrue(behind == 39 || behind == 40, behind + " blocks are behind");
    assertTrue(ms(() -> keeper.room(2)) < 5_000);
    // The add-on works again: parity follows all blocks, and writers wait for their blocks again.
    hangs.countDown();
    assertTrue(RaidpCluster.within(60, keeper::isCurrent));
    assertNull(keeper.fault());
    assertEquals(40, keeper.inParity());
    put(41);
    keeper.sync(41);
    assertEquals(41, keeper.inParity());
    keeper.close();
  }

  @Test
  void closingDoesNotWaitForItAndWhatItOpensLaterIsClosed() throws Exception {
    CountDownLatch opening = new CountDownLatch(1);
    CountDownLatch hangs = new CountDownLatch(1);
    CountDownLatch closed = new CountDownLatch(1);
    Keeper keeper =
        new Keeper(
            () -> {
              opening.countDown();
              try {
                hangs.await();
              } catch (InterruptedException stopped) {
                throw new IOException(stopped);
              }
              return new Faults.Changed(
                  AddOns.local(folder, new Header("a", 4, 0, 200, "pool"), false)) {
                @Override
                public void close() throws IOException {
                  super.close();
                  closed.countDown();
                }
              };
            },
            replicas, 0, 1 << 20, 100, STALL_MS);
    keeper.begin();
    assertTrue(opening.await(60, java.util.concurrent.TimeUnit.SECONDS));
    put(1);
    // The add-on was never opened, so no writer waits.
    assertTrue(ms(() -> keeper.sync(1)) < 10_000);
    assertEquals(1, keeper.behind());
    assertTrue(ms(keeper::close) < 30_000);
    hangs.countDown();
    assertTrue(closed.await(60, java.util.concurrent.TimeUnit.SECONDS));
    // The lock of the add-on is free again.
    AddOns.local(folder, null, false).close();
  }

  /** Forwards bytes to a server until it hangs: then connections stay open, and no bytes pass. */
  private static final class Relay implements AutoCloseable {
    final ServerSocket listening = new ServerSocket(0, 50, InetAddress.getByName("127.0.0.1"));
    private final InetSocketAddress to;
    private final List<Socket> sockets = new ArrayList<>();
    volatile boolean hangs;

    Relay(InetSocketAddress to) throws IOException {
      this.to = to;
      start(this::accept);
    }

    private static void start(Runnable work) {
      Thread thread = new Thread(work);
      thread.setDaemon(true);
      thread.start();
    }

    private void accept() {
      try {
        while (true) {
          Socket from = listening.accept();
          Socket there = new Socket(to.getAddress(), to.getPort());
          synchronized (sockets) {
            sockets.add(from);
            sockets.add(there);
          }
          start(() -> pass(from, there));
          start(() -> pass(there, from));
        }
      } catch (IOException closed) {
        // The test has ended.
      }
    }

    private void pass(Socket from, Socket there) {
      byte[] some = new byte[1 << 16];
      try {
        InputStream in = from.getInputStream();
        OutputStream out = there.getOutputStream();
        for (int bytes = in.read(some); bytes >= 0; bytes = in.read(some)) {
          while (hangs) {
            Thread.sleep(50);
          }
          out.write(some, 0, bytes);
        }
      } catch (IOException | InterruptedException ended) {
        // One side has disconnected.
      }
      try {
        there.close();
      } catch (IOException ignored) {
        // The connection is not used any more.
      }
    }

    @Override
    public void close() throws IOException {
      hangs = false;
      listening.close();
      synchronized (sockets) {
        for (Socket socket : sockets) {
          socket.close();
        }
      }
    }
  }

  @Test
  void aNodeThatHangsStopsNoWritesAndDeletesOfItsNeighbour() throws Exception {
    try (AddOnServer server =
            new AddOnServer(folder, new InetSocketAddress("127.0.0.1", 0));
        Relay relay = new Relay(new InetSocketAddress("127.0.0.1", server.port()));
        RaidpCluster cluster =
            new RaidpCluster(
                3, DatasetFactory.class, "127.0.0.1:" + relay.listening.getLocalPort())) {
      cluster.write("/before", RaidpCluster.content("/before", 200_000));
      assertEquals("", cluster.faults());
      relay.hangs = true;
      // Each of the three add-ons times out once; with a lock held each write took 60 s.
      long begin = System.nanoTime();
      for (int i = 0; i < 9; i++) {
        cluster.write("/while-" + i, RaidpCluster.content("/while-" + i, 300_000));
      }
      cluster.files.delete(RaidpCluster.path("/before"), false);
      long took = (System.nanoTime() - begin) / 1_000_000_000;
      assertTrue(took < 100, took + " s");
      begin = System.nanoTime();
      for (int i = 9; i < 18; i++) {
        cluster.write("/while-" + i, RaidpCluster.content("/while-" + i, 300_000));
      }
      took = (System.nanoTime() - begin) / 1_000_000_000;
      assertTrue(took < 30, took + " s");
      relay.hangs = false;
      assertTrue(
          RaidpCluster.within(
              120,
              () -> {
                int there = 0;
                for (int i = 0; i < 3; i++) {
                  try (AddOn addOn = AddOns.read("127.0.0.1:" + server.port(), i)) {
                    there += addOn.entries().size();
                  }
                }
                return there == 36;
              }));
      assertEquals("", cluster.faults());
    }
  }
}
