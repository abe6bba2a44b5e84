package pantile.hdfs.raidp;

import java.io.ByteArrayOutputStream;
import java.io.Closeable;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.zip.CRC32;

/**
 * A file of records, each of which is there as a whole or not at all: length, CRC-32, payload.
 *
 * <p>A record that a crash tore is the last one, and is cut off. A bad one with good ones behind it
 * is damage, and refused.
 */
final class Journal implements Closeable {
  private static final String FILE = "journal";
  private static final String NEXT = "journal.new";
  private static final int FRAME_BYTES = 8;

  /** More than any record has: a commit of a row of 1 TiB. */
  private static final int PAYLOAD_BYTES_MOST = 1 << 28;

  private final Disk disk;
  private Disk.Content file;
  private long end;

  private Journal(Disk disk, Disk.Content file) {
    this.disk = disk;
    this.file = file;
  }

  /** Writes into a record. */
  interface Writer {
    void write(DataOutputStream to) throws IOException;
  }

  static boolean exists(Disk disk) throws IOException {
    return disk.exists(FILE);
  }

  /** Opens one and gives its records; {@code cut}: a torn end is removed, not just left out. */
  static Journal open(Disk disk, boolean cut, List<byte[]> records) throws IOException {
    Journal journal = new Journal(disk, disk.open(FILE));
    long size = journal.file.size();
    while (journal.end < size) {
      byte[] payload = journal.record(journal.end, size);
      if (payload == null) {
        break;
      }
      records.add(payload);
      journal.end += FRAME_BYTES + payload.length;
    }
    if (journal.end < size && journal.goodBehind(journal.end, size)) {
      journal.close();
      throw new IOException(
          "the journal of the add-on is damaged at byte " + journal.end
              + "; set the folder aside and start with an empty one, which is filled from the disk");
    }
    if (cut && journal.end < size) {
      journal.file.truncate(journal.end);
      journal.file.force();
    }
    return journal;
  }

  /** The payload at an offset; null if it is not whole. */
  private byte[] record(long offset, long size) throws IOException {
    if (size - offset < FRAME_BYTES) {
      return null;
    }
    ByteBuffer frame = ByteBuffer.allocate(FRAME_BYTES);
    file.read(offset, frame);
    int bytes = frame.getInt(0);
    if (bytes <= 0 || bytes > PAYLOAD_BYTES_MOST || size - offset - FRAME_BYTES < bytes) {
      return null;
    }
    byte[] payload = new byte[bytes];
    file.read(offset + FRAME_BYTES, ByteBuffer.wrap(payload));
    return crc(payload) == frame.getInt(4) ? payload : null;
  }

  /** Whether a whole record is right behind one whose length is right and whose content is not. */
  private boolean goodBehind(long offset, long size) throws IOException {
    ByteBuffer frame = ByteBuffer.allocate(FRAME_BYTES);
    if (size - offset < FRAME_BYTES) {
      return false;
    }
    file.read(offset, frame);
    int bytes = frame.getInt(0);
    return bytes > 0
        && bytes <= PAYLOAD_BYTES_MOST
        && record(offset + FRAME_BYTES + bytes, size) != null;
  }

  private static int crc(byte[] payload) {
    CRC32 crc = new CRC32();
    crc.update(payload);
    return (int) crc.getValue();
  }

  private static ByteBuffer framed(Writer writer) throws IOException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    writer.write(new DataOutputStream(bytes));
    byte[] payload = bytes.toByteArray();
    if (payload.length > PAYLOAD_BYTES_MOST) {
      throw new IOException("a change of " + payload.length + " bytes is too large for the journal");
    }
    ByteBuffer record = ByteBuffer.allocate(FRAME_BYTES + payload.length);
    record.putInt(payload.length).putInt(crc(payload)).put(payload);
    record.flip();
    return record;
  }

  long size() {
    return end;
  }

  /** Adds a record, durably. */
  void append(Writer writer) throws IOException {
    ByteBuffer record = framed(writer);
    int bytes = record.remaining();
    file.write(end, record);
    file.force();
    end += bytes;
  }

  /** A journal of these records alone, in the place of one that may be there. */
  static Journal replace(Disk disk, List<Writer> writers) throws IOException {
    Disk.Content next = disk.open(NEXT);
    long end = 0;
    try {
      next.truncate(0);
      for (Writer writer : writers) {
        ByteBuffer record = framed(writer);
        int bytes = record.remaining();
        next.write(end, record);
        end += bytes;
      }
      next.force();
    } finally {
      next.close();
    }
    disk.replace(NEXT, FILE);
    List<byte[]> written = new ArrayList<>();
    Journal journal = open(disk, false, written);
    if (journal.end != end) {
      journal.close();
      throw new IOException("the journal of the add-on is not what was written");
    }
    return journal;
  }

  @Override
  public void close() throws IOException {
    file.close();
  }
}
