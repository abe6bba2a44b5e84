"""Exact counts about the codes: which losses they survive, how many columns or cells a repair reads, where RAIDq ends.

Everything is enumerated, nothing estimated. Sums are integers; who needs a mean divides.
"""
import json
from itertools import combinations
from math import comb

import codes
import gf
from families import raidq

MOST_SETS = 20000

TOLERANCE = ["raid6:4", "raidq:4+4", "shec:6,4,3", "shec:4,3,3", "shec:5,3,3", "shec:7,4,3", "shec:4,2,4", "shec:10,6,5", "slpg:6,4,3",
             "lrc:12,2,2", "xorbas:10,6,5", "lrc:6,2,2", "rs:6+3", "cauchy:6+4", "lch:6+4", "lch:6+3", "dcode:5", "dcode:6", "dcode:7", "dcode:8", "dcode:9",
             "dcode:9,raw", "xcode:9,raw", "rdp:6", "evenodd:7", "hcode:6", "hdp:6", "raidp:5", "raidp:5,weighted", "raidp:5,stack=2",
             "raidp:4,stack=2", "shec:6,4,c=3", "shec:6,4,c=3,single", "shec:6,4,c=2,single", "mirror:3", "raid5:4", "raid0:3"]

RAIDP_DISKS = [(n, option, lost) for n in (4, 5, 8, 12) for option in ("", ",weighted", ",stack=2") for lost in (1, 2, 3, 4, 5) if lost <= n]

RAIDQ_OPTIONS = [(3, ""), (3, "powers"), (4, ""), (4, "x125"), (4, "x164"), (4, "x=08.d8"), (4, "x=02.8e"), (4, "powers"), (4, "b=0xe8"),
                 (4, "b=0xfc"), (4, "sqrt"), (4, "cbrt"), (4, "cbrt=paper"), (4, "sixth")]

MEAN_READS = ["shec:4,2,4", "shec:4,3,3", "shec:6,4,3", "shec:5,3,3", "shec:7,4,3", "shec:10,6,5", "shec:6,4,c=3", "shec:6,4,c=3,single",
              "shec:6,4,c=2,single", "lrc:6,2,2", "lrc:12,2,2", "lrc:12,2,0", "xorbas:10,6,5", "slpg:6,4,3", "rs:6+3"]

# (family, disks of the construction for p) at p = 5, 7, 11, 13
REBUILD = [(family, p, p + more) for family, more in (("dcode", 0), ("xcode", 0), ("rdp", 1), ("evenodd", 2), ("hcode", 1), ("hdp", -1))
           for p in (5, 7, 11, 13)]


# ---------------------------------------------------------------- survivable sets
def tolerance(spec):
    """Counts for 1, 2, ... lost columns until nothing survives, and all fatal sets of the least fatal size."""
    code, counts, fatal = codes.code(spec), [], []
    for lost in range(1, code.columns + 1):
        total = comb(code.columns, lost)
        if total > MOST_SETS:
            break
        survived = sum(1 for _ in code.survivable(lost))
        counts.append({"lost": lost, "sets": total, "survived": survived})
        if survived < total and not fatal:
            fatal = code.fatal(lost)
        if survived == 0:
            break
    return {"spec": spec, "tolerance": counts, "fatal": fatal}


def tolerance_of_disks(n, option, lost):
    """The same over the disks of RAIDP only, all add-ons healthy."""
    survived = sum(1 for _ in codes.code(f"raidp:{n}{option}").survivable(lost, range(n)))
    return {"spec": f"raidp:{n}{option}", "lost": lost, "sets": comb(n, lost), "survived": survived}


# ---------------------------------------------------------------- RAIDq
def raidq_limit(m, option):
    most, witnesses = raidq.limit(m, option)
    failing = [{"data": data, "parities": parities} for data, parities in witnesses]
    return {"spec": f"raidq:k+{m}" + (f",{option}" if option else ""), "max_data": most, "first_failing": failing}


def raidq_limits_of_b(m):
    """Limit of b=0x01, b=0x02, ... b=0xff."""
    return [raidq.limit(m, f"b=0x{b:02x}")[0] for b in range(1, 256)]


# ---------------------------------------------------------------- reads of a repair, one-row codes
def unread_sets(vectors, size):
    """Sets of columns, as bit masks, that are all there is in the span of `size` independent check vectors.

    If the lost columns are independent modulo the span of the columns not read, they can be computed from the rest.
    The largest set that need not be read is always such a full set, of rank (checks - lost).
    """
    found = set()
    for chosen in combinations(range(len(vectors)), size):
        basis = gf.Basis().grown_by(vectors[c] for c in chosen)
        if basis is not None:
            found.add(sum(1 << c for c, vector in enumerate(vectors) if basis.spans(vector)))
    return found


def fewest_reads(code, losses):
    """(recoverable sets, sum over them of the fewest columns to read) over all sets of `losses` columns."""
    by_cell = code.check_vectors()
    vectors = [by_cell[0, column] for column in range(code.columns)]
    flats = sorted(unread_sets(vectors, len(code.parity) - losses), key=lambda mask: -mask.bit_count())
    recoverable = reads = 0
    for lost in combinations(range(code.columns), losses):
        mask = sum(1 << c for c in lost)
        for flat in flats:
            if flat & mask:
                continue
            members = [vectors[c] for c in range(code.columns) if flat >> c & 1]
            if gf.rank(members + [vectors[c] for c in lost]) == len(code.parity):
                recoverable += 1
                reads += code.columns - losses - flat.bit_count()
                break
    return recoverable, reads


def mean_reads(spec, losses):
    code = codes.code(spec)
    recoverable, reads = fewest_reads(code, losses)
    return {"spec": spec, "lost": losses, "sets": comb(code.columns, losses), "recoverable": recoverable, "reads": reads, "data": len(code.data)}


# ---------------------------------------------------------------- reads of a rebuild, array codes
def rebuild_reads(code, column, combined=False):
    """Fewest cells read to rebuild one column when each lost cell takes one equation of the code.

    With `combined` every sum of equations counts as an equation (only for few equations).
    """
    bit = {cell: 1 << i for i, cell in enumerate(code.cells)}
    equations = [sum(bit[cell] for cell in equation) for equation in code.equations]
    if combined:
        sums = [0]
        for equation in equations:
            sums += [total ^ equation for total in sums]
        equations = sums
    lost = sum(bit[cell] for cell in code.column_cells(column))
    ways = []
    for cell in code.column_cells(column):
        ways.append(_minimal({equation & ~lost for equation in equations if equation & lost == bit[cell]}))
    return _least_union(sorted(ways, key=len))


def _minimal(masks):
    kept = []
    for mask in sorted(masks, key=lambda m: (m.bit_count(), m)):
        if not any(other & mask == other for other in kept):
            kept.append(mask)
    return kept


def _least_union(ways):
    """Smallest number of bits in a union of one mask from each list; depth first, cut when already as large."""
    best = sum(min(mask.bit_count() for mask in way) for way in ways) + 1

    def descend(level, union):
        nonlocal best
        if union.bit_count() >= best:
            return
        if level == len(ways):
            best = union.bit_count()
            return
        if len(ways[level]) > 2 and any(all((union | m).bit_count() >= best for m in way) for way in ways[level:]):
            return  # Looking ahead pays only where there is much to choose.
        for mask in sorted(ways[level], key=lambda m: (union | m).bit_count()):
            descend(level + 1, union | mask)

    descend(0, 0)
    return best


def rebuild(family, p, disks):
    code = codes.code(f"{family}:{disks}")
    entry = {"spec": f"{family}:{disks}", "prime": p, "reads": [rebuild_reads(code, c) for c in range(disks)]}
    if family == "evenodd" and p <= 7:
        entry["reads_combined"] = [rebuild_reads(code, c, combined=True) for c in range(disks)]
    return entry


# ---------------------------------------------------------------- the file
def text():
    parts = {
        "tolerance": [tolerance(spec) for spec in TOLERANCE],
        "raidp_disks_only": [tolerance_of_disks(*entry) for entry in RAIDP_DISKS],
        "raidq_limits": [raidq_limit(m, option) for m, option in RAIDQ_OPTIONS],
        "raidq_limits_of_b": [{"parities": m, "max_data_of_b_from_1": raidq_limits_of_b(m)} for m in (3, 4)],
        "mean_reads": [mean_reads(spec, losses) for spec in MEAN_READS for losses in (1, 2)],
        "rebuild_reads": [rebuild(*entry) for entry in REBUILD],
    }
    lines = []
    for name, entries in parts.items():
        body = ",\n".join(json.dumps(entry, separators=(",", ":")) for entry in entries)
        lines.append(f'"{name}":[\n{body}\n]')
    return "{" + ",\n".join(lines) + "}\n"
