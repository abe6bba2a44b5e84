"""Striping, copies, single parity and the P + Q of the Linux md driver."""
import gf
from value import Code, CodeError, one_row_code


def raid0(spec, k):
    """k data columns and no redundancy."""
    return one_row_code(spec, k, [])


def mirror(spec, n):
    """Column 0 is data; each other column is a copy, tied to it by its own equation."""
    if n < 2:
        raise CodeError("mirror needs at least 2 columns")
    return one_row_code(spec, 1, [[1]] * (n - 1))


def raid5(spec, k):
    return one_row_code(spec, k, [[1] * k])


def raid6(spec, k):
    """P = sum d_i, Q = sum a^i d_i; a has 255 different powers, hence at most 255 data columns."""
    if k > 255:
        raise CodeError("raid6 takes at most 255 data columns")
    return one_row_code(spec, k, [[1] * k, [gf.power(gf.A, i) for i in range(k)]])
