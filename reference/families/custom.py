"""Codes written down by hand, equation by equation, in a text file."""
import re

from value import Code, CodeError

CELL = re.compile(r"\[(\d+)\]\[(\d+)\]")
TERM = re.compile(r"(?:(0x[0-9a-fA-F]+|\d+)\s*\*\s*)?(\[\d+\]\[\d+\])")
EQUATION = re.compile(r"^(0|\[\d+\]\[\d+\])\s*=\s*(.*)$")


class Draft:
    """What has been read so far of a custom file."""

    def __init__(self):
        self.name = self.columns = self.rows = self.order = None
        self.equations, self.defined, self.named = [], [], []

    # ------------------------------------------------------------ pieces of a line
    def cell(self, text):
        found = CELL.fullmatch(text)
        if not found:
            raise CodeError(f"'{text}' is not a cell [row][column]")
        row, column = int(found[1]), int(found[2])
        if self.rows is None:
            raise CodeError("cells come after 'columns' and 'rows'")
        if column >= self.columns or row >= self.rows[column]:
            raise CodeError(f"{text} lies outside the code")
        return row, column

    def sum(self, text):
        total = {}
        for part in text.split("+"):
            found = TERM.fullmatch(part.strip())
            if not found:
                raise CodeError(f"'{part.strip()}' is not a cell or coefficient*cell")
            coefficient = int(found[1], 0) if found[1] else 1
            if not 1 <= coefficient <= 255:
                raise CodeError(f"coefficient {found[1]} is not in 1..255")
            cell = self.cell(found[2])
            if cell in total:
                raise CodeError(f"{found[2]} occurs twice in one sum")
            total[cell] = coefficient
        return total

    def count(self, text):
        if not re.fullmatch(r"[1-9]\d*", text) or int(text) > 256:
            raise CodeError(f"'{text}' is not a count from 1 to 256")
        return int(text)

    # ------------------------------------------------------------ lines
    def read(self, line):
        if found := EQUATION.match(line):
            return self.read_equation(found[1], found[2])
        key, *words = line.split()
        if key == "name" and len(words) == 1 and self.name is None:
            self.name = words[0]
        elif key == "columns" and len(words) == 1 and self.columns is None:
            self.columns = self.count(words[0])
        elif key == "rows" and words and self.rows is None and self.columns is not None:
            rows = [self.count(word) for word in words]
            if len(rows) not in (1, self.columns):
                raise CodeError(f"'rows' needs one number, or one for each of the {self.columns} columns")
            self.rows = rows * self.columns if len(rows) == 1 else rows
        elif key == "order" and words and self.order is None:
            self.order = [self.cell(word) for word in words]
        elif key == "parity" and words:
            self.named += [self.cell(word) for word in words]
        else:
            raise CodeError(f"cannot read '{line}' here")

    def read_equation(self, left, right):
        equation = self.sum(right)
        if left != "0":
            cell = self.cell(left)
            if cell in equation:
                raise CodeError(f"{left} stands on both sides")
            equation[cell] = 1
            self.defined.append(cell)
        self.equations.append(equation)

    # ------------------------------------------------------------ the code
    def code(self, spec):
        if self.rows is None:
            raise CodeError("'columns' and 'rows' are missing")
        parity = self.defined + self.named
        if len(set(parity)) != len(parity):
            raise CodeError("a cell is named as parity twice")
        if self.named:  # With free equations no equation belongs to one parity cell, so they are taken as they lie.
            parity.sort(key=lambda cell: (cell[1], cell[0]))
        cells = {(row, column) for column, count in enumerate(self.rows) for row in range(count)}
        data = sorted(cells - set(parity)) if self.order is None else self.order
        if sorted(data) != sorted(cells - set(parity)):
            raise CodeError("'order' must name every data cell once and no other")
        if not data:
            raise CodeError("a code needs data cells")
        code = Code(spec or f"custom:{self.name}", self.rows, data, parity, self.equations)
        code.generator()
        return code


def read_custom(text, spec=None):
    """The code of a custom file. Lines are independent; '#' starts a comment anywhere."""
    lines = [line.split("#", 1)[0].strip() for line in text.splitlines()]
    lines = [line for line in lines if line]
    if not lines or lines[0].split() != ["pantile-code", "1"]:
        raise CodeError("the first line must be 'pantile-code 1'")
    draft = Draft()
    for line in lines[1:]:
        draft.read(line)
    if draft.name is None:
        raise CodeError("'name' is missing")
    return draft.code(spec)
