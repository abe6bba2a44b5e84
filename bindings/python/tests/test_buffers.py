"""Every object with a buffer is taken; other ones are refused with a message, and nothing is written."""

import array
import ctypes
import threading

import numpy
import pantile
import pytest

CODEC = pantile.Codec("rs:4+2")


def stripe(kind=bytearray, data=bytes(range(200))):
    return [kind(shard) for shard in CODEC.encode(data)]


def test_every_kind_of_buffer_is_taken():
    expected = CODEC.encode(bytes(range(200)))
    for data in [
        bytearray(range(200)),
        memoryview(bytes(range(200))),
        numpy.arange(200, dtype=numpy.uint8),
        numpy.arange(200, dtype=numpy.uint8).reshape(10, 20),
        array.array("B", range(200)),
        numpy.frombuffer(bytes(range(200)), dtype=numpy.uint64),
    ]:
        assert CODEC.encode(data) == expected
    kinds = [bytes, bytearray, memoryview, lambda b: numpy.frombuffer(b, dtype=numpy.uint8), bytes, memoryview]
    shards = [kind(shard) for kind, shard in zip(kinds, expected)]
    assert CODEC.verify(shards)
    assert CODEC.join(CODEC.reconstruct([None, *shards[1:5], None]), 200) == bytes(range(200))


def test_results_go_to_the_given_buffers():
    shards = stripe()
    into = {1: numpy.zeros(50, dtype=numpy.uint8), 5: memoryview(bytearray(50))}
    lost = [None if i in into else bytes(shard) for i, shard in enumerate(shards)]
    made = CODEC.reconstruct(lost, into=into)
    assert made[1] is into[1] and made[5] is into[5] and made[0] is lost[0]
    assert [bytes(shard) for shard in made] == [bytes(shard) for shard in shards]
    only = CODEC.reconstruct(lost, wanted=[5])
    assert only[1] is None and only[5] == bytes(shards[5])


def test_encode_fills_what_is_given():
    data = bytes(range(200))
    out = [bytearray(b"x" * 50), numpy.full(50, 7, dtype=numpy.uint8), *stripe()[2:]]
    made = CODEC.encode(data, out=out)
    assert all(shard is given for shard, given in zip(made, out))
    assert [bytes(shard) for shard in made] == CODEC.encode(data)
    with pytest.raises(ValueError, match="share memory"):
        CODEC.encode(memoryview(out[0]), out=[bytearray(13) for _ in range(5)] + [memoryview(out[0])[:13]])


def test_arrays_of_ctypes_are_buffers():
    shards = [(ctypes.c_ubyte * 50).from_buffer_copy(shard) for shard in stripe(bytes)]
    words = (ctypes.c_uint32 * 50)(*range(50))
    shards[0][3] ^= 1
    assert not CODEC.verify(shards)
    CODEC.encode_into(shards)
    assert CODEC.verify(shards) and CODEC.encode(words) == CODEC.encode(bytes(words))


def test_what_is_left_is_checked_where_shards_are_lost():
    for lost in range(6):
        shards = [None if i == lost else shard for i, shard in enumerate(stripe())]
        assert CODEC.verify(shards)
        shards[(lost + 1) % 6][7] ^= 1
        assert not CODEC.verify(shards)


def test_a_change_goes_to_the_parities_that_are_there():
    for position, offset in ((0, 0), (3, 41)):
        shards, change = stripe(), b"\x01\xff\x00\x80 change"[: 50 - offset]
        before = bytes(shards[5])
        CODEC.update_parity([None] * 4 + [shards[4], None], position, change, offset=offset)
        assert bytes(shards[5]) == before and not CODEC.verify(shards)
        CODEC.update_parity([None] * 5 + [shards[5]], position, change, offset=offset)
        for at, byte in enumerate(change):
            shards[position][offset + at] ^= byte
        assert CODEC.verify(shards)


def test_what_is_certain_is_corrected_and_nothing_else():
    codec = pantile.Codec("rs:6+4")
    truth = codec.encode(bytes(range(250)) * 240)
    for lost in (None, 0):
        shards = [None if i == lost else bytearray(shard) for i, shard in enumerate(truth)]
        shards[3][500:530] = b"x" * 30
        findings = codec.locate(shards)
        assert codec.correct(shards, findings) == 30 and codec.correct(shards, findings) == 0
        assert all(shard is None or bytes(shard) == true for shard, true in zip(shards, truth))
    # Two parities cannot tell two columns from two others.
    few = [bytearray(shard) for shard in stripe()]
    few[0][7] ^= 1
    few[1][7] ^= 1
    wrong = [bytes(shard) for shard in few]
    assert CODEC.correct(few, CODEC.locate(few)) == 0 and [bytes(shard) for shard in few] == wrong


def test_new_shards_are_new_and_right_however_often():
    codec, data = pantile.Codec("rs:4+2"), bytes(range(256)) * 1024
    first = codec.encode(data)
    kept = [codec.encode(data[i:] + data[:i]) for i in range(8)]
    assert codec.encode(data) == first == kept[0] and all(codec.verify(shards) for shards in kept)
    assert len({id(shard) for shards in kept for shard in shards}) == 48


@pytest.mark.parametrize(
    ("make", "error", "sentence"),
    [
        (lambda: CODEC.encode("text"), TypeError, "the data is <class 'str'>, which has no buffer; give bytes"),
        (lambda: CODEC.encode(memoryview(b"abcdef")[::2]), ValueError, "the data is not contiguous in memory"),
        (lambda: CODEC.encode(numpy.zeros((4, 4))[:, 1]), ValueError, "the data is not contiguous"),
        (lambda: CODEC.encode_into(stripe(bytes)), ValueError, "the shard of column 4 is read-only"),
        (lambda: CODEC.verify(stripe()[:5]), ValueError, "the code has 6 columns, 5 shards were given"),
        (lambda: CODEC.verify([*stripe()[:5], b"abc"]), ValueError, "the shard of column 5 has 3 bytes where 50"),
        (lambda: CODEC.verify([*stripe()[:4], None, None]), ValueError, "no equation is left to check"),
        (lambda: CODEC.encode(bytes(200), out=stripe()[:5]), ValueError, "the code has 6 columns, 5 shards were given"),
        (lambda: CODEC.encode(bytes(204), out=stripe()), ValueError, "the shard of column 0 has 50 bytes where 51"),
        (lambda: CODEC.encode(bytes(200), out=stripe(bytes)), ValueError, "the shard of column 0 is read-only"),
        (lambda: CODEC.encode_into([*stripe()[:5], None]), ValueError, "the shard of column 5 is None"),
        (lambda: CODEC.reconstruct([None] * 6), ValueError, "no shard is there that says how long elements are"),
        (lambda: CODEC.reconstruct([None] * 3 + stripe()[3:]), pantile.NotRecoverable, "columns 0, 1 and 2"),
        (lambda: CODEC.reconstruct([None] + stripe()[1:], wanted=[9]), ValueError, "no column 9"),
        (lambda: CODEC.reconstruct(stripe(), into={0: bytearray(50)}), ValueError, "column 0, which is not made"),
        (lambda: CODEC.reconstruct([None] + stripe()[1:], into={0: bytes(50)}), ValueError, "is read-only"),
        (lambda: CODEC.reconstruct([None] + stripe()[1:], into={0: bytearray(5)}), ValueError, "has 5 bytes where 50"),
        (lambda: CODEC.join(stripe(), 201), ValueError, "the shards hold 200 bytes of data, 201 were asked for"),
        (lambda: CODEC.update(stripe(), 4, b"a"), ValueError, "the code has no data cell 4"),
        (lambda: CODEC.update(stripe(), 0, b"a" * 51), ValueError, "51 bytes from byte 0 on reach beyond a cell of 50"),
        (lambda: CODEC.update(stripe(), 0, b"a", offset=2**63), ValueError, "reach beyond a cell"),
        (lambda: CODEC.update([*stripe()[:4], None, None], 0, b"a"), ValueError, "the change reaches it"),
        (lambda: pantile.Codec("rs:4+"), pantile.CodeError, "rs:4+"),
        (lambda: pantile.Codec(3), TypeError, "<class 'int'> names no code; give a Code, or a spec such as"),
        (lambda: pantile.compare(["rs:4+2", b"rs:4+2"]), TypeError, "<class 'bytes'> names no code"),
        (lambda: pantile.plan("rs:4+2", lost=[-1]), TypeError, "-1 names no cells; give a column, or a cell as"),
        (lambda: pantile.plan("rs:4+2", lost=[(0, "a")]), TypeError, "(0, 'a') names no cells"),
        (lambda: pantile.Codec("dcode:9,raw"), pantile.CodeError, "is here to be studied"),
        (lambda: pantile.plan("rs:4+2", lost=[6]), ValueError, "no column 6"),
        (lambda: pantile.plan("rs:4+2", lost=[(1, 0)]), ValueError, "no cell in row 1 of column 0"),
        (lambda: pantile.plan("rs:4+2", lost=[0, 1, 2]), pantile.NotRecoverable, "columns 0, 1 and 2"),
        (lambda: pantile.plan("rs:4+2", lost=[0], costs={1: 10**7}), ValueError, "costs 10000000, more than the limit of"),
        (lambda: pantile.plan("rs:4+2", effort="much"), ValueError, "say 'fast' or 'thorough'"),
        (lambda: pantile.Code.from_text("nonsense"), pantile.CodeError, "pantile-code"),
        (lambda: pantile.Code.from_file("/nonexistent.code"), FileNotFoundError, "/nonexistent.code"),
        (lambda: pantile.Code.from_file("/tmp"), pantile.CodeError, "/tmp is not a file"),
        (lambda: pantile.verify("/nonexistent"), pantile.SealError, "/nonexistent"),
        (lambda: pantile.seal("/tmp", "/tmp/out", mode="half"), ValueError, "say 'full' or 'beside'"),
    ],
)
def test_bad_input_is_one_sentence(make, error, sentence):
    with pytest.raises(error) as raised:
        make()
    assert sentence in str(raised.value), raised.value
    assert "\n" not in str(raised.value), raised.value
    assert issubclass(pantile.CodeError, ValueError) and issubclass(pantile.NotRecoverable, pantile.Error)


def test_buffers_that_overlap_are_refused_where_one_is_written():
    memory = bytearray(300)
    views = [memoryview(memory)[50 * i : 50 * (i + 1)] for i in range(6)]
    CODEC.encode_into(views)
    with pytest.raises(ValueError, match="share memory"):
        CODEC.encode_into([*views[:5], memoryview(memory)[249:299]])
    with pytest.raises(ValueError, match="share memory"):
        CODEC.encode_into([views[4], *views[1:]])
    with pytest.raises(ValueError, match="share memory"):
        CODEC.update(views, 0, views[0])
    # Several that are read may be one.
    same = bytes(50)
    CODEC.encode_into([same] * 4 + [bytearray(50), bytearray(50)])


def test_a_buffer_in_use_by_another_thread_is_not_written():
    codec = pantile.Codec("rs:20+4")
    shards = [bytearray(8 << 20) for _ in range(24)]
    refused, begun = [], threading.Event()

    def encode():
        begun.set()
        try:
            codec.encode_into(shards)
        except pantile.BusyError as error:
            refused.append(error)

    # Two that write the same: whichever comes second while the first works is refused, and never
    # both.
    for _ in range(20):
        threads = [threading.Thread(target=encode) for _ in range(2)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        if refused:
            break
    assert refused and "wait for that call" in str(refused[0])
    assert codec.verify(shards)
    # Nothing stays borrowed, also after an error.
    codec.encode_into(shards)


def test_others_run_while_bytes_move():
    codec = pantile.Codec("rs:20+4")
    data = bytes(64 << 20)
    done, counted = threading.Event(), 0

    def encode():
        codec.encode(data)
        done.set()

    thread = threading.Thread(target=encode)
    thread.start()
    while not done.is_set():
        counted += 1
        done.wait(0)
    thread.join()
    assert counted > 10


def test_empty_data_is_a_stripe():
    shards = CODEC.encode(b"")
    assert [len(shard) for shard in shards] == [1] * 6 and CODEC.join(shards, 0) == b""
    empty = [bytearray() for _ in range(6)]
    CODEC.encode_into(empty)
    assert CODEC.verify(empty) and CODEC.locate(empty) == [] and CODEC.reconstruct([None, *empty[1:]])[0] == b""
    CODEC.update(empty, 0, b"")
