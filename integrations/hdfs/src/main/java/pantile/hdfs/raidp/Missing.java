package pantile.hdfs.raidp;

import java.io.IOException;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.protocol.ExtendedBlock;
import org.apache.hadoop.hdfs.protocol.LocatedBlock;
import org.apache.hadoop.hdfs.protocol.LocatedBlocks;

/** A block of a file of which the NameNode knows no good replica. */
final class Missing {
  final String file;
  final ExtendedBlock block;

  private Missing(String file, ExtendedBlock block) {
    this.file = file;
    this.block = block;
  }

  /**
   * Returns all missing blocks by id, except blocks that are being written, which are in no parity.
   */
  static Map<Long, Missing> of(DistributedFileSystem files) throws IOException {
    Set<String> names = new LinkedHashSet<>();
    RemoteIterator<Path> paths = files.listCorruptFileBlocks(new Path("/"));
    while (paths.hasNext()) {
      names.add(paths.next().toUri().getPath());
    }
    Map<Long, Missing> missing = new HashMap<>();
    for (String name : names) {
      LocatedBlocks blocks = files.getClient().getLocatedBlocks(name, 0, Long.MAX_VALUE);
      for (LocatedBlock block : blocks.getLocatedBlocks()) {
        boolean gone = block.getLocations().length == 0 || block.isCorrupt();
        boolean open = block == blocks.getLastLocatedBlock() && !blocks.isLastBlockComplete();
        if (gone && !open && !block.isStriped()) {
          missing.put(block.getBlock().getBlockId(), new Missing(name, block.getBlock()));
        }
      }
    }
    return missing;
  }
}
