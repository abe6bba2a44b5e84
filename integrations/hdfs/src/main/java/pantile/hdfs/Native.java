package pantile.hdfs;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Locale;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The native library: found, loaded once, and called.
 *
 * <p>The library is stored in the jar. It is copied into a new directory that only this user can
 * enter (below {@code -Djava.io.tmpdir}), loaded, and removed at once. So no other user can put
 * another file in its place. {@code -Dpantile.hdfs.library=FILE} loads that file instead: for a
 * temporary directory that is mounted noexec, or for another build of the library.
 *
 * <p>Where it cannot be loaded, every use throws {@link UnsatisfiedLinkError} with the reason,
 * which makes Hadoop try the next coder of the codec; the reason is logged once,
 * because Hadoop does not.
 */
final class Native {
  /** Names the file to load in the place of the one in the jar. */
  static final String LIBRARY_PROPERTY = "pantile.hdfs.library";

  /** The most columns of a call: HDFS has no larger block groups. */
  static final int COLUMNS_MOST = 16;

  /** The most bytes of a column in a call of {@link #locate}. */
  static final int LOCATE_BYTES_MOST = 64 * 1024;

  /** Count of numbers that {@link #locate} returns for each finding. */
  static final int FINDING_NUMBERS = 6;

  /** States of columns, as {@code pantile_column_state}. */
  static final byte ABSENT = 0;

  static final byte PRESENT = 1;

  static final byte WANTED = 2;

  private static final Logger LOG = LoggerFactory.getLogger(Native.class);

  private static final String FILE = "libpantile_hdfs.so";

  /** Reason why the library is missing; null if it is loaded. */
  private static final String MISSING = load();

  private Native() {}

  /** Throws {@link UnsatisfiedLinkError} with the reason if the library is not loaded. */
  static void check() {
    if (MISSING != null) {
      throw new UnsatisfiedLinkError(MISSING);
    }
  }

  private static String load() {
    try {
      String own = System.getProperty(LIBRARY_PROPERTY);
      if (own != null) {
        System.load(new File(own).getAbsolutePath());
      } else {
        loadFromJar();
      }
      LOG.debug("Pantile {} codes natively", version());
      return null;
    } catch (IOException | LinkageError | RuntimeException error) {
      String why =
          "Pantile's native library cannot be used: " + error.getMessage() + "; -D"
              + LIBRARY_PROPERTY + "=FILE names another one";
      LOG.warn("{}. Hadoop takes the next coder of the codec, if there is one", why);
      return why;
    }
  }

  private static void loadFromJar() throws IOException {
    String place = "/META-INF/native/" + platform() + "/" + FILE;
    try (InputStream library = Native.class.getResourceAsStream(place)) {
      if (library == null) {
        throw new UnsatisfiedLinkError("the jar has none for " + platform());
      }
      // The folder is accessible to this user alone, and its name is random.
      Path folder = Files.createTempDirectory("pantile-hdfs");
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

  private static String platform() {
    String system = System.getProperty("os.name").toLowerCase(Locale.ROOT);
    String machine = System.getProperty("os.arch").toLowerCase(Locale.ROOT);
    return system + "-" + (machine.equals("amd64") ? "x86_64" : machine);
  }

  /** The version of the library. */
  static native String version();

  /**
   * Opens the codec of a spec such as {@code rs:6+3}. It is never closed: {@link Code} opens each
   * once.
   *
   * @throws IllegalArgumentException if the spec names no code.
   */
  static native long open(String spec);

  /**
   * Opens the codec of a code's text. The caller closes it, once.
   *
   * @throws IllegalArgumentException if the text is no code.
   */
  static native long openText(String text);

  /** Closes a codec of {@link #openText}. */
  static native void close(long codec);

  /**
   * Computes column 0 from column 1 in a code of these two columns. The rows of a column follow
   * each other from the start of its direct buffer, each with {@code bytes} bytes.
   *
   * @throws IOException if column 1 does not determine column 0.
   */
  static native void solve(
      long codec, ByteBuffer unknowns, int unknownRows, ByteBuffer sums, int sumRows, int bytes)
      throws IOException;

  /**
   * Returns true if a RAIDP code of so many disks recovers the disks among the lost columns.
   * Columns from {@code disks} on are add-ons.
   */
  static native boolean survives(long codec, int disks, int[] lost);

  /**
   * Computes parity. Each column is {@code bytes} bytes of a direct buffer, from its offset on; the
   * positions and limits of buffers are ignored.
   */
  static native void encode(long codec, ByteBuffer[] columns, int[] offsets, int bytes);

  /**
   * Computes the columns that are {@link #WANTED} from those that are {@link #PRESENT}. The buffer
   * of an absent column may be null.
   *
   * @throws IOException if too few are present.
   */
  static native void reconstruct(
      long codec, ByteBuffer[] columns, int[] offsets, byte[] states, int bytes)
      throws IOException;

  /**
   * Locates the ranges in which the first {@code bytes} bytes of the columns contradict the
   * equations; a column that is null is absent. At most {@link #LOCATE_BYTES_MOST} bytes.
   *
   * @return for each finding its offset, its bytes, the verdict (0 located, 1 ambiguous, 2 not
   *     locatable), the bits of evidence, 1 if the location is certain, and a bit for each column.
   * @throws IOException if so much is absent that nothing is left to check.
   */
  static native long[] locate(long codec, ByteBuffer[] columns, int bytes) throws IOException;

  /**
   * Reads the coefficients of a RAIDP code of so many disks: entry d times {@code disks} plus p is
   * the coefficient, in the parity of disk d, of the superchunk that d shares with disk p; 0 if
   * they share none.
   *
   * @throws IllegalArgumentException if the spec names no such code.
   */
  static native int[] weights(String spec, int disks);

  /**
   * Adds content to parity with the coefficient of a code of one data column and one parity column;
   * a second call with the same content removes it. Both buffers are direct; their positions and
   * limits are ignored.
   */
  static native void fold(
      long codec,
      ByteBuffer parity,
      int parityOffset,
      ByteBuffer content,
      int contentOffset,
      int bytes);
}
