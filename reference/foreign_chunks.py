"""Chunks by the systems themselves, and `pantile encode` and `pantile decode` held to them.

    python3 reference/foreign_chunks.py write [SYSTEM ..]  writes ../vectors/foreign/chunks.json
    python3 reference/foreign_chunks.py check PANTILE      both directions, with the program of that path

Both need what makes the chunks: `ceph-erasure-code-tool` (Debian: ceph-osd), libisal.so.2 (libisal2), libJerasure.so.2
(libjerasure2), Go (klauspost/reedsolomon is fetched), Java with Maven (Hadoop is fetched) and, for this Python, the packages
zfec and pyeclib. `check` leaves out what is not there and says so. `write` does not; where it is given systems, it writes their lines
alone and keeps the others.

`check`, for each case: pantile's chunks are the system's, byte for byte; the system decodes pantile's chunks, and pantile the
system's, with as many chunks missing as may be, in three choices. The system's chunks have no chunks.txt beside them.
"""
import ctypes
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from make_vectors import VECTORS, lines_of, write
from value import digest, pattern

HERE = Path(__file__).parent
HADOOP = "3.4.3"
POM = f"""<project><modelVersion>4.0.0</modelVersion>
<groupId>chunks</groupId><artifactId>chunks</artifactId><version>1</version><dependencies>
<dependency><groupId>org.apache.hadoop</groupId><artifactId>hadoop-client-api</artifactId><version>{HADOOP}</version></dependency>
<dependency><groupId>org.apache.hadoop</groupId><artifactId>hadoop-client-runtime</artifactId><version>{HADOOP}</version></dependency>
</dependencies></project>"""


class Missing(Exception):
    """What a system needs is not on this machine."""


def run(*command, cwd=None, env=None):
    done = subprocess.run([str(word) for word in command], cwd=cwd, env=env, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}: status {done.returncode}\n{done.stdout}{done.stderr}")


def need(program):
    if not shutil.which(program):
        raise Missing(f"there is no program {program}")


def written(folder, data):
    (folder / "f").write_bytes(data)
    return folder / "f"


def read_back(folder, count):
    return [(folder / f"f.{i}").read_bytes() for i in range(count)]


def lay_out(folder, chunks):
    for i, chunk in enumerate(chunks):
        if chunk is not None:
            (folder / f"f.{i}").write_bytes(chunk)


# -------------------------------- the systems: encode(folder, data), decode(folder, chunks, length)
class Ceph:
    """Stripe by stripe, as a pool does."""
    source = "ceph-erasure-code-tool 16.2.15 (Debian)"

    def __init__(self, work):
        need("ceph-erasure-code-tool")
        (work / "ceph.conf").write_text("[global]\nlog_to_stderr=false\nlog_file=/dev/null\n")
        self.env = {**os.environ, "CEPH_CONF": str(work / "ceph.conf")}

    def _profile(self, case):
        return ",".join(case.name.removeprefix("ceph:").split())

    def encode(self, folder, case, data):
        file = written(folder, data)
        columns = ",".join(map(str, range(case.columns)))
        run("ceph-erasure-code-tool", "encode", self._profile(case), case.chunk, columns, file, env=self.env)
        return read_back(folder, case.columns)

    def decode(self, folder, case, chunks, length):
        lay_out(folder, chunks)
        there = ",".join(str(i) for i, chunk in enumerate(chunks) if chunk is not None)
        run("ceph-erasure-code-tool", "decode", self._profile(case), case.chunk, there, folder / "f", env=self.env)
        return (folder / "f").read_bytes()[:length]


class Klauspost:
    """Split, Encode, Reconstruct and Join of the Go module."""
    source = "klauspost/reedsolomon, the version of benches/compare/go"

    def __init__(self, work):
        need("go")
        self.program = work / "klauspost" / "chunks"
        self.program.parent.mkdir()
        for file in ("go.mod", "go.sum"):
            shutil.copy(HERE.parent / "benches/compare/go" / file, self.program.parent)
        shutil.copy(HERE / "foreign/klauspost.go", self.program.parent / "main.go")
        run("go", "build", "-o", self.program, ".", cwd=self.program.parent)

    def _words(self, case):
        return case.k, case.columns - case.k, next((word for word in ("cauchy", "par1") if word in case.name), "default")

    def encode(self, folder, case, data):
        run(self.program, "encode", *self._words(case), written(folder, data))
        return read_back(folder, case.columns)

    def decode(self, folder, case, chunks, length):
        lay_out(folder, chunks)
        run(self.program, "decode", *self._words(case), folder / "f", length)
        return (folder / "f").read_bytes()


class Hadoop:
    """Hadoop's Java coders, and its lengths of blocks."""
    source = f"Hadoop {HADOOP}: raw coders of CodecUtil, lengths of StripedBlockUtil"

    def __init__(self, work):
        need("javac")
        need("mvn")
        self.folder = work / "hadoop"
        self.folder.mkdir()
        (self.folder / "pom.xml").write_text(POM)
        run("mvn", "-q", "-B", "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies", "-DoutputDirectory=lib", cwd=self.folder)
        run("javac", "-cp", "lib/*", "-d", ".", HERE / "foreign/HadoopChunks.java", cwd=self.folder)

    def _run(self, verb, case, *words):
        _, k, m, cell = case.name.removeprefix("hdfs:").rsplit("-", 3)
        codec = case.name.removeprefix("hdfs:").rsplit("-", 3)[0].lower()
        run("java", "-cp", f"{self.folder}:{self.folder}/lib/*", "HadoopChunks", verb, codec, k, m, int(cell[:-1]) * 1024, *words)

    def encode(self, folder, case, data):
        self._run("encode", case, written(folder, data))
        return read_back(folder, case.columns)

    def decode(self, folder, case, chunks, length):
        lay_out(folder, chunks)
        self._run("decode", case, folder / "f", length)
        return (folder / "f").read_bytes()


def pieces(data, k, multiple):
    """The data in k equal pieces, zeros behind."""
    piece = -(-len(data) // k)
    piece += -piece % multiple
    padded = data + bytes(k * piece - len(data))
    return [padded[j * piece:(j + 1) * piece] for j in range(k)]


def buffers(chunks, length):
    made = [ctypes.create_string_buffer(chunk or b"", length) for chunk in chunks]
    return made, (ctypes.c_void_p * len(made))(*map(ctypes.addressof, made))


class Isal:
    """gf_gen_*_matrix, ec_init_tables, ec_encode_data; gf_invert_matrix for what is lost."""
    source = "libisal2 2.30.0-5 (Debian)"

    def __init__(self, _work):
        try:
            self.library = ctypes.CDLL("libisal.so.2")
        except OSError as error:
            raise Missing(str(error)) from None

    def _matrix(self, case):
        matrix = (ctypes.c_ubyte * (case.columns * case.k))()
        make = self.library.gf_gen_cauchy1_matrix if "cauchy" in case.name else self.library.gf_gen_rs_matrix
        make(matrix, case.columns, case.k)
        return bytes(matrix)

    def _product(self, rows, k, chunks):
        length, count = len(chunks[0]), len(rows) // k
        tables = (ctypes.c_ubyte * (32 * k * count))()
        self.library.ec_init_tables(k, count, rows, tables)
        ours, pointers = buffers(chunks, length)
        made, targets = buffers([b""] * count, length)
        self.library.ec_encode_data(length, k, count, tables, pointers, targets)
        return [buffer.raw for buffer in made]

    def encode(self, _folder, case, data):
        chunks = pieces(data, case.k, 1)
        return chunks + self._product(self._matrix(case)[case.k * case.k:], case.k, chunks)

    def decode(self, _folder, case, chunks, length):
        k, matrix = case.k, self._matrix(case)
        there = [i for i, chunk in enumerate(chunks) if chunk is not None][:k]
        rows = b"".join(matrix[i * k:(i + 1) * k] for i in there)
        inverse = (ctypes.c_ubyte * (k * k))()
        if self.library.gf_invert_matrix(rows, inverse, k):
            raise SystemExit(f"{case.name}: libisal finds no inverse of rows {there}")
        return b"".join(self._product(bytes(inverse), k, [chunks[i] for i in there]))[:length]


class Zfec:
    """zfec.easyfec: pieces and shares in memory."""
    source = "zfec 1.6.0 (PyPI)"

    def __init__(self, _work):
        try:
            from zfec import easyfec
        except ImportError as error:
            raise Missing(str(error)) from None
        self.easyfec = easyfec

    def encode(self, _folder, case, data):
        return [bytes(share) for share in self.easyfec.Encoder(case.k, case.columns).encode(data)]

    def decode(self, _folder, case, chunks, length):
        there = [i for i, chunk in enumerate(chunks) if chunk is not None][:case.k]
        decoder = self.easyfec.Decoder(case.k, case.columns)
        return decoder.decode([chunks[i] for i in there], there, -length % case.k)


class Swift:
    """Segments of an object, each encoded by pyeclib; a fragment archive is the fragments of all segments."""
    source = "pyeclib 1.8.0 (PyPI), which brings liberasurecode 1.8.0"

    def __init__(self, _work):
        try:
            from pyeclib.ec_iface import ECDriver
        except ImportError as error:
            raise Missing(str(error)) from None
        self.driver = ECDriver

    def _driver(self, case):
        return self.driver(k=case.k, m=case.columns - case.k, ec_type=case.name.removeprefix("swift:").split()[0])

    def _segment(self, case):
        return next((int(word.split("=")[1]) for word in case.name.split() if word.startswith("ec_object")), 1 << 20)

    def encode(self, _folder, case, data):
        driver, segment = self._driver(case), self._segment(case)
        parts = [driver.encode(data[at:at + segment]) for at in range(0, len(data), segment)]
        return [b"".join(fragments) for fragments in zip(*parts)]

    def decode(self, _folder, case, chunks, length):
        driver, segment, data, at = self._driver(case), self._segment(case), b"", 0
        there = [chunk for chunk in chunks if chunk is not None]
        while len(data) < length:
            size = driver.get_segment_info(min(segment, length - len(data)), segment)["fragment_size"]
            data += driver.decode([chunk[at:at + size] for chunk in there])
            at += size
        return data


class Jerasure:
    """jerasure_matrix_encode and _decode; for bit matrices schedules, as jerasure_chunks.py has them."""
    source = "libjerasure2 2.0.0+2017.04.10.git.de1739cc84-2 (Debian), gf-complete 1.0.2"

    def __init__(self, _work):
        import jerasure_chunks
        try:
            self.chunks, self.library = jerasure_chunks, jerasure_chunks.loaded()
        except OSError as error:
            raise Missing(str(error)) from None
        for name in ("reed_sol_vandermonde_coding_matrix", "reed_sol_r6_coding_matrix"):
            getattr(self.library, name).restype = self.chunks.Ints

    def _shape(self, case):
        words = case.name.removeprefix("jerasure:").split()
        options = dict(word.split("=") for word in words[1:])
        return words[0], case.k, case.columns - case.k, int(options.get("w", 8)), int(options.get("packetsize", 0))

    def _matrix(self, technique, k, m, w):
        if technique == "reed_sol_van":
            return self.library.reed_sol_vandermonde_coding_matrix(k, m, w)
        return self.library.reed_sol_r6_coding_matrix(k, w)

    def encode(self, _folder, case, data):
        technique, k, m, w, packet = self._shape(case)
        chunks = pieces(data, k, w * packet or 8)
        length = len(chunks[0])
        ours, pointers = buffers(chunks, length)
        made, targets = buffers([b""] * m, length)
        if packet:
            schedule = self.library.jerasure_smart_bitmatrix_to_schedule(k, m, w, self.chunks.bit_matrix(self.library, technique, k, m, w))
            self.library.jerasure_schedule_encode(k, m, w, schedule, pointers, targets, length, packet)
        else:
            self.library.jerasure_matrix_encode(k, m, w, self._matrix(technique, k, m, w), pointers, targets, length)
        return chunks + [buffer.raw for buffer in made]

    def decode(self, _folder, case, chunks, length):
        technique, k, m, w, packet = self._shape(case)
        size = len(next(chunk for chunk in chunks if chunk is not None))
        made, pointers = buffers(chunks, size)
        ours, theirs = (ctypes.c_void_p * k)(*pointers[:k]), (ctypes.c_void_p * m)(*pointers[k:])
        lost = [i for i, chunk in enumerate(chunks) if chunk is None]
        erasures = (ctypes.c_int * (len(lost) + 1))(*lost, -1)
        if packet:
            matrix = self.chunks.bit_matrix(self.library, technique, k, m, w)
            failed = self.library.jerasure_schedule_decode_lazy(k, m, w, matrix, erasures, ours, theirs, size, packet, 1)
        else:
            failed = self.library.jerasure_matrix_decode(k, m, w, self._matrix(technique, k, m, w), 0, erasures, ours, theirs, size)
        if failed:
            raise SystemExit(f"{case.name}: jerasure cannot decode without {lost}")
        return b"".join(buffer.raw for buffer in made[:k])[:length]


# ---------------------------------------------------------------- the cases
class Case:
    """One profile, a length of chunks (None: pieces or cells), how many data columns and columns there are, how many may be lost."""

    def __init__(self, name, chunk, k, columns, tolerance, lengths):
        self.name, self.chunk, self.k, self.columns, self.tolerance, self.lengths = name, chunk, k, columns, tolerance, lengths
        self.system = name.split(":")[0]


def cases():
    for k, m in ((2, 1), (4, 2), (8, 3), (21, 4)):
        yield Case(f"ceph:plugin=isa k={k} m={m}", 4096, k, k + m, m, (1, 200003))
    for k, m in ((2, 1), (6, 4)):
        yield Case(f"ceph:plugin=isa k={k} m={m} technique=cauchy", 96, k, k + m, m, (10000,))
    for technique, k, m, chunk, more in (
            ("reed_sol_van", 6, 4, 4096, ""), ("reed_sol_van", 3, 2, 128, " jerasure-per-chunk-alignment=true"), ("reed_sol_r6_op", 5, 2, 32, ""),
            # Ceph does not look at the key here: 832 is no multiple of 128.
            ("reed_sol_r6_op", 5, 2, 832, " jerasure-per-chunk-alignment=true"),
            ("cauchy_good", 4, 3, 2048, " w=8 packetsize=64"), ("cauchy_good", 4, 2, 240, " w=5 packetsize=12"), ("cauchy_orig", 4, 3, 256, " w=4 packetsize=16"),
            ("liberation", 4, 2, 1792, " w=7 packetsize=64"), ("blaum_roth", 4, 2, 192, " w=6 packetsize=8"), ("liber8tion", 6, 2, 1024, " packetsize=32")):
        yield Case(f"ceph:plugin=jerasure technique={technique} k={k} m={m}{more}", chunk, k, k + m, m, (31, 50001))
    for k, m, c, technique in ((6, 4, 2, "single"), (6, 4, 3, "multiple"), (4, 3, 2, "multiple")):
        yield Case(f"ceph:plugin=shec k={k} m={m} c={c} technique={technique}", 4096, k, k + m, c, (100001,))
    for k, m, l in ((4, 2, 3), (8, 4, 6)):
        yield Case(f"ceph:plugin=lrc k={k} m={m} l={l}", 4096, k, k + m + (k + m) // l, m, (100001,))
    for policy, k, m in (("RS-3-2-1k", 3, 2), ("RS-6-3-1k", 6, 3), ("RS-10-4-4k", 10, 4), ("XOR-2-1-1k", 2, 1), ("RS-LEGACY-6-3-1k", 6, 3)):
        # A part of a cell; whole cells but not a stripe; whole stripes; a last stripe that ends
        # within its second cell.
        cell = int(policy.rsplit("-", 1)[1][:-1]) * 1024
        yield Case(f"hdfs:{policy}", None, k, k + m, m, (1, 2 * cell, 2 * k * cell, 3 * k * cell + cell + 77))
    for matrix in ("cauchy", "vand"):
        for k, m in ((4, 2), (10, 4)):
            yield Case(f"isal:{matrix} k={k} m={m}", None, k, k + m, m, (1, 100003))
    for words, k, m in (("reed_sol_van k=6 m=3", 6, 3), ("reed_sol_r6_op k=6 m=2", 6, 2), ("cauchy_good k=6 m=3 w=8 packetsize=64", 6, 3),
                        ("cauchy_orig k=6 m=3 w=4 packetsize=16", 6, 3), ("liberation k=5 m=2 w=7 packetsize=8", 5, 2),
                        ("blaum_roth k=5 m=2 w=6 packetsize=8", 5, 2), ("liber8tion k=5 m=2 packetsize=8", 5, 2)):
        yield Case(f"jerasure:{words}", None, k, k + m, m, (1, 100003))
    for k, columns in ((3, 10), (10, 14), (248, 256)):
        yield Case(f"zfec:k={k} m={columns}", None, k, columns, columns - k, (1, 100003))
    for kind in ("isa_l_rs_vand", "isa_l_rs_cauchy", "liberasurecode_rs_vand"):
        for k, m, more, lengths in ((4, 2, " ec_object_segment_size=4096", (1, 4096, 9193)), (10, 4, "", (3 << 20, 1100003))):
            yield Case(f"swift:{kind} k={k} m={m}{more}", None, k, k + m, m, lengths)
    for words, k, m in (("RS(4,2)", 4, 2), ("RS(10,4)", 10, 4), ("RS(17,3)", 17, 3), ("RS(10,4) cauchy", 10, 4), ("RS(10,3) par1", 10, 3)):
        yield Case(f"klauspost:{words}", None, k, k + m, m, (1, 1000, 100003))


SYSTEMS = {"ceph": Ceph, "hdfs": Hadoop, "isal": Isal, "jerasure": Jerasure, "klauspost": Klauspost, "zfec": Zfec, "swift": Swift}


def in_folder(work, act):
    with tempfile.TemporaryDirectory(dir=work) as folder:
        return act(Path(folder))


def write_vectors(work, named):
    """All cases, or those of the named systems beside the lines that are there."""
    path = VECTORS / "foreign" / "chunks.json"
    kept = {} if not named else {(line["as"], line["length"]): line for line in json.loads(path.read_text())["cases"]}
    made, systems = [], {name: kind(work) for name, kind in SYSTEMS.items() if not named or name in named}
    for case in cases():
        for length in case.lengths:
            if case.system not in systems:
                made.append(kept[case.name, length])
                continue
            chunks = in_folder(work, lambda folder: systems[case.system].encode(folder, case, pattern(length)))
            made.append({"as": case.name, "chunk": case.chunk, "length": length, "lost": case.tolerance, "bytes": [len(chunk) for chunk in chunks],
                         "sha256": [digest(chunk) for chunk in chunks]})
    head = {"data": "byte i = (i*2654435761 >> 13) & 255", "sources": {name: kind.source for name, kind in SYSTEMS.items()},
            "digest": "first 16 hex digits of sha256 of each chunk", "lost": "any so many chunks may be lost"}
    write(path, lines_of(head, "cases", made))
    print(f"chunks.json: {len(made)} cases")


def losses(case, chance):
    """The first, the last and some others."""
    every = range(case.columns)
    return [set(every[:case.tolerance]), set(every[-case.tolerance:]), set(chance.sample(every, case.tolerance))]


def check_case(pantile, work, system, case, length, chance):
    data = pattern(length)
    theirs = in_folder(work, lambda folder: system.encode(folder, case, data))
    options = ["--as", case.name, *([] if case.chunk is None else ["--chunk", str(case.chunk)])]

    def ours_of(folder):
        run(pantile, "encode", written(folder, data), *options, "--out", folder / "out")
        return [(folder / "out" / f"chunk.{i}").read_bytes() for i in range(case.columns)]

    ours = in_folder(work, ours_of)
    wrong = [i for i in range(case.columns) if ours[i] != theirs[i]]
    if wrong:
        raise SystemExit(f"{case.name}, {length} bytes: chunks {wrong} differ")
    for lost in losses(case, chance):
        left = [None if i in lost else chunk for i, chunk in enumerate(theirs)]

        def by_pantile(folder):
            (folder / "in").mkdir()
            for i, chunk in enumerate(left):
                if chunk is not None:
                    (folder / "in" / f"chunk.{i}").write_bytes(chunk)
            run(pantile, "decode", folder / "in", *options, "--length", length, "--out", folder / "data")
            return (folder / "data").read_bytes()

        for who, decode in (("pantile", by_pantile), (case.system, lambda folder: system.decode(folder, case, left, length))):
            if in_folder(work, decode) != data:
                raise SystemExit(f"{case.name}, {length} bytes: {who} decodes something else without {sorted(lost)}")


def check(work, pantile):
    systems, chance, held = {}, random.Random(1), {}
    for name, kind in SYSTEMS.items():
        try:
            systems[name] = kind(work)
        except Missing as missing:
            print(f"left out: {name}: {missing}")
    for case in cases():
        if case.system in systems:
            for length in case.lengths:
                check_case(pantile, work, systems[case.system], case, length, chance)
                held[case.system] = held.get(case.system, 0) + 1
    print("both directions:", ", ".join(f"{name} {count}" for name, count in held.items()), "cases")


def main():
    with tempfile.TemporaryDirectory() as work:
        match sys.argv[1:]:
            case ["write", *named]:
                write_vectors(Path(work), named)
            case ["check", pantile]:
                check(Path(work), Path(pantile).resolve())
            case _:
                print(__doc__)


if __name__ == "__main__":
    main()
