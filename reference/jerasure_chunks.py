"""Writes ../vectors/foreign/jerasure_bit_matrices.json: chunks that Jerasure 2 encodes by bit matrices; and some that Ceph does.

    apt-get install libjerasure2; python3 reference/jerasure_chunks.py
    apt-get install ceph-osd;     python3 reference/jerasure_chunks.py ceph       # ceph_bit_matrices.json

Each case is a call of the library alone: coefficients by `cauchy_good_general_coding_matrix` or
`cauchy_original_coding_matrix`, then `jerasure_matrix_to_bitmatrix`, `jerasure_smart_bitmatrix_to_schedule` and
`jerasure_schedule_encode`, which are the calls of Ceph's plugin jerasure for the techniques cauchy_good and cauchy_orig. All
sizes that exist within K_MOST and M_MOST, packets and groups of packets in turn.

Cases of Ceph are made by `ceph-erasure-code-tool encode`, one stripe each.

Before it writes, it compares the judge's coefficients (`families/bits.py`) with the library's for these sizes, and for two
parities the longest row of each word. `make_vectors.py foreign` computes the chunks anew without the library.
"""
import ctypes
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from families import bits
from make_vectors import VECTORS, lines_of, write
from value import digest, pattern

LIBRARY = "libJerasure.so.2"
SOURCE = "libjerasure2 2.0.0+2017.04.10.git.de1739cc84-2 (Debian), gf-complete 1.0.2"
CEPH = "ceph-erasure-code-tool 16.2.15 (Debian)"
DATA = "byte i = (i*2654435761 >> 13) & 255; k chunks one after another"
K_MOST, M_MOST = 20, 6
PACKETS, GROUPS = (8, 16, 40), (1, 2, 3, 2)  # Jerasure wants packets of whole longs.

Ints = ctypes.POINTER(ctypes.c_int)
Schedule = ctypes.POINTER(Ints)


def loaded():
    library = ctypes.CDLL(LIBRARY)
    three = [ctypes.c_int] * 3
    for name, result, arguments in (
            ("cauchy_good_general_coding_matrix", Ints, three), ("cauchy_original_coding_matrix", Ints, three),
            ("jerasure_matrix_to_bitmatrix", Ints, three + [Ints]), ("jerasure_smart_bitmatrix_to_schedule", Schedule, three + [Ints]),
            ("jerasure_schedule_encode", None, three + [Schedule, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int])):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def matrix(library, k, m, w, original):
    function = library.cauchy_original_coding_matrix if original else library.cauchy_good_general_coding_matrix
    return function(k, m, w)


def compare(library, k, m, w, original):
    ours = [value for row in bits.coefficients(k, m, w, original) for value in row]
    theirs = matrix(library, k, m, w, original)[:k * m]
    if ours != theirs:
        raise SystemExit(f"{k}+{m}, w={w}, original={original}: {ours} is not {theirs}")


def encoded(library, k, m, w, original, packet, chunk):
    """The parity chunks that the library computes from the pattern."""
    table = library.jerasure_matrix_to_bitmatrix(k, m, w, matrix(library, k, m, w, original))
    schedule = library.jerasure_smart_bitmatrix_to_schedule(k, m, w, table)
    user = pattern(k * chunk)
    data = [ctypes.create_string_buffer(user[j * chunk:(j + 1) * chunk], chunk) for j in range(k)]
    parity = [ctypes.create_string_buffer(chunk) for _ in range(m)]
    pointers = [(ctypes.c_void_p * len(buffers))(*map(ctypes.addressof, buffers)) for buffers in (data, parity)]
    library.jerasure_schedule_encode(k, m, w, schedule, *pointers, chunk, packet)
    return [buffer.raw for buffer in parity]


def sizes():
    for w in bits.POLYNOMIAL:
        for original in (False, True):
            for m in range(1, M_MOST + 1):
                for k in range(1, K_MOST + 1):
                    if k + m <= (1 << w) + (1 if m == 2 and not original else 0):
                        yield k, m, w, original


def case(k, m, w, original, packet, chunk, parity, plugin=""):
    technique = "cauchy_orig" if original else "cauchy_good"
    spec = f"crs:{k}+{m}" + ("" if w == 8 else f",w={w}") + (",orig" if original else "")
    return {"profile": f"{plugin}technique={technique},k={k},m={m},w={w},packetsize={packet}", "spec": spec, "packet": packet,
            "chunk": chunk, "sha256": [digest(column) for column in parity]}


def save(name, source, cases):
    head = {"data": DATA, "source": source, "digest": "first 16 hex digits of sha256 of each parity chunk"}
    write(VECTORS / "foreign" / name, lines_of(head, "cases", cases))
    print(f"{name}: {len(cases)} cases")


def of_jerasure():
    library = loaded()
    cases = []
    for number, (k, m, w, original) in enumerate(sizes()):
        compare(library, k, m, w, original)
        packet = PACKETS[number % len(PACKETS)]
        chunk = GROUPS[number % len(GROUPS)] * w * packet
        cases.append(case(k, m, w, original, packet, chunk, encoded(library, k, m, w, original, packet, chunk)))
    for w in bits.POLYNOMIAL:
        compare(library, (1 << w) - 1, 2, w, False)
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


def of_ceph():
    cases = []
    for k, m, w in ((2, 1, 8), (4, 2, 8), (6, 3, 8), (8, 3, 8), (8, 4, 8), (10, 4, 8), (12, 4, 8), (16, 2, 8), (16, 4, 8), (20, 4, 8), (20, 6, 8),
                    (7, 2, 3), (5, 3, 3), (10, 4, 4), (12, 4, 4), (15, 2, 4), (9, 3, 5), (7, 4, 6), (31, 2, 6), (8, 3, 7)):
        for original in (False, True):
            if k + m > (1 << w) and original:
                continue
            for packet in (8, 32):
                # Ceph fills chunks up to whole words of 16 bytes and groups of packets.
                made = case(k, m, w, original, packet, chunk := 32 * w * packet, [], "plugin=jerasure,")
                parity = encoded_by_ceph(made["profile"], k, m, chunk)
                cases.append({**made, "sha256": [digest(column) for column in parity]})
    save("ceph_bit_matrices.json", CEPH, cases)


if __name__ == "__main__":
    of_ceph() if sys.argv[1:] == ["ceph"] else of_jerasure()
