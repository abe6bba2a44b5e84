package pantile.hdfs.raidp;

import java.io.DataInputStream;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.Semaphore;

/**
 * An add-on that another node keeps.
 *
 * <p>A connection that fails fails what runs on it; the next call makes a new one. Whether a commit
 * whose answer was lost has happened, {@link #entries} says.
 */
final class RemoteAddOn implements AddOn {
  private static final int CONNECT_MS = 10_000;

  private final InetSocketAddress address;
  private final int disk;
  private final Header wanted;
  private final Semaphore turn = new Semaphore(1);
  private Header header;
  private Wire wire;
  private boolean closed;

  /** The add-on of a disk; {@code wanted} (made if there is none), or null to read only. */
  RemoteAddOn(InetSocketAddress address, int disk, Header wanted) throws IOException {
    this.address = address;
    this.disk = disk;
    this.wanted = wanted;
    synchronized (this) {
      connect();
    }
  }

  private void connect() throws IOException {
    if (closed) {
      throw new IOException("the add-on is closed");
    }
    if (wire != null) {
      return;
    }
    Socket socket = new Socket();
    try {
      socket.connect(new InetSocketAddress(address.getHostString(), address.getPort()), CONNECT_MS);
      wire = new Wire(socket);
      wire.impatient();
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
    } catch (IOException error) {
      drop();
      socket.close();
      throw new IOException("the add-on of disk " + disk + " at " + address + ": " + error.getMessage(), error);
    }
  }

  private void drop() {
    if (wire != null) {
      try {
        wire.close();
      } catch (IOException ignored) {
        // It is of no use any more.
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
  public synchronized Header header() {
    return header;
  }

  @Override
  public synchronized List<Entry> entries() throws IOException {
    connect();
    DataInputStream answer = ask(Wire.ENTRIES, to -> {});
    List<Entry> entries = new ArrayList<>();
    for (int left = answer.readInt(); left > 0; left--) {
      entries.add(Entry.read(answer));
    }
    return entries;
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
        ask(Wire.BEGIN, to -> {});
        return new RemoteChange(wire);
      }
    } catch (IOException error) {
      turn.release();
      throw error;
    }
  }

  @Override
  public synchronized void close() {
    closed = true;
    drop();
  }

  /** A change on one connection. */
  private final class RemoteChange implements Change {
    private final Wire mine;
    private boolean open = true;
    private boolean committed;

    RemoteChange(Wire mine) {
      this.mine = mine;
    }

    private void tell(byte code, Wire.Body body) throws IOException {
      synchronized (RemoteAddOn.this) {
        if (wire != mine) {
          throw new IOException("the connection to the add-on at " + address + " was lost");
        }
        ask(code, body);
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
      committed = true;
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
