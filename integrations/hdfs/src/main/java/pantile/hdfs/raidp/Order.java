package pantile.hdfs.raidp;

import java.io.DataInput;
import java.io.DataOutput;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.hadoop.io.Writable;

/**
 * An order to a node to carry out a step of a recovery: sums of blocks on disks, the unknowns in
 * them, and the storages that get the unknowns.
 */
public final class Order implements Writable {
  /**
   * The most items of a list, which limits the memory that a message of another node can take here.
   */
  private static final int ITEMS_MOST = 1 << 16;

  /** A content of a block times a coefficient, and the disk whose node has it. */
  static final class Term {
    final int weight;
    final int disk;
    final long block;
    final long generation;
    final long length;

    Term(int weight, int disk, long block, long generation, long length) {
      this.weight = weight;
      this.disk = disk;
      this.block = block;
      this.generation = generation;
      this.length = length;
    }

    List<Long> content() {
      return Arrays.asList(block, generation, length);
    }

    /** Returns the bytes that the content has in a range. */
    int bytes(long offset, int most) {
      return (int) Math.max(0, Math.min(most, length - offset));
    }

    private static Term read(DataInput from) throws IOException {
      return new Term(
          from.readUnsignedByte(),
          from.readUnsignedShort(),
          from.readLong(),
          from.readLong(),
          from.readLong());
    }

    private void write(DataOutput to) throws IOException {
      to.writeByte(weight);
      to.writeShort(disk);
      to.writeLong(block);
      to.writeLong(generation);
      to.writeLong(length);
    }
  }

  /** Terms that travel in a message. */
  public static final class Terms implements Writable {
    List<Term> all = new ArrayList<>();

    /** An empty list, for Hadoop's RPC. */
    public Terms() {}

    Terms(Collection<Term> all) {
      this.all.addAll(all);
    }

    @Override
    public void write(DataOutput to) throws IOException {
      to.writeInt(all.size());
      for (Term term : all) {
        term.write(to);
      }
    }

    @Override
    public void readFields(DataInput from) throws IOException {
      all = new ArrayList<>();
      for (int left = count(from); left > 0; left--) {
        all.add(Term.read(from));
      }
    }
  }

  /** A row of an add-on: where its parity is, its known blocks, and its unknowns. */
  static final class Row {
    final int disk;
    final int row;

    /** The place of the add-on; empty if the node of the disk has it. */
    final String place;

    Terms known = new Terms();

    /** The coefficient of each unknown, by its number. */
    final Map<Integer, Integer> unknowns = new TreeMap<>();

    Row(int disk, int row, String place) {
      this.disk = disk;
      this.row = row;
      this.place = place;
    }
  }

  /** An unknown, and the storage that gets it. */
  static final class Unknown {
    final long block;
    final long generation;
    final long length;
    final int crc;

    /** False for an unknown that is only solved together with others and is not written. */
    final boolean isWanted;

    final int disk;
    final int partner;

    Unknown(
        long block, long generation, long length, int crc, boolean isWanted, int disk, int partner) {
      this.block = block;
      this.generation = generation;
      this.length = length;
      this.crc = crc;
      this.isWanted = isWanted;
      this.disk = disk;
      this.partner = partner;
    }
  }

  final List<Row> rows = new ArrayList<>();
  final List<Unknown> unknowns = new ArrayList<>();

  /** A number that no other order has. */
  long number;

  /** The bytes read and written per second at most; 0 for as fast as it goes. */
  long bytesPerSecond;

  /** An empty order, for Hadoop's RPC. */
  public Order() {}

  /** Returns the bytes of the longest unknown. */
  long length() {
    return unknowns.stream().mapToLong(unknown -> unknown.length).max().orElse(0);
  }

  private static int count(DataInput from) throws IOException {
    int count = from.readInt();
    if (count < 0 || count > ITEMS_MOST) {
      throw new IOException("a list of " + count + " items; at most " + ITEMS_MOST + " are taken");
    }
    return count;
  }

  @Override
  public void write(DataOutput to) throws IOException {
    to.writeLong(number);
    to.writeLong(bytesPerSecond);
    to.writeInt(unknowns.size());
    for (Unknown one : unknowns) {
      to.writeLong(one.block);
      to.writeLong(one.generation);
      to.writeLong(one.length);
      to.writeInt(one.crc);
      to.writeBoolean(one.isWanted);
      to.writeShort(one.disk);
      to.writeShort(one.partner);
    }
    to.writeInt(rows.size());
    for (Row row : rows) {
      to.writeShort(row.disk);
      to.writeInt(row.row);
      to.writeUTF(row.place);
      row.known.write(to);
      to.writeInt(row.unknowns.size());
      for (Map.Entry<Integer, Integer> one : row.unknowns.entrySet()) {
        to.writeInt(one.getKey());
        to.writeByte(one.getValue());
      }
    }
  }

  @Override
  public void readFields(DataInput from) throws IOException {
    unknowns.clear();
    rows.clear();
    number = from.readLong();
    bytesPerSecond = from.readLong();
    for (int left = count(from); left > 0; left--) {
      unknowns.add(
          new Unknown(
              from.readLong(),
              from.readLong(),
              from.readLong(),
              from.readInt(),
              from.readBoolean(),
              from.readUnsignedShort(),
              from.readUnsignedShort()));
    }
    for (int left = count(from); left > 0; left--) {
      Row row = new Row(from.readUnsignedShort(), from.readInt(), from.readUTF());
      row.known.readFields(from);
      for (int more = count(from); more > 0; more--) {
        row.unknowns.put(from.readInt(), from.readUnsignedByte());
      }
      rows.add(row);
    }
  }
}
