package pantile.hdfs.raidp;

import java.io.BufferedOutputStream;
import java.io.Closeable;
import java.io.DataOutputStream;
import java.io.IOException;
import java.net.Socket;
import java.nio.ByteBuffer;
import org.apache.hadoop.fs.StorageType;
import org.apache.hadoop.hdfs.DFSClient;
import org.apache.hadoop.hdfs.DFSPacket;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo;
import org.apache.hadoop.hdfs.protocol.ExtendedBlock;
import org.apache.hadoop.hdfs.protocol.datatransfer.BlockConstructionStage;
import org.apache.hadoop.hdfs.protocol.datatransfer.PacketHeader;
import org.apache.hadoop.hdfs.protocol.datatransfer.Sender;
import org.apache.hadoop.hdfs.server.datanode.CachingStrategy;
import org.apache.hadoop.net.NetUtils;
import org.apache.hadoop.security.token.Token;
import org.apache.hadoop.util.DataChecksum;
import pantile.hdfs.Replica;

/**
 * Gives a DataNode a replica of a block that the NameNode knows, by the protocol with which
 * DataNodes give them to each other: the receiver finalizes it and reports it.
 *
 * <p>The node has no replica before {@link #finish}; a writer that is closed earlier leaves nothing
 * behind.
 */
final class ReplicaWriter implements Closeable {
  private static final int TIMEOUT_MS = 60_000;

  /** Chunks with their checksums that make a packet of some 64 KiB. */
  private static final int CHUNKS = 126;

  private final Socket socket;
  private final DataOutputStream out;
  private final DataChecksum checksum;
  private final ByteBuffer packet;
  private final byte[] buffer;
  private long offset;
  private long sequence;

  /** A replica of a block for one storage of a node. */
  ReplicaWriter(
      DistributedFileSystem files, DatanodeInfo node, String storageId, ExtendedBlock block)
      throws IOException {
    DFSClient client = files.getClient();
    checksum = client.getConf().createChecksum(null);
    packet = ByteBuffer.allocate(CHUNKS * checksum.getBytesPerChecksum());
    buffer =
        new byte
            [PacketHeader.PKT_MAX_HEADER_LEN
                + CHUNKS * (checksum.getBytesPerChecksum() + checksum.getChecksumSize())];
    // A plain socket has no channel, which Hadoop's streams need.
    socket = NetUtils.getDefaultSocketFactory(files.getConf()).createSocket();
    try {
      NetUtils.connect(socket, Replica.address(client, node), TIMEOUT_MS);
      socket.setTcpNoDelay(true);
      socket.setSoTimeout(TIMEOUT_MS);
      out =
          new DataOutputStream(
              new BufferedOutputStream(NetUtils.getOutputStream(socket, TIMEOUT_MS), 1 << 16));
      // Without the name of a client, the operation is the transfer of a finished block.
      new Sender(out)
          .writeBlock(
              block,
              StorageType.DISK,
              new Token<>(),
              "",
              new DatanodeInfo[] {node},
              new StorageType[] {StorageType.DISK},
              node,
              BlockConstructionStage.PIPELINE_SETUP_CREATE,
              0,
              0,
              0,
              0,
              checksum,
              CachingStrategy.newDefaultStrategy(),
              false,
              false,
              null,
              storageId,
              new String[] {storageId});
    } catch (IOException error) {
      socket.close();
      throw error;
    }
  }

  /** Appends the rest of a buffer. */
  void write(ByteBuffer content) throws IOException {
    while (content.hasRemaining()) {
      int bytes = Math.min(content.remaining(), packet.remaining());
      ByteBuffer part = content.duplicate();
      part.limit(part.position() + bytes);
      packet.put(part);
      content.position(content.position() + bytes);
      if (!packet.hasRemaining()) {
        send();
      }
    }
  }

  private void send() throws IOException {
    int bytes = packet.position();
    int chunk = checksum.getBytesPerChecksum();
    byte[] sums = new byte[(bytes + chunk - 1) / chunk * checksum.getChecksumSize()];
    checksum.calculateChunkedSums(packet.array(), 0, bytes, sums, 0);
    DFSPacket one =
        new DFSPacket(buffer, CHUNKS, offset, sequence++, checksum.getChecksumSize(), false);
    one.writeChecksum(sums, 0, sums.length);
    one.writeData(ByteBuffer.wrap(packet.array(), 0, bytes), bytes);
    one.writeTo(out);
    offset += bytes;
    packet.clear();
  }

  /** Sends the rest and the end, and waits until the node has finished. */
  void finish() throws IOException {
    if (packet.position() > 0) {
      send();
    }
    new DFSPacket(buffer, 0, offset, sequence, checksum.getChecksumSize(), true).writeTo(out);
    out.flush();
    // The node answers transfers with nothing and hangs up, whether it took the block or not.
    while (NetUtils.getInputStream(socket, TIMEOUT_MS).read() >= 0) {
      continue;
    }
  }

  @Override
  public void close() throws IOException {
    socket.close();
  }
}
