package pantile.hdfs;

import java.io.IOException;
import java.nio.ByteBuffer;

/**
 * Evidence from the equations of the code about one block group: for each unit, the ranges that
 * contradict it.
 *
 * <p>The evidence against a unit is that of the one range with the most bits. Ranges are not added
 * up, so that one fault in many places does not count as many independent witnesses.
 */
final class Evidence {
  /** Number of ranges of bytes that contradict the equations. */
  int ranges;

  /** Number of ranges for which no wrong unit can be identified. */
  int open;

  /** Offset of the first such range; -1 if there is none. */
  long openOffset = -1;

  /** Bits of evidence against each unit, -1 if there is none. */
  final int[] bits;

  /** First and last wrong byte of each unit with evidence against it. */
  final long[] first;

  final long[] last;

  private Evidence(int units) {
    bits = new int[units];
    java.util.Arrays.fill(bits, -1);
    first = new long[units];
    last = new long[units];
  }

  /**
   * Reads a whole group, and collects the evidence.
   *
   * @throws IOException if so many blocks are absent that nothing is left to check: as many as
   * there are parity units, or more.
   */
  static Evidence of(Code code, GroupReader group) throws IOException {
    Evidence evidence = new Evidence(code.units());
    for (long offset = 0; offset < group.length(); offset += GroupReader.WINDOW_BYTES) {
      int bytes = (int) Math.min(GroupReader.WINDOW_BYTES, group.length() - offset);
      ByteBuffer[] columns = group.window(offset, bytes);
      int there = 0;
      for (ByteBuffer column : columns) {
        there += column == null ? 0 : 1;
      }
      if (there <= code.k) {
        throw new IOException(
            there + " blocks can be read; " + (code.k + 1) + " are needed to check anything");
      }
      evidence.take(Native.locate(code.handle, columns, bytes), offset);
    }
    return evidence;
  }

  private void take(long[] findings, long offset) {
    for (int at = 0; at < findings.length; at += Native.FINDING_NUMBERS) {
      long start = offset + findings[at];
      long end = start + findings[at + 1] - 1;
      boolean located = findings[at + 2] == 0;
      int strength = (int) findings[at + 3];
      long columns = findings[at + 5];
      ranges++;
      if (!located || strength == 0) {
        open++;
        openOffset = openOffset < 0 ? start : openOffset;
        continue;
      }
      for (int unit = 0; unit < bits.length; unit++) {
        if ((columns >> unit & 1) == 1) {
          first[unit] = bits[unit] < 0 ? start : first[unit];
          last[unit] = end;
          bits[unit] = Math.max(bits[unit], strength);
        }
      }
    }
  }
}
