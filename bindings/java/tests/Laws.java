import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.atomic.AtomicReference;
import pantile.Codec;
import pantile.Finding;
import pantile.NotRecoverableException;
import pantile.Plan;
import pantile.Range;

/** Holds the Java classes to the laws of codes, with arrays and with direct buffers. */
public final class Laws {
  private static final String[] FAMILIES = {
    "raid6:4", "rs:6+3", "rs:10+4", "dcode:7", "xcode:5", "shec:6,4,3", "lrc:6,2,2", "clay:4,2,5",
    "crs:4+2", "rdp:6", "mirror:3", "rs:60+3"
  };

  /** A call that can throw. */
  private interface Call {
    void run() throws Exception;
  }

  private static void check(boolean holds, String what) {
    if (!holds) {
      throw new AssertionError(what);
    }
  }

  private static void refused(Class<? extends Exception> kind, String part, Call call) {
    try {
      call.run();
    } catch (Exception why) {
      check(why.getClass() == kind && why.getMessage().contains(part), part + ": " + why);
      return;
    }
    throw new AssertionError("not refused: " + part);
  }

  private static void refused(String part, Call call) {
    refused(IllegalArgumentException.class, part, call);
  }

  private static byte[] random(int bytes) {
    byte[] data = new byte[bytes];
    new Random(bytes).nextBytes(data);
    return data;
  }

  private static ByteBuffer direct(byte[] shard) {
    // From byte 3 on, so that the position counts.
    ByteBuffer buffer = ByteBuffer.allocateDirect(shard.length + 5).position(3);
    buffer.put(shard).flip().position(3);
    return buffer;
  }

  private static ByteBuffer[] direct(byte[][] shards) {
    ByteBuffer[] buffers = new ByteBuffer[shards.length];
    for (int i = 0; i < shards.length; i++) {
      buffers[i] = shards[i] == null ? null : direct(shards[i]);
    }
    return buffers;
  }

  private static byte[] bytes(ByteBuffer buffer) {
    byte[] content = new byte[buffer.remaining()];
    buffer.duplicate().get(content);
    return content;
  }

  private static byte[][] bytes(ByteBuffer[] buffers) {
    byte[][] shards = new byte[buffers.length][];
    for (int i = 0; i < shards.length; i++) {
      shards[i] = bytes(buffers[i]);
    }
    return shards;
  }

  private static byte[][] copy(byte[][] shards) {
    byte[][] all = new byte[shards.length][];
    for (int i = 0; i < shards.length; i++) {
      all[i] = shards[i].clone();
    }
    return all;
  }

  private static byte[][] without(byte[][] shards, int... lost) {
    byte[][] left = shards.clone();
    for (int column : lost) {
      left[column] = null;
    }
    return left;
  }

  /** Returns each set of up to so many columns; of wide codes only neighbours. */
  private static List<int[]> losses(int columns, int most) {
    List<int[]> sets = new ArrayList<>();
    for (int mask = 1; columns <= 16 && mask < 1 << columns; mask++) {
      int each = mask;
      if (Integer.bitCount(mask) <= most) {
        sets.add(java.util.stream.IntStream.range(0, columns).filter(c -> (each >> c & 1) == 1).toArray());
      }
    }
    for (int first = 0; columns > 16 && first < columns; first++) {
      sets.add(new int[] {first, (first + 1) % columns, (first + most - 1) % columns});
    }
    return sets;
  }

  static void everyLossUpToTheToleranceComesBack() throws Exception {
    for (String spec : FAMILIES) {
      try (Codec codec = new Codec(spec)) {
        byte[] data = random(40 * codec.dataCells());
        byte[][] shards = codec.split(data);
        check(codec.verify(shards) && codec.verify(direct(shards)), spec + " verifies");
        for (int[] lost : losses(codec.columns(), codec.tolerance())) {
          String what = spec + " without " + Arrays.toString(lost);
          byte[][] left = without(shards, lost);
          codec.reconstruct(left);
          check(Arrays.deepEquals(left, shards), what);

          ByteBuffer[] buffers = direct(without(shards, lost));
          codec.reconstructData(buffers);
          check(Arrays.equals(bytes(codec.join(buffers, data.length)), data), what + ", buffers");

          boolean[] isLost = new boolean[shards.length];
          ByteBuffer[] given = direct(shards);
          for (int column : lost) {
            isLost[column] = true;
            given[column] = direct(new byte[shards[column].length]);
          }
          codec.reconstruct(given, isLost);
          check(Arrays.deepEquals(bytes(given), shards), what + ", in place");
        }
      }
    }
  }

  static void anEncodedStripeIsTheSameByEachWay() {
    for (String spec : FAMILIES) {
      try (Codec codec = new Codec(spec)) {
        int stripes = 150;
        byte[][][] want = new byte[stripes][][];
        byte[][][] batch = new byte[stripes][][];
        ByteBuffer[][] buffers = new ByteBuffer[stripes][];
        for (int i = 0; i < stripes; i++) {
          want[i] = codec.split(random((i < 120 ? 64 : 7) * codec.dataCells()));
          batch[i] = copy(want[i]);
          // Of parity columns all bytes are computed; dcode and xcode have none.
          if (spec.startsWith("r")) {
            Arrays.fill(batch[i][batch[i].length - 1], (byte) 0);
          }
          buffers[i] = direct(batch[i]);
        }
        byte[][] single = copy(batch[0]);
        codec.encode(single);
        check(Arrays.deepEquals(single, want[0]), spec);
        ByteBuffer[] one = direct(batch[0]);
        codec.encode(one);
        check(Arrays.deepEquals(bytes(one), want[0]), spec + ", buffers");
        codec.encodeBatch(batch);
        codec.encodeBatch(buffers);
        for (int i = 0; i < stripes; i++) {
          check(Arrays.deepEquals(batch[i], want[i]), spec + ", stripe " + i);
          check(Arrays.deepEquals(bytes(buffers[i]), want[i]), spec + ", stripe of buffers " + i);
        }
      }
    }
    Codec codec = new Codec("rs:6+3");
    codec.encodeBatch(new byte[0][][]);
    byte[][] good = codec.split(random(96));
    ByteBuffer[] twice = direct(good); // of arrays the checks of JNI make copies, which overlap nothing
    twice[7] = twice[6];
    refused("stripe 1: ", () -> codec.encodeBatch(new ByteBuffer[][] {direct(good), twice}));
    refused("stripe 1: 8 shards", () -> codec.encodeBatch(new byte[][][] {good, Arrays.copyOf(good, 8)}));
  }

  static void smallWritesKeepParityTrue() {
    for (String spec : FAMILIES) {
      try (Codec codec = new Codec(spec)) {
        byte[] data = random(40 * codec.dataCells());
        byte[][] shards = codec.split(data);
        ByteBuffer[] buffers = direct(shards);
        byte[][] apart = copy(shards);
        for (int position = 0; position < codec.dataCells(); position++) {
          byte[] content = {(byte) position, 1, 2};
          byte[] change = new byte[3];
          for (int i = 0; i < 3; i++) {
            change[i] = (byte) (data[position * 40 + 17 + i] ^ content[i]);
            data[position * 40 + 17 + i] = content[i];
          }
          codec.update(shards, position, 17, content);
          codec.update(buffers, position, 17, direct(content));
          codec.updateParity(apart, position, 17, change);
        }
        byte[][] want = codec.split(data);
        check(Arrays.deepEquals(shards, want) && Arrays.deepEquals(bytes(buffers), want), spec);
        // The last column of these is parity alone.
        if (!spec.startsWith("dcode") && !spec.startsWith("xcode")) {
          int last = want.length - 1;
          check(Arrays.equals(apart[last], want[last]), spec + ": parity apart from data");
        }
      }
    }
  }

  static void aWrongShardIsNamed() {
    try (Codec codec = new Codec("rs:6+4")) {
      byte[][] shards = codec.split(random(6000));
      check(codec.locate(shards).isEmpty(), "a true stripe has no finding");
      System.arraycopy("a lie of 20 bytes ..".getBytes(), 0, shards[3], 500, 20);
      for (List<Finding> findings : List.of(codec.locate(shards), codec.locate(direct(shards)))) {
        check(findings.toString().equals("[bytes 500 to 520: columns [3], certain]"), "" + findings);
      }
      byte[][] many = codec.split(random(240_000));
      for (int at = 0; at < many[2].length; at += 1000) {
        many[2][at] ^= 1;
      }
      check(codec.locate(many).size() == 40, "each byte is a finding");
      refused("", () -> codec.locate(without(shards, 0, 1, 2, 4)));
    }
  }

  static void aPlanReadsTheLeastAndRuns() throws Exception {
    for (String spec : FAMILIES) {
      try (Codec codec = new Codec(spec);
          Plan plan = codec.plan(64, 1)) {
        byte[][] shards = codec.split(random(64 * codec.dataCells()));
        byte[][] left = new byte[shards.length][];
        for (int i = 0; i < left.length; i++) {
          left[i] = new byte[shards[i].length];
        }
        long sum = 0;
        for (Range read : plan.reads()) {
          System.arraycopy(shards[read.column], read.offset, left[read.column], read.offset, read.bytes);
          sum += read.bytes;
        }
        check(plan.cost == sum && plan.atLeast <= sum, spec + ": cost " + plan.cost + " for " + sum);
        ByteBuffer[] buffers = direct(left);
        plan.run(left);
        plan.run(buffers);
        check(Arrays.equals(left[1], shards[1]) && Arrays.equals(bytes(buffers[1]), shards[1]), spec);
        plan.close();
        refused(IllegalStateException.class, "the plan is closed", () -> plan.run(left));
      }
    }
    Codec codec = new Codec("lrc:12,2,2");
    int[] costs = new int[16];
    Arrays.fill(costs, 1);
    costs[0] = 100;
    Plan plan = codec.plan(4096, new int[] {4}, List.of(new Range(4, 8, 16)), costs);
    check(plan.reads().get(0).column != 0, "the dear column is not read");
    refused("shard ", () -> plan.run(new byte[16][]));
    refused(NotRecoverableException.class, "", () -> codec.plan(10, 0, 1, 2, 3, 4, 5));
    refused("column 16 is lost", () -> codec.plan(10, 16));
    refused("negative", () -> codec.plan(0, 1));
    refused("", () -> codec.plan(10, new int[0], List.of(new Range(99, 0, 1)), null));
    refused("", () -> codec.plan(10, new int[] {1}, List.of(), new int[1]));
  }

  static void wrongInputIsAnExceptionAndChangesNothing() throws Exception {
    for (String spec : new String[] {"", "rs", "rs:0+2", "no:such", "rs:4+2\0", "\ud83d\ude00", "9".repeat(100_000)}) {
      refused("", () -> new Codec(spec));
    }
    refused("", () -> Codec.fromText("no code\0"));
    Codec codec = new Codec("rs:6+3");
    check(Codec.fromText(codec.text()).columns() == 9, "a code's text is read");
    check(codec.spec().equals("rs:6+3") && codec.rows(0) == 1 && !Codec.version().isEmpty(), "its shape");
    check(codec.fingerprint() == new Codec("rs:6+3").fingerprint(), "its fingerprint");
    byte[] data = random(600);
    byte[][] shards = codec.split(data);
    byte[][] before = copy(shards);
    byte[][] cut = shards.clone();
    cut[8] = Arrays.copyOf(cut[8], 99);
    ByteBuffer[] twice = direct(shards);
    twice[8] = twice[7];
    byte[] one = {1};
    refused("8 shards", () -> codec.encode(Arrays.copyOf(shards, 8)));
    refused("shard 3 is missing", () -> codec.encode(without(shards, 3)));
    refused("shard 8 has 99 bytes", () -> codec.encode(cut));
    refused("all shards are missing", () -> codec.verify(new byte[9][]));
    refused("", () -> codec.encode(twice));
    refused(NotRecoverableException.class, "", () -> codec.reconstruct(without(shards, 0, 1, 2, 3)));
    refused("3 entries", () -> codec.reconstruct(shards, new boolean[3]));
    refused("", () -> codec.update(shards, 6, 0, one));
    refused("negative", () -> codec.update(shards, -1, 0, one));
    refused("", () -> codec.update(shards, 0, 100, one));
    refused("no bytes", () -> codec.update(shards, 0, 0, new byte[0]));
    refused("", () -> codec.update(without(shards, 7), 0, 0, one));
    refused("", () -> codec.verify(without(shards, 0, 1, 2)));
    refused("601 bytes", () -> codec.join(shards, 601));
    refused("-1 bytes", () -> codec.join(shards, -1));
    refused("", () -> codec.join(without(shards, 0), 600));
    refused("no data", () -> codec.split(new byte[0]));
    ByteBuffer[] buffers = direct(shards);
    buffers[8] = buffers[8].asReadOnlyBuffer();
    check(codec.verify(buffers), "a read-only buffer is read");
    refused("buffer 8 is written and is read-only", () -> codec.encode(buffers));
    buffers[8] = ByteBuffer.wrap(shards[8]);
    refused("buffer 8 is not direct", () -> codec.verify(buffers));
    check(Arrays.deepEquals(shards, before), "refusals change nothing");
    check(codec.join(shards, 0).length == 0, "no bytes are joined");
    check(Arrays.equals(codec.join(without(shards, 6, 7, 8), 600), data), "parity is not looked at");
    byte[][] parityLost = without(shards, 6);
    codec.reconstructData(parityLost);
    check(parityLost[6] == null, "parity that is lost stays so");
    Plan plan = codec.plan(100, 0);
    codec.close();
    codec.close();
    refused(IllegalStateException.class, "the codec is closed", () -> codec.encode(shards));
    plan.run(shards);
  }

  static void manyThreadsUseOneCodec() throws Exception {
    Codec codec = new Codec("rs:6+3");
    byte[] data = random(6 * 256);
    byte[][] shards = codec.split(data);
    AtomicReference<Throwable> wrong = new AtomicReference<>();
    List<Thread> threads = new ArrayList<>();
    for (int t = 0; t < 8; t++) {
      int number = t;
      threads.add(new Thread(() -> {
        try {
          for (int i = 0; i < 300; i++) {
            byte[][] left = without(shards, (number + i) % 9, (number * i + 1) % 9);
            codec.reconstruct(left);
            check(Arrays.equals(codec.join(left, data.length), data), "thread " + number);
            if (i % 100 == 50) {
              System.gc();
            }
          }
        } catch (Throwable why) {
          wrong.set(why);
        }
      }));
    }
    Codec closing = new Codec("rs:6+3");
    for (int t = 0; t < 4; t++) {
      threads.add(new Thread(() -> {
        try {
          while (true) {
            closing.verify(shards);
          }
        } catch (IllegalStateException closed) {
          return;
        } catch (Throwable why) {
          wrong.set(why);
        }
      }));
    }
    for (Thread thread : threads) {
      thread.start();
    }
    closing.close();
    for (Thread thread : threads) {
      thread.join();
    }
    if (wrong.get() != null) {
      throw new AssertionError(wrong.get());
    }
    for (int i = 0; i < 50; i++) {
      new Codec("rs:4+2"); // no thread closes it
    }
    System.gc();
  }

  public static void main(String[] arguments) throws Exception {
    int count = 0;
    for (java.lang.reflect.Method law : Laws.class.getDeclaredMethods()) {
      boolean isLaw = law.getParameterCount() == 0 && law.getReturnType() == void.class;
      if (isLaw && !law.isSynthetic()) {
        law.invoke(null);
        count++;
      }
    }
    check(count == 7, count + " laws");
    System.out.println(count + " laws hold");
  }
}
