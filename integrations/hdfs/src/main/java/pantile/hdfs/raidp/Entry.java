package pantile.hdfs.raidp;

import java.io.DataInput;
import java.io.DataOutput;
import java.io.IOException;
import java.util.Arrays;
import java.util.List;

/**
 * A block that is in the parity of an add-on: the first {@code length} bytes of it, in a row.
 *
 * <p>Block id, generation stamp and length stand for one content everywhere in HDFS, so a mirror's
 * replica with the same three can be used in the place of the disk's own.
 */
public final class Entry {
  /** Bytes of an entry in a record or message. */
  static final int BYTES = 34;

  public final long blockId;
  public final long generation;
  public final long length;

  /** The disk that shares the superchunk of the block. */
  public final int partner;

  public final int row;

  /** CRC-32 of these bytes, which a recovery must match. */
  public final int crc;

  /** Makes an entry of these values. */
  public Entry(long blockId, long generation, long length, int partner, int row, int crc) {
    this.blockId = blockId;
    this.generation = generation;
    this.length = length;
    this.partner = partner;
    this.row = row;
    this.crc = crc;
  }

  /** Returns the identity of its bytes: block id, generation and length. */
  List<Long> content() {
    return Arrays.asList(blockId, generation, length);
  }

  static Entry read(DataInput from) throws IOException {
    return new Entry(
        from.readLong(),
        from.readLong(),
        from.readLong(),
        from.readUnsignedShort(),
        from.readInt(),
        from.readInt());
  }

  void write(DataOutput to) throws IOException {
    to.writeLong(blockId);
    to.writeLong(generation);
    to.writeLong(length);
    to.writeShort(partner);
    to.writeInt(row);
    to.writeInt(crc);
  }

  @Override
  public String toString() {
    return "blk_" + blockId + "_" + generation + " of " + length + " bytes (partner " + partner
        + ", row " + row + ")";
  }
}
