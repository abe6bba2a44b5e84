"""Clay, the coupled-layer code that Ceph's plug-in of that name writes with jerasure's reed_sol_van.

Nodes stand in a grid of t rows (y) and q columns (x); node y*q + x. Between data and parity nodes stand as many virtual ones,
all zero, as fill the grid. Each node has an element for each plane, a word of t digits below q. The element of (x, y) in a plane
whose digit y is another x' is paired with that of (x', y) in the plane where digit y is x.
"""
from itertools import product

import gf
from families.matrix import jerasure_rows
from value import Code, CodeError


class Grid:
    def __init__(self, k, m, d):
        self.k, self.m, self.q = k, m, d - k + 1
        self.virtual = -(k + m) % self.q
        self.t = (k + m + self.virtual) // self.q
        self.nodes = [(x, y) for y in range(self.t) for x in range(self.q)]
        # In ascending order, the first digit the most significant.
        self.planes = list(product(range(self.q), repeat=self.t))
        self.row = {plane: i for i, plane in enumerate(self.planes)}

    def column(self, node):
        """The column that holds a node, None for a virtual one."""
        i = self.nodes.index(node)
        return i if i < self.k else None if i < self.k + self.virtual else i - self.virtual

    def partner(self, node, plane):
        """Node and plane of the other element of the pair; None if the element has none."""
        x, y = node
        if plane[y] == x:
            return None
        return (plane[y], y), plane[:y] + (x,) + plane[y + 1:]


def uncoupled(grid, node, plane):
    """The uncoupled element as {(node, plane): coefficient}. Of a pair the node with the larger x comes first."""
    other = grid.partner(node, plane)
    if other is None:
        return {(node, plane): 1}
    of_first, of_second = jerasure_rows(2, 2)
    if node[0] > other[0][0]:
        return {(node, plane): of_first[0], other: of_first[1]}
    return {(node, plane): of_second[1], other: of_second[0]}


def clay(spec, k, m, d):
    if not (k >= 2 and m >= 1 and k <= d <= k + m - 1):
        raise CodeError("clay needs k >= 2, m >= 1 and k <= d <= k + m - 1")
    grid = Grid(k, m, d) if k + m <= 254 else None
    if grid is None or len(grid.nodes) > 254 or (k + m) * m * (grid.q ** grid.t) ** 2 > 1 << 25:
        raise CodeError("clay has at most 254 nodes, and no more equations than a matrix holds")
    checks = [[*row, *(int(i == r) for i in range(m))] for r, row in enumerate(jerasure_rows(k + grid.virtual, m))]
    equations = []
    for plane in grid.planes:
        for check in checks:
            equation = {}
            for node, coefficient in zip(grid.nodes, check):
                for (of, there), factor in uncoupled(grid, node, plane).items() if coefficient else ():
                    if (column := grid.column(of)) is not None:
                        cell = grid.row[there], column
                        equation[cell] = equation.get(cell, 0) ^ gf.mul(coefficient, factor)
            equations.append({cell: c for cell, c in equation.items() if c})
    rows = range(len(grid.planes))
    data = [(row, column) for column in range(k) for row in rows]
    parity = [(row, k + column) for column in range(m) for row in rows]
    return Code(spec, [len(rows)] * (k + m), data, parity, equations)
