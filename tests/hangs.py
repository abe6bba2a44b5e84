#!/usr/bin/python3
"""A member on a file system that stops answering: the volume goes on without it, and every command answers.

    PANTILE=target/debug/pantile tests/hangs.py [CASE...]

Cases: `goes-on` (the member hangs while four clients write; it is lost after 30 s and they go on),
`stops` (the volume is stopped while its member has just begun to hang, and opened without it),
`strays` (members are deleted, renamed and exchanged under a server). They run side by side, 50 s.
More of them by name: `KIND-hangs` with a kind of request of hanging_file.py (`getattr-hangs`),
`slow` (40 s a request), `loop` (a loop device on the member), `stopped` (the file system's server
gets SIGSTOP).

Needs nbdkit, python3-libnbd, fuse3 and /dev/fuse; says so and ends well where there is no /dev/fuse.
PANTILE_PATIENCE: how many times the seconds of a quiet machine an answer may take (default 5).
"""
import json, os, random, shutil, signal, subprocess, sys, tempfile, threading, time, traceback
import nbd

PANTILE = os.path.abspath(os.environ.get("PANTILE", "target/debug/pantile"))
PATIENCE = float(os.environ.get("PANTILE_PATIENCE", "5"))
HERE = os.path.dirname(os.path.abspath(__file__))
MEMBER_BYTES, DATA_BYTES = 43 << 20, 8 << 20
LOST_AFTER = 30


class Volume:
    """raid6:4 of six files, the second on a file system that can hang."""

    def __init__(self, name, work, on_loop=False, hangs=True):
        self.name, self.dir = name, os.path.join(work, name)
        self.mount, self.rules = self.dir + "/m", self.dir + "/rules"
        os.makedirs(self.mount)
        self.answer()
        self.vol, self.fuse, self.loop = self.dir + "/v", None, None
        paths = []
        for i in range(6):
            paths.append(f"{self.dir}/d{i}")
            with open(paths[-1], "wb") as file:
                file.truncate(MEMBER_BYTES)
        if hangs:
            self.fuse = subprocess.Popen([sys.executable, HERE + "/hanging_file.py", self.mount, paths[1], self.rules])
            while not os.path.ismount(self.mount):
                assert self.fuse.poll() is None, "no file system"
                time.sleep(0.02)
            paths[1] = self.mount + "/disk"
        if on_loop:
            self.loop = self.run("losetup", "--find", "--show", paths[1], program="")
            paths[1] = self.loop
        self.paths = paths
        self.run("create", self.vol, "--code", "raid6:4", "--devices", *paths)
        self.serve()
        self.data = random.Random(1).randbytes(DATA_BYTES)
        client = self.client()
        for at in range(0, DATA_BYTES, 1 << 20):
            client.pwrite(self.data[at:at + (1 << 20)], at)
        client.flush()
        self.worst = 0

    def say(self, *words):
        print(f"{self.name}:", *words, flush=True)

    def run(self, *arguments, program=PANTILE, status=0, timeout=120):
        command = [program, *arguments] if program else list(arguments)
        begun = time.time()
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
        self.took = time.time() - begun
        assert status is None or done.returncode == status, (self.name, arguments, done.returncode, done.stdout, done.stderr)
        return (done.stdout + done.stderr).strip()

    def serve(self):
        self.uri = json.loads(self.run("serve", self.vol, "--json"))["uri"]

    def client(self):
        handle = nbd.NBD()
        handle.connect_uri(self.uri)
        return handle

    def hang(self, rules):
        if rules == "stopped":
            os.kill(self.fuse.pid, signal.SIGSTOP)
            return
        with open(self.rules + ".new", "w") as file:
            file.write(rules)
        os.rename(self.rules + ".new", self.rules)

    def answer(self):
        self.hang("")

    def status(self):
        """The status, which waits for no device."""
        report = json.loads(self.run("status", self.vol, "--json", status=None))
        assert self.took < 1 * PATIENCE, f"{self.name}: status took {self.took:.1f} s"
        self.run("status", self.vol, status=None)
        self.worst = max(self.worst, self.took)
        assert self.took < 1 * PATIENCE, f"{self.name}: status took {self.took:.1f} s"
        return report

    def stop(self):
        said = self.run("stop", self.vol)
        self.say(f"stop took {self.took:.1f} s:", said)
        assert self.took < 10 * PATIENCE, f"{self.name}: stop took {self.took:.1f} s"
        return said

    def compare(self):
        client = self.client()
        for at in range(0, DATA_BYTES, 1 << 20):
            assert client.pread(1 << 20, at) == self.data[at:at + (1 << 20)], f"{self.name}: wrong at {at}"

    def end(self):
        if self.fuse:
            # Its death ends every request, so everybody who waits goes on.
            self.fuse.kill()
            self.fuse.wait()
            subprocess.run(["fusermount3", "-uz", self.mount], stderr=subprocess.DEVNULL)
        subprocess.run([PANTILE, "stop", self.vol], capture_output=True, timeout=120)
        if self.loop:
            subprocess.run(["losetup", "-d", self.loop])


def goes_on(volume, rules):
    """The member hangs under load: it is lost after its time, and clients go on."""
    ended, faults = [], []

    def load(seed):
        chance, client = random.Random(seed), volume.client()
        try:
            for _ in range(60):
                at = chance.randrange(DATA_BYTES // 4096) * 4096
                client.pwrite(volume.data[at:at + 4096], at)
                client.flush()
                client.pread(4096, chance.randrange(DATA_BYTES // 4096) * 4096)
            ended.append(time.time())
        except nbd.Error as fault:
            faults.append(fault)

    volume.hang(rules)
    begun = time.time()
    clients = [threading.Thread(target=load, args=(seed,), daemon=True) for seed in range(4)]
    for client in clients:
        client.start()
    while len(ended) + len(faults) < 4 and time.time() - begun < (LOST_AFTER + 10) * PATIENCE:
        volume.status()
        time.sleep(0.5)
    assert len(ended) == 4 and not faults, f"{volume.name}: {len(ended)} of 4 clients ended, {faults}"
    volume.say(f"clients went on after {max(ended) - begun:.0f} s, the slowest status took {volume.worst:.2f} s")
    report = volume.status()
    lost = [device["device"] for device in report["devices"] if device["state"] == "lost"]
    # Names and closings that hang are no reason to lose a device that reads and writes.
    hanging = [] if rules in ("lookup", "open", "flush", "release", "statfs") else [1]
    assert lost == hanging and report["margin"]["any_more"] == 2 - len(hanging), (volume.name, report["wrong"])
    volume.compare()
    volume.run("fail", volume.vol, "1")
    assert volume.took < 5 * PATIENCE, f"fail took {volume.took:.1f} s"
    volume.stop()
    assert json.loads(volume.run("status", volume.vol, "--json", status=None))["margin"]["any_more"] == 1


def stops(volume, rules):
    """It is stopped before anybody knows that a member hangs, and served again while it does."""
    volume.hang(rules)
    client = volume.client()
    client.pwrite(volume.data[:4096], 0)
    said = volume.stop()
    assert "is left behind" in said, said
    begun = time.time()
    volume.serve()
    volume.say(f"opened without the member after {time.time() - begun:.0f} s")
    assert time.time() - begun < 25 * PATIENCE
    report = volume.status()
    assert [device["device"] for device in report["devices"] if device["state"] == "lost"] == [1], report["wrong"]
    volume.compare()
    volume.stop()
    volume.answer()
    volume.serve()
    volume.run("rebuild", volume.vol, "--wait", status=None)
    assert all(device["state"] == "present" for device in volume.status()["devices"]), volume.status()["wrong"]


def strays(volume, _rules):
    """Members that the next start would not find are named within a minute, and count as lost in the margin."""
    os.unlink(volume.paths[0])
    os.rename(volume.paths[2], volume.paths[2] + ".aside")
    shutil.copyfile(volume.paths[3], volume.paths[2])
    begun = time.time()
    while True:
        report = volume.status()
        wrong = " ".join(report["wrong"])
        if "its file was deleted" in wrong and "another file or device is at its path" in wrong:
            break
        assert time.time() - begun < 60 * max(1, PATIENCE / 2), f"they are not named: {wrong}"
        time.sleep(1)
    volume.say(f"named after {time.time() - begun:.0f} s:", wrong)
    assert report["margin"]["any_more"] == 0 and report["margin"]["survives"], report["margin"]
    assert report["verdict"] == "degraded", report["verdict"]
    refused = volume.run("fail", volume.vol, "4", status=2)
    assert "could not be read" in refused and "these may go: 0 2" in refused, refused
    with open(volume.dir + "/new", "wb") as file:
        file.truncate(MEMBER_BYTES)
    volume.run("replace", volume.vol, "0", volume.dir + "/new")
    os.rename(volume.paths[2] + ".aside", volume.paths[2])
    begun = time.time()
    while (report := volume.status())["verdict"] not in ("clean", "warned"):
        assert time.time() - begun < 60 * max(1, PATIENCE / 2), report["wrong"]
        time.sleep(1)
    assert report["margin"]["any_more"] == 2


def main():
    if not os.path.exists("/dev/fuse"):
        print("left out: this machine has no /dev/fuse")
        return
    work = tempfile.mkdtemp()
    failed, volumes = [], []

    def play(case):
        scenes = {"stops": stops, "strays": strays}
        rules = {"slow": "all=40", "stopped": "stopped"}.get(case, case.removesuffix("-hangs") if case.endswith("-hangs") else "all")
        volume = None
        try:
            volume = Volume(case, work, on_loop=case == "loop", hangs=case != "strays")
            volumes.append(volume)
            scenes.get(case, goes_on)(volume, rules)
        except Exception as fault:
            failed.append(case)
            print(f"{case}:", "".join(traceback.format_exception(fault)), flush=True)
            log = os.path.join(work, case, "v", "serve.log")
            if os.path.exists(log):
                print(open(log).read()[-2000:], flush=True)

    begun = time.time()
    players = [threading.Thread(target=play, args=(case,)) for case in sys.argv[1:] or ["goes-on", "stops", "strays"]]
    for player in players:
        player.start()
    for player in players:
        player.join()
    for volume in volumes:
        volume.end()
    shutil.rmtree(work, ignore_errors=True)
    print(f"{time.time() - begun:.0f} s")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
