package pantile;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** A range of bytes, the same in every element, in which a stripe is wrong. */
public final class Finding {
  /** The kind of a finding. */
  public enum Verdict {
    /** These columns, and no others, explain every byte. */
    LOCATED,
    /** The columns are one of several explanations. */
    AMBIGUOUS,
    /** No set of columns that is small enough explains it. */
    UNLOCATABLE
  }

  /** Its place within an element. */
  public final long offset;

  /** The count of bytes. */
  public final long bytes;

  /** The kind. */
  public final Verdict verdict;

  /** A larger error looks so less than once in 2 to this power. */
  public final int evidenceBits;

  /** True if that is less than once in 2^40, for all that is wrong in the stripe. */
  public final boolean isCertain;

  private final int[] columns;

  private Finding(long[] all, int at) {
    offset = all[at];
    bytes = all[at + 1];
    verdict = Verdict.values()[(int) all[at + 2]];
    evidenceBits = (int) all[at + 3];
    isCertain = all[at + 4] != 0;
    columns = new int[(int) all[at + 5]];
    for (int i = 0; i < columns.length; i++) {
      columns[i] = (int) all[at + 6 + i];
    }
  }

  static List<Finding> listOf(long[] all) {
    List<Finding> findings = new ArrayList<>();
    for (int at = 0; at < all.length; at += 6 + (int) all[at + 5]) {
      findings.add(new Finding(all, at));
    }
    return findings;
  }

  /** Returns the wrong columns, ascending. */
  public int[] columns() {
    return columns.clone();
  }

  @Override
  public String toString() {
    return "bytes " + offset + " to " + (offset + bytes) + ": columns " + Arrays.toString(columns)
        + (isCertain ? ", certain" : ", not certain");
  }
}
