package pantile.hdfs.raidp;

import java.io.Closeable;
import java.io.IOException;
import java.net.URI;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.hdfs.DFSUtil;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo;
import org.apache.hadoop.hdfs.server.datanode.DataNode;

/** Finds the DataNodes of other disks of an array: the NameNode knows them by their storages. */
class Partners implements Closeable {
  /** A list of nodes is asked for again after this time. */
  private static final long FRESH_MS = 30_000;

  private final Configuration conf;
  private final String array;
  private final boolean ownsFiles;
  private DistributedFileSystem files;
  private Nodes nodes;
  private long since;
  private final Map<Integer, Peer> peers = new HashMap<>();
  private final Map<Integer, DatanodeInfo> known = new HashMap<>();

  /** Finds nodes of the named array in the file system of a configuration. */
  Partners(Configuration conf, String array) {
    this(conf, array, null);
  }

  /**
   * Finds nodes of the named array in a file system, which the caller closes; null stands for the
   * file system of the configuration.
   */
  Partners(Configuration conf, String array, DistributedFileSystem files) {
    this.conf = conf;
    this.array = array;
    this.files = files;
    ownsFiles = files == null;
  }

  /** Returns the partners of a DataNode in its array; null for none. */
  static Partners of(DataNode node, Settings settings) {
    return node == null ? null : new Partners(node.getConf(), settings.array);
  }

  /**
   * The node of a disk.
   *
   * @throws IOException if it is not live, or the NameNode does not answer.
   */
  synchronized Peer of(int disk) throws IOException {
    DatanodeInfo node = node(disk);
    Peer peer = peers.get(disk);
    if (peer == null || !node.getIpcAddr(false).equals(known.get(disk).getIpcAddr(false))) {
      failed(disk);
      peer = Peer.of(node, conf);
      peers.put(disk, peer);
      known.put(disk, node);
    }
    return peer;
  }

  /** Returns the node of a disk, as {@link #of} finds it. */
  synchronized DatanodeInfo node(int disk) throws IOException {
    if (nodes == null || System.nanoTime() - since > FRESH_MS * 1_000_000) {
      look();
    }
    DatanodeInfo node = nodes.of(disk);
    if (node == null) {
      throw new IOException("disk " + disk + " has no live node");
    }
    return node;
  }

  /** Asks the NameNode for the live nodes. */
  synchronized Nodes look() throws IOException {
    nodes = new Nodes(files(), array);
    since = System.nanoTime();
    return nodes;
  }

  /** The name of a storage of the array. */
  StorageName storage(int disk, int partner) {
    return StorageName.of(array, disk, partner);
  }

  /** The file system of the array. */
  synchronized DistributedFileSystem files() throws IOException {
    if (files == null) {
      files = files(conf);
    }
    return files;
  }

  /** Records that a node did not answer: the NameNode is asked again for its address. */
  synchronized void failed(int disk) {
    Peer peer = peers.remove(disk);
    if (peer != null) {
      peer.close();
      nodes = null;
    }
  }

  /** The file system that a DataNode belongs to. */
  private static DistributedFileSystem files(Configuration conf) throws IOException {
    Collection<URI> names = DFSUtil.getInternalNsRpcUris(conf);
    URI uri = names.isEmpty() ? FileSystem.getDefaultUri(conf) : names.iterator().next();
    Configuration impatient = new Configuration(conf);
    impatient.setInt("ipc.client.rpc-timeout.ms", 10_000);
    impatient.setInt("ipc.client.connect.max.retries", 1);
    impatient.setInt("ipc.client.connect.max.retries.on.timeouts", 0);
    FileSystem files = FileSystem.newInstance(uri, impatient);
    if (!(files instanceof DistributedFileSystem)) {
      files.close();
      throw new IOException(uri + " is no HDFS");
    }
    return (DistributedFileSystem) files;
  }

  @Override
  public synchronized void close() throws IOException {
    peers.values().forEach(Peer::close);
    peers.clear();
    if (files != null && ownsFiles) {
      files.close();
      files = null;
    }
  }
}
