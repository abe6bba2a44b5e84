package pantile.hdfs.raidp;

import java.io.IOException;
import java.util.Arrays;
import java.util.List;

/** The end of an order, in words that a message can carry. */
final class Outcome {
  /** A block of a row could not be read. */
  static final class Unreadable extends IOException {
    private static final long serialVersionUID = 1;

    private final long block;
    private final long generation;
    private final long length;

    Unreadable(List<Long> content, String why, IOException cause) {
      super(why, cause);
      block = content.get(0);
      generation = content.get(1);
      length = content.get(2);
    }

    List<Long> content() {
      return Arrays.asList(block, generation, length);
    }
  }

  private static final String RUNS = "runs";
  private static final String DONE = "done";
  private static final String UNREADABLE = "unreadable";
  private static final String FAILED = "failed";

  final long bytesFromMirrors;
  final long bytesFromAddOns;
  final long bytesWritten;

  Outcome(long bytesFromMirrors, long bytesFromAddOns, long bytesWritten) {
    this.bytesFromMirrors = bytesFromMirrors;
    this.bytesFromAddOns = bytesFromAddOns;
    this.bytesWritten = bytesWritten;
  }

  /** Returns the words of an order that has not ended. */
  static String[] runs() {
    return new String[] {RUNS};
  }

  /** Returns the words of an order that was carried out. */
  String[] words() {
    return new String[] {
      DONE, "" + bytesFromMirrors, "" + bytesFromAddOns, "" + bytesWritten,
    };
  }

  /** Returns the words of an order that failed. */
  static String[] words(Throwable why) {
    String message = String.valueOf(why.getMessage());
    if (!(why instanceof Unreadable)) {
      return new String[] {FAILED, message};
    }
    List<Long> content = ((Unreadable) why).content();
    return new String[] {
      UNREADABLE, message, "" + content.get(0), "" + content.get(1), "" + content.get(2),
    };
  }

  /**
   * Reads words of a node.
   *
   * @return the outcome; null for an order that has not ended.
   * @throws IOException if the order failed.
   */
  static Outcome of(String[] words) throws IOException {
    if (words.length == 1 && words[0].equals(RUNS)) {
      return null;
    }
    if (words.length == 4 && words[0].equals(DONE)) {
      return new Outcome(
          Long.parseLong(words[1]), Long.parseLong(words[2]), Long.parseLong(words[3]));
    }
    if (words.length == 5 && words[0].equals(UNREADABLE)) {
      List<Long> content =
          Arrays.asList(
              Long.valueOf(words[2]), Long.valueOf(words[3]), Long.valueOf(words[4]));
      throw new Unreadable(content, words[1], null);
    }
    throw new IOException(words.length > 1 ? words[1] : "an answer of no known kind");
  }
}
