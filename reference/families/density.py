"""RAID-6 by bit matrices of minimum density: P is the XOR of all data columns, Q that of X_j times column j.

Any two columns may be lost if every X_j and every X_i + X_j is invertible; k matrices of w by w bits have at least k w + k - 1
ones then (Blaum and Roth 1999). Written from the papers, matrix by matrix.
"""
from families.bits import xor_code
from value import CodeError

ROWS_MOST, DATA_MOST = 257, 64  # Ceph's primes end at 257.


def is_prime(number):
    return number > 1 and all(number % divisor for divisor in range(2, number))


def zeros(w):
    return [[0] * w for _ in range(w)]


def identity(w):
    return [[int(r == x) for x in range(w)] for r in range(w)]


def raid6(spec, matrices):
    return xor_code(spec, [[identity(len(matrix)) for matrix in matrices], matrices])


# ---------------------------------------------------------------- Liberation
def liberation_words():
    """Primes. Jerasure demands more than two."""
    return [w for w in range(3, ROWS_MOST + 1) if is_prime(w)]


def liberation_matrices(k, w):
    """Plank 2008: X_j is the identity with its columns rotated to the right by j, and for j > 0 one bit more in row
    y = j (w - 1) / 2, to the left of the one that is there."""
    matrices = [[row[w - j:] + row[:w - j] for row in identity(w)] for j in range(k)]
    for j in range(1, k):
        y = j * (w - 1) // 2 % w
        matrices[j][y][(y + j - 1) % w] = 1
    return matrices


def liberation(spec, k, w):
    if w not in liberation_words() or k > min(w, DATA_MOST):
        raise CodeError(f"liberation: w={w} is no prime from 3 to {ROWS_MOST}, or k={k} more than that or {DATA_MOST}")
    return raid6(spec, liberation_matrices(k, w))


# ---------------------------------------------------------------- Blaum-Roth
CEPHS_WORD = 7


def blaum_roth_words():
    """One less than a prime. Jerasure demands more than two."""
    return [w for w in range(3, ROWS_MOST + 1) if is_prime(w + 1)]


def blaum_roth_matrices(k, w):
    """Blaum and Roth 1999, rows l and columns m from 1 to w = p - 1. X_0 is the identity. X_j has a one at (l, m) if m is l + j
    mod p; row p - j has none by that rule, and its ones are at j, and at j/2 or for odd j at (p + 1)/2 + (j - 1)/2.

    With p = 8, which is no prime, as Jerasure computes it: p/2 + 1 + (j - 1)/2 for odd j."""
    p = w + 1
    matrices = [identity(w)]
    for j in range(1, k):
        ones = {(l, m) for l in range(1, p) for m in range(1, p) if l != p - j and (l + j - m) % p == 0}
        ones |= {(p - j, j), (p - j, j // 2 if j % 2 == 0 else p // 2 + 1 + (j - 1) // 2)}
        matrices.append([[int((l, m) in ones) for m in range(1, p)] for l in range(1, p)])
    return matrices


def blaum_roth(spec, k, w):
    if w not in blaum_roth_words() + [CEPHS_WORD] or k > min(w, DATA_MOST):
        raise CodeError(f"blaumroth: w={w} is not one less than a prime up to {ROWS_MOST}, or k={k} more than that or {DATA_MOST}")
    return raid6(spec, blaum_roth_matrices(k, w))


# ---------------------------------------------------------------- Liber8tion
# Plank 2009, found by a search: for each data column but the first, whose matrix is the identity,
# the columns of X_j. Bit r of a byte is row r, that is, the element stands in row r of Q.
LIBER8TION = ("04 20 08 02 80 40 10 11", "08 40 02 22 04 80 01 10", "10 80 01 20 60 02 08 04", "84 04 10 40 20 01 02 08",
              "80 01 82 04 08 10 20 40", "02 10 80 01 40 48 04 20", "40 0c 20 10 01 08 80 02")


def liber8tion_matrices(k):
    columns = [bytes.fromhex(text) for text in LIBER8TION[:k - 1]]
    return [identity(8), *([[column[x] >> r & 1 for x in range(8)] for r in range(8)] for column in columns)]


def liber8tion(spec, k):
    if not 1 <= k <= 8:
        raise CodeError("liber8tion has 1 to 8 data columns")
    return raid6(spec, liber8tion_matrices(k))
