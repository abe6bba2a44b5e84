package pantile.hdfs.raidp;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;

/**
 * The state that the journal of an add-on records: its header, which blocks are in which row, where
 * the tiles are, and the number of the last change.
 *
 * <p>Not for several threads.
 */
final class AddOnState {
  private static final byte HEADER = 1;

  /** Kind of a record that has one whole change. */
  private static final byte COMMIT = 2;

  /** Kind of a record that has a piece of the state, in a rewritten journal. */
  private static final byte STATE = 3;

  private static final byte ENTRY = 1;
  private static final byte TILES = 2;
  private static final int TILES_HEAD_BYTES = 13;

  Header header;
  SlotMap slots;
  TileMap tiles;

  /**
   * The number of the last change. Each change increases it by one; a new add-on begins at any
   * number.
   */
  long sequence;

  private AddOnState() {}

  /** Makes the state of an empty add-on. */
  static AddOnState empty(Header header) {
    AddOnState state = new AddOnState();
    state.begin(header, ThreadLocalRandom.current().nextLong() >>> 2);
    return state;
  }

  private void begin(Header header, long sequence) {
    this.header = header;
    this.sequence = sequence;
    slots = new SlotMap();
    tiles = new TileMap(header.tiles);
  }

  /** Opens a journal, and reads the state that it ends with into the list. */
  static Journal open(Disk disk, boolean cut, int recordBytesMost, List<AddOnState> into)
      throws IOException {
    AddOnState state = new AddOnState();
    Journal journal = Journal.open(disk, cut, recordBytesMost, state::replay);
    if (state.header == null) {
      journal.close();
      throw new IOException("the journal of the add-on has no header");
    }
    into.add(state);
    return journal;
  }

  private void replay(byte[] record) throws IOException {
    DataInputStream from = new DataInputStream(new ByteArrayInputStream(record));
    int kind = from.readByte();
    if ((header == null) != (kind == HEADER)) {
      throw new IOException("the journal of the add-on does not begin with its one header");
    }
    switch (kind) {
      case HEADER:
        Header first = Header.read(from);
        begin(first, from.readLong());
        break;
      case COMMIT:
        replayCommit(from);
        break;
      case STATE:
        replayState(from);
        break;
      default:
        throw new IOException("the journal of the add-on has a record of unknown kind " + kind);
    }
  }

  private void replayCommit(DataInputStream from) throws IOException {
    List<Long> removed = new ArrayList<>();
    for (int left = from.readInt(); left > 0; left--) {
      removed.add(from.readLong());
    }
    List<Entry> added = new ArrayList<>();
    for (int left = from.readInt(); left > 0; left--) {
      added.add(Entry.read(from));
    }
    List<TileMap.Tile> changed = new ArrayList<>();
    for (int left = from.readInt(); left > 0; left--) {
      changed.add(TileMap.Tile.read(from));
    }
    slots.check(removed, added, header.disks, header.disk);
    apply(removed, added, changed);
  }

  private void replayState(DataInputStream from) throws IOException {
    while (from.available() > 0) {
      if (from.readByte() == ENTRY) {
        List<Entry> one = Collections.singletonList(Entry.read(from));
        slots.check(Collections.emptyList(), one, header.disks, header.disk);
        slots.apply(Collections.emptyList(), one);
      } else {
        int row = from.readInt();
        int index = from.readInt();
        for (int left = from.readInt(); left > 0; left--) {
          tiles.put(new TileMap.Tile(row, index++, from.readInt(), from.readInt()));
        }
      }
    }
  }

  /** Makes a change that the slots allow. */
  void apply(Collection<Long> removed, Collection<Entry> added, List<TileMap.Tile> changed)
      throws IOException {
    slots.apply(removed, added);
    for (TileMap.Tile tile : changed) {
      tiles.put(tile);
    }
    sequence++;
  }

  /** Writes the record of a change. */
  static void writeCommit(
      DataOutputStream to,
      Collection<Long> removed,
      Collection<Entry> added,
      List<TileMap.Tile> changed)
      throws IOException {
    to.writeByte(COMMIT);
    to.writeInt(removed.size());
    for (long block : removed) {
      to.writeLong(block);
    }
    to.writeInt(added.size());
    for (Entry entry : added) {
      entry.write(to);
    }
    to.writeInt(changed.size());
    for (TileMap.Tile tile : changed) {
      tile.write(to);
    }
  }

  /** Writes the whole state into a new journal, in records of at most so many bytes. */
  void write(Journal.Next to, int pieceBytes) throws IOException {
    to.add(
        record -> {
          record.writeByte(HEADER);
          header.write(record);
          record.writeLong(sequence);
        });
    Pieces pieces = new Pieces(to, pieceBytes);
    for (Entry entry : slots.entries()) {
      DataOutputStream piece = pieces.with(1 + Entry.BYTES);
      piece.writeByte(ENTRY);
      entry.write(piece);
    }
    int most = Math.max(1, (pieceBytes - 1 - TILES_HEAD_BYTES) / 8);
    for (int row : tiles.rows()) {
      List<TileMap.Tile> of = tiles.row(row);
      for (int from = 0, end; from < of.size(); from = end) {
        end = from + 1;
        while (end < of.size()
            && end - from < most
            && of.get(end).index == of.get(end - 1).index + 1) {
          end++;
        }
        writeTiles(pieces.with(TILES_HEAD_BYTES + 8 * (end - from)), of.subList(from, end));
      }
    }
    pieces.end();
  }

  /** Writes tiles of one row, without a gap between them. */
  private static void writeTiles(DataOutputStream to, List<TileMap.Tile> tiles) throws IOException {
    to.writeByte(TILES);
    to.writeInt(tiles.get(0).row);
    to.writeInt(tiles.get(0).index);
    to.writeInt(tiles.size());
    for (TileMap.Tile tile : tiles) {
      to.writeInt(tile.place);
      to.writeInt(tile.crc);
    }
  }

  /** Fills records with items. */
  private static final class Pieces {
    private final Journal.Next to;
    private final int most;
    private final ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    private final DataOutputStream piece = new DataOutputStream(bytes);

    Pieces(Journal.Next to, int most) {
      this.to = to;
      this.most = most;
    }

    /** Returns the place for an item of so many bytes. */
    DataOutputStream with(int more) throws IOException {
      if (bytes.size() > 0 && 1 + bytes.size() + more > most) {
        end();
      }
      return piece;
    }

    void end() throws IOException {
      if (bytes.size() > 0) {
        to.add(
            record -> {
              record.writeByte(STATE);
              bytes.writeTo(record);
            });
        bytes.reset();
      }
    }
  }
}
