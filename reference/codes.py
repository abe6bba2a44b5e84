"""From the text form of a spec to its canonical form and to the code it names.

    spec = family ":" arg *("," arg)      arg = count | k "+" m | key | key "=" value

Lower case, no blanks, counts decimal without leading zeros. The canonical form has the counts first, then options in the
order given here, defaults omitted. Options of one family that exclude each other are spellings of one choice and are
printed as they were written: `b=0x02` and `powers` name the same code but stay two specs.
"""
import re
from functools import lru_cache

from families import arrays, bits, coupled, density, local, matrix, plain, raidp, raidq
from value import Code, CodeError  # noqa: F401  (both are part of this module's face)

COUNT = r"(0|[1-9][0-9]*)"


class Spec:
    """Family, counts, and the options that differ from the default, in canonical order."""

    def __init__(self, family, counts, joined, options, build):
        self.family, self.counts, self.options = family, counts, options
        self._joined, self._build = joined, build

    def __str__(self):
        counts = ("+" if self._joined else ",").join(str(count) for count in self.counts)
        return f"{self.family}:{','.join([counts, *self.options])}"

    def code(self):
        code = self._build(str(self))
        code.generator()
        return code


def parse(text):
    """The spec of the text, or CodeError. Limits that need the matrices are checked by `code()`."""
    found = re.fullmatch(r"([a-z0-9]+):([a-z0-9=+,.]+)", text)
    if not found or found[1] not in FAMILIES:
        raise CodeError(f"'{text}' does not start with a known family and ':'")
    family, args = found[1], found[2].split(",")
    counts, joined = [], False
    while args and (pair := re.fullmatch(COUNT + r"(?:\+" + COUNT + ")?", args[0])):
        if pair[2] is not None and counts or joined:
            raise CodeError("k+m must be the only counts")
        joined = pair[2] is not None
        counts += [int(number) for number in pair.groups() if number is not None]
        args.pop(0)
    for arg in args:
        if not re.fullmatch(r"[a-z][a-z0-9]*(=[a-z0-9.]+)?", arg):
            raise CodeError(f"'{arg}' is neither a count nor an option")
    if len(set(args)) != len(args):
        raise CodeError("an option is given twice")
    if not counts or max(counts) > 65535:
        raise CodeError("counts are missing or absurd")
    options, build = FAMILIES[family](tuple(counts), joined, args)
    return Spec(family, tuple(counts), joined, options, build)


@lru_cache(maxsize=None)
def code(text):
    """The code of a spec text. The same object for the same text: treat it as constant."""
    return parse(text).code()


# ---------------------------------------------------------------- one reader per family
def _need(condition, what):
    if not condition:
        raise CodeError(what)


def _counted(count, joined_wanted, constructor, zero_allowed=()):
    """A family with a fixed number of counts and no options."""
    def read(counts, joined, args):
        _need(len(counts) == count and joined == joined_wanted and not args, f"wrong arguments for {constructor.__name__}")
        _need(all(c or i in zero_allowed for i, c in enumerate(counts)), "counts start at 1")
        return [], lambda spec: constructor(spec, *counts)
    return read


def _one_choice(args, default, known):
    """At most one option out of a choice; the default's own name may be given and is dropped."""
    _need(len(args) <= 1, "these options exclude each other")
    _need(not args or known(args[0]), f"unknown option '{args[0] if args else ''}'")
    return [] if args == [default] else args


def _read_raidq(counts, joined, args):
    _need(len(counts) == 2 and joined and all(counts), "raidq takes k+m")
    options = _one_choice(args, "x92" if counts[1] == 4 else None, lambda option: raidq.generators(counts[1], option))
    variant = options[0] if options else ""
    return options, lambda spec: raidq.raidq(spec, *counts, variant)


def _read_rs(counts, joined, args):
    _need(len(counts) == 2 and joined and all(counts), "rs takes k+m")
    options = _one_choice(args, "cauchy1", lambda option: option in ("cauchy1", "vandermonde", "jerasure", "backblaze", "zfec", "par1", "bch"))
    return options, lambda spec: matrix.rs(spec, *counts, options[0] if options else "cauchy1")


def _read_crs(counts, joined, args):
    _need(len(counts) == 2 and joined and all(counts), "crs takes k+m")
    found = [re.fullmatch("w=" + COUNT, arg) for arg in args]
    words = [int(f[1]) for f in found if f]
    _need(len(words) <= 1, "w is given twice")
    original = _one_choice([arg for arg, f in zip(args, found) if not f], None, lambda option: option == "orig")
    w = words[0] if words else 8
    return [*([] if w == 8 else [f"w={w}"]), *original], lambda spec: bits.crs(spec, *counts, w, bool(original))


def _reader_with_word(family, words, constructor):
    """k and w; the least of the words that k data columns fit into is the default."""
    def read(counts, joined, args):
        _need(len(counts) == 1 and not joined and counts[0] > 0, f"{family} takes k and w")
        found = [re.fullmatch("w=" + COUNT, arg) for arg in args]
        _need(len(found) <= 1 and all(found), f"unknown option for {family}, or w is given twice")
        least = min((w for w in words if w >= counts[0]), default=None)
        _need(least is not None, f"{family}: no word has room for {counts[0]} data columns")
        w = int(found[0][1]) if found else least
        return [] if w == least else [f"w={w}"], lambda spec: constructor(spec, counts[0], w)
    return read


def _read_shec(counts, joined, args):
    _need(not joined and all(counts), "shec takes k,m,l or k,m,c=C")
    if len(counts) == 3:
        _need(not args, "shec with l takes no options")
        return [], lambda spec: local.shec_paper(spec, *counts)
    found = [re.fullmatch("c=" + COUNT, arg) for arg in args]
    levels = [int(f[1]) for f in found if f]
    _need(len(counts) == 2 and len(levels) == 1, "shec takes k,m,l or k,m,c=C")
    technique = _one_choice([arg for arg, f in zip(args, found) if not f], "multiple", lambda o: o in ("multiple", "single"))
    return [f"c={levels[0]}", *technique], lambda spec: local.shec_ceph(spec, *counts, levels[0], bool(technique))


def _reader_of_array(family):
    def read(counts, joined, args):
        _need(len(counts) == 1 and not joined, f"{family} takes the number of disks")
        _need(args == [] or (args == ["raw"] and family in ("dcode", "xcode")), f"unknown option for {family}")
        return args, lambda spec: arrays.array(spec, family, counts[0], raw=bool(args))
    return read


def _read_raidp(counts, joined, args):
    _need(len(counts) == 1 and not joined, "raidp takes the number of disks")
    _need(set(args) <= {"weighted", "stack=1", "stack=2"} and not {"stack=1", "stack=2"} <= set(args), "unknown option for raidp")
    stack = 2 if "stack=2" in args else 1
    weighted = "weighted" in args
    options = ["stack=2"] if stack == 2 else ["weighted"] if weighted else []
    return options, lambda spec: raidp.raidp(spec, counts[0], weighted, stack)


FAMILIES = {
    "raid0": _counted(1, False, plain.raid0),
    "mirror": _counted(1, False, plain.mirror),
    "raid5": _counted(1, False, plain.raid5),
    "raid6": _counted(1, False, plain.raid6),
    "raidq": _read_raidq,
    "cauchy": _counted(2, True, matrix.cauchy),
    "rs": _read_rs,
    "lch": _counted(2, True, matrix.lch),
    "crs": _read_crs,
    "shec": _read_shec,
    "lrc": _counted(3, False, local.lrc, zero_allowed=(2,)),
    "xorbas": _counted(3, False, local.xorbas),
    "slpg": _counted(3, False, local.slpg),
    "clay": _counted(3, False, coupled.clay),
    **{family: _reader_of_array(family) for family in arrays.CONSTRUCTIONS},
    "liberation": _reader_with_word("liberation", density.liberation_words(), density.liberation),
    "blaumroth": _reader_with_word("blaumroth", density.blaum_roth_words(), density.blaum_roth),
    "liber8tion": _counted(1, False, density.liber8tion),
    "raidp": _read_raidp,
}
