"""A program that keeps its state in a served volume and survives being killed.

    python3 checkpoint.py VOL STEPS

Its state is a list of numbers, of which each step changes all. After a step all of it is written as
one epoch of delayed parity: data go to the devices at once, parity follows at the end, and the end
seals all numbers together. Killed at any moment, and begun again, it finds the last step that was
sealed, as a whole.

It needs the packages pantile (pip install ./bindings/python) and libnbd (Debian: python3-libnbd).
The volume: pantile create VOL --code raid6:4 --size 256M; pantile serve VOL.
"""

import array
import sys

import nbd
import pantile

NUMBERS = 1 << 19  # 4 MiB
BYTES = 8 * NUMBERS
PIECE = 256 << 10


def connected(uri):
    handle = nbd.NBD()
    handle.connect_uri(uri)
    return handle


def found(volume):
    """The step of the state in the volume; 0: there is none."""
    state = array.array("Q", connected(f"nbd+unix:///?socket={volume}/nbd.sock").pread(BYTES, 0))
    assert len(set(state)) == 1, "the state is of several steps"
    return state[0]


def main(volume, steps):
    step = found(volume)
    print(f"found step {step}", flush=True)
    while step < steps:
        step += 1
        state = memoryview(array.array("Q", [step]) * NUMBERS).cast("B")
        with pantile.Volume(volume).epoch(0, BYTES) as epoch:
            handle = connected(epoch.uri)
            for offset in range(0, BYTES, PIECE):
                handle.pwrite(state[offset:offset + PIECE], offset)
            handle.flush()
        print(f"sealed step {step}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
