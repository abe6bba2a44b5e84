package pantile.hdfs.raidp;

import java.io.DataInput;
import java.io.DataOutput;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * The place of each tile of each row in the parity file, and the free places.
 *
 * <p>Memory: 8 bytes for each tile of a row, 128 MiB for each TiB of parity. Not for several
 * threads.
 */
final class TileMap {
  /** The place of a tile of zeros, which is not stored. */
  static final int NOWHERE = -1;

  /** A tile of a row: its place in the parity file and its CRC-32. */
  static final class Tile {
    /** Bytes of a tile in a record. */
    static final int BYTES = 16;

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

  /** The tiles of a row by index; those behind the arrays are zeros. */
  private static final class Row {
    int[] places = {};
    int[] crcs = {};
    int count;

    void reach(int index) {
      if (index >= places.length) {
        int before = places.length;
        int length = Math.max(index + 1, before + before / 2);
        places = Arrays.copyOf(places, length);
        Arrays.fill(places, before, length, NOWHERE);
        crcs = Arrays.copyOf(crcs, length);
      }
    }
  }

  private final int places;
  private final BitSet taken;
  private final Map<Integer, Row> rows = new TreeMap<>();
  private int free;

  /** A place below which no place is free. */
  private int lowest;

  TileMap(int places) {
    this.places = places;
    free = places;
    taken = new BitSet(places);
  }

  /** The tile of a row; null if it is zeros. */
  Tile get(int row, int index) {
    Row of = rows.get(row);
    return of == null || index >= of.places.length || of.places[index] == NOWHERE
        ? null
        : new Tile(row, index, of.places[index], of.crcs[index]);
  }

  /** All tiles of a row that have a place. */
  List<Tile> row(int row) {
    List<Tile> tiles = new ArrayList<>();
    Row of = rows.get(row);
    for (int index = 0; of != null && index < of.places.length; index++) {
      if (of.places[index] != NOWHERE) {
        tiles.add(new Tile(row, index, of.places[index], of.crcs[index]));
      }
    }
    return tiles;
  }

  /** The numbers of the rows that have tiles: a copy. */
  List<Integer> rows() {
    return new ArrayList<>(rows.keySet());
  }

  int free() {
    return free;
  }

  /** Takes the lowest free place; {@link #NOWHERE} if there is none. */
  int take() {
    int place = taken.nextClearBit(lowest);
    if (place >= places) {
      return NOWHERE;
    }
    lowest = place;
    occupy(place);
    return place;
  }

  private void occupy(int place) {
    if (!taken.get(place)) {
      taken.set(place);
      free--;
    }
  }

  /** Frees a place that no tile has. */
  void giveBack(int place) {
    if (taken.get(place)) {
      taken.clear(place);
      free++;
      lowest = Math.min(lowest, place);
    }
  }

  /**
   * Records a tile at its new place, or as zeros; its earlier place is freed.
   *
   * @throws IOException if there is no such tile or place.
   */
  void put(Tile tile) throws IOException {
    if (tile.row < 0 || tile.index < 0 || tile.index >= places || tile.place >= places) {
      throw new IOException(
          "tile " + tile.index + " of row " + tile.row + " at place " + tile.place
              + " is none of " + places);
    }
    Row row = rows.computeIfAbsent(tile.row, absent -> new Row());
    if (tile.place != NOWHERE) {
      row.reach(tile.index);
    }
    if (tile.index < row.places.length) {
      int old = row.places[tile.index];
      row.places[tile.index] = tile.place;
      row.crcs[tile.index] = tile.crc;
      row.count += (tile.place == NOWHERE ? 0 : 1) - (old == NOWHERE ? 0 : 1);
      if (old != NOWHERE) {
        giveBack(old);
      }
    }
    if (tile.place != NOWHERE) {
      occupy(tile.place);
    }
    if (row.count == 0) {
      rows.remove(tile.row);
    }
  }
}
