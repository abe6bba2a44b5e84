package pantile.hdfs.raidp;

import java.io.File;
import java.io.IOException;
import java.lang.reflect.Proxy;
import java.nio.file.FileStore;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.TreeSet;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.server.common.Storage;
import org.apache.hadoop.hdfs.server.datanode.DataNode;
import org.apache.hadoop.hdfs.server.datanode.DataStorage;
import org.apache.hadoop.hdfs.server.datanode.fsdataset.FsDatasetSpi;
import org.apache.hadoop.hdfs.server.datanode.fsdataset.impl.FsDatasetFactory;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import pantile.hdfs.RaidpCode;

/**
 * Makes HDFS's own dataset of a DataNode, inside a wrapper that keeps the disk's add-on.
 *
 * <p>It is named in {@code dfs.datanode.fsdataset.factory}. At the first start the directories,
 * which are empty then, get the ids that say which superchunk each of them is ({@link
 * StorageName}).
 */
public class DatasetFactory extends FsDatasetSpi.Factory<FsDatasetSpi<?>> {
  private static final Logger LOG = LoggerFactory.getLogger(DatasetFactory.class);

  @Override
  public FsDatasetSpi<?> newInstance(DataNode node, DataStorage storage, Configuration conf)
      throws IOException {
    Settings settings = Settings.of(conf);
    RaidpCode.of(settings.disks);
    name(storage, settings);
    warnOfOneDisk(storage, settings);
    AddOnServer server = null;
    if (settings.serverAddress != null) {
      server = new AddOnServer(Paths.get(settings.serverFolder), settings.serverAddress);
    }
    FsDatasetSpi<?> real;
    try {
      real = ((FsDatasetSpi.Factory<?>) new FsDatasetFactory()).newInstance(node, storage, conf);
    } catch (IOException | RuntimeException error) {
      if (server != null) {
        server.close();
      }
      throw error;
    }
    Guard guard = new Guard(real, settings, pool -> addOn(settings, pool), server, node);
    return (FsDatasetSpi<?>)
        Proxy.newProxyInstance(
            getClass().getClassLoader(), new Class<?>[] {FsDatasetSpi.class}, guard);
  }

  /** Opens the add-on for the blocks of a pool. */
  AddOn addOn(Settings settings, String pool) throws IOException {
    return AddOns.write(settings.addOn, settings.header(pool));
  }

  /** Gives the names that are left to directories that have no name of RAIDP yet. */
  private static void name(DataStorage storage, Settings settings) throws IOException {
    TreeSet<Integer> free = new TreeSet<>();
    for (int partner = 0; partner < settings.disks; partner++) {
      free.add(partner);
    }
    StorageName any = StorageName.of(settings.array, settings.disk, 0);
    for (int i = 0; i < storage.getNumStorageDirs(); i++) {
      Storage.StorageDirectory directory = storage.getStorageDir(i);
      StorageName name = StorageName.parse(directory.getStorageUuid());
      if (name == null) {
        continue;
      }
      if (name.array != any.array || name.disk != settings.disk || !free.remove(name.partner)) {
        throw new IOException(
            directory.getRoot() + " is " + words(name)
                + (name.array == any.array ? "" : " of another array") + ", and this is disk "
                + settings.disk + " of array " + settings.array
                + ", which has each superchunk once");
      }
    }
    for (int i = 0; i < storage.getNumStorageDirs(); i++) {
      Storage.StorageDirectory directory = storage.getStorageDir(i);
      if (StorageName.parse(directory.getStorageUuid()) != null) {
        continue;
      }
      if (free.isEmpty() || hasBlocks(directory.getCurrentDir())) {
        throw new IOException(
            directory.getRoot() + " has blocks that were not written with RAIDP; start it with empty"
                + " directories, and copy files into them");
      }
      StorageName name = StorageName.of(settings.array, settings.disk, free.pollFirst());
      LOG.info("RAIDP: {} is from now on {}", directory.getRoot(), words(name));
      directory.setStorageUuid(name.toString());
      storage.writeProperties(directory);
    }
  }

  private static String words(StorageName name) {
    return (name.isSpare() ? "the spare" : "superchunk " + name.partner) + " of disk " + name.disk;
  }

  private static boolean hasBlocks(File current) throws IOException {
    try (Stream<Path> all = Files.walk(current.toPath())) {
      return all.anyMatch(path -> path.getFileName().toString().startsWith("blk_"));
    }
  }

  private static void warnOfOneDisk(DataStorage storage, Settings settings) throws IOException {
    Path folder = Paths.get(settings.addOn);
    if (!folder.isAbsolute() || !Files.isDirectory(folder)) {
      return;
    }
    FileStore addOn = Files.getFileStore(folder);
    for (int i = 0; i < storage.getNumStorageDirs(); i++) {
      if (Files.getFileStore(storage.getStorageDir(i).getRoot().toPath()).equals(addOn)) {
        LOG.warn(
            "RAIDP: the add-on in {} is on the disk whose parity it has; they will be lost together",
            folder);
        return;
      }
    }
  }
}
