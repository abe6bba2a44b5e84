"""Codes with one row per column whose parity coefficients are a k by m matrix."""
from functools import lru_cache
from itertools import combinations

import gf
from value import CodeError, one_row_code


# ---------------------------------------------------------------- extended Cauchy
def extended_cauchy_rows(k, m):
    """Row 0 ones, row 1 a^i, rows 2.. the Cauchy entries 1/(a^-i + a^j), j = 1.., divided by their first entry.

    The x_i = a^-i (251 of them) and y_j in {0, a^1 .. a^4} are 256 different elements; that is the whole proof.
    """
    rows = [[1] * k, [gf.power(gf.A, i) for i in range(k)]]
    for j in range(1, m - 1):
        raw = [gf.inv(gf.power(gf.A, -i) ^ gf.power(gf.A, j)) for i in range(k)]
        rows.append([gf.mul(gf.inv(raw[0]), entry) for entry in raw])
    return rows[:m]


def cauchy(spec, k, m):
    if m > 6 or k > 251:
        raise CodeError("cauchy takes at most 6 parities and 251 data columns")
    return one_row_code(spec, k, extended_cauchy_rows(k, m))


# ---------------------------------------------------------------- rs, five matrices
def cauchy1_rows(k, m):
    """Row r is 1/((k+r) xor j): rows and columns are labelled with different bytes."""
    return [[gf.inv((k + r) ^ j) for j in range(k)] for r in range(m)]


def vandermonde_rows(k, m):
    """Row r holds the powers of 2^r, with exponents 0..k-1."""
    return [[gf.power(gf.A, r * j) for j in range(k)] for r in range(m)]


@lru_cache(maxsize=None)
def vandermonde_is_mds(k, m):
    """True if every square minor is nonzero.

    Column j is the j-th power of column 1 entry by entry, so a minor may be shifted until it starts at column 0;
    growing the last column finds the first singular one.
    """
    columns = list(zip(*vandermonde_rows(k, m)))
    for last in range(1, k):
        for size in range(2, min(m, last + 1) + 1):
            for between in combinations(range(1, last), size - 2):
                for parities in combinations(range(m), size):
                    minor = [[columns[j][r] for r in parities] for j in (0, *between, last)]
                    if gf.determinant_is_zero(minor):
                        return False
    return True


def jerasure_rows(k, m):
    """The matrix that jerasure calls reed_sol_van.

    Start from the (k+m) x k matrix of powers of 0, 1, 2, ... whose first row is (1,0,..,0) and whose last is (0,..,0,1).
    Column operations make the upper k x k part the identity; then scale columns until the first parity row is all
    ones, and rows until the first parity column is.
    """
    height = k + m
    table = [[gf.power(i, j) for j in range(k)] for i in range(height)]
    table[0] = [1] + [0] * (k - 1)
    table[-1] = [0] * (k - 1) + [1]
    columns = [bytes(row[j] for row in table) for j in range(k)]
    for i in range(1, k):
        swap = next(r for r in range(i, height) if columns[i][r])
        if swap != i:
            columns = [_swapped(column, i, swap) for column in columns]
        columns[i] = gf.scale(gf.inv(columns[i][i]), columns[i])
        columns = [c if j == i else gf.add_scaled(c, c[i], columns[i]) for j, c in enumerate(columns)]
    columns = [gf.scale(gf.inv(column[k]), column) for column in columns]
    rows = [[column[k + r] for column in columns] for r in range(m)]
    return [[gf.mul(gf.inv(row[0]), entry) for entry in row] for row in rows]


def _swapped(column, i, j):
    changed = bytearray(column)
    changed[i], changed[j] = column[j], column[i]
    return bytes(changed)


def backblaze_rows(k, m):
    """Polynomials of degree below k that have the data at 0 .. k-1, at k, k+1, .."""
    return interpolated_rows(k, range(k + m))


def zfec_rows(k, m):
    """As backblaze_rows, at 0 and the powers of 2 in their order."""
    return interpolated_rows(k, [0, *(gf.power(gf.A, i) for i in range(k + m - 1))])


def par1_rows(k, m):
    """Powers of 1, 2, 3, .., with m <= 3: 1 ^ 2 ^ 3 is 0."""
    if m > 3:
        raise CodeError("with par1 there are at most 3 parities")
    return [[gf.power(j + 1, r) for j in range(k)] for r in range(m)]


def interpolated_rows(k, places):
    """The rows of powers of the later places times the inverse of the rows of powers of the first k.

    solve_leading has the k unknown coefficients first; each data value is an unknown of its own behind them.
    """
    powers = [bytes(gf.power(place, j) for j in range(k)) for place in places]
    inverse = gf.solve_leading([row + bytes(int(i == j) for j in range(k)) for i, row in enumerate(powers[:k])], k)
    rows = []
    for row in powers[k:]:
        total = bytes(k)
        for factor, of_data in zip(row, inverse):
            total = gf.add_scaled(total, factor, of_data)
        rows.append(list(total))
    return rows


def bch_rows(k, m):
    """Long division of each x^(m+j) by the product of x + 2^i, i = 0..m-1; the coefficient of x^r is what parity r has of data j."""
    divisor = [1]
    for i in range(m):
        root = gf.power(gf.A, i)
        divisor = [low ^ gf.mul(root, high) for low, high in zip([0, *divisor], [*divisor, 0])]
    columns = []
    for j in range(k):
        rest = [0] * (m + j) + [1]
        for top in range(m + j, m - 1, -1):
            ratio = rest[top]
            for place, coefficient in enumerate(divisor):
                rest[top - m + place] ^= gf.mul(ratio, coefficient)
        columns.append(rest[:m])
    return [[column[r] for column in columns] for r in range(m)]


def rs(spec, k, m, matrix):
    if k + m > (255 if matrix == "bch" else 256):
        raise CodeError("rs takes at most 256 columns, 255 with bch")
    if matrix == "vandermonde" and not vandermonde_is_mds(k, m):
        raise CodeError(f"the vandermonde matrix of {k}+{m} has a singular minor; take another matrix")
    rows = {"cauchy1": cauchy1_rows, "vandermonde": vandermonde_rows, "jerasure": jerasure_rows,
            "backblaze": backblaze_rows, "zfec": zfec_rows, "par1": par1_rows, "bch": bch_rows}[matrix](k, m)
    return one_row_code(spec, k, rows)


# ---------------------------------------------------------------- points in cosets of a subspace
@lru_cache(maxsize=None)
def cantor_basis():
    """b_0 = 1; each next element is the smaller solution of x^2 + x = the one before, as far as there is one."""
    basis = [1]
    while solutions := [x for x in range(256) if gf.mul(x, x) ^ x == basis[-1]]:
        basis.append(min(solutions))
    return basis


def cantor_point(number):
    """The sum of the basis elements at the bits of the number."""
    point = 0
    for i, element in enumerate(cantor_basis()):
        if number >> i & 1:
            point ^= element
    return point


def lch_group(m):
    """The points of a group: the least power of two that is not below m."""
    return next(size for size in (1, 2, 4, 8, 16, 32, 64, 128, 256) if size >= m)


def lch_rows(k, m):
    """Parity i at point i, data j at point T + j: s(y)/(x + y), where s is the product of (y + v) over the first T points.

    The x and y differ, so 1/(x + y) is a Cauchy matrix; its columns are scaled by s(y), which is not 0.
    """
    size = lch_group(m)
    rows = [[] for _ in range(m)]
    for j in range(k):
        y, scale = cantor_point(size + j), 1
        for v in range(size):
            scale = gf.mul(scale, y ^ cantor_point(v))
        for i, row in enumerate(rows):
            row.append(gf.mul(scale, gf.inv(cantor_point(i) ^ y)))
    return rows


def lch(spec, k, m):
    if m > 128 or k + lch_group(m) > 256:
        raise CodeError("lch: k and m rounded up to a power of two are at most 256, and m at most 128")
    return one_row_code(spec, k, lch_rows(k, m))
