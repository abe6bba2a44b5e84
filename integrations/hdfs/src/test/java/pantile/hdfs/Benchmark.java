package pantile.hdfs;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.hadoop.io.erasurecode.rawcoder.RawErasureCoderFactory;

/**
 * Hadoop's own RawErasureCoderBenchmark (6 + 3, direct buffers where a coder prefers them) on three
 * coders, interleaved: Hadoop's Java coder, libisal, ours. Its list of coders is fixed, so two
 * entries of the list stand for other coders here. Prints medians in MB of user data per second.
 *
 * <p>Argument: rounds. integrations/hdfs/benchmark runs it.
 */
final class Benchmark {
  private static final Pattern THROUGHPUT = Pattern.compile("[Tt]hroughput:? *([0-9.]+) *MB/s");

  /** The names of entries in Hadoop's list, and the coder that each stands for here. */
  private static final String[][] CODERS = {
    {"RS_CODER", "rs_java"}, {"LEGACY_RS_CODER", "libisal"}, {"ISAL_CODER", "pantile"}
  };

  private final Class<?> hadoops;
  private final Class<?> places;
  private final Method perform;

  private Benchmark() throws Exception {
    String name = "org.apache.hadoop.io.erasurecode.rawcoder.RawErasureCoderBenchmark";
    hadoops = Class.forName(name);
    places = Class.forName(name + "$CODER");
    perform =
        hadoops.getMethod("performBench", String.class, places, int.class, int.class, int.class);
    Field makers = hadoops.getDeclaredField("CODER_MAKERS");
    makers.setAccessible(true);
    Object readOnly = makers.get(null);
    Field inner = readOnly.getClass().getSuperclass().getDeclaredField("list");
    inner.setAccessible(true);
    @SuppressWarnings("unchecked")
    List<RawErasureCoderFactory> list = (List<RawErasureCoderFactory>) inner.get(readOnly);
    list.set(place("LEGACY_RS_CODER"), new Isal());
    list.set(place("ISAL_CODER"), new CoderFactory.Rs());
  }

  @SuppressWarnings({"unchecked", "rawtypes"})
  private Object named(String name) {
    return Enum.valueOf((Class) places, name);
  }

  private int place(String name) {
    return ((Enum<?>) named(name)).ordinal();
  }

  private double once(String operation, String coder, int megabytes, int kilobytes)
      throws Exception {
    PrintStream before = System.out;
    ByteArrayOutputStream said = new ByteArrayOutputStream();
    System.setOut(new PrintStream(said, true));
    try {
      perform.invoke(null, operation, named(coder), 1, megabytes, kilobytes);
    } finally {
      System.setOut(before);
    }
    Matcher throughput = THROUGHPUT.matcher(said.toString());
    if (!throughput.find()) {
      throw new IllegalStateException(said.toString());
    }
    return Double.parseDouble(throughput.group(1));
  }

  /** Runs all rounds. */
  public static void main(String[] arguments) throws Exception {
    int rounds = Integer.parseInt(arguments[0]);
    System.out.println("libisal: " + Isal.file());
    Benchmark benchmark = new Benchmark();
    System.out.println("operation  KiB   rs_java  libisal  pantile   pantile/java  pantile/libisal");
    for (String operation : new String[] {"encode", "decode"}) {
      for (int kilobytes : new int[] {64, 1024}) {
        double[][] seen = new double[CODERS.length][rounds];
        // The first round warms up.
        for (int round = -1; round < rounds; round++) {
          for (int c = 0; c < CODERS.length; c++) {
            int megabytes = c == 0 ? 126 : 1260;
            double speed = benchmark.once(operation, CODERS[c][0], megabytes, kilobytes);
            if (round >= 0) {
              seen[c][round] = speed;
            }
          }
        }
        double[] median = new double[CODERS.length];
        for (int c = 0; c < CODERS.length; c++) {
          Arrays.sort(seen[c]);
          median[c] = seen[c][rounds / 2];
        }
        System.out.printf(
            "%-9s %5d  %8.0f %8.0f %8.0f  %12.1f  %15.2f%n",
            operation, kilobytes, median[0], median[1], median[2], median[2] / median[0],
            median[2] / median[1]);
      }
    }
  }
}
