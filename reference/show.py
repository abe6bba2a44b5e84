"""Prints layout and equations of a code:   python3 show.py dcode:7   or   python3 show.py some-file.code"""
import sys
from pathlib import Path

import codes
from families.custom import read_custom


def term(cell, coefficient):
    text = f"[{cell[0]}][{cell[1]}]"
    return text if coefficient == 1 else f"0x{coefficient:02x}*{text}"


def main(text):
    code = read_custom(Path(text).read_text(encoding="utf-8")) if text.endswith(".code") else codes.code(text)
    print(f"{code.spec}: {code.columns} columns, {len(code.data)} data cells, {len(code.parity)} parity cells")
    label = {cell: f"d{i}" for i, cell in enumerate(code.data)}
    label.update({cell: f"P{i}" for i, cell in enumerate(code.parity)})
    width = max(len(text) for text in label.values())
    for row in range(max(code.rows)):
        print("  " + " ".join(label.get((row, column), ".").rjust(width) for column in range(code.columns)))
    for equation in code.equations:
        print("  0 = " + " + ".join(term(cell, c) for cell, c in sorted(equation.items(), key=lambda i: i[0][::-1])))


if __name__ == "__main__":
    main(sys.argv[1])
