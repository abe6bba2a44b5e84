package pantile.hdfs.raidp;

import java.io.Closeable;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.util.zip.CRC32;
import org.apache.hadoop.hdfs.server.datanode.BlockMetadataHeader;
import org.apache.hadoop.io.IOUtils;
import org.apache.hadoop.util.DataChecksum;

/**
 * Reads bytes of a replica piece by piece, and checks them by its checksums: wrong bytes of the
 * disk must not get into parity.
 *
 * <p>The last chunk of a replica that is being appended to is not checked, since its checksum
 * changes meanwhile.
 */
final class BlockReader implements Closeable {
  /** The most bytes of a piece; no piece has bytes on both sides of a multiple of this. */
  static final int PIECE = AddOn.BYTES_MOST;

  /** Error: the replica cannot be read, or its checksums do not fit. */
  static final class Unreadable extends IOException {
    private static final long serialVersionUID = 1;

    Unreadable(Held held, IOException why) {
      super("blk_" + held.blockId() + "_" + held.generation() + ": " + why.getMessage(), why);
    }
  }

  private final Held held;
  private final long end;
  private final InputStream data;
  private final DataInputStream sums;
  private final DataChecksum checksum;
  private final ByteBuffer piece;
  private final CRC32 crc = new CRC32();
  private long next;
  private long offset;

  /** Reads the first {@code end} bytes. */
  BlockReader(Held held, long end) throws Unreadable {
    this(held, 0, end);
  }

  /** Reads from the chunk with byte {@code from} up to {@code end}. */
  BlockReader(Held held, long from, long end) throws Unreadable {
    this.held = held;
    this.end = end;
    InputStream opened = null;
    try {
      sums = new DataInputStream(held.checksums());
      opened = sums;
      checksum = BlockMetadataHeader.readHeader(sums).getChecksum();
      if (PIECE % checksum.getBytesPerChecksum() != 0) {
        throw new IOException(
            "it has a checksum for each " + checksum.getBytesPerChecksum()
                + " bytes; RAIDP takes powers of two (dfs.bytes-per-checksum)");
      }
      long chunks = from / checksum.getBytesPerChecksum();
      next = chunks * checksum.getBytesPerChecksum();
      piece = ByteBuffer.allocateDirect((int) Math.max(0, Math.min(PIECE, end - next)));
      IOUtils.skipFully(sums, chunks * checksum.getChecksumSize());
      data = held.data(next);
    } catch (IOException error) {
      if (opened != null) {
        try {
          opened.close();
        } catch (IOException ignored) {
          error.addSuppressed(ignored);
        }
      }
      throw new Unreadable(held, error);
    }
  }

  /**
   * Returns the CRC-32 of the bytes read so far; of all bytes, once {@link #next} returned null.
   */
  int crc() {
    return (int) crc.getValue();
  }

  /**
   * Checks, at the end, that the content was that of an entry.
   *
   * @throws Unreadable if not.
   */
  void expect(Entry entry) throws Unreadable {
    if (crc() != entry.crc) {
      throw new Unreadable(held, new IOException("it is not what came into parity"));
    }
  }

  /** Returns the offset in the block of the bytes that {@link #next} returned. */
  long offset() {
    return offset;
  }

  /** The next bytes, in direct memory that the next call uses again; null at the end. */
  ByteBuffer next() throws Unreadable {
    if (next >= end) {
      return null;
    }
    try {
      return read();
    } catch (IOException error) {
      throw new Unreadable(held, error);
    }
  }

  private ByteBuffer read() throws IOException {
    int chunk = checksum.getBytesPerChecksum();
    int wanted = (int) Math.min(PIECE, end - next);
    // Reads to the end of the last chunk, because a chunk has one checksum.
    int upToChunk = (wanted + chunk - 1) / chunk * chunk;
    int bytes = (int) Math.min(upToChunk, held.length() - next);
    if (bytes < wanted) {
      throw new EOFException("it has " + held.length() + " bytes, of " + end);
    }
    byte[] content = new byte[bytes];
    int have = 0;
    while (have < bytes) {
      int some = data.read(content, have, bytes - have);
      if (some < 0) {
        throw new EOFException("it ends at byte " + (next + have));
      }
      have += some;
    }
    int checked = held.isFinalized() ? bytes : wanted / chunk * chunk;
    if (checked > 0 && checksum.getChecksumSize() > 0) {
      byte[] expected = new byte[(checked + chunk - 1) / chunk * checksum.getChecksumSize()];
      sums.readFully(expected);
      checksum.verifyChunkedSums(
          ByteBuffer.wrap(content, 0, checked), ByteBuffer.wrap(expected), "the replica", next);
    }
    crc.update(content, 0, wanted);
    piece.clear();
    piece.put(content, 0, wanted);
    piece.flip();
    offset = next;
    next += wanted;
    return piece;
  }

  @Override
  public void close() {
    try {
      data.close();
    } catch (IOException ignored) {
      // The file was only read.
    }
    try {
      sums.close();
    } catch (IOException ignored) {
      // As above.
    }
  }
}
