package pantile.hdfs.raidp;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.Closeable;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.Socket;
import org.apache.hadoop.net.NetUtils;

/**
 * Messages between an add-on's server and its clients: a length, a code, a body.
 *
 * <p>The code is an operation in a request, and {@link #GOOD} or {@link #REFUSED} in an answer; the
 * body of a refusal is a sentence.
 */
final class Wire implements Closeable {
  static final int MAGIC = 0x50524149;
  static final int VERSION = 2;

  static final byte OPEN = 1;
  static final byte ENTRIES = 2;
  static final byte READ = 3;
  static final byte BEGIN = 4;
  static final byte CLEAR = 5;
  static final byte FOLD = 6;
  static final byte COMMIT = 7;
  static final byte ABORT = 8;
  static final byte FREE = 9;

  static final byte GOOD = 0;
  static final byte REFUSED = 1;

  /**
   * The most bytes of a message: a fold or read of the most bytes, or a page of entries, with the
   * bytes around them.
   */
  private static final int MESSAGE_BYTES_MOST = AddOn.BYTES_MOST + 4096;

  /** Entries of one answer; the entries behind them are requested by the next block id. */
  static final int PAGE_ENTRIES = AddOn.BYTES_MOST / Entry.BYTES;

  /** Time of silence in the middle of a message after which the other side counts as dead. */
  private static final int SILENCE_MS = 60_000;

  private final Socket socket;
  private final DataInputStream in;
  private final DataOutputStream out;

  /** The code of the last message that came. */
  byte code;

  /** Makes a wire without time limits. */
  Wire(Socket socket) throws IOException {
    this(socket, socket.getInputStream(), socket.getOutputStream());
  }

  private Wire(Socket socket, InputStream in, OutputStream out) throws IOException {
    this.socket = socket;
    socket.setTcpNoDelay(true);
    socket.setKeepAlive(true);
    this.in = new DataInputStream(new BufferedInputStream(in, 1 << 16));
    this.out = new DataOutputStream(new BufferedOutputStream(out, 1 << 16));
  }

  /** Makes a wire with a time limit in both directions; the socket has a channel. */
  static Wire impatient(Socket socket) throws IOException {
    return new Wire(
        socket,
        NetUtils.getInputStream(socket, SILENCE_MS),
        NetUtils.getOutputStream(socket, SILENCE_MS));
  }

  /** Writes a body. */
  interface Body {
    void write(DataOutputStream to) throws IOException;
  }

  void send(byte code, Body body) throws IOException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    body.write(new DataOutputStream(bytes));
    if (bytes.size() + 1 > MESSAGE_BYTES_MOST) {
      throw new IOException("a message of " + bytes.size() + " bytes is too large");
    }
    out.writeInt(bytes.size() + 1);
    out.writeByte(code);
    bytes.writeTo(out);
    out.flush();
  }

  /** The body of the next message; {@link #code} is its code. */
  DataInputStream receive() throws IOException {
    int bytes = in.readInt();
    if (bytes < 1 || bytes > MESSAGE_BYTES_MOST) {
      throw new IOException("a message of " + bytes + " bytes: this is no add-on's server or user");
    }
    code = in.readByte();
    byte[] body = new byte[bytes - 1];
    in.readFully(body);
    return new DataInputStream(new ByteArrayInputStream(body));
  }

  @Override
  public void close() throws IOException {
    socket.close();
  }
}
