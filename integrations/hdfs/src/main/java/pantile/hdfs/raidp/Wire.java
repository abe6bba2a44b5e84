package pantile.hdfs.raidp;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.Closeable;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.net.Socket;

/**
 * Messages between an add-on's server and who uses it: a length, a code, a body.
 *
 * <p>The code is an operation in a request, and {@link #GOOD} or {@link #REFUSED} in an answer; the
 * body of a refusal is a sentence.
 */
final class Wire implements Closeable {
  static final int MAGIC = 0x50524149;
  static final int VERSION = 1;

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

  /** A fold of the most bytes, or the entries of two million blocks. */
  private static final int MESSAGE_BYTES_MOST = 1 << 26;

  /** A side that is silent for so long in the middle of something is taken for dead. */
  private static final int SILENCE_MS = 60_000;

  private final Socket socket;
  private final DataInputStream in;
  private final DataOutputStream out;

  /** The code of the last message that came. */
  byte code;

  Wire(Socket socket) throws IOException {
    this.socket = socket;
    socket.setTcpNoDelay(true);
    in = new DataInputStream(new BufferedInputStream(socket.getInputStream(), 1 << 16));
    out = new DataOutputStream(new BufferedOutputStream(socket.getOutputStream(), 1 << 16));
  }

  /** Limits waiting for what comes. */
  void impatient() throws IOException {
    socket.setSoTimeout(SILENCE_MS);
  }

  /** Writes a body. */
  interface Body {
    void write(DataOutputStream to) throws IOException;
  }

  void send(byte code, Body body) throws IOException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    body.write(new DataOutputStream(bytes));
    if (bytes.size() >= MESSAGE_BYTES_MOST) {
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
