"""Shards of a SeaweedFS volume: rows of large blocks as long as the data fill them, then rows of small blocks.

weed/storage/erasure_coding/ec_encoder.go: the .dat file is cut into rows of k blocks, the blocks of a row are encoded by
klauspost/reedsolomon's default matrix, and shard i is block i of every row, one after the other. Behind the data there are
zeros to the end of the last row. The uniform layout has one row, whose block is as long as a shard of the other layout.
"""
import gf
from families.matrix import backblaze_rows
from value import digest, pattern

LARGE, SMALL = 1 << 30, 1 << 20


def blocks(length, k, large, small):
    """(start in the data, block length) of each row."""
    start = 0
    while length - start >= k * large:
        yield start, large
        start += k * large
    while length - start > 0:
        yield start, small
        start += k * small


def shards(data, k, m, rows):
    made = [bytearray() for _ in range(k + m)]
    matrix = backblaze_rows(k, m)
    for start, block in rows:
        row = data[start:start + k * block]
        row += bytes(k * block - len(row))
        of_data = [row[i * block:(i + 1) * block] for i in range(k)]
        for i, part in enumerate(of_data):
            made[i] += part
        for parity, coefficients in enumerate(matrix):
            total = bytes(block)
            for coefficient, part in zip(coefficients, of_data):
                total = gf.add_scaled(total, coefficient, part)
            made[k + parity] += total
    return made


def cases():
    # Rows of large blocks are shown with blocks that are a million times shorter.
    for k, m, large, small, lengths in (
            (10, 4, LARGE, SMALL, (1, 10 * SMALL, 10 * SMALL + 1)),
            (10, 4, 1024, 32, (319, 10239, 10240, 10241, 2 * 10240 + 320 + 77)),
            (3, 2, 1024, 32, (3 * 1024 - 1, 3 * 1024, 7 * 1024 + 5))):
        for length in lengths:
            rows = list(blocks(length, k, large, small))
            yield {"k": k, "m": m, "large": large, "small": small, "length": length}, shards(pattern(length), k, m, rows)
    for k, m, length in ((10, 4, 100), (4, 2, 9 * SMALL + 5)):
        block = sum(block for _, block in blocks(length, k, LARGE, SMALL))
        yield {"k": k, "m": m, "large": None, "small": SMALL, "length": length}, shards(pattern(length), k, m, [(0, block)])


def entries():
    for case, made in cases():
        yield {**case, "bytes": len(made[0]), "sha256": [digest(bytes(shard)) for shard in made]}
