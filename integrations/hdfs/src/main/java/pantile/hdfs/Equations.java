package pantile.hdfs;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.Map;

/**
 * A system of equations for unknown blocks, which the native library solves. It is passed as the
 * text of a code of two columns: the unknowns and the sums.
 *
 * <p>It must be closed. Not for several threads.
 */
public final class Equations implements AutoCloseable {
  private final int unknowns;
  private final int sums;
  private final long codec;

  /**
   * Makes a system with one sum for each map; the map has the coefficient of each unknown in the
   * sum.
   *
   * @throws IllegalArgumentException if that is no code, or one beyond the library's limits.
   * @throws UnsatisfiedLinkError if the native library is not there.
   */
  public Equations(int unknowns, List<Map<Integer, Integer>> sums) {
    Native.check();
    this.unknowns = unknowns;
    this.sums = sums.size();
    codec = Native.openText(text(unknowns, sums));
  }

  static String text(int unknowns, List<Map<Integer, Integer>> sums) {
    StringBuilder text = new StringBuilder("pantile-code 1\nname rows\ncolumns 2\nrows ");
    text.append(unknowns).append(' ').append(sums.size()).append('\n');
    for (int sum = 0; sum < sums.size(); sum++) {
      text.append('[').append(sum).append("][1] =");
      String between = " ";
      for (Map.Entry<Integer, Integer> term : sums.get(sum).entrySet()) {
        text.append(between).append(term.getValue()).append("*[").append(term.getKey()).append("][0]");
        between = " + ";
      }
      text.append('\n');
    }
    return text.toString();
  }

  /** Returns true if the sums determine all unknowns. */
  public boolean areSolvable() {
    try {
      solve(ByteBuffer.allocateDirect(unknowns), ByteBuffer.allocateDirect(sums), 1);
      return true;
    } catch (IOException open) {
      return false;
    }
  }

  /**
   * Computes the unknowns from the sums. Both buffers are direct; row r of each is the {@code
   * bytes} bytes from r times {@code bytes} on.
   *
   * @throws IOException if the sums do not determine all unknowns.
   */
  public void solve(ByteBuffer unknowns, ByteBuffer sums, int bytes) throws IOException {
    Native.solve(codec, unknowns, this.unknowns, sums, this.sums, bytes);
  }

  @Override
  public void close() {
    Native.close(codec);
  }
}
