package pantile.hdfs.raidp;

import java.io.IOException;
import java.io.InputStream;

/** A replica that a disk has: what it is, and its bytes. */
interface Held {
  long blockId();

  long generation();

  /** Bytes that are on the disk. */
  long length();

  /** Whether it is complete: such a replica does not change, but by an append or a truncation. */
  boolean isFinalized();

  /** The disk that shares the superchunk it is in; -1 if its storage is none of RAIDP. */
  int partner();

  /** Its bytes from an offset on. */
  InputStream data(long offset) throws IOException;

  /** Its file of checksums, from the header on. */
  InputStream checksums() throws IOException;

  /**
   * Whether its first bytes are those of an entry. One that is not complete, and has an entry, is
   * being appended to, which leaves them as they are.
   */
  default boolean has(Entry entry) {
    return isFinalized()
        ? generation() == entry.generation && length() == entry.length
        : length() >= entry.length;
  }
}
