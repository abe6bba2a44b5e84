package pantile.hdfs;

import java.io.Closeable;
import java.io.IOException;
import java.nio.ByteBuffer;
import org.apache.hadoop.fs.ChecksumException;
import org.apache.hadoop.hdfs.BlockReader;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.protocol.ErasureCodingPolicy;
import org.apache.hadoop.hdfs.protocol.LocatedBlock;
import org.apache.hadoop.hdfs.protocol.LocatedStripedBlock;
import org.apache.hadoop.hdfs.util.StripedBlockUtil;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * All blocks of one block group, side by side, from their DataNodes.
 *
 * <p>The bytes at one offset of all blocks are a stripe of the code: cells of a stripe are at the
 * same offset of their blocks, and zeros follow the end of the data. Blocks are read once, in
 * windows; a block that cannot be read any further counts as absent from there on, with the reason.
 * Memory: a window of each block.
 */
final class GroupReader implements Closeable {
  /** Bytes of each block at a time. */
  static final int WINDOW_BYTES = Native.LOCATE_BYTES_MOST;

  private final DistributedFileSystem files;
  private final String file;
  private final LocatedBlock[] blocks;
  private final long[] lengths;
  private static final Logger LOG = LoggerFactory.getLogger(GroupReader.class);

  private final BlockReader[] readers;
  private final ByteBuffer[] windows;

  /** Reason why a block is absent; null if it is present. */
  final String[] absent;

  /** True for each unit that fails the checksums of its DataNode. */
  final boolean[] checksumFails;

  GroupReader(
      DistributedFileSystem files,
      String file,
      LocatedStripedBlock group,
      ErasureCodingPolicy policy) {
    this.files = files;
    this.file = file;
    int k = policy.getNumDataUnits();
    int m = policy.getNumParityUnits();
    blocks = StripedBlockUtil.parseStripedBlockGroup(group, policy.getCellSize(), k, m);
    int units = k + m;
    lengths = new long[units];
    readers = new BlockReader[units];
    windows = new ByteBuffer[units];
    absent = new String[units];
    checksumFails = new boolean[units];
    for (int i = 0; i < units; i++) {
      lengths[i] =
          StripedBlockUtil.getInternalBlockLength(group.getBlockSize(), policy.getCellSize(), k, i);
      windows[i] = ByteBuffer.allocateDirect(WINDOW_BYTES);
      if (lengths[i] > 0 && (blocks[i] == null || blocks[i].getLocations().length == 0)) {
        absent[i] = "no DataNode has it";
      }
    }
  }

  int units() {
    return blocks.length;
  }

  /** Returns the block of a unit with its locations; null if no DataNode has it. */
  LocatedBlock block(int unit) {
    return blocks[unit];
  }

  /** Marks a unit as absent. */
  void leaveOut(int unit, String why) {
    absent[unit] = why;
  }

  /** Returns the bytes of the longest block. */
  long length() {
    long most = 0;
    for (long length : lengths) {
      most = Math.max(most, length);
    }
    return most;
  }

  /**
   * Reads the next {@code bytes} bytes, which begin at {@code offset}; the read before ended there.
   * A unit that is absent is null.
   */
  ByteBuffer[] window(long offset, int bytes) {
    ByteBuffer[] columns = new ByteBuffer[units()];
    for (int i = 0; i < units(); i++) {
      if (absent[i] == null && fill(i, offset, bytes)) {
        columns[i] = windows[i];
      }
    }
    return columns;
  }

  /** Returns true if the unit was read. */
  private boolean fill(int unit, long offset, int bytes) {
    ByteBuffer window = windows[unit];
    window.clear();
    window.limit((int) Math.max(0, Math.min(bytes, lengths[unit] - offset)));
    try {
      while (window.hasRemaining()) {
        if (readers[unit] == null) {
          readers[unit] = open(unit, offset);
        }
        if (readers[unit].read(window) < 0) {
          absent[unit] =
              "it ends after " + (offset + window.position()) + " of " + lengths[unit] + " bytes";
          return false;
        }
      }
    } catch (ChecksumException wrong) {
      checksumFails[unit] = true;
      absent[unit] = "its checksum fails at byte " + wrong.getPos();
      return false;
    } catch (IOException why) {
      absent[unit] = "it cannot be read: " + why.getMessage();
      return false;
    }
    window.limit(bytes);
    while (window.hasRemaining()) {
      window.put((byte) 0);
    }
    return true;
  }

  private BlockReader open(int unit, long offset) throws IOException {
    LocatedBlock block = blocks[unit];
    return new Replica(files, block.getLocations()[0], block.getBlock(), block.getBlockToken())
        .open(file, offset, lengths[unit] - offset);
  }

  /** Closes all readers; they only read, so that a failure to close one changes no result. */
  @Override
  public void close() {
    for (BlockReader reader : readers) {
      if (reader != null) {
        try {
          reader.close();
        } catch (IOException error) {
          LOG.warn("a block reader does not close", error);
        }
      }
    }
  }
}
