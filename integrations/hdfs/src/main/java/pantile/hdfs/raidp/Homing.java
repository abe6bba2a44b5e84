package pantile.hdfs.raidp;

import java.io.BufferedOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.PrintStream;
import java.net.Socket;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
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
import pantile.hdfs.Replica;

/**
 * Brings copies in spares home: to the superchunk of their block, once its disks have live nodes.
 *
 * <p>The node of the disk copies the block from the one that has the spare, as HDFS's Balancer has
 * it do, and the NameNode then has the spare copy deleted. It keeps no state.
 */
final class Homing {
  private static final int TIMEOUT_MS = 60_000;

  private static final int SAID_MOST = 20;

  /** A copy in the spare of a disk. */
  private static final class Spare {
    final int disk;
    final long block;
    final long generation;
    final long length;

    Spare(int disk, long[] replica) {
      this.disk = disk;
      block = replica[0];
      generation = replica[1];
      length = replica[2];
    }
  }

  private final Partners partners;
  private final Header header;
  private final PrintStream out;

  Homing(Partners partners, Header header, PrintStream out) {
    this.partners = partners;
    this.header = header;
    this.out = out;
  }

  /** Brings copies home, some at a time; returns the number of those that failed. */
  int run(int atATime) throws IOException {
    Nodes nodes = partners.look();
    Map<Long, List<Spare>> spares = new LinkedHashMap<>();
    for (int disk : nodes.spares()) {
      Peer peer = partners.of(disk);
      if (peer.status().getOrDefault("spare", "0").equals("0")) {
        continue;
      }
      for (long[] replica : peer.replicas()) {
        if (replica[3] == disk) {
          Spare spare = new Spare(disk, replica);
          spares.computeIfAbsent(spare.block, block -> new ArrayList<>()).add(spare);
        }
      }
    }
    if (spares.isEmpty()) {
      return 0;
    }
    return bring(spares, nodes, atATime);
  }

  private int bring(Map<Long, List<Spare>> spares, Nodes nodes, int atATime) throws IOException {
    // The two disks of each block, and those of them that have it.
    Map<Long, Set<Integer>> places = new HashMap<>();
    Map<Long, Set<Integer>> there = new HashMap<>();
    for (int disk : nodes.disks()) {
      Peer peer = partners.of(disk);
      for (Entry entry : peer.entries()) {
        if (spares.containsKey(entry.blockId)) {
          Set<Integer> both = places.computeIfAbsent(entry.blockId, block -> new TreeSet<>());
          both.add(disk);
          both.add(entry.partner);
        }
      }
      for (long[] replica : peer.replicas()) {
        if (spares.containsKey(replica[0]) && replica[3] != disk) {
          there.computeIfAbsent(replica[0], block -> new TreeSet<>()).add(disk);
          Set<Integer> both = places.computeIfAbsent(replica[0], block -> new TreeSet<>());
          both.add(disk);
          both.add((int) replica[3]);
        }
      }
    }
    ExecutorService threads = Executors.newFixedThreadPool(atATime);
    Map<Spare, Future<?>> running = new LinkedHashMap<>();
    int waiting = 0;
    try {
      for (Map.Entry<Long, List<Spare>> one : spares.entrySet()) {
        Set<Integer> both = places.getOrDefault(one.getKey(), new TreeSet<>());
        Set<Integer> lacking = new TreeSet<>(both);
        lacking.removeAll(there.getOrDefault(one.getKey(), new TreeSet<>()));
        waiting += lacking.size();
        lacking.removeIf(disk -> nodes.of(disk) == null);
        waiting -= lacking.size();
        List<Spare> copies = new ArrayList<>(one.getValue());
        for (int disk : lacking) {
          if (copies.isEmpty()) {
            break; // HDFS makes the other from this one.
          }
          Spare spare = copies.remove(0);
          int partner = both.stream().filter(other -> other != disk).findFirst().orElse(disk);
          running.put(spare, threads.submit(() -> {
            move(spare, nodes, disk, partner);
            return null;
          }));
        }
      }
      return end(running, waiting);
    } finally {
      threads.shutdownNow();
    }
  }

  private int end(Map<Spare, Future<?>> running, int waiting) throws IOException {
    Map<Long, String> failed = new TreeMap<>();
    for (Map.Entry<Spare, Future<?>> one : running.entrySet()) {
      try {
        one.getValue().get();
      } catch (ExecutionException error) {
        failed.put(one.getKey().block, String.valueOf(error.getCause().getMessage()));
      } catch (InterruptedException interrupted) {
        Thread.currentThread().interrupt();
        throw new IOException("interrupted");
      }
    }
    out.println(
        "spare copies brought home: " + (running.size() - failed.size()) + ", failed: "
            + failed.size() + "; " + waiting + " stay until their disks have live nodes");
    failed.entrySet().stream()
        .limit(SAID_MOST)
        .forEach(one -> out.println("  blk_" + one.getKey() + ": " + one.getValue()));
    return failed.size();
  }

  /** Has the node of a disk copy a block from a spare, which is to be deleted then. */
  private void move(Spare spare, Nodes nodes, int disk, int partner) throws IOException {
    DatanodeInfo from = nodes.of(spare.disk);
    DatanodeInfo to = nodes.of(disk);
    ExtendedBlock block =
        new ExtendedBlock(header.pool, spare.block, spare.length, spare.generation);
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
              partners.storage(disk, partner).toString());
      InputStream in = NetUtils.getInputStream(socket, TIMEOUT_MS);
      BlockOpResponseProto answer;
      do {
        answer = BlockOpResponseProto.parseFrom(PBHelperClient.vintPrefixed(in));
      } while (answer.getStatus() == Status.IN_PROGRESS);
      DataTransferProtoUtil.checkBlockOpStatus(answer, "disk " + disk + " takes no copy");
    }
  }
}
