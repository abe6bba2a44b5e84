#!/usr/bin/python3
"""What clients of a served volume may cost: connections, threads and memory are bounded, and slow readers cost themselves alone.

    PANTILE=target/debug/pantile tests/bounds.py

Needs nbdkit and python3-libnbd. Half a minute.
"""
import json, os, subprocess, sys, tempfile, time
import nbd

PANTILE = os.environ.get("PANTILE", "target/debug/pantile")
CONNECTIONS, REQUEST = 64, 256 << 10


def run(*arguments):
    done = subprocess.run([PANTILE, *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, (arguments, done.stderr)
    return done.stdout


def connected(uri):
    handle = nbd.NBD()
    handle.connect_uri(uri)
    return handle


def of_process(pid, name):
    with open(f"/proc/{pid}/status") as status:
        return int(next(line.split()[1] for line in status if line.startswith(name + ":")))


def main():
    work = tempfile.mkdtemp()
    vol = os.path.join(work, "v")
    # Under a umask that hides nothing, so that modes are what they are made with.
    os.umask(0)
    run("create", vol, "--size", "256M")
    served = json.loads(run("serve", vol, "--json"))
    uri, pid = served["uri"], served["pid"]
    try:
        others = {name: os.lstat(f"{vol}/{name}").st_mode & 0o077 for name in ("lock", "volume.conf", "serve.log", "control.sock")}
        assert not any(others.values()), f"others have rights: {others}"
        assert os.lstat(f"{vol}/nbd.sock").st_mode & 0o022 == 0, "others may connect"

        first = connected(uri)
        assert first.get_block_size(nbd.SIZE_MAXIMUM) == REQUEST, "the longest request that clients are told of"
        block = os.urandom(1 << 20)
        for at in range(0, 128 << 20, 1 << 20):
            first.pwrite(block, at)
        first.flush()
        before = of_process(pid, "VmRSS")

        clients = [connected(uri) for _ in range(CONNECTIONS - 1)]
        try:
            connected(uri)
            raise AssertionError("one connection more than may be was taken")
        except nbd.Error as error:
            print("the one too many is told:", error)
        print(subprocess.run(["grep", "-m1", "clients are connected", f"{vol}/serve.log"], capture_output=True, text=True).stdout.strip())
        threads = of_process(pid, "Threads")
        print(f"{CONNECTIONS} connections: {threads} threads")
        assert threads <= CONNECTIONS * 17 + 64, f"{threads} threads"

        # Every client but the first asks for 64 MiB and reads nothing of it.
        buffers = []
        for nth, client in enumerate(clients):
            for request in range(256):
                buffer = nbd.Buffer(REQUEST)
                buffers.append(buffer)
                try:
                    client.aio_pread(buffer, (nth * 256 + request) * REQUEST % (128 << 20))
                except nbd.Error:
                    break
        worst = 0.0
        most = 0
        end = time.monotonic() + 5
        while time.monotonic() < end:
            begun = time.monotonic()
            assert first.pread(4096, 0) == block[:4096]
            worst = max(worst, time.monotonic() - begun)
            most = max(most, of_process(pid, "VmRSS"))
            time.sleep(0.01)
        print(f"slow readers: {(most - before) >> 10} MiB more memory, and another client waited {worst:.3f} s at most")
        assert (most - before) >> 10 <= 320, f"{(most - before) >> 10} MiB more memory"
        assert worst < 2, f"another client waited {worst} s"
        clients.pop().shutdown(nbd.SHUTDOWN_ABANDON_PENDING)
        # The place of one that left is another's, as soon as the server has seen that it left.
        for _ in range(100):
            try:
                connected(uri)
                break
            except nbd.Error:
                time.sleep(0.05)
        else:
            raise AssertionError("the place of a client that left stays taken")
    finally:
        run("stop", vol)
    print("bounds.py: connections, threads and memory are bounded")


if __name__ == "__main__":
    sys.exit(main())
