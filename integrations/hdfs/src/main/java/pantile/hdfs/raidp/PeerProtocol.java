package pantile.hdfs.raidp;

import java.io.IOException;
import org.apache.hadoop.io.ArrayPrimitiveWritable;
import org.apache.hadoop.ipc.VersionedProtocol;

/**
 * Requests of an array's DataNodes, and of `raidp`'s commands, to a DataNode, over its own IPC
 * server.
 *
 * <p>Lists are arrays of numbers, several for each item. They are returned in a writable, since
 * Hadoop's RPC sends a plain array with the name of a class for each element.
 */
public interface PeerProtocol extends VersionedProtocol {
  /** The version, by the name that Hadoop looks for. */
  long versionID = 1;

  /** The numbers of a replica: id, generation, length, partner. */
  int REPLICA_NUMBERS = 4;

  /**
   * The numbers of a block's place: the partner of the disk, -1 for none; 1 if the disk has the
   * block.
   */
  int PLACE_NUMBERS = 2;

  /** The numbers of an entry: id, generation, length, partner, row, CRC-32. */
  int ENTRY_NUMBERS = 6;

  /**
   * The least generation of each block that the node's parity has or may get; {@code
   * Long.MAX_VALUE} for none. The node does not need kept copies of lower generations.
   */
  ArrayPrimitiveWritable counts(long[] blocks) throws IOException;

  /**
   * Returns, for each block, the superchunk of the disk that has the block, or whose parity counts
   * it.
   */
  ArrayPrimitiveWritable places(long[] blocks) throws IOException;

  /** The generation of the version that has an entry's content, for each; -1 if there is none. */
  ArrayPrimitiveWritable versions(long[] blocks, long[] generations, long[] lengths)
      throws IOException;

  /** Bytes of an entry's content, checked against HDFS's checksums. */
  ArrayPrimitiveWritable read(long block, long generation, long length, long offset, int bytes)
      throws IOException;

  /**
   * Returns a partial sum: a range of the sum of terms, which the node reads from the disks that
   * have them. The result is empty if the node already makes as many sums as it can.
   */
  ArrayPrimitiveWritable sum(Order.Terms terms, long offset, int bytes) throws IOException;

  /** Bytes of a row of the node's own add-on. */
  ArrayPrimitiveWritable parity(int row, long offset, int bytes) throws IOException;

  /** Starts an order, or returns its progress: the words of {@link Outcome}. */
  String[] rebuild(Order order) throws IOException;

  /** The state of disk and add-on: names and values in turn. */
  String[] status() throws IOException;

  /** Complete replicas with ids above one, in ascending order; at most so many. */
  ArrayPrimitiveWritable replicas(long above, int most) throws IOException;

  /** Entries of blocks with ids above one, in ascending order; at most so many. */
  ArrayPrimitiveWritable entries(long above, int most) throws IOException;

  /**
   * Starts to take out entries whose block is neither on the disk nor kept; returns their number.
   */
  int forget() throws IOException;

  /** Has the node send a full block report, so that the NameNode deletes blocks without a file. */
  void reportBlocks() throws IOException;
}
