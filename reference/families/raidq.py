"""RAIDq: parity p is sum_i g_p^i d_i for three or four generators g_p, some of them in an extension field.

A column of a code over GF(2^16) or GF(2^24) has two or three rows: row t is the coefficient of T^t. Multiplying by an
extension element is then a small matrix over GF(2^8).
"""
import re
from functools import lru_cache
from itertools import combinations

import gf
from value import Code, CodeError

BYTES = gf.Extension((0,))
CUBE = gf.Extension((gf.A, 0, 0))  # Y^3 = a; a is no cube, so Y^3 + a has no root


def _square_field(b, c):
    """GF(2^8)[X] with X^2 = bX + c."""
    try:
        return gf.Extension((c, b))
    except ValueError:
        raise CodeError(f"X^2 + 0x{b:02x} X + 0x{c:02x} has a root: no field") from None


def generators(m, variant):
    """(field, [g_0, .., g_m-1]) of a variant: '' is the default, else the option as spelled."""
    a = gf.A
    if m == 3:
        if variant == "":
            return _bytes(1, a, gf.SQRT_A)
        if variant == "powers":
            return _bytes(1, a, gf.power(a, 2))
    if m == 4:
        if variant in ("", "x92"):
            return _with_x(gf.power(a, 3), 1)
        if variant == "x125":
            return _with_x(gf.power(a, 77), 1)
        if variant == "x164":
            return _with_x(0xFE, 0x72)
        if found := re.fullmatch(r"x=([0-9a-f]{2})\.([0-9a-f]{2})", variant):
            return _with_x(int(found[1], 16), int(found[2], 16))
        if variant == "powers":
            return _bytes(*(gf.power(a, i) for i in range(4)))
        if variant == "sqrt":
            return _bytes(1, a, gf.SQRT_A, gf.mul(a, gf.SQRT_A))
        if variant in ("cbrt", "cbrt=paper"):
            root = CUBE.element(0, 1 if variant == "cbrt" else gf.power(a, 85))
            return CUBE, [CUBE.one, CUBE.embed(a), root, CUBE.mul(root, root)]
        if variant == "sixth":
            y = CUBE.element(0, 1)
            sixth = CUBE.mul(CUBE.embed(gf.inv(gf.SQRT_A)), CUBE.mul(y, y))
            return CUBE, [CUBE.one, CUBE.embed(gf.SQRT_A), sixth, y]
    if found := re.fullmatch(r"b=0x([0-9a-f]{2})", variant):
        b = int(found[1], 16)
        if b:
            return _bytes(*(gf.power(b, i) for i in range(m)))
    raise CodeError(f"raidq with {m} parities has no variant '{variant}'")


def _bytes(*values):
    return BYTES, [BYTES.embed(value) for value in values]


def _with_x(b, c):
    field = _square_field(b, c)
    return field, [field.embed(v) for v in (1, gf.A, gf.SQRT_A)] + [field.element(0, 1)]


@lru_cache(maxsize=None)
def limit(m, variant, most=255):
    """(largest number of data columns with every minor nonzero, singular sets met one column later).

    Because column i is an i-th power, a singular set can be shifted until it contains data column 0. So it is enough to
    add data columns one by one and to ask whether the new one, column 0 and columns between make a singular minor.
    Each witness is (data columns, parities). All witnesses of the first failing column are returned, ascending by size;
    for equal parities only the first found.
    """
    field, gens = generators(m, variant)
    powers = [[field.one] * m]
    seen3 = {cols: {} for cols in combinations(range(m), 3)}  # ratio -> data column
    for new in range(1, most):
        powers.append([field.mul(p, g) for p, g in zip(powers[-1], gens)])
        entry, witnesses = powers[new], []
        for cols in combinations(range(m), 2):
            if entry[cols[0]] == entry[cols[1]]:
                witnesses.append(((0, new), cols))
        for cols in combinations(range(m), 3):
            # Rows (1,1,1), r, s are dependent when (r1-r0, r2-r0) and (s1-s0, s2-s0) are
            # proportional.
            ratio = _normalized(field, _differences(field, [entry[c] for c in cols]))
            if ratio in seen3[cols]:
                witnesses.append(((0, seen3[cols][ratio], new), cols))
            elif ratio is not None:
                seen3[cols][ratio] = new
        if m == 4:
            witnesses += _collinear(field, powers, new)
        if witnesses:
            return new, witnesses
    return most, []


def _differences(field, row):
    return [field.add(value, row[0]) for value in row[1:]]


def _normalized(field, vector):
    """The vector divided by its first nonzero entry; None for the zero vector."""
    lead = next((v for v in vector if v != field.zero), None)
    if lead is None:
        return None
    factor = field.inv(lead)
    return tuple(field.mul(v, factor) for v in vector)


def _collinear(field, powers, new):
    """Two older columns on one projective line with the new one make a singular 4 x 4 minor with column 0."""
    x, y, z = _differences(field, powers[new])
    lines = {}
    for old in range(1, new):
        u, v, w = _differences(field, powers[old])
        cross = [field.add(field.mul(y, w), field.mul(z, v)),
                 field.add(field.mul(z, u), field.mul(x, w)),
                 field.add(field.mul(x, v), field.mul(y, u))]
        line = _normalized(field, cross)
        if line in lines or line is None:
            return [((0, lines.get(line, old), old, new), (0, 1, 2, 3))]
        lines[line] = old
    return []


def raidq(spec, k, m, variant):
    if m not in (3, 4):
        raise CodeError("raidq has 3 or 4 parities")
    field, gens = generators(m, variant)
    if k > (most := limit(m, variant)[0]):
        raise CodeError(f"raidq with this variant takes at most {most} data columns")
    depth = field.degree
    data = [(row, column) for row in range(depth) for column in range(k)]
    parity = [(row, k + p) for p in range(m) for row in range(depth)]
    equations = []
    for p, generator in enumerate(gens):
        rows = [{(t, k + p): 1} for t in range(depth)]
        factor = field.one
        for column in range(k):
            for t, line in enumerate(field.matrix(factor)):
                rows[t].update({(s, column): c for s, c in enumerate(line) if c})
            factor = field.mul(factor, generator)
        equations += rows
    return Code(spec, [depth] * (k + m), data, parity, equations)
