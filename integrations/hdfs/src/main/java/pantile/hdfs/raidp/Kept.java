package pantile.hdfs.raidp;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.channels.Channels;
import java.nio.channels.FileChannel;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Copies of blocks that a disk deleted or shortened, kept until the add-ons that count them have
 * released them.
 *
 * <p>A kept copy is a pair of hard links, to a replica's data and to its checksums, in {@code
 * raidp-kept/POOL} of the directory that has the replica: {@code blk_ID_GENERATION.REASON} and
 * {@code blk_ID_GENERATION.meta}. Links are made before HDFS deletes or shortens anything, and
 * HDFS breaks links before it changes a file in place. After a restart they are found by listing.
 *
 * <p>Safe for several threads. Its monitor is held only over calls of local file systems.
 */
final class Kept {
  /** The folder beside {@code current} of each data directory. */
  static final String FOLDER = "raidp-kept";

  private static final Logger LOG = LoggerFactory.getLogger(Kept.class);
  private static final Pattern DATA = Pattern.compile("blk_([0-9]+)_([0-9]+)\\.([a-z]+)");
  private static final String META = ".meta";

  /** The reason for a kept copy, which is the end of its file's name. */
  enum Reason {
    /** HDFS was asked to delete a complete replica. */
    DELETED,

    /** HDFS was asked to delete a replica that was being written or appended to. */
    OPEN,

    /** HDFS was asked to make a replica shorter. */
    SHORTENED;

    String suffix() {
      return "." + name().toLowerCase(java.util.Locale.ROOT);
    }
  }

  /** A kept copy. */
  static final class Copy extends Held {
    final Reason reason;
    final Path data;
    private final Path meta;

    Copy(long block, long generation, Reason reason, Path data, Path meta, StorageName name) {
      super(block, generation, data.toFile().length(), reason != Reason.OPEN, name);
      this.reason = reason;
      this.data = data;
      this.meta = meta;
    }

    boolean isDeleted() {
      return reason != Reason.SHORTENED;
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

  /** The kept copies by block and generation. */
  private final Map<Long, TreeMap<Long, Copy>> copies = new HashMap<>();

  private final String pool;

  Kept(String pool) {
    this.pool = pool;
  }

  private static Path folder(Path directory, String pool) {
    return directory.resolve(FOLDER).resolve(pool);
  }

  /** Adds the copies that are in a data directory, which is a superchunk. */
  synchronized void list(Path directory, StorageName name) throws IOException {
    Path folder = folder(directory, pool);
    if (!Files.isDirectory(folder)) {
      return;
    }
    List<Path> files;
    try (Stream<Path> all = Files.list(folder)) {
      files = all.collect(Collectors.toList());
    } catch (UncheckedIOException error) {
      throw error.getCause();
    }
    for (Path file : files) {
      Matcher matcher = DATA.matcher(file.getFileName().toString());
      if (!matcher.matches()) {
        continue;
      }
      Path meta = meta(folder, Long.parseLong(matcher.group(1)), Long.parseLong(matcher.group(2)));
      if (file.equals(meta)) {
        continue;
      }
      for (Reason reason : Reason.values()) {
        if (file.getFileName().toString().endsWith(reason.suffix()) && Files.exists(meta)) {
          long block = Long.parseLong(matcher.group(1));
          put(new Copy(block, Long.parseLong(matcher.group(2)), reason, file, meta, name));
        }
      }
    }
  }

  private void put(Copy copy) {
    copies.computeIfAbsent(copy.blockId(), id -> new TreeMap<>()).put(copy.generation(), copy);
  }

  private static Path meta(Path folder, long block, long generation) {
    return folder.resolve("blk_" + block + "_" + generation + META);
  }

  /** Keeps a replica that is about to be deleted or shortened. */
  synchronized void keep(
      Path directory,
      StorageName name,
      long block,
      long generation,
      Reason reason,
      File data,
      File checksums)
      throws IOException {
    Copy before = copies.getOrDefault(block, new TreeMap<>()).get(generation);
    if (before != null) {
      if (Files.isSameFile(before.data, data.toPath()) && before.reason == reason) {
        return;
      }
      // The earlier copy has the same generation, so it is the same content or was not whole.
      drop(before);
    }
    Path folder = folder(directory, pool);
    Files.createDirectories(folder);
    Path meta = meta(folder, block, generation);
    Path link = folder.resolve("blk_" + block + "_" + generation + reason.suffix());
    link(meta, checksums.toPath());
    link(link, data.toPath());
    put(new Copy(block, generation, reason, link, meta, name));
  }

  private static void link(Path link, Path file) throws IOException {
    try {
      Files.createLink(link, file);
    } catch (FileAlreadyExistsException halfDone) {
      Files.delete(link);
      Files.createLink(link, file);
    } catch (UnsupportedOperationException without) {
      throw new IOException("the file system of " + file + " has no hard links", without);
    }
  }

  /** Removes a copy. */
  synchronized void drop(Copy copy) throws IOException {
    Files.deleteIfExists(copy.data);
    Files.deleteIfExists(copy.meta);
    TreeMap<Long, Copy> ofBlock = copies.get(copy.blockId());
    if (ofBlock != null && ofBlock.get(copy.generation()) == copy) {
      ofBlock.remove(copy.generation());
      if (ofBlock.isEmpty()) {
        copies.remove(copy.blockId());
      }
    }
    LOG.debug("RAIDP: blk_{}_{} is no longer kept", copy.blockId(), copy.generation());
  }

  /** The copies of a block, the oldest generation first. */
  synchronized List<Copy> of(long block) {
    TreeMap<Long, Copy> ofBlock = copies.get(block);
    return ofBlock == null ? Collections.emptyList() : new ArrayList<>(ofBlock.values());
  }

  /** All copies. */
  synchronized List<Copy> all() {
    List<Copy> all = new ArrayList<>();
    copies.values().forEach(ofBlock -> all.addAll(ofBlock.values()));
    return all;
  }

  /**
   * Returns the version of a block whose first bytes are the content of an entry: among the
   * versions that are long enough, the one of the least generation from the entry's on. Null if
   * there is none.
   *
   * <p>A version is kept whenever it is shortened or deleted. So between the entry's generation and
   * that of the version there were only appends, which leave the first bytes as they are.
   */
  static Held version(
      Held live, Collection<? extends Held> kept, long generation, long length) {
    Held best = null;
    List<Held> all = new ArrayList<>(kept);
    if (live != null) {
      all.add(live);
    }
    for (Held one : all) {
      if (one.generation() >= generation
          && one.length() >= length
          && (best == null || one.generation() <= best.generation())) {
        best = one;
      }
    }
    return best;
  }
}
