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
        "placement": "fixed",
        "data": [[0, column] for column in data],
        "equations": [[[0, column, value] for column, value in terms] for terms in equations],
        "evidence": {"kind": "square-sets"}, **more,
    }


# Two columns of data, their sum, and their sum with powers of 2.
RAID6 = certificate(4, [0, 1], [[(0, 1), (1, 1), (2, 1)], [(0, 1), (1, 2), (3, 1)]], 2)


class Stored(unittest.TestCase):
    """A code that stores nothing loses nothing; it is no code."""

    def test_raid6_convinces(self):
        self.assertEqual(check(RAID6, "--claim", "2")[0], 0)
        self.assertEqual(check(RAID6, "--claim", "3")[0], 1)

    def test_a_placement_that_is_not_known_is_no_certificate(self):
        for placement, status in [("rotated", 0), ("rotated:2", 0), ("rotated:0", 2), ("spun", 2), (None, 2)]:
            self.assertEqual(check({**RAID6, "placement": placement})[0], status, placement)

    def test_no_parity_convinces_that_nothing_may_be_lost(self):
        none = certificate(3, range(3), [], 0)
        self.assertEqual(check(none)[0], 0)

    def test_data_that_the_equations_tie_together(self):
        ties = [[(0, 1), (column, 1)] for column in range(1, 6)]
        for data in (range(6), range(5), range(2), [0, 5]):
            status, said = check(certificate(6, data, ties, 5), "--claim", "5")
            self.assertEqual(status, 1, said)
            self.assertIn("5 equations for", said)
        # One copy of data and five of it: that is a code.
        self.assertEqual(check(certificate(6, [0], ties, 5), "--claim", "5")[0], 0)

    def test_as_many_equations_that_are_not_of_the_other_cells(self):
        # Any one column follows from the others, and the data of columns 0 and 1 are always the same.
        tied = [[(0, 1), (1, 1)], [(2, 1), (3, 1)]]
        witnesses = {"kind": "sets", "equations": [[0], [0], [1], [1]]}
        status, said = check(certificate(4, [0, 1], tied, 1, evidence=witnesses))
        self.assertEqual(status, 1, said)
        self.assertIn("leave the data free", said)
        self.assertEqual(check(certificate(4, [0, 2], tied, 1, evidence=witnesses))[0], 0)

    def test_a_cell_that_stands_in_no_equation(self):
        status, said = check(certificate(4, [0, 1], [[(0, 1), (1, 1), (2, 1)], [(0, 1), (1, 2), (2, 1)]], 0))
        self.assertEqual(status, 1, said)

    def test_matrices_beyond_the_bound_cost_nothing(self):
        many = certificate(256, [0], [[(column, 1)] for column in range(1, 256)], 0)
        many["rows"] = [256] * 256
        status, said = check(many)
        self.assertEqual(status, 1, said)
        self.assertIn("more than 33554432", said)


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
