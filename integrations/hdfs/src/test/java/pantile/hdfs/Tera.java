package pantile.hdfs;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.zip.CRC32;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.HdfsConfiguration;
import org.apache.hadoop.hdfs.protocol.HdfsConstants;
import org.apache.hadoop.hdfs.protocol.LocatedBlock;
import org.apache.hadoop.hdfs.protocol.LocatedStripedBlock;

/**
 * A worker that writes, reads and sorts rows as TeraGen and TeraSort do: 100 bytes, of which 10 are
 * the key. There is one on each node; commands come from the standard input, an answer is one line.
 *
 * <p>Hadoop's own programs are in hadoop-mapreduce-examples, which the registry does not have. The
 * sort here moves the same bytes as Hadoop's: each worker reads its part from HDFS, sends each row
 * to the worker of its key over TCP, and writes the rows that it received, sorted. It differs in
 * two ways: rows stay in memory in between, and keys are spread evenly, so that no sample is taken.
 */
public final class Tera {
  private static final int ROW = 100;
  private static final int KEY = 10;
  private static final int PORT = 7400;
  private static final int BATCH = 1 << 16;

  private final DistributedFileSystem files;

  private Tera(DistributedFileSystem files) {
    this.files = files;
  }

  /** Commands, one a line, until the input ends. */
  public static void main(String[] arguments) throws Exception {
    Tera tera = new Tera((DistributedFileSystem) FileSystem.get(new HdfsConfiguration()));
    BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
    for (String line = commands.readLine(); line != null; line = commands.readLine()) {
      String answer;
      try {
        answer = "good " + tera.command(line.split(" "));
      } catch (IOException | IllegalArgumentException | ExecutionException error) {
        answer = "bad " + error.toString().replace('\n', ' ');
      }
      System.out.println(answer);
      System.out.flush();
    }
    System.exit(0);
  }

  private String command(String[] words)
      throws IOException, InterruptedException, ExecutionException {
    switch (words[0]) {
      case "live":
        return "" + files.getDataNodeStats(HdfsConstants.DatanodeReportType.LIVE).length;
      case "policy":
        files.enableErasureCodingPolicy(words[1]);
        files.setErasureCodingPolicy(new Path("/"), words[1]);
        return "";
      case "deleting":
        return "" + files.getClient().getNamenode().getStats()[8];
      case "lacking":
        return lacking(Integer.parseInt(words[1]));
      case "write":
        return write(words[1], Integer.parseInt(words[2]), Integer.parseInt(words[3]));
      case "read":
        return read(words[1], Integer.parseInt(words[2]), Integer.parseInt(words[3]));
      case "sort":
        return sort(words[1], words[2], Integer.parseInt(words[3]), words[4].split(","));
      case "sum":
        return sum(words[1]);
      default:
        throw new IllegalArgumentException("no such command: " + words[0]);
    }
  }

  private static Path part(String folder, int part) {
    return new Path(folder, String.format("part-%05d", part));
  }

  /**
   * Returns rows of a part, as many as a buffer takes. The same part and row always give the same
   * bytes.
   */
  private static byte[] rows(int part, int from, int count) {
    byte[] rows = new byte[count * ROW];
    new Random(((long) part << 32) + from).nextBytes(rows);
    return rows;
  }

  private String write(String folder, int part, int count) throws IOException {
    try (OutputStream to = files.create(part(folder, part), true)) {
      for (int from = 0; from < count; from += BATCH / ROW) {
        to.write(rows(part, from, Math.min(BATCH / ROW, count - from)));
      }
    }
    return "" + count;
  }

  /** Reads a part and compares it with the written rows. */
  private String read(String folder, int part, int count) throws IOException {
    try (DataInputStream in = new DataInputStream(files.open(part(folder, part)))) {
      for (int from = 0; from < count; from += BATCH / ROW) {
        byte[] rows = rows(part, from, Math.min(BATCH / ROW, count - from));
        byte[] found = new byte[rows.length];
        in.readFully(found);
        if (!Arrays.equals(rows, found)) {
          throw new IOException("part " + part + " is not what was written");
        }
      }
      if (in.read() >= 0) {
        throw new IOException("part " + part + " is longer than what was written");
      }
    }
    return "" + count;
  }

  /** Returns the worker of a row, by the first four bytes of its key. */
  private static int owner(byte[] rows, int at, int workers) {
    long key = 0;
    for (int i = 0; i < 4; i++) {
      key = key << 8 | rows[at + i] & 0xff;
    }
    return (int) (key * workers >>> 32);
  }

  private String sort(String from, String to, int part, String[] hosts)
      throws IOException, InterruptedException, ExecutionException {
    List<byte[]> mine = new ArrayList<>();
    ExecutorService threads = Executors.newCachedThreadPool();
    try (ServerSocket server = new ServerSocket()) {
      server.setReuseAddress(true);
      server.bind(new InetSocketAddress(hosts[part], PORT), hosts.length);
      Future<List<byte[]>> others =
          threads.submit(
              () -> {
                List<Future<byte[]>> one = new ArrayList<>();
                for (int i = 1; i < hosts.length; i++) {
                  Socket peer = server.accept();
                  one.add(threads.submit(() -> all(peer)));
                }
                List<byte[]> rows = new ArrayList<>();
                for (Future<byte[]> rest : one) {
                  rows.add(rest.get());
                }
                return rows;
              });
      mine.add(scatter(part(from, part), part, hosts));
      mine.addAll(others.get(10, TimeUnit.MINUTES));
    } catch (java.util.concurrent.TimeoutException late) {
      throw new IOException("the other workers send nothing", late);
    } finally {
      threads.shutdownNow();
    }
    return "" + writeSorted(mine, part(to, part));
  }

  private static byte[] all(Socket peer) throws IOException {
    ByteArrayOutputStream rows = new ByteArrayOutputStream();
    try (InputStream in = peer.getInputStream()) {
      in.transferTo(rows);
    }
    return rows.toByteArray();
  }

  /** Sends each row of a file to its worker; returns those of this one. */
  private byte[] scatter(Path file, int part, String[] hosts)
      throws IOException, InterruptedException {
    ByteArrayOutputStream mine = new ByteArrayOutputStream();
    OutputStream[] to = new OutputStream[hosts.length];
    for (int i = 0; i < hosts.length; i++) {
      to[i] = i == part ? mine : new BufferedOutputStream(connect(hosts[i]).getOutputStream(), BATCH);
    }
    byte[] row = new byte[ROW];
    try (DataInputStream in =
        new DataInputStream(new BufferedInputStream(files.open(file), BATCH))) {
      while (true) {
        in.readFully(row);
        to[owner(row, 0, hosts.length)].write(row);
      }
    } catch (EOFException end) {
      for (OutputStream stream : to) {
        stream.close();
      }
    }
    return mine.toByteArray();
  }

  /** Connects once the other worker listens. */
  private static Socket connect(String host) throws IOException, InterruptedException {
    long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
    while (true) {
      try {
        return new Socket(host, PORT);
      } catch (IOException error) {
        if (System.nanoTime() > end) {
          throw error;
        }
        Thread.sleep(50);
      }
    }
  }

  private int writeSorted(List<byte[]> pieces, Path file) throws IOException {
    int bytes = pieces.stream().mapToInt(piece -> piece.length).sum();
    byte[] rows = new byte[bytes];
    int at = 0;
    for (byte[] piece : pieces) {
      System.arraycopy(piece, 0, rows, at, piece.length);
      at += piece.length;
    }
    pieces.clear();
    Integer[] order = new Integer[bytes / ROW];
    Arrays.setAll(order, i -> i * ROW);
    Arrays.sort(order, (a, b) -> Arrays.compareUnsigned(rows, a, a + KEY, rows, b, b + KEY));
    try (OutputStream to = new BufferedOutputStream(files.create(file, true), BATCH)) {
      for (int row : order) {
        to.write(rows, row, ROW);
      }
    }
    return order.length;
  }

  /**
   * Returns the number of rows in a folder, the sum of their CRCs, and if keys ascend from file to
   * file.
   */
  private String sum(String folder) throws IOException {
    FileStatus[] parts = files.listStatus(new Path(folder));
    Arrays.sort(parts);
    long rows = 0;
    long sum = 0;
    boolean sorted = true;
    byte[] last = new byte[KEY];
    byte[] row = new byte[ROW];
    for (FileStatus part : parts) {
      try (DataInputStream in =
          new DataInputStream(new BufferedInputStream(files.open(part.getPath()), BATCH))) {
        for (long left = part.getLen() / ROW; left > 0; left--) {
          in.readFully(row);
          CRC32 crc = new CRC32();
          crc.update(row);
          sum += crc.getValue();
          rows++;
          sorted &= Arrays.compareUnsigned(last, 0, KEY, row, 0, KEY) <= 0;
          System.arraycopy(row, 0, last, 0, KEY);
        }
      }
    }
    return rows + " " + sum + " " + (sorted ? "sorted" : "unsorted");
  }

  /**
   * Returns the number of blocks with fewer copies, or of groups with fewer units, than so many,
   * and the number of those without any.
   */
  private String lacking(int copies) throws IOException {
    int few = 0;
    int lost = 0;
    for (FileStatus folder : files.listStatus(new Path("/"))) {
      for (FileStatus file : files.listStatus(folder.getPath())) {
        for (LocatedBlock block :
            files
                .getClient()
                .getLocatedBlocks(file.getPath().toUri().getPath(), 0, Long.MAX_VALUE)
                .getLocatedBlocks()) {
          int there = block.isCorrupt() ? 0 : block.getLocations().length;
          if (block instanceof LocatedStripedBlock) {
            Set<Byte> units = new HashSet<>();
            for (byte unit : ((LocatedStripedBlock) block).getBlockIndices()) {
              units.add(unit);
            }
            there = units.size();
          }
          few += there < copies ? 1 : 0;
          lost += there == 0 ? 1 : 0;
        }
      }
    }
    return few + " " + lost;
  }
}
