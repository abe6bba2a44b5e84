package pantile.hdfs.raidp;

import java.io.DataInput;
import java.io.DataOutput;
import java.io.IOException;
import pantile.hdfs.RaidpCode;

/** Owner and geometry of an add-on: the first record of its journal. */
public final class Header {
  static final int VERSION = 2;

  /**
   * Bytes of a tile: small blocks take few tiles, and a change of a large block is written in few
   * pieces.
   */
  static final int TILE_BYTES = 64 * 1024;

  private static final int MAGIC = 0x52414944;

  /** Features that a reader must know; none is defined. */
  private static final long FEATURES_KNOWN = 0;

  public final String array;
  public final int disks;
  public final int disk;
  public final int tiles;

  /** The block pool whose blocks are in the add-on. */
  public final String pool;

  /** Describes an add-on with so many tiles for a disk of an array. */
  public Header(String array, int disks, int disk, int tiles, String pool) {
    this.array = array;
    this.disks = disks;
    this.disk = disk;
    this.tiles = tiles;
    this.pool = pool;
  }

  /**
   * Reads the output of {@link #write}.
   *
   * @throws IOException if it is of another format; the message has the remedy.
   */
  static Header read(DataInput from) throws IOException {
    if (from.readInt() != MAGIC) {
      throw new IOException("this is no add-on of RAIDP");
    }
    int version = from.readUnsignedShort();
    long features = from.readLong();
    if (version != VERSION || (features & ~FEATURES_KNOWN) != 0) {
      throw new IOException(
          "the add-on has version " + version + " and features " + Long.toHexString(features)
              + ", and this jar knows version " + VERSION + " without any; use the jar that made it");
    }
    String spec = from.readUTF();
    Header header =
        new Header(
            from.readUTF(),
            from.readUnsignedShort(),
            from.readUnsignedShort(),
            tiles(from),
            from.readUTF());
    if (!spec.equals(RaidpCode.spec(header.disks))) {
      throw new IOException("the add-on is of code " + spec + ", which this jar does not know");
    }
    return header;
  }

  private static int tiles(DataInput from) throws IOException {
    int tileBytes = from.readInt();
    if (tileBytes != TILE_BYTES) {
      throw new IOException(
          "the add-on has tiles of " + tileBytes + " bytes, and this jar knows " + TILE_BYTES);
    }
    return from.readInt();
  }

  void write(DataOutput to) throws IOException {
    to.writeInt(MAGIC);
    to.writeShort(VERSION);
    to.writeLong(0);
    to.writeUTF(RaidpCode.spec(disks));
    to.writeUTF(array);
    to.writeShort(disks);
    to.writeShort(disk);
    to.writeInt(TILE_BYTES);
    to.writeInt(tiles);
    to.writeUTF(pool);
  }

  @Override
  public String toString() {
    return "disk " + disk + " of " + disks + " of array " + array + " with block pool " + pool;
  }
}
