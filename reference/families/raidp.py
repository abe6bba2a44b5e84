"""RAIDP: every pair of disks shares one superchunk (two copies), and each disk has an add-on with the sum of its own."""
import gf
from value import Code, CodeError


def shared(n):
    """The superchunks in user order, each as (data copy, other copy).

    Superchunk (t, i) lies on disk i and on disk i + t mod n; for even n and t = n/2 both ends would name each pair
    twice, so only the lower half of i exists and both copies lie in the last row.
    """
    pairs = []
    for t in range(1, n // 2 + 1):
        halfway = 2 * t == n
        for i in range(n // 2 if halfway else n):
            row = 2 * (t - 1)
            pairs.append(((row, i), (row if halfway else row + 1, (i + t) % n)))
    return pairs


def raidp(spec, n, weighted, stack):
    if n < 3:
        raise CodeError("raidp needs at least 3 disks")
    if stack == 2 and n > 255:
        raise CodeError("raidp with stack=2 takes at most 255 disks: a^partner must differ")
    pairs = shared(n)
    partner = {}
    for here, there in pairs:
        partner[here], partner[there] = there[1], here[1]

    def by_order(disk, other):
        return 1 if other > disk else 2

    weights = [by_order if weighted or stack == 2 else lambda disk, other: 1]
    if stack == 2:
        weights.append(lambda disk, other: gf.power(gf.A, other))
    parity = [there for _, there in pairs]
    equations = [{here: 1, there: 1} for here, there in pairs]
    for level, weight in enumerate(weights, start=1):
        for disk in range(n):
            addon = 0, level * n + disk
            equation = {(row, disk): weight(disk, partner[row, disk]) for row in range(n - 1)}
            equations.append({**equation, addon: 1})
            parity.append(addon)
    return Code(spec, [n - 1] * n + [1] * (n * len(weights)), [here for here, _ in pairs], parity, equations)
