package pantile.hdfs.raidp;

import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Semaphore;
import java.util.zip.CRC32;
import pantile.hdfs.RaidpCode;

/**
 * An add-on in a folder: a file of tiles, and a journal that says which tile of which row lies at
 * which place and which blocks are in the rows.
 *
 * <p>Nothing is changed in place. A change writes new tiles to places that are free, makes them
 * durable, and then one record of the journal switches all of them together with the entries; only
 * then the old places are free. So a crash leaves the state before or behind a change, whatever of
 * it was written.
 */
final class LocalAddOn implements AddOn {
  private static final String PARITY = "parity";
  private static final int TILE = Header.TILE_BYTES;

  /** Tiles of a change that are held in memory: 4 MiB. */
  private static final int HELD_MOST = 64;

  private static final byte HEADER = 1;
  private static final byte COMMIT = 2;

  /** The journal is written anew when it has grown to so many times what it must have. */
  private static final int GROWN = 4;

  /** Smaller journals do not count as grown. */
  private static final long JOURNAL_BYTES_LEAST = 64 * 1024;

  private final Disk disk;
  private final RaidpCode code;
  private final Header header;
  private final SlotMap slots = new SlotMap();
  private final TileMap tiles;
  private final Disk.Content parity;
  private final Semaphore turn = new Semaphore(1);
  private final long journalBytesLeast;
  private Journal journal;
  private long journalBytesFresh;

  /** Why nothing more can be written; null while it can. */
  private IOException broken;

  /** Makes an empty one. */
  static void create(Disk disk, Header header) throws IOException {
    if (Journal.exists(disk)) {
      throw new IOException("there is an add-on already");
    }
    Journal.replace(disk, Collections.singletonList(to -> writeHeader(to, header))).close();
  }

  static boolean exists(Disk disk) throws IOException {
    return Journal.exists(disk);
  }

  /** Opens the one on a disk, which is closed with it. */
  LocalAddOn(Disk disk, boolean readOnly) throws IOException {
    this(disk, readOnly, JOURNAL_BYTES_LEAST);
  }

  /** As above; a journal below so many bytes is not written anew. */
  LocalAddOn(Disk disk, boolean readOnly, long journalBytesLeast) throws IOException {
    this.disk = disk;
    this.journalBytesLeast = journalBytesLeast;
    List<byte[]> records = new ArrayList<>();
    if (!Journal.exists(disk)) {
      throw new IOException("there is no add-on of RAIDP in the folder");
    }
    journal = Journal.open(disk, !readOnly, records);
    if (records.isEmpty()) {
      throw new IOException("the journal of the add-on has no header");
    }
    DataInputStream first = fields(records.get(0));
    if (first.readByte() != HEADER) {
      throw new IOException("the journal of the add-on has no header");
    }
    header = Header.read(first);
    code = RaidpCode.of(header.disks);
    tiles = new TileMap(header.tiles);
    for (byte[] record : records.subList(1, records.size())) {
      replay(fields(record));
    }
    journalBytesFresh = Math.max(journalBytesLeast, journal.size() / GROWN);
    parity = readOnly && !disk.exists(PARITY) ? null : disk.open(PARITY);
  }

  private static DataInputStream fields(byte[] record) {
    return new DataInputStream(new ByteArrayInputStream(record));
  }

  private static void writeHeader(DataOutputStream to, Header header) throws IOException {
    to.writeByte(HEADER);
    header.write(to);
  }

  private static void writeCommit(
      DataOutputStream to, Collection<Long> removed, Collection<Entry> added, List<TileMap.Tile> changed)
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

  private void replay(DataInputStream from) throws IOException {
    int kind = from.readByte();
    if (kind != COMMIT) {
      throw new IOException("the journal of the add-on has a record of unknown kind " + kind);
    }
    List<Long> removed = new ArrayList<>();
    for (int left = from.readInt(); left > 0; left--) {
      removed.add(from.readLong());
    }
    List<Entry> added = new ArrayList<>();
    for (int left = from.readInt(); left > 0; left--) {
      added.add(Entry.read(from));
    }
    slots.check(removed, added, header.disks, header.disk);
    slots.apply(removed, added);
    for (int left = from.readInt(); left > 0; left--) {
      tiles.put(TileMap.Tile.read(from));
    }
  }

  @Override
  public Header header() {
    return header;
  }

  @Override
  public synchronized List<Entry> entries() {
    return slots.entries();
  }

  @Override
  public synchronized long freeBytes() {
    return (long) tiles.free() * TILE;
  }

  @Override
  public synchronized void read(int row, long offset, ByteBuffer to) throws IOException {
    ByteBuffer tile = ByteBuffer.allocate(TILE);
    while (to.hasRemaining()) {
      int within = (int) (offset % TILE);
      int bytes = Math.min(TILE - within, to.remaining());
      load(tiles.get(row, (int) (offset / TILE)), tile);
      tile.limit(within + bytes).position(within);
      to.put(tile);
      offset += bytes;
    }
  }

  /** The content of a tile, from byte 0 of the buffer on; zeros for null. */
  private void load(TileMap.Tile tile, ByteBuffer to) throws IOException {
    to.clear();
    if (tile == null) {
      zero(to);
      return;
    }
    parity.read((long) tile.place * TILE, to);
    to.flip();
    if (crc(to) != tile.crc) {
      throw new IOException(
          "tile " + tile.index + " of row " + tile.row + " of the add-on of disk " + header.disk
              + " is not what was written");
    }
  }

  private static void zero(ByteBuffer buffer) {
    buffer.clear();
    buffer.put(new byte[buffer.capacity()]);
    buffer.flip();
  }

  private static int crc(ByteBuffer buffer) {
    CRC32 crc = new CRC32();
    crc.update(buffer.duplicate());
    return (int) crc.getValue();
  }

  @Override
  public Change change() throws IOException {
    turn.acquireUninterruptibly();
    synchronized (this) {
      if (broken != null) {
        turn.release();
        throw new IOException("the add-on failed earlier: " + broken.getMessage(), broken);
      }
    }
    return new LocalChange();
  }

  @Override
  public void close() throws IOException {
    turn.acquireUninterruptibly();
    synchronized (this) {
      if (broken == null) {
        broken = new IOException("it is closed");
      }
      journal.close();
      if (parity != null) {
        parity.close();
      }
      disk.close();
    }
    turn.release();
  }

  /** Writes the journal anew with the state alone, if it has grown. */
  private void compact() throws IOException {
    if (journal.size() < journalBytesFresh * GROWN) {
      return;
    }
    List<Journal.Writer> state = new ArrayList<>();
    state.add(to -> writeHeader(to, header));
    state.add(to -> writeCommit(to, Collections.emptyList(), slots.entries(), tiles.all()));
    journal.close();
    journal = Journal.replace(disk, state);
    journalBytesFresh = Math.max(journalBytesLeast, journal.size());
  }

  /** See {@link AddOn.Change}: used by one thread. */
  private final class LocalChange implements Change {
    /** A tile as it will be: at its new place, or still in memory. */
    private final class Draft {
      final int row;
      final int index;
      int place = TileMap.NOWHERE;
      int crc;
      ByteBuffer held;

      Draft(int row, int index) {
        this.row = row;
        this.index = index;
      }
    }

    private final Map<Long, Draft> drafts = new LinkedHashMap<>();
    private final Set<Integer> cleared = new HashSet<>();
    private final List<Draft> held = new ArrayList<>();
    private boolean committed;
    private boolean closed;

    @Override
    public void clear(int row) {
      cleared.add(row);
      drafts.values().removeIf(draft -> draft.row == row && drop(draft));
    }

    private boolean drop(Draft draft) {
      held.remove(draft);
      if (draft.place != TileMap.NOWHERE) {
        synchronized (LocalAddOn.this) {
          tiles.giveBack(draft.place);
        }
      }
      return true;
    }

    @Override
    public void fold(int row, int partner, long offset, ByteBuffer content) throws IOException {
      ByteBuffer direct = content;
      if (!content.isDirect()) {
        direct = ByteBuffer.allocateDirect(content.remaining());
        direct.put(content.duplicate());
        direct.flip();
      }
      ByteBuffer left = direct.duplicate();
      while (left.hasRemaining()) {
        int within = (int) (offset % TILE);
        int bytes = Math.min(TILE - within, left.remaining());
        ByteBuffer parity = draft(row, (int) (offset / TILE)).held.duplicate();
        parity.limit(within + bytes).position(within);
        ByteBuffer term = left.duplicate();
        term.limit(term.position() + bytes);
        code.fold(header.disk, partner, parity, term);
        left.position(left.position() + bytes);
        offset += bytes;
      }
    }

    /** The tile, in memory. */
    private Draft draft(int row, int index) throws IOException {
      long key = (long) row << 32 | index;
      Draft draft = drafts.get(key);
      if (draft != null && draft.held != null) {
        return draft;
      }
      if (held.size() >= HELD_MOST) {
        writeOut(held.get(0));
      }
      ByteBuffer buffer = ByteBuffer.allocateDirect(TILE);
      if (draft == null) {
        draft = new Draft(row, index);
        synchronized (LocalAddOn.this) {
          load(cleared.contains(row) ? null : tiles.get(row, index), buffer);
        }
        drafts.put(key, draft);
      } else {
        load(new TileMap.Tile(row, index, draft.place, draft.crc), buffer);
      }
      draft.held = buffer;
      held.add(draft);
      return draft;
    }

    private void writeOut(Draft draft) throws IOException {
      if (draft.place == TileMap.NOWHERE) {
        synchronized (LocalAddOn.this) {
          draft.place = tiles.take();
        }
        if (draft.place == TileMap.NOWHERE) {
          throw new IOException(
              "the add-on of disk " + header.disk + " is full: " + header.tiles + " tiles of "
                  + TILE + " bytes; pantile.raidp.addon.bytes says how many it has");
        }
      }
      draft.held.clear();
      draft.crc = crc(draft.held);
      parity.write((long) draft.place * TILE, draft.held.duplicate());
      draft.held = null;
      held.remove(draft);
    }

    @Override
    public void commit(Collection<Long> removed, Collection<Entry> added) throws IOException {
      synchronized (LocalAddOn.this) {
        slots.check(removed, added, header.disks, header.disk);
      }
      List<TileMap.Tile> changed = finish(removed, added);
      if (drafts.values().stream().anyMatch(draft -> draft.place != TileMap.NOWHERE)) {
        parity.force();
      }
      synchronized (LocalAddOn.this) {
        try {
          journal.append(to -> writeCommit(to, removed, added, changed));
        } catch (IOException error) {
          // Whether the record is there is not known before the journal is read again.
          broken = error;
          throw error;
        }
        slots.apply(removed, added);
        changed.forEach(tiles::put);
        committed = true;
        try {
          compact();
        } catch (IOException error) {
          broken = error;
        }
      }
    }

    /** Writes out all tiles within rows as they will be; those behind their ends go. */
    private List<TileMap.Tile> finish(Collection<Long> removed, Collection<Entry> added)
        throws IOException {
      Map<Integer, Long> ends = new LinkedHashMap<>();
      Set<Integer> rows = new HashSet<>(cleared);
      drafts.values().forEach(draft -> rows.add(draft.row));
      synchronized (LocalAddOn.this) {
        for (int row : rows) {
          long end = 0;
          for (Entry entry : slots.row(row)) {
            end = removed.contains(entry.blockId) ? end : Math.max(end, entry.length);
          }
          for (Entry entry : added) {
            end = entry.row == row ? Math.max(end, entry.length) : end;
          }
          ends.put(row, end);
        }
      }
      List<TileMap.Tile> changed = new ArrayList<>();
      for (Draft draft : drafts.values()) {
        if ((long) draft.index * TILE >= ends.get(draft.row)) {
          drop(draft);
          draft.place = TileMap.NOWHERE;
        } else if (draft.held != null) {
          writeOut(draft);
        }
        changed.add(new TileMap.Tile(draft.row, draft.index, draft.place, draft.crc));
      }
      synchronized (LocalAddOn.this) {
        for (int row : cleared) {
          for (TileMap.Tile tile : tiles.row(row)) {
            if (!drafts.containsKey((long) row << 32 | tile.index)) {
              changed.add(new TileMap.Tile(row, tile.index, TileMap.NOWHERE, 0));
            }
          }
        }
      }
      return changed;
    }

    @Override
    public void close() {
      if (closed) {
        return;
      }
      closed = true;
      synchronized (LocalAddOn.this) {
        if (!committed && broken == null) {
          for (Draft draft : drafts.values()) {
            if (draft.place != TileMap.NOWHERE) {
              tiles.giveBack(draft.place);
            }
          }
        }
      }
      turn.release();
    }
  }
}
