package pantile.hdfs.raidp;

import java.io.IOException;
import java.io.InputStream;

/** A replica that a disk has, as it was when it was looked at, and its bytes. */
abstract class Held {
  private final long blockId;
  private final long generation;
  private final long length;
  private final boolean isFinalized;
  private final int partner;

  Held(long blockId, long generation, long length, boolean isFinalized, StorageName storage) {
    this.blockId = blockId;
    this.generation = generation;
    this.length = length;
    this.isFinalized = isFinalized;
    partner = storage == null ? -1 : storage.partner;
  }

  final long blockId() {
    return blockId;
  }

  final long generation() {
    return generation;
  }

  /** Bytes that are on the disk. */
  final long length() {
    return length;
  }

  /** Returns true for a complete replica, which changes only by an append or a truncation. */
  final boolean isFinalized() {
    return isFinalized;
  }

  /**
   * Returns the disk that shares the superchunk of the replica; -1 if its storage is none of RAIDP.
   */
  final int partner() {
    return partner;
  }

  /** Returns the bytes of the replica from an offset on. */
  abstract InputStream data(long offset) throws IOException;

  /** Returns the replica's file of checksums, from the header on. */
  abstract InputStream checksums() throws IOException;
}
