#!/usr/bin/env python3
"""What a recovery costs in a cluster that is up: sourced by `e2e figures`, which says what for.

    figures.py CLUSTER POOL LOSSES OBJECTS LIMIT

CLUSTER is the folder of cluster.sh, POOL an empty pool of as many placement groups as there are
sets of LOSSES shards of its code; the cluster has LOSSES more OSDs than the code has chunks. Each
set of shards is lost in one group, so that the mean over all sets is measured, with OBJECTS objects
of 4 MiB in each group. The OSDs that are lost are the first ones; what they held is recovered onto
OSDs that are left and not yet in the group. LIMIT is what each disk reads, and what it writes, in
MB/s; 0 is no limit. Prints a line of the record.

Pools of one shape have the same objects in the same places, whatever their code.
"""
import hashlib
import itertools
import json
import math
import os
import random
import signal
import socket
import sys
import time

import rados

OBJECT_BYTES = 4 << 20
# The document: "We set the number of Ceph recovery threads as five."
RECOVERIES = 5


class Cluster:
    def __init__(self, folder):
        self.folder = folder
        self.client = rados.Rados(conffile=folder + "/ceph.conf")
        self.client.connect()

    def command(self, prefix, **words):
        status, out, why = self.client.mon_command(json.dumps({"prefix": prefix, "format": "json", **words}), b"")
        if status:
            sys.exit(f"figures.py: {prefix} {words}: {why}")
        return json.loads(out) if out.strip() else None

    def wait(self, what, seconds, is_so):
        end = time.monotonic() + seconds
        while not is_so():
            if time.monotonic() > end:
                sys.exit(f"figures.py: {what}: {self.command('pg stat')}")
            time.sleep(0.1)

    def states(self, pool):
        """The state of each placement group of a pool."""
        return [group["state"] for group in self.command("pg ls-by-pool", poolstr=pool)["pg_stats"]]

    def is_clean(self, pool):
        return set(self.states(pool)) == {"active+clean"}

    def osds(self):
        return sorted(osd["osd"] for osd in self.command("osd dump")["osds"])

    def pid(self, osd):
        return int(open(f"{self.folder}/run/osd.{osd}.pid").read())

    def daemon(self, osd, **words):
        """An answer of an OSD's own socket."""
        with socket.socket(socket.AF_UNIX) as own:
            own.connect(f"{self.folder}/run/osd.{osd}.asok")
            own.sendall(json.dumps({"format": "json", **words}).encode() + b"\0")
            with own.makefile("rb") as answer:
                return json.loads(answer.read(int.from_bytes(answer.read(4), "big")) or "null")


class Disks:
    """Limits of what each OSD reads and writes past the page cache, where this machine has them."""

    V1, V2 = "/sys/fs/cgroup/blkio", "/sys/fs/cgroup"

    def __init__(self, folder, osds, pids, limit):
        device = os.stat(folder).st_dev
        self.device, self.is_v1 = f"{os.major(device)}:{os.minor(device)}", os.path.isdir(self.V1)
        self.groups, self.limit, self.why = {}, limit, None
        if not limit:
            self.why = "no limit is asked for"
            return
        try:
            for osd in osds:
                group = f"{self.V1 if self.is_v1 else self.V2}/pantile-ceph-{os.getpid()}-{osd}"
                os.mkdir(group)
                self.groups[osd] = group
                self.write(osd, "cgroup.procs", pids[osd])
        except OSError as error:
            self.why = f"no group of disks: {error}"

    def write(self, osd, name, what):
        with open(f"{self.groups[osd]}/{name}", "w") as to:
            to.write(str(what))

    def throttle(self, limit):
        """0 is none."""
        if self.why:
            return
        bytes_s = limit * 1_000_000
        try:
            for osd in self.groups:
                if self.is_v1:
                    for way in "read", "write":
                        self.write(osd, f"blkio.throttle.{way}_bps_device", f"{self.device} {bytes_s}")
                else:
                    most = bytes_s or "max"
                    self.write(osd, "io.max", f"{self.device} rbps={most} wbps={most}")
        except OSError as error:
            self.why = f"disks cannot be limited: {error}"

    def end(self):
        """Processes go back to where all are; groups end."""
        for osd, group in self.groups.items():
            for pid in open(f"{group}/cgroup.procs").read().split():
                try:
                    with open(f"{self.V1 if self.is_v1 else self.V2}/cgroup.procs", "w") as to:
                        to.write(pid)
                except OSError:
                    pass
            os.rmdir(group)


def content(i):
    return random.Random(i).randbytes(OBJECT_BYTES)


def processor_seconds(pid):
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def machine_seconds():
    """Seconds of all processors, and those of them in which they did something."""
    fields = [int(field) for field in open("/proc/stat").readline().split()[1:9]]
    idle = fields[3] + fields[4]
    return sum(fields) / os.sysconf("SC_CLK_TCK"), (sum(fields) - idle) / os.sysconf("SC_CLK_TCK")


def counters(cluster, osd, pid):
    """Bytes read from the disk for objects, sent to others and written, seconds of the processor."""
    dump = cluster.daemon(osd, prefix="perf dump")
    sent = sum(of["msgr_send_bytes"] for name, of in dump.items() if name.startswith("AsyncMessenger::Worker"))
    written = [line for line in open(f"/proc/{pid}/io") if line.startswith("write_bytes")][0]
    store = dump["bluestore"]
    read = store["bluestore_buffer_miss_bytes" if "bluestore_buffer_miss_bytes" in store else "buffer_miss_bytes"]
    return read, sent, int(written.split()[1]), processor_seconds(pid)


def places(chunks, lost_sets, lost, left):
    """For each group its OSDs before and after."""
    # Every OSD is at every place nearly as often as others, whatever a code reads first.
    steps = [step for step in range(1, len(left)) if math.gcd(step, len(left)) == 1]
    for group, shards in enumerate(lost_sets):
        step = steps[group // len(left) % len(steps)]
        ready = iter([left[(group + i * step) % len(left)] for i in range(len(left))])
        gone = iter(lost[group % len(lost):] + lost[:group % len(lost)])
        before = [next(gone) if shard in shards else next(ready) for shard in range(chunks)]
        yield before, [next(ready) if shard in shards else before[shard] for shard in range(chunks)]


def main():
    folder, pool, losses, objects, limit = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6])
    cluster = Cluster(folder)
    numbers = {of["pool_name"]: of for of in cluster.command("osd dump")["pools"]}[pool]
    number, chunks = numbers["pool"], numbers["size"]
    osds = cluster.osds()
    lost, left = osds[:losses], osds[losses:]
    lost_sets = list(itertools.combinations(range(chunks), losses))
    if len(osds) != chunks + losses or numbers["pg_num"] != len(lost_sets):
        sys.exit(f"figures.py: {pool} needs {chunks + losses} OSDs and {len(lost_sets)} placement groups")
    names = [f"{number}.{group:x}" for group in range(len(lost_sets))]
    way = list(places(chunks, lost_sets, lost, left))

    def put(which):
        for name, both in zip(names, way):
            cluster.command("osd pg-upmap", pgid=name, id=both[which])

    put(0)
    cluster.wait("groups are not in their first places", 120, lambda: cluster.is_clean(pool))

    # As many objects in each group: names are tried until all have theirs.
    missing, written = {name: objects for name in names}, {}
    with cluster.client.open_ioctx(pool) as pool_io:
        flying = []
        for i in itertools.count():
            if not any(missing.values()):
                break
            group = cluster.command("osd map", pool=pool, object=f"o{i}")["pgid"]
            if missing[group]:
                missing[group] -= 1
                # The contents are the same in every pool, though names are not.
                at = names.index(group) * objects + missing[group]
                data = content(at)
                written[f"o{i}"] = hashlib.sha256(data).digest()
                flying.append(pool_io.aio_write_full(f"o{i}", data))
                if len(flying) >= 8:
                    flying.pop(0).wait_for_complete_and_cb()
        for each in flying:
            each.wait_for_complete_and_cb()
    pids = {osd: cluster.pid(osd) for osd in left}
    for flag in "norecover", "nobackfill":
        cluster.command("osd set", key=flag)
    for osd in lost:
        os.kill(cluster.pid(osd), signal.SIGKILL)
    cluster.command("osd down", ids=[str(osd) for osd in lost])
    put(1)

    def is_ready():
        return all("active+" in state and ("backfill" in state or "recover" in state) for state in cluster.states(pool))

    cluster.wait("groups do not see what is lost", 120, is_ready)
    for osd in left:
        cluster.daemon(osd, prefix="config set", var="osd_recovery_max_active", val=[str(RECOVERIES)])
        cluster.daemon(osd, prefix="config set", var="osd_max_backfills", val=[str(len(names))])
    # What was put off until later is on the disk.
    os.sync()
    time.sleep(3)

    disks = Disks(folder, left, pids, limit)
    try:
        disks.throttle(limit)
        before = {osd: counters(cluster, osd, pids[osd]) for osd in left}
        machine, start = machine_seconds(), time.monotonic()
        for flag in "norecover", "nobackfill":
            cluster.command("osd unset", key=flag)
        cluster.wait("not recovered", 900, lambda: cluster.is_clean(pool))
        seconds = time.monotonic() - start
        machine = [after - of for after, of in zip(machine_seconds(), machine)]
        after = {osd: counters(cluster, osd, pids[osd]) for osd in left}
        disks.throttle(0)
    finally:
        disks.end()
    spent = {osd: [b - a for a, b in zip(before[osd], after[osd])] for osd in left}
    read, sent, wrote, processor = (sum(of[i] for of in spent.values()) for i in range(4))
    most = max(of[0] for of in spent.values())

    with cluster.client.open_ioctx(pool) as pool_io:
        for name, sum_of in written.items():
            if hashlib.sha256(pool_io.read(name, OBJECT_BYTES + 1)).digest() != sum_of:
                sys.exit(f"figures.py: object {name} of {pool} is not what was written")
    user = len(written) * OBJECT_BYTES
    megabytes = 1e6
    busy = most / (seconds * limit * megabytes) if not disks.why else float("nan")
    print(f"{read / user:.4f} {read / megabytes / len(left):.1f} {most / megabytes:.1f} {sent / megabytes:.0f} {wrote / megabytes:.0f} "
          f"{processor:.1f} {seconds:.1f} {busy:.2f} {processor / seconds / os.cpu_count():.2f} {machine[1] / machine[0]:.2f}")
    if disks.why:
        print(f"figures.py: {disks.why}: bytes stand, times do not", file=sys.stderr)


main()
