"""Times small calls of the Python package: nanoseconds, the least of rounds in turns.

    python benches/small/doors.py
"""

import os
import time

import pantile

SHAPES = [(4, 2), (10, 4), (20, 4)]
LENGTHS = [64, 256, 1024, 4096, 16384, 65536, 1 << 20]
ROUNDS, SLICE_NS = 40, 100_000


def calls(k, m, length):
    codec = pantile.Codec(f"rs:{k}+{m}")
    data = os.urandom(k * length)
    shards = [bytearray(shard) for shard in codec.encode(data)]
    lost = [None, None, *shards[2:]]
    into = {0: bytearray(length), 1: bytearray(length)}
    new = os.urandom(length)
    return {
        "encode": lambda: codec.encode(data),
        "encode, out=": lambda: codec.encode(data, out=shards),
        "encode_into": lambda: codec.encode_into(shards),
        "reconstruct two, into=": lambda: codec.reconstruct(lost, into=into),
        "update": lambda: codec.update(shards, 1, new),
        "verify": lambda: codec.verify(shards),
    }


def least(tasks):
    best, repeats = {}, {}
    for name, task in tasks.items():
        start = time.perf_counter_ns()
        for _ in range(3):
            task()
        repeats[name] = max(1, 3 * SLICE_NS // (time.perf_counter_ns() - start))
    for _ in range(ROUNDS):
        for name, task in tasks.items():
            start = time.perf_counter_ns()
            for _ in range(repeats[name]):
                task()
            took = (time.perf_counter_ns() - start) / repeats[name]
            best[name] = min(best.get(name, took), took)
    return best


def main():
    names = list(calls(4, 2, 64))
    print("Nanoseconds a call of Python, the least of rounds in turns.\n")
    print(f"| shape | bytes | {' | '.join(names)} | encode_into / encode |")
    print(f"| --- | ---: | {'---: | ' * len(names)}---: |")
    for k, m in SHAPES:
        for length in LENGTHS:
            best = least(calls(k, m, length))
            ratio = best["encode_into"] / best["encode"]
            print(f"| ({k},{m}) | {length} | {' | '.join(f'{best[name]:.0f}' for name in names)} | {ratio:.2f} |")


main()
