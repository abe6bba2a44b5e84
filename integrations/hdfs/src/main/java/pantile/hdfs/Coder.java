package pantile.hdfs;

import java.io.IOException;
import java.nio.ByteBuffer;
import org.apache.hadoop.HadoopIllegalArgumentException;
import org.apache.hadoop.io.erasurecode.ECChunk;

/**
 * Common part of encoder and decoder: Hadoop's rules for buffers, and the way from them to {@link
 * Native}.
 *
 * <p>Hadoop's rules: all buffers of a call are direct, or none is; all have the same number of
 * remaining bytes; inputs are moved to their ends, outputs stay where they are; a call that breaks
 * a rule throws {@link HadoopIllegalArgumentException}.
 */
final class Coder {
  private static final int[] ZEROS = new int[Native.COLUMNS_MOST];

  private Coder() {}

  /** One call of the native library on direct buffers. */
  interface Run {
    void on(ByteBuffer[] columns, int[] offsets, int bytes) throws IOException;
  }

  /**
   * Returns the remaining bytes of each buffer of a call: those of the first buffer that is not
   * null.
   */
  static int length(ByteBuffer[] inputs) {
    return first(inputs).remaining();
  }

  private static ByteBuffer first(ByteBuffer[] inputs) {
    for (ByteBuffer input : inputs) {
      if (input != null) {
        return input;
      }
    }
    throw new HadoopIllegalArgumentException("Invalid inputs are found, all being null");
  }

  /** Checks buffers against Hadoop's rules; returns the number of inputs that are not null. */
  static int check(ByteBuffer[] inputs, ByteBuffer[] outputs) {
    ByteBuffer first = first(inputs);
    int there = 0;
    for (ByteBuffer input : inputs) {
      if (input != null) {
        alike(input, first);
        there++;
      }
    }
    for (ByteBuffer output : outputs) {
      if (output == null) {
        throw new HadoopIllegalArgumentException("Invalid buffer found, not allowing null");
      }
      if (output.isReadOnly()) {
        throw new HadoopIllegalArgumentException("Invalid buffer found, an output is read-only");
      }
      alike(output, first);
    }
    return there;
  }

  private static void alike(ByteBuffer buffer, ByteBuffer first) {
    if (buffer.remaining() != first.remaining()) {
      throw new HadoopIllegalArgumentException(
          "Invalid buffer, not of length " + first.remaining());
    }
    if (buffer.isDirect() != first.isDirect()) {
      throw new HadoopIllegalArgumentException(
          "Invalid buffer, isDirect should be " + first.isDirect());
    }
  }

  /**
   * Runs a call on columns; {@code written} marks the outputs. Direct columns are used as they are,
   * others are copied through pooled direct memory, a tile at a time. Columns that are null stay
   * null.
   */
  static void run(ByteBuffer[] columns, boolean[] written, int bytes, Run call)
      throws IOException {
    if (first(columns).isDirect()) {
      int[] offsets = new int[columns.length];
      for (int i = 0; i < columns.length; i++) {
        offsets[i] = columns[i] == null ? 0 : columns[i].position();
      }
      call.on(columns, offsets, bytes);
      return;
    }
    try (Room room = Room.take()) {
      for (int start = 0; start < bytes; start += Room.TILE_BYTES) {
        int tile = Math.min(Room.TILE_BYTES, bytes - start);
        ByteBuffer[] tiles = new ByteBuffer[columns.length];
        for (int i = 0; i < columns.length; i++) {
          if (columns[i] != null) {
            tiles[i] = room.tiles[i];
            if (!written[i]) {
              copy(part(columns[i], start, tile), tiles[i]);
            }
          }
        }
        call.on(tiles, ZEROS, tile);
        for (int i = 0; i < columns.length; i++) {
          if (written[i]) {
            ByteBuffer made = tiles[i].duplicate();
            made.limit(tile);
            part(columns[i], start, tile).put(made);
          }
        }
      }
    }
  }

  private static void copy(ByteBuffer from, ByteBuffer tile) {
    tile.duplicate().put(from);
  }

  /** Returns bytes of a buffer as a separate buffer; the position of the first one stays. */
  private static ByteBuffer part(ByteBuffer buffer, int start, int bytes) {
    ByteBuffer part = buffer.duplicate();
    part.limit(buffer.position() + start + bytes);
    part.position(buffer.position() + start);
    return part;
  }

  /** Moves inputs to their ends. */
  static void consume(ByteBuffer[] inputs) {
    for (ByteBuffer input : inputs) {
      if (input != null) {
        input.position(input.limit());
      }
    }
  }

  static ByteBuffer[] wrap(byte[][] arrays) {
    ByteBuffer[] buffers = new ByteBuffer[arrays.length];
    for (int i = 0; i < arrays.length; i++) {
      buffers[i] = arrays[i] == null ? null : ByteBuffer.wrap(arrays[i]);
    }
    return buffers;
  }

  /** Returns the buffers of chunks; chunks that stand for zeros are filled with zeros first. */
  static ByteBuffer[] buffers(ECChunk[] chunks) {
    ByteBuffer[] buffers = new ByteBuffer[chunks.length];
    for (int i = 0; i < chunks.length; i++) {
      if (chunks[i] != null) {
        buffers[i] = chunks[i].getBuffer();
        if (chunks[i].isAllZero()) {
          ByteBuffer zeros = buffers[i].duplicate();
          zeros.put(new byte[zeros.remaining()]);
        }
      }
    }
    return buffers;
  }
}
