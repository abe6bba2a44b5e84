package pantile.hdfs;

import java.io.IOException;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.HdfsConfiguration;
import org.apache.hadoop.io.erasurecode.CodecUtil;
import org.apache.hadoop.io.erasurecode.ErasureCoderOptions;
import org.apache.hadoop.util.GenericOptionsParser;
import pantile.hdfs.raidp.RaidpTool;

/** The commands of the jar: arguments in, sentences and an exit status out. */
public final class Tool {
  /** Exit status: no fault was found. */
  static final int GOOD = 0;

  /** Exit status: some checked block is wrong. */
  static final int WRONG = 1;

  /** Exit status: some or all blocks could not be checked. */
  static final int FAILED = 2;

  private static final String USAGE =
      "usage: hadoop jar pantile-hdfs.jar verify [--repair] [--evidence BITS] PATH...\n"
          + "       hadoop jar pantile-hdfs.jar check\n"
          + RaidpTool.USAGE + "\n"
          + "\n"
          + "verify  reads every block of the erasure-coded files and says which block is wrong.\n"
          + "        PATH is a file or a directory with all below it.\n"
          + "  --repair         reports wrong blocks to the NameNode, which has them rebuilt\n"
          + "  --evidence BITS  how much evidence that takes: a mistake is rarer than once in 2^BITS\n"
          + "                   (" + Verifier.EVIDENCE_BITS_USUAL + " unless said)\n"
          + "check   says whether Hadoop finds the jar here, and which coder it takes for each\n"
          + "        codec.\n"
          + "raidp   parity-check compares the disk of this DataNode with its add-on;\n"
          + "        serve keeps add-ons of other nodes' disks;\n"
          + "        recover rebuilds what was lost with two or three disks.\n"
          + "\n"
          + "Exit status: 0 all good, 1 something is wrong, 2 not everything could be looked at.";

  private final PrintStream out;
  private final PrintStream err;
  private int status = GOOD;

  private Tool(PrintStream out, PrintStream err) {
    this.out = out;
    this.err = err;
  }

  /** Runs a command with Hadoop's configuration and its general options (`-D`, `-fs`, `-conf`). */
  public static int run(String[] arguments) throws IOException {
    GenericOptionsParser general = new GenericOptionsParser(new HdfsConfiguration(), arguments);
    return run(general.getConfiguration(), general.getRemainingArgs(), System.out, System.err);
  }

  static int run(Configuration conf, String[] arguments, PrintStream out, PrintStream err) {
    Tool tool = new Tool(out, err);
    String command = arguments.length == 0 ? "" : arguments[0];
    switch (command) {
      case "verify":
        tool.verify(conf, arguments);
        break;
      case "check":
        if (arguments.length > 1) {
          tool.failed("check takes nothing behind it; general options (-D) go before it\n" + USAGE);
        } else {
          tool.check(conf);
        }
        break;
      case "raidp":
        return RaidpTool.run(conf, Arrays.asList(arguments).subList(1, arguments.length), out, err);
      default:
        err.println(USAGE);
        return FAILED;
    }
    return tool.status;
  }

  private void failed(String why) {
    err.println("pantile-hdfs: " + why);
    status = FAILED;
  }

  private void verify(Configuration conf, String[] arguments) {
    boolean repair = false;
    int evidence = Verifier.EVIDENCE_BITS_USUAL;
    List<Path> paths = new ArrayList<>();
    for (int i = 1; i < arguments.length; i++) {
      if (arguments[i].equals("--repair")) {
        repair = true;
      } else if (arguments[i].equals("--evidence") && i + 1 < arguments.length) {
        i++;
        if (!arguments[i].matches("[1-9][0-9]{0,3}")) {
          failed("--evidence takes a number of bits from 1 on, not " + arguments[i]);
          return;
        }
        evidence = Integer.parseInt(arguments[i]);
      } else if (arguments[i].startsWith("--")) {
        failed("no such option: " + arguments[i] + "\n" + USAGE);
        return;
      } else {
        paths.add(new Path(arguments[i]));
      }
    }
    if (paths.isEmpty()) {
      failed("which file?\n" + USAGE);
      return;
    }
    try {
      Native.check();
    } catch (UnsatisfiedLinkError missing) {
      failed(missing.getMessage());
      return;
    }
    for (Path path : paths) {
      try {
        FileSystem files = path.getFileSystem(conf);
        if (!(files instanceof DistributedFileSystem)) {
          failed(path + " is on " + files.getUri() + ", which is no HDFS");
          continue;
        }
        Verifier verifier = new Verifier((DistributedFileSystem) files, repair, evidence, out);
        tree(verifier, files, files.getFileStatus(path));
      } catch (IOException why) {
        failed(path + ": " + why.getMessage());
      }
    }
  }

  /** Checks a file, or all below a directory; an unreadable file does not stop the others. */
  private void tree(Verifier verifier, FileSystem files, FileStatus top) throws IOException {
    List<FileStatus> left = new ArrayList<>();
    left.add(top);
    while (!left.isEmpty()) {
      FileStatus next = left.remove(left.size() - 1);
      try {
        if (next.isDirectory()) {
          FileStatus[] within = files.listStatus(next.getPath());
          for (int i = within.length - 1; i >= 0; i--) {
            left.add(within[i]);
          }
        } else if (next.isFile()) {
          status = Math.max(status, verifier.file(next.getPath()));
        }
      } catch (IOException why) {
        failed(next.getPath() + ": " + why.getMessage());
      }
    }
  }

  private void check(Configuration conf) {
    // `hadoop jar` and `java -jar` bring the jar along; Hadoop's services do not.
    if (Tool.class.getClassLoader() == Configuration.class.getClassLoader()) {
      out.println("jar: " + Tool.class.getProtectionDomain().getCodeSource().getLocation().getPath());
    } else {
      status = WRONG;
      out.println(
          "jar: it is not on the class path that `hadoop classpath` names, so that Hadoop does not"
              + " find it\n"
              + "  copy it to share/hadoop/hdfs/lib, or name it in HADOOP_CLASSPATH in hadoop-env.sh");
    }
    String why = null;
    try {
      Native.check();
      out.println("native library: version " + Native.version());
    } catch (UnsatisfiedLinkError missing) {
      out.println("native library: " + missing.getMessage());
      status = WRONG;
      why = "the native library is to be mended first";
    }
    if (!conf.getBoolean(CodecUtil.IO_ERASURECODE_CODEC_NATIVE_ENABLED_KEY, true)) {
      why = CodecUtil.IO_ERASURECODE_CODEC_NATIVE_ENABLED_KEY + " is false";
    }
    for (Family family : Family.values()) {
      coder(conf, family, why);
    }
  }

  /**
   * Prints the coder that is used for a codec; if it is not ours, the reason or the setting to
   * change.
   */
  private void coder(Configuration conf, Family family, String why) {
    int parity = family == Family.XOR ? 1 : 3;
    String coder;
    try {
      coder =
          CodecUtil.createRawDecoder(conf, family.codec, new ErasureCoderOptions(6, parity))
              .getClass()
              .getName();
    } catch (IllegalArgumentException none) {
      coder = "none: " + none.getMessage();
    }
    out.println("codec " + family.codec + ": " + coder);
    if (!coder.equals(Decoder.class.getName())) {
      status = WRONG;
      String keys =
          "to have it coded natively: io.erasurecode.codec." + family.codec + ".rawcoders = "
              + family.coder() + (family == Family.RAIDQ ? "" : "," + family.java());
      out.println("  " + (why == null ? keys : why));
    }
  }
}
