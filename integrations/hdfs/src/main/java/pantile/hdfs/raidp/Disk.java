package pantile.hdfs.raidp;

import java.io.Closeable;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.channels.OverlappingFileLockException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;

/** Storage of an add-on: tests use one that fails at any moment. */
interface Disk extends Closeable {
  /** Returns true if there is such a file. */
  boolean exists(String name) throws IOException;

  /** Opens a file; for writing, it is created if necessary. */
  Content open(String name) throws IOException;

  /** Puts a file in the place of another one, durably. */
  void replace(String from, String to) throws IOException;

  /** A file that is open. */
  interface Content extends Closeable {
    long size() throws IOException;

    /**
     * Fills the rest of a buffer.
     *
     * @throws EOFException if there are fewer bytes.
     */
    void read(long offset, ByteBuffer to) throws IOException;

    /** Writes all that remains of a buffer. */
    void write(long offset, ByteBuffer from) throws IOException;

    void truncate(long bytes) throws IOException;

    /** Returns once all that was written survives a loss of power. */
    void force() throws IOException;
  }

  /**
   * Opens a folder. One process at a time can write to it, which a lock ensures.
   *
   * @throws IOException if it is not there, or another process writes it.
   */
  static Disk folder(Path folder, boolean readOnly) throws IOException {
    return new Folder(folder, readOnly);
  }

  /** See {@link #folder}. */
  final class Folder implements Disk {
    private final Path folder;
    private final boolean readOnly;
    private final FileChannel lock;

    private Folder(Path folder, boolean readOnly) throws IOException {
      this.folder = folder;
      this.readOnly = readOnly;
      if (!Files.isDirectory(folder)) {
        throw new IOException("the folder " + folder + " of the add-on is not there; make it");
      }
      lock = readOnly ? null : lock(folder);
    }

    private static FileChannel lock(Path folder) throws IOException {
      FileChannel channel =
          FileChannel.open(
              folder.resolve("lock"), StandardOpenOption.CREATE, StandardOpenOption.WRITE);
      FileLock held;
      try {
        held = channel.tryLock();
      } catch (OverlappingFileLockException here) {
        held = null;
      }
      if (held == null) {
        channel.close();
        throw new IOException("the add-on in " + folder + " is being written by another process");
      }
      return channel;
    }

    @Override
    public boolean exists(String name) {
      return Files.exists(folder.resolve(name));
    }

    @Override
    public Content open(String name) throws IOException {
      Path file = folder.resolve(name);
      if (readOnly) {
        return new Open(FileChannel.open(file, StandardOpenOption.READ));
      }
      return new Open(
          FileChannel.open(
              file,
              StandardOpenOption.CREATE,
              StandardOpenOption.READ,
              StandardOpenOption.WRITE));
    }

    @Override
    public void replace(String from, String to) throws IOException {
      Files.move(
          folder.resolve(from),
          folder.resolve(to),
          StandardCopyOption.ATOMIC_MOVE,
          StandardCopyOption.REPLACE_EXISTING);
      try (FileChannel directory = FileChannel.open(folder, StandardOpenOption.READ)) {
        directory.force(true);
      }
    }

    @Override
    public void close() throws IOException {
      if (lock != null) {
        lock.close();
      }
    }
  }

  /** A file of a folder. */
  final class Open implements Content {
    private final FileChannel channel;

    private Open(FileChannel channel) {
      this.channel = channel;
    }

    @Override
    public long size() throws IOException {
      return channel.size();
    }

    @Override
    public void read(long offset, ByteBuffer to) throws IOException {
      while (to.hasRemaining()) {
        int bytes = channel.read(to, offset);
        if (bytes < 0) {
          throw new EOFException("the file ends at byte " + offset);
        }
        offset += bytes;
      }
    }

    @Override
    public void write(long offset, ByteBuffer from) throws IOException {
      while (from.hasRemaining()) {
        offset += channel.write(from, offset);
      }
    }

    @Override
    public void truncate(long bytes) throws IOException {
      channel.truncate(bytes);
    }

    @Override
    public void force() throws IOException {
      channel.force(false);
    }

    @Override
    public void close() throws IOException {
      channel.close();
    }
  }
}
