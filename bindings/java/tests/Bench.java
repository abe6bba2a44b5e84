import java.nio.ByteBuffer;
import java.util.Arrays;
import pantile.Codec;

/** Times encoding with rs:10+4: ns for each stripe, the least of 30 rounds that take turns. */
public final class Bench {
  private static final int STRIPES = 64;

  private static double time(Runnable call, int times, int stripes) {
    long begin = System.nanoTime();
    for (int i = 0; i < times; i++) {
      call.run();
    }
    return (System.nanoTime() - begin) / (double) times / stripes;
  }

  public static void main(String[] arguments) {
    Codec codec = new Codec("rs:10+4");
    System.out.println("| bytes of a shard | direct buffers | `byte[]` | `encodeBatch`, direct | `encodeBatch`, `byte[]` |");
    for (int bytes : new int[] {512, 4096, 65_536}) {
      byte[][] shards = codec.split(new byte[10 * bytes]);
      ByteBuffer[] buffers = codec.split(ByteBuffer.allocateDirect(10 * bytes));
      byte[][][] batch = new byte[STRIPES][][];
      ByteBuffer[][] direct = new ByteBuffer[STRIPES][];
      Arrays.fill(batch, shards);
      Arrays.fill(direct, buffers);
      Runnable[] calls = {
        () -> codec.encode(buffers),
        () -> codec.encode(shards),
        () -> codec.encodeBatch(direct),
        () -> codec.encodeBatch(batch),
      };
      double[] least = new double[calls.length];
      Arrays.fill(least, Double.MAX_VALUE);
      for (int round = 0; round < 30; round++) {
        for (int i = 0; i < calls.length; i++) {
          int stripes = i < 2 ? 1 : STRIPES;
          int times = Math.max(1, (bytes > 10_000 ? 1000 : 20_000) / stripes);
          least[i] = Math.min(least[i], time(calls[i], times, stripes));
        }
      }
      System.out.printf("| %,d | %,.0f | %,.0f | %,.0f | %,.0f |%n", bytes, least[0], least[1], least[2], least[3]);
    }
  }
}
