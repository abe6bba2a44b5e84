package pantile.hdfs.raidp;

import java.io.DataInput;
import java.io.DataOutput;
import java.io.IOException;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import java.util.TreeMap;

/**
 * Where each tile of each row lies in the parity file, and which places are free.
 *
 * <p>Not for several threads.
 */
final class TileMap {
  /** No place: the tile is zeros. */
  static final int NOWHERE = -1;

  /** A tile of a row: where it lies, and the CRC-32 of what was written there. */
  static final class Tile {
    final int row;
    final int index;
    final int place;
    final int crc;

    Tile(int row, int index, int place, int crc) {
      this.row = row;
      this.index = index;
      this.place = place;
      this.crc = crc;
    }

    static Tile read(DataInput from) throws IOException {
      return new Tile(from.readInt(), from.readInt(), from.readInt(), from.readInt());
    }

    void write(DataOutput to) throws IOException {
      to.writeInt(row);
      to.writeInt(index);
      to.writeInt(place);
      to.writeInt(crc);
    }
  }

  private final int places;
  private final BitSet taken;
  private final List<TreeMap<Integer, Tile>> rows = new ArrayList<>();

  TileMap(int places) {
    this.places = places;
    taken = new BitSet(places);
  }

  /** The tile of a row; null if it is zeros. */
  Tile get(int row, int index) {
    return row < rows.size() ? rows.get(row).get(index) : null;
  }

  /** All tiles of a row that have a place. */
  List<Tile> row(int row) {
    return row < rows.size() ? new ArrayList<>(rows.get(row).values()) : new ArrayList<>();
  }

  /** All tiles that have a place. */
  List<Tile> all() {
    List<Tile> all = new ArrayList<>();
    rows.forEach(row -> all.addAll(row.values()));
    return all;
  }

  int free() {
    return places - taken.cardinality();
  }

  /** A place that is nobody's from now on; {@link #NOWHERE} if there is none. */
  int take() {
    int place = taken.nextClearBit(0);
    if (place >= places) {
      return NOWHERE;
    }
    taken.set(place);
    return place;
  }

  /** Gives back a place that no tile has. */
  void giveBack(int place) {
    taken.clear(place);
  }

  /** Puts a tile where it says, or nowhere; the place it had is free. */
  void put(Tile tile) {
    while (rows.size() <= tile.row) {
      rows.add(new TreeMap<>());
    }
    TreeMap<Integer, Tile> row = rows.get(tile.row);
    Tile old = tile.place == NOWHERE ? row.remove(tile.index) : row.put(tile.index, tile);
    if (old != null) {
      taken.clear(old.place);
    }
    if (tile.place != NOWHERE) {
      taken.set(tile.place);
    }
  }
}
