package pantile.hdfs;

/**
 * Counts the sets of three nodes that an array survives, each tried in the code's equations.
 *
 * <p>A node is lost with its disk and with the add-on that it keeps for another disk. The add-on of
 * disk i is on node i + 1, as in the array of the page, or at a place that is not lost with any
 * node.
 */
public final class Triples {
  /**
   * The most disks for which sets are counted: more disks have more sets than an operator waits
   * for.
   */
  public static final int DISKS_MOST = 24;

  public final int all;
  public final int survived;

  private Triples(int all, int survived) {
    this.all = all;
    this.survived = survived;
  }

  /**
   * Counts the sets of three nodes.
   *
   * @param onNextNode whether the add-on of disk i is lost with node i + 1.
   */
  public static Triples count(RaidpCode code, boolean onNextNode) {
    int n = code.disks;
    int all = 0;
    int survived = 0;
    for (int a = 0; a < n; a++) {
      for (int b = a + 1; b < n; b++) {
        for (int c = b + 1; c < n; c++) {
          int[] disks = {a, b, c};
          int[] columns = {a, b, c, n + (a + n - 1) % n, n + (b + n - 1) % n, n + (c + n - 1) % n};
          all++;
          survived += Native.survives(code.handle, n, onNextNode ? columns : disks) ? 1 : 0;
        }
      }
    }
    return new Triples(all, survived);
  }
}
