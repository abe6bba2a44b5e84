package pantile.hdfs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A library that cannot be loaded is logged once, with the reason; Hadoop takes another coder. */
class WithoutTheLibraryTest {
  @TempDir Path folder;

  private int status;

  /** Runs `check` in a separate process; returns its whole output. */
  private String check(String... options) throws Exception {
    List<String> command = new ArrayList<>();
    command.add(System.getProperty("java.home") + "/bin/java");
    command.addAll(List.of(options));
    command.addAll(List.of("-cp", System.getProperty("java.class.path"), "pantile.hdfs.Main"));
    for (String codec : new String[] {"rs", "xor", "rs-legacy"}) {
      command.add("-Dio.erasurecode.codec." + codec + ".rawcoders=" + codec + "_pantile_native," + codec + "_java");
    }
    command.add("check");
    Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
    String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    status = process.waitFor();
    return said;
  }

  private List<String> left() throws Exception {
    try (Stream<Path> all = Files.list(folder)) {
      return all.map(Path::toString).toList();
    }
  }

  @Test
  void ourCodersAreTakenAndNoFileIsLeftBehind() throws Exception {
    String said = check("-Djava.io.tmpdir=" + folder);
    assertEquals(0, status, said);
    assertTrue(said.contains("codec rs: pantile.hdfs.Decoder"), said);
    assertTrue(said.contains("codec raidq: pantile.hdfs.Decoder"), said);
    assertEquals(List.of(), left().stream().filter(name -> name.contains("pantile")).toList());
  }

  @Test
  void aFileThatIsNamedIsLoadedInstead() throws Exception {
    File built = new File(System.getProperty("pantile.native"));
    Path own = folder.resolve("own.so");
    Files.copy(built.toPath(), own);
    String said = check("-Djava.io.tmpdir=/nowhere", "-Dpantile.hdfs.library=" + own);
    assertEquals(0, status, said);
  }

  @Test
  void hadoopsCodersAreTakenWhereItCannotBeLoaded() throws Exception {
    Path empty = Files.createFile(folder.resolve("empty.so"));
    for (String option : new String[] {
      "-Dpantile.hdfs.library=/nowhere.so", "-Dpantile.hdfs.library=" + empty, "-Dos.arch=riscv64",
      "-Djava.io.tmpdir=/nowhere"
    }) {
      String said = check(option);
      assertEquals(1, status, said);
      assertTrue(said.contains("Pantile's native library cannot be used: "), said);
      assertTrue(said.contains("codec rs: org.apache.hadoop.io.erasurecode.rawcoder.RSRawDecoder"), said);
      assertTrue(said.contains("codec xor: org.apache.hadoop.io.erasurecode.rawcoder.XORRawDecoder"), said);
      assertTrue(said.contains("codec raidq: none"), said);
    }
  }
}
