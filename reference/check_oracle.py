"""Compares this reference with an independent oracle:   python3 check_oracle.py ORACLE_DIR

ORACLE_DIR holds expected.json, ceph_ec_vectors.json and the programs array_codes, raidq_check, shec_check, ceph_ec_ref.
Each check prints what it compared; the first difference stops the run.
"""
import importlib
import json
import sys
from math import comb
from pathlib import Path

import catalogue
import codes
import facts
import make_vectors
from families import arrays, local, matrix, raidq

sys.dont_write_bytecode = True  # The oracle's folder may be read-only.


def same(what, ours, theirs):
    if ours != theirs:
        sys.exit(f"DIFFERENT: {what}\n  reference {str(ours)[:400]}\n  oracle    {str(theirs)[:400]}")


def chains_as_text(chains):
    return [[list(parity), sorted(map(list, members))] for parity, members in chains]


def check_chains(expected, oracle):
    count = 0
    for family, shape in arrays.CONSTRUCTIONS.items():
        for p in (5, 7, 11, 13, 17):
            disks = p + shape.disks_more
            code, layout = codes.code(f"{family}:{disks}"), arrays.layout_for(family, disks)
            theirs = oracle.CODES[family](p)
            same(f"{family} p={p} chains", chains_as_text(layout.chains), chains_as_text(theirs.chains))
            same(f"{family} p={p} order", code.data, theirs.order)
            same(f"{family} p={p} parity order", code.parity, [parity for parity, _ in theirs.chains])
            if p <= 7:
                golden = expected["chains"][f"{family}/{p}"]
                same(f"{family} p={p} golden chains", chains_as_text(layout.chains), golden["chains"])
                same(f"{family} p={p} golden order", [list(cell) for cell in code.data], golden["order"])
                same(f"{family} p={p} golden shape", (code.rows, code.columns), ([golden["rows"]] * golden["disks"], golden["disks"]))
            count += 1
    for n in (9, 15):
        theirs = {(parity, members) for parity, members in oracle.dcode_eq(n).chains}
        ours = {(parity, frozenset(members)) for parity, members in arrays.dcode_chains(n)}
        same(f"dcode:{n},raw by closed equations", ours, theirs)
        same(f"dcode:{n},raw fatal pairs", codes.code(f"dcode:{n},raw").fatal(2), oracle.dcode_eq(n).verify())
    print(f"chains and user order: {count} constructions equal (p = 5, 7 also with expected.json), dcode raw 9 and 15")


def check_recovery(expected):
    for family, p, disks in facts.REBUILD:
        same(f"{family} p={p} rebuild", facts.rebuild(family, p, disks)["reads"], expected["recovery"][f"{family}/{p}"])
    print(f"rebuild reads: {len(facts.REBUILD)} constructions equal")


def check_raidq(oracle):
    def least(by_columns):
        return min((bad[-1] for bad in by_columns.values() if bad), default=None)

    same("powers", raidq.limit(4, "powers")[0], least(oracle.limit_bytes((0, 1, 2, 3), 40)))
    same("sqrt", raidq.limit(4, "sqrt")[0], least(oracle.limit_bytes((0, 1, 128, 129), 40)))
    same("[1,a,a^1/2]", raidq.limit(3, "")[1], [bad for bad in oracle.limit_bytes((0, 1, 128), 255).values() if bad])
    for g in range(1, 255):
        same(f"b=a^{g}", raidq.limit(4, f"b=0x{oracle.EXP[g]:02x}")[0], oracle.plank4_limit(g))
    cube = oracle.Tower((2, 0, 0))
    for option, factor in (("cbrt", 1), ("cbrt=paper", oracle.EXP[85])):
        root = cube.mul(cube.emb(factor), cube.T)
        found = oracle.tower_limits(cube, [cube.one, cube.emb(2), root, cube.mul(root, root)], 70)
        same(option, raidq.limit(4, option)[0], least(found))
        for data, parities in raidq.limit(4, option)[1]:
            same(f"{option} witness", data, found[parities])
    for option, b, c, most in (("", oracle.EXP[3], 1, 92), ("x125", oracle.EXP[77], 1, 125), ("x164", 0xFE, 0x72, 164)):
        field = oracle.Tower((c, b))
        gens = [field.one, field.emb(2), field.emb(oracle.EXP[128]), field.T]
        found = oracle.tower_limits(field, gens, most + 1)
        same(option or "x92", raidq.limit(4, option)[0], least(found))
    print("raidq: limits of powers, sqrt, cbrt (2), x92, x125, x164 and of 254 values of b equal")


def check_shec(oracle):
    for size in ((4, 2, 4), (4, 3, 3), (6, 4, 3), (5, 3, 3), (7, 4, 3)):
        spec, theirs = "shec:" + ",".join(map(str, size)), oracle.Shec(*size)
        for lost in (1, 2, 3, 4):
            bad = comb(sum(size[:2]), lost) - sum(1 for _ in codes.code(spec).survivable(lost))
            same(f"{spec} fatal sets of {lost}", bad, theirs.stats(lost)[1])
        for lost in (1, 2):
            ours = facts.mean_reads(spec, lost)
            same(f"{spec} mean reads, {lost} lost", round(ours["reads"] / ours["recoverable"] / ours["data"], 9), round(theirs.stats(lost)[2], 9))
    print("shec: fatal counts of 1..4 and mean reads of 1, 2 losses equal for 5 parameter sets")


def check_ceph(oracle, document):
    count = 0
    for k in range(1, 25):
        for m in range(1, 9):
            same(f"jerasure {k}+{m}", matrix.jerasure_rows(k, m), oracle.rsv(k, m))
            same(f"cauchy1 {k}+{m}", matrix.cauchy1_rows(k, m), oracle.isa_cauchy(k, m))
            same(f"vandermonde {k}+{m}", matrix.vandermonde_rows(k, m), oracle.isa_rsv(k, m))
            count += 3
    for k in range(2, 13):
        for m in range(1, min(k, 20 - k) + 1):
            for c in range(1, m + 1):
                same(f"shec split {k},{m},{c}", local.shec_split(k, m, c), oracle.shec_groups(k, m, c))
                for technique in ("multiple", "single"):
                    spec = f"shec:{k},{m},c={c}" + (",single" if technique == "single" else "")
                    rows = [list(row) for row in codes.code(spec).generator()]
                    same(spec, rows, oracle.shec(k, m, c, 8, technique))
                    count += 1
    print(f"ceph: {count} matrices equal")
    wanted = [case for case in document["cases"] if "w=16" not in case["profile"] and "w=32" not in case["profile"]]
    text = make_vectors.foreign_text({**document, "cases": wanted})
    same("vectors/foreign/ceph_w8.json", (make_vectors.VECTORS / "foreign" / "ceph_w8.json").read_text(encoding="utf-8"), text)
    print(f"ceph: {len(wanted)} digests recomputed and equal, of {len(document['cases'])} cases in the oracle")


def check_cauchy(oracle):
    same("extended Cauchy", matrix.extended_cauchy_rows(251, 6), oracle.cauchy_rows())
    print("cauchy: 6 x 251 entries equal")


def main(folder):
    folder = Path(folder)
    sys.path.append(str(folder))
    expected = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    document = json.loads((folder / "ceph_ec_vectors.json").read_text(encoding="utf-8"))
    raidq_check = importlib.import_module("raidq_check")
    check_chains(expected, importlib.import_module("array_codes"))
    check_recovery(expected)
    check_raidq(raidq_check)
    check_cauchy(raidq_check)
    check_shec(importlib.import_module("shec_check"))
    check_ceph(importlib.import_module("ceph_ec_ref"), document)
    print(f"all equal; the catalogue has {sum(map(len, catalogue.SPECS.values()))} specs")


if __name__ == "__main__":
    main(sys.argv[1])
