"""Times the package beside pyeclib and zfec, in one interleaved run, and writes a record.

    pip install -r benches/python/requirements.txt
    python benches/python/run.py [OUT.json]     the record; benches/python/README.md has what it says

Each task is done by all libraries in turn, again and again; a cell is the least time of each, as a
ratio: theirs over ours. What is compared is what a program would call for the same answer.
"""

import json
import os
import platform
import sys
import time
from importlib.metadata import version

import pantile
import pyeclib.ec_iface
import zfec

SHAPES = [(4, 2), (10, 4), (16, 4)]
CHUNKS = [4 << 10, 64 << 10, 1 << 20]
ROUNDS, ROUND_S = 15, 0.02


def calls(k, m, chunk):
    """Tasks: their name, and who does them."""
    data = os.urandom(k * chunk)
    codec = pantile.Codec(f"rs:{k}+{m}")
    shards = codec.encode(data)
    drivers = {}
    for name in ("isa_l_rs_vand", "liberasurecode_rs_vand"):
        try:
            drivers[f"pyeclib {name}"] = pyeclib.ec_iface.ECDriver(k=k, m=m, ec_type=name)
        except Exception as error:
            print(f"left out: pyeclib {name}: {error}", file=sys.stderr)

    yield "data to shards", {
        "pantile": lambda: codec.encode(data),
        **{name: (lambda driver=driver: driver.encode(data)) for name, driver in drivers.items()},
    }

    blocks, parities = shards[:k], [bytearray(chunk) for _ in range(m)]
    encoder, numbers = zfec.Encoder(k, k + m), list(range(k, k + m))
    yield "blocks to parity", {
        "pantile": lambda: codec.encode_into([*blocks, *parities]),
        "zfec": lambda: encoder.encode(blocks, numbers),
    }

    for lost in (1, m):
        damaged = [None] * lost + shards[lost:]
        wanted = list(range(lost))
        fragments = {name: driver.encode(data)[lost:] for name, driver in drivers.items()}
        yield f"{lost} lost to data", {
            "pantile": lambda: codec.join(codec.reconstruct(damaged), len(data)),
            **{name: (lambda d=d, f=fragments[name]: d.decode(f)) for name, d in drivers.items()},
        }
        decoder = zfec.Decoder(k, k + m)
        theirs = [*shards[:k], *encoder.encode(blocks, numbers)]
        # As zfec has it: a block in its own place where it is there, parity in the place of a lost
        # one.
        places = [k + i for i in range(lost)] + list(range(lost, k))
        given = [theirs[place] for place in places]
        yield f"{lost} lost to blocks", {
            "pantile": lambda: codec.reconstruct(damaged, wanted=wanted),
            "zfec": lambda: decoder.decode(given, places),
        }


def least(task):
    """The least seconds of each, taken in turn."""
    counts, best = {}, {}
    for name, call in task.items():
        call()
        begin = time.perf_counter()
        call()
        counts[name] = max(1, int(ROUND_S / max(time.perf_counter() - begin, 1e-7)))
    for _ in range(ROUNDS):
        for name, call in task.items():
            begin = time.perf_counter()
            for _ in range(counts[name]):
                call()
            each = (time.perf_counter() - begin) / counts[name]
            best[name] = min(best.get(name, each), each)
    return best


def main():
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "")
    cells = []
    for k, m in SHAPES:
        for chunk in CHUNKS:
            for task, who in calls(k, m, chunk):
                seconds = least(who)
                ours = seconds.pop("pantile")
                for name, theirs in seconds.items():
                    cells.append({"task": task, "k": k, "m": m, "chunk": chunk, "library": name,
                                  "ratio": round(theirs / ours, 2)})
    record = {
        "processor": model,
        "python": platform.python_version(),
        "versions": {"pantile": pantile.__version__, "pyeclib": version("pyeclib"), "zfec": zfec.__version__},
        "load": os.getloadavg(),
        "cells": cells,
    }
    text = json.dumps({**record, "cells": None}, indent=1).replace(
        '"cells": null', '"cells": [\n' + ",\n".join("  " + json.dumps(cell) for cell in cells) + "\n ]")
    if sys.argv[1:]:
        open(sys.argv[1], "w").write(text + "\n")
    for library in sorted({cell["library"] for cell in cells}):
        ratios = sorted(cell["ratio"] for cell in cells if cell["library"] == library)
        losing = [cell for cell in cells if cell["library"] == library and cell["ratio"] < 1]
        print(f"{library}: {len(ratios)} cells, least {ratios[0]}, median {ratios[len(ratios) // 2]}, "
              f"most {ratios[-1]}; faster than ours in {len(losing)}")
        for cell in losing:
            print(f"   {cell['task']}, ({cell['k']},{cell['m']}), chunks of {cell['chunk']}: {cell['ratio']}")


if __name__ == "__main__":
    main()
