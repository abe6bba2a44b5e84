package pantile;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Locale;

/**
 * The native library: found, loaded once, and called.
 *
 * <p>The library is stored in the jar. It is copied into a new directory that only this user can
 * enter (below {@code -Djava.io.tmpdir}), loaded, and removed at once. {@code
 * -Dpantile.library=FILE} loads that file instead: for a temporary directory that is mounted noexec.
 *
 * <p>Shards are {@code byte[]} with {@code places} null, or direct buffers with offset and length of
 * each in {@code places}.
 */
final class Native {
  /** States of columns, as {@code pantile_column_state}. */
  static final byte ABSENT = 0;

  static final byte PRESENT = 1;

  static final byte WANTED = 2;

  private static final String FILE = "libpantile_java.so";

  static {
    load();
  }

  private Native() {}

  private static void load() {
    String own = System.getProperty("pantile.library");
    try {
      if (own != null) {
        System.load(new File(own).getAbsolutePath());
      } else {
        loadFromJar();
      }
    } catch (IOException error) {
      throw new UnsatisfiedLinkError(
          "Pantile's native library cannot be copied: " + error
              + "; -Dpantile.library=FILE names another one");
    }
  }

  private static void loadFromJar() throws IOException {
    String machine = System.getProperty("os.arch").toLowerCase(Locale.ROOT);
    String platform =
        System.getProperty("os.name").toLowerCase(Locale.ROOT) + "-"
            + (machine.equals("amd64") ? "x86_64" : machine);
    try (InputStream library =
        Native.class.getResourceAsStream("/META-INF/native/" + platform + "/" + FILE)) {
      if (library == null) {
        throw new UnsatisfiedLinkError("pantile.jar has no native library for " + platform);
      }
      // The folder is accessible to this user alone, and its name is random.
      Path folder = Files.createTempDirectory("pantile");
      Path file = folder.resolve(FILE);
      try {
        Files.copy(library, file, StandardCopyOption.REPLACE_EXISTING);
        System.load(file.toString());
      } finally {
        // The loaded library stays mapped.
        Files.deleteIfExists(file);
        Files.delete(folder);
      }
    }
  }

  /** Returns the exception for a status of the library; native code calls this. */
  static Throwable failed(int status, byte[] message) {
    String why = new String(message, StandardCharsets.UTF_8);
    switch (status) {
      case 6: // PANTILE_NOT_RECOVERABLE
        return new NotRecoverableException(why);
      case 10: // PANTILE_PANIC
        return new InternalError(why);
      default:
        return new IllegalArgumentException(why);
    }
  }

  static native String version();

  static native long open(byte[] definition, boolean isFile);

  static native void close(long codec);

  /** Reads columns, tolerance, fingerprint; and rows, data cells, parity cells of each column. */
  static native long[] shape(long codec);

  static native byte[] text(long codec, boolean isFile);

  /** Encodes stripes of so many shards; messages count them from {@code first} if it is not -1. */
  static native void encode(
      long codec, Object[] shards, int[] places, int columns, int element, int first);

  static native void reconstruct(
      long codec, Object[] shards, int[] places, byte[] states, int element)
      throws NotRecoverableException;

  static native boolean verify(long codec, Object[] shards, int[] places, int element);

  /** Writes the content, which is behind the shards. */
  static native void update(
      long codec,
      Object[] shards,
      int[] places,
      int element,
      int position,
      int offset,
      int bytes,
      boolean isParityAlone);

  static native long splitBytes(long codec, long bytes);

  /** Splits the data, which are behind the shards. */
  static native void split(long codec, Object[] shards, int[] places, int element, int bytes);

  /** Joins shards to the array or buffer behind them. */
  static native void join(long codec, Object[] shards, int[] places, int element, int bytes);

  /** Locates; a finding is offset, bytes, verdict, evidence, certainty, count, and its columns. */
  static native long[] locate(long codec, Object[] shards, int[] places, int element);

  /** Plans; a wanted range is column, offset, bytes. */
  static native long plan(long codec, int element, long[] lost, long[] wanted, int[] costs)
      throws NotRecoverableException;

  static native void closePlan(long plan);

  /** Reads cost and lower bound; and column, offset, bytes of each read. */
  static native long[] reads(long plan);

  static native void run(long plan, Object[] shards, int[] places);
}
