"""Cauchy Reed-Solomon in bits: coefficients over GF(2^w) become w by w matrices of 0 and 1, so that all is XOR.

Written from the papers (Bloemer et al. 1995; Plank and Xu 2006). What only Jerasure says is marked as such: which elements
stand for rows and columns, the polynomials, and which of equal choices is taken.
"""
from functools import lru_cache

from value import Code, CodeError

# Jerasure's: the defaults of gf-complete.
POLYNOMIAL = {2: 0b111, 3: 0b1011, 4: 0b10011, 5: 0b100101, 6: 0b1000011, 7: 0b10001001, 8: 0b100011101,
              **{w: sum(1 << power for power in (w, *powers)) for w, powers in (
                  (9, (4, 0)), (10, (3, 0)), (11, (2, 0)), (12, (6, 4, 1, 0)), (13, (4, 3, 1, 0)), (14, (10, 6, 1, 0)),
                  (15, (1, 0)), (16, (12, 3, 1, 0)), (17, (3, 0)), (18, (7, 0)), (19, (5, 2, 1, 0)), (20, (3, 0)), (21, (2, 0)),
                  (22, (1, 0)), (23, (5, 0)), (24, (7, 2, 1, 0)), (25, (3, 0)), (26, (6, 2, 1, 0)), (27, (5, 2, 1, 0)),
                  (28, (3, 0)), (29, (2, 0)), (30, (23, 2, 1, 0)), (31, (3, 0)), (32, (22, 2, 1, 0)))}}
# Jerasure's tables for two parities end there.
TABLES_TO = 11


# ---------------------------------------------------------------- GF(2^w)
@lru_cache(maxsize=None)
def mul(left, right, w):
    """Polynomials over bits, multiplied and then divided by the polynomial of the field."""
    total = 0
    for bit in range(w):
        if right >> bit & 1:
            total ^= left << bit
    for bit in range(2 * w - 2, w - 1, -1):
        if total >> bit & 1:
            total ^= POLYNOMIAL[w] << bit - w
    return total


@lru_cache(maxsize=None)
def inv(value, w):
    """The power 2^w - 2: all but one of the 2^w - 1 elements that are not 0."""
    product, square = 1, value
    for _ in range(1, w):
        square = mul(square, square, w)
        product = mul(product, square, w)
    return product


@lru_cache(maxsize=None)
def bits(value, w):
    """The w by w matrix of v -> value * v: entry [r][x] is bit r of value * 2^x."""
    return [[mul(value, 1 << x, w) >> r & 1 for x in range(w)] for r in range(w)]


@lru_cache(maxsize=None)
def ones(value, w):
    return sum(map(sum, bits(value, w)))


# ---------------------------------------------------------------- coefficients
def original_rows(k, m, w):
    """1/(x_i + y_j) with x_i = i and y_j = m + j (Jerasure's choice of the two sets): a Cauchy matrix."""
    return [[inv(i ^ (m + j), w) for j in range(k)] for i in range(m)]


def improved_rows(k, m, w):
    """Columns scaled until row 0 is ones; then each other row divided by one of its own elements, or by nothing, whichever
    leaves the fewest ones in the bits. Of equal choices the first: nothing, then from the left (Jerasure's order)."""
    first, *others = original_rows(k, m, w)
    rows = [[1] * k]
    for row in others:
        row = [mul(entry, inv(top, w), w) for entry, top in zip(row, first)]
        tried = [row] + [[mul(entry, inv(divisor, w), w) for entry in row] for divisor in row]
        counts = [sum(ones(entry, w) for entry in candidate) for candidate in tried]
        rows.append(tried[counts.index(min(counts))])
    return rows


def best_pair(k, w):
    """For two parities any k different elements below a row of ones will do: those with the fewest ones, then the smallest.

    Jerasure has these as tables; this order is theirs, number by number (`jerasure_chunks.py` compares)."""
    return [[1] * k, sorted(range(1, 1 << w), key=lambda value: (ones(value, w), value))[:k]]


def coefficients(k, m, w, original):
    if original:
        return original_rows(k, m, w)
    return best_pair(k, w) if m == 2 and w <= TABLES_TO else improved_rows(k, m, w)


# ---------------------------------------------------------------- the code
def crs(spec, k, m, w, original):
    """k + m columns of w rows."""
    if not 2 <= w <= 32:
        raise CodeError("crs takes words of 2 to 32 bits")
    if m * w > 128 or k + m > 257:
        raise CodeError("crs takes at most 128 parity rows and 257 columns")
    if k + m > (1 << w) + (1 if m == 2 and not original else 0):
        raise CodeError(f"crs: {k}+{m} columns are more than GF(2^{w}) has elements for")
    if k > 255 or m > 16:
        raise CodeError("crs takes at most 255 data and 16 parity columns")
    return xor_code(spec, [[bits(value, w) for value in row] for row in coefficients(k, m, w, original)])


def xor_code(spec, matrices):
    """Columns of w rows from a w by w matrix for each parity and each data column. Parity row r of column k + i is the XOR of
    the rows x of the columns j with bit [r][x] in matrices[i][j]."""
    m, k, w = len(matrices), len(matrices[0]), len(matrices[0][0])
    equations = []
    for i, row in enumerate(matrices):
        for r in range(w):
            equation = {(x, j): 1 for j, matrix in enumerate(row) for x in range(w) if matrix[r][x]}
            equation[r, k + i] = 1
            equations.append(equation)
    data = [(x, j) for j in range(k) for x in range(w)]
    return Code(spec, [w] * (k + m), data, [(r, k + i) for i in range(m) for r in range(w)], equations)
