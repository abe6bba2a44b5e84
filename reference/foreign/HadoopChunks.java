import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.IntStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.util.StripedBlockUtil;
import org.apache.hadoop.io.erasurecode.CodecUtil;
import org.apache.hadoop.io.erasurecode.ErasureCoderOptions;
import org.apache.hadoop.io.erasurecode.rawcoder.RawErasureDecoder;
import org.apache.hadoop.io.erasurecode.rawcoder.RawErasureEncoder;

/**
 * Blocks of one block group by Hadoop's own coders and lengths: `encode CODEC K M CELL FILE` writes
 * FILE.0, FILE.1, .. of FILE; `decode CODEC K M CELL FILE LENGTH` writes FILE of those that are
 * there.
 *
 * Encoding goes cell by cell as in DFSStripedOutputStream: the last stripe's data cells are filled
 * up with zeros to the length of its parity cells, for the coder alone. Which bytes of a block exist
 * is what StripedBlockUtil.getInternalBlockLength says.
 */
public class HadoopChunks {
    public static void main(String[] args) throws Exception {
        String codec = args[1];
        int k = Integer.parseInt(args[2]), m = Integer.parseInt(args[3]), cell = Integer.parseInt(args[4]);
        Path file = Path.of(args[5]);
        Configuration conf = new Configuration(false);
        ErasureCoderOptions options = new ErasureCoderOptions(k, m);
        if (args[0].equals("encode")) {
            byte[] data = Files.readAllBytes(file);
            byte[][] blocks = blocks(data.length, k, m, cell);
            RawErasureEncoder encoder = CodecUtil.createRawEncoder(conf, codec, options);
            for (int stripe = 0; (long) stripe * k * cell < data.length; stripe++) {
                byte[][] cells = cells(blocks, stripe, k, m, cell);
                for (int i = 0; i < k; i++) {
                    int from = (stripe * k + i) * cell, len = Math.max(0, Math.min(cell, data.length - from));
                    if (len > 0) System.arraycopy(data, from, cells[i], 0, len);
                }
                encoder.encode(Arrays.copyOf(cells, k), Arrays.copyOfRange(cells, k, k + m));
                keep(blocks, cells, stripe, cell);
            }
            for (int i = 0; i < k + m; i++) Files.write(Path.of(file + "." + i), blocks[i]);
            return;
        }
        int length = Integer.parseInt(args[6]);
        byte[][] blocks = blocks(length, k, m, cell);
        List<Integer> lost = new ArrayList<>();
        for (int i = 0; i < k + m; i++) {
            Path path = Path.of(file + "." + i);
            if (Files.exists(path)) System.arraycopy(Files.readAllBytes(path), 0, blocks[i], 0, blocks[i].length);
            else lost.add(i);
        }
        RawErasureDecoder decoder = CodecUtil.createRawDecoder(conf, codec, options);
        byte[] data = new byte[length];
        for (int stripe = 0; (long) stripe * k * cell < length; stripe++) {
            byte[][] cells = cells(blocks, stripe, k, m, cell);
            if (!lost.isEmpty()) {
                byte[][] out = new byte[lost.size()][cells[k].length];
                byte[][] in = IntStream.range(0, k + m).mapToObj(i -> lost.contains(i) ? null : cells[i]).toArray(byte[][]::new);
                decoder.decode(in, lost.stream().mapToInt(i -> i).toArray(), out);
                for (int i = 0; i < out.length; i++) cells[lost.get(i)] = out[i];
            }
            for (int i = 0; i < k; i++) {
                int from = (stripe * k + i) * cell, len = Math.max(0, Math.min(cell, length - from));
                if (len > 0) System.arraycopy(cells[i], 0, data, from, len);
            }
        }
        Files.write(file, data);
    }

    static byte[][] blocks(int length, int k, int m, int cell) {
        return IntStream.range(0, k + m)
            .mapToObj(i -> new byte[(int) StripedBlockUtil.getInternalBlockLength(length, cell, k, i)]).toArray(byte[][]::new);
    }

    /** The cells of a stripe, each as long as a parity cell, zeros behind what exists. */
    static byte[][] cells(byte[][] blocks, int stripe, int k, int m, int cell) {
        int len = Math.min(cell, blocks[k].length - stripe * cell);
        byte[][] cells = new byte[k + m][len];
        for (int i = 0; i < k + m; i++) {
            int there = Math.max(0, Math.min(len, blocks[i].length - stripe * cell));
            if (there > 0) System.arraycopy(blocks[i], stripe * cell, cells[i], 0, there);
        }
        return cells;
    }

    static void keep(byte[][] blocks, byte[][] cells, int stripe, int cell) {
        for (int i = 0; i < blocks.length; i++) {
            int there = Math.max(0, Math.min(cells[i].length, blocks[i].length - stripe * cell));
            if (there > 0) System.arraycopy(cells[i], 0, blocks[i], stripe * cell, there);
        }
    }
}
