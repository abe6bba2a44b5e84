package pantile.hdfs.raidp;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.io.IOException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.TreeSet;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.protocol.ExtendedBlock;
import org.apache.hadoop.hdfs.server.datanode.fsdataset.FsDatasetSpi;
import org.apache.hadoop.hdfs.server.datanode.fsdataset.impl.AddBlockPoolException;
import org.apache.hadoop.hdfs.server.protocol.DatanodeStorage;
import org.apache.hadoop.hdfs.server.protocol.StorageReport;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * Methods of the dataset that parity may not follow are refused, and no DataNode starts without
 * parity.
 */
class TheGuardFailsClosedTest {
  @TempDir Path folder;

  private final List<String> called = new ArrayList<>();
  private RuntimeException poolFails;

  /** A dataset without volumes and blocks, which records the called methods. */
  private final FsDatasetSpi<?> real =
      (FsDatasetSpi<?>)
          Proxy.newProxyInstance(
              getClass().getClassLoader(),
              new Class<?>[] {FsDatasetSpi.class},
              (proxy, method, arguments) -> {
                called.add(method.getName());
                switch (method.getName()) {
                  case "addBlockPool":
                    if (poolFails != null) {
                      throw poolFails;
                    }
                    return null;
                  case "getFsVolumeReferences":
                    return new FsDatasetSpi.FsVolumeReferences(Collections.emptyList());
                  case "getFinalizedBlocks":
                    return Collections.emptyList();
                  case "getStorageReports":
                    DatanodeStorage storage =
                        new DatanodeStorage(StorageName.of("a", 0, 1).toString());
                    return new StorageReport[] {
                      new StorageReport(storage, false, 1L << 40, 0, 1L << 40, 0, 0)
                    };
                  default:
                    return null;
                }
              });

  private Settings settings() throws IOException {
    Configuration conf = new Configuration(false);
    conf.set("dfs.datanode.fsdataset.volume.choosing.policy", VolumePolicy.class.getName());
    conf.setBoolean("dfs.disk.balancer.enabled", false);
    conf.set(
        "dfs.datanode.data.dir",
        folder.resolve("1") + "," + folder.resolve("2") + "," + folder.resolve("spare"));
    conf.set(Settings.ARRAY, "a");
    conf.setInt(Settings.DISKS, 3);
    conf.setInt(Settings.DISK, 0);
    conf.set(Settings.ADD_ON, folder.toString());
    conf.setLong(Settings.ADD_ON_BYTES, 64 << 20);
    conf.setLong("dfs.blocksize", 1 << 20);
    return Settings.of(conf);
  }

  private Guard guard() throws IOException {
    Settings settings = settings();
    return new Guard(
        real, settings, pool -> AddOns.write(settings.addOn, settings.header(pool)), null, null);
  }

  private static Object call(Guard guard, String name, Object... arguments) throws Throwable {
    for (Method method : FsDatasetSpi.class.getMethods()) {
      if (method.getName().equals(name) && method.getParameterCount() == arguments.length) {
        return guard.invoke(null, method, arguments);
      }
    }
    throw new AssertionError("no method " + name);
  }

  private static long room(Guard guard) throws Throwable {
    return ((StorageReport[]) call(guard, "getStorageReports", "BP-1"))[0].getRemaining();
  }

  @Test
  void everyMethodOfTheInterfaceHasARuleAndNoRuleIsLeftOver() {
    assertEquals(new TreeSet<>(), DatasetMethods.unknown());
    assertEquals(new TreeSet<>(), DatasetMethods.gone());
  }

  /** Methods that a later Hadoop can add. */
  private interface Next {
    void fastCopy(ExtendedBlock from, ExtendedBlock to) throws IOException;

    /** An overload of an existing method, with other parameters. */
    void append(ExtendedBlock block, boolean inPlace);
  }

  @Test
  void aMethodThatIsNotKnownIsRefused() throws Throwable {
    Guard guard = guard();
    for (Method method : Next.class.getMethods()) {
      Class<? extends Exception> expected =
          method.getExceptionTypes().length > 0
              ? IOException.class
              : UnsupportedOperationException.class;
      Exception why =
          assertThrows(
              expected, () -> guard.invoke(null, method, new Object[] {null, null}));
      assertTrue(why.getMessage().contains(method.getName()), why.getMessage());
    }
    assertEquals(List.of(), called);
  }

  @Test
  void anAddOnThatCouldNotBeOpenedOnceIsOpenedWhenHdfsAsksAgain() throws Throwable {
    Path away = folder.resolveSibling(folder.getFileName() + "-away");
    Guard guard = guard();
    Files.move(folder, away);
    assertThrows(IOException.class, () -> call(guard, "addBlockPool", "BP-1", null));
    // The start has no partial effect: HDFS's dataset does not know the pool.
    assertEquals(false, called.contains("addBlockPool"));
    assertThrows(IOException.class, () -> call(guard, "addBlockPool", "BP-1", null));
    Files.move(away, folder);
    call(guard, "addBlockPool", "BP-1", null);
    // With its add-on, the room is 64 MiB of parity minus a block.
    assertEquals(63 << 20, room(guard));
    assertTrue(new File(folder.toFile(), "journal").exists());
    call(guard, "shutdown");
    // The add-on is closed, and can be opened by the next process.
    AddOns.local(folder, null, false).close();
  }

  @Test
  void withAFailedDirectoryTheOthersGoOnWithParity() throws Throwable {
    Guard guard = guard();
    poolFails = new AddBlockPoolException();
    assertThrows(
        AddBlockPoolException.class, () -> call(guard, "addBlockPool", "BP-1", null));
    assertEquals(63 << 20, room(guard));
    call(guard, "invalidate", "BP-1", new org.apache.hadoop.hdfs.protocol.Block[0]);
    assertTrue(called.contains("invalidate"));
    call(guard, "shutdown");
  }

  @Test
  void aPoolThatHdfsCannotOpenLeavesTheAddOnClosed() throws Throwable {
    Guard guard = guard();
    poolFails = new IllegalStateException("no");
    assertThrows(
        IllegalStateException.class, () -> call(guard, "addBlockPool", "BP-1", null));
    AddOns.local(folder, null, false).close();
    poolFails = null;
    call(guard, "addBlockPool", "BP-1", null);
    assertEquals(63 << 20, room(guard));
    call(guard, "shutdown");
  }
}
