package pantile.hdfs;

import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.io.RandomAccessFile;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.zip.CRC32C;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.HdfsConfiguration;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.hdfs.protocol.AddErasureCodingPolicyResponse;
import org.apache.hadoop.hdfs.protocol.ErasureCodingPolicy;
import org.apache.hadoop.hdfs.protocol.LocatedBlock;
import org.apache.hadoop.hdfs.protocol.LocatedStripedBlock;
import org.apache.hadoop.hdfs.server.datanode.DataNode;
import org.apache.hadoop.hdfs.util.StripedBlockUtil;
import org.apache.hadoop.io.IOUtils;
import org.apache.hadoop.io.erasurecode.ECSchema;

/**
 * A cluster of 16 DataNodes in this process, with our coders, and the faults that tests cause in
 * it.
 */
final class Cluster implements AutoCloseable {
  static final int NODES = 16;

  /** Bytes of each block of a block group. */
  static final int BLOCK_BYTES = 1 << 20;

  final MiniDFSCluster mini;
  final DistributedFileSystem files;
  final Configuration conf;

  Cluster() throws Exception {
    conf = settings();
    mini = new MiniDFSCluster.Builder(conf).numDataNodes(NODES).build();
    mini.waitActive();
    files = mini.getFileSystem();
    policy("rs", 6, 3);
    policy("raidq", 8, 4);
    policy("raidq", 12, 4);
  }

  private static Configuration settings() {
    Configuration conf = new HdfsConfiguration();
    conf.set("hdfs.minidfs.basedir", System.getProperty("pantile.cluster", "target/cluster"));
    for (Family family : Family.values()) {
      conf.set("io.erasurecode.codec." + family.codec + ".rawcoders", family.coder());
    }
    conf.setBoolean("dfs.datanode.ec.reconstruction.validation", true);
    // To make tests quick, a node counts as dead after some seconds of silence.
    conf.setInt("dfs.heartbeat.interval", 1);
    conf.setInt("dfs.namenode.heartbeat.recheck-interval", 500);
    conf.setInt("dfs.namenode.redundancy.interval.seconds", 1);
    conf.setInt("dfs.namenode.reconstruction.pending.timeout-sec", 20);
    conf.setLong("dfs.blocksize", BLOCK_BYTES);
    conf.setLong("dfs.namenode.fs-limits.min-block-size", 1024);
    // No scanner runs, because the wrong blocks of these tests are to be found by the equations
    // alone.
    conf.setInt("dfs.datanode.scan.period.hours", -1);
    return conf;
  }

  /**
   * Enables a policy with cells of 64 KiB, and sets it on a directory that is named after codec, k
   * and m.
   */
  private void policy(String codec, int k, int m) throws Exception {
    ErasureCodingPolicy policy = new ErasureCodingPolicy(new ECSchema(codec, k, m), 64 * 1024);
    AddErasureCodingPolicyResponse added =
        files.addErasureCodingPolicies(new ErasureCodingPolicy[] {policy})[0];
    if (!added.isSucceed()) {
      throw new AssertionError(added.getErrorMsg());
    }
    String name = added.getPolicy().getName();
    files.enableErasureCodingPolicy(name);
    Path folder = folder(codec, k, m);
    files.mkdirs(folder);
    files.setErasureCodingPolicy(folder, name);
  }

  static Path folder(String codec, int k, int m) {
    return new Path("/" + codec + "-" + k + "-" + m);
  }

  /** Writes a file of random bytes. */
  static byte[] content(int bytes) {
    byte[] content = new byte[bytes];
    new Random(bytes).nextBytes(content);
    return content;
  }

  void write(Path path, byte[] content) throws Exception {
    try (OutputStream to = files.create(path, true)) {
      to.write(content);
    }
  }

  byte[] read(Path path) throws Exception {
    ByteArrayOutputStream content = new ByteArrayOutputStream();
    try (InputStream from = files.open(path)) {
      IOUtils.copyBytes(from, content, 1 << 16, false);
    }
    return content.toByteArray();
  }

  LocatedStripedBlock group(Path path, int number) throws Exception {
    return (LocatedStripedBlock)
        files.getClient().getLocatedBlocks(path.toString(), 0, Long.MAX_VALUE).get(number);
  }

  /** The blocks of a group by unit; null where no node has one. */
  LocatedBlock[] blocks(Path path, int number) throws Exception {
    ErasureCodingPolicy policy = files.getErasureCodingPolicy(path);
    return StripedBlockUtil.parseStripedBlockGroup(
        group(path, number),
        policy.getCellSize(),
        policy.getNumDataUnits(),
        policy.getNumParityUnits());
  }

  int node(LocatedBlock block) {
    List<DataNode> nodes = mini.getDataNodes();
    for (int i = 0; i < nodes.size(); i++) {
      if (nodes.get(i).getXferPort() == block.getLocations()[0].getXferPort()) {
        return i;
      }
    }
    throw new AssertionError("no such node");
  }

  /** Changes bytes of a block on its node's disk; its checksums are made right, or left. */
  void change(LocatedBlock block, long[] offsets, boolean withChecksums) throws Exception {
    int node = node(block);
    File data = mini.getBlockFile(node, block.getBlock());
    File meta = mini.getBlockMetadataFile(node, block.getBlock());
    try (RandomAccessFile bytes = new RandomAccessFile(data, "rw");
        RandomAccessFile sums = new RandomAccessFile(meta, "rw")) {
      for (long offset : offsets) {
        bytes.seek(offset);
        int old = bytes.read();
        bytes.seek(offset);
        bytes.write(old ^ 0x5a);
        if (withChecksums) {
          long chunk = offset / 512;
          byte[] content = new byte[(int) Math.min(512, bytes.length() - chunk * 512)];
          bytes.seek(chunk * 512);
          bytes.readFully(content);
          CRC32C sum = new CRC32C();
          sum.update(content);
          sums.seek(7 + 4 * chunk);
          sums.writeInt((int) sum.getValue());
        }
      }
    }
  }

  /** Output of a run of the tool, and its status. */
  static final class Said {
    int status;
    String text;
  }

  Said tool(String... arguments) throws Exception {
    ByteArrayOutputStream text = new ByteArrayOutputStream();
    PrintStream to = new PrintStream(text, true, "UTF-8");
    Said said = new Said();
    Configuration conf = new Configuration(this.conf);
    conf.set("fs.defaultFS", files.getUri().toString());
    said.status = Tool.run(conf, arguments, to, to);
    said.text = text.toString("UTF-8");
    return said;
  }

  /** Stops nodes; returns their ports. */
  List<Integer> stop(LocatedBlock[] blocks, int... units) {
    List<Integer> ports = new ArrayList<>();
    for (int unit : units) {
      ports.add(blocks[unit].getLocations()[0].getXferPort());
      mini.stopDataNode(node(blocks[unit]));
    }
    return ports;
  }

  static boolean same(byte[] a, byte[] b) {
    return Arrays.equals(a, b);
  }

  @Override
  public void close() {
    mini.shutdown(true);
  }
}
