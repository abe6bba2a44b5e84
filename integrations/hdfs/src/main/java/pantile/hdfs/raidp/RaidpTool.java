package pantile.hdfs.raidp;

import java.io.File;
import java.io.IOException;
import java.io.PrintStream;
import java.net.InetSocketAddress;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.server.datanode.DataNode;
import org.apache.hadoop.hdfs.server.datanode.StorageLocation;

/** The command `raidp` of the jar: arguments in, sentences and an exit status out. */
public final class RaidpTool {
  private static final int GOOD = 0;
  private static final int WRONG = 1;
  private static final int FAILED = 2;

  /** Usage of {@link Recover}. */
  static final String RECOVER =
      "hadoop jar pantile-hdfs.jar raidp recover [OPTIONS] [--add-on DISK=PLACE]...";

  /** Usage. */
  public static final String USAGE =
      "       hadoop jar pantile-hdfs.jar raidp parity-check\n"
          + "       hadoop jar pantile-hdfs.jar raidp status\n"
          + "       hadoop jar pantile-hdfs.jar raidp check\n"
          + "       hadoop jar pantile-hdfs.jar raidp forget DISK\n"
          + "       hadoop jar pantile-hdfs.jar raidp serve FOLDER HOST:PORT\n"
          + "       " + RECOVER;

  private RaidpTool() {}

  /** Runs a subcommand of `raidp` with a DataNode's configuration. */
  public static int run(Configuration conf, List<String> arguments, PrintStream out, PrintStream err) {
    String command = arguments.isEmpty() ? "" : arguments.get(0);
    try {
      if (command.equals("parity-check") && arguments.size() == 1) {
        return check(conf, out);
      }
      boolean forgets = command.equals("forget") && arguments.size() == 2;
      boolean looks = command.equals("status") || command.equals("check");
      if (forgets || looks && arguments.size() == 1) {
        return look(conf, command, arguments, out);
      }
      if (command.equals("serve") && arguments.size() == 3) {
        return serve(arguments.get(1), AddOns.address(arguments.get(2)), out);
      }
      if (command.equals("recover")) {
        return Recover.run(conf, arguments.subList(1, arguments.size()), out, err);
      }
    } catch (IOException | IllegalArgumentException | UnsatisfiedLinkError error) {
      err.println("pantile-hdfs: " + error.getMessage());
      return FAILED;
    }
    err.println("usage:\n" + USAGE);
    return FAILED;
  }

  /** Compares the disk of this node with its add-on. */
  private static int check(Configuration conf, PrintStream out) throws IOException {
    Settings settings = Settings.of(conf);
    List<File> directories = new ArrayList<>();
    for (StorageLocation location : DataNode.getStorageLocations(conf)) {
      directories.add(new File(location.getUri()));
    }
    try (AddOn addOn = AddOns.read(settings.addOn, settings.disk)) {
      Header header = addOn.header();
      if (header.disk != settings.disk || !header.array.equals(settings.array)) {
        throw new IOException("the add-on is of " + header);
      }
      return new ParityCheck(addOn, Folders.of(directories), out).run() == 0 ? GOOD : WRONG;
    }
  }

  /** Runs a command on the whole array, by asking its DataNodes. */
  private static int look(
      Configuration conf, String command, List<String> arguments, PrintStream out)
      throws IOException {
    FileSystem files = FileSystem.get(conf);
    if (!(files instanceof DistributedFileSystem)) {
      throw new IOException(files.getUri() + " is no HDFS; give -fs hdfs://NAMENODE");
    }
    DistributedFileSystem hdfs = (DistributedFileSystem) files;
    try (ArrayView view = ArrayView.of(hdfs, conf, out)) {
      if (command.equals("forget")) {
        String disk = arguments.get(1);
        if (!disk.matches("[0-9]{1,2}")) {
          throw new IOException("\"" + disk + "\" is no number of a disk");
        }
        return view.forget(Integer.parseInt(disk)) == 0 ? GOOD : WRONG;
      }
      return (command.equals("status") ? view.status() : view.check()) == 0 ? GOOD : WRONG;
    }
  }

  private static int serve(String folder, InetSocketAddress address, PrintStream out)
      throws IOException {
    try (AddOnServer server = new AddOnServer(Paths.get(folder), address)) {
      out.println("serving the add-ons in " + folder + " at port " + server.port());
      Thread.currentThread().join();
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
    }
    return GOOD;
  }
}
