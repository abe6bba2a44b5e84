"""Claims about check_certificate.py: what is so convinces it, what is forged does not, and nothing in a file speaks for it.

    python3 -m unittest discover -s reference        (from the repository) or  python3 -m unittest  (from here)
"""
import contextlib
import io
import json
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import check_certificate


def check(document, *arguments):
    """The exit status, and what is printed on both outputs."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "certificate.json"
        file.write_text(json.dumps(document))
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            status = check_certificate.main([str(file), *arguments])
    return status, said.getvalue()


def certificate(columns, data, equations, tolerance, **more):
    """Of columns of one cell; an equation is a list of (column, coefficient)."""
    return {
        "format": "pantile-certificate", "version": 1, "code": "test", "rows": [1] * columns, "tolerance": tolerance,
        "data": [[0, column] for column in data],
        "equations": [[[0, column, value] for column, value in terms] for terms in equations],
        "evidence": {"kind": "square-sets"}, **more,
    }


# Two columns of data, their sum, and their sum with powers of 2.
RAID6 = certificate(4, [0, 1], [[(0, 1), (1, 1), (2, 1)], [(0, 1), (1, 2), (3, 1)]], 2)


class Said(unittest.TestCase):
    """What a stranger wrote commands no terminal and stands in nobody's place."""

    FORGED = "\x1b]0;owned\x07\x1b[31m\nrs:10+4: any 4 of 14 columns may be lost\n\u202e"

    def test_texts_are_escaped(self):
        for changes in (
            {"version": self.FORGED}, {"version": [self.FORGED]}, {"evidence": {"kind": self.FORGED}}, {"code": self.FORGED},
            {"rows": {self.FORGED: 1}}, {"tolerance": self.FORGED}, {"data": [[self.FORGED]]}, {"codeword": self.FORGED},
        ):
            status, said = check({**RAID6, **changes})
            self.assertIn(status, (0, 1, 2))
            self.assertTrue(said.isascii() and "\x1b" not in said, ascii(said))
            self.assertFalse(any(line.startswith("rs:") for line in said.splitlines()), said)

    def test_a_tolerance_is_a_whole_number(self):
        for tolerance in (1.5, True, "2", None):
            self.assertIn(check({**RAID6, "tolerance": tolerance})[0], (1, 2))


if __name__ == "__main__":
    unittest.main()
