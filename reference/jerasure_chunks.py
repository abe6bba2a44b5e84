"""Writes ../vectors/foreign/jerasure_bit_matrices.json: chunks that Jerasure 2 encodes by bit matrices; and some that Ceph does.

    apt-get install libjerasure2; python3 reference/jerasure_chunks.py
    apt-get install ceph-osd;     python3 reference/jerasure_chunks.py ceph       # ceph_*.json but for ceph_w8.json

Each case is a call of the library alone: a bit matrix, by `cauchy_good_general_coding_matrix` or
`cauchy_original_coding_matrix` and then `jerasure_matrix_to_bitmatrix`, or by `liberation_coding_bitmatrix`,
`blaum_roth_coding_bitmatrix` or `liber8tion_coding_bitmatrix`; then `jerasure_smart_bitmatrix_to_schedule` and `jerasure_schedule_encode`. These are the calls
of Ceph's plugin jerasure for the techniques of these names. All sizes that exist within K_MOST and M_MOST, packets and groups
of packets in turn; RAID-6 codes of many rows with few and with many data columns.

Cases of Ceph are made by `ceph-erasure-code-tool encode`, one stripe each.

Before it writes, it compares the judge's coefficients (`families/bits.py`) and bit matrices (`families/density.py`) with the
library's for these sizes, and for two parities the longest row of each word. `make_vectors.py foreign` computes the chunks
anew without the library.
"""
import ctypes
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import codes
from families import bits, density
from make_vectors import VECTORS, lines_of, write
from value import digest, pattern

LIBRARY = "libJerasure.so.2"
SOURCE = "libjerasure2 2.0.0+2017.04.10.git.de1739cc84-2 (Debian), gf-complete 1.0.2"
CEPH = "ceph-erasure-code-tool 16.2.15 (Debian)"
DATA = "byte i = (i*2654435761 >> 13) & 255; k chunks one after another"
K_MOST, M_MOST = 20, 6
WORDS = range(2, 9)
PACKETS, GROUPS = (8, 16, 40), (1, 2, 3, 2)  # Jerasure wants packets of whole longs.
# RAID-6 codes: the judge's family, the words and the matrices X_j; and the words of which every k
# is taken, and more than one.
RAID6 = {"liberation": ("liberation", density.liberation_words(), density.liberation_matrices),
         "blaum_roth": ("blaumroth", sorted([*density.blaum_roth_words(), density.CEPHS_WORD]), density.blaum_roth_matrices),
         "liber8tion": ("liber8tion", [8], lambda k, w: density.liber8tion_matrices(k))}
EVERY_K_TO, SOME_K_TO = 17, 67

Ints = ctypes.POINTER(ctypes.c_int)
Schedule = ctypes.POINTER(Ints)


def loaded():
    library = ctypes.CDLL(LIBRARY)
    two, three = [ctypes.c_int] * 2, [ctypes.c_int] * 3
    for name, result, arguments in (
            ("cauchy_good_general_coding_matrix", Ints, three), ("cauchy_original_coding_matrix", Ints, three),
            ("liberation_coding_bitmatrix", Ints, two), ("blaum_roth_coding_bitmatrix", Ints, two), ("liber8tion_coding_bitmatrix", Ints, two[:1]),
            ("jerasure_matrix_to_bitmatrix", Ints, three + [Ints]), ("jerasure_smart_bitmatrix_to_schedule", Schedule, three + [Ints]),
            ("jerasure_schedule_encode", None, three + [Schedule, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int])):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def coefficients(library, technique, k, m, w):
    function = {"cauchy_good": library.cauchy_good_general_coding_matrix, "cauchy_orig": library.cauchy_original_coding_matrix}[technique]
    return function(k, m, w)


def bit_matrix(library, technique, k, m, w):
    """m w rows of k w bits, one after another."""
    if technique in RAID6:
        function = getattr(library, f"{technique}_coding_bitmatrix")
        return function(k) if technique == "liber8tion" else function(k, w)
    return library.jerasure_matrix_to_bitmatrix(k, m, w, coefficients(library, technique, k, m, w))


def compare(library, technique, k, m, w):
    if technique in RAID6:
        matrices = RAID6[technique][2](k, w)
        theirs = bit_matrix(library, technique, k, m, w)[:2 * k * w * w]
        ours = [bit for r in range(w) for _ in range(k) for bit in density.identity(w)[r]]
        ours += [bit for r in range(w) for matrix in matrices for bit in matrix[r]]
    else:
        ours = [value for row in bits.coefficients(k, m, w, technique == "cauchy_orig") for value in row]
        theirs = coefficients(library, technique, k, m, w)[:k * m]
    if ours != theirs:
        raise SystemExit(f"{technique}, {k}+{m}, w={w}: {ours} is not {theirs}")


def encoded(library, technique, k, m, w, packet, chunk):
    """The parity chunks that the library computes from the pattern."""
    schedule = library.jerasure_smart_bitmatrix_to_schedule(k, m, w, bit_matrix(library, technique, k, m, w))
    user = pattern(k * chunk)
    data = [ctypes.create_string_buffer(user[j * chunk:(j + 1) * chunk], chunk) for j in range(k)]
    parity = [ctypes.create_string_buffer(chunk) for _ in range(m)]
    pointers = [(ctypes.c_void_p * len(buffers))(*map(ctypes.addressof, buffers)) for buffers in (data, parity)]
    library.jerasure_schedule_encode(k, m, w, schedule, *pointers, chunk, packet)
    return [buffer.raw for buffer in parity]


def sizes():
    for w in WORDS:
        for technique in ("cauchy_good", "cauchy_orig"):
            for m in range(1, M_MOST + 1):
                for k in range(1, K_MOST + 1):
                    if k + m <= (1 << w) + (1 if m == 2 and technique == "cauchy_good" else 0):
                        yield technique, k, m, w
    for technique, (_, words, _) in RAID6.items():
        for w in words:
            yield from ((technique, k, 2, w) for k in (range(1, w + 1) if w <= EVERY_K_TO else (2, min(w, density.DATA_MOST)) if w <= SOME_K_TO else (3,)))


def case(technique, k, m, w, packet, chunk, parity, plugin=""):
    if technique in RAID6:
        spec = str(codes.parse(f"{RAID6[technique][0]}:{k}" + ("" if technique == "liber8tion" else f",w={w}")))
    else:
        spec = f"crs:{k}+{m}" + ("" if w == 8 else f",w={w}") + (",orig" if technique == "cauchy_orig" else "")
    return {"profile": f"{plugin}technique={technique},k={k},m={m},w={w},packetsize={packet}", "spec": spec, "packet": packet,
            "chunk": chunk, "sha256": [digest(column) for column in parity]}


def save(name, source, cases):
    head = {"data": DATA, "source": source, "digest": "first 16 hex digits of sha256 of each parity chunk"}
    write(VECTORS / "foreign" / name, lines_of(head, "cases", cases))
    print(f"{name}: {len(cases)} cases")


def of_jerasure():
    library = loaded()
    cases = []
    for number, size in enumerate(sizes()):
        compare(library, *size)
        packet = PACKETS[number % len(PACKETS)]
        chunk = GROUPS[number % len(GROUPS)] * size[-1] * packet
        cases.append(case(*size, packet, chunk, encoded(library, *size, packet, chunk)))
    for w in WORDS:
        compare(library, "cauchy_good", (1 << w) - 1, 2, w)
    save("jerasure_bit_matrices.json", SOURCE, cases)


# ---------------------------------------------------------------- Ceph
def encoded_by_ceph(profile, k, m, chunk):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        # Where the plugins lie, if not where Ceph looks for them.
        plugins = os.environ.get("CEPH_PLUGINS")
        (path / "conf").write_text("[global]\nlog_to_stderr=false\nlog_file=/dev/null\n" + (f"erasure_code_dir={plugins}\n" if plugins else ""))
        (path / "f").write_bytes(pattern(k * chunk))
        shards = ",".join(map(str, range(k + m)))
        subprocess.run(["ceph-erasure-code-tool", "encode", profile, str(chunk), shards, str(path / "f")], check=True,
                       env={**os.environ, "CEPH_CONF": str(path / "conf")}, stderr=subprocess.DEVNULL)
        files = [(path / f"f.{shard}").read_bytes() for shard in range(k + m)]
    assert b"".join(files[:k]) == pattern(k * chunk), profile
    return files[k:]


def sizes_of_ceph():
    for k, m, w in ((2, 1, 8), (4, 2, 8), (6, 3, 8), (8, 3, 8), (8, 4, 8), (10, 4, 8), (12, 4, 8), (16, 2, 8), (16, 4, 8), (20, 4, 8), (20, 6, 8),
                    (7, 2, 3), (5, 3, 3), (10, 4, 4), (12, 4, 4), (15, 2, 4), (9, 3, 5), (7, 4, 6), (31, 2, 6), (8, 3, 7)):
        yield "cauchy_good", k, m, w
        if k + m <= (1 << w):
            yield "cauchy_orig", k, m, w
    for k, w in [(k, w) for w in (3, 5, 7, 11) for k in range(2, w + 1)] + [(10, 13), (17, 17), (8, 31), (3, 67), (3, 257)]:
        yield "liberation", k, 2, w
    for k, w in [(k, w) for w in (4, 6, 7, 10) for k in range(2, w + 1)] + [(10, 12), (16, 16), (8, 30), (3, 66), (3, 256)]:
        yield "blaum_roth", k, 2, w
    yield from (("liber8tion", k, 2, 8) for k in range(2, 9))


def of_ceph():
    cases = []
    for technique, k, m, w in sizes_of_ceph():
        for packet in (8, 32):
            # Ceph fills chunks up to whole words of 16 bytes and groups of packets.
            made = case(technique, k, m, w, packet, chunk := (16 if technique in RAID6 else 32) * w * packet, [], "plugin=jerasure,")
            parity = encoded_by_ceph(made["profile"], k, m, chunk)
            cases.append({**made, "sha256": [digest(column) for column in parity]})
    save("ceph_bit_matrices.json", CEPH, cases)


def profiles_of_long_words():
    """Fields larger than GF(2^8), each profile with its parities and a chunk: bytes of products, and bit matrices of more than 8 rows."""
    for w in (16, 32):
        for k, m in ((2, 1), (3, 2), (4, 2), (6, 3), (8, 4), (10, 4), (20, 5)):
            if m * w <= 128:
                yield f"plugin=jerasure,technique=reed_sol_van,k={k},m={m},w={w}", k, m, 28 * w
        for k in (2, 4, 7, 12):
            yield f"plugin=jerasure,technique=reed_sol_r6_op,k={k},m=2,w={w}", k, 2, 28 * w
        for k, m, c in ((4, 3, 2), (5, 3, 2), (6, 4, 2), (6, 4, 3), (8, 4, 3), (10, 6, 3), (12, 8, 5), (4, 2, 2)):
            for technique in ("multiple", "single"):
                yield f"plugin=shec,technique={technique},k={k},m={m},c={c},w={w}", k, m, 28 * w
    for w in (9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32):
        for k, m in ((4, 2), (6, 3), (9, 4), (17, 2)):
            for technique in ("cauchy_good", "cauchy_orig"):
                if m * w <= 128:
                    yield f"plugin=jerasure,technique={technique},k={k},m={m},w={w},packetsize=8", k, m, 32 * w * 8


def profiles_of_clay():
    """Clay over other codes than jerasure's reed_sol_van."""
    for k, m, d in ((4, 2, 5), (3, 2, 4), (5, 2, 6), (2, 2, 3), (4, 2, 4), (3, 3, 5), (6, 3, 8), (4, 1, 4), (6, 4, 8)):
        q = d - k + 1
        chunk = 32 * q ** -(-(k + m) // q)
        for scalar, technique in (("isa", "reed_sol_van"), ("isa", "cauchy"), ("jerasure", "reed_sol_r6_op"), ("shec", "single"), ("shec", "multiple")):
            if m == 2 or scalar == "isa":
                yield f"plugin=clay,k={k},m={m},d={d},scalar_mds={scalar},technique={technique}", k, m, chunk


def of_profiles(name, profiles):
    cases = []
    for profile, k, m, chunk in profiles:
        parity = encoded_by_ceph(profile, k, m, chunk)
        cases.append({"profile": profile, "chunk": chunk, "sha256": [digest(column) for column in parity]})
    save(name, CEPH, cases)


if __name__ == "__main__":
    if sys.argv[1:] == ["ceph"]:
        of_ceph()
        of_profiles("ceph_long_words.json", profiles_of_long_words())
        of_profiles("ceph_clay.json", profiles_of_clay())
    else:
        of_jerasure()
