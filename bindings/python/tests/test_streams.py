"""Streams and chunks of file objects: right with shards lost and wrong, in bounded memory; else refused."""

import io
import os
import pickle
import subprocess
import sys

import pantile
import pytest

CODEC = pantile.Codec("rs:6+4")
DATA = bytes(i * 7 % 251 for i in range(300_001))
ELEMENT = 8192


def encoded(codec=CODEC, data=DATA, element_len=ELEMENT):
    sinks = [io.BytesIO() for _ in range(codec.code.columns)]
    assert codec.encode_stream(io.BytesIO(data), sinks, element_len=element_len) == len(data)
    return [sink.getvalue() for sink in sinks]


def sources(shards, lost=()):
    return [None if column in lost else io.BytesIO(shard) for column, shard in enumerate(shards)]


def spoiled(shard, at=5000):
    return shard[:at] + bytes(byte ^ 0xA5 for byte in shard[at : at + 40]) + shard[at + 40 :]


def test_a_stream_is_its_stripes():
    shards, block = encoded(), 6 * ELEMENT
    stripes = [CODEC.encode(DATA[at : at + block].ljust(block, b"\0")) for at in range(0, len(DATA), block)]
    assert shards == [b"".join(parts) for parts in zip(*stripes)]
    assert encoded(data=b"") == [b""] * 10


@pytest.mark.parametrize("spec", ["dcode:5", "lrc:6,2,2", "shec:6,4,3", "lch:9+5"])
def test_lost_shards_of_a_stream_are_computed(spec):
    codec = pantile.Codec(spec)
    shards, back = encoded(codec, element_len=1000), io.BytesIO()
    lost = range(codec.code.tolerance)
    assert codec.decode_stream(sources(shards, lost), back, len(DATA), element_len=1000).wrong == []
    assert back.getvalue() == DATA
    sinks = [io.BytesIO() if column in lost else None for column in range(len(shards))]
    codec.rebuild_stream(sources(shards, lost), sinks, len(DATA), element_len=1000)
    assert [sink.getvalue() for sink in sinks if sink] == [shards[column] for column in lost]


def test_a_wrong_shard_is_named_and_gone_round():
    shards, back = encoded(), io.BytesIO()
    shards[8] = spoiled(shards[8])
    checked = CODEC.decode_stream(sources(shards, [3]), back, len(DATA), element_len=ELEMENT)
    [wrong] = checked.wrong
    assert (wrong.column, wrong.first, wrong.bytes) == (8, 5000, 40) and back.getvalue() == DATA
    assert checked.is_complete and checked.doubts == 0 and checked.first_doubt is None
    assert CODEC.verify_stream(sources(shards), len(DATA), element_len=ELEMENT).wrong[0].column == 8


def test_a_stripe_in_doubt_is_refused_and_nothing_of_it_is_written():
    shards, back = encoded(), io.BytesIO()
    shards[0], shards[8] = spoiled(shards[0], 9000), spoiled(shards[8], 9000)
    with pytest.raises(pantile.NotLocated, match="at byte 8192 of each"):
        CODEC.decode_stream(sources(shards, [3]), back, len(DATA), element_len=ELEMENT)
    assert back.getvalue() == DATA[: 6 * ELEMENT]
    checked = CODEC.verify_stream(sources(shards, [3]), len(DATA), element_len=ELEMENT)
    assert checked.doubts == 1 and "byte 8192" in checked.first_doubt
    back = io.BytesIO()
    CODEC.decode_stream(sources(shards, [3]), back, len(DATA), element_len=ELEMENT, check="off")
    assert len(back.getvalue()) == len(DATA) and back.getvalue() != DATA


def test_too_few_shards_or_bytes_are_refused():
    shards, back = encoded(), io.BytesIO()
    with pytest.raises(pantile.NotRecoverable):
        CODEC.decode_stream(sources(shards, range(5)), back, len(DATA), element_len=ELEMENT)
    with pytest.raises(pantile.ShapeError, match="column 2 ends before the data do"):
        CODEC.decode_stream(sources([*shards[:2], shards[2][:-1], *shards[3:]]), back, len(DATA), element_len=ELEMENT)
    with pytest.raises(pantile.ShapeError, match="10 columns, 9 shards"):
        CODEC.decode_stream(sources(shards[:9]), back, len(DATA), element_len=ELEMENT)
    with pytest.raises(TypeError, match="None where a file object is needed"):
        CODEC.encode_stream(io.BytesIO(DATA), [None] * 10)
    with pytest.raises(ValueError, match="say 'certain'"):
        CODEC.decode_stream(sources(shards), back, 1, check="perhaps")
    for element_len in [0, 1 << 30, 1 << 62]:
        with pytest.raises(ValueError, match="element"):
            CODEC.encode_stream(io.BytesIO(DATA), [io.BytesIO() for _ in range(10)], element_len=element_len)


class Slow(io.RawIOBase):
    """Reads and writes a few bytes at a time, or nothing at all."""

    def __init__(self, data=b"", step=1000):
        self.inner, self.step = io.BytesIO(data), step

    def read(self, size=-1):
        return self.inner.read(min(size, self.step)) if self.step else None

    def write(self, data):
        return self.inner.write(data[: self.step]) if self.step else None


class Silent:
    """Counts no bytes."""

    def __init__(self):
        self.bytes = b""

    def write(self, data):
        self.bytes += data


def test_streams_that_do_a_part_of_it_are_asked_again():
    sinks = [Slow() if column % 2 else Silent() for column in range(10)]
    assert CODEC.encode_stream(Slow(DATA), sinks, element_len=ELEMENT) == len(DATA)
    assert [sink.bytes if isinstance(sink, Silent) else sink.inner.getvalue() for sink in sinks] == encoded()
    with pytest.raises(BlockingIOError, match="read"):
        CODEC.encode_stream(Slow(DATA, 0), sinks)
    with pytest.raises(BlockingIOError, match="write"):
        CODEC.encode_stream(io.BytesIO(DATA), [Slow(step=0)] * 10)


def test_what_a_file_object_raises_is_raised():
    class Broken(io.BytesIO):
        def read(self, size=-1):
            raise LookupError("no such object in the store")

    with pytest.raises(LookupError, match="in the store") as raised:
        CODEC.decode_stream([*sources(encoded())[:9], Broken()], io.BytesIO(), len(DATA), element_len=ELEMENT)
    assert raised.value.__notes__ == ["the shard of column 9"]

    class Odd(io.BytesIO):
        def read(self, size=-1):
            return "text" if size < 10 else bytes(size + 1)

    with pytest.raises(ValueError, match="at most 49152 were asked for"):
        CODEC.encode_stream(Odd(), [io.BytesIO() for _ in range(10)], element_len=ELEMENT)
    with pytest.raises(TypeError):
        CODEC.encode_stream(Odd(), [io.BytesIO() for _ in range(10)], element_len=1)


def test_a_signal_ends_a_stream():
    program = """
import itertools, os, signal, pantile
class Endless:
    count = itertools.count()
    def read(self, size):
        if next(self.count) == 100:
            os.kill(os.getpid(), signal.SIGINT)
        return bytes(size)
try:
    pantile.Codec("rs:4+2").encode_stream(Endless(), [open(os.devnull, "wb") for _ in range(6)])
except KeyboardInterrupt:
    print("ended")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout == "ended\n", done.stderr


def test_memory_is_that_of_a_stripe():
    program = """
import os, resource, pantile
class Zeros:
    left = 1 << 28
    def read(self, size):
        size = min(size, self.left)
        self.left -= size
        return bytes(size)
codec = pantile.Codec("rs:4+2")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert codec.encode_stream(Zeros(), [open(os.devnull, "wb") for _ in range(6)]) == 1 << 28
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert int(done.stdout) < 16 << 10, done.stdout + done.stderr


PROFILES = [("ceph:plugin=isa k=8 m=4 technique=cauchy", None), ("ceph:plugin=clay k=4 m=2", 4096),
            ("hdfs:RS-6-3-64k", None), ("hdfs:XOR-2-1-1k", None), ("isal:cauchy k=10 m=4", None),
            ("jerasure:cauchy_good k=6 m=3 w=8 packetsize=64", None), ("klauspost:RS(10,4)", None),
            ("klauspost:RS(10,4)", 4096)]


@pytest.mark.parametrize(("profile", "chunk_len"), PROFILES)
def test_chunks_come_back(profile, chunk_len, tmp_path):
    chunks = pantile.Chunks(profile, chunk_len)
    columns, tolerance = chunks.code.columns, chunks.code.tolerance
    (tmp_path / "data").write_bytes(DATA)
    sinks = [io.BytesIO() for _ in range(columns)]
    with open(tmp_path / "data", "rb") as source:
        assert chunks.encode(source, sinks) == len(DATA)
    files = [sink.getvalue() for sink in sinks]
    assert [len(file) for file in files] == [chunks.len_of(column, len(DATA)) for column in range(columns)]
    if tolerance > 1:
        files[-1] = spoiled(files[-1])
    wrong = [columns - 1] if tolerance > 1 else []
    lost = [0] if tolerance > 2 or tolerance == 1 else []
    with open(tmp_path / "back", "wb+") as back:
        checked = chunks.decode(sources(files, lost), back, len(DATA))
    assert (tmp_path / "back").read_bytes() == DATA and [w.column for w in checked.wrong] == wrong
    assert [w.column for w in chunks.verify(sources(files, lost), len(DATA)).wrong] == wrong
    sinks = [io.BytesIO() if column in [0, columns - 1] else None for column in range(columns)]
    chunks.rebuild(sources(files, lost), sinks, len(DATA))
    assert sinks[0].getvalue() == files[0]
    assert not chunks.verify(sources([*files[:-1], sinks[-1].getvalue()]), len(DATA)).wrong
    again = pickle.loads(pickle.dumps(chunks))
    assert repr(again) == repr(chunks) and again.chunk_len == chunks.chunk_len


def test_chunks_that_are_not_possible_are_refused():
    with pytest.raises(pantile.CodeError, match="whose chunks"):
        pantile.Chunks("rs:4+2")
    with pytest.raises(ValueError, match="multiple of 32"):
        pantile.Chunks("ceph:plugin=isa k=4 m=2", 33)
    with pytest.raises(pantile.CodeError):
        pantile.Chunks("jerasure:blaum_roth k=4 w=7 packetsize=8").encode(io.BytesIO(DATA), [io.BytesIO()] * 6)
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as pipe, os.fdopen(writing, "wb"), pytest.raises(OSError):
        pantile.Chunks("isal:cauchy k=4 m=2").encode(pipe, [io.BytesIO() for _ in range(6)])
    with pytest.raises(ValueError, match="6"):
        pantile.Chunks("isal:cauchy k=4 m=2").len_of(6, 1)
