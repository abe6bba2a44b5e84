package pantile.hdfs.raidp;

import java.io.IOException;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import pantile.hdfs.RaidpCode;

/**
 * Compares a disk with its add-on, byte by byte: which blocks are in parity, and whether parity is
 * their sum.
 *
 * <p>The result is right for a disk at rest. The check changes nothing.
 */
final class ParityCheck {
  /** The most faults that are printed; further ones are only counted. */
  private static final int SAID_MOST = 20;

  private final AddOn addOn;
  private final Folders folders;
  private final PrintStream out;
  private final RaidpCode code;
  private final ByteBuffer sum = ByteBuffer.allocateDirect(BlockReader.PIECE);
  private final ByteBuffer parity = ByteBuffer.allocate(BlockReader.PIECE);
  private int faults;

  ParityCheck(AddOn addOn, Folders folders, PrintStream out) {
    this.addOn = addOn;
    this.folders = folders;
    this.out = out;
    code = RaidpCode.of(addOn.header().disks);
  }

  private void fault(String what) {
    faults++;
    if (faults <= SAID_MOST) {
      out.println("  " + what);
    }
  }

  /** Checks the disk; returns the number of faults. */
  int run() throws IOException {
    Map<Integer, List<Entry>> rows = new TreeMap<>();
    Map<Long, Entry> entries = new TreeMap<>();
    for (Entry entry : addOn.entries()) {
      rows.computeIfAbsent(entry.row, row -> new ArrayList<>()).add(entry);
      entries.put(entry.blockId, entry);
    }
    out.println(addOn.header() + ": " + entries.size() + " blocks in " + rows.size() + " rows");
    folders.faults().forEach(this::fault);
    for (Held held : folders.all()) {
      Entry entry = entries.get(held.blockId());
      if (held.isFinalized() && held.partner() != addOn.header().disk && !Keeper.isOf(held, entry)) {
        fault(
            "blk_" + held.blockId() + "_" + held.generation() + " of " + held.length()
                + " bytes is on the disk and not in parity"
                + (entry == null ? "" : ", which has " + entry));
      }
    }
    long bytes = 0;
    for (Map.Entry<Integer, List<Entry>> row : rows.entrySet()) {
      bytes += row(row.getKey(), row.getValue());
    }
    if (faults > SAID_MOST) {
      out.println("  ... " + (faults - SAID_MOST) + " more");
    }
    out.println(
        "  " + bytes + " bytes of parity compared: " + (faults == 0 ? "right" : faults + " faults"));
    return faults;
  }

  /** Compares a row if all of its blocks are present; returns the number of compared bytes. */
  private long row(int row, List<Entry> entries) throws IOException {
    List<BlockReader> readers = new ArrayList<>();
    try {
      long length = 0;
      boolean whole = true;
      for (Entry entry : entries) {
        Held held = folders.version(entry);
        if (held == null) {
          fault(entry + " is in parity and not on the disk; its row is not compared");
          whole = false;
        } else if (whole) {
          readers.add(new BlockReader(held, entry.length));
          length = Math.max(length, entry.length);
        }
      }
      return whole ? compare(row, entries, readers, length) : 0;
    } catch (BlockReader.Unreadable error) {
      fault("row " + row + " cannot be compared: " + error.getMessage());
      return 0;
    } finally {
      readers.forEach(BlockReader::close);
    }
  }

  private long compare(int row, List<Entry> entries, List<BlockReader> readers, long length)
      throws IOException {
    // One tile behind the end is compared as well: no bytes of longer blocks that were taken out
    // may be left there.
    long end = (length / Header.TILE_BYTES + 2) * Header.TILE_BYTES;
    for (long offset = 0; offset < end; offset += BlockReader.PIECE) {
      int bytes = (int) Math.min(BlockReader.PIECE, end - offset);
      sum.clear();
      sum.put(new byte[sum.capacity()]);
      for (int i = 0; i < readers.size(); i++) {
        ByteBuffer piece = readers.get(i).next();
        if (piece != null) {
          sum.clear();
          code.fold(addOn.header().disk, entries.get(i).partner, sum, piece);
        }
      }
      parity.clear().limit(bytes);
      try {
        addOn.read(row, offset, parity);
      } catch (IOException error) {
        fault("row " + row + ": " + error.getMessage());
        return offset;
      }
      for (int i = 0; i < bytes; i++) {
        if (sum.get(i) != parity.get(i)) {
          fault("row " + row + ": parity is WRONG from byte " + (offset + i) + " on");
          return offset;
        }
      }
    }
    for (int i = 0; i < readers.size(); i++) {
      readers.get(i).expect(entries.get(i));
    }
    return length;
  }
}
