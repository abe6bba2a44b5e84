"""XOR array codes against two lost disks, and how they are shortened to any number of disks.

A construction is a list of chains (parity cell, other members): the parity cell is the XOR of the members, some of which
may be parity cells of other chains. The order of the chains is part of the definition.
"""
from functools import lru_cache
from itertools import product

from value import Code, CodeError

MOST_DISKS = 256


# ---------------------------------------------------------------- constructions, n disks or prime p
def dcode_chains(n):
    """Data in rows 0..n-3. Each row parity covers n-2 consecutive user elements; each deployment parity n-2 consecutive
    steps of a walk that goes left and one row down, and stays in its row when it wraps around."""
    depth, chains = n - 2, []
    for group in range(n):
        ids = range(group * depth, (group + 1) * depth)
        chains.append(((n - 2, (ids[-1] + 1) % n), [divmod(t, n) for t in ids]))
    walk, row, column = [], 0, 0
    for _ in range(n * depth):
        walk.append((row, column))
        row, column = ((row + 1) % depth, column - 1) if column else (row, n - 1)
    for group in range(n):
        chains.append(((n - 1, 2 * (group + 1) % n), walk[group * depth:(group + 1) * depth]))
    return chains


def xcode_chains(n):
    """Row n-2 sums the diagonals that rise to the right, row n-1 those that rise to the left."""
    rows = range(n - 2)
    return ([((n - 2, i), [(k, (i + k + 2) % n) for k in rows]) for i in range(n)]
            + [((n - 1, i), [(k, (i - k - 2) % n) for k in rows]) for i in range(n)])


def rdp_chains(p):
    """Disk p-1 is row parity; disk p sums diagonals of the disks before it, row parity included."""
    return ([((i, p - 1), [(i, j) for j in range(p - 1)]) for i in range(p - 1)]
            + [((i, p), _diagonal(i, p)) for i in range(p - 1)])


def evenodd_chains(p):
    """Disk p is row parity; disk p+1 sums diagonal i and the diagonal that meets the imaginary row p-1."""
    adjuster = [(p - 1 - j, j) for j in range(1, p)]
    return ([((i, p), [(i, j) for j in range(p)]) for i in range(p - 1)]
            + [((i, p + 1), _diagonal(i, p) + adjuster) for i in range(p - 1)])


def _diagonal(i, p):
    """Cells of disks 0..p-1 with row + disk = i modulo p; row p-1 does not exist."""
    return [((i - j) % p, j) for j in range(p) if (i - j) % p != p - 1]


def hcode_chains(p):
    """Disk p is row parity of all but the cells (i, i+1), which sum anti-diagonals."""
    others = [[j for j in range(p) if j != i + 1] for i in range(p - 1)]
    return ([((i, p), [(i, j) for j in others[i]]) for i in range(p - 1)]
            + [((i, i + 1), [((p - 2 - i + j) % p, j) for j in others[i]]) for i in range(p - 1)])


def hdp_chains(p):
    """(i, i) sums its whole row, the anti-diagonal parity included; (i, p-2-i) sums cells of an anti-diagonal."""
    disks = range(p - 1)
    return ([((i, i), [(i, j) for j in disks if j != i]) for i in disks]
            + [((i, p - 2 - i), [((2 * i + j + 2) % p, j) for j in disks
                                 if j != p - 2 - i and (2 * i + j + 2) % p != p - 1]) for i in disks])


def hvcode_chains(p):
    """Rows and disks count from 1. (i, 2i) sums its row without (i, 4i); (i, 4i) sums the (k, 2k + 4i) that exist, without k = 2i."""
    labels = range(1, p)
    rows = [((i, 2 * i % p), [(i, j) for j in labels if j not in (2 * i % p, 4 * i % p)]) for i in labels]
    slopes = [((i, 4 * i % p), [(k, (2 * k + 4 * i) % p) for k in labels if k != 2 * i % p and (2 * k + 4 * i) % p]) for i in labels]
    return [((r - 1, d - 1), [(k - 1, j - 1) for k, j in members]) for (r, d), members in rows + slopes]


def pcode_chains(p):
    """Disks count from 1. Disk c has parity in row 0 and below it the pairs of other disks that sum to c, by their smaller disk; a pair
    belongs to the parities of its two disks."""
    cells = {disk: [pair for pair in ((a, (disk - a) % p) for a in range(1, p)) if pair[1] and pair[0] < pair[1]] for disk in range(1, p)}
    return [((0, mine - 1), [(1 + row, disk - 1) for disk in cells for row, pair in enumerate(cells[disk]) if mine in pair]) for mine in range(1, p)]


class Construction:
    """How a family is built from p, which disks of it hold only data, and how n relates to p."""

    def __init__(self, chains, rows, disks_more, data_only, least_prime, least_disks, kept=0):
        self.chains = chains
        self.rows = rows                  # rows for p
        self.disks_more = disks_more      # disks = p + disks_more
        self.data_only = data_only        # data-only disks for p, in the order in which they are dropped
        self.least_prime = least_prime
        self.least_disks = least_disks
        self.kept = kept                  # so many of the last disks are never dropped

    def promotes(self):
        """Whether disks with parity are dropped on the way to the least number, so that data cells become parity."""
        p = 7
        return len(self.data_only(p)) < p + self.disks_more - self.least_disks


# All array families: nothing else in the judge lists them.
CONSTRUCTIONS = {
    "dcode": Construction(dcode_chains, lambda p: p, 0, lambda p: [], 5, 4),
    "xcode": Construction(xcode_chains, lambda p: p, 0, lambda p: [], 5, 4),
    "rdp": Construction(rdp_chains, lambda p: p - 1, 1, lambda p: list(range(p - 2, -1, -1)), 3, 3),
    "evenodd": Construction(evenodd_chains, lambda p: p - 1, 2, lambda p: list(range(p - 1, -1, -1)), 3, 3),
    "hdp": Construction(hdp_chains, lambda p: p - 1, -1, lambda p: [], 5, 4),
    # Without its row-parity disk H-Code would have to promote a cell for every row, and each small
    # write would touch three.
    "hcode": Construction(hcode_chains, lambda p: p - 1, 1, lambda p: [0], 5, 4, kept=1),
    "hvcode": Construction(hvcode_chains, lambda p: p - 1, -1, lambda p: [], 5, 4),
    "pcode": Construction(pcode_chains, lambda p: (p - 1) // 2, -1, lambda p: [], 5, 4),
}


# ---------------------------------------------------------------- shortening
class Layout:
    """Chains on a grid that may have been shortened, with the record of how."""

    def __init__(self, rows, disks, chains):
        self.rows, self.disks = rows, disks
        self.chains = [(parity, frozenset(members)) for parity, members in chains]
        self.dropped, self.promoted = [], []

    def cells(self):
        return [(row, disk) for row in range(self.rows) for disk in range(self.disks)]

    def data(self):
        parity = {cell for cell, _ in self.chains}
        return [cell for cell in self.cells() if cell not in parity]

    def code(self, spec):
        equations = [{parity: 1, **{cell: 1 for cell in members}} for parity, members in self.chains]
        return Code(spec, [self.rows] * self.disks, self.data(), [parity for parity, _ in self.chains], equations)

    def without_data_disk(self, disk):
        """The disk holds zeros; later disks move down by one."""
        def moved(cell):
            return (cell[0], cell[1] - (cell[1] > disk))

        chains = [(moved(parity), [moved(cell) for cell in members if cell[1] != disk]) for parity, members in self.chains]
        return self._followed_by(chains, disk, [])

    def without_disk(self, disk):
        """The disk holds zeros; a data cell takes over for each parity cell that lay there; later disks move down by one."""
        kept = [(parity, frozenset(c for c in members if c[1] != disk)) for parity, members in self.chains if parity[1] != disk]
        bound = [frozenset(c for c in members if c[1] != disk) for parity, members in self.chains if parity[1] == disk]
        chosen = cheapest_promotion(kept, bound)

        def moved(cell):
            return (cell[0], cell[1] - (cell[1] > disk))

        chains = kept + [(cell, members - {cell}) for cell, members in zip(chosen, bound)]
        chains = [(moved(parity), [moved(cell) for cell in members]) for parity, members in chains]
        return self._followed_by(chains, disk, chosen)

    def _followed_by(self, chains, dropped, promoted):
        layout = Layout(self.rows, self.disks - 1, chains)
        layout.dropped = self.dropped + [dropped]
        layout.promoted = self.promoted + [list(promoted)]
        return layout


def in_terms_of_data(chains):
    """{parity cell: set of data cells}, or None if the chains run in a circle."""
    sums, waiting = {}, dict(chains)
    while waiting:
        ready = [p for p, members in waiting.items() if not any(cell in waiting for cell in members)]
        if not ready:
            return None
        for parity in ready:
            total = set()
            for cell in waiting[parity]:
                total ^= sums.get(cell, {cell})
            sums[parity] = total
        for parity in ready:
            del waiting[parity]
    return sums


def cheapest_promotion(kept, bound):
    """One data cell for each bound sum, with the least total update cost; the first such choice.

    A cell that occurs in two bound sums cannot be chosen (one of them would contain two promoted cells), so the choices
    never get in each other's way. Bound sums that share no data cell, however far expanded, do not influence each other's
    cost either: they are decided one by one. The others are tried in all combinations.
    """
    parity = {cell for cell, _ in kept}
    sums = in_terms_of_data(kept)
    expanded = [_expanded(members, sums) for members in bound]
    candidates = []
    for i, members in enumerate(bound):
        elsewhere = set().union(*(other for j, other in enumerate(bound) if j != i))
        candidates.append(sorted(cell for cell in members if cell not in parity and cell not in elsewhere))
    pure = all(not members & parity for members in bound)
    chosen = [None] * len(bound)
    for group in _linked(expanded) if pure else [list(range(len(bound)))]:
        best = None
        for cells in product(*(candidates[i] for i in group)):
            if not pure and _runs_in_a_circle(kept, bound, cells):
                continue
            cost = _update_cost(sums, [expanded[i] for i in group], cells)
            if best is None or cost < best[0]:
                best = cost, cells
        if best is None:
            raise CodeError("no data cells can take over the dropped parity cells")
        for i, cell in zip(group, best[1]):
            chosen[i] = cell
    return chosen


def _expanded(members, sums):
    total = set()
    for cell in members:
        total ^= sums.get(cell, {cell})
    return total


def _linked(supports):
    """Indexes grouped so that supports of different groups are disjoint; ascending within and between groups."""
    groups = []
    for i, support in enumerate(supports):
        touching = [group for group in groups if any(supports[j] & support for j in group)]
        groups = [group for group in groups if group not in touching] + [sorted(sum(touching, []) + [i])]
    return sorted(groups)


def _runs_in_a_circle(kept, bound, cells):
    return in_terms_of_data(kept + [(cell, members - {cell}) for cell, members in zip(cells, bound)]) is None


def _update_cost(sums, expanded, cells):
    """Sum over the remaining data cells of the number of parity cells that change with them."""
    definitions = _solved(expanded, cells)
    cost = sum(len(total) for total in definitions.values())
    for total in sums.values():
        for cell, definition in definitions.items():
            if cell in total:
                total = (total - {cell}) ^ definition
        cost += len(total)
    return cost


def _solved(expanded, cells):
    """{promoted cell: set of remaining data cells it is the sum of}."""
    rest = [set(total) for total in expanded]
    for i, cell in enumerate(cells):
        # A circle-free choice has cell i in its own sum once its predecessors are eliminated, or a
        # later sum to swap with.
        source = next(j for j in range(i, len(rest)) if cell in rest[j])
        rest[i], rest[source] = rest[source], rest[i]
        for j in range(len(rest)):
            if j != i and cell in rest[j]:
                rest[j] = rest[j] ^ rest[i]
    return {cell: total - {cell} for cell, total in zip(cells, rest)}


# ---------------------------------------------------------------- any number of disks
def is_prime(number):
    return number > 1 and all(number % d for d in range(2, int(number ** 0.5) + 1))


def prime_for(family, disks):
    """The least prime whose construction has at least that many disks."""
    shape = CONSTRUCTIONS[family]
    p = shape.least_prime
    while not (is_prime(p) and p + shape.disks_more >= disks):
        p += 1
    return p


@lru_cache(maxsize=None)
def layout_for(family, disks):
    shape = CONSTRUCTIONS[family]
    if not shape.least_disks <= disks <= MOST_DISKS:
        raise CodeError(f"{family} takes {shape.least_disks} to {MOST_DISKS} disks")
    p = prime_for(family, disks)
    most = p + shape.disks_more
    if disks == most:
        return Layout(shape.rows(p), disks, shape.chains(p))
    free, gone, before = shape.data_only(p), most - disks - 1, layout_for(family, disks + 1)
    return before.without_data_disk(free[gone]) if gone < len(free) else before.without_disk(disks - shape.kept)


def array(spec, family, disks, raw=False):
    if not raw:
        return layout_for(family, disks).code(spec)
    if family == "dcode" and (disks < 5 or disks % 2 == 0):
        raise CodeError("dcode raw takes an odd number of disks, at least 5")
    if not 4 <= disks <= MOST_DISKS:
        raise CodeError(f"{family} raw takes 4 to {MOST_DISKS} disks")
    return Layout(disks, disks, CONSTRUCTIONS[family].chains(disks)).code(spec)
