package pantile.hdfs.raidp;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.nio.file.Paths;

/** Opens add-ons by their place: a folder, or the address of a server. */
public final class AddOns {
  private AddOns() {}

  /**
   * Opens the add-on of a disk for reading: a folder by its absolute path, or {@code host:port} of
   * the server that keeps it. A folder can be read while a DataNode writes it: entries are those of
   * the moment when it was opened, and parity of a row that changed since is refused as {@link
   * LocalAddOn.Changed}.
   */
  public static AddOn read(String where, int disk) throws IOException {
    return isFolder(where)
        ? local(Paths.get(where), null, true)
        : new RemoteAddOn(address(where), disk, null);
  }

  /** Opens the add-on of a disk for writing by this process alone; creates it if there is none. */
  static AddOn write(String where, Header wanted) throws IOException {
    AddOn addOn =
        isFolder(where)
            ? local(Paths.get(where), wanted, false)
            : new RemoteAddOn(address(where), wanted.disk, wanted);
    Header header = addOn.header();
    if (header.disk != wanted.disk
        || header.disks != wanted.disks
        || !header.array.equals(wanted.array)
        || !header.pool.equals(wanted.pool)) {
      addOn.close();
      throw new IOException(
          "the add-on at " + where + " is of " + header + ", not of " + wanted
              + (header.disks == wanted.disks
                  ? ""
                  : "; the number of disks stays: copy files to a new array of " + wanted.disks));
    }
    return addOn;
  }

  /**
   * Opens the add-on in a folder. If the folder has none, creates the one that {@code wanted}
   * describes, unless that is null.
   */
  static LocalAddOn local(Path folder, Header wanted, boolean readOnly) throws IOException {
    Disk disk = Disk.folder(folder, readOnly);
    try {
      if (wanted != null && !LocalAddOn.exists(disk)) {
        LocalAddOn.create(disk, wanted);
      }
      return new LocalAddOn(disk, readOnly);
    } catch (IOException | RuntimeException error) {
      disk.close();
      throw error;
    }
  }

  private static boolean isFolder(String where) {
    return where.startsWith("/");
  }

  /** The host and port in {@code host:port}. */
  static InetSocketAddress address(String where) {
    int colon = where.lastIndexOf(':');
    if (colon < 1 || !where.substring(colon + 1).matches("[0-9]{1,5}")) {
      throw new IllegalArgumentException(
          "\"" + where + "\" is neither an absolute path nor host:port");
    }
    return new InetSocketAddress(
        where.substring(0, colon), Integer.parseInt(where.substring(colon + 1)));
  }
}
