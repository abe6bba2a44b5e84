package pantile.hdfs.raidp;

import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;

/** A disk in memory that fails from the n-th change on, as after kill -9 or loss of power. */
final class CrashingDisk implements Disk {
  static final class Crash extends IOException {
    private static final long serialVersionUID = 1;
  }

  private static final class File {
    byte[] now = new byte[0];

    /** Content when it was last made durable. */
    byte[] durable = new byte[0];

    /** Writes since then: offset and bytes. */
    final List<Object[]> loose = new ArrayList<>();
  }

  private final Map<String, File> files = new HashMap<>();
  private final int steps;
  private int step;

  /** Makes a disk that crashes at a step; -1: never. */
  CrashingDisk(int steps) {
    this.steps = steps;
  }

  /** Returns the number of steps so far. */
  int steps() {
    return step;
  }

  private boolean isLast() throws Crash {
    if (steps >= 0 && step > steps) {
      throw new Crash();
    }
    return step++ == steps;
  }

  /** Returns the disk as the next process finds it. */
  CrashingDisk afterKill() {
    CrashingDisk next = new CrashingDisk(-1);
    files.forEach((name, file) -> {
      File copy = new File();
      copy.now = file.now.clone();
      copy.durable = copy.now.clone();
      next.files.put(name, copy);
    });
    return next;
  }

  /**
   * Returns the disk after a loss of power: of the writes that were not made durable, a random part
   * is there.
   */
  CrashingDisk afterPowerLoss(Random random) {
    CrashingDisk next = new CrashingDisk(-1);
    files.forEach((name, file) -> {
      File copy = new File();
      copy.now = file.durable.clone();
      for (Object[] write : file.loose) {
        byte[] bytes = (byte[]) write[1];
        if (random.nextBoolean()) {
          int kept = random.nextBoolean() ? bytes.length : random.nextInt(bytes.length + 1);
          copy.now = put(copy.now, (long) write[0], bytes, kept);
        }
      }
      copy.durable = copy.now.clone();
      next.files.put(name, copy);
    });
    return next;
  }

  private static byte[] put(byte[] file, long offset, byte[] bytes, int count) {
    byte[] grown = Arrays.copyOf(file, Math.max(file.length, (int) offset + count));
    System.arraycopy(bytes, 0, grown, (int) offset, count);
    return grown;
  }

  @Override
  public boolean exists(String name) {
    return files.containsKey(name);
  }

  @Override
  public Content open(String name) {
    File file = files.computeIfAbsent(name, absent -> new File());
    return new Content() {
      @Override
      public long size() {
        return file.now.length;
      }

      @Override
      public void read(long offset, ByteBuffer to) throws IOException {
        if (offset + to.remaining() > file.now.length) {
          throw new EOFException();
        }
        to.put(file.now, (int) offset, to.remaining());
      }

      @Override
      public void write(long offset, ByteBuffer from) throws IOException {
        byte[] bytes = new byte[from.remaining()];
        from.get(bytes);
        boolean last = isLast();
        int written = last ? bytes.length / 2 : bytes.length;
        file.now = put(file.now, offset, bytes, written);
        file.loose.add(new Object[] {offset, bytes});
        if (last) {
          throw new Crash();
        }
      }

      @Override
      public void truncate(long bytes) throws IOException {
        if (isLast()) {
          throw new Crash();
        }
        file.now = Arrays.copyOf(file.now, (int) Math.min(bytes, file.now.length));
        file.durable = file.now.clone();
        file.loose.clear();
      }

      @Override
      public void force() throws IOException {
        if (isLast()) {
          throw new Crash();
        }
        file.durable = file.now.clone();
        file.loose.clear();
      }

      @Override
      public void close() {}
    };
  }

  @Override
  public void replace(String from, String to) throws IOException {
    if (isLast()) {
      throw new Crash();
    }
    files.put(to, files.remove(from));
  }

  @Override
  public void close() {}
}
