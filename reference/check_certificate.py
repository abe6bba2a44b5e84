#!/usr/bin/env python3
"""Checks a certificate that `pantile prove CODE --certificate FILE` wrote, and shares no code with it or with the judge.

    python3 check_certificate.py FILE [--claim N]

What is checked, from the equations in the file alone, with arithmetic written out below:

1. The equations are equations: each names cells that exist, once each, with coefficients 1 to 255. They are as many as the cells
   that are no data, and the matrix of their coefficients on these cells is invertible: whatever the data are, there is one stripe
   of them, so that the code stores what its data cells hold. Any N columns may be lost, N being the tolerance of the file (and no
   less than --claim).
2. Evidence "sets" and "square-sets": for every set of N columns, the equations named for it, restricted to the cells of the set,
   have a determinant that is not zero.
   Evidence "cauchy": each equation is one parity as a sum of data; every coefficient is the inverse of u_i . v_j; no two of the u
   are proportional, nor of the v. Cauchy's determinant then says that no minor of the matrix is zero, so that any as many columns
   as there are parities may be lost.
3. The codeword, if there is one: values, not all zero, of cells of N + 1 columns that fit all equations. So N + 1 columns may not
   be lost in every case. Without one only that any N may be lost is shown.

What is not checked: that the equations are those by which somebody's bytes were encoded. The digest that is printed is that of the
equations; compare it with what you trust. Exit status: 0 all is as the file says, 1 it is not, 2 it is no certificate.
"""
import hashlib
import json
import sys
from itertools import combinations

POLYNOMIAL = 0x11D
# No code has more; a file that says so would only cost memory.
COLUMNS_MAX, CELLS_MAX, MATRIX_MAX = 258, 65536, 1 << 25


class Wrong(Exception):
    """What the file says is not so."""


def shown(text):
    """What a stranger wrote, in ASCII and without line ends: it says nothing in this program's place, and commands no terminal."""
    return ascii(str(text))[1:-1]


def need(condition, what):
    if not condition:
        raise Wrong(what)


# ------------------------------------------------------------ GF(2^8), by carry-less multiplication
def product(a, b):
    total = 0
    while b:
        if b & 1:
            total ^= a
        a <<= 1
        if a & 0x100:
            a ^= POLYNOMIAL
        b >>= 1
    return total


PRODUCT = [[product(a, b) for b in range(256)] for a in range(256)]
INVERSE = [0] + [next(b for b in range(256) if PRODUCT[a][b] == 1) for a in range(1, 256)]


def is_invertible(matrix):
    """Whether a square matrix has a determinant that is not zero: it can be brought to triangular form without a zero."""
    rows = [row[:] for row in matrix]
    size = len(rows)
    for step in range(size):
        pivot = next((r for r in range(step, size) if rows[r][step]), None)
        if pivot is None:
            return False
        rows[step], rows[pivot] = rows[pivot], rows[step]
        inverse = INVERSE[rows[step][step]]
        for r in range(step + 1, size):
            if rows[r][step]:
                times = PRODUCT[PRODUCT[rows[r][step]][inverse]]
                rows[r] = [x ^ times[y] for x, y in zip(rows[r], rows[step])]
    return True


# ---------------------------------------------------------------- the file
class Certificate:
    def __init__(self, document):
        need(isinstance(document, dict) and document.get("format") == "pantile-certificate", "this is no certificate")
        need(document.get("version") == 1, f"version {shown(document.get('version'))} is not 1, which this program knows")
        self.code = shown(document["code"]) if isinstance(document["code"], str) else "?"
        self.rows, self.tolerance, self.placement = document["rows"], document["tolerance"], document["placement"]
        word, _, step = self.placement.partition(":") if isinstance(self.placement, str) else ("", "", "")
        known = self.placement in ("fixed", "rotated") or word == "rotated" and step.isascii() and step.isdigit() and 1 <= int(step[:4]) <= 255
        need(known, f"placement {shown(self.placement)} is not known")
        self.data = [tuple(cell) for cell in document["data"]]
        self.equations = [{(row, column): value for row, column, value in terms} for terms in document["equations"]]
        self.lengths = [len(terms) for terms in document["equations"]]
        self.evidence, self.codeword = document["evidence"], document.get("codeword")
        self.digest = hashlib.sha256(json.dumps(document["equations"], separators=(",", ":")).encode()).hexdigest()

    def cells(self, columns):
        return [(row, column) for column in columns for row in range(self.rows[column])]

    def check_equations(self):
        need(0 < len(self.rows) <= COLUMNS_MAX and all(rows >= 0 for rows in self.rows), f"there are no columns, or more than {COLUMNS_MAX}")
        need(sum(self.rows) <= CELLS_MAX, f"there are more than {CELLS_MAX} cells")
        every = set(self.cells(range(len(self.rows))))
        for number, (terms, length) in enumerate(zip(self.equations, self.lengths)):
            need(len(terms) == length, f"equation {number} names a cell twice")
            need(set(terms) <= every, f"equation {number} names a cell that does not exist")
            need(all(1 <= value <= 255 for value in terms.values()), f"equation {number} has a coefficient that is none")
        need(len(set(self.data)) == len(self.data) and set(self.data) <= every, "the data cells are not cells, or one stands twice")
        need(len(self.data) > 0, "there is no data")
        need(type(self.tolerance) is int and 0 <= self.tolerance < len(self.rows), "as many columns cannot be lost")
        parity = sorted(every - set(self.data))
        need(len(parity) * len(every) <= MATRIX_MAX, f"cells that are no data times cells are more than {MATRIX_MAX}")
        need(len(self.equations) == len(parity), f"{len(self.equations)} equations for {len(parity)} cells that are no data")
        matrix = [[terms.get(cell, 0) for cell in parity] for terms in self.equations]
        need(is_invertible(matrix), "the equations do not leave the data free: the matrix on the other cells is not invertible")

    def check_evidence(self):
        kind = self.evidence["kind"]
        if kind == "cauchy":
            return self.check_cauchy()
        need(kind in ("sets", "square-sets"), f"evidence of kind {shown(kind)} is not known")
        named = iter(self.evidence["equations"]) if kind == "sets" else None
        count = 0
        for columns in combinations(range(len(self.rows)), self.tolerance):
            cells = self.cells(columns)
            chosen = range(len(self.equations)) if named is None else next(named, None)
            need(chosen is not None, f"no witness for columns {columns}")
            need(len(set(chosen)) == len(chosen) == len(cells), f"columns {columns}: {len(chosen)} equations for {len(cells)} cells")
            matrix = [[self.equations[number].get(cell, 0) for cell in cells] for number in chosen]
            need(is_invertible(matrix), f"columns {columns} cannot be computed from the equations that are named for them")
            count += 1
        need(named is None or next(named, None) is None, "there are witnesses for more sets than there are")
        return f"{count} sets of {self.tolerance} columns, each with a matrix that is invertible"

    def check_cauchy(self):
        data, u, v = self.data, self.evidence["parities"], self.evidence["data"]
        need(all(rows == 1 for rows in self.rows), "the theorem is of columns of one cell")
        parity = [cell for cell in self.cells(range(len(self.rows))) if cell not in set(data)]
        need(self.tolerance <= len(parity), "more columns than parities cannot be lost")
        need(len(u) == len(parity) == len(self.equations) and len(v) == len(data), "there is not one vector for each parity and each data cell")
        for i, equation in enumerate(self.equations):
            own = [cell for cell in equation if cell not in set(data)]
            need(len(own) == 1, f"equation {i} is not one parity as a sum of data")
            scale = INVERSE[equation[own[0]]]
            need(own[0] == parity[i], f"equation {i} is not of parity {i}")
            for j, cell in enumerate(data):
                coefficient = PRODUCT[scale][equation.get(cell, 0)]
                dot = PRODUCT[u[i][0]][v[j][0]] ^ PRODUCT[u[i][1]][v[j][1]]
                need(PRODUCT[coefficient][dot] == 1, f"coefficient {i}, {j} is not the inverse of its vectors' product")
        for name, vectors in (("parities", u), ("data", v)):
            for (i, a), (j, b) in combinations(enumerate(vectors), 2):
                need(PRODUCT[a[0]][b[1]] != PRODUCT[a[1]][b[0]], f"vectors {i} and {j} of {name} are proportional")
        return f"a Cauchy matrix of {len(u)} by {len(v)}: no minor of it is zero"

    def check_codeword(self):
        if self.codeword is None:
            return "not shown: that one column more is too many"
        columns = self.codeword["columns"]
        need(all(0 <= column < len(self.rows) for column in columns), "the codeword is of columns that do not exist")
        values = {(row, column): value for row, column, value in self.codeword["cells"]}
        need(len(set(columns)) == len(columns) == self.tolerance + 1, "the codeword is not of one column more")
        need(values and all(1 <= value <= 255 for value in values.values()), "the codeword is zero")
        need(len(values) == len(self.codeword["cells"]) and set(values) <= set(self.cells(columns)), "the codeword lies elsewhere")
        for number, equation in enumerate(self.equations):
            total = 0
            for cell, coefficient in equation.items():
                total ^= PRODUCT[coefficient][values.get(cell, 0)]
            need(total == 0, f"the codeword does not fit equation {number}")
        return f"columns {columns} cannot be lost together: a codeword lies in them alone"


def main(arguments):
    claim = 0
    if "--claim" in arguments:
        at = arguments.index("--claim")
        claim = int(arguments[at + 1])
        del arguments[at:at + 2]
    if len(arguments) != 1:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    try:
        with open(arguments[0], encoding="utf-8") as file:
            certificate = Certificate(json.load(file))
    except Wrong as wrong:
        print(f"no certificate: {wrong}", file=sys.stderr)
        return 2
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        print(f"no certificate: {shown(error)}", file=sys.stderr)
        return 2
    try:
        certificate.check_equations()
        evidence = certificate.check_evidence()
        limit = certificate.check_codeword()
        need(certificate.tolerance >= claim, f"{claim} columns were claimed")
    except Wrong as wrong:
        print(f"{certificate.code}: NOT SHOWN: {wrong}")
        return 1
    except (KeyError, TypeError, ValueError, IndexError) as error:
        print(f"no certificate: {shown(repr(error))}", file=sys.stderr)
        return 2
    print(f"{certificate.code}: any {certificate.tolerance} of {len(certificate.rows)} columns may be lost")
    if certificate.placement != "fixed":
        print(f"  and any {certificate.tolerance} devices: placement {certificate.placement}, each holds one column of every stripe")
    print(f"  by {evidence}")
    print(f"  {limit}")
    print(f"  equations sha256 {certificate.digest}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
