package pantile.hdfs.raidp;

import java.io.Closeable;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Removes kept copies that neither the disk's own add-on nor the partner's counts any more.
 *
 * <p>A thread asks the partners. A partner that does not answer, or whose add-on is not open, is
 * assumed to count every copy.
 */
final class Releasing implements Closeable {
  private static final Logger LOG = LoggerFactory.getLogger(Releasing.class);

  /**
   * A copy that a live partner counts for this long may be of a delete that the NameNode forgot at
   * a restart: the partner is asked to report its blocks.
   */
  private static final long FORGOTTEN_MS = 300_000;

  /** The least time between two requests to a partner for a report. */
  private static final long REPORT_MS = 1_800_000;

  /** Work that is done before each round. */
  interface Chore {
    void run() throws IOException;
  }

  private final Keeper keeper;
  private final DiskReplicas replicas;
  private final Chore chore;

  /** The other disks' nodes; null without a network, and then no copy is removed. */
  private final Partners partners;

  private final Thread thread = new Thread(this::work, "RAIDP kept copies");
  private final Map<Integer, Long> reported = new HashMap<>();
  private final Map<Kept.Copy, Long> since = new HashMap<>();
  private volatile Map<Integer, String> silent = new TreeMap<>();
  private volatile boolean closed;

  Releasing(Keeper keeper, DiskReplicas replicas, Chore chore, Partners partners) {
    this.keeper = keeper;
    this.replicas = replicas;
    this.chore = chore;
    this.partners = partners;
  }

  void begin() {
    thread.setDaemon(true);
    thread.start();
  }

  /** The partners that did not answer, with their reasons; empty if all did. */
  String silent() {
    return silent.isEmpty() ? "" : silent.toString();
  }

  private void work() {
    while (!closed) {
      try {
        Thread.sleep(Keeper.RETRY_MS);
        chore.run();
        release();
      } catch (InterruptedException stopped) {
        return;
      } catch (IOException | RuntimeException | LinkageError error) {
        if (!closed) {
          LOG.warn("RAIDP: kept copies stay for now", error);
        }
      }
    }
  }

  private static long now() {
    return System.nanoTime() / 1_000_000;
  }

  private void release() throws IOException {
    Map<Integer, List<Kept.Copy>> ofPartners = new TreeMap<>();
    for (Kept.Copy copy : replicas.kept.all()) {
      since.putIfAbsent(copy, now());
      if (replicas.dropIfRedundant(copy) || replicas.isBeingRemoved(copy)) {
        continue;
      }
      if (isOwn(copy)) {
        keeper.changed(copy.blockId());
      } else {
        ofPartners.computeIfAbsent(copy.partner(), partner -> new ArrayList<>()).add(copy);
      }
    }
    since.keySet().retainAll(replicas.kept.all());
    Map<Integer, String> failed = new TreeMap<>();
    for (Map.Entry<Integer, List<Kept.Copy>> one : ofPartners.entrySet()) {
      try {
        release(one.getKey(), one.getValue());
      } catch (IOException error) {
        failed.put(one.getKey(), String.valueOf(error.getMessage()));
        partners.failed(one.getKey());
      }
    }
    silent = failed;
  }

  /** Returns true while the disk's own add-on counts a copy, or cannot answer. */
  private boolean isOwn(Kept.Copy copy) {
    try {
      return keeper.entryGeneration(copy.blockId()) <= copy.generation();
    } catch (IOException notKnown) {
      return true;
    }
  }

  private void release(int partner, List<Kept.Copy> copies) throws IOException {
    if (partners == null || partner < 0) {
      return;
    }
    long[] blocks = copies.stream().mapToLong(Held::blockId).toArray();
    Peer peer = partners.of(partner);
    long[] counts = peer.counts(blocks);
    boolean forgotten = false;
    for (int i = 0; i < counts.length; i++) {
      Kept.Copy copy = copies.get(i);
      if (counts[i] > copy.generation()) {
        replicas.kept.drop(copy);
      } else {
        forgotten |= now() - since.get(copy) > FORGOTTEN_MS;
      }
    }
    Long last = reported.get(partner);
    if (forgotten && (last == null || now() - last > REPORT_MS)) {
      LOG.info("RAIDP: disk {} has blocks that were deleted here: it reports its blocks", partner);
      reported.put(partner, now());
      peer.reportBlocks();
    }
  }

  @Override
  public void close() throws IOException {
    closed = true;
    thread.interrupt();
    if (partners != null) {
      partners.close();
    }
  }
}
