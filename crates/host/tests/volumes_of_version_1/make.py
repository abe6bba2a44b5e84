#!/usr/bin/python3
"""Makes the images beside this script: small volumes of format version 1, as the build of commit 7fa41de writes them.

    PANTILE=/path/to/that/pantile ./make.py [NAME...]

Needs nbdkit and python3-libnbd. Images are drawn once and kept: another run draws other ids and other times. Each NAME.image
has all devices (the blocks that are not zeros, each packed as runs and literals; `unpack` in ../host/images.rs is the
definition), each NAME.txt the folder's volume.conf and, behind the line "expect", what its user must read: OFFSET LENGTH BYTE.
"""
import json, os, signal, struct, subprocess, sys, tempfile, time
import nbd

PANTILE = os.environ.get("PANTILE", "pantile")
HERE = os.path.dirname(os.path.abspath(__file__))
BLOCK = 4096


def run(*args, ok=(0,)):
    result = subprocess.run([PANTILE, *args], capture_output=True, text=True)
    if result.returncode not in ok:
        sys.exit(f"{args}: {result.returncode} {result.stdout} {result.stderr}")
    return result.stdout


class Volume:
    def __init__(self, folder, code, policy="wcl", size="1M"):
        self.root, self.held, self.pid = os.path.join(folder, "v"), {}, None
        run("create", self.root, "--code", code, "--policy", policy, "--size", size, "--name", "old")

    def serve(self):
        self.pid = json.loads(run("serve", self.root, "--json"))["pid"]
        self.client = nbd.NBD()
        self.client.connect_uri(f"nbd+unix:///?socket={self.root}/nbd.sock")

    def write(self, first, count, byte, flush=True, sure=True):
        self.client.pwrite(bytes([byte]) * (count * BLOCK), first * BLOCK)
        if flush:
            self.client.flush()
        for block in range(first, first + count):
            self.held[block] = byte if sure else None

    def stop(self):
        self.client.shutdown()
        run("stop", self.root)

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)
        while os.path.exists(f"/proc/{self.pid}"):
            time.sleep(0.01)
        # Whoever keeps the server would start it again: it is told to stop when it has.
        for _ in range(200):
            if subprocess.run([PANTILE, "stop", self.root], capture_output=True).returncode == 0:
                break
            time.sleep(0.05)


class Foreground(Volume):
    """Without a keeper, so that a kill leaves the devices as they are."""

    def serve(self):
        self.server = subprocess.Popen([PANTILE, "serve", self.root, "--foreground"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while True:
            # One that could not connect is of no more use.
            self.client = nbd.NBD()
            try:
                self.client.connect_uri(f"nbd+unix:///?socket={self.root}/nbd.sock")
                return
            except nbd.Error:
                time.sleep(0.05)

    def kill(self):
        self.server.kill()
        self.server.wait()


def some_writes(volume):
    volume.write(0, 64, 1)
    volume.write(3, 1, 2)
    volume.write(17, 2, 3)
    volume.write(100, 30, 4)
    volume.write(101, 1, 5)


def raid6_stopped(folder):
    volume = Volume(folder, "raid6:4")
    volume.serve()
    some_writes(volume)
    volume.stop()
    return volume


def dcode_stopped(folder):
    volume = Volume(folder, "dcode:5")
    volume.serve()
    some_writes(volume)
    volume.stop()
    return volume


def mirror_killed(folder):
    volume = Foreground(folder, "mirror:2")
    volume.serve()
    some_writes(volume)
    volume.write(40, 4, 6, flush=False, sure=False)
    volume.kill()
    return volume


def raid5_inplace_killed(folder):
    volume = Foreground(folder, "raid5:3", "inplace")
    volume.serve()
    some_writes(volume)
    volume.write(20, 3, 7)
    volume.kill()
    return volume


def raid6_degraded(folder):
    volume = Volume(folder, "raid6:4")
    volume.serve()
    some_writes(volume)
    run("fail", volume.root, "1")
    volume.write(50, 20, 8)
    volume.stop()
    return volume


def raid6_inplace_degraded_killed(folder):
    volume = Foreground(folder, "raid6:4", "inplace")
    volume.serve()
    some_writes(volume)
    run("fail", volume.root, "2")
    volume.write(50, 20, 8)
    volume.kill()
    return volume


def custom_stopped(folder):
    text = os.path.join(folder, "own.code")
    with open(text, "w") as out:
        out.write(run("show", "rdp:4", "--text"))
    volume = Volume(folder, text)
    volume.serve()
    some_writes(volume)
    volume.stop()
    return volume


def raid6_epoch_killed(folder):
    volume = Foreground(folder, "raid6:4")
    volume.serve()
    some_writes(volume)
    volume.client.flush()
    epoch = subprocess.run([PANTILE, "delayed", "start", volume.root, "--json"], capture_output=True, text=True)
    if epoch.returncode != 0:
        sys.exit(f"no epoch: {epoch.stdout} {epoch.stderr}")
    within = nbd.NBD()
    name = json.loads(epoch.stdout)
    within.set_export_name(f"epoch-{name['epoch']}")
    within.connect_uri(f"nbd+unix:///epoch-{name['epoch']}?socket={volume.root}/nbd.sock")
    within.pwrite(bytes([9]) * (32 * BLOCK), 0)
    within.flush()
    volume.kill()
    return volume


def pack(block):
    out, at = bytearray(), 0
    while at < len(block):
        end = at
        while end < len(block) and block[end] == block[at] and end - at < 129:
            end += 1
        if end - at >= 2:
            out += bytes([126 + end - at, block[at]])
            at = end
            continue
        end = at
        while end < len(block) and end - at < 128 and not (end + 2 < len(block) and block[end] == block[end + 1] == block[end + 2]):
            end += 1
        out += bytes([end - at - 1]) + block[at:end]
        at = end
    return bytes(out)


def save(name, volume):
    names = sorted(n for n in os.listdir(volume.root) if n.startswith("device-"))
    out = bytearray(b"PANTIMAG" + struct.pack("<I", len(names)))
    for device in names:
        with open(os.path.join(volume.root, device), "rb") as file:
            data = file.read()
        blocks = [(at // BLOCK, pack(data[at:at + BLOCK])) for at in range(0, len(data), BLOCK) if any(data[at:at + BLOCK])]
        out += struct.pack("<IQI", int(device[7:9]), len(data), len(blocks))
        for number, packed in blocks:
            out += struct.pack("<QH", number, len(packed)) + packed
    with open(os.path.join(HERE, name + ".image"), "wb") as file:
        file.write(out)
    with open(os.path.join(volume.root, "volume.conf")) as conf, open(os.path.join(HERE, name + ".txt"), "w") as text:
        text.write(conf.read() + "expect\n")
        for block, byte in sorted(volume.held.items()):
            if byte is not None:
                text.write(f"{block * BLOCK} {BLOCK} {byte}\n")
    print(name, len(out))


ALL = {f.__name__: f for f in (raid6_stopped, dcode_stopped, mirror_killed, raid5_inplace_killed, raid6_degraded,
                               raid6_inplace_degraded_killed, custom_stopped, raid6_epoch_killed)}
for name in sys.argv[1:] or ALL:
    with tempfile.TemporaryDirectory() as folder:
        save(name, ALL[name](folder))
