package pantile.hdfs.raidp;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Dataset factories with a planted fault each, which tests of parity must find. */
public final class Faults {
  private Faults() {}

  /** An add-on some of whose methods are replaced. */
  static class Changed implements AddOn {
    final AddOn real;

    Changed(AddOn real) {
      this.real = real;
    }

    @Override
    public Header header() {
      return real.header();
    }

    @Override
    public List<Entry> entries() throws IOException {
      return real.entries();
    }

    @Override
    public void read(int row, long offset, ByteBuffer to) throws IOException {
      real.read(row, offset, to);
    }

    @Override
    public Change change() throws IOException {
      return real.change();
    }

    @Override
    public long freeBytes() throws IOException {
      return real.freeBytes();
    }

    @Override
    public void close() throws IOException {
      real.close();
    }
  }

  /** A change some of whose methods are replaced. */
  static class ChangedChange implements AddOn.Change {
    final AddOn.Change real;

    ChangedChange(AddOn.Change real) {
      this.real = real;
    }

    @Override
    public void clear(int row) throws IOException {
      real.clear(row);
    }

    @Override
    public void fold(int row, int partner, long offset, ByteBuffer content) throws IOException {
      real.fold(row, partner, offset, content);
    }

    @Override
    public void commit(Collection<Long> removed, Collection<Entry> added) throws IOException {
      real.commit(removed, added);
    }

    @Override
    public void close() throws IOException {
      real.close();
    }
  }

  /**
   * Fault: journal and parity are written in no order; parity stays in memory until the file
   * `load.stop` exists beside it.
   */
  public static final class NoJournal extends DatasetFactory {
    @Override
    AddOn addOn(Settings settings, String pool) throws IOException {
      if (!settings.addOn.startsWith("/")) {
        return super.addOn(settings, pool);
      }
      Disk disk = Disk.folder(Paths.get(settings.addOn), false);
      if (!LocalAddOn.exists(disk)) {
        LocalAddOn.create(disk, settings.header(pool));
      }
      return new LocalAddOn(new Late(disk, Paths.get(settings.addOn).resolveSibling("load.stop")), false);
    }
  }

  /** A disk on which parity is written only once a file exists. */
  private static final class Late implements Disk {
    private final Disk real;
    private final Path signal;

    Late(Disk real, Path signal) {
      this.real = real;
      this.signal = signal;
    }

    @Override
    public boolean exists(String name) throws IOException {
      return real.exists(name);
    }

    @Override
    public Content open(String name) throws IOException {
      Content content = real.open(name);
      return name.equals("parity") ? new LateContent(content, signal) : content;
    }

    @Override
    public void replace(String from, String to) throws IOException {
      real.replace(from, to);
    }

    @Override
    public void close() throws IOException {
      real.close();
    }
  }

  private static final class LateContent implements Disk.Content {
    private final Disk.Content real;
    private final Map<Long, byte[]> held = new HashMap<>();

    LateContent(Disk.Content real, Path signal) {
      this.real = real;
      Thread thread = new Thread(() -> write(signal));
      thread.setDaemon(true);
      thread.start();
    }

    private void write(Path signal) {
      while (true) {
        try {
          Thread.sleep(1_000);
          synchronized (this) {
            if (Files.exists(signal)) {
              for (Map.Entry<Long, byte[]> one : held.entrySet()) {
                real.write(one.getKey(), ByteBuffer.wrap(one.getValue()));
              }
              held.clear();
            }
          }
        } catch (IOException | InterruptedException end) {
          return;
        }
      }
    }

    @Override
    public synchronized void read(long offset, ByteBuffer to) throws IOException {
      if (held.containsKey(offset)) {
        to.put(held.get(offset));
      } else {
        real.read(offset, to);
      }
    }

    @Override
    public synchronized void write(long offset, ByteBuffer from) {
      byte[] bytes = new byte[from.remaining()];
      from.get(bytes);
      held.put(offset, bytes);
    }

    @Override
    public void force() {}

    @Override
    public long size() throws IOException {
      return real.size();
    }

    @Override
    public void truncate(long bytes) throws IOException {
      real.truncate(bytes);
    }

    @Override
    public void close() throws IOException {
      real.close();
    }
  }

  /** Fault: the entry of a deleted block is removed, and its bytes stay in parity. */
  public static final class ForgottenDelete extends DatasetFactory {
    private interface Call {
      void make() throws IOException;
    }

    @Override
    AddOn addOn(Settings settings, String pool) throws IOException {
      return new Changed(super.addOn(settings, pool)) {
        @Override
        public Change change() throws IOException {
          return new ChangedChange(real.change()) {
            private final List<Call> calls = new ArrayList<>();

            @Override
            public void fold(int row, int partner, long offset, ByteBuffer content) {
              ByteBuffer copy = ByteBuffer.allocate(content.remaining());
              copy.put(content.duplicate()).flip();
              calls.add(() -> real.fold(row, partner, offset, copy));
            }

            @Override
            public void commit(Collection<Long> removed, Collection<Entry> added)
                throws IOException {
              if (!added.isEmpty()) {
                for (Call call : calls) {
                  call.make();
                }
              }
              real.commit(removed, added);
            }
          };
        }
      };
    }
  }

  /** Fault: the disk in the middle uses the coefficients of its partners in reverse order. */
  public static final class WrongWeight extends DatasetFactory {
    @Override
    AddOn addOn(Settings settings, String pool) throws IOException {
      return new Changed(super.addOn(settings, pool)) {
        @Override
        public Change change() throws IOException {
          return new ChangedChange(real.change()) {
            @Override
            public void fold(int row, int partner, long offset, ByteBuffer content)
                throws IOException {
              boolean middle = settings.disk == settings.disks / 2;
              int other = middle ? settings.disks - 1 - partner : partner;
              real.fold(row, other, offset, content);
            }
          };
        }
      };
    }
  }
}
