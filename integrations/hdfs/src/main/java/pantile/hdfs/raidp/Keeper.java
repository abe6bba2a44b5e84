package pantile.hdfs.raidp;

import java.io.Closeable;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Collectors;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Keeps an add-on in line with the replicas of its disk.
 *
 * <p>Order: a block comes into parity once it is complete on the disk, and leaves it before it is
 * changed or removed there. So after a crash of the DataNode parity lacks blocks at most, and the
 * start adds them. An entry whose block is not on the disk stays: its bytes may be what a recovery
 * needs. When the same block comes back it is in parity already.
 *
 * <p>One block after the other: the add-on is one device. While it cannot be reached blocks come
 * without parity, and none leaves.
 *
 * <p>Room: a change writes tiles to free places before those that they replace are free. What makes
 * parity grow leaves free what the largest block in it needs, so that from a full add-on each block
 * can leave.
 */
final class Keeper implements Closeable {
  private static final Logger LOG = LoggerFactory.getLogger(Keeper.class);

  /** The replicas of a disk. */
  interface Replicas {
    /** A replica; null if there is none, or it is about to be removed. */
    Held get(long blockId);

    /** The blocks whose replicas are complete. */
    Collection<Long> finalized();
  }

  /** Opens the add-on, again after it failed. */
  interface Opener {
    AddOn open() throws IOException;
  }

  private final Opener opener;
  private final Replicas replicas;
  private final int disk;
  private final long blockBytes;

  /** Blocks that are being appended to since they were in line: their first bytes stay. */
  private final Set<Long> growing = ConcurrentHashMap.newKeySet();

  /** Complete blocks that are not in parity as they are. */
  private final Set<Long> behind = ConcurrentHashMap.newKeySet();

  private AddOn addOn;
  private SlotMap slots;

  /** Bytes that blocks of each partner may take; null before the add-on was reached. */
  private volatile long[] room;

  /** Of a disk; a change of parity needs as much room as a whole block, beside what is there. */
  Keeper(Opener opener, Replicas replicas, int disk, long blockBytes) {
    this.opener = opener;
    this.replicas = replicas;
    this.disk = disk;
    this.blockBytes = blockBytes;
  }

  /** Opens the add-on if need be, and brings it in line with the disk; says what it found. */
  void start() throws IOException {
    Set<Long> entries = new HashSet<>();
    synchronized (this) {
      if (slots == null) {
        load();
      }
      slots.entries().forEach(entry -> entries.add(entry.blockId));
    }
    int before = entries.size();
    Collection<Long> complete = replicas.finalized();
    for (long block : complete) {
      sync(block);
    }
    entries.removeIf(block -> replicas.get(block) != null);
    LOG.info(
        "RAIDP: add-on of disk {}: {} blocks were in parity, {} are on the disk, {} are behind",
        disk, before, complete.size(), behind.size());
    if (!entries.isEmpty()) {
      LOG.warn(
          "RAIDP: {} blocks in the add-on of disk {} are not on the disk; what it knows of them is"
              + " kept",
          entries.size(), disk);
    }
  }

  private void load() throws IOException {
    if (addOn != null) {
      addOn.close();
      addOn = null;
    }
    addOn = opener.open();
    SlotMap loaded = new SlotMap();
    List<Entry> entries = addOn.entries();
    loaded.check(Collections.emptyList(), entries, addOn.header().disks, disk);
    loaded.apply(Collections.emptyList(), entries);
    slots = loaded;
    measure();
  }

  /** Whether everything that can be is in line. */
  boolean isCurrent() {
    synchronized (this) {
      return slots != null && behind.isEmpty();
    }
  }

  /** Tries again what failed. */
  void retry() {
    boolean lost;
    synchronized (this) {
      lost = slots == null;
    }
    try {
      if (lost) {
        start();
      } else {
        for (long block : new ArrayList<>(behind)) {
          sync(block);
        }
      }
    } catch (IOException error) {
      LOG.warn("RAIDP: the add-on of disk {} is not to be had: {}", disk, error.getMessage());
    }
  }

  /** A block is about to be appended to: its first bytes stay in parity. */
  void grows(long block) {
    growing.add(block);
  }

  /** A replica is made anew. */
  void begins(long block) {
    growing.remove(block);
  }

  /** Brings parity in line with a block; what fails is tried again later. */
  synchronized void sync(long block) {
    Held held = replicas.get(block);
    if (held == null || !held.isFinalized()) {
      behind.remove(block);
      return;
    }
    if (slots == null) {
      behind.add(block);
      return;
    }
    try {
      bring(held);
      behind.remove(block);
      growing.remove(block);
    } catch (IOException error) {
      failed(error);
      if (behind.add(block)) {
        LOG.warn("RAIDP: blk_{} is on disk {} without parity: {}", block, disk, error.getMessage());
      }
    }
  }

  /** An add-on that fails is opened anew; a block that cannot be read says nothing about it. */
  private void failed(IOException error) {
    if (!(error instanceof BlockReader.Unreadable)
        && !(error instanceof RowIncomplete)
        && !(error instanceof Full)) {
      slots = null;
    }
  }

  private void bring(Held held) throws IOException {
    Entry old = slots.get(held.blockId());
    if (held.partner() < 0) {
      throw new IOException("its storage is none of RAIDP");
    }
    if (old == null) {
      add(held, slots.choose(held.partner(), held.length()), null);
    } else if (old.generation == held.generation()
        && old.length == held.length()
        && old.partner == held.partner()) {
      return;
    } else if (growing.contains(held.blockId())
        && old.length <= held.length()
        && old.partner == held.partner()) {
      add(held, old.row, old);
    } else if (old.partner == held.partner()) {
      recompute(old.row, Collections.singleton(old), held);
    } else {
      recompute(old.row, Collections.singleton(old), null);
      bring(held);
    }
  }

  private static Entry entry(Held held, int row, int crc) {
    return new Entry(
        held.blockId(), held.generation(), held.length(), held.partner(), row, crc);
  }

  private static Set<Entry> some(Entry entry) {
    return entry == null ? Collections.emptySet() : Collections.singleton(entry);
  }

  private static List<Long> ids(Set<Entry> entries) {
    return entries.stream().map(entry -> entry.blockId).collect(Collectors.toList());
  }

  /** Adds what a replica has more than an old entry of it, or all of it if that is null. */
  private void add(Held held, int row, Entry old) throws IOException {
    long have = old == null ? 0 : old.length;
    Entry entry;
    requireRoom(row, held.length());
    try (AddOn.Change change = addOn.change();
        BlockReader reader = new BlockReader(held, held.length())) {
      for (ByteBuffer piece = reader.next(); piece != null; piece = reader.next()) {
        long known = Math.max(0, have - reader.offset());
        if (known < piece.remaining()) {
          piece.position((int) known);
          change.fold(row, held.partner(), reader.offset() + known, piece);
        }
      }
      entry = entry(held, row, reader.crc());
      change.commit(ids(some(old)), Collections.singletonList(entry));
    }
    applied(some(old), Collections.singletonList(entry));
  }

  /** Takes the bytes of an entry out of its row. */
  private void take(Held held, Entry entry) throws IOException {
    try (AddOn.Change change = addOn.change();
        BlockReader reader = new BlockReader(held, entry.length)) {
      for (ByteBuffer piece = reader.next(); piece != null; piece = reader.next()) {
        change.fold(entry.row, entry.partner, reader.offset(), piece);
      }
      reader.expect(entry);
      change.commit(ids(some(entry)), Collections.emptyList());
    }
    applied(some(entry), Collections.emptyList());
  }

  private void applied(Set<Entry> removed, List<Entry> added) throws IOException {
    slots.apply(ids(removed), added);
    measure();
  }

  /** A block would take room that others need to leave. */
  private static final class Full extends IOException {
    private static final long serialVersionUID = 1;

    Full(int disk, long bytes, long free, long kept) {
      super(
          "the add-on of disk " + disk + " is full: " + bytes + " bytes more leave less than "
              + kept + " of " + free + " free, which a delete needs; delete files, or make the add-on anew"
              + " with more pantile.raidp.addon.bytes");
    }
  }

  /** Refuses to let a row get so long if nothing could leave parity then. */
  private void requireRoom(int row, long length) throws IOException {
    long more = inTiles(length) - inTiles(slots.length(row));
    long kept = inTiles(Math.max(blockBytes, Math.max(length, slots.longest())));
    long free = addOn.freeBytes();
    if (more > 0 && free - more < kept) {
      throw new Full(disk, more, free, kept);
    }
  }

  private static long inTiles(long bytes) {
    return (bytes + Header.TILE_BYTES - 1) / Header.TILE_BYTES * Header.TILE_BYTES;
  }

  /** A row cannot be summed up, since a block of it is not on the disk. */
  private static final class RowIncomplete extends IOException {
    private static final long serialVersionUID = 1;

    RowIncomplete(int row, Entry missing) {
      super("row " + row + " has " + missing + ", which is not on the disk");
    }
  }

  /**
   * Sums a row up anew from the disk, without some entries and with a replica that may be null.
   * Other blocks of the row that changed while parity did not follow come as they are now: two of
   * them would wait for each other.
   */
  private void recompute(int row, Set<Entry> without, Held with) throws IOException {
    List<BlockReader> readers = new ArrayList<>();
    List<Entry> others = new ArrayList<>();
    List<Entry> added = new ArrayList<>();
    Set<Entry> gone = new HashSet<>(without);
    List<Held> fresh = new ArrayList<>();
    if (with != null) {
      fresh.add(with);
    }
    try (AddOn.Change change = addOn.change()) {
      for (Entry entry : slots.row(row)) {
        if (!without.contains(entry)) {
          Held held = replicas.get(entry.blockId);
          if (held != null && held.has(entry)) {
            readers.add(new BlockReader(held, entry.length));
            others.add(entry);
          } else if (held != null && held.isFinalized() && held.partner() == entry.partner) {
            gone.add(entry);
            fresh.add(held);
          } else {
            throw new RowIncomplete(row, entry);
          }
        }
      }
      for (Held held : fresh) {
        requireRoom(row, held.length());
      }
      change.clear(row);
      boolean more = true;
      while (more) {
        more = false;
        for (int i = 0; i < readers.size(); i++) {
          ByteBuffer piece = readers.get(i).next();
          if (piece != null) {
            change.fold(row, others.get(i).partner, readers.get(i).offset(), piece);
            more = true;
          }
        }
      }
      for (int i = 0; i < readers.size(); i++) {
        readers.get(i).expect(others.get(i));
      }
      for (Held held : fresh) {
        try (BlockReader reader = new BlockReader(held, held.length())) {
          for (ByteBuffer piece = reader.next(); piece != null; piece = reader.next()) {
            change.fold(row, held.partner(), reader.offset(), piece);
          }
          added.add(entry(held, row, reader.crc()));
        }
      }
      change.commit(ids(gone), added);
    } finally {
      readers.forEach(BlockReader::close);
    }
    applied(gone, added);
  }

  /**
   * Takes a block out of parity, before it changes or goes.
   *
   * @throws IOException if that is not possible now; the block must stay as it is.
   */
  synchronized void leave(long block) throws IOException {
    growing.remove(block);
    if (slots == null) {
      throw new IOException("the add-on of disk " + disk + " is not to be had");
    }
    Entry entry = slots.get(block);
    if (entry == null) {
      behind.remove(block);
      return;
    }
    try {
      Held held = replicas.get(block);
      if (held != null && held.has(entry)) {
        try {
          take(held, entry);
        } catch (BlockReader.Unreadable rotten) {
          LOG.warn("RAIDP: {}; its row is summed up from the others", rotten.getMessage());
          recompute(entry.row, Collections.singleton(entry), null);
        }
      } else {
        recompute(entry.row, Collections.singleton(entry), null);
      }
      behind.remove(block);
    } catch (IOException error) {
      failed(error);
      throw error;
    }
  }

  /**
   * As above, of a block that goes: {@code mark} says so to {@link Replicas} before anything else
   * can bring the block in line again.
   */
  synchronized void leave(long block, Runnable mark) throws IOException {
    leave(block);
    mark.run();
  }

  /** Whether a block is in parity with more bytes than these. */
  synchronized boolean hasBeyond(long block, long bytes) {
    Entry entry = slots == null ? null : slots.get(block);
    return entry != null && entry.length > bytes;
  }

  /**
   * Takes blocks out of parity that are not on the disk: to be asked for once nothing is left to
   * recover.
   */
  void forget() throws IOException {
    List<Entry> entries;
    synchronized (this) {
      entries = slots.entries();
    }
    Set<Integer> rows = new HashSet<>();
    for (Entry entry : entries) {
      if (replicas.get(entry.blockId) == null) {
        rows.add(entry.row);
      }
    }
    for (int row : rows) {
      forgetOf(row);
    }
    LOG.info("RAIDP: {} rows of disk {} were summed up anew", rows.size(), disk);
  }

  private synchronized void forgetOf(int row) throws IOException {
    Set<Entry> gone = new HashSet<>(slots.row(row));
    gone.removeIf(entry -> replicas.get(entry.blockId) != null);
    recompute(row, gone, null);
  }

  /** Bytes that a partner's superchunk may still take, as far as parity goes. */
  long room(int partner) {
    long[] known = room;
    return known == null ? Long.MAX_VALUE : Math.max(0, known[partner]);
  }

  private void measure() throws IOException {
    long[] measured = new long[addOn.header().disks];
    long free = addOn.freeBytes();
    for (int partner = 0; partner < measured.length; partner++) {
      measured[partner] = free < blockBytes ? 0 : free - blockBytes + slots.slack(partner);
    }
    room = measured;
  }

  @Override
  public synchronized void close() throws IOException {
    slots = null;
    if (addOn != null) {
      addOn.close();
      addOn = null;
    }
  }
}
