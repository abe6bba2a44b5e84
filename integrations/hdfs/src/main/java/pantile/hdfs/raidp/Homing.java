package pantile.hdfs.raidp;

import java.io.BufferedOutputStream;
import java.io.Closeable;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.Socket;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.hadoop.fs.StorageType;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo;
import org.apache.hadoop.hdfs.protocol.ExtendedBlock;
import org.apache.hadoop.hdfs.protocol.datatransfer.DataTransferProtoUtil;
import org.apache.hadoop.hdfs.protocol.datatransfer.Sender;
import org.apache.hadoop.hdfs.protocol.proto.DataTransferProtos.BlockOpResponseProto;
import org.apache.hadoop.hdfs.protocol.proto.DataTransferProtos.Status;
import org.apache.hadoop.hdfs.protocolPB.PBHelperClient;
import org.apache.hadoop.net.NetUtils;
import org.apache.hadoop.security.token.Token;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import pantile.hdfs.Replica;

/**
 * Moves the copies in a disk's spare to the superchunk of their block, once a disk of that
 * superchunk has a live node and lacks the block.
 *
 * <p>A thread asks all nodes which rows have the blocks. The node of the disk then copies a block
 * as it does for HDFS's Balancer, and the NameNode has the spare copy deleted. It keeps no state,
 * and moves one block at a time.
 */
final class Homing implements Closeable {
  private static final Logger LOG = LoggerFactory.getLogger(Homing.class);

  private static final long ROUND_MS = 5_000;

  private static final int TIMEOUT_MS = 60_000;

  private final Keeper keeper;
  private final DiskReplicas replicas;
  private final Partners partners;
  private final int disk;
  private final String pool;
  private final Thread thread = new Thread(this::work, "RAIDP spare copies");

  /**
   * The live disks of the last round, if no block can be moved before another disk is live; else
   * empty.
   */
  private Set<Integer> idleDisks = Collections.emptySet();

  private Set<Long> idleBlocks = Collections.emptySet();

  private volatile boolean closed;

  Homing(Keeper keeper, DiskReplicas replicas, Partners partners, int disk, String pool) {
    this.keeper = keeper;
    this.replicas = replicas;
    this.partners = partners;
    this.disk = disk;
    this.pool = pool;
  }

  void begin() {
    thread.setDaemon(true);
    thread.start();
  }

  private void work() {
    boolean isFirst = true;
    while (!closed) {
      try {
        Thread.sleep(ROUND_MS);
        if (isFirst) {
          isFirst = false;
          partners.look(); // So that a recovery finds the connection to the NameNode open.
        }
        Set<Long> spares = keeper.spares();
        if (!spares.isEmpty()) {
          bring(spares);
        }
      } catch (InterruptedException stopped) {
        return;
      } catch (IOException | RuntimeException | LinkageError error) {
        if (!closed) {
          LOG.warn("RAIDP: spare copies of disk {} stay for now: {}", disk, error.getMessage());
        }
      }
    }
  }

  private void bring(Set<Long> spares) throws IOException {
    Nodes nodes = partners.look();
    if (nodes.disks().equals(idleDisks) && idleBlocks.containsAll(spares)) {
      return;
    }
    Map<Long, Set<Integer>> places = new HashMap<>();
    Map<Long, Set<Integer>> there = new HashMap<>();
    boolean isAnswered = ask(spares, nodes, places, there);
    int moved = 0;
    int failed = 0;
    boolean isSettled = true;
    for (long block : spares) {
      Set<Integer> lacking =
          new TreeSet<>(places.getOrDefault(block, Collections.emptySet()));
      lacking.removeAll(there.getOrDefault(block, Collections.emptySet()));
      // If both copies are at home, the NameNode deletes one of the three copies, not always the
      // spare one.
      isSettled &= !lacking.isEmpty();
      lacking.removeIf(one -> nodes.of(one) == null);
      Held held = replicas.get(block);
      if (lacking.isEmpty() || held == null || !held.isFinalized()) {
        continue;
      }
      int home = lacking.iterator().next();
      Set<Integer> both = places.get(block);
      int partner = both.stream().filter(one -> one != home).findFirst().orElse(home);
      try {
        move(held, nodes, home, partner);
        moved++;
      } catch (IOException error) {
        failed++;
        LOG.info("RAIDP: blk_{} stays in the spare for now: {}", block, error.getMessage());
      }
      if (closed) {
        return;
      }
    }
    boolean isIdle = isAnswered && isSettled && moved + failed == 0;
    idleDisks = isIdle ? nodes.disks() : Collections.emptySet();
    idleBlocks = isIdle ? spares : Collections.emptySet();
    if (moved > 0) {
      LOG.info("RAIDP: {} spare copies of disk {} were brought home", moved, disk);
    }
  }

  /** Asks all nodes; false if one did not answer. */
  private boolean ask(
      Set<Long> spares,
      Nodes nodes,
      Map<Long, Set<Integer>> places,
      Map<Long, Set<Integer>> there) {
    boolean isAnswered = true;
    long[] blocks = spares.stream().mapToLong(block -> block).toArray();
    for (int other : nodes.disks()) {
      List<long[]> answers;
      try {
        answers = partners.of(other).places(blocks);
      } catch (IOException error) {
        isAnswered = false;
        partners.failed(other);
        continue;
      }
      for (int i = 0; i < blocks.length; i++) {
        long[] answer = answers.get(i);
        if (answer[0] >= 0) {
          Set<Integer> both = places.computeIfAbsent(blocks[i], block -> new TreeSet<>());
          both.add(other);
          both.add((int) answer[0]);
        }
        if (answer[1] != 0) {
          there.computeIfAbsent(blocks[i], block -> new TreeSet<>()).add(other);
        }
      }
    }
    return isAnswered;
  }

  /** Has the node of a disk copy a block from here, which is to be deleted here then. */
  private void move(Held held, Nodes nodes, int home, int partner) throws IOException {
    DatanodeInfo from = nodes.of(disk);
    DatanodeInfo to = nodes.of(home);
    if (from == null) {
      throw new IOException("the NameNode does not take this node for live");
    }
    ExtendedBlock block =
        new ExtendedBlock(pool, held.blockId(), held.length(), held.generation());
    try (Socket socket =
        NetUtils.getDefaultSocketFactory(partners.files().getConf()).createSocket()) {
      NetUtils.connect(socket, Replica.address(partners.files().getClient(), to), TIMEOUT_MS);
      socket.setSoTimeout(TIMEOUT_MS);
      DataOutputStream out =
          new DataOutputStream(
              new BufferedOutputStream(NetUtils.getOutputStream(socket, TIMEOUT_MS)));
      new Sender(out)
          .replaceBlock(
              block,
              StorageType.DISK,
              new Token<>(),
              from.getDatanodeUuid(),
              from,
              partners.storage(home, partner).toString());
      InputStream in = NetUtils.getInputStream(socket, TIMEOUT_MS);
      BlockOpResponseProto answer;
      do {
        answer = BlockOpResponseProto.parseFrom(PBHelperClient.vintPrefixed(in));
      } while (answer.getStatus() == Status.IN_PROGRESS);
      DataTransferProtoUtil.checkBlockOpStatus(answer, "disk " + home + " takes no copy");
    }
  }

  @Override
  public void close() {
    closed = true;
    thread.interrupt();
  }
}
