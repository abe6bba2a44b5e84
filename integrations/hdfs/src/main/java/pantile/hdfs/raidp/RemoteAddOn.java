package pantile.hdfs.raidp;

import java.io.DataInputStream;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.Semaphore;
import org.apache.hadoop.net.NetUtils;

/**
 * An add-on that another node keeps.
 *
 * <p>Calls on a failed connection fail; the next call connects again. Each change has the number of
 * the last change that the caller knows, from {@link #entries} or by its own commit, and is refused
 * if there was another change since. So after a commit whose answer was lost, no change is possible
 * before the entries are read again. These entries have that commit, or it never happens.
 */
final class RemoteAddOn implements AddOn {
  private static final int CONNECT_MS = 10_000;

  private final InetSocketAddress address;
  private final int disk;
  private final Header wanted;
  private final Semaphore turn = new Semaphore(1);
  private volatile Header header;

  /** The number of the last change that the caller knows. */
  private long base;

  private Wire wire;

  /** The socket of the connection, also while it is being made. */
  private volatile Socket socket;

  private volatile boolean closed;

  /**
   * Opens the add-on of a disk; {@code wanted} is the header of an add-on that is created if there
   * is none, or null to read only.
   */
  RemoteAddOn(InetSocketAddress address, int disk, Header wanted) throws IOException {
    this.address = address;
    this.disk = disk;
    this.wanted = wanted;
    synchronized (this) {
      base = connect();
    }
  }

  /** Connects if necessary; returns the number of the last change at that moment. */
  private long connect() throws IOException {
    if (closed) {
      throw new IOException("the add-on is closed");
    }
    if (wire != null) {
      return base;
    }
    Socket made = SocketChannel.open().socket();
    socket = made;
    try {
      NetUtils.connect(
          made, new InetSocketAddress(address.getHostString(), address.getPort()), CONNECT_MS);
      if (closed) {
        throw new IOException("it is closed");
      }
      wire = Wire.impatient(made);
      DataInputStream answer =
          ask(
              Wire.OPEN,
              to -> {
                to.writeInt(Wire.MAGIC);
                to.writeShort(Wire.VERSION);
                to.writeShort(disk);
                to.writeBoolean(wanted != null);
                if (wanted != null) {
                  wanted.write(to);
                }
              });
      header = Header.read(answer);
      return answer.readLong();
    } catch (IOException error) {
      drop();
      made.close();
      throw new IOException("the add-on of disk " + disk + " at " + address + ": " + error.getMessage(), error);
    }
  }

  private void drop() {
    if (wire != null) {
      try {
        wire.close();
      } catch (IOException ignored) {
        // The failed connection is not used any more.
      }
      wire = null;
    }
  }

  /** Sends a request and gives the body of the answer. */
  private DataInputStream ask(byte code, Wire.Body body) throws IOException {
    DataInputStream answer;
    byte status;
    try {
      wire.send(code, body);
      answer = wire.receive();
      status = wire.code;
    } catch (IOException error) {
      drop();
      throw error;
    }
    if (status != Wire.GOOD) {
      throw new IOException(answer.readUTF());
    }
    return answer;
  }

  @Override
  public Header header() {
    return header;
  }

  @Override
  public synchronized List<Entry> entries() throws IOException {
    connect();
    while (true) {
      List<Entry> entries = new ArrayList<>();
      long first = page(0, entries);
      long sequence = first;
      for (int had = 0; sequence == first && entries.size() == had + Wire.PAGE_ENTRIES; ) {
        had = entries.size();
        sequence = page(entries.get(had - 1).blockId + 1, entries);
      }
      // Entries that changed between two pages are read again; a writer's own do not change.
      if (sequence == first) {
        base = sequence;
        return entries;
      }
    }
  }

  /** Adds entries of blocks from an id on to a list; returns the number of the last change. */
  private long page(long from, List<Entry> into) throws IOException {
    DataInputStream answer = ask(Wire.ENTRIES, to -> to.writeLong(from));
    long sequence = answer.readLong();
    for (int left = answer.readInt(); left > 0; left--) {
      into.add(Entry.read(answer));
    }
    return sequence;
  }

  @Override
  public synchronized long freeBytes() throws IOException {
    connect();
    return ask(Wire.FREE, to -> {}).readLong();
  }

  @Override
  public synchronized void read(int row, long offset, ByteBuffer to) throws IOException {
    connect();
    int wantedBytes = to.remaining();
    DataInputStream answer =
        ask(
            Wire.READ,
            request -> {
              request.writeInt(row);
              request.writeLong(offset);
              request.writeInt(wantedBytes);
            });
    byte[] bytes = new byte[wantedBytes];
    answer.readFully(bytes);
    to.put(bytes);
  }

  @Override
  public Change change() throws IOException {
    turn.acquireUninterruptibly();
    try {
      synchronized (this) {
        connect();
        ask(Wire.BEGIN, to -> to.writeLong(base));
        return new RemoteChange(wire);
      }
    } catch (IOException error) {
      turn.release();
      throw error;
    }
  }

  /** Closes the connection, which also ends calls that wait for the other node. */
  @Override
  public void close() {
    closed = true;
    Socket last = socket;
    if (last == null || !last.isConnected()) {
      // Connecting ends after its time-out, and sees that it is closed.
      return;
    }
    try {
      // Closing alone wakes no thread that waits for a channel.
      last.shutdownInput();
      last.shutdownOutput();
    } catch (IOException closed) {
      // The call that waited has ended, and closed it.
    }
    synchronized (this) {
      drop();
    }
  }

  /** A change on one connection. */
  private final class RemoteChange implements Change {
    private final Wire mine;
    private boolean open = true;
    private boolean committed;

    RemoteChange(Wire mine) {
      this.mine = mine;
    }

    private DataInputStream tell(byte code, Wire.Body body) throws IOException {
      synchronized (RemoteAddOn.this) {
        if (wire != mine) {
          throw new IOException("the connection to the add-on at " + address + " was lost");
        }
        return ask(code, body);
      }
    }

    @Override
    public void clear(int row) throws IOException {
      tell(Wire.CLEAR, to -> to.writeInt(row));
    }

    @Override
    public void fold(int row, int partner, long offset, ByteBuffer content) throws IOException {
      byte[] bytes = new byte[content.remaining()];
      content.duplicate().get(bytes);
      tell(
          Wire.FOLD,
          to -> {
            to.writeInt(row);
            to.writeShort(partner);
            to.writeLong(offset);
            to.write(bytes);
          });
    }

    @Override
    public void commit(Collection<Long> removed, Collection<Entry> added) throws IOException {
      synchronized (RemoteAddOn.this) {
        DataInputStream answer =
            tell(
                Wire.COMMIT,
                to -> {
                  to.writeInt(removed.size());
                  for (long block : removed) {
                    to.writeLong(block);
                  }
                  to.writeInt(added.size());
                  for (Entry entry : added) {
                    entry.write(to);
                  }
                });
        base = answer.readLong();
        committed = true;
      }
    }

    @Override
    public void close() throws IOException {
      if (!open) {
        return;
      }
      open = false;
      try {
        synchronized (RemoteAddOn.this) {
          if (!committed && wire == mine) {
            ask(Wire.ABORT, to -> {});
          }
        }
      } finally {
        turn.release();
      }
    }
  }
}
