package pantile.hdfs;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.hadoop.io.erasurecode.rawcoder.RawErasureCoderFactory;
import org.junit.jupiter.api.Test;

/** The codes of the codec names agree with the vectors, which another implementation made. */
class EveryCodeIsTheOneOfTheVectorsTest {
  /** A line of vectors/hdfs.json. */
  private static final Pattern ENTRY =
      Pattern.compile("\\{\"codec\":\"([a-z-]+)\",\"k\":(\\d+),\"m\":(\\d+),\"generator\":\\[\"(.*)\"]},?");

  @Test
  void parityOfUnitVectorsIsTheGenerator() throws Exception {
    int seen = 0;
    for (String line : Files.readAllLines(Paths.get("../../vectors/hdfs.json"))) {
      Matcher entry = ENTRY.matcher(line);
      if (!entry.matches()) {
        continue;
      }
      String codec = entry.group(1);
      int k = Integer.parseInt(entry.group(2));
      int m = Integer.parseInt(entry.group(3));
      String[] generator = entry.group(4).split("\",\"");
      byte[][] data = new byte[k][k];
      for (int i = 0; i < k; i++) {
        data[i][i] = 1;
      }
      byte[][] parity = Units.parity(Units.factory(codec), data, m);
      for (int p = 0; p < m; p++) {
        StringBuilder row = new StringBuilder();
        for (byte coefficient : parity[p]) {
          row.append(String.format("%02x", coefficient));
        }
        assertEquals(generator[p], row.toString(), codec + " " + k + "+" + m);
      }
      seen++;
    }
    // The sizes with k + m <= 16: 120 each of rs and rs-legacy, 15 of xor, 13 and 12 of raidq.
    assertEquals(2 * 120 + 15 + 13 + 12, seen);
  }

  /**
   * Recovers from any k of k + m units: all sets of the largest codes, and of codes with a policy
   * in Hadoop.
   */
  @Test
  void anyLossWithinTheParitiesIsMadeUp() throws Exception {
    String[] codes = {
      "rs 3 2", "rs 6 3", "rs 10 4", "rs-legacy 6 3", "rs-legacy 10 4", "xor 2 1", "xor 15 1",
      "raidq 8 3", "raidq 8 4", "raidq 12 4", "raidq 13 3", "raidq 1 3"
    };
    for (String code : codes) {
      String[] words = code.split(" ");
      int k = Integer.parseInt(words[1]);
      int m = Integer.parseInt(words[2]);
      RawErasureCoderFactory factory = Units.factory(words[0]);
      byte[][] data = Units.painted(k, 67);
      byte[][] all = Units.joined(data, Units.parity(factory, data, m));
      for (int[] erased : Units.sets(k + m, m)) {
        byte[][] inputs = all.clone();
        for (int unit : erased) {
          inputs[unit] = null;
        }
        byte[][] made = new byte[erased.length][67];
        factory.createDecoder(Units.options(k, m)).decode(inputs, erased, made);
        for (int i = 0; i < erased.length; i++) {
          assertArrayEquals(all[erased[i]], made[i], code);
        }
      }
    }
  }
}
