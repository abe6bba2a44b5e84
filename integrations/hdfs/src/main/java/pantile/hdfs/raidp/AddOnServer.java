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
 * Keeps add-ons of other nodes' disks: it receives content, and multiplies and adds it here.
 *
 * <p>The add-on of disk i is in the folder that is called i. Any number of connections may read it;
 * one connection at a time may change it. Every client that reaches the port can read and change:
 * there is no authentication.
 */
public final class AddOnServer implements Closeable {
  private static final Logger LOG = LoggerFactory.getLogger(AddOnServer.class);

  /** Time that a new writer waits for a commit of the one before. */
  private static final long SETTLE_MS = 30_000;

  /** Opens the add-on of a disk, or creates the one of a header if there is none. */
  interface Opener {
    LocalAddOn open(int disk, Header wanted) throws IOException;
  }

  private final Opener opener;
  private final ServerSocket listening;
  private final Map<Integer, Served> served = new HashMap<>();
  private final Set<Wire> connections = ConcurrentHashMap.newKeySet();

  /** Serves the add-ons in a folder at an address until closed. */
  public AddOnServer(Path folder, InetSocketAddress address) throws IOException {
    this((disk, wanted) -> open(folder, disk, wanted), address);
  }

  AddOnServer(Opener opener, InetSocketAddress address) throws IOException {
    this.opener = opener;
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

  private static LocalAddOn open(Path folder, int disk, Header wanted) throws IOException {
    Path own = folder.resolve(Integer.toString(disk));
    if (wanted != null && !Files.exists(own)) {
      // Parents are not created: the folder of all add-ons is a mount point that may be missing.
      Files.createDirectory(own);
    }
    return AddOns.local(own, wanted, false);
  }

  private synchronized Served served(int disk) {
    return served.computeIfAbsent(disk, Served::new);
  }

  /** The add-on of a disk, and the connection that may change it. */
  private final class Served {
    private final int disk;
    private LocalAddOn addOn;
    private Wire writer;

    Served(int disk) {
      this.disk = disk;
    }

    /**
     * Opens the add-on if it is not open or has failed; {@code wanted} is null for an add-on that
     * must exist.
     */
    synchronized LocalAddOn addOn(Header wanted) throws IOException {
      if (listening.isClosed()) {
        throw new IOException("RAIDP's server is closed");
      }
      if (addOn != null && addOn.isBroken()) {
        LOG.warn("RAIDP's server opens the add-on of disk {} again, which failed", disk);
        close();
      }
      if (addOn == null) {
        addOn = opener.open(disk, wanted);
      }
      return addOn;
    }

    /** Makes a connection the one that writes, once the one before has no change under way. */
    void claim(Wire wire, LocalAddOn addOn) throws IOException {
      Wire other;
      synchronized (this) {
        other = writer;
        writer = wire;
      }
      if (other != null && other != wire) {
        // A node that was killed has a connection that may look alive for long: the new one counts.
        other.close();
      }
      addOn.settle(SETTLE_MS);
    }

    synchronized boolean isClaimedBy(Wire wire) {
      return writer == wire;
    }

    synchronized void release(Wire wire) {
      writer = writer == wire ? null : writer;
    }

    synchronized void close() throws IOException {
      LocalAddOn closing = addOn;
      addOn = null;
      if (closing != null) {
        closing.close();
      }
    }
  }

  @Override
  public void close() throws IOException {
    listening.close();
    for (Wire wire : connections) {
      wire.close();
    }
    List<Served> all;
    synchronized (this) {
      all = new ArrayList<>(served.values());
    }
    for (Served one : all) {
      one.close();
    }
  }

  /** One connection. */
  private final class Session {
    private Served of;
    private boolean writes;

    /** The change under way, and its add-on; null if there is none. */
    private AddOn.Change change;

    private LocalAddOn changed;

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
      if (of == null) {
        throw new IOException("which add-on? OPEN comes first");
      }
      switch (code) {
        case Wire.ENTRIES:
          List<Entry> entries = new ArrayList<>();
          long sequence = of.addOn(null).entries(body.readLong(), Wire.PAGE_ENTRIES, entries);
          return to -> {
            to.writeLong(sequence);
            to.writeInt(entries.size());
            for (Entry entry : entries) {
              entry.write(to);
            }
          };
        case Wire.FREE:
          long free = of.addOn(null).freeBytes();
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
      Served opened = served(body.readUnsignedShort());
      boolean toWrite = body.readBoolean();
      LocalAddOn addOn = opened.addOn(toWrite ? Header.read(body) : null);
      end(wire);
      of = opened;
      if (toWrite) {
        opened.claim(wire, addOn);
        writes = true;
      }
      long sequence = addOn.sequence();
      return to -> {
        addOn.header().write(to);
        to.writeLong(sequence);
      };
    }

    private Wire.Body read(DataInputStream body) throws IOException {
      int row = body.readInt();
      long offset = body.readLong();
      int bytes = body.readInt();
      if (row < 0 || offset < 0 || bytes < 0 || bytes > AddOn.BYTES_MOST) {
        throw new IOException("at most " + AddOn.BYTES_MOST + " bytes can be read at once");
      }
      ByteBuffer parity = ByteBuffer.allocate(bytes);
      of.addOn(null).read(row, offset, parity);
      return to -> to.write(parity.array());
    }

    private Wire.Body write(Wire wire, byte code, DataInputStream body) throws IOException {
      if (!writes || !of.isClaimedBy(wire)) {
        throw new IOException("another connection writes the add-on of disk " + of.disk);
      }
      if (code == Wire.BEGIN) {
        begin(body.readLong());
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
          if (body.available() > AddOn.BYTES_MOST) {
            throw new IOException("at most " + AddOn.BYTES_MOST + " bytes can be folded at once");
          }
          ByteBuffer content = ByteBuffer.allocateDirect(body.available());
          byte[] bytes = new byte[content.remaining()];
          body.readFully(bytes);
          content.put(bytes);
          content.flip();
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
          return commit(removed, added);
        case Wire.ABORT:
          endChange();
          break;
        default:
          throw new IOException("there is no operation " + code);
      }
      return to -> {};
    }

    /** Begins a change of the state that the client knows. */
    private void begin(long base) throws IOException {
      endChange();
      changed = of.addOn(null);
      change = changed.change();
      if (changed.sequence() != base) {
        endChange();
        throw new IOException(
            "the add-on of disk " + of.disk + " was changed since its entries were read");
      }
    }

    private Wire.Body commit(List<Long> removed, List<Entry> added) throws IOException {
      try {
        change.commit(removed, added);
        long sequence = changed.sequence();
        return to -> to.writeLong(sequence);
      } finally {
        endChange();
      }
    }

    private void endChange() throws IOException {
      AddOn.Change ending = change;
      change = null;
      changed = null;
      if (ending != null) {
        ending.close();
      }
    }

    void end(Wire wire) throws IOException {
      try {
        endChange();
      } finally {
        writes = false;
        if (of != null) {
          of.release(wire);
        }
      }
    }
  }
}
