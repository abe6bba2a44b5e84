"""Codes with parities that cover only part of the data: SHEC, LRC, the Xorbas LRC, and separate local groups."""
import gf
from families.matrix import extended_cauchy_rows, jerasure_rows
from value import Code, CodeError, one_row_code


def _kept(rows, covers):
    """The matrix with every entry outside the parity's cover set to zero."""
    return [[c if j in cover else 0 for j, c in enumerate(row)] for row, cover in zip(rows, covers)]


# ---------------------------------------------------------------- shingled
def shec_paper(spec, k, m, l):
    """Parity i covers l data columns from ceil(i k / m), cyclically."""
    if not (1 <= l <= k and 1 <= m <= k and k + m <= 256):
        raise CodeError("shec needs 1 <= l <= k, 1 <= m <= k and k + m <= 256")
    starts = [-(-i * k // m) for i in range(m)]
    covers = [{(start + t) % k for t in range(l)} for start in starts]
    return one_row_code(spec, k, _kept(jerasure_rows(k, m), covers))


def shingles(k, m, c):
    """Ceph's shingles of one group: [floor(i k / m), floor((i + c) k / m)) before reduction modulo k."""
    return [range(i * k // m, (i + c) * k // m) for i in range(m)]


def split_quality(k, groups):
    """Ceph's figure of merit of a split, as an exact integer: all widths, and for each data column its narrowest one.

    Ceph divides by k + m and asks for an improvement above 2.2e-16; the divisor is common, so integers decide alike.
    """
    narrowest, total = [10 ** 8] * k, 0
    for m, c in groups:
        for shingle in shingles(k, m, c) if m else []:
            total += len(shingle)
            for x in shingle:
                narrowest[x % k] = min(narrowest[x % k], len(shingle))
    return total + sum(narrowest)


def shec_split(k, m, c):
    """The two groups ((m1, c1), (m2, c2)) of technique `multiple`: the first of least quality figure."""
    best = None
    for c1 in range(c // 2 + 1):
        for m1 in range(m + 1):
            groups = (m1, c1), (m - m1, c - c1)
            if any(mm < cc or (mm == 0) != (cc == 0) for mm, cc in groups):
                continue
            quality = split_quality(k, groups)
            if best is None or quality < best[0]:
                best = quality, groups
    return best[1]


def shec_ceph(spec, k, m, c, single):
    if not (1 <= c <= m <= k <= 12 and k + m <= 20):
        raise CodeError("shec with c= needs 1 <= c <= m <= k <= 12 and k + m <= 20, as Ceph does")
    groups = ((m, c),) if single else shec_split(k, m, c)
    covers = [{x % k for x in shingle} for mm, cc in groups if mm for shingle in shingles(k, mm, cc)]
    return one_row_code(spec, k, _kept(jerasure_rows(k, m), covers))


# ---------------------------------------------------------------- local groups
def _groups(k, count):
    size = k // count
    return [range(q * size, (q + 1) * size) for q in range(count)]


def lrc_points(k, l):
    """The element alpha of every data column for two globals (alpha, alpha^2).

    Group q gets the coset a^q of the nonzero elements of GF(16), or of GF(4), inside GF(256). With 0 such a coset is
    closed under addition, and two of them share only 0: sums of pairs from different groups differ.
    """
    size = k // l
    for step, most_size, most_groups in ((17, 15, 17), (85, 3, 85)):
        if size <= most_size and l <= most_groups:
            return [gf.power(gf.A, q + step * e) for q in range(l) for e in range(size)]
    raise CodeError("lrc with g=2 needs groups of at most 15 and at most 17 groups, or of at most 3 and at most 85 groups")


def lrc(spec, k, l, g):
    if l < 1 or k % l or g > 5:
        raise CodeError("lrc needs k divisible by l >= 1, and at most 5 globals")
    rows = _kept([[1] * k] * l, _groups(k, l))
    if g == 1:
        if k // l > 255:
            raise CodeError("lrc with g=1 takes groups of at most 255")
        rows.append([1 + j % (k // l) for j in range(k)])
    elif g == 2:
        points = lrc_points(k, l)
        rows += [points, [gf.mul(p, p) for p in points]]
    elif g >= 3:
        if k > 251:
            raise CodeError("lrc with g>=3 takes at most 251 data columns")
        rows += extended_cauchy_rows(k, g + 1)[1:]
    return one_row_code(spec, k, rows)


def xorbas(spec, k, m, l):
    """Reed-Solomon by parity checks, plus one XOR parity per group of l data columns.

    Every check row 0 coefficient is 1, so the local parities and the RS parities sum to zero: a local parity of
    the RS parities is implied and need not be stored.
    """
    if l < 1 or k % l:
        raise CodeError("xorbas needs k divisible by l")
    groups = _groups(k, k // l)
    g = m - len(groups)
    if g < 2 or k + g > 255:
        raise CodeError("xorbas needs m - k/l >= 2 Reed-Solomon parities and at most 255 columns with the data")
    equations = [{(0, j): gf.power(gf.A, r * j) for j in range(k + g)} for r in range(g)]
    for i, group in enumerate(groups):
        equations.append({(0, j): 1 for j in (*group, k + g + i)})
    return Code(spec, [1] * (k + m), [(0, j) for j in range(k)], [(0, j) for j in range(k, k + m)], equations)


def slpg(spec, k, m, l):
    """Parity i covers group i mod G only."""
    if l < 1 or k % l or m < 1 or k + m > 256:
        raise CodeError("slpg needs k divisible by l and at most 256 columns")
    groups = _groups(k, k // l)
    return one_row_code(spec, k, _kept(jerasure_rows(k, m), [groups[i % len(groups)] for i in range(m)]))
