"""Claims about the codes that hold whatever program computes them, and the claim that ../vectors is up to date.

    python3 -m unittest discover -s reference        (from the repository) or  python3 -m unittest  (from here)
"""
import json
import sys
import unittest
from itertools import combinations, product
from math import comb
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import catalogue
import codes
import facts
import gf
import make_vectors
from families import arrays, bits, density, matrix, raidq
from families.custom import read_custom
from value import Code, CodeError, pattern

ARRAYS = tuple(arrays.CONSTRUCTIONS)


def elements_of(code, length=4):
    user = pattern(len(code.data) * length)
    return [user[i:i + length] for i in range(0, len(user), length)]


class Field(unittest.TestCase):
    def test_powers_of_a(self):
        self.assertEqual(gf.order(gf.A), 255)
        self.assertEqual((gf.power(2, 85), gf.power(2, 170), gf.power(2, 128), gf.power(2, 129)), (0xD6, 0xD7, 0x85, 0x17))
        self.assertEqual(gf.mul(gf.SQRT_A, gf.SQRT_A), gf.A)

    def test_field_laws_on_all_pairs(self):
        for x in range(1, 256):
            self.assertEqual(gf.mul(x, gf.inv(x)), 1)
            for y in range(256):
                self.assertEqual(gf.mul(x, y), gf.mul(y, x))
                self.assertEqual(gf.mul(x, y ^ 1), gf.mul(x, y) ^ x)

    def test_powers_of_x_in_the_square_field(self):
        field, gens = raidq.generators(4, "")
        values = [field.pow(gens[3], e) for e in range(1, 6)]
        self.assertEqual([hi << 8 | lo for lo, hi in values], [0x0100, 0x0801, 0x4108, 0x3A41, 0x8C3A])
        self.assertEqual(field.pow(gens[3], 257), field.one)

    def test_cube_roots_of_a(self):
        field = raidq.CUBE
        for variant, hexadecimal in (("cbrt", 0x000100), ("cbrt=paper", 0x00D600)):
            root = raidq.generators(4, variant)[1][2]
            self.assertEqual(root[0] | root[1] << 8 | root[2] << 16, hexadecimal)
            self.assertEqual(field.pow(root, 3), field.embed(gf.A))
            self.assertEqual(field.pow(root, 765), field.one)
        sixth = raidq.generators(4, "sixth")[1][2]
        self.assertEqual(field.pow(sixth, 6), field.embed(gf.A))
        self.assertEqual(field.mul(sixth, sixth), raidq.generators(4, "sixth")[1][3])

    def test_inverse_in_extensions(self):
        for field in (raidq.CUBE, raidq.generators(4, "x164")[0]):
            for lead in (1, 2, 0x8E, 255):
                value = tuple((lead * (i + 1) + 3 * i) & 255 for i in range(field.degree))
                self.assertEqual(field.mul(value, field.inv(value)), field.one)

    def test_a_polynomial_with_a_root_is_no_field(self):
        with self.assertRaises(CodeError):
            raidq.generators(4, "x=00.01")


class Matrices(unittest.TestCase):
    def test_first_coefficients_of_extended_cauchy(self):
        rows = [bytes(row[:8]).hex(" ") for row in matrix.extended_cauchy_rows(251, 6)]
        self.assertEqual(rows[0], "01 01 01 01 01 01 01 01")
        self.assertEqual(rows[1], "01 02 04 08 10 20 40 80")
        self.assertEqual(rows[2:], ["01 f5 d2 c4 9a 71 f1 7f", "01 bb a6 d7 c7 07 ce 82", "01 97 7f 9c 7c 18 bd a2", "01 2b 3f cf 73 2c d6 ed"])

    def test_extended_cauchy_points_differ(self):
        points = [gf.power(2, -i) for i in range(251)] + [0] + [gf.power(2, j) for j in range(1, 5)]
        self.assertEqual(len(set(points)), 256)

    def test_jerasure_six_and_four(self):
        rows = [bytes(row).hex(" ") for row in matrix.jerasure_rows(6, 4)]
        self.assertEqual(rows, ["01 01 01 01 01 01", "01 e1 97 ac 52 c8", "01 a6 c4 ee 53 92", "01 7b f5 8f f4 8e"])

    def test_vandermonde_limits_of_isa(self):
        for k, m, fine in ((32, 3, True), (253, 3, True), (21, 4, True), (22, 4, False), (5, 5, True), (6, 5, False), (4, 20, True)):
            self.assertEqual(matrix.vandermonde_is_mds(k, m), fine, (k, m))

    def test_every_minor_of_small_mds_codes(self):
        for spec in ("rs:6+3", "rs:4+4", "rs:5+4,jerasure", "rs:6+4,vandermonde", "cauchy:6+6", "lch:6+4", "lch:6+3", "lch:4+5", "raidq:6+4", "raidq:5+4,cbrt", "raidq:6+4,x164",
                     "raidq:5+4,sixth", "raidq:6+4,powers", "raidq:6+3", "raid6:6"):
            code = codes.code(spec)
            m = len(code.parity) // code.rows[0]
            self.assertEqual(code.fatal(m), [], spec)
            self.assertEqual(len(code.fatal(m + 1)), comb(code.columns, m + 1), spec)


class BitMatrices(unittest.TestCase):
    """crs."""

    def test_matrices_of_elements_are_the_elements(self):
        """Sums and products of matrices are those of the elements, so a matrix over the field keeps its rank in bits."""
        for w in (2, 3, 4):
            of = [bits.bits(value, w) for value in range(1 << w)]
            for left, right in product(range(1 << w), repeat=2):
                self.assertEqual([[a ^ b for a, b in zip(*rows)] for rows in zip(of[left], of[right])], of[left ^ right])
                times = [[sum(of[left][r][i] & of[right][i][x] for i in range(w)) & 1 for x in range(w)] for r in range(w)]
                self.assertEqual(times, of[bits.mul(left, right, w)])

    def test_two_generates_every_field(self):
        for w in range(2, 17):
            value, seen = 1, set()
            while value not in seen:
                seen.add(value)
                value = bits.mul(value, 2, w)
            self.assertEqual(len(seen), (1 << w) - 1, w)

    def test_in_the_field_of_bytes_products_are_the_same(self):
        for left, right in product(range(0, 256, 5), range(0, 256, 7)):
            self.assertEqual(bits.mul(left, right, 8), gf.mul(left, right))

    def test_coefficients_by_hand(self):
        """w = 3, x^3 = x + 1. 1/2 = 5, 1/3 = 6 since 2 * 5 = 3 * 6 = 1; 5 and 2 have 4 ones, 6 has 7."""
        self.assertEqual(bits.original_rows(2, 2, 3), [[5, 6], [6, 5]])
        self.assertEqual(bits.improved_rows(2, 3, 3)[0], [1, 1])
        self.assertEqual([bits.ones(value, 3) for value in (1, 2, 5, 4, 7, 3, 6)], [3, 4, 4, 5, 6, 7, 7])
        self.assertEqual(bits.best_pair(7, 3)[1], [1, 2, 5, 4, 7, 3, 6])
        self.assertEqual(bits.bits(5, 3), [[1, 1, 0], [0, 0, 1], [1, 0, 0]])

    def test_elements_added_for_each_row(self):
        """The table of docs/codes/crs.md."""
        page = (make_vectors.VECTORS.parent / "docs" / "codes" / "crs.md").read_text(encoding="utf-8")
        for k, m in ((8, 3), (10, 4), (12, 4)):
            tables = [bits.coefficients(k, m, w, original) for w in (4, 8) for original in (False, True)]
            counts = [sum(bits.ones(value, w) for row in rows for value in row) / w for w, rows in zip((4, 4, 8, 8), tables)]
            self.assertIn(f"| {k}+{m} | " + " | ".join(f"{count:.1f}" for count in counts) + " |", page)


class MinimumDensity(unittest.TestCase):
    """liberation, blaumroth and liber8tion."""
    SIZES = [("liberation", w, k) for w in (3, 5, 7, 11, 13) for k in range(1, w + 1)] + [("blaumroth", w, k) for w in (4, 6, 10, 12) for k in range(1, w + 1)]

    def test_the_identity_turned_and_one_bit_more(self):
        """w = 3: y = 1 of X_1 and y = 2 of X_2."""
        self.assertEqual(density.liberation_matrices(3, 3), [[[1, 0, 0], [0, 1, 0], [0, 0, 1]], [[0, 1, 0], [0, 1, 1], [1, 0, 0]], [[0, 0, 1], [1, 0, 0], [1, 1, 0]]])

    def test_blaum_roth_by_hand(self):
        """p = 5: X_1 has ones at (4, 1) and (4, 3), since 2 * 3 is 1; X_2 at (3, 2) and (3, 1)."""
        self.assertEqual(density.blaum_roth_matrices(3, 4)[1:], [[[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [1, 0, 1, 0]],
                                                                 [[0, 0, 1, 0], [0, 0, 0, 1], [1, 1, 0, 0], [1, 0, 0, 0]]])

    def test_no_loss_of_two_is_fatal_and_no_matrix_could_have_fewer_ones(self):
        for w, k, spec in [(w, k, f"{family}:{k},w={w}") for family, w, k in self.SIZES] + [(8, k, f"liber8tion:{k}") for k in range(1, 9)]:
            code = codes.code(spec)
            self.assertEqual(code.fatal(2), [], code.spec)
            self.assertEqual(sum(map(len, code.equations[w:])) - w, k * w + k - 1, code.spec)

    def test_what_seven_rows_lose(self):
        """Of 9 columns 9 pairs are fatal, all of two data columns; with k data columns those among them."""
        pairs = [(0, 2), (0, 4), (0, 6), (1, 4), (1, 5), (2, 4), (2, 5), (2, 6), (4, 6)]
        for k in range(1, 8):
            code = codes.code(f"blaumroth:{k},w=7")
            self.assertEqual((code.fatal(1), code.fatal(2)), ([], [pair for pair in pairs if pair[1] < k]))

    def test_parity_elements_that_change(self):
        """The tables of the pages."""
        sizes = (4, 6, 10, 12)
        for family, sizes, others in (("liberation", sizes, ("rdp:{d}", "evenodd:{d}", "crs:{k}+2,w=4")), ("blaumroth", sizes, ("liberation:{k}", "rdp:{d}")),
                                      ("liber8tion", (4, 6, 7, 8), ("liberation:{k}", "rdp:{d}", "crs:{k}+2", "crs:{k}+2,w=4"))):
            page = (make_vectors.VECTORS.parent / "docs" / "codes" / f"{family}.md").read_text(encoding="utf-8")
            for k in sizes:
                counts = [codes.code(spec.format(k=k, d=k + 2)).update_counts() for spec in (f"{family}:{k}", *others)]
                self.assertIn(f"| {k} | " + " | ".join(f"{sum(c) / len(c):.2f}, {max(c)}" for c in counts) + " |", page)


class PointsInCosets(unittest.TestCase):
    """lch. The sizes are all powers of two, each with as many data columns as it takes."""
    SIZES = (1, 2, 4, 8, 16, 32, 64, 128)

    def test_each_basis_element_solves_for_the_one_before(self):
        basis = matrix.cantor_basis()
        self.assertEqual(basis, [1, 214, 152, 146, 86, 200, 88, 230])
        for before, element in zip(basis, basis[1:]):
            self.assertEqual([x for x in range(256) if gf.mul(x, x) ^ x == before], [element, element + 1])
        self.assertEqual({matrix.cantor_point(number) for number in range(256)}, set(range(256)))

    def test_first_coefficients(self):
        """By hand: y = b_2 = 98 and s(y) = 1 give 0b = 1/98, dc = 1/99, 45 = 1/(98 + d6), 93 = 1/(99 + d6)."""
        rows = [bytes(row).hex(" ") for row in matrix.lch_rows(8, 4)]
        self.assertEqual(rows, ["0b dc 45 93 dc 45 0b 93", "dc 0b 93 45 45 dc 93 0b", "45 93 0b dc 0b 93 dc 45", "93 45 dc 0b 93 0b 45 dc"])

    def test_one_parity_is_the_plain_sum(self):
        self.assertEqual(matrix.lch_rows(255, 1), [[1] * 255])

    def test_fewer_parities_are_the_first_rows(self):
        for size in self.SIZES[:6]:
            rows = matrix.lch_rows(256 - size, size)
            for m in range(size // 2 + 1, size):
                self.assertEqual(matrix.lch_rows(256 - size, m), rows[:m], m)

    def test_the_checks_are_the_powers_of_the_points(self):
        """With T parities the sum of point^e * cell is 0 for e = 0 .. T-1; e = 0: all cells add up to 0."""
        for size in self.SIZES:
            rows = matrix.lch_rows(256 - size, size)
            for exponent in range(size):
                weights = [gf.power(matrix.cantor_point(number), exponent) for number in range(256)]
                total = bytes(weights[size:])
                for weight, row in zip(weights, rows):
                    total = gf.add_scaled(total, weight, bytes(row))
                self.assertEqual(total, bytes(256 - size), (size, exponent))

    def test_parities_are_the_sum_of_the_polynomials_of_all_groups(self):
        """Each group of data is interpolated, in powers of X, by elimination; the parities are the sum's values."""
        for k, m in ((1, 2), (7, 2), (4, 3), (11, 4), (252, 4), (5, 5), (21, 7), (40, 16)):
            size, data = matrix.lch_group(m), [17 * j + 3 & 255 for j in range(k)]
            powers = [bytes(gf.power(matrix.cantor_point(number), e) for e in range(size)) for number in range(256)]
            total = [0] * size
            for first in range(0, k, size):
                values = (data + [0] * size)[first:first + size]
                solved = gf.solve_leading([powers[size + first + i] + bytes([value]) for i, value in enumerate(values)], size)
                total = [x ^ y[0] for x, y in zip(total, solved)]
            parities = [parity[0] for parity in codes.code(f"lch:{k}+{m}").encode([bytes([d]) for d in data]).values()][k:]
            for i, parity in enumerate(parities):
                for coefficient, power in zip(total, powers[i]):
                    parity ^= gf.mul(coefficient, power)
                self.assertEqual(parity, 0, (k, m, i))


class Raidq(unittest.TestCase):
    def test_limits(self):
        wanted = {(3, ""): 255, (3, "powers"): 255, (4, ""): 92, (4, "x125"): 125, (4, "x164"): 164, (4, "x=08.d8"): 113, (4, "x=02.8e"): 107,
                  (4, "powers"): 21, (4, "sqrt"): 21, (4, "cbrt"): 63, (4, "cbrt=paper"): 63, (4, "sixth"): 63, (4, "b=0xfc"): 33, (4, "b=0xe8"): 27}
        self.assertEqual({key: raidq.limit(*key)[0] for key in wanted}, wanted)

    def test_witnesses_are_fatal(self):
        for option in ("powers", "sqrt", "b=0xe8", "cbrt", ""):
            most, witnesses = raidq.limit(4, option)
            field, gens = raidq.generators(4, option)
            for data, parities in witnesses:
                rows = [b"".join(bytes(line) for line in zip(*field.matrix(field.pow(gens[p], i)))) for i in data for p in parities]
                width, size = field.degree, len(data)
                matrix_rows = []
                for i in range(size):
                    for s in range(width):
                        matrix_rows.append(b"".join(rows[i * size + p][s * width:(s + 1) * width] for p in range(size)))
                self.assertLess(gf.rank(matrix_rows), size * width, (option, data, parities))
                self.assertEqual(data[-1], most)

    def test_best_generators_and_order_85(self):
        limits = {b: raidq.limit(4, f"b=0x{b:02x}")[0] for b in range(1, 256)}
        generators = {b for b in limits if gf.order(b) == 255}
        self.assertEqual(max(limits[b] for b in generators), 27)
        self.assertEqual(sum(limits[b] == 27 for b in generators), 32)
        self.assertEqual(sorted({limits[b] for b in generators}), [13, 16, 20, 21, 23, 27])
        self.assertEqual({gf.order(b) for b in limits if limits[b] == 33}, {85})
        self.assertEqual(sum(limit == 33 for limit in limits.values()), 16)

    def test_three_powers_reach_the_order_of_b(self):
        for b in (1, 2, 0x1D, 0xFC, 0xD6):
            self.assertEqual(raidq.limit(3, f"b=0x{b:02x}")[0], gf.order(b))

    def test_p_and_q_are_those_of_raid6(self):
        """Byte planes keep P and Q identical to RAID-6 on each plane."""
        plain = codes.code("raid6:5").generator()
        for option in ("", ",cbrt", ",x125"):
            code = codes.code("raidq:5+4" + option)
            depth = code.rows[0]
            for p in range(2):
                for row in range(depth):
                    self.assertEqual(code.generator()[p * depth + row], bytes(row * 5) + plain[p] + bytes((depth - 1 - row) * 5))


class ArrayCodes(unittest.TestCase):
    def test_worked_example_of_dcode_seven(self):
        chains = {parity: set(members) for parity, members in arrays.layout_for("dcode", 7).chains}
        self.assertEqual(chains[5, 1], {(1, 3), (1, 4), (1, 5), (1, 6), (2, 0)})
        self.assertEqual(chains[6, 2], {(0, 0), (0, 6), (1, 5), (2, 4), (3, 3)})

    def test_dcode_labels_equal_the_closed_equations(self):
        for n in range(5, 33, 2):
            half, closed = (n - 3) // 2, {}
            for i in range(n):
                closed[n - 2, i] = {(half * ((i + j + 2) % n - j) % (n - 2), (i + j + 2) % n) for j in range(n - 2)}
                closed[n - 1, i] = {(half * ((i - j - 2) % n - j) % (n - 2), (i - j - 2) % n) for j in range(n - 2)}
            self.assertEqual({parity: set(members) for parity, members in arrays.dcode_chains(n)}, closed, n)

    def test_dcode_is_xcode_with_permuted_columns(self):
        for n in (5, 7, 11, 13):
            def moved(cell):
                return ((n - 3) // 2 * (cell[1] - cell[0]) % (n - 2), cell[1]) if cell[0] < n - 2 else cell
            x = {(moved(parity), frozenset(map(moved, members))) for parity, members in arrays.xcode_chains(n)}
            self.assertEqual(x, {(parity, frozenset(members)) for parity, members in arrays.dcode_chains(n)})

    def test_all_pairs_of_disks_survive_for_every_n(self):
        for family in ARRAYS:
            for n in (*range(arrays.CONSTRUCTIONS[family].least_disks, 17), 20, 24):
                code = codes.code(f"{family}:{n}")
                self.assertEqual(code.fatal(2), [], code.spec)
                self.assertEqual(len(code.parity), 2 * code.rows[0], code.spec)

    def test_bare_dcode_nine_has_nine_fatal_pairs(self):
        self.assertEqual(len(codes.code("dcode:9,raw").fatal(2)), 9)
        self.assertEqual(len(codes.code("dcode:15,raw").fatal(2)), 45)

    def test_updates_and_xors(self):
        for p in (5, 7, 11, 13):
            for family, average in (("dcode", 2), ("xcode", 2), ("hcode", 2), ("hdp", 3)):
                disks = p + arrays.CONSTRUCTIONS[family].disks_more
                self.assertEqual(set(codes.code(f"{family}:{disks}").update_counts()), {average})
            self.assertEqual(sum(len(members) - 1 for _, members in arrays.layout_for("dcode", p).chains), 2 * p * (p - 3))
        for family, p, total in (("rdp", 5, 41), ("rdp", 7, 97), ("evenodd", 5, 52), ("evenodd", 7, 114)):
            disks = p + arrays.CONSTRUCTIONS[family].disks_more
            self.assertEqual(sum(codes.code(f"{family}:{disks}").update_counts()), total)

    def test_fewest_rebuild_reads(self):
        for p in (5, 7, 11, 13):
            formulas = {"dcode": (3 * p * p - 8 * p + 13) // 4, "xcode": (3 * p * p - 8 * p + 13) // 4, "rdp": 3 * (p - 1) ** 2 // 4,
                        "hcode": 3 * (p - 1) ** 2 // 4, "hdp": (3 * p * p - 12 * p + 13) // 4, "evenodd": (3 * p + 1) * (p - 1) // 4}
            for family, reads in formulas.items():
                code = codes.code(f"{family}:{p + arrays.CONSTRUCTIONS[family].disks_more}")
                self.assertEqual(facts.rebuild_reads(code, 0), reads, (family, p))
        self.assertEqual([facts.rebuild_reads(codes.code("evenodd:7"), c, combined=True) for c in range(7)], [16] * 5 + [19, 20])


class Shortening(unittest.TestCase):
    def test_promotion_is_the_first_of_least_cost_among_all(self):
        """All choices, each judged by elimination on a finished code; nothing is split into independent parts here."""
        for family, n in (("dcode", 4), ("dcode", 6), ("dcode", 8), ("xcode", 6), ("xcode", 9), ("hdp", 5), ("hdp", 7), ("hcode", 4)):
            after, before = arrays.layout_for(family, n), arrays.layout_for(family, n + 1)
            gone = after.dropped[-1]
            self.assertEqual(gone, n - 1 if family == "hcode" else n)
            kept = [(p, {c for c in m if c[1] != gone}) for p, m in before.chains if p[1] != gone]
            bound = [{c for c in m if c[1] != gone} for p, m in before.chains if p[1] == gone]
            data = set(before.data())
            best = None
            for cells in product(*(sorted(m & data) for m in bound)):
                if any(len(m & set(cells)) != 1 for m in bound) or len(set(cells)) < len(cells):
                    continue
                chains = kept + [(cell, m - {cell}) for cell, m in zip(cells, bound)]
                if self.runs_in_a_circle(chains):
                    continue
                trial = arrays.Layout(before.rows, n + 1, chains)
                cost = sum(trial.code("trial").update_counts())  # the empty disk counts for nothing
                if best is None or cost < best[0]:
                    best = cost, list(cells)
            self.assertEqual(after.promoted[-1], best[1], (family, n))
            self.assertEqual(sum(codes.code(f"{family}:{n}").update_counts()), best[0])

    @staticmethod
    def runs_in_a_circle(chains):
        waiting = {parity: set(members) for parity, members in chains}
        while free := [p for p, members in waiting.items() if not members & set(waiting)]:
            for p in free:
                del waiting[p]
        return bool(waiting)

    def test_a_shortened_code_is_the_long_one_with_zero_columns(self):
        for family, n in (("dcode", 6), ("dcode", 8), ("hdp", 8), ("hcode", 9), ("rdp", 9), ("evenodd", 6)):
            layout, code = arrays.layout_for(family, n), codes.code(f"{family}:{n}")
            p = arrays.prime_for(family, n)
            names = list(range(p + arrays.CONSTRUCTIONS[family].disks_more))
            for gone in layout.dropped:
                names.pop(gone)
            cells = {(row, names[column]): value for (row, column), value in code.encode(elements_of(code)).items()}
            for equation in codes.code(f"{family}:{p + arrays.CONSTRUCTIONS[family].disks_more}").equations:
                total = bytes(4)
                for cell in equation:
                    total = gf.add(total, cells.get(cell, bytes(4)))
                self.assertEqual(total, bytes(4))

    def test_published_update_costs(self):
        for spec, average, most in (("dcode:4", 2.400, 3), ("dcode:6", 2.286, 3), ("dcode:10", 2.182, 3), ("dcode:12", 2.154, 3), ("dcode:16", 2.118, 3),
                                    ("dcode:18", 2.105, 3), ("dcode:22", 2.087, 3), ("hdp:9", 3.343, 5)):
            counts = codes.code(spec).update_counts()
            self.assertAlmostEqual(sum(counts) / len(counts), average, places=3)
            self.assertEqual(max(counts), most)


class Local(unittest.TestCase):
    def counts(self, spec, lost):
        return sum(1 for _ in codes.code(spec).survivable(lost))

    def test_shec_fatal_sets(self):
        for spec, lost, fatal in (("shec:6,4,3", 2, 0), ("shec:6,4,3", 3, 10), ("shec:6,4,3", 4, 76), ("shec:4,3,3", 3, 3), ("shec:5,3,3", 2, 1),
                                  ("shec:7,4,3", 2, 2), ("shec:4,2,4", 3, 20), ("slpg:6,4,3", 3, 20)):
            self.assertEqual(len(codes.code(spec).fatal(lost)), fatal, spec)

    def test_shec_of_the_paper_starts_at_the_ceiling(self):
        """Columns 0 and parities 0, 4, 5 are the paper's example of a fatal set; columns 5 and 8 come back from parities 2 and 3."""
        code = codes.code("shec:10,6,5")
        covers = [[j for j, c in enumerate(row) if c] for row in code.generator()]
        self.assertEqual(covers, [[0, 1, 2, 3, 4], [2, 3, 4, 5, 6], [4, 5, 6, 7, 8], [5, 6, 7, 8, 9], [0, 1, 7, 8, 9], [0, 1, 2, 3, 9]])
        self.assertIn((0, 10, 14, 15), code.fatal(4))
        self.assertEqual(len(set(covers[2]) | set(covers[3])), 6)

    def test_shec_mean_reads(self):
        for spec, single, double in (("shec:4,2,4", 24, 60), ("shec:4,3,3", 21, 84), ("shec:6,4,3", 30, 202), ("shec:5,3,3", 24, 122), ("shec:7,4,3", 33, 256)):
            self.assertEqual((facts.mean_reads(spec, 1)["reads"], facts.mean_reads(spec, 2)["reads"]), (single, double))

    def test_fewest_reads_by_trying_every_set(self):
        """The same number by asking each set of columns whether it spans the lost ones."""
        for spec in ("shec:4,3,3", "lrc:4,2,2", "slpg:4,2,2"):
            code = codes.code(spec)
            identity = [bytes(int(i == j) for j in range(len(code.data))) for i in range(len(code.data))]
            word = identity + code.generator()
            total = 0
            for lost in combinations(range(code.columns), 2):
                alive = [c for c in range(code.columns) if c not in lost]
                total += next((size for size in range(len(alive) + 1) for read in combinations(alive, size)
                               if gf.rank([word[c] for c in read]) == gf.rank([word[c] for c in read + lost])), 0)
            self.assertEqual(facts.mean_reads(spec, 2)["reads"], total, spec)

    def test_every_possible_pattern_of_lrc_with_two_globals_decodes(self):
        for k, l in ((12, 2), (6, 2), (6, 3), (10, 2), (12, 4), (60, 20)):
            code, size = codes.code(f"lrc:{k},{l},2"), k // l
            for lost in (2, 3, 4) if k < 60 else (2, 3):
                possible = 0
                for chosen in combinations(range(code.columns), lost):
                    in_group, others = [0] * l, 0
                    for c in chosen:
                        if c < k:
                            in_group[c // size] += 1
                        elif c < k + l:
                            in_group[c - k] += 1
                        else:
                            others += 1
                    possible += others + sum(max(0, count - 1) for count in in_group) <= 2
                self.assertEqual(self.counts(code.spec, lost), possible, (k, l, lost))
        self.assertEqual(self.counts("lrc:12,2,2", 4), 1568)

    def test_lrc_survives_any_loss_of_one_more_than_its_globals(self):
        for spec in ("lrc:12,2,0", "lrc:12,3,1", "lrc:6,2,1", "lrc:6,2,3", "lrc:12,2,3", "lrc:12,3,4", "lrc:10,5,5", "lrc:15,1,2", "lrc:34,17,2"):
            self.assertEqual(codes.code(spec).fatal(codes.parse(spec).counts[2] + 1), [], spec)

    def test_xorbas_of_the_paper(self):
        code = codes.code("xorbas:10,6,5")
        self.assertEqual(code.fatal(4), [])
        self.assertEqual(len(code.fatal(5)), 4)
        total = bytes(10)
        for row in code.generator():
            total = gf.add(total, row)
        self.assertEqual(total, bytes(10), "local and RS parities sum to zero")


class Raidp(unittest.TestCase):
    def test_layout(self):
        for n in (3, 4, 5, 6, 8, 9, 12):
            code = codes.code(f"raidp:{n}")
            pairs = sorted(tuple(sorted((a[1], b[1]))) for a, b in map(list, code.equations[:n * (n - 1) // 2]))
            self.assertEqual(pairs, list(combinations(range(n), 2)))
            self.assertEqual(len(code.data), n * (n - 1) // 2)

    def test_weights(self):
        """A superchunk shared with a higher disk has 1, with a lower disk 2; the second add-on takes a^partner."""
        code = codes.code("raidp:3,stack=2")
        addons = [code.equations[i] for i in range(3, 9)]
        self.assertEqual(addons[:3], [{(0, 0): 1, (1, 0): 1, (0, 3): 1}, {(0, 1): 1, (1, 1): 2, (0, 4): 1}, {(0, 2): 2, (1, 2): 2, (0, 5): 1}])
        self.assertEqual(addons[3:], [{(0, 0): 2, (1, 0): 4, (0, 6): 1}, {(0, 1): 4, (1, 1): 1, (0, 7): 1}, {(0, 2): 1, (1, 2): 2, (0, 8): 1}])

    def test_losses_of_disks(self):
        for n in (4, 5, 8, 9):
            for option, survived in (("", 2), (",weighted", 3), (",stack=2", 4)):
                code = codes.code(f"raidp:{n}{option}")
                self.assertEqual(code.fatal(survived, range(n)), [], code.spec)
                if survived < n:
                    self.assertEqual(len(code.fatal(survived + 1, range(n))), comb(n, survived + 1), code.spec)


class EverySmallLoss(unittest.TestCase):
    """Every set of columns is erased: survivable ones come back byte for byte, the others are refused."""
    SPECS = ["raid0:2", "mirror:3", "raid5:3", "raid6:4", "raidq:4+3", "raidq:3+3,powers", "raidq:3+3,b=0x1d", "raidq:4+4", "raidq:3+4,x125",
             "raidq:3+4,x164", "raidq:3+4,x=02.8e", "raidq:4+4,powers", "raidq:4+4,b=0xfc", "raidq:4+4,sqrt", "raidq:3+4,cbrt", "raidq:3+4,cbrt=paper",
             "raidq:3+4,sixth", "cauchy:4+6", "lch:4+1", "lch:5+2", "lch:5+3", "lch:5+4", "lch:3+5", "crs:3+2,w=2", "crs:4+3", "crs:5+3,w=3,orig", "crs:4+2,w=4", "rs:4+2", "rs:4+3,vandermonde", "rs:4+3,jerasure", "shec:4,3,3", "shec:6,4,3", "shec:6,4,c=3", "shec:4,3,c=2,single",
             "liberation:3", "liberation:4", "liberation:3,w=7", "blaumroth:4", "blaumroth:3,w=6", "blaumroth:4,w=7", "liber8tion:3", "lrc:4,2,0", "lrc:6,2,1", "lrc:4,2,2", "lrc:4,2,3", "xorbas:4,4,2", "slpg:4,2,2", "dcode:4", "dcode:6", "xcode:5", "xcode:6", "rdp:3", "rdp:6",
             "evenodd:4", "evenodd:6", "hcode:4", "hcode:5", "hdp:4", "hdp:5", "raidp:3", "raidp:4", "raidp:4,weighted", "raidp:3,stack=2"]

    def test_recovered_or_refused(self):
        for spec in self.SPECS:
            code = codes.code(spec)
            cells = code.encode(elements_of(code))
            for size in range(1, code.columns + 1):
                alive = set(code.survivable(size))
                for chosen in combinations(range(code.columns), size):
                    lost = [cell for column in chosen for cell in code.column_cells(column)]
                    got = code.recover(cells, lost)
                    self.assertEqual(got, {cell: cells[cell] for cell in lost} if chosen in alive else None, (spec, chosen))
                if not alive:
                    break

    def test_a_wrong_cell_is_not_taken_for_a_recovery(self):
        """With an equation to spare, cells that contradict each other are refused."""
        code = codes.code("raid6:4")
        cells = {**code.encode(elements_of(code)), (0, 1): b"err!"}
        self.assertIsNone(code.recover(cells, [(0, 0)]))

    def test_parity_satisfies_every_equation(self):
        for specs in catalogue.SPECS.values():
            for spec in specs[:6]:
                code = codes.code(spec)
                cells = code.encode(elements_of(code, 2))
                for equation in code.equations:
                    total = bytes(2)
                    for cell, coefficient in equation.items():
                        total = gf.add_scaled(total, coefficient, cells[cell])
                    self.assertEqual(total, bytes(2), spec)


class Texts(unittest.TestCase):
    def test_canonical_specs_print_themselves(self):
        for specs in catalogue.SPECS.values():
            for spec in specs:
                self.assertEqual(str(codes.parse(spec)), spec)

    def test_other_spellings_and_refusals(self):
        make_vectors.specs_text()

    def test_custom_file_of_a_family_code(self):
        code = codes.code("shec:4,3,3")
        text = ["pantile-code 1", "name copy", f"columns {code.columns}", "rows 1"]
        for (row, column), equation in zip(code.parity, code.equations):
            text.append(f"[{row}][{column}] = " + " + ".join(f"{c}*[{r}][{q}]" for (r, q), c in equation.items() if (r, q) != (row, column)))
        self.assertEqual(read_custom("\n".join(text)).generator(), code.generator())

    def test_bad_custom_files_say_why(self):
        files = sorted((make_vectors.VECTORS / "custom" / "bad").glob("*.code"))
        self.assertGreaterEqual(len(files), 12)
        for path in files:
            raw = path.read_bytes()
            self.assertTrue(raw.startswith(b"# "), path.name)
            with self.assertRaises((CodeError, UnicodeDecodeError), msg=path.name):
                read_custom(raw.decode("utf-8"))

    def test_a_code_needs_as_many_equations_as_parity_cells(self):
        with self.assertRaises(CodeError):
            Code("none", [1, 1], [(0, 0)], [(0, 1)], [])

    def test_every_cell_is_data_or_parity_once(self):
        for data, parity in (([(0, 0)], [(0, 1)]), ([(0, 0), (0, 1)], [(0, 1), (0, 2)])):
            with self.assertRaises(CodeError):
                Code("none", [1, 1, 1], data, parity, [{(0, 0): 1, cell: 1} for cell in parity])


class VectorsUpToDate(unittest.TestCase):
    def stored(self, name):
        return (make_vectors.VECTORS / name).read_text(encoding="utf-8")

    def test_whole_files(self):
        for family in catalogue.SPECS:
            if family not in ARRAYS:
                self.assertEqual(make_vectors.family_text(family), self.stored(f"codes/{family}.json"), family)
        self.assertEqual(make_vectors.specs_text(), self.stored("specs.json"))
        self.assertEqual(make_vectors.custom_text(), self.stored("custom/custom.json"))

    def test_a_sample_of_the_array_codes(self):
        for family in ARRAYS:
            text = self.stored(f"codes/{family}.json")
            self.assertEqual([entry["spec"] for entry in json.loads(text)["codes"]], catalogue.SPECS[family])
            for spec in catalogue.SPECS[family][:12]:
                self.assertIn(make_vectors.compact(make_vectors.described(codes.code(spec))) + ",\n", text)

    def test_a_sample_of_the_shortenings(self):
        text = self.stored("shortening.json")
        for family in (family for family in ARRAYS if arrays.CONSTRUCTIONS[family].promotes()):
            for n in (4, 5, 8, 9, 16):
                if arrays.layout_for(family, n).dropped:
                    self.assertIn(make_vectors.compact(make_vectors.shortened(family, n)), text)

    def test_a_sample_of_the_facts(self):
        text = self.stored("facts.json")
        for spec in facts.TOLERANCE:
            self.assertIn(make_vectors.compact(facts.tolerance(spec)), text)
        for entry in facts.RAIDP_DISKS:
            self.assertIn(make_vectors.compact(facts.tolerance_of_disks(*entry)), text)
        for entry in facts.RAIDQ_OPTIONS:
            self.assertIn(make_vectors.compact(facts.raidq_limit(*entry)), text)

    def test_every_case_written_by_ceph(self):
        document = json.loads(self.stored("foreign/ceph_w8.json"))
        self.assertEqual(len(document["cases"]), 641)
        self.assertEqual(make_vectors.foreign_text(document), self.stored("foreign/ceph_w8.json"))
        for path in sorted((make_vectors.VECTORS / "foreign").glob("*.code")):
            stem = [int(part) for part in path.stem.split("-")[2:]]
            self.assertEqual(make_vectors.ceph_lrc_file(*stem), path.read_text(encoding="utf-8"))

    def test_every_case_encoded_by_bit_matrices(self):
        for name, count in (("jerasure", 1418), ("ceph", 200)):
            text = self.stored(f"foreign/{name}_bit_matrices.json")
            self.assertEqual(len(json.loads(text)["cases"]), count)
            self.assertEqual(make_vectors.jerasure_text(json.loads(text)), text)


if __name__ == "__main__":
    unittest.main()
