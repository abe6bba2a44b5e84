"""Writes everything in ../vectors.  Running it twice gives the same bytes.

    python3 make_vectors.py [part ...]      parts: codes specs shortening facts foreign hdfs seaweedfs custom, or one family of codes; default all
    python3 make_vectors.py --check [...]   writes nothing, and fails if a file is not what it would write

The foreign cases start from vectors/foreign/ceph_w8.json itself (profile, chunk, stripes, digests, which only Ceph can
give). This program computes each digest anew and stops at the first that differs. So it does with the chunks of
*_bit_matrices.json, which jerasure_chunks.py has from Jerasure and from Ceph.
"""
import json
import re
import sys
from pathlib import Path

import catalogue
import codes
import facts
import seaweedfs
from families import arrays
from families.custom import read_custom
from value import CodeError, digest, pattern

VECTORS = Path(__file__).resolve().parent.parent / "vectors"
ELEMENT_LEN = 32
MOST_EQUATION_TERMS = 20000


def compact(value):
    return json.dumps(value, separators=(",", ":"))


def lines_of(head, name, items):
    """A JSON object with a few head members and one list, one item a line."""
    opening = compact(head)[:-1] + ("," if head else "")
    return opening + f'"{name}":[\n' + ",\n".join(compact(item) for item in items) + "\n]}\n"


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())


def is_written(path, text):
    return path.is_file() and path.read_bytes() == text.encode()


# ---------------------------------------------------------------- codes
def described(code, key="spec"):
    """A code as its golden vector."""
    terms = [[[*cell, equation[cell]] for cell in sorted(equation, key=lambda cell: (cell[1], cell[0]))] for equation in code.equations]
    entry = {key: code.spec, "rows": code.rows, "data": code.data, "parity": code.parity,
             "generator": [row.hex() for row in code.generator()], "equations": terms,
             "element_len": ELEMENT_LEN, "chunks_sha256": code.chunk_digests(ELEMENT_LEN)}
    if sum(len(equation) for equation in terms) > MOST_EQUATION_TERMS:
        del entry["equations"]
    return entry


def family_text(family):
    entries = []
    for spec in catalogue.SPECS[family]:
        assert str(codes.parse(spec)) == spec, spec
        entries.append(described(codes.code(spec)))
    return lines_of({"family": family}, "codes", entries)


def codes_files():
    for family in catalogue.SPECS:
        yield VECTORS / "codes" / f"{family}.json", family_text(family)


def specs_text():
    for text, canonical in catalogue.SPELLINGS:
        assert str(codes.parse(text)) == canonical, text
    for text, _ in catalogue.REFUSED:
        try:
            codes.code(text)
        except CodeError:
            continue
        raise AssertionError(f"{text} was to be refused")
    return compact({"canonical": catalogue.SPELLINGS})[:-1] + ",\n" + lines_of({}, "refused", catalogue.REFUSED)[1:]


def specs_files():
    yield VECTORS / "specs.json", specs_text()


# ---------------------------------------------------------------- shortening
def shortened(family, disks):
    layout = arrays.layout_for(family, disks)
    counts = codes.code(f"{family}:{disks}").update_counts()
    return {"spec": f"{family}:{disks}", "prime": arrays.prime_for(family, disks), "dropped": layout.dropped,
            "promoted": layout.promoted, "update_total": sum(counts), "update_max": max(counts), "data": len(counts)}


def shortening_text():
    entries = [shortened(family, disks) for family, shape in arrays.CONSTRUCTIONS.items() if shape.promotes() for disks in range(4, 25)]
    return lines_of({}, "codes", [entry for entry in entries if entry["dropped"]])


def shortening_files():
    yield VECTORS / "shortening.json", shortening_text()


# ---------------------------------------------------------------- codecs of HDFS
def hdfs_specs():
    """Each code that a codec of integrations/hdfs may stand for: a block group has at most 16 blocks."""
    for k in range(1, 16):
        yield "xor", k, 1, f"raid5:{k}"
        for m in range(1, 17 - k):
            yield "rs", k, m, f"rs:{k}+{m}"
            yield "rs-legacy", k, m, f"rs:{k}+{m},bch"
            if m in (3, 4):
                yield "raidq", k, m, f"raidq:{k}+{m}" + ",powers" * (m == 4)


def hdfs_files():
    entries = [{"codec": codec, "k": k, "m": m, "generator": [row.hex() for row in codes.code(spec).generator()]}
               for codec, k, m, spec in hdfs_specs()]
    yield VECTORS / "hdfs.json", lines_of({}, "codecs", entries)


def seaweedfs_files():
    head = {"data": "byte i = (i*2654435761 >> 13) & 255", "digest": "first 16 hex digits of sha256 of each shard"}
    yield VECTORS / "foreign" / "seaweedfs.json", lines_of(head, "cases", list(seaweedfs.entries()))


# ---------------------------------------------------------------- Ceph
def spec_of_profile(profile):
    """The Pantile spec that must write the same chunks as a Ceph profile with w = 8."""
    p = dict(part.split("=", 1) for part in profile.split(","))
    k, m = int(p["k"]), int(p["m"])
    if p["plugin"] == "jerasure":
        return f"raid6:{k}" if p["technique"] == "reed_sol_r6_op" else f"rs:{k}+{m},jerasure"
    if p["plugin"] == "isa":
        return f"raid5:{k}" if m == 1 else f"rs:{k}+{m}" + ("" if p["technique"] == "cauchy" else ",vandermonde")
    if p["plugin"] == "shec":
        return f"shec:{k},{m},c={p['c']}" + (",single" if p["technique"] == "single" else "")
    if p["plugin"] == "clay":
        return f"clay:{k},{m},{p['d']}"
    if p["plugin"] == "lrc":
        return f"custom:ceph-lrc-{k}-{m}-{p['l']}.code"
    raise ValueError(profile)


def ceph_lrc_file(k, m, l):
    """The layered code of Ceph's lrc plugin, one column per shard, as a custom file.

    Each of (k+m)/l groups has its share of data, its share of the global parities, and one local parity over both. The
    global parities are jerasure's matrix over all data, in order of position.
    """
    from families.matrix import jerasure_rows
    groups = (k + m) // l
    data, globals_, locals_ = [], [], []
    for g in range(groups):
        start = g * (l + 1)
        data += range(start, start + k // groups)
        globals_ += range(start + k // groups, start + l)
        locals_.append(start + l)
    text = [f"# The chunks of Ceph's erasure-code plugin lrc with k={k} m={m} l={l}: columns are shards in Ceph's order.",
            "pantile-code 1", f"name ceph-lrc-{k}-{m}-{l}", f"columns {k + m + groups}", "rows 1"]
    for column, row in zip(globals_, jerasure_rows(k, m)):
        terms = [f"[0][{j}]" if c == 1 else f"0x{c:02x}*[0][{j}]" for c, j in zip(row, data)]
        text.append(f"[0][{column}] = " + " + ".join(terms))
    for column in locals_:
        text.append(f"[0][{column}] = " + " + ".join(f"[0][{j}]" for j in range(column - l, column)))
    return "\n".join(text) + "\n"


def custom_of_spec(spec):
    k, m, l = map(int, re.findall(r"\d+", spec))
    return read_custom(ceph_lrc_file(k, m, l), spec)


def shard_digests(code, chunk_len, stripes):
    """Digest of each column's file when the pattern fills the stripes one after another."""
    files = [b""] * code.columns
    element_len = chunk_len // code.rows[0]
    user = pattern(len(code.data) * element_len * stripes)
    elements = [user[i:i + element_len] for i in range(0, len(user), element_len)]
    for s in range(stripes):
        part = elements[s * len(code.data):(s + 1) * len(code.data)]
        files = [file + chunk for file, chunk in zip(files, code.chunks(part))]
    return [digest(file) for file in files]


def foreign_text(document):
    cases = []
    for case in document["cases"]:
        spec = spec_of_profile(case["profile"])
        code = custom_of_spec(spec) if spec.startswith("custom:") else codes.code(spec)
        if shard_digests(code, case["chunk"], case["stripes"]) != case["sha256"]:
            raise AssertionError(f"{case['profile']} is not {spec}")
        cases.append({"profile": case["profile"], "spec": spec, "chunk": case["chunk"], "stripes": case["stripes"], "sha256": case["sha256"]})
    return lines_of({key: document[key] for key in ("data", "source", "digest")}, "cases", cases)


def foreign_files():
    path = VECTORS / "foreign" / "ceph_w8.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    yield path, foreign_text(document)
    for spec in sorted({spec_of_profile(case["profile"]) for case in document["cases"]}):
        if spec.startswith("custom:"):
            yield path.parent / spec[len("custom:"):], ceph_lrc_file(*map(int, re.findall(r"\d+", spec)))
    for path in sorted((VECTORS / "foreign").glob("*_bit_matrices.json")):
        yield path, jerasure_text(json.loads(path.read_text(encoding="utf-8")))


# ---------------------------------------------------------------- Jerasure
def in_packets(elements, packet):
    """One column as a chunk: a packet of each element, then the next of each."""
    length = len(elements[0])
    return b"".join(element[start:start + packet] for start in range(0, length, packet) for element in elements)


def out_of_packets(chunk, rows, packet):
    """The elements of a column from its chunk."""
    return [b"".join(chunk[start:start + packet] for start in range(row * packet, len(chunk), rows * packet)) for row in range(rows)]


def parity_chunk_digests(code, packet, chunk):
    """Digest of each parity column in packets, the pattern being the chunks of the data columns."""
    rows, user = code.rows[0], pattern(len(code.data) // code.rows[0] * chunk)
    cells = code.encode([element for start in range(0, len(user), chunk) for element in out_of_packets(user[start:start + chunk], rows, packet)])
    return [digest(in_packets([cells[row, column] for row in range(rows)], packet)) for column in range(len(user) // chunk, code.columns)]


def jerasure_text(document):
    for case in document["cases"]:
        if parity_chunk_digests(codes.code(case["spec"]), case["packet"], case["chunk"]) != case["sha256"]:
            raise AssertionError(f"{case['profile']} is not {case['spec']}")
    return lines_of({key: document[key] for key in ("data", "source", "digest")}, "cases", document["cases"])


# ---------------------------------------------------------------- custom files
def custom_text():
    """The valid custom files, which are written by hand, described like any code; `file` in place of `spec`."""
    entries = []
    for path in sorted((VECTORS / "custom").glob("*.code")):
        entries.append(described(read_custom(path.read_text(encoding="utf-8"), path.name), key="file"))
    for path in sorted((VECTORS / "custom" / "bad").glob("*.code")):
        try:
            read_custom(path.read_text(encoding="utf-8"))
        except (CodeError, UnicodeDecodeError):
            continue
        raise AssertionError(f"{path.name} was to be refused")
    return lines_of({}, "codes", entries)


def custom_files():
    yield VECTORS / "custom" / "custom.json", custom_text()


def facts_files():
    yield VECTORS / "facts.json", facts.text()


# Each gives paths and what is to be in them.
PARTS = {"codes": codes_files, "specs": specs_files, "shortening": shortening_files, "facts": facts_files, "hdfs": hdfs_files,
         "seaweedfs": seaweedfs_files, "foreign": foreign_files, "custom": custom_files}
# A family alone: what whoever adds one runs.
FAMILIES = {family: lambda family=family: [(VECTORS / "codes" / f"{family}.json", family_text(family))] for family in catalogue.SPECS}



def main(arguments):
    checks = "--check" in arguments
    chosen = [argument for argument in arguments if argument != "--check"] or PARTS
    unknown = [part for part in chosen if part not in PARTS and part not in FAMILIES]
    if unknown:
        sys.exit(f"no such part or family: {', '.join(unknown)}; a new family is named in catalogue.SPECS first")
    others = []
    for path, text in (file for part in chosen for file in (PARTS | FAMILIES)[part]()):
        if not checks:
            write(path, text)
        elif not is_written(path, text):
            others.append(str(path.relative_to(VECTORS.parent)))
    if others:
        sys.exit("not what the judge makes today: " + ", ".join(others))


if __name__ == "__main__":
    main(sys.argv[1:])
