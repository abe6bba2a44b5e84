#!/usr/bin/env python3
"""Replays a trace that nobody here made, and counts it again by a program that shares nothing with the lab.

The trace is the CloudPhysics sample in the source package libcachesim 0.3.5 (81 MB, fetched and thrown away). The lab reads
its binary form; this program counts its text form, by the textbook: RAID-5 of 4 + 1, elements of 64 KiB, blocks of 4 KiB.

    tests/traces.py target/release/pantile
"""
import csv
import hashlib
import io
import json
import re
import subprocess
import sys
import tarfile
import tempfile
import urllib.parse
import urllib.request
from collections import Counter
from pathlib import Path

INDEX = "https://pypi.org/simple/libcachesim/"
FOLDER = "libcachesim-0.3.5/src/libCacheSim/data/"
SHA256 = "a1512046ab45bc0e5f0a81e5673cd02209477ffeefcb17a05fa714a06371abfb"
BLOCK, ELEMENT, DATA = 4096, 16, 4  # bytes, blocks, data columns


def fetch():
    links = re.findall(r'href="([^"]+)"', urllib.request.urlopen(INDEX, timeout=60).read().decode())
    link = next(link for link in links if "libcachesim-0.3.5.tar.gz" in link)
    package = urllib.request.urlopen(urllib.parse.urljoin(INDEX, link), timeout=600).read()
    assert hashlib.sha256(package).hexdigest() == SHA256, "the package is not the one that was known"
    with tarfile.open(fileobj=io.BytesIO(package)) as tar:
        member = lambda name: tar.extractfile(FOLDER + name).read()
        return member("cloudPhysicsIO.vscsi"), member("cloudPhysicsIO.csv").decode()


def count(text):
    """Blocks by cause, request by request."""
    sums = Counter()
    for row in csv.DictReader(io.StringIO(text)):
        op, size, begin = int(row["op"], 16), int(row["size"]), int(row["lbn"]) * 512
        is_write = op in (0x0A, 0x2A, 0xAA, 0x8A)
        assert is_write or op in (0x08, 0x28, 0xA8, 0x88), f"a command {op:#x}"
        end = begin + size
        blocks = range(begin // BLOCK, -(-end // BLOCK))
        sums["requests"] += 1
        if not is_write:
            sums["user, blocks read"] += len(blocks)
            continue
        sums["user, blocks written"] += len(blocks)
        # Blocks written in part are read first: each end that is cut, once if both are in one
        # block.
        cut = {at // BLOCK for at in (begin, end) if at % BLOCK}
        sums["user, blocks read"] += len(cut)
        rows = Counter()
        for block in blocks:
            rows[block // (ELEMENT * DATA), block % ELEMENT] += 1
        for new in rows.values():
            sums["read-modify-write, blocks read"] += min(new + 1, DATA - new)
            sums["parity, blocks written"] += 1
    return sums


def main():
    binary, text = fetch()
    expected = count(text)
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace"
        trace.write_bytes(binary)
        run = [sys.argv[1], "replay", str(trace), "--codes", "raid5:4", "--element", "64K", "--json"]
        answer = json.loads(subprocess.run(run, check=True, capture_output=True).stdout)
    found = {one["quantity"]: one["value"] for one in answer if one["case"] == "raid5:4"}
    for quantity, value in expected.items():
        if quantity != "requests":
            assert found[quantity] == value, f"{quantity}: the lab counts {found[quantity]}, the textbook {value}"
    print(f"{expected['requests']} requests of the CloudPhysics sample: the lab counts what the textbook counts")


main()
