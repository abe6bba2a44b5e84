package pantile.hdfs.raidp;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.nio.channels.FileChannel;
import java.nio.channels.Channels;
import java.nio.file.DirectoryStream;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The replicas in a DataNode's directories, also while it is stopped. */
final class Folders {
  private static final Pattern META = Pattern.compile("blk_([0-9]+)_([0-9]+)\\.meta");

  private final Map<Long, Held> replicas = new HashMap<>();
  private final List<Kept> kept = new ArrayList<>();
  private final List<String> faults = new ArrayList<>();

  /** Looks at directories of {@code dfs.datanode.data.dir}. */
  static Folders of(Collection<File> directories) throws IOException {
    Folders folders = new Folders();
    for (File directory : directories) {
      Path current = directory.toPath().resolve("current");
      Properties version = new Properties();
      try (InputStream in = Files.newInputStream(current.resolve("VERSION"))) {
        version.load(in);
      }
      StorageName name = StorageName.parse(version.getProperty("storageID"));
      if (name == null) {
        throw new IOException(directory + " is no superchunk of RAIDP");
      }
      folders.add(current, name);
      folders.addKept(directory.toPath(), name);
    }
    return folders;
  }

  private void addKept(Path directory, StorageName name) throws IOException {
    Path folder = directory.resolve(Kept.FOLDER);
    if (Files.isDirectory(folder)) {
      try (DirectoryStream<Path> pools = Files.newDirectoryStream(folder)) {
        for (Path pool : pools) {
          Kept ofPool = new Kept(pool.getFileName().toString());
          ofPool.list(directory, name);
          kept.add(ofPool);
        }
      }
    }
  }

  private void add(Path current, StorageName name) throws IOException {
    Files.walkFileTree(
        current,
        new SimpleFileVisitor<Path>() {
          @Override
          public FileVisitResult visitFile(Path meta, BasicFileAttributes attributes) {
            Matcher matcher = META.matcher(meta.getFileName().toString());
            if (matcher.matches()) {
              String within = "/" + current.relativize(meta);
              long block = Long.parseLong(matcher.group(1));
              add(meta, within, block, Long.parseLong(matcher.group(2)), name);
            }
            return FileVisitResult.CONTINUE;
          }

          @Override
          public FileVisitResult visitFileFailed(Path file, IOException error) {
            // Replicas that a running DataNode has just removed.
            return FileVisitResult.CONTINUE;
          }
        });
  }

  private void add(Path meta, String path, long block, long generation, StorageName name) {
    // Files that wait for removal after a rolling upgrade, or are older than an upgrade, are no
    // replicas.
    if (path.contains("/trash/") || path.contains("/previous/") || path.contains("/tmp/")) {
      return;
    }
    Path data = meta.resolveSibling("blk_" + block);
    if (!Files.exists(data)) {
      return;
    }
    Held held = new InFolder(data, meta, block, generation, path.contains("/finalized/"), name);
    Held other = replicas.put(block, held);
    if (other != null) {
      faults.add("blk_" + block + " is twice on the disk");
    }
  }

  /** A replica; null if there is none. */
  Held get(long block) {
    return replicas.get(block);
  }

  /**
   * Returns the version of a block, live or kept, that has the content of an entry; null for none.
   */
  Held version(Entry entry) {
    List<Kept.Copy> copies = new ArrayList<>();
    kept.forEach(ofPool -> copies.addAll(ofPool.of(entry.blockId)));
    return Kept.version(
        replicas.get(entry.blockId), copies, entry.generation, entry.length);
  }

  /** All replicas. */
  Collection<Held> all() {
    return replicas.values();
  }

  /** Returns the faults of single replicas. */
  List<String> faults() {
    return faults;
  }

  private static final class InFolder extends Held {
    private final Path data;
    private final Path meta;

    InFolder(
        Path data, Path meta, long block, long generation, boolean isFinalized, StorageName name) {
      super(block, generation, data.toFile().length(), isFinalized, name);
      this.data = data;
      this.meta = meta;
    }

    @Override
    InputStream data(long offset) throws IOException {
      FileChannel channel = FileChannel.open(data);
      channel.position(offset);
      return Channels.newInputStream(channel);
    }

    @Override
    InputStream checksums() throws IOException {
      return Files.newInputStream(meta);
    }
  }
}
