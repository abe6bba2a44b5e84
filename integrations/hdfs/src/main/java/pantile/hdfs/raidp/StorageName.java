package pantile.hdfs.raidp;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.UUID;

/**
 * Name of the storage of a superchunk: array, disk and partner, in the form of a storage id of
 * HDFS.
 *
 * <p>{@code DS-aaaaaaaa-aaaa-8000-8000-0000iiiijjjj}: 48 bits of the SHA-256 of the array's name,
 * the disk, the partner with whom it shares the superchunk. NameNode, DataNodes and tools need no
 * other table; directories may be renamed and listed in any order.
 */
public final class StorageName {
  private static final String PREFIX = "DS-";

  /** Version and variant of a UUID with custom content. */
  private static final long VERSION = 0x8000;

  private static final long VARIANT = 0x8000;

  /** 48 bits of the hash of the array's name. */
  public final long array;

  /** The disk that the directory is on. */
  public final int disk;

  /** The disk that has the other copy. */
  public final int partner;

  private StorageName(long array, int disk, int partner) {
    this.array = array;
    this.disk = disk;
    this.partner = partner;
  }

  /**
   * Returns the name of the storage on a disk of an array that is paired with one on the partner.
   */
  public static StorageName of(String array, int disk, int partner) {
    return new StorageName(digest(array), disk, partner);
  }

  /** Returns the name in a storage id; null if the id is none of RAIDP. */
  public static StorageName parse(String storageId) {
    if (storageId == null || !storageId.startsWith(PREFIX)) {
      return null;
    }
    UUID id;
    try {
      id = UUID.fromString(storageId.substring(PREFIX.length()));
    } catch (IllegalArgumentException other) {
      return null;
    }
    long high = id.getMostSignificantBits();
    long low = id.getLeastSignificantBits();
    if ((high & 0xffff) != VERSION || low >>> 32 != VARIANT << 16) {
      return null;
    }
    return new StorageName(high >>> 16, (int) (low >>> 16) & 0xffff, (int) low & 0xffff);
  }

  /** The name of the storage that has the other copy. */
  public StorageName mirror() {
    return new StorageName(array, partner, disk);
  }

  /**
   * Returns true for a disk's spare, the storage that is paired with its own disk. It takes copies
   * of blocks whose place is on a disk without a live node.
   */
  public boolean isSpare() {
    return disk == partner;
  }

  /** The name of the storage on the same disk that is paired with another partner. */
  StorageName to(int other) {
    return new StorageName(array, disk, other);
  }

  private static long digest(String array) {
    try {
      byte[] hash =
          MessageDigest.getInstance("SHA-256").digest(array.getBytes(StandardCharsets.UTF_8));
      return ByteBuffer.wrap(hash).getLong() >>> 16;
    } catch (NoSuchAlgorithmException never) {
      throw new IllegalStateException(never);
    }
  }

  /** The storage id. */
  @Override
  public String toString() {
    long low = VARIANT << 48 | (long) disk << 16 | partner;
    return PREFIX + new UUID(array << 16 | VERSION, low);
  }

  @Override
  public boolean equals(Object other) {
    if (!(other instanceof StorageName)) {
      return false;
    }
    StorageName name = (StorageName) other;
    return name.array == array && name.disk == disk && name.partner == partner;
  }

  @Override
  public int hashCode() {
    return Long.hashCode(array) * 31 * 31 + disk * 31 + partner;
  }
}
