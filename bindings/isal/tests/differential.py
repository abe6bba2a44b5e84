"""Compares every function of the library with that of a real libisal, for random shapes and bytes.

    differential.py OURS REAL [SEED [SECONDS]]

Lengths below 64 bytes go to ISA-L's portable forms, which compute any length; some of its forms for one instruction set do nothing
there. RAID buffers are aligned, as ISA-L wants them.
"""

import ctypes
import random
import sys
import time
from ctypes import c_int, c_ubyte, c_void_p

SLOT = 32


class Buffer:
    """Bytes at an address of a given alignment, with guards on both sides."""

    GUARD = 64

    def __init__(self, data, shift=0):
        self.len = len(data)
        self.raw = (c_ubyte * (self.len + 4 * self.GUARD))()
        start = ctypes.addressof(self.raw) + self.GUARD
        self.at = start + -start % 64 + shift
        ctypes.memmove(self.at, bytes(data), self.len)

    def bytes(self):
        return ctypes.string_at(self.at, self.len)

    def everything(self):
        return ctypes.string_at(self.at - self.GUARD, self.len + 2 * self.GUARD)


def pointers(buffers):
    return (c_void_p * len(buffers))(*[b.at for b in buffers])


def load(path):
    library = ctypes.CDLL(path, mode=ctypes.RTLD_LOCAL)
    for name in "gf_mul", "gf_inv":
        function = getattr(library, name)
        function.restype = c_ubyte
        function.argtypes = [c_ubyte] * (2 if name == "gf_mul" else 1)
    # Debian's library has one that is portable and not by this name: it is the only one.
    library.gf_vect_mul_init.argtypes = [c_ubyte, c_void_p]
    if hasattr(library, "gf_vect_mul_init_base"):
        library.gf_vect_mul_init_base.argtypes = [c_ubyte, c_void_p]
    for name in "gf_vect_mul", "gf_vect_mul_base":
        getattr(library, name).argtypes = [c_int, c_void_p, c_void_p, c_void_p]
    return library


def address(value):
    return c_void_p(value)


class Comparison:
    def __init__(self, ours, real, seed):
        self.libraries = [load(ours), load(real)]
        self.random = random.Random(seed)
        self.cases = 0
        # Before 2.31 the portable forms look at neither count nor length and answer otherwise: only
        # what they write is held to ours.
        self.is_old = not hasattr(self.libraries[1], "gf_vect_mul_init_base")

    def same(self, what, run):
        """`run` gives the same for both libraries; whatever is random in it was drawn before."""
        answers = [run(library) for library in self.libraries]
        assert answers[0] == answers[1], f"{what}: the answers differ"
        self.cases += 1

    def bytes(self, count):
        return self.random.randbytes(count)

    def single_bytes(self):
        self.same("gf_mul", lambda lib: [lib.gf_mul(a, b) for a in range(256) for b in range(256)])
        self.same("gf_inv", lambda lib: [lib.gf_inv(a) for a in range(256)])

    def generators(self):
        k = self.random.randint(1, 40)
        m = k + self.random.randint(0, 30)
        for name in "gf_gen_rs_matrix", "gf_gen_cauchy1_matrix":

            def run(lib):
                out = Buffer(b"\x5a" * (m * k))
                getattr(lib, name)(address(out.at), m, k)
                return out.everything()

            self.same(f"{name}({m}, {k})", run)

    def inverse(self):
        n = self.random.randint(1, 24)
        few = self.random.choice([2, 256])
        matrix = bytes(self.random.randrange(few) for _ in range(n * n))

        def run(lib):
            given, out = Buffer(matrix), Buffer(bytes(n * n))
            return lib.gf_invert_matrix(address(given.at), address(out.at), n), given.bytes(), out.bytes()

        self.same(f"gf_invert_matrix of {n}", run)

    def table(self, lib, k, rows, coefficients, base, name="ec_init_tables"):
        """Made by the library itself, or by the other one's portable form: read just the same."""
        table = Buffer(b"\xee" * (SLOT * k * rows), shift=self.shift)
        function = getattr(lib, name + ("_base" if base and hasattr(lib, name + "_base") else ""))
        function(k, rows, coefficients, address(table.at))
        return table

    def erasure(self):
        k, rows = self.random.randint(1, 24), self.random.randint(1, 9)
        small = self.random.random() < 0.3
        length = self.random.randint(0, 63) if small else self.random.choice(
            [64, 96, 100, 255, 1000, 4096, 4097, self.random.randint(64, 40000)])
        suffix = "_base" if small else self.random.choice(["", "_base"])
        self.shift = self.random.randrange(64)
        shifts = [self.random.randrange(64) for _ in range(k + rows)]
        few = self.random.choice([2, 256])
        coefficients = bytes(self.random.randrange(few) for _ in range(k * rows))
        data = [self.bytes(length) for _ in range(k)]
        before = [self.bytes(length) for _ in range(rows)]
        source = self.random.randrange(k)
        row = self.random.randrange(rows)

        def run(lib):
            table = self.table(lib, k, rows, coefficients, suffix)
            sources = [Buffer(b, shift=s) for b, s in zip(data, shifts)]
            answers = []

            def call(name, *arguments, outputs):
                getattr(lib, name + suffix)(length, *arguments)
                answers.append([o.everything() for o in outputs])

            fresh = lambda: [Buffer(b, shift=s) for b, s in zip(before, shifts[k:])]
            out = fresh()
            call("ec_encode_data", k, rows, address(table.at), pointers(sources), pointers(out), outputs=out)
            out = fresh()
            call("ec_encode_data_update", k, rows, source, address(table.at), address(sources[source].at),
                 pointers(out), outputs=out)
            # A pointer into the middle of the table is a table.
            middle = address(table.at + SLOT * k * row)
            out = fresh()[:1]
            call("gf_vect_dot_prod", k, middle, pointers(sources), address(out[0].at), outputs=out)
            out = fresh()[:1]
            call("gf_vect_mad", k, source, middle, address(sources[source].at), address(out[0].at), outputs=out)
            return answers

        self.same(f"ec_encode_data{suffix} and its like, k={k} rows={rows} len={length}", run)

    def foreign_tables(self):
        """This library and the other one compute the same from the other one's tables."""
        ours, real = self.libraries
        k, rows, length = self.random.randint(1, 20), self.random.randint(1, 6), self.random.randint(64, 5000)
        self.shift = 0
        coefficients = bytes(self.random.randrange(1, 256) for _ in range(k * rows))
        table = self.table(real, k, rows, coefficients, False)
        data = [Buffer(self.bytes(length)) for _ in range(k)]
        results = []
        for lib in ours, real:
            out = [Buffer(bytes(length)) for _ in range(rows)]
            lib.ec_encode_data(length, k, rows, address(table.at), pointers(data), pointers(out))
            for source in range(k):
                lib.ec_encode_data_update(length, k, rows, source, address(table.at), address(data[source].at),
                                          pointers(out))
            assert not any(any(o.bytes()) for o in out), "a sum and its updates are not zero"
            lib.ec_encode_data(length, k, rows, address(table.at), pointers(data), pointers(out))
            results.append([o.bytes() for o in out])
        assert results[0] == results[1], f"a table of the other library, k={k} rows={rows}"
        self.cases += 1

    def product(self):
        # Before 2.31 nobody looks at the length: a product of another one, 0 included, is written
        # past its end.
        length = self.random.choice([32, 64, 96, 1024, 4096] + [0, 31, 33, 100] * (not self.is_old))
        c, data = self.random.randrange(256), self.bytes(length)
        for suffix in "", "_base":
            answers = not (suffix and self.is_old)
            def run(lib):
                table, src, dest = Buffer(bytes(32)), Buffer(data), Buffer(bytes(length))
                init = getattr(lib, "gf_vect_mul_init" + suffix, lib.gf_vect_mul_init)
                init(c, table.at)
                code = getattr(lib, "gf_vect_mul" + suffix)(length, table.at, src.at, dest.at)
                return answers and code, dest.everything()

            self.same(f"gf_vect_mul{suffix} of {length}", run)

    def raid(self):
        vects = self.random.randint(1, 20)
        length = self.random.choice([0, 16, 32, 48, 64, 100, 1024, 4096, 5000, 8192 + 32, self.random.randint(0, 9999)])
        data = [self.bytes(length) for _ in range(vects)]
        wrong = self.random.choice([None, (self.random.randrange(vects), self.random.randrange(length))]) if length else None
        for suffix in "", "_base":
            answers = not (suffix and self.is_old)
            if not answers and vects < 4:
                continue
            for kind in "xor", "pq":

                def run(lib):
                    array = [Buffer(b) for b in data]
                    made = getattr(lib, f"{kind}_gen{suffix}")(vects, length, pointers(array))
                    after = [b.everything() for b in array]
                    if wrong:
                        vector, at = wrong
                        ctypes.memset(array[vector].at + at, array[vector].bytes()[at] ^ 0x41, 1)
                    found = getattr(lib, f"{kind}_check{suffix}")(vects, length, pointers(array))
                    return answers and made, after, found if answers else found != 0

                self.same(f"{kind}{suffix}, {vects} vectors of {length}, wrong at {wrong}", run)


def main():
    ours, real = sys.argv[1:3]
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.randrange(1 << 30)
    seconds = float(sys.argv[4]) if len(sys.argv) > 4 else 5
    print(f"seed {seed}", flush=True)
    comparison = Comparison(ours, real, seed)
    comparison.single_bytes()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for part in "generators", "inverse", "erasure", "erasure", "foreign_tables", "product", "raid":
            getattr(comparison, part)()
    print(f"{comparison.cases} cases are the same")


main()
