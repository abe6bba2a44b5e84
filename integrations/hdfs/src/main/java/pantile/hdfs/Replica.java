package pantile.hdfs;

import java.io.IOException;
import java.net.InetSocketAddress;
import org.apache.hadoop.fs.StorageType;
import org.apache.hadoop.hdfs.BlockReader;
import org.apache.hadoop.hdfs.DFSClient;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.client.impl.BlockReaderFactory;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo;
import org.apache.hadoop.hdfs.protocol.ExtendedBlock;
import org.apache.hadoop.hdfs.security.token.block.BlockTokenIdentifier;
import org.apache.hadoop.hdfs.server.datanode.CachingStrategy;
import org.apache.hadoop.net.NetUtils;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.hadoop.security.token.Token;

/** One replica of a block, on one DataNode. */
public final class Replica {
  private final DistributedFileSystem files;
  private final DatanodeInfo node;
  private final ExtendedBlock block;
  private final Token<BlockTokenIdentifier> token;

  /**
   * Describes a replica of a block as the NameNode has it, or as an add-on has it, without a token.
   */
  public Replica(
      DistributedFileSystem files,
      DatanodeInfo node,
      ExtendedBlock block,
      Token<BlockTokenIdentifier> token) {
    this.files = files;
    this.node = node;
    this.block = block;
    this.token = token;
  }

  /** Returns the address at which a node serves blocks. */
  public static InetSocketAddress address(DFSClient client, DatanodeInfo node) {
    return NetUtils.createSocketAddr(
        node.getXferAddr(client.getConf().isConnectToDnViaHostname()));
  }

  /**
   * Reads a range, checksums verified, through its DataNode.
   *
   * @param name the name in the DataNode's log.
   * @throws IOException if the node does not answer, or has no such replica.
   */
  public BlockReader open(String name, long offset, long bytes) throws IOException {
    DFSClient client = files.getClient();
    return new BlockReaderFactory(client.getConf())
        .setInetSocketAddress(address(client, node))
        .setRemotePeerFactory(client)
        .setDatanodeInfo(node)
        .setStorageType(StorageType.DISK)
        .setFileName(name)
        .setBlock(block)
        .setBlockToken(token)
        .setStartOffset(offset)
        .setLength(bytes)
        .setVerifyChecksum(true)
        .setClientName(client.getClientName())
        .setCachingStrategy(CachingStrategy.newDefaultStrategy())
        .setAllowShortCircuitLocalReads(false)
        .setClientCacheContext(client.getClientContext())
        .setUserGroupInformation(UserGroupInformation.getCurrentUser())
        .setConfiguration(files.getConf())
        .build();
  }
}
