package pantile.hdfs.raidp;

import java.io.Closeable;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Keeps add-ons of other nodes' disks: content comes, and is multiplied and added here.
 *
 * <p>The add-on of disk i is in the folder that is called i. Readers come and go; one connection at
 * a time may change it. Whoever can reach the port can read and change: it has no authentication.
 */
public final class AddOnServer implements Closeable {
  private static final Logger LOG = LoggerFactory.getLogger(AddOnServer.class);

  private final Path folder;
  private final ServerSocket listening;
  private final Map<Integer, LocalAddOn> open = new HashMap<>();
  private final Map<Integer, Wire> writers = new HashMap<>();
  private final Set<Wire> connections = ConcurrentHashMap.newKeySet();

  /** Serves the add-ons in a folder at an address until closed. */
  public AddOnServer(Path folder, InetSocketAddress address) throws IOException {
    this.folder = folder;
    listening = new ServerSocket();
    listening.setReuseAddress(true);
    listening.bind(address);
    start(this::accept, "RAIDP add-ons at " + address);
  }

  /** The port it listens at. */
  public int port() {
    return listening.getLocalPort();
  }

  private static void start(Runnable run, String name) {
    Thread thread = new Thread(run, name);
    thread.setDaemon(true);
    thread.start();
  }

  private void accept() {
    while (!listening.isClosed()) {
      try {
        Socket socket = listening.accept();
        start(() -> serve(socket), "RAIDP add-on for " + socket.getRemoteSocketAddress());
      } catch (IOException error) {
        if (!listening.isClosed()) {
          LOG.warn("RAIDP's server cannot accept a connection", error);
        }
      }
    }
  }

  private void serve(Socket socket) {
    Session session = new Session();
    try (Wire wire = new Wire(socket)) {
      connections.add(wire);
      try {
        while (true) {
          DataInputStream body = wire.receive();
          session.answer(wire, wire.code, body);
        }
      } finally {
        connections.remove(wire);
        session.end(wire);
      }
    } catch (EOFException | SocketException ended) {
      LOG.debug("{} has gone", socket);
    } catch (IOException | RuntimeException error) {
      LOG.warn("RAIDP's server ends the connection of {}", socket, error);
    }
  }

  /** The add-on of a disk, opened once. */
  private synchronized LocalAddOn addOn(int disk, Header wanted) throws IOException {
    LocalAddOn addOn = open.get(disk);
    if (addOn == null) {
      Path own = folder.resolve(Integer.toString(disk));
      if (wanted != null && !Files.exists(own)) {
        // Not with its parents: the folder of all is a mount point that may be missing.
        Files.createDirectory(own);
      }
      addOn = AddOns.local(own, wanted, false);
      open.put(disk, addOn);
    }
    return addOn;
  }

  private synchronized void claim(int disk, Wire wire) throws IOException {
    Wire other = writers.get(disk);
    if (other != null && other != wire) {
      // A node that was killed has a connection that may look alive for long: the new one counts.
      writers.remove(disk);
      other.close();
    }
    writers.put(disk, wire);
  }

  private synchronized boolean claimed(int disk, Wire wire) {
    return writers.get(disk) == wire;
  }

  private synchronized void release(int disk, Wire wire) {
    writers.remove(disk, wire);
  }

  @Override
  public void close() throws IOException {
    listening.close();
    for (Wire wire : connections) {
      wire.close();
    }
    synchronized (this) {
      for (LocalAddOn addOn : open.values()) {
        addOn.close();
      }
      open.clear();
    }
  }

  /** One connection. */
  private final class Session {
    private LocalAddOn addOn;
    private int disk = -1;
    private boolean writes;
    private AddOn.Change change;

    void answer(Wire wire, byte code, DataInputStream body) throws IOException {
      Wire.Body answer;
      try {
        answer = run(wire, code, body);
      } catch (IOException | IllegalArgumentException error) {
        wire.send(Wire.REFUSED, to -> to.writeUTF(String.valueOf(error.getMessage())));
        return;
      }
      wire.send(Wire.GOOD, answer);
    }

    private Wire.Body run(Wire wire, byte code, DataInputStream body) throws IOException {
      if (code == Wire.OPEN) {
        return open(wire, body);
      }
      if (addOn == null) {
        throw new IOException("which add-on? OPEN comes first");
      }
      switch (code) {
        case Wire.ENTRIES:
          List<Entry> entries = addOn.entries();
          return to -> {
            to.writeInt(entries.size());
            for (Entry entry : entries) {
              entry.write(to);
            }
          };
        case Wire.FREE:
          long free = addOn.freeBytes();
          return to -> to.writeLong(free);
        case Wire.READ:
          return read(body);
        default:
          return write(wire, code, body);
      }
    }

    private Wire.Body open(Wire wire, DataInputStream body) throws IOException {
      if (body.readInt() != Wire.MAGIC || body.readUnsignedShort() != Wire.VERSION) {
        throw new IOException("RAIDP's server knows version " + Wire.VERSION + " of its messages");
      }
      disk = body.readUnsignedShort();
      writes = body.readBoolean();
      Header wanted = writes ? Header.read(body) : null;
      addOn = addOn(disk, wanted);
      if (writes) {
        claim(disk, wire);
      }
      return addOn.header()::write;
    }

    private Wire.Body read(DataInputStream body) throws IOException {
      int row = body.readInt();
      long offset = body.readLong();
      int bytes = body.readInt();
      if (row < 0 || offset < 0 || bytes < 0 || bytes > AddOn.BYTES_MOST) {
        throw new IOException("at most " + AddOn.BYTES_MOST + " bytes can be read at once");
      }
      ByteBuffer parity = ByteBuffer.allocate(bytes);
      addOn.read(row, offset, parity);
      return to -> to.write(parity.array());
    }

    private Wire.Body write(Wire wire, byte code, DataInputStream body) throws IOException {
      if (!writes || !claimed(disk, wire)) {
        throw new IOException("another connection writes the add-on of disk " + disk);
      }
      if (code == Wire.BEGIN) {
        endChange();
        change = addOn.change();
        return to -> {};
      }
      if (change == null) {
        throw new IOException("no change is under way");
      }
      switch (code) {
        case Wire.CLEAR:
          change.clear(body.readInt());
          break;
        case Wire.FOLD:
          int row = body.readInt();
          int partner = body.readUnsignedShort();
          long offset = body.readLong();
          ByteBuffer content = ByteBuffer.allocateDirect(body.available());
          byte[] bytes = new byte[content.remaining()];
          body.readFully(bytes);
          content.put(bytes);
          content.flip();
          if (row < 0 || offset < 0) {
            throw new IOException("no row and offset");
          }
          change.fold(row, partner, offset, content);
          break;
        case Wire.COMMIT:
          List<Long> removed = new ArrayList<>();
          for (int left = body.readInt(); left > 0; left--) {
            removed.add(body.readLong());
          }
          List<Entry> added = new ArrayList<>();
          for (int left = body.readInt(); left > 0; left--) {
            added.add(Entry.read(body));
          }
          change.commit(removed, added);
          endChange();
          break;
        case Wire.ABORT:
          endChange();
          break;
        default:
          throw new IOException("there is no operation " + code);
      }
      return to -> {};
    }

    private void endChange() throws IOException {
      if (change != null) {
        change.close();
        change = null;
      }
    }

    void end(Wire wire) throws IOException {
      try {
        endChange();
      } finally {
        release(disk, wire);
      }
    }
  }
}
