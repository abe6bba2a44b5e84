#!/usr/bin/env python3
"""Writes docs/speed.md and the small table of README.md from the committed records, or with --check says whether they are it.

The text between two marks in both is replaced, and ice-lake.md, zen4.md, zen3.md and sapphire-rapids.md are written from the records of other machines.
Nothing is left out: the cells in which another library is faster are named under the tables.
"""

import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
README = HERE.parent.parent / "README.md"
SPEED = HERE.parent.parent / "docs" / "speed.md"
BEGIN, END = "<!-- speed: begin (benches/compare/table.py) -->", "<!-- speed: end -->"
SIZES = {4096: "4 KiB", 65536: "64 KiB", 1 << 20: "1 MiB"}


def size_of(cell):
    return min(SIZES, key=lambda size: (size < cell["chunk_len_bytes"], size))


def pantile(cell):
    return cell["results"]["pantile"]["gb_per_s"]


def chosen(cell):
    """The same, by the faster code where two of ours were measured."""
    return max(r["gb_per_s"] for name, r in cell["results"].items() if is_ours(name))


def is_ours(name):
    return name.startswith("pantile")


def other_codes(cells):
    """Those of ours that were measured beside raid6 and cauchy, and for what."""
    measured = {name for c in cells for name in c["results"]}
    more = "lch or crs for three and four parities" if "pantile crs" in measured else "lch for four parities"
    if "pantile rdp" in measured:
        more = f"rdp for two parities, {more}"
    return f"{more}, in packets or in words," if "pantile words" in measured else more


def rival(cell):
    """The fastest other library of a cell: its figure and its name."""
    others = {name: r["gb_per_s"] for name, r in cell["results"].items() if not is_ours(name)}
    return max(((v, k) for k, v in others.items()), default=None)


def mds_table(cells, is_wanted):
    codes = list(dict.fromkeys((c["k"], c["m"]) for c in cells))
    lines = ["| chunk, layout | " + " | ".join(f"({k},{m})" for k, m in codes) + " |", "|---" * (len(codes) + 1) + "|"]
    for size, text in SIZES.items():
        for layout in ("aligned", "staggered"):
            row = []
            for code in codes:
                found = [c for c in cells if (c["k"], c["m"]) == code and size_of(c) == size and c["layout"] == layout and is_wanted(c)]
                (cell,) = found
                best = rival(cell)
                row.append(f"**{pantile(cell):.0f}** {best[0]:.0f} ({cell['limit_gb_per_s']:.0f})")
            lines.append(f"| {text}, {layout} | " + " | ".join(row) + " |")
    return lines


def lch_table(cells):
    """Cells in which lch was measured beside cauchy."""
    cells = [c for c in cells if "pantile lch" in c["results"]]
    codes = list(dict.fromkeys((c["k"], c["m"]) for c in cells))
    operations = (("encode", None), ("decode", "excluded"))
    lines = ["| chunk, layout | " + " | ".join(f"{op} ({k},{m})" for op, _ in operations for k, m in codes) + " |",
             "|---" * (len(operations) * len(codes) + 1) + "|"]
    for size, text in SIZES.items():
        for layout in ("aligned", "staggered"):
            row = []
            for op, planning in operations:
                for code in codes:
                    (c,) = [c for c in cells if (c["k"], c["m"]) == code and size_of(c) == size and c["layout"] == layout and c["op"] == op
                            and c["planning"] == planning and c["losses"] in ("", "spread")]
                    lch = c["results"]["pantile lch"]["gb_per_s"]
                    row.append(f"**{lch:.0f}** {pantile(c):.0f} {rival(c)[0]:.0f} ({c['limit_gb_per_s']:.0f})")
            lines.append(f"| {text}, {layout} | " + " | ".join(row) + " |")
    return lines


def packets_table(cells, names):
    """Cells in which codes of XORs alone were measured beside those of products, under these names."""
    cells = [c for c in cells if any(name in c["results"] for name in names)]
    codes = list(dict.fromkeys((c["k"], c["m"]) for c in cells))
    lines = ["| chunk, layout | operation | " + " | ".join(f"({k},{m})" for k, m in codes) + " |", "|---" * (2 + len(codes)) + "|"]
    for size, text in SIZES.items():
        for layout in ("aligned", "staggered"):
            for op, planning in (("encode", None), ("decode", "excluded"), ("decode", "included")):
                row = []
                for code in codes:
                    (c,) = [c for c in cells if (c["k"], c["m"]) == code and size_of(c) == size and c["layout"] == layout and c["op"] == op
                            and c["planning"] == planning and c["losses"] in ("", "spread")]
                    own = [c["results"].get(name, {}).get("gb_per_s") for name in names]
                    first, *others = (f"{x:.1f}" if x < 10 else f"{x:.0f}" for x in own if x is not None)
                    row.append(" ".join([f"**{first}**", *others, f"{pantile(c):.0f} {rival(c)[0]:.0f} ({c['limit_gb_per_s']:.0f})"]))
                what = f"{op}, plan {planning}" if planning else op
                lines.append(f"| {text}, {layout} | {what} | " + " | ".join(row) + " |")
    return lines


def array_table(cells):
    lines = ["| code, 64 KiB | op | aligned (limit) | staggered (limit) | fastest of Jerasure's there |", "|---|---|---|---|---|"]
    rows = (("encode", "encode", None), ("decode", "decode", "excluded"), ("decode, planning included", "decode", "included"))
    for code in dict.fromkeys(c["code"] for c in cells):
        for name, op, planning in rows:
            of = {c["layout"]: c for c in cells if c["code"] == code and size_of(c) == 65536 and c["op"] == op and c["planning"] == planning
                  and c["losses"] in ("", "spread")}
            own = [f"{pantile(of[x]):.1f} ({of[x]['limit_gb_per_s']:.0f})" for x in ("aligned", "staggered")]
            best = rival(of["staggered"])
            lines.append(f"| {code} | {name} | {own[0]} | {own[1]} | {f'{best[0]:.1f}' if best else 'has no such call'} |")
    return lines


def wanted(cell):
    """What we set out to reach in a cell of a (k,m) code: the smaller of a factor over the fastest other library and 0.9 of the limit; None if nothing was."""
    size = size_of(cell)
    if cell["planning"] == "included":
        factor = 1.3 if size >= 65536 else None
    elif size == 1 << 20:
        factor = 1.15
    elif cell["m"] == 2:
        factor = 1.0
    else:
        factor = 1.3 if "isa-l newest" in cell["results"] else 1.4
    best = rival(cell)
    if factor is None or best is None:
        return None
    return min(factor * best[0], 0.9 * cell["limit_gb_per_s"])


def figures(cells):
    """How many cells of (k,m) codes reach what is wanted, by raid6 or cauchy and by the fastest code of ours, of how many, and of all cells those in which another library is faster."""
    reached, reached_by_choice, counted, lost = 0, 0, 0, []
    for c in cells:
        best = rival(c)
        if best is None:
            continue
        if pantile(c) < best[0]:
            losses = f" {c['losses']}" if c["losses"] else ""
            planning = ", planning included" if c["planning"] == "included" else ""
            where = f"{c['code']} {c['op']}{losses}{planning}, {SIZES[size_of(c)]} {c['layout']}"
            lost.append(f"{where}: {pantile(c) / best[0]:.2f} of {best[1]}")
        want = wanted(c) if c["section"] == "mds" else None
        if want is not None:
            counted += 1
            reached += pantile(c) >= want
            reached_by_choice += chosen(c) >= want
    return reached, reached_by_choice, counted, lost


def named(name, m):
    """A code of ours by its name in the record."""
    ours = {"pantile": "raid6" if m == 2 else "cauchy", "pantile crs": "crs w=8", "pantile words": "crs w=4 in words"}
    return ours.get(name, name.removeprefix("pantile "))


def one_for_each_shape(cells):
    """For each (k,m) the one code of ours that reaches what is wanted in most of its cells, and in how many."""
    counts = {}
    for c in cells:
        want = wanted(c)
        for name, result in c["results"].items():
            if want is not None and is_ours(name):
                of_shape = counts.setdefault((c["k"], c["m"]), {})
                of_shape[name] = of_shape.get(name, 0) + (result["gb_per_s"] >= want)
    best = {shape: max(of_shape.items(), key=lambda item: item[1]) for shape, of_shape in counts.items()}
    return {shape: (named(name, shape[1]), count) for shape, (name, count) in best.items()}


def by_shape(cells):
    """The same as a sentence."""
    of_shape = one_for_each_shape(cells)
    names = ", ".join(f"{name} ({k},{m}) {count}" for (k, m), (name, count) in of_shape.items())
    total = sum(count for _, count in of_shape.values())
    return f" With one code for each shape in all its cells it is {total} (by shape: {names})."


def percentages(cells, spread):
    """The median of a spread, and its 90th percentile."""
    spreads = sorted(r[spread] for c in cells for r in c["results"].values())
    return f"{100 * spreads[len(spreads) // 2]:.0f} %, 90th percentile {100 * spreads[9 * len(spreads) // 10]:.0f} %"


def text(name, link):
    record = json.loads((HERE / name).read_text())
    cells = record["cells"]
    of = {section: [c for c in cells if c["section"] == section] for section in ("mds", "array", "tower")}
    machine = record["machine"]
    repeats = record["repeats"]
    isal = ", ".join(name for name in record["peers"] if name.startswith("isa-l"))
    spread = percentages(cells, "spread")
    runs = record.get("runs", 1)
    between = f"; between {runs} processes, of which each figure is the median: {percentages(cells, 'between_runs')}" if runs > 1 else ""
    reached, reached_by_choice, counted, lost = figures(cells)
    has_lch = any("pantile lch" in c["results"] for c in cells)
    has_crs = any("pantile crs" in c["results"] for c in cells)
    has_words = any("pantile words" in c["results"] for c in cells)
    has_rdp = any("pantile rdp" in c["results"] for c in cells)
    factors = "1.3 for m = 3, 4 against the newest isa-l" if "isa-l newest" in record["peers"] else "1.4 for m = 3, 4"
    lines = [
        f"One core of {machine['cpu']} (family {machine['family']}, model {machine['model']}; {', '.join(machine['caches'])}), shared with",
        f"other work; kernel {record['tier']}; GB/s of user data, thread CPU time, medians of {repeats} interleaved turns (spread: median",
        f"{spread}{between}). Each cell: **Pantile**, the fastest other library, (the limit: an XOR kernel that reads and",
        f"writes the same bytes). Others: {isal}, klauspost/reedsolomon (one goroutine; above k = 10 it falls back to AVX2), rusty_erasure,",
        f"Jerasure. m = 2 is raid6:k, the others cauchy:k+m. `benches/compare/run` measures, [{name}]({link}{name}) keeps every cell.",
        "",
        "Encode:",
        "",
        *mds_table(of["mds"], lambda c: c["op"] == "encode"),
        "",
        "Decode of m lost data columns, planning excluded:",
        "",
        *mds_table(of["mds"], lambda c: (c["losses"], c["planning"]) == ("spread", "excluded")),
        "",
        "The same with planning included, for a pattern never seen before:",
        "",
        *mds_table(of["mds"], lambda c: (c["losses"], c["planning"]) == ("spread", "included")),
        "",
        *(
            [
                "Four parities by lch:k+4, which an additive FFT computes. Each cell: **lch**, cauchy, the fastest other library, (the limit); decode is of four spread data columns:",
                "",
                *lch_table(of["mds"]),
                "",
            ]
            if has_lch
            else []
        ),
        *(
            [
                "Three and four parities by crs:k+m, bit matrices in packets of 64 bytes. Each cell: **w=4** (for up to 16 columns) or w=5, w=8, cauchy, the fastest other library, (the limit of cauchy); decode is of m spread data columns:",
                "",
                *packets_table(of["mds"], ["pantile crs w=4", "pantile crs w=5", "pantile crs"]),
                "",
            ]
            if has_crs
            else []
        ),
        *(
            [
                "Two parities by rdp:k+2, in packets of 64 bytes. Each cell: **rdp**, raid6, the fastest other library, (the limit of raid6); decode is of the first and the last data column:",
                "",
                *packets_table(of["mds"], ["pantile rdp"]),
                "",
            ]
            if has_rdp
            else []
        ),
        *(
            [
                "Codes over GF(2^4), crs:k+m,w=4 with two words to a byte (`Codec::in_words`): bytes that stand for themselves, as those of the products beside them. Each cell: **words**, raid6 or cauchy, the fastest other library, (the limit); decode is of m spread data columns:",
                "",
                *packets_table(of["mds"], ["pantile words"]),
                "",
            ]
            if has_words
            else []
        ),
        "Array codes, two columns lost:",
        "",
        *array_table(of["array"]),
        "",
        "Tower codes (GF(2^16), GF(2^24)), four columns lost:",
        "",
        *array_table(of["tower"]),
        "",
        f"{f'By raid6 and cauchy {reached} of {counted} cells of (k,m) codes' if has_lch else f'Of {counted} cells of (k,m) codes {reached}'} reach the smaller of two goals:",
        "our factor over the fastest other library, and 0.9 of the limit.",
        f"The factors: 1.0 for m = 2, {factors}, 1.15 at 1 MiB, 1.3 with planning included from 64 KiB on."
        + (f"{by_shape(of['mds'])} With a choice of {other_codes(cells)} in each cell it is {reached_by_choice}." if has_lch else "")
        + " Another library is",
        f"faster in {len(lost)} cells{' than raid6 or cauchy' if has_lch else ''}{':' if lost else '.'}",
        *([""] if lost else []),
        *[f"- {line}" for line in lost],
    ]
    return "\n".join(line.rstrip() for line in lines)


def held_to_avx2(name, link):
    """What Pantile reaches of the fastest other library, cells of one length, layout and operation together."""
    record = json.loads((HERE / name).read_text())
    cells = [c for c in record["cells"] if c["section"] == "mds" and c["planning"] != "included" and rival(c)]
    ratios, reached, reached_by_choice, counted = {}, 0, 0, 0
    for c in cells:
        best = rival(c)[0]
        ratios.setdefault((c["op"], size_of(c), c["layout"]), []).append(pantile(c) / best)
        counted += 1
        wanted = min(1.1 * best, 0.9 * c["limit_gb_per_s"])
        reached += pantile(c) >= wanted
        reached_by_choice += chosen(c) >= wanted
    has_lch = any("pantile lch" in c["results"] for c in cells)
    lines = [
        f"All libraries held to AVX2 (kernel {record['tier']}, `benches/compare/run --avx2`, [{name}]({link}{name})): Pantile as a multiple of the fastest other",
        f"library, least, median and most of all codes and losses, planning excluded. Of {counted} cells {reached} reach the smaller of 1.1 and 0.9 of the limit."
        + (f" With {other_codes(cells)} where it is faster: {reached_by_choice}." if has_lch else ""),
        "",
        "| chunk, layout | encode | decode |",
        "|---|---|---|",
    ]
    for size, length in SIZES.items():
        for layout in ("aligned", "staggered"):
            row = []
            for op in ("encode", "decode"):
                some = sorted(ratios[op, size, layout])
                row.append(f"{some[0]:.2f}, **{some[len(some) // 2]:.2f}**, {some[-1]:.2f}")
            lines.append(f"| {length}, {layout} | " + " | ".join(row) + " |")
    return "\n".join(lines)


def wide(name, link):
    """Codes of many parities, from a record of its own."""
    record = json.loads((HERE / name).read_text())
    cells = [c for c in record["cells"] if c["section"] == "wide"]
    operations = (("encode", "", None), ("decode", "first", "excluded"), ("decode", "first", "cached"), ("decode", "mixed", "cached"), ("decode", "few", "excluded"))
    lines = [
        f"Codes of many parities (kernel {record['tier']}, `benches/compare/run --only wide`, [{name}]({link}{name})). Each cell: **lch:k+m**, rs:k+m of Pantile, the fastest other",
        "library, (the limit). Others: isa-l (up to 255 columns), klauspost/reedsolomon by matrices and by FFT (\"leopard\"; decoding with a plan that it keeps, or makes again). Lost are",
        "as many of the first data columns as there are parities, m spread over all columns, or four of data.",
        "",
        "| chunk, layout | operation | " + " | ".join(f"({k},{m})" for k, m in dict.fromkeys((c["k"], c["m"]) for c in cells)) + " |",
        "|---" * (2 + len({(c["k"], c["m"]) for c in cells})) + "|",
    ]
    for size, length in list(SIZES.items())[:2]:
        for layout in ("aligned", "staggered"):
            for op, losses, planning in operations:
                row = []
                for c in cells:
                    if (size_of(c), c["layout"], c["op"], c["losses"], c["planning"]) == (size, layout, op, losses, planning):
                        best = rival(c)
                        other = f"{best[0]:.1f}" if best else "none"
                        row.append(f"**{pantile(c):.1f}** {c['results']['pantile rs']['gb_per_s']:.1f} {other} ({c['limit_gb_per_s']:.0f})")
                what = f"{op} {losses}, plan {planning}" if losses else op
                lines.append(f"| {length}, {layout} | {what} | " + " | ".join(row) + " |")
    return "\n".join(lines)


def in_packets(name, link):
    """Array codes whose elements are interleaved, from a record of its own."""
    record = json.loads((HERE / name).read_text())
    cells = [c for c in record["cells"] if c["section"] == "array" and c["planning"] in (None, "excluded") and c["losses"] in ("", "first")]
    columns = list(dict.fromkeys((c["code"], c["op"]) for c in cells))
    lines = [
        f"Array codes with interleaved elements (kernel {record['tier']}, `benches/compare/run --only array`, [{name}]({link}{name}), medians of {record.get('runs', 1)} processes; two columns lost). Each cell:",
        "**packets of 512 bytes**, packets of 128, elements in one piece, (the limit of as many whole columns, that of the elements in one piece):",
        "",
        "| chunk, layout | " + " | ".join(f"{code} {op}" for code, op in columns) + " |",
        "|---" * (1 + len(columns)) + "|",
    ]
    for size, length in SIZES.items():
        for layout in ("aligned", "staggered"):
            row = []
            for code, op in columns:
                (c,) = [c for c in cells if (c["code"], c["op"], c["layout"], size_of(c)) == (code, op, layout, size)]
                own = [c["results"].get(f"pantile packets {bytes}", {}).get("gb_per_s") for bytes in (512, 128)]
                first, second = ("none" if x is None else f"{x:.0f}" for x in own)
                row.append(f"**{first}** {second} {pantile(c):.0f} ({c['column_limit_gb_per_s']:.0f}, {c['limit_gb_per_s']:.0f})")
            lines.append(f"| {length}, {layout} | " + " | ".join(row) + " |")
    return "\n".join(lines)


ICE_LAKE = """# The same on Ice Lake

Made by `benches/compare/table.py`. Each figure is the median over several processes (`--runs`). A
neighbour had up to half of the core for minutes at a time, and the third-level cache is slow (28
GB/s of plain reads, 160 from the second). Codes of 16 and more columns of 64 KiB exceed the second one, and
run at 22 or at 40 from one process to the next. Single runs reached 339 to 347 of the 352 cells.
The host differs from day to day: earlier records of the same kernels, as medians of five processes,
reached 343 and 349 for raid6 and cauchy; this one, of three, reaches 351.

"""

ZEN_4 = """# The same on Zen 4

Made by `benches/compare/table.py`. Each figure is the median over several processes (`--runs`), because a cell of any library can differ by half from one to the next. Single
runs reached 332 to 347 of the 352 cells.

"""

ZEN_3 = """# The same on Zen 3

Made by `benches/compare/table.py`. Neither GFNI nor AVX-512: all libraries run AVX2. Each figure is the median over several processes (`--runs`). The host was busy most of the time, and its memory more than its
cores, so processes differ. The cells of (k,m) and of array codes are of later days than the others, on machines of the same kind. In them first stripes after a loss run three sums at a time
([xor-programs.md](../../docs/notes/xor-programs.md#bundles)), and systems are written out over all that they read ([NOTES.md](../../crates/kernel/NOTES.md#zen-3)). Those of (k,m) also have codes over GF(2^4) in words. Before these 165 and 313 of the 352 cells below were reached, and another library
was faster in 34.

"""

SAPPHIRE_RAPIDS = """# The same on Sapphire Rapids

Made by `benches/compare/table.py`. The record is of commit 7fa41de; words (crs with w = 4 in words), which it has beside the others, were taken out since. The figures of all libraries held to AVX2 are
older than that: array codes ran as tables instead of code made at run time, and calls on 4 KiB took some 10 ns longer.

"""


def small_table():
    """One line for each machine: our one code for each shape (raid6, cauchy) beside the fastest other library of each cell."""
    lines = [
        "| processor | cells | median | slowest | fastest | cells in which another library is faster |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name, page, record in (
        ("Sapphire Rapids (AVX-512, GFNI)", "benches/compare/sapphire-rapids.md", "record-sapphire-rapids.json"),
        ("Zen 5 (AVX-512, GFNI)", "docs/speed.md", "record-zen5.json"),
        ("Zen 4 (AVX-512, GFNI)", "benches/compare/zen4.md", "record-zen4.json"),
        ("Ice Lake (AVX-512, GFNI)", "benches/compare/ice-lake.md", "record-ice-lake.json"),
        ("Zen 3 (AVX2)", "benches/compare/zen3.md", "record-zen3.json"),
    ):
        cells = [c for c in json.loads((HERE / record).read_text())["cells"] if c["section"] == "mds" and rival(c)]
        ratios = sorted(pantile(c) / rival(c)[0] for c in cells)
        lines.append(
            f"| [{name}]({page}) | {len(ratios)} | {ratios[len(ratios) // 2]:.2f} | {ratios[0]:.2f} | {ratios[-1]:.2f} | {sum(r < 1 for r in ratios)} |"
        )
    return "\n".join(lines)


def between_marks(path, text):
    """The file with this between its marks."""
    before, rest = path.read_text().split(BEGIN)
    return f"{before}{BEGIN}\n{text}\n{END}{rest.split(END)[1]}"


def main():
    if "--help" in sys.argv[1:]:
        sys.exit(print(__doc__.strip()))
    if not set(sys.argv[1:]) <= {"--check"}:
        sys.exit("table.py takes --check, --help or nothing, which writes the tables")
    here = "../benches/compare/"
    summary = (
        "Other machines: [Sapphire Rapids](../benches/compare/sapphire-rapids.md), [Ice Lake](../benches/compare/ice-lake.md), [Zen 4](../benches/compare/zen4.md) and\n"
        "[Zen 3](../benches/compare/zen3.md), which has AVX2 alone."
    )
    speed = f"{text('record-zen5.json', here)}\n\n{held_to_avx2('record-zen5-avx2.json', here)}\n\n{summary}"
    ice_lake = f"{text('record-ice-lake.json', '')}\n\n{held_to_avx2('record-ice-lake-avx2.json', '')}"
    ice_lake += f"\n\n{in_packets('record-ice-lake-array.json', '')}\n\n{in_packets('record-ice-lake-array-avx2.json', '')}"
    ice_lake += f"\n\n{wide('record-ice-lake-wide.json', '')}\n\n{wide('record-ice-lake-wide-avx2.json', '')}"
    zen_4 = f"{text('record-zen4.json', '')}\n\n{held_to_avx2('record-zen4-avx2.json', '')}"
    zen_3 = f"{text('record-zen3.json', '')}\n\n{held_to_avx2('record-zen3.json', '')}"
    zen_3 += f"\n\n{in_packets('record-zen3.json', '')}\n\n{wide('record-zen3.json', '')}"
    older = f"{text('record-sapphire-rapids.json', '')}\n\n{held_to_avx2('record-sapphire-rapids-avx2.json', '')}"
    made = {
        README: between_marks(README, small_table()),
        SPEED: between_marks(SPEED, speed),
        HERE / "ice-lake.md": f"{ICE_LAKE}{ice_lake}\n",
        HERE / "zen4.md": f"{ZEN_4}{zen_4}\n",
        HERE / "zen3.md": f"{ZEN_3}{zen_3}\n",
        HERE / "sapphire-rapids.md": f"{SAPPHIRE_RAPIDS}{older}\n",
    }
    for path, new in made.items():
        if "--check" not in sys.argv[1:]:
            path.write_text(new)
        elif not path.exists() or path.read_text() != new:
            sys.exit(f"{path.name} is not what benches/compare/table.py makes of its record; run it")


main()
