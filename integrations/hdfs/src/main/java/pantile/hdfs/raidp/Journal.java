package pantile.hdfs.raidp;

import java.io.ByteArrayOutputStream;
import java.io.Closeable;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.zip.CRC32;

/**
 * A file of records, each stored as a whole or not at all: length, CRC-32, payload.
 *
 * <p>A record that a crash tore is the last one, and is cut off. A bad record with good ones behind
 * it is damage, and the journal is refused. Memory: one record at a time.
 */
final class Journal implements Closeable {
  private static final String FILE = "journal";
  private static final String NEXT = "journal.new";
  private static final int FRAME_BYTES = 8;

  /** The change of a row of 1 TiB. All else is written in records of {@link #PIECE_BYTES}. */
  static final int RECORD_BYTES_MOST = 1 << 28;

  /** Bytes of a piece of the state in a rewritten journal. */
  static final int PIECE_BYTES = 1 << 20;

  private final int recordBytesMost;
  private final Disk.Content file;
  private long end;

  private Journal(Disk.Content file, int recordBytesMost) {
    this.file = file;
    this.recordBytesMost = recordBytesMost;
  }

  /** Writes into a record. */
  interface Writer {
    void write(DataOutputStream to) throws IOException;
  }

  /** Takes the payloads of records, in their order. */
  interface Reader {
    void take(byte[] payload) throws IOException;
  }

  static boolean exists(Disk disk) throws IOException {
    return disk.exists(FILE);
  }

  /**
   * Opens a journal and reads its records.
   *
   * @param cut a torn end is removed, not just left out.
   * @param recordBytesMost longer records are refused.
   */
  static Journal open(Disk disk, boolean cut, int recordBytesMost, Reader reader)
      throws IOException {
    Journal journal = new Journal(disk.open(FILE), recordBytesMost);
    try {
      journal.read(cut, reader);
      return journal;
    } catch (IOException | RuntimeException error) {
      journal.close();
      throw error;
    }
  }

  private void read(boolean cut, Reader reader) throws IOException {
    long size = file.size();
    while (end < size) {
      byte[] payload = record(end, size);
      if (payload == null) {
        break;
      }
      reader.take(payload);
      end += FRAME_BYTES + payload.length;
    }
    if (end < size && goodBehind(end, size)) {
      throw new IOException(
          "the journal of the add-on is damaged at byte " + end
              + "; set the folder aside and start with an empty one, which is filled from the disk");
    }
    if (cut && end < size) {
      file.truncate(end);
      file.force();
    }
  }

  /** Returns the payload at an offset; null if it is not whole. */
  private byte[] record(long offset, long size) throws IOException {
    if (size - offset < FRAME_BYTES) {
      return null;
    }
    ByteBuffer frame = ByteBuffer.allocate(FRAME_BYTES);
    file.read(offset, frame);
    int bytes = frame.getInt(0);
    if (bytes <= 0 || bytes > recordBytesMost || size - offset - FRAME_BYTES < bytes) {
      return null;
    }
    byte[] payload = new byte[bytes];
    file.read(offset + FRAME_BYTES, ByteBuffer.wrap(payload));
    return crc(payload) == frame.getInt(4) ? payload : null;
  }

  /** True if a good record follows one of which only the length is right. */
  private boolean goodBehind(long offset, long size) throws IOException {
    ByteBuffer frame = ByteBuffer.allocate(FRAME_BYTES);
    if (size - offset < FRAME_BYTES) {
      return false;
    }
    file.read(offset, frame);
    int bytes = frame.getInt(0);
    return bytes > 0
        && bytes <= recordBytesMost
        && record(offset + FRAME_BYTES + bytes, size) != null;
  }

  private static int crc(byte[] payload) {
    CRC32 crc = new CRC32();
    crc.update(payload);
    return (int) crc.getValue();
  }

  private static ByteBuffer framed(Writer writer, int recordBytesMost) throws IOException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    writer.write(new DataOutputStream(bytes));
    byte[] payload = bytes.toByteArray();
    if (payload.length > recordBytesMost) {
      throw new IOException(
          "a change of " + payload.length + " bytes is too large for the journal of the add-on,"
              + " which takes " + recordBytesMost);
    }
    ByteBuffer record = ByteBuffer.allocate(FRAME_BYTES + payload.length);
    record.putInt(payload.length).putInt(crc(payload)).put(payload);
    record.flip();
    return record;
  }

  long size() {
    return end;
  }

  /**
   * Makes a record for {@link #append}.
   *
   * @throws IOException if it is too large; nothing was written.
   */
  ByteBuffer framed(Writer writer) throws IOException {
    return framed(writer, recordBytesMost);
  }

  /** Adds a record, durably. */
  void append(ByteBuffer record) throws IOException {
    int bytes = record.remaining();
    file.write(end, record);
    file.force();
    end += bytes;
  }

  /** A journal that is being written to take the place of one that may be there. */
  static final class Next implements Closeable {
    private final Disk disk;
    private final Disk.Content file;
    private final int recordBytesMost;
    private long end;

    Next(Disk disk, int recordBytesMost) throws IOException {
      this.disk = disk;
      this.recordBytesMost = recordBytesMost;
      file = disk.open(NEXT);
      file.truncate(0);
    }

    void add(Writer writer) throws IOException {
      ByteBuffer record = framed(writer, recordBytesMost);
      int bytes = record.remaining();
      file.write(end, record);
      end += bytes;
    }

    /** Makes added records durable. */
    void force() throws IOException {
      file.force();
    }

    /** Takes the place of the journal, after {@link #force}. */
    Journal replace() throws IOException {
      disk.replace(NEXT, FILE);
      Journal journal = open(disk, false, recordBytesMost, payload -> {});
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

  @Override
  public void close() throws IOException {
    file.close();
  }
}
