package pantile.hdfs.raidp;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.zip.CRC32;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import pantile.hdfs.RaidpCode;

/**
 * An add-on in a folder: a file of tiles, and a journal that records the place of each tile of each
 * row, and the blocks in the rows.
 *
 * <p>Nothing is changed in place. A change writes new tiles to places that are free, makes them
 * durable, and then one record of the journal switches all of them together with the entries; only
 * then the old places are free. So a crash leaves the state before or after a change, whichever
 * part of the change was written.
 */
final class LocalAddOn implements AddOn {
  private static final Logger LOG = LoggerFactory.getLogger(LocalAddOn.class);
  private static final String PARITY = "parity";
  private static final int TILE = Header.TILE_BYTES;

  /** Tiles of a change that are held in memory: 4 MiB. */
  private static final int HELD_MOST = 64;

  /** The journal is rewritten when it has grown to this many times the bytes of the state. */
  private static final int GROWN = 4;

  /** Smaller journals do not count as grown. */
  private static final long JOURNAL_BYTES_LEAST = 64 * 1024;

  /** Error: a tile has changed, because its row was changed after the add-on was opened. */
  static final class Changed extends IOException {
    private static final long serialVersionUID = 1;

    Changed(int row, int disk) {
      super(
          "row " + row + " of the add-on of disk " + disk + " was changed since it was opened;"
              + " open it again");
    }
  }

  private final Disk disk;
  private final boolean readOnly;
  private final RaidpCode code;
  private final Header header;
  private final AddOnState state;
  private final Disk.Content parity;
  private final Semaphore turn = new Semaphore(1);
  private final long journalBytesLeast;
  private final int recordBytesMost;
  private Journal journal;
  private long journalBytesFresh;

  /** Reason why no more writes are possible; null while they are. */
  private IOException broken;

  /** Creates an empty add-on. */
  static void create(Disk disk, Header header) throws IOException {
    if (Journal.exists(disk)) {
      throw new IOException("there is an add-on already");
    }
    renew(disk, AddOnState.empty(header), Journal.RECORD_BYTES_MOST).replace().close();
  }

  static boolean exists(Disk disk) throws IOException {
    return Journal.exists(disk);
  }

  /** Opens the add-on on a disk; closing it closes the disk. */
  LocalAddOn(Disk disk, boolean readOnly) throws IOException {
    this(disk, readOnly, JOURNAL_BYTES_LEAST, Journal.RECORD_BYTES_MOST);
  }

  /**
   * Opens the add-on with other limits.
   *
   * @param journalBytesLeast a shorter journal is not rewritten.
   * @param recordBytesMost no record of the journal is longer.
   */
  LocalAddOn(Disk disk, boolean readOnly, long journalBytesLeast, int recordBytesMost)
      throws IOException {
    this.disk = disk;
    this.readOnly = readOnly;
    this.journalBytesLeast = journalBytesLeast;
    this.recordBytesMost = recordBytesMost;
    if (!Journal.exists(disk)) {
      throw new IOException("there is no add-on of RAIDP in the folder");
    }
    List<AddOnState> read = new ArrayList<>();
    journal = AddOnState.open(disk, !readOnly, recordBytesMost, read);
    state = read.get(0);
    header = state.header;
    code = RaidpCode.of(header.disks);
    journalBytesFresh = Math.max(journalBytesLeast, journal.size() / GROWN);
    parity = readOnly && !disk.exists(PARITY) ? null : disk.open(PARITY);
  }

  /** Writes a journal that has only a state, beside the present journal. */
  private static Journal.Next renew(Disk disk, AddOnState state, int recordBytesMost)
      throws IOException {
    try (Journal.Next next = new Journal.Next(disk, recordBytesMost)) {
      state.write(next, Math.min(recordBytesMost, Journal.PIECE_BYTES));
      next.force();
      return next;
    }
  }

  @Override
  public Header header() {
    return header;
  }

  @Override
  public synchronized List<Entry> entries() {
    return state.slots.entries();
  }

  /**
   * Adds at most so many entries, of blocks from an id on, to a list; returns the number of the
   * last change.
   */
  synchronized long entries(long from, int most, List<Entry> into) {
    into.addAll(state.slots.entries(from, most));
    return state.sequence;
  }

  /** The number of the last change. */
  synchronized long sequence() {
    return state.sequence;
  }

  /** Returns true if a change failed in such a way that the add-on must be opened again. */
  synchronized boolean isBroken() {
    return broken != null;
  }

  /**
   * Waits until the change that is under way has ended.
   *
   * @throws IOException if it has not after so many milliseconds.
   */
  void settle(long millis) throws IOException {
    try {
      if (!turn.tryAcquire(millis, TimeUnit.MILLISECONDS)) {
        throw new IOException(
            "the add-on of disk " + header.disk + " is busy with a change that was begun before");
      }
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      throw new IOException("interrupted");
    }
    turn.release();
  }

  @Override
  public synchronized long freeBytes() {
    return (long) state.tiles.free() * TILE;
  }

  @Override
  public synchronized void read(int row, long offset, ByteBuffer to) throws IOException {
    ByteBuffer tile = ByteBuffer.allocate(TILE);
    while (to.hasRemaining()) {
      int within = (int) (offset % TILE);
      int bytes = Math.min(TILE - within, to.remaining());
      long index = offset / TILE;
      load(index < header.tiles ? state.tiles.get(row, (int) index) : null, tile);
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
      if (readOnly && !isStill(tile)) {
        throw new Changed(tile.row, header.disk);
      }
      throw new IOException(
          "tile " + tile.index + " of row " + tile.row + " of the add-on of disk " + header.disk
              + " is not what was written");
    }
  }

  /** Returns true if the present journal has a tile at the same place as this add-on. */
  private boolean isStill(TileMap.Tile tile) throws IOException {
    List<AddOnState> now = new ArrayList<>();
    AddOnState.open(disk, false, recordBytesMost, now).close();
    TileMap.Tile other = now.get(0).tiles.get(tile.row, tile.index);
    return other != null && other.place == tile.place && other.crc == tile.crc;
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

  /** Rewrites the journal with the state alone, if it has grown. */
  private void compact() throws IOException {
    if (journal.size() < journalBytesFresh * GROWN) {
      return;
    }
    Journal.Next next;
    try {
      next = renew(disk, state, recordBytesMost);
    } catch (IOException error) {
      // The present journal stays in use, and is rewritten when it has doubled.
      journalBytesFresh = journal.size() * 2 / GROWN;
      LOG.warn(
          "RAIDP: the journal of the add-on of disk {} has {} bytes and cannot be rewritten: {}",
          header.disk, journal.size(), error.getMessage());
      return;
    }
    journal.close();
    journal = next.replace();
    journalBytesFresh = Math.max(journalBytesLeast, journal.size());
  }

  /** See {@link AddOn.Change}: used by one thread. */
  private final class LocalChange implements Change {
    /** A tile of the change: at its new place, or still in memory. */
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
          state.tiles.giveBack(draft.place);
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
      if (row < 0 || offset < 0) {
        throw new IOException("there is no byte " + offset + " of row " + row);
      }
      if (offset + direct.remaining() > (long) header.tiles * TILE) {
        throw full();
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

    /** Returns a tile of the change, in memory. */
    private Draft draft(int row, int index) throws IOException {
      long key = (long) row << 32 | index;
      Draft draft = drafts.get(key);
      if (draft != null && draft.held != null) {
        return draft;
      }
      if (draft == null && drafts.size() >= recordBytesMost / TileMap.Tile.BYTES) {
        throw new IOException(
            "a change of more than " + drafts.size() + " tiles of " + TILE
                + " bytes is too large for an add-on; RAIDP takes smaller blocks");
      }
      if (held.size() >= HELD_MOST) {
        writeOut(held.get(0));
      }
      ByteBuffer buffer = ByteBuffer.allocateDirect(TILE);
      if (draft == null) {
        draft = new Draft(row, index);
        synchronized (LocalAddOn.this) {
          load(cleared.contains(row) ? null : state.tiles.get(row, index), buffer);
        }
        drafts.put(key, draft);
      } else {
        load(new TileMap.Tile(row, index, draft.place, draft.crc), buffer);
      }
      draft.held = buffer;
      held.add(draft);
      return draft;
    }

    private IOException full() {
      return new IOException(
          "the add-on of disk " + header.disk + " is full: " + header.tiles + " tiles of " + TILE
              + " bytes; pantile.raidp.addon.bytes says how many it has");
    }

    private void writeOut(Draft draft) throws IOException {
      if (draft.place == TileMap.NOWHERE) {
        synchronized (LocalAddOn.this) {
          draft.place = state.tiles.take();
        }
        if (draft.place == TileMap.NOWHERE) {
          throw full();
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
        state.slots.check(removed, added, header.disks, header.disk);
      }
      List<TileMap.Tile> changed = finish(removed, added);
      ByteBuffer record =
          journal.framed(to -> AddOnState.writeCommit(to, removed, added, changed));
      if (drafts.values().stream().anyMatch(draft -> draft.place != TileMap.NOWHERE)) {
        parity.force();
      }
      synchronized (LocalAddOn.this) {
        try {
          journal.append(record);
        } catch (IOException error) {
          // It is unknown if the record was written, until the journal is read again.
          broken = error;
          throw error;
        }
        state.apply(removed, added, changed);
        committed = true;
        try {
          compact();
        } catch (IOException error) {
          broken = error;
        }
      }
    }

    /**
     * Writes all tiles within the rows of the changed state; tiles behind the ends of rows are
     * freed.
     */
    private List<TileMap.Tile> finish(Collection<Long> removed, Collection<Entry> added)
        throws IOException {
      Map<Integer, Long> ends = new LinkedHashMap<>();
      Set<Integer> rows = new HashSet<>(cleared);
      drafts.values().forEach(draft -> rows.add(draft.row));
      synchronized (LocalAddOn.this) {
        for (int row : rows) {
          long end = 0;
          for (Entry entry : state.slots.row(row)) {
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
          for (TileMap.Tile tile : state.tiles.row(row)) {
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
              state.tiles.giveBack(draft.place);
            }
          }
        }
      }
      turn.release();
    }
  }
}
