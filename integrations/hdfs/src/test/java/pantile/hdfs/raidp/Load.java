package pantile.hdfs.raidp;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.TreeMap;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.HdfsConfiguration;

/**
 * Changes files and prints each change, or compares the present files with the printed changes.
 *
 * <p>{@code write STOP KEEP} writes, appends to and deletes files until the file STOP appears, also
 * while DataNodes fail. It deletes none while the file KEEP exists. {@code fill SEED N} writes N
 * files. {@code thin LOG SEED SHARE CUTS} deletes so many in a hundred of the files in a log, and
 * truncates as many more if CUTS is {@code true}. {@code compare LOG} compares.
 */
public final class Load {
  private static final int THREADS = 3;

  /** The most files of a thread: more would fill the add-ons in a long run. */
  private static final int FILES_MOST = 40;

  private Load() {}

  public static void main(String[] arguments) throws Exception {
    if (arguments[0].equals("write")) {
      write(new File(arguments[1]), new File(arguments[2]));
    } else if (arguments[0].equals("fill")) {
      fill(Integer.parseInt(arguments[1]), Integer.parseInt(arguments[2]));
    } else if (arguments[0].equals("thin")) {
      int share = Integer.parseInt(arguments[3]);
      thin(arguments[1], Integer.parseInt(arguments[2]), share, arguments[4].equals("true"));
    } else {
      compare(arguments[1]);
    }
    System.exit(0);
  }

  /** Returns the content of a file, in which every byte can be computed separately. */
  private static byte[] content(int seed, int bytes) {
    byte[] content = new byte[bytes];
    new Random(seed).nextBytes(content);
    return content;
  }

  private static synchronized void say(String what) {
    System.out.println(what);
  }

  private static void write(File stop, File keep) throws Exception {
    List<Thread> threads = new ArrayList<>();
    int[] done = new int[2];
    for (int t = 0; t < THREADS; t++) {
      int number = t;
      Thread thread =
          new Thread(
              () -> {
                try (FileSystem files = FileSystem.newInstance(new HdfsConfiguration())) {
                  work(files, number, stop, keep, done);
                } catch (IOException error) {
                  say("cannot work: " + error);
                  System.exit(1);
                }
              });
      threads.add(thread);
      thread.start();
    }
    for (Thread thread : threads) {
      thread.join();
    }
    say("# " + done[0] + " changes, " + done[1] + " that failed");
  }

  private static void work(
      FileSystem files, int thread, File stop, File keep, int[] done) {
    Random random = new Random();
    List<String> there = new ArrayList<>();
    for (int i = 0; !stop.exists(); i++) {
      int what = random.nextInt(keep.exists() ? 8 : 10);
      int seed = thread * 1_000_000 + i;
      String name = "/t" + thread + "-" + i;
      try {
        if (there.size() < 3 || what < 6 && there.size() < FILES_MOST) {
          int bytes = random.nextInt(3) == 0 ? 1 + random.nextInt(2_500_000) : 1 + random.nextInt(300_000);
          say("unsure " + name);
          try (OutputStream to = files.create(new Path(name), true)) {
            to.write(content(seed, bytes));
          }
          say("is " + name + " " + seed + ":" + bytes);
          there.add(name);
        } else if (what < 8) {
          name = there.get(random.nextInt(there.size()));
          int bytes = 1 + random.nextInt(200_000);
          say("unsure " + name);
          there.remove(name);
          try (OutputStream to = files.append(new Path(name))) {
            to.write(content(seed, bytes));
          }
          say("more " + name + " " + seed + ":" + bytes);
          there.add(name);
        } else {
          name = there.remove(random.nextInt(there.size()));
          say("unsure " + name);
          files.delete(new Path(name), false);
        }
        synchronized (done) {
          done[0]++;
        }
      } catch (IOException | IllegalArgumentException error) {
        // The outcome of the change stays unknown. A stream that throws the same error from `write`
        // and `close` ends as IllegalArgumentException: a Throwable does not suppress itself.
        synchronized (done) {
          done[1]++;
        }
      }
    }
  }

  private static void fill(int seed, int count) throws IOException {
    FileSystem files = FileSystem.get(new HdfsConfiguration());
    Random random = new Random(seed);
    for (int i = 0; i < count; i++) {
      String name = "/f" + seed + "-" + i;
      int bytes = 1 + random.nextInt(random.nextInt(8) == 0 ? 1_500_000 : 300_000);
      try (OutputStream to = files.create(new Path(name), true)) {
        to.write(content(seed * 1_000_000 + i, bytes));
      }
      say("is " + name + " " + (seed * 1_000_000 + i) + ":" + bytes);
    }
  }

  private static void thin(String log, int seed, int share, boolean cuts) throws Exception {
    DistributedFileSystem files =
        (DistributedFileSystem) FileSystem.get(new HdfsConfiguration());
    Random random = new Random(seed);
    TreeMap<String, Long> lengths = new TreeMap<>();
    for (String line : Files.readAllLines(Paths.get(log))) {
      String[] words = line.split(" ");
      if (words[0].equals("is")) {
        lengths.put(words[1], Long.parseLong(words[2].split(":")[1]));
      } else if (words[0].equals("cut")) {
        lengths.put(words[1], Long.parseLong(words[2]));
      } else {
        lengths.remove(words[1]);
      }
    }
    List<String> cut = new ArrayList<>();
    for (String name : lengths.keySet()) {
      int drawn = random.nextInt(100);
      long bytes = lengths.get(name) / 2;
      if (drawn < share) {
        files.delete(new Path(name), false);
        say("unsure " + name);
      } else if (cuts && drawn < 2 * share && bytes > 0) {
        files.truncate(new Path(name), bytes);
        cut.add(name);
        say("cut " + name + " " + bytes);
      }
    }
    for (String name : cut) {
      for (int i = 0; !files.isFileClosed(new Path(name)); i++) {
        if (i > 1200) {
          throw new IOException("the truncate of " + name + " does not end");
        }
        Thread.sleep(100);
      }
    }
  }

  /** Compares the files whose last change was acknowledged with the expected content. */
  private static void compare(String log) throws Exception {
    TreeMap<String, String> parts = new TreeMap<>();
    TreeMap<String, String> last = new TreeMap<>();
    TreeMap<String, Integer> cuts = new TreeMap<>();
    for (String line : Files.readAllLines(Paths.get(log))) {
      String[] words = line.split(" ");
      if (words[0].equals("cut")) {
        cuts.put(words[1], Integer.parseInt(words[2]));
      } else if (words[0].equals("unsure")) {
        last.put(words[1], "unsure");
      } else if (words[0].equals("is") || words[0].equals("more")) {
        String before = words[0].equals("is") ? "" : parts.get(words[1]) + " ";
        parts.put(words[1], before + words[2]);
        last.put(words[1], "sure");
      }
    }
    FileSystem files = FileSystem.get(new HdfsConfiguration());
    int compared = 0;
    for (String name : parts.keySet()) {
      if (!last.get(name).equals("sure")) {
        continue;
      }
      try (InputStream from = files.open(new Path(name))) {
        for (String part : parts.get(name).split(" ")) {
          String[] of = part.split(":");
          byte[] expected = content(Integer.parseInt(of[0]), Integer.parseInt(of[1]));
          // Only files of one part are truncated.
          expected = Arrays.copyOf(expected, cuts.getOrDefault(name, expected.length));
          byte[] read = new byte[expected.length];
          new java.io.DataInputStream(from).readFully(read);
          if (!Arrays.equals(expected, read)) {
            throw new IOException(name + " is not what was written");
          }
        }
        if (from.read() >= 0) {
          throw new IOException(name + " is longer than what was written");
        }
      }
      compared++;
    }
    System.out.println("   " + compared + " files compared: all as they were written");
  }
}
