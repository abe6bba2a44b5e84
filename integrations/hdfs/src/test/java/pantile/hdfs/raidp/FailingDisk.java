package pantile.hdfs.raidp;

import java.io.IOException;
import java.nio.ByteBuffer;

/** A disk some of whose writes fail, or wait. */
final class FailingDisk {
  private FailingDisk() {}

  /** Called before a write or a force of a file; it may throw, or wait. */
  interface Gate {
    void pass(String file, String what) throws IOException;
  }

  /** Makes operations on files of certain names fail. */
  interface Fault {
    boolean hits(String file);
  }

  static Disk of(Disk disk, Fault fault) {
    return gated(
        disk,
        (file, what) -> {
          if (what.equals("write") && fault.hits(file)) {
            throw new IOException("No space left on device");
          }
        });
  }

  static Disk gated(Disk disk, Gate gate) {
    return new Disk() {
      @Override
      public boolean exists(String name) throws IOException {
        return disk.exists(name);
      }

      @Override
      public Content open(String name) throws IOException {
        return content(name, disk.open(name), gate);
      }

      @Override
      public void replace(String from, String to) throws IOException {
        disk.replace(from, to);
      }

      @Override
      public void close() throws IOException {
        disk.close();
      }
    };
  }

  private static Disk.Content content(String name, Disk.Content file, Gate gate) {
    return new Disk.Content() {
      @Override
      public long size() throws IOException {
        return file.size();
      }

      @Override
      public void read(long offset, ByteBuffer to) throws IOException {
        file.read(offset, to);
      }

      @Override
      public void write(long offset, ByteBuffer from) throws IOException {
        gate.pass(name, "write");
        file.write(offset, from);
      }

      @Override
      public void truncate(long bytes) throws IOException {
        file.truncate(bytes);
      }

      @Override
      public void force() throws IOException {
        gate.pass(name, "force");
        file.force();
      }

      @Override
      public void close() throws IOException {
        file.close();
      }
    };
  }
}
