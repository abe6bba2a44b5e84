package pantile.hdfs.raidp;

import java.io.Closeable;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.zip.CRC32;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Keeps an add-on in line with the replicas of its disk.
 *
 * <p>One thread opens the add-on, reads it and changes it. HDFS's threads name blocks that changed,
 * and may wait for them: until the block is in line, or until the add-on has made no progress for
 * {@link #STALL_MS}. From then on no thread waits until the add-on works again: blocks are recorded
 * as behind, and writers go on.
 *
 * <p>Order: a block comes into parity once it is complete on the disk. A block that is deleted or
 * shortened is kept ({@link Kept}) until it has left parity. An entry whose block is neither on the
 * disk nor kept stays: a recovery may need its bytes. When the same block comes back it is
 * in parity already.
 *
 * <p>Space: a change writes tiles to free places before the tiles that they replace are freed. A
 * change that adds to parity leaves enough free space for the largest block in it. So each block
 * can leave even a full add-on.
 *
 * <p>Its monitor guards the queue and the entries, and is held over no I/O.
 */
final class Keeper implements Closeable {
  private static final Logger LOG = LoggerFactory.getLogger(Keeper.class);

  /** An add-on that makes no progress for this long is not waited for. */
  static final long STALL_MS = 10_000;

  /** The longest wait for a block behind others; clients give up after 60 s and more. */
  private static final long WAIT_MS_MOST = 20_000;

  /** The time before a failed operation is tried again. */
  static final long RETRY_MS = 3_000;

  /** The time that closing waits for a change under way. */
  private static final long CLOSE_MS = 5_000;

  /** The answer of {@link #counts} for a block that parity neither has nor will get. */
  static final long NOT_COUNTED = Long.MAX_VALUE;

  /** The replicas of a disk. */
  interface Replicas {
    /** A replica; null if there is none, or it is about to be removed. */
    Held get(long blockId);

    /** The blocks whose replicas are complete. */
    Collection<Long> finalized();

    /** The kept copies of a block. */
    List<? extends Held> kept(long blockId);

    /** The blocks that have kept copies. */
    Collection<Long> kept();

    /** True if HDFS was asked to delete the block that an entry stands for, and it is kept. */
    boolean isDeleted(Entry entry);
  }

  /** Opens the add-on, again after it failed. */
  interface Opener {
    AddOn open() throws IOException;
  }

  /** The turn of a queued block; waiting threads look if it is done. */
  private static final class Turn {
    boolean done;
  }

  private final Opener opener;
  private final Replicas replicas;
  private final int disk;
  private final long blockBytes;
  private final long retryMs;
  private final long stallMs;
  private final Thread thread;

  /** Blocks that are to be brought in line, in order. */
  private final Map<Long, Turn> queue = new LinkedHashMap<>();

  /** Complete blocks whose present content is not in parity, with the reasons. */
  private final Map<Long, String> behind = new HashMap<>();

  /** Blocks whose copy is in the disk's spare. */
  private final Set<Long> spares = ConcurrentHashMap.newKeySet();

  /** Blocks that the change under way may add. */
  private final Set<Long> inFlight = ConcurrentHashMap.newKeySet();

  /** The open add-on, which only the thread reads and changes once it runs. */
  private AddOn addOn;

  /** The assignment of blocks to rows; null while the add-on is not open. */
  private SlotMap slots;

  private boolean begun;
  private boolean closed;
  private boolean forgets;

  /** False from a failure or a stall on, until the add-on works again. */
  private volatile boolean works;

  private volatile boolean busy;
  private volatile long progress = System.nanoTime();
  private volatile String fault = "it was not opened yet";

  /** Bytes that blocks of each partner may take; null before the add-on was reached. */
  private volatile long[] room;

  /**
   * Makes the keeper of a disk's add-on; a change that adds to parity must leave {@code blockBytes}
   * free in it.
   */
  Keeper(Opener opener, Replicas replicas, int disk, long blockBytes) {
    this(opener, replicas, disk, blockBytes, RETRY_MS, STALL_MS);
  }

  /** Makes a keeper with other times, for tests. */
  Keeper(
      Opener opener, Replicas replicas, int disk, long blockBytes, long retryMs, long stallMs) {
    this.opener = opener;
    this.replicas = replicas;
    this.disk = disk;
    this.blockBytes = blockBytes;
    this.retryMs = retryMs;
    this.stallMs = stallMs;
    thread = new Thread(this::work, "RAIDP add-on of disk " + disk);
    thread.setDaemon(true);
  }

  /** Opens the add-on, before the thread runs. */
  void open() throws IOException {
    load();
  }

  /** Starts the thread, which brings the add-on in line with the disk. */
  synchronized void begin() {
    begun = true;
    thread.start();
  }

  private void work() {
    try {
      long next = System.nanoTime();
      boolean passed = false;
      while (true) {
        if (!passed) {
          pause(next);
        }
        Long block = null;
        Turn turn = null;
        boolean forget = false;
        synchronized (this) {
          while (passed && !closed && queue.isEmpty() && !forgets && left(next) > 0) {
            TimeUnit.NANOSECONDS.timedWait(this, left(next));
          }
          if (closed) {
            return;
          }
          if (passed && !queue.isEmpty()) {
            block = queue.keySet().iterator().next();
            turn = queue.remove(block);
          } else if (passed && forgets) {
            forget = true;
            forgets = false;
          }
          progress = System.nanoTime();
          busy = true;
        }
        if (turn != null) {
          bringInLine(block, turn);
        } else if (forget) {
          forgetAbsent();
        } else {
          passed = tryAgain(passed);
          next = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(retryMs);
        }
        synchronized (this) {
          busy = false;
          if (slots == null && passed) {
            passed = false;
            next = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(retryMs);
          }
        }
      }
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
    } finally {
      closeAddOn();
      synchronized (this) {
        slots = null;
        closed = true;
        queue.values().forEach(turn -> turn.done = true);
        queue.clear();
        notifyAll();
      }
    }
  }

  private static long left(long until) {
    return until - System.nanoTime();
  }

  /** Waits for the next try; blocks that change meanwhile count as behind. */
  private synchronized void pause(long until) throws InterruptedException {
    while (!closed && left(until) > 0) {
      allAreBehind();
      TimeUnit.NANOSECONDS.timedWait(this, Math.max(1, left(until)));
    }
  }

  private synchronized boolean isOpen() {
    return slots != null;
  }

  /** Records all queued blocks as behind, and ends all waiting; with the monitor held. */
  private void allAreBehind() {
    queue.forEach(
        (block, turn) -> {
          behind.putIfAbsent(block, fault);
          turn.done = true;
        });
    queue.clear();
    notifyAll();
  }

  /**
   * Opens the add-on if necessary; queues the blocks that are behind, or all that could be behind.
   */
  private boolean tryAgain(boolean passed) {
    try {
      if (!isOpen()) {
        load();
      }
      if (!passed) {
        pass();
      } else {
        synchronized (this) {
          behind.keySet().forEach(this::queued);
        }
      }
      return true;
    } catch (IOException | RuntimeException | LinkageError error) {
      failed(error);
      LOG.warn("RAIDP: the add-on of disk {} cannot be used: {}", disk, error.getMessage());
      return false;
    }
  }

  private void closeAddOn() {
    if (addOn != null) {
      try {
        addOn.close();
      } catch (IOException error) {
        LOG.warn("RAIDP: the add-on of disk {} does not close: {}", disk, error.getMessage());
      }
      addOn = null;
    }
  }

  private void load() throws IOException {
    closeAddOn();
    AddOn opened = opener.open();
    try {
      List<Entry> entries = opened.entries();
      SlotMap loaded = new SlotMap();
      loaded.check(Collections.emptyList(), entries, opened.header().disks, disk);
      loaded.apply(Collections.emptyList(), entries);
      long[] measured = measure(opened, loaded);
      synchronized (this) {
        addOn = opened;
        slots = loaded;
        room = measured;
        fault = null;
      }
      works = true;
    } finally {
      if (addOn != opened) {
        opened.close();
      }
    }
  }

  /** Queues all blocks that parity may lack, or may still have although they are gone. */
  private void pass() {
    Collection<Long> complete = replicas.finalized();
    int queued = 0;
    for (long block : complete) {
      Held held = replicas.get(block);
      synchronized (this) {
        Entry entry = slots.get(block);
        if (held != null && held.partner() == disk) {
          spares.add(block);
        } else if (held != null && !isOf(held, entry)) {
          queued(block);
          queued++;
        }
      }
    }
    int before;
    synchronized (this) {
      before = slots.size();
      replicas.kept().forEach(this::queued);
    }
    LOG.info(
        "RAIDP: add-on of disk {}: {} blocks are in parity, {} on the disk, {} to be added or"
            + " changed",
        disk, before, complete.size(), queued);
    int absent = absent();
    if (absent > 0) {
      LOG.warn(
          "RAIDP: {} blocks in the add-on of disk {} are not on the disk; their entries are kept",
          absent, disk);
    }
  }

  /** Queues a block; with the monitor held. */
  private Turn queued(long block) {
    return queue.computeIfAbsent(block, id -> new Turn());
  }

  /** Has a block brought in line, without waiting for it. */
  void changed(long block) {
    synchronized (this) {
      if (!closed) {
        queued(block);
        notifyAll();
      }
    }
  }

  /** Has a block brought in line, and waits for it while the add-on works. */
  void sync(long block) {
    long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(WAIT_MS_MOST);
    synchronized (this) {
      if (closed) {
        return;
      }
      Turn turn = queued(block);
      notifyAll();
      try {
        while (!turn.done && !closed && works && end - System.nanoTime() > 0) {
          if (busy && silentMs() > stallMs) {
            works = false;
            fault = "it makes no progress";
            LOG.warn(
                "RAIDP: the add-on of disk {} makes no progress for {} ms; blocks are on the disk"
                    + " without parity until it works again",
                disk, stallMs);
          } else {
            wait(Math.min(100, stallMs));
          }
        }
      } catch (InterruptedException interrupted) {
        // HDFS ends a writer: the block stays in the queue.
        Thread.currentThread().interrupt();
      }
    }
  }

  private long silentMs() {
    return TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - progress);
  }

  private void bringInLine(long block, Turn turn) {
    inFlight.add(block);
    String reason = null;
    try {
      Held held = replicas.get(block);
      Entry entry = slots.get(block);
      if (held != null && held.isFinalized()) {
        bring(held);
      } else if (held == null && entry != null && replicas.isDeleted(entry)) {
        takeOut(entry);
      }
      works = true;
    } catch (IOException | RuntimeException | LinkageError error) {
      reason = String.valueOf(error.getMessage());
      failed(error);
    } finally {
      inFlight.clear();
    }
    synchronized (this) {
      if (reason == null) {
        behind.remove(block);
      } else if (behind.put(block, reason) == null) {
        LOG.warn("RAIDP: blk_{} of disk {} is not in line with parity: {}", block, disk, reason);
      }
      turn.done = true;
      busy = false;
      notifyAll();
    }
  }

  /** Records a failure. The add-on is then opened again, unless the failure is that of a block. */
  private void failed(Throwable error) {
    if (!(error instanceof BlockReader.Unreadable)
        && !(error instanceof RowIncomplete)
        && !(error instanceof Full)) {
      synchronized (this) {
        slots = null;
        fault = String.valueOf(error.getMessage());
        works = false;
      }
    }
  }

  /** Returns true if an entry, which may be null, has the present content of a replica. */
  static boolean isOf(Held held, Entry entry) {
    return entry != null
        && entry.generation == held.generation()
        && entry.length == held.length()
        && entry.partner == held.partner();
  }

  private void bring(Held held) throws IOException {
    Entry old = slots.get(held.blockId());
    if (held.partner() == disk) {
      // The add-ons of the two disks that share the block count it.
      spares.add(held.blockId());
      return;
    }
    if (held.partner() < 0) {
      throw new IOException("its storage is none of RAIDP");
    }
    if (old == null) {
      add(held, slots.choose(held.partner(), held.length()), null);
    } else if (isOf(held, old)) {
      return;
    } else if (old.partner != held.partner()) {
      recompute(old.row, Collections.singleton(old), null);
      bring(held);
    } else if (old.length > held.length() || !add(held, old.row, old)) {
      exchange(old, held);
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

  private void fold(AddOn.Change change, int row, int partner, long offset, ByteBuffer content)
      throws IOException {
    change.fold(row, partner, offset, content);
    progress = System.nanoTime();
  }

  private void commit(AddOn.Change change, Set<Entry> removed, List<Entry> added)
      throws IOException {
    change.commit(ids(removed), added);
    progress = System.nanoTime();
  }

  /**
   * Adds the bytes of a replica behind those of its old entry, or all of them if the entry is null.
   *
   * @return false, with nothing changed, if the first bytes are not those of the old entry.
   */
  private boolean add(Held held, int row, Entry old) throws IOException {
    long have = old == null ? 0 : old.length;
    CRC32 first = new CRC32();
    Entry entry;
    requireRoom(row, held.length());
    try (AddOn.Change change = addOn.change();
        BlockReader reader = new BlockReader(held, held.length())) {
      for (ByteBuffer piece = reader.next(); piece != null; piece = reader.next()) {
        int known = (int) Math.min(piece.remaining(), Math.max(0, have - reader.offset()));
        ByteBuffer start = piece.duplicate();
        start.limit(start.position() + known);
        first.update(start);
        if (known < piece.remaining()) {
          if (old != null && (int) first.getValue() != old.crc) {
            return false;
          }
          piece.position(piece.position() + known);
          fold(change, row, held.partner(), reader.offset() + known, piece);
        }
        progress = System.nanoTime();
      }
      if (old != null && (int) first.getValue() != old.crc) {
        return false;
      }
      entry = entry(held, row, reader.crc());
      commit(change, some(old), Collections.singletonList(entry));
    }
    applied(some(old), Collections.singletonList(entry));
    return true;
  }

  /** Folds the first bytes of a replica into a row; returns their CRC-32. */
  private int foldAll(AddOn.Change change, Held held, long length, int row, Entry expected)
      throws IOException {
    try (BlockReader reader = new BlockReader(held, length)) {
      for (ByteBuffer piece = reader.next(); piece != null; piece = reader.next()) {
        fold(change, row, held.partner(), reader.offset(), piece);
      }
      if (expected != null) {
        reader.expect(expected);
      }
      return reader.crc();
    }
  }

  /** The content of an entry on the disk, live or kept; null if it is not there. */
  private Held version(Entry entry) {
    Held held =
        Kept.version(
            replicas.get(entry.blockId),
            replicas.kept(entry.blockId),
            entry.generation,
            entry.length);
    return held != null && held.partner() == entry.partner ? held : null;
  }

  /** Replaces the old entry of a replica by its present content. */
  private void exchange(Entry old, Held held) throws IOException {
    Held before = version(old);
    if (before != null) {
      requireRoom(old.row, held.length());
      try (AddOn.Change change = addOn.change()) {
        foldAll(change, before, old.length, old.row, old);
        Entry entry = entry(held, old.row, foldAll(change, held, held.length(), old.row, null));
        commit(change, some(old), Collections.singletonList(entry));
        applied(some(old), Collections.singletonList(entry));
        return;
      } catch (BlockReader.Unreadable rotten) {
        LOG.warn("RAIDP: {}; its row is summed up again", rotten.getMessage());
      }
    }
    recompute(old.row, Collections.singleton(old), held);
  }

  /** Takes a block out of its row. */
  private void takeOut(Entry entry) throws IOException {
    Held held = version(entry);
    if (held != null) {
      try (AddOn.Change change = addOn.change()) {
        foldAll(change, held, entry.length, entry.row, entry);
        commit(change, some(entry), Collections.emptyList());
        applied(some(entry), Collections.emptyList());
        return;
      } catch (BlockReader.Unreadable rotten) {
        LOG.warn("RAIDP: {}; its row is summed up from the others", rotten.getMessage());
      }
    }
    recompute(entry.row, Collections.singleton(entry), null);
  }

  private void applied(Set<Entry> removed, List<Entry> added) throws IOException {
    synchronized (this) {
      slots.apply(ids(removed), added);
    }
    room = measure(addOn, slots);
  }

  /** Error: a block would take the space that is needed to take out other blocks. */
  private static final class Full extends IOException {
    private static final long serialVersionUID = 1;

    Full(int disk, long bytes, long free, long kept) {
      super(
          "the add-on of disk " + disk + " is full: " + bytes + " bytes more leave less than "
              + kept + " of " + free + " free, which a delete needs; delete files, or make the"
              + " add-on again with more pantile.raidp.addon.bytes");
    }
  }

  /** Refuses a longer row if no block could be taken out of parity afterwards. */
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

  /** Error: a row cannot be summed up, since a block of it is not on the disk. */
  private static final class RowIncomplete extends IOException {
    private static final long serialVersionUID = 1;

    RowIncomplete(int row, Entry missing) {
      super("row " + row + " has " + missing + ", which is not on the disk");
    }
  }

  /**
   * Sums a row up again from the disk, without some entries and with a replica that may be null.
   * Other blocks of the row that changed while parity did not follow are added with their present
   * content: two of them would otherwise wait for each other.
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
          inFlight.add(entry.blockId);
          Held held = version(entry);
          if (held == null || held.isFinalized() && held.generation() != entry.generation) {
            // The content that is in parity does not exist any more, so the present one is taken.
            Held live = replicas.get(entry.blockId);
            held = live == null || !live.isFinalized() ? held : live;
          }
          if (held != null && held.partner() == entry.partner) {
            if (held.isFinalized() && !isOf(held, entry)) {
              gone.add(entry);
              fresh.add(held);
            } else {
              readers.add(new BlockReader(held, entry.length));
              others.add(entry);
            }
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
            fold(change, row, others.get(i).partner, readers.get(i).offset(), piece);
            more = true;
          }
        }
      }
      for (int i = 0; i < readers.size(); i++) {
        readers.get(i).expect(others.get(i));
      }
      for (Held held : fresh) {
        added.add(entry(held, row, foldAll(change, held, held.length(), row, null)));
      }
      commit(change, gone, added);
    } finally {
      readers.forEach(BlockReader::close);
    }
    applied(gone, added);
  }

  /**
   * Returns the least generation of a block that parity has, or will get from the disk; {@link
   * #NOT_COUNTED} if none. A kept copy is needed as long as that generation is not greater than the
   * copy's.
   *
   * @throws IOException if that is not known, since the add-on is not open.
   */
  long counts(long block) throws IOException {
    // In this order, a block that is added meanwhile is found in one of the three.
    Held live = replicas.get(block);
    boolean comes = inFlight.contains(block);
    long least = live == null ? NOT_COUNTED : live.generation();
    return comes ? 0 : Math.min(least, entryGeneration(block));
  }

  /** The generation of a block's entry; {@link #NOT_COUNTED} if it has none. */
  synchronized long entryGeneration(long block) throws IOException {
    if (slots == null) {
      throw new IOException("the add-on of disk " + disk + " is not open: " + fault);
    }
    Entry entry = slots.get(block);
    return entry == null ? NOT_COUNTED : entry.generation;
  }

  /** Returns a copy of all entries. */
  synchronized List<Entry> entries() throws IOException {
    if (slots == null) {
      throw new IOException("the add-on of disk " + disk + " is not open: " + fault);
    }
    return slots.entries();
  }

  /** Fills a buffer with parity of a row from an offset on. */
  void parity(int row, long offset, ByteBuffer to) throws IOException {
    AddOn open;
    synchronized (this) {
      if (slots == null) {
        throw new IOException("the add-on of disk " + disk + " is not open: " + fault);
      }
      open = addOn;
    }
    open.read(row, offset, to);
  }

  /** The blocks whose copy is in the disk's spare now. */
  Set<Long> spares() {
    spares.removeIf(
        block -> {
          Held held = replicas.get(block);
          return held == null || held.partner() != disk;
        });
    return new HashSet<>(spares);
  }

  /** The partner with which the disk shares a block of its parity; -1 for none. */
  synchronized int partnerOf(long block) throws IOException {
    if (slots == null) {
      throw new IOException("the add-on of disk " + disk + " is not open: " + fault);
    }
    Entry entry = slots.get(block);
    return entry == null ? -1 : entry.partner;
  }

  /** The number of entries whose block is neither on the disk nor kept; 0 if it is not known. */
  int absent() {
    List<Entry> entries;
    synchronized (this) {
      entries = slots == null ? Collections.emptyList() : slots.entries();
    }
    return (int) entries.stream().filter(this::isAbsent).count();
  }

  private boolean isAbsent(Entry entry) {
    return replicas.get(entry.blockId) == null && replicas.kept(entry.blockId).isEmpty();
  }

  /**
   * Queues the removal from parity of blocks that are neither on the disk nor kept, and returns
   * their present number. To be called once nothing is left to recover.
   */
  int forget() throws IOException {
    entries();
    int absent = absent();
    synchronized (this) {
      forgets = true;
      notifyAll();
    }
    return absent;
  }

  private void forgetAbsent() {
    Map<Integer, Set<Entry>> rows = new HashMap<>();
    for (Entry entry : slots.entries()) {
      if (isAbsent(entry)) {
        rows.computeIfAbsent(entry.row, row -> new HashSet<>()).add(entry);
      }
    }
    int done = 0;
    for (Map.Entry<Integer, Set<Entry>> row : rows.entrySet()) {
      try {
        recompute(row.getKey(), row.getValue(), null);
        done++;
      } catch (IOException | RuntimeException | LinkageError error) {
        LOG.warn("RAIDP: row {} keeps its entries: {}", row.getKey(), error.getMessage());
        failed(error);
        if (!isOpen()) {
          break;
        }
      } finally {
        inFlight.clear();
      }
    }
    LOG.info("RAIDP: {} of {} rows of disk {} were summed up again", done, rows.size(), disk);
  }

  /** Returns true if the add-on is open, and no block is queued or behind. */
  synchronized boolean isCurrent() {
    return slots != null && queue.isEmpty() && !forgets && !busy && behind.isEmpty();
  }

  /** Returns true if no work is under way; blocks may still be behind. */
  synchronized boolean isIdle() {
    return queue.isEmpty() && !forgets && !busy;
  }

  /** Returns the number of blocks that are not in line, including queued ones. */
  synchronized int behind() {
    Set<Long> all = new HashSet<>(behind.keySet());
    all.addAll(queue.keySet());
    return all.size();
  }

  /** The number of blocks in parity; -1 if the add-on is not open. */
  synchronized int inParity() {
    return slots == null ? -1 : slots.size();
  }

  /** The reason why the add-on cannot be used; null if it can. */
  String fault() {
    String known = fault;
    return works ? null : known == null ? "it makes no progress" : known;
  }

  /** Returns the bytes that the superchunk of a partner may still take, by the space for parity. */
  long room(int partner) {
    long[] known = room;
    return known == null ? Long.MAX_VALUE : Math.max(0, known[partner]);
  }

  private long[] measure(AddOn of, SlotMap map) throws IOException {
    long[] measured = new long[of.header().disks];
    long free = of.freeBytes();
    for (int partner = 0; partner < measured.length; partner++) {
      measured[partner] = free < blockBytes ? 0 : free - blockBytes + map.slack(partner);
    }
    return measured;
  }

  /**
   * Ends the thread. A thread that waits for the network ends by itself later, and then closes the
   * add-on.
   */
  @Override
  public void close() {
    boolean alone;
    synchronized (this) {
      alone = !begun && !closed;
      closed = true;
      notifyAll();
    }
    if (alone) {
      closeAddOn();
      return;
    }
    try {
      thread.join(CLOSE_MS);
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
    }
  }
}
