package pantile;

/** Bytes of a shard. */
public final class Range {
  /** The column of the shard. */
  public final int column;

  /** The first byte. */
  public final int offset;

  /** The count of bytes. */
  public final int bytes;

  /** Makes a range. */
  public Range(int column, int offset, int bytes) {
    this.column = column;
    this.offset = offset;
    this.bytes = bytes;
  }

  @Override
  public String toString() {
    return "bytes " + offset + " to " + (offset + (long) bytes) + " of column " + column;
  }
}
