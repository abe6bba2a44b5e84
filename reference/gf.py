"""Arithmetic for the judge: GF(2^8), small extension fields over it, and row elimination.

GF(2^8) is F2[x] modulo x^8 + x^4 + x^3 + x^2 + 1 (0x11d); A = 0x02 generates all 255 nonzero elements.
A vector over GF(2^8) is a `bytes` object, so that one `translate` scales it and one integer XOR adds it.
An extension field is GF(2^8)[T] modulo a monic polynomial of degree 1, 2 or 3; its elements are tuples of bytes,
lowest coefficient first. Nothing here is fast and nothing here knows about codes.
"""
from functools import lru_cache

POLYNOMIAL = 0x11D
A = 0x02


def _times_x(value):
    value <<= 1
    return value ^ POLYNOMIAL if value & 0x100 else value


def _long_multiply(left, right):
    """School multiplication, used once to fill the tables."""
    total = 0
    while right:
        if right & 1:
            total ^= left
        left, right = _times_x(left), right >> 1
    return total


MUL = [bytes(_long_multiply(left, right) for right in range(256)) for left in range(256)]
INVERSE = [0] + [MUL[value].index(1) for value in range(1, 256)]


def mul(left, right):
    return MUL[left][right]


def inv(value):
    if value == 0:
        raise ZeroDivisionError("0 has no inverse in GF(2^8)")
    return INVERSE[value]


@lru_cache(maxsize=None)
def power(base, exponent):
    """base^exponent; the exponent of a nonzero base may be negative or larger than 255."""
    if base == 0:
        return 1 if exponent == 0 else 0
    result = 1
    for _ in range(exponent % 255):
        result = MUL[result][base]
    return result


def order(value):
    """The least e > 0 with value^e = 1."""
    result, e = value, 1
    while result != 1:
        result, e = MUL[result][value], e + 1
    return e


SQRT_A = power(A, 128)  # 0x85: 2 * 128 = 256 = 1 modulo 255


# ---------------------------------------------------------------- vectors and elimination
def add(left, right):
    """Sum of two vectors of equal length."""
    return (int.from_bytes(left, "big") ^ int.from_bytes(right, "big")).to_bytes(len(left), "big")


def scale(factor, vector):
    return vector.translate(MUL[factor])


def add_scaled(vector, factor, other):
    return add(vector, scale(factor, other)) if factor else vector


def first_nonzero(vector):
    rest = len(vector.lstrip(b"\0"))
    return len(vector) - rest if rest else None


class Basis:
    """Independent vectors met so far; each has 1 at its pivot and was cleared at the older pivots."""

    def __init__(self, members=()):
        self.members = list(members)

    def reduced(self, vector):
        for pivot, member in self.members:
            vector = add_scaled(vector, vector[pivot], member)
        return vector

    def grown_by(self, vectors):
        """A new basis with the vectors added, or None if they are dependent on it or among themselves."""
        grown = Basis(self.members)
        for vector in vectors:
            vector = grown.reduced(vector)
            pivot = first_nonzero(vector)
            if pivot is None:
                return None
            grown.members.append((pivot, scale(inv(vector[pivot]), vector)))
        return grown

    def spans(self, vector):
        return first_nonzero(self.reduced(vector)) is None


def rank(vectors):
    basis = Basis()
    for vector in vectors:
        basis = basis.grown_by([vector]) or basis
    return len(basis.members)


def solve_leading(rows, unknowns):
    """Gauss-Jordan on the first `unknowns` positions of each row.

    Returns one row per unknown, in order (identity part removed), or None if the rows do not determine them.
    Rows left over must be zero throughout: a leftover with a nonzero tail would bind what is supposed to be free;
    then the answer is None too.
    """
    rows = list(rows)
    for position in range(unknowns):
        found = next((i for i in range(position, len(rows)) if rows[i][position]), None)
        if found is None:
            return None
        rows[position], rows[found] = rows[found], rows[position]
        pivot = scale(inv(rows[position][position]), rows[position])
        rows = [add_scaled(row, row[position], pivot) for row in rows]
        rows[position] = pivot
    if any(any(row) for row in rows[unknowns:]):
        return None
    return [row[unknowns:] for row in rows[:unknowns]]


def determinant_is_zero(matrix):
    return rank([bytes(row) for row in matrix]) < len(matrix)


# ---------------------------------------------------------------- extension fields
class Extension:
    """GF(2^8)[T] with T^d = tail[0] + tail[1] T + ... + tail[d-1] T^(d-1), where d = len(tail) <= 3.

    Degree 1 with tail (0,) is GF(2^8) itself (T is then 0 and is not used).
    """

    def __init__(self, tail):
        self.tail = tuple(tail)
        self.degree = len(self.tail)
        self.zero = (0,) * self.degree
        self.one = self.embed(1)
        if self.degree > 1 and any(self._polynomial_at(x) == 0 for x in range(256)):
            raise ValueError("the polynomial has a root in GF(2^8)")

    def _polynomial_at(self, x):
        value = power(x, self.degree)
        for i, coefficient in enumerate(self.tail):
            value ^= mul(coefficient, power(x, i))
        return value

    def embed(self, value):
        return (value,) + (0,) * (self.degree - 1)

    def element(self, *coefficients):
        return tuple(coefficients) + (0,) * (self.degree - len(coefficients))

    def add(self, left, right):
        return tuple(x ^ y for x, y in zip(left, right))

    def times_t(self, value):
        """Multiplication by T: shift up, fold the overflow back with the tail."""
        top = value[-1]
        shifted = (0,) + value[:-1]
        return tuple(s ^ mul(top, t) for s, t in zip(shifted, self.tail))

    def mul(self, left, right):
        total = [0] * self.degree
        shifted = left
        for i, coefficient in enumerate(right):
            if i:
                shifted = self.times_t(shifted)
            if coefficient:
                row = MUL[coefficient]
                for j, value in enumerate(shifted):
                    total[j] ^= row[value]
        return tuple(total)

    def pow(self, base, exponent):
        result = self.one
        for _ in range(exponent):
            result = self.mul(result, base)
        return result

    def matrix(self, value):
        """matrix[t][s] = coefficient of T^t in value * T^s."""
        columns, image = [], value
        for s in range(self.degree):
            columns.append(image)
            if s + 1 < self.degree:
                image = self.times_t(image)
        return [[columns[s][t] for s in range(self.degree)] for t in range(self.degree)]

    def inv(self, value):
        """Solves value * y = 1 through the multiplication matrix."""
        rows = [bytes(row) + bytes([1 if t == 0 else 0]) for t, row in enumerate(self.matrix(value))]
        solution = solve_leading(rows, self.degree)
        if solution is None:
            raise ZeroDivisionError("0 has no inverse")
        return tuple(row[0] for row in solution)
