"""Encodes, loses, rebuilds and decodes through liberasurecode, and prints what the shards are.

    shards.py           a hash for each case: the same for every libisal
    shards.py SECONDS   also what it costs: GB/s of data for each code and length, best of rounds
"""

import hashlib
import random
import sys
import time

from pyeclib.ec_iface import ECDriver

LENGTHS = [1, 1000, 65536, 1 << 20]
CODES = [(kind, k, m) for kind in ("isa_l_rs_vand", "isa_l_rs_cauchy") for k, m in ((4, 2), (10, 4), (16, 4))]


def held(driver, k, m, chance, length):
    data = chance.randbytes(length)
    shards = driver.encode(data)
    for count in range(1, m + 1):
        lost = chance.sample(range(k + m), count)
        left = [shard for number, shard in enumerate(shards) if number not in lost]
        assert driver.reconstruct(left, lost) == [shards[number] for number in lost]
        assert driver.decode(left) == data
    return hashlib.sha256(b"".join(shards)).hexdigest()


def speed(driver, length, seconds):
    data, best, end = bytes(length), float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        driver.encode(data)
        best = min(best, time.perf_counter() - start)
    return length / best / 1e9


for kind, k, m in CODES:
    driver = ECDriver(k=k, m=m, ec_type=kind)
    chance = random.Random(f"{k} {m}")
    if len(sys.argv) == 1:
        for length in LENGTHS:
            print(kind, k, m, length, held(driver, k, m, chance, length))
    elif m == 4:
        for chunk in (4096, 16384, 65536, 262144, 1 << 20):
            print(kind, k, m, chunk, round(speed(driver, chunk * k, float(sys.argv[1])), 2), flush=True)
