package pantile.hdfs;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.reflect.InvocationTargetException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/**
 * The command of the jar. Hadoop's classes are not in it: they are those of {@code hadoop jar
 * pantile-hdfs.jar}, or, where the jar is started by {@code java -jar}, those that {@code hadoop
 * classpath} names.
 *
 * <p>This class refers to no class of Hadoop, so that it can report when they are missing.
 */
public final class Main {
  private Main() {}

  /** Runs {@link Tool} and exits with its status. */
  public static void main(String[] arguments) throws Exception {
    ClassLoader loader = Main.class.getClassLoader();
    if (!hasHadoop(loader)) {
      try {
        loader = withHadoop();
      } catch (IOException why) {
        System.err.println("pantile-hdfs: " + why.getMessage());
        System.exit(2);
      }
      Thread.currentThread().setContextClassLoader(loader);
    }
    try {
      Object status =
          Class.forName("pantile.hdfs.Tool", true, loader)
              .getMethod("run", String[].class)
              .invoke(null, (Object) arguments);
      System.exit((Integer) status);
    } catch (InvocationTargetException thrown) {
      if (thrown.getCause() instanceof Exception) {
        throw (Exception) thrown.getCause();
      }
      throw thrown;
    }
  }

  private static boolean hasHadoop(ClassLoader loader) {
    try {
      Class.forName("org.apache.hadoop.hdfs.DistributedFileSystem", false, loader);
      return true;
    } catch (ClassNotFoundException | LinkageError missing) {
      return false;
    }
  }

  /**
   * Returns a class loader with the jar behind the classes that `hadoop classpath` names, as
   * `hadoop jar` has it: an installed jar takes precedence.
   */
  private static ClassLoader withHadoop() throws IOException {
    List<URL> urls = new ArrayList<>();
    for (String entry : hadoopClassPath().split(File.pathSeparator)) {
      urls.add(new File(entry).toURI().toURL());
    }
    ClassLoader jdk = ClassLoader.getSystemClassLoader().getParent();
    ClassLoader hadoop = new URLClassLoader(urls.toArray(new URL[0]), jdk);
    if (!hasHadoop(hadoop)) {
      throw new IOException("what `hadoop classpath` names has no HDFS client");
    }
    URL jar = Main.class.getProtectionDomain().getCodeSource().getLocation();
    return new URLClassLoader(new URL[] {jar}, hadoop);
  }

  private static String hadoopClassPath() throws IOException {
    String home = System.getenv("HADOOP_HOME");
    String hadoop = home == null ? "hadoop" : home + "/bin/hadoop";
    String way =
        "start it with `hadoop jar pantile-hdfs.jar ARGUMENTS`, or set HADOOP_HOME to where"
            + " bin/hadoop is";
    Process process;
    try {
      process =
          new ProcessBuilder(hadoop, "classpath", "--glob")
              .redirectError(ProcessBuilder.Redirect.INHERIT)
              .start();
    } catch (IOException missing) {
      throw new IOException(hadoop + " cannot be started; " + way);
    }
    try (BufferedReader lines =
        new BufferedReader(
            new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8))) {
      String line = lines.readLine();
      if (process.waitFor() != 0 || line == null) {
        throw new IOException("`" + hadoop + " classpath` failed; " + way);
      }
      return line;
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      throw new IOException("interrupted");
    }
  }
}
