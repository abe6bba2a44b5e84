package pantile.hdfs.raidp;

import java.io.Closeable;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Collection;
import java.util.List;

/**
 * The add-on of a disk: for each row, the sum of one block of each superchunk, with the code's
 * coefficients, and which blocks these are.
 *
 * <p>Invariant: parity is that sum over the entries, at every moment, even after a crash of the
 * writer. Safe for several threads.
 */
public interface AddOn extends Closeable {
  /** The most bytes of a call that moves bytes. */
  int BYTES_MOST = 1 << 20;

  /** Returns the disk and the geometry of the add-on. */
  Header header();

  /** Returns a copy of the entries: the blocks that are in parity. */
  List<Entry> entries() throws IOException;

  /**
   * Fills a buffer with parity of a row from an offset on; zeros where the row ends. At most {@link
   * #BYTES_MOST} bytes.
   *
   * @throws IOException if a tile has changed or cannot be read.
   */
  void read(int row, long offset, ByteBuffer to) throws IOException;

  /** Starts a change, once no other is under way. It must be closed. */
  Change change() throws IOException;

  /** Returns the bytes of the parity file that no row uses. */
  long freeBytes() throws IOException;

  /** A change of parity and entries, which happens as a whole or not at all. */
  interface Change extends Closeable {
    /** Sets a row's parity to zeros, to be summed up again. */
    void clear(int row) throws IOException;

    /**
     * Adds content of a partner's superchunk to a row, with its coefficient; a second call with the
     * same content removes it. At most {@link #BYTES_MOST} bytes.
     *
     * @throws IOException if there is no room, or the add-on cannot be written.
     */
    void fold(int row, int partner, long offset, ByteBuffer content) throws IOException;

    /**
     * Makes the whole change visible at once, and durable.
     *
     * @throws IOException if it was not; unless the add-on says so itself, nothing has changed.
     */
    void commit(Collection<Long> removed, Collection<Entry> added) throws IOException;

    /** Ends the change; without {@link #commit} nothing was changed. */
    @Override
    void close() throws IOException;
  }
}
