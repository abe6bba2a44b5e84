"""The value: what a redundancy scheme is, whichever family it came from.

A cell is a pair (row, column). A code has columns (one per device) of `rows[c]` cells each; some cells hold user data,
in a stated order, the others are parity; equations say that sums of coefficient * cell are zero over GF(2^8).
Everything else is computed here by elimination and enumeration, without knowing the family.
"""
import hashlib
from itertools import combinations

import gf


class CodeError(Exception):
    """The code asked for does not exist; the text says which limit it breaks."""


class Code:
    """One stripe of a code.

    Invariant: data and parity together are all cells, each once; there are as many equations as parity cells, and they
    determine the parity cells from the data cells.
    """

    def __init__(self, spec, rows, data, parity, equations):
        self.spec = spec
        self.rows = list(rows)
        self.data = list(data)
        self.parity = list(parity)
        self.equations = [dict(equation) for equation in equations]
        self.columns = len(self.rows)
        self.cells = [(row, column) for column, count in enumerate(self.rows) for row in range(count)]
        if sorted(self.data + self.parity) != sorted(self.cells):
            raise CodeError("data and parity cells must be all cells, each once")
        if len(self.equations) != len(self.parity):
            raise CodeError(f"{len(self.equations)} equations for {len(self.parity)} parity cells")
        known = set(self.cells)
        for equation in self.equations:
            if not equation or not all(0 < c < 256 and cell in known for cell, c in equation.items()):
                raise CodeError("an equation needs cells of the code and coefficients 1..255")
        self._generator = None

    # ------------------------------------------------------------ encoding
    def generator(self):
        """One byte string per parity cell: its coefficient for every data cell in user order."""
        if self._generator is None:
            place = {cell: i for i, cell in enumerate(self.parity + self.data)}
            rows = []
            for equation in self.equations:
                row = bytearray(len(place))
                for cell, coefficient in equation.items():
                    row[place[cell]] = coefficient
                rows.append(bytes(row))
            solved = gf.solve_leading(rows, len(self.parity))
            if solved is None:
                raise CodeError("the equations do not determine the parity cells")
            self._generator = solved
        return self._generator

    def encode(self, elements):
        """All cells from the user elements (equal-length byte strings in user order)."""
        cells = dict(zip(self.data, elements))
        for cell, row in zip(self.parity, self.generator()):
            total = bytes(len(elements[0]))
            for coefficient, element in zip(row, elements):
                total = gf.add_scaled(total, coefficient, element)
            cells[cell] = total
        return cells

    def chunks(self, elements):
        """One byte string per column: its elements in row order."""
        cells = self.encode(elements)
        return [b"".join(cells[row, column] for row in range(count)) for column, count in enumerate(self.rows)]

    # ------------------------------------------------------------ losses
    def check_vectors(self):
        """For each cell the vector of its coefficients in all equations."""
        vectors = {cell: bytearray(len(self.equations)) for cell in self.cells}
        for i, equation in enumerate(self.equations):
            for cell, coefficient in equation.items():
                vectors[cell][i] = coefficient
        return {cell: bytes(vector) for cell, vector in vectors.items()}

    def column_cells(self, column):
        return [(row, column) for row in range(self.rows[column])]

    def recover(self, cells, lost):
        """The values of the lost cells computed from the others, or None if the equations do not decide them."""
        lost, length = list(lost), len(next(iter(cells.values())))
        rows = []
        for equation in self.equations:
            known = bytes(length)
            for cell, coefficient in equation.items():
                if cell not in lost:
                    known = gf.add_scaled(known, coefficient, cells[cell])
            rows.append(bytes(equation.get(cell, 0) for cell in lost) + known)
        solved = gf.solve_leading(rows, len(lost))
        return None if solved is None else dict(zip(lost, solved))

    def survivable(self, size, columns=None):
        """All survivable sets of `size` columns (out of `columns`, default all), ascending."""
        vectors = self.check_vectors()
        pool = list(range(self.columns)) if columns is None else list(columns)

        def extend(chosen, start, basis):
            if len(chosen) == size:
                yield tuple(chosen)
                return
            for i in range(start, len(pool) - (size - len(chosen)) + 1):
                grown = basis.grown_by(vectors[cell] for cell in self.column_cells(pool[i]))
                if grown is not None:
                    yield from extend(chosen + [pool[i]], i + 1, grown)

        yield from extend([], 0, gf.Basis())

    def fatal(self, size, columns=None):
        """All sets of `size` columns that lose data or parity for good, ascending."""
        pool = range(self.columns) if columns is None else columns
        alive = set(self.survivable(size, columns))
        return [chosen for chosen in combinations(pool, size) if chosen not in alive]

    # ------------------------------------------------------------ what is written down
    def update_counts(self):
        """For every data cell, in user order, how many parity cells change with it."""
        return [sum(1 for row in self.generator() if row[i]) for i in range(len(self.data))]

    def chunk_digests(self, element_len):
        user = pattern(len(self.data) * element_len)
        elements = [user[i:i + element_len] for i in range(0, len(user), element_len)]
        return [digest(chunk) for chunk in self.chunks(elements)]


def pattern(length):
    """The bytes that every vector is made from."""
    return bytes((i * 2654435761 >> 13) & 255 for i in range(length))


def digest(data):
    return hashlib.sha256(data).hexdigest()[:16]


def one_row_code(spec, data_columns, coefficients):
    """The usual shape: k data columns, then one parity column per coefficient row, one cell each.

    Zero coefficients are left out of the equation; each parity has coefficient 1 in its own.
    """
    k, m = data_columns, len(coefficients)
    equations = []
    for i, row in enumerate(coefficients):
        equation = {(0, j): c for j, c in enumerate(row) if c}
        equation[0, k + i] = 1
        equations.append(equation)
    return Code(spec, [1] * (k + m), [(0, j) for j in range(k)], [(0, k + i) for i in range(m)], equations)
