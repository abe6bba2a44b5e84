"""The experiments of RAIDP's slides, on clusters of processes: HDFS with two and three copies, RAIDP
and RS-6-3 write, read, sort, write anew, lose two nodes. Run by integrations/hdfs/experiments.

Each node is a network namespace behind one bridge, with a DataNode and a worker (Tera.java); its
disk is a loop device of its own on memory, limited by blkio. So bytes sent are those of the ports
of the bridge, and bytes of disks and add-ons those of their block devices, whoever caused them.
"""

import argparse
import concurrent.futures
import os
import re
import shutil
import signal
import subprocess
import sys
import time

MB = 1e6
MIB = 1 << 20
HDFS = "org.apache.hadoop.hdfs"
RAIDP = ("raidp", "raidp-next")
SYSTEMS = ("hdfs-2", "hdfs-3", "raidp", "raidp-next", "rs-6-3")
LOST = (3, 8)
ROW_BYTES = 100

HEAD = (
    "system | experiment | round | seconds | sent MB | disks wrote MB | disks read MB | add-ons wrote MB"
    " | add-ons read MB | processor s | machine busy"
)


class Failed(Exception):
    """The experiment cannot go on."""


def say(what):
    print(f"   {what}", file=sys.stderr, flush=True)


def call(*words):
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


def start(words, **keys):
    """A process that ends with this one."""
    return subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *words], **keys)


def within(seconds, what, test):
    end = time.monotonic() + seconds
    while not test():
        if time.monotonic() > end:
            raise Failed(f"not within {seconds} s: {what}")
        time.sleep(0.2)


class Disk:
    """A file system on a loop device on memory."""

    THROTTLE = "/sys/fs/cgroup/blkio/blkio.throttle.{}_bps_device"

    def __init__(self, folder, mib):
        self.folder = folder
        os.makedirs(folder)
        image = f"/dev/shm/pantile-hdfs-{os.getpid()}-{os.path.basename(folder)}"
        try:
            with open(image, "wb") as to:
                to.truncate(mib * MIB)
            call("mkfs.ext4", "-q", "-O", "^has_journal", "-E", "nodiscard", "-m", "0", image)
            call("mount", "-o", "loop,discard,noatime", image, folder)
        finally:
            os.remove(image)
        device = os.stat(folder).st_dev
        self.device = f"{os.major(device)}:{os.minor(device)}"

    def limit(self, mb_s):
        """Bytes a second, in each direction, whoever asks; 0 is none. Only blkio's version 1 can."""
        for way in "read", "write":
            with open(self.THROTTLE.format(way), "w") as to:
                to.write(f"{self.device} {int(mb_s * MB)}")

    def moved(self):
        """Bytes read and written so far."""
        call("sync", "-f", self.folder)
        with open(f"/sys/dev/block/{self.device}/stat") as stat:
            fields = [int(field) for field in stat.read().split()]
        return fields[2] * 512, fields[6] * 512

    def forget(self):
        """What is cached of its files, is read from the device next time."""
        call("sync", "-f", self.folder)
        for folder, _, names in os.walk(self.folder):
            for name in names:
                try:
                    file = os.open(os.path.join(folder, name), os.O_RDONLY)
                except FileNotFoundError:
                    continue
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
                os.close(file)

    def end(self):
        call("umount", "-l", self.folder)


class Net:
    """Namespaces behind a bridge; 0 is the NameNode's, which has the bridge, i + 1 that of node i."""

    def __init__(self, nodes):
        self.holders = [start(["unshare", "-n", "sleep", "infinity"]) for _ in range(nodes + 1)]
        ours = os.readlink("/proc/self/ns/net")
        within(10, "namespaces", lambda: all(os.readlink(f"/proc/{one.pid}/ns/net") != ours for one in self.holders))
        self.run(0, "ip", "link", "add", "bridge", "type", "bridge")
        self.run(0, "ip", "addr", "add", f"{self.address(0)}/24", "dev", "bridge")
        for one in range(nodes + 1):
            self.run(one, "ip", "link", "set", "lo", "up")
        self.run(0, "ip", "link", "set", "bridge", "up")
        for one in range(1, nodes + 1):
            pid = str(self.holders[one].pid)
            self.run(0, "ip", "link", "add", f"port{one}", "type", "veth", "peer", "name", "eth0", "netns", pid)
            self.run(0, "ip", "link", "set", f"port{one}", "master", "bridge", "up")
            self.run(one, "ip", "addr", "add", f"{self.address(one)}/24", "dev", "eth0")
            self.run(one, "ip", "link", "set", "eth0", "up")

    @staticmethod
    def address(one):
        return f"10.77.0.{one + 1}"

    def inside(self, one, *words):
        return ["nsenter", "-t", str(self.holders[one].pid), "-n", *words]

    def run(self, one, *words):
        call(*self.inside(one, *words))

    def limit(self, mb_s):
        """What each node sends and gets; 0 is none."""
        for one in range(1, len(self.holders)):
            for where, name in (one, "eth0"), (0, f"port{one}"):
                bucket = ["root", "tbf", "rate", f"{int(mb_s * 8 * MB)}bit", "burst", "128k", "latency", "200ms"]
                self.run(where, "tc", "qdisc", *(["replace", "dev", name, *bucket] if mb_s else ["del", "dev", name, "root"]))

    def sent(self):
        """Bytes that nodes sent through their ports so far, headers and all."""
        with open(f"/proc/{self.holders[0].pid}/net/dev") as lines:
            return sum(int(line.split(":")[1].split()[0]) for line in lines if line.strip().startswith("port"))

    def end(self):
        for one in self.holders:
            one.kill()
            one.wait()


class Worker:
    """A Tera that is told what to do."""

    def __init__(self, process):
        self.process = process

    def ask(self, command):
        self.process.stdin.write(f"{command}\n".encode())
        self.process.stdin.flush()

    def answer(self):
        line = self.process.stdout.readline().decode()
        if not line.startswith("good "):
            raise Failed(f"a worker says: {line.strip() or 'nothing'}")
        return line[5:].strip()

    def do(self, command):
        self.ask(command)
        return self.answer()


class Cluster:
    def __init__(self, options, system):
        self.options, self.system, self.nodes = options, system, options.nodes
        self.folder = f"{options.folder}/{system}"
        os.makedirs(f"{self.folder}/tmp")
        self.net, self.disks, self.add_ons = None, [], None
        self.name_node, self.data_nodes, self.workers, self.admin = None, {}, {}, None
        self.limited = None

    @property
    def is_raidp(self):
        return self.system in RAIDP

    @property
    def copies(self):
        """Copies of a block, or units of a group, when nothing is lost."""
        return {"hdfs-3": 3, "rs-6-3": 9}.get(self.system, 2)

    def site(self, node):
        """hdfs-site.xml of a node, or of the NameNode and clients for None."""
        of = {
            "dfs.namenode.name.dir": f"{self.folder}/name",
            "dfs.namenode.http-address": f"{Net.address(0)}:9870",
            "dfs.namenode.datanode.registration.ip-hostname-check": "false",
            "dfs.heartbeat.interval": "1",
            "dfs.namenode.heartbeat.recheck-interval": "3000",
            "dfs.namenode.redundancy.interval.seconds": "1",
            "dfs.namenode.replication.max-streams": "8",
            "dfs.namenode.replication.max-streams-hard-limit": "16",
            "dfs.namenode.reconstruction.pending.timeout-sec": "30",
            "dfs.namenode.safemode.extension": "0",
            "dfs.blocksize": str(self.options.block_mib * MIB),
            "dfs.replication": str(min(self.copies, 3)),
            "dfs.datanode.round-robin-volume-choosing-policy.additional-available-space": "0",
            "dfs.datanode.synconclose": "true",
        }
        if self.is_raidp:
            of |= {
                "dfs.block.replicator.classname": f"{HDFS}.server.blockmanagement.RaidpPlacementPolicy",
                "dfs.replication.max": "2",
                "dfs.storage.policy.enabled": "false",
                "dfs.disk.balancer.enabled": "false",
            }
        if node is not None:
            address, disk = Net.address(node + 1), f"{self.folder}/disk{node}"
            of |= {
                "dfs.datanode.data.dir": disk + "/data",
                "dfs.datanode.hostname": address,
                "dfs.datanode.address": f"{address}:9866",
                "dfs.datanode.http.address": f"{address}:9864",
                "dfs.datanode.ipc.address": f"{address}:9867",
            }
            if self.is_raidp:
                of |= {
                    "dfs.datanode.data.dir": ",".join(f"{disk}/{other}" for other in range(self.nodes)),
                    "dfs.datanode.fsdataset.factory": "pantile.hdfs.raidp.DatasetFactory",
                    "dfs.datanode.fsdataset.volume.choosing.policy": "pantile.hdfs.raidp.VolumePolicy",
                    "pantile.raidp.array": "test",
                    "pantile.raidp.disks": str(self.nodes),
                    "pantile.raidp.disk": str(node),
                    "pantile.raidp.addon": self.add_on(node),
                    "pantile.raidp.addon.bytes": str(self.options.add_on_mib * MIB),
                }
            if self.system == "raidp-next":
                of |= {
                    "pantile.raidp.server.address": f"{address}:9900",
                    "pantile.raidp.server.folder": f"{self.add_ons.folder}/{node}",
                }
        return of

    def add_on(self, node):
        """Where a disk's add-on is: beside it, or with the next node."""
        if self.system == "raidp":
            return f"{self.add_ons.folder}/{node}"
        return f"{Net.address((node + 1) % self.nodes + 1)}:9900"

    def configure(self, name, properties):
        rows = "".join(f"<property><name>{key}</name><value>{value}</value></property>\n" for key, value in properties.items())
        with open(f"{self.folder}/{name}.xml", "w") as to:
            to.write(f"<configuration>\n{rows}</configuration>\n")

    def conf(self, node):
        folder = f"{self.folder}/conf{'' if node is None else node}"
        os.makedirs(folder, exist_ok=True)
        name = os.path.basename(folder)
        self.configure(
            f"{name}/core-site",
            {
                "fs.defaultFS": f"hdfs://{Net.address(0)}:8020",
                "hadoop.tmp.dir": f"{self.folder}/tmp",
                "io.erasurecode.codec.rs.rawcoders": "rs_pantile_native,rs_java",
            },
        )
        self.configure(f"{name}/hdfs-site", self.site(node))
        with open(f"{folder}/log4j.properties", "w") as to:
            to.write(
                "log4j.rootLogger=WARN,console\nlog4j.logger.pantile=INFO\n"
                "log4j.appender.console=org.apache.log4j.ConsoleAppender\n"
                "log4j.appender.console.target=System.err\n"
                "log4j.appender.console.layout=org.apache.log4j.PatternLayout\n"
                "log4j.appender.console.layout.ConversionPattern=%d{HH:mm:ss,SSS} %p %c{1}: %m%n\n"
            )
        return folder

    def java(self, one, conf, heap, *words):
        """The words of a command in a namespace."""
        options = self.options
        path = f"{conf}:{options.jar}:{options.classpath}"
        flags = [f"-Xmx{heap}m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Djava.io.tmpdir={self.folder}/tmp"]
        return self.net.inside(one, "java", *flags, "-cp", path, *words)

    def log(self, name):
        return open(f"{self.folder}/{name}.log", "ab")

    def worker(self, one):
        command = self.java(one, f"{self.folder}/conf", 400, "pantile.hdfs.Tera")
        pipe = subprocess.PIPE
        return Worker(start(command, stdin=pipe, stdout=pipe, stderr=self.log(f"worker{one}")))

    def start_node(self, node):
        command = self.java(node + 1, f"{self.folder}/conf{node}", 256, f"{HDFS}.server.datanode.DataNode")
        log = self.log(f"node{node}")
        self.data_nodes[node] = start(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def up(self):
        self.net = Net(self.nodes)
        self.disks = [Disk(f"{self.folder}/disk{node}", self.options.disk_mib) for node in range(self.nodes)]
        if self.is_raidp:
            self.add_ons = Disk(f"{self.folder}/add-ons", self.nodes * self.options.add_on_mib + 64)
        conf = self.conf(None)
        name_node = self.java(0, conf, 384, f"{HDFS}.server.namenode.NameNode")
        log = self.log("name")
        subprocess.run([*name_node, "-format", "-force"], check=True, stdout=log, stderr=log)
        self.name_node = start(name_node, stdout=log, stderr=log)
        for node in range(self.nodes):
            if self.is_raidp:
                os.makedirs(f"{self.add_ons.folder}/{node}")
            self.conf(node)
            self.start_node(node)
        self.admin = self.worker(0)
        within(300, "the NameNode answers", self.answers)
        within(300, f"{self.nodes} DataNodes are live", lambda: self.live() == self.nodes)
        for node in range(self.nodes):
            self.workers[node] = self.worker(node + 1)
        self.all(lambda node: "live")
        if self.system == "rs-6-3":
            self.admin.do("policy RS-6-3-1024k")
        self.limit(self.options.disk_mb_s)

    def limit(self, mb_s):
        """Of each disk; none while things are only compared."""
        try:
            for disk in self.disks:
                disk.limit(mb_s)
        except OSError as error:
            self.limited = f"disks have no limit: {error}"

    def answers(self):
        try:
            self.live()
            return True
        except Failed:
            return False

    def live(self):
        return int(self.admin.do("live"))

    def all(self, command):
        """Has all workers do something at once."""
        for node, worker in self.workers.items():
            worker.ask(command(node))
        return [worker.answer() for worker in self.workers.values()]

    def settle(self):
        """Until what was deleted is gone."""
        within(300, "deletes", lambda: self.admin.do("deleting") == "0")
        time.sleep(4)

    def counters(self):
        read, wrote = (sum(both) for both in zip(*(disk.moved() for disk in self.disks)))
        add_ons = self.add_ons.moved() if self.add_ons else (0, 0)
        processes = [*self.data_nodes.values(), *(worker.process for worker in self.workers.values())]
        return [self.net.sent(), wrote, read, add_ons[1], add_ons[0], sum(map(processor_seconds, processes)), *machine_seconds()]

    def measure(self, what):
        """Runs something; its seconds, and what it moved until all was settled."""
        self.forget()
        before, begun = self.counters(), time.monotonic()
        what()
        seconds = time.monotonic() - begun
        self.settle()
        return self.since(before, seconds)

    def forget(self):
        for disk in self.disks:
            disk.forget()

    def since(self, before, seconds):
        moved = [b - a for a, b in zip(before, self.counters())]
        return [seconds, *(one / MB for one in moved[:5]), moved[5], moved[7] / moved[6]]

    def kill(self, node):
        for process in self.data_nodes.pop(node), self.workers.pop(node).process:
            process.kill()
            process.wait()

    def recover(self, places):
        """`raidp recover` on a node that lost nothing: seconds of its work, and what it says it moved."""
        command = self.java(1, f"{self.folder}/conf", 256, "pantile.hdfs.Main", "raidp", "recover", *places)
        process = start(command, stdout=subprocess.PIPE, stderr=self.log("recover"))
        begun = ended = moved = None
        for line in process.stdout:
            line = line.decode().strip()
            if line.startswith("blocks of which HDFS has no replica:"):
                begun = time.monotonic()
            found = re.match(r"rebuilt \d+ blocks: read (\d+) bytes from mirrors and (\d+) from add-ons, wrote (\d+)", line)
            if found:
                ended, moved = time.monotonic(), [int(one) / MB for one in found.groups()]
            if found or line.startswith("spare copies"):
                say(line)
        if process.wait() != 0:
            raise Failed(f"raidp recover ended with {process.returncode}; see {self.folder}/recover.log")
        return ended - begun, moved

    def is_whole(self, copies):
        return self.admin.do(f"lacking {copies}").split()[0] == "0"

    def parity_check(self):
        for node in range(self.nodes):
            command = self.java(node + 1, f"{self.folder}/conf{node}", 256, "pantile.hdfs.Main", "raidp", "parity-check")
            if subprocess.run(command, stdout=self.log("parity"), stderr=self.log("parity")).returncode != 0:
                raise Failed(f"parity of disk {node} is wrong; see {self.folder}/parity.log")

    def down(self):
        workers = [worker.process for worker in self.workers.values()]
        for process in [*workers, *self.data_nodes.values(), self.name_node, self.admin and self.admin.process]:
            if process:
                process.kill()
                process.wait()
        self.limit(0)
        for disk in self.disks:
            disk.end()
        if self.add_ons:
            self.add_ons.end()
        if self.net:
            self.net.end()


def processor_seconds(process):
    with open(f"/proc/{process.pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def machine_seconds():
    """Seconds of all processors, and those of them in which they did something."""
    with open("/proc/stat") as stat:
        fields = [int(field) for field in stat.readline().split()[1:9]]
    return sum(fields) / os.sysconf("SC_CLK_TCK"), (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


def experiments(cluster, options, emit):
    nodes, rows = cluster.nodes, options.mib * MIB // cluster.nodes // ROW_BYTES

    def write():
        cluster.all(lambda node: f"write /in {node} {rows}")

    def read():
        # Of another: the slides' reads went over the network, too.
        cluster.all(lambda node: f"read /in {(node + nodes // 2) % nodes} {rows}")

    def sort():
        hosts = ",".join(Net.address(node + 1) for node in range(nodes))
        cluster.all(lambda node: f"sort /in /out {node} {hosts}")

    if options.only_loss:
        # As much on the disks as the experiments before a loss leave there.
        cluster.limit(0)
        write()
        cluster.all(lambda node: f"write /out {node} {rows}")
        cluster.settle()
        after = cluster.admin.do("sum /out").split()
        cluster.limit(options.disk_mb_s)
        loss(cluster, options, emit)
        is_right(cluster, rows, after)
        return
    emit("write", cluster.measure(write))
    emit("read", cluster.measure(read))
    emit("sort", cluster.measure(sort))
    cluster.limit(0)
    before, after = cluster.admin.do("sum /in").split(), cluster.admin.do("sum /out").split()
    cluster.limit(options.disk_mb_s)
    if before[:2] != after[:2] or after[2] != "sorted":
        raise Failed(f"sorted are {after}, of {before}")
    emit("write anew", cluster.measure(write))
    if options.loss:
        loss(cluster, options, emit)
    is_right(cluster, rows, after)


def is_right(cluster, rows, after):
    """Every row is there, and parity is their sum."""
    if cluster.system == "hdfs-2":
        return
    cluster.limit(0)
    cluster.all(lambda node: f"read /in {node} {rows}")
    if cluster.admin.do("sum /out").split() != after:
        raise Failed("the rows are others than before")
    if cluster.is_raidp:
        cluster.parity_check()


def loss(cluster, options, emit):
    """Two nodes are lost, with their disks and not with their add-ons; RAIDP's come back empty at the end."""
    for node in LOST:
        cluster.kill(node)
    for node in LOST:
        for name in os.listdir(cluster.disks[node].folder):
            shutil.rmtree(f"{cluster.disks[node].folder}/{name}")
    cluster.forget()
    cluster.net.limit(options.net_mb_s)
    begin = (cluster.counters(), time.monotonic())

    def all_are_dead():
        nonlocal begin
        begin = (cluster.counters(), time.monotonic())
        return cluster.live() == cluster.nodes - len(LOST)

    within(120, "the lost nodes are dead", all_are_dead)
    # It takes one dead node after the other out of its tables; with two copies blocks have none then.
    least = 1 if cluster.copies == 2 else cluster.copies
    within(60, "the NameNode misses blocks", lambda: not cluster.is_whole(least))
    few, lost = cluster.admin.do(f"lacking {cluster.copies}").split()
    say(f"{cluster.system}: {few} blocks or groups lack something, {lost} have nothing")
    if cluster.system == "hdfs-2":
        emit("blocks lost for good", [float(lost)] + [0.0] * 7)
        return
    if cluster.is_raidp:
        places = [word for node in LOST for word in ("--add-on", f"{node}={cluster.add_on(node)}")]
        command = concurrent.futures.ThreadPoolExecutor().submit(cluster.recover, places)
    # What lost two of its copies or units comes first.
    within(900, "two losses", lambda: cluster.is_whole(cluster.copies - 1))
    emit("recover", cluster.since(begin[0], time.monotonic() - begin[1]))
    if cluster.is_raidp:
        seconds, (mirrors, add_ons, wrote) = command.result()
        emit("recover, by its own count", [seconds, mirrors + wrote, wrote, mirrors, 0.0, add_ons, 0.0, 0.0])
    within(900, "all copies", lambda: cluster.is_whole(cluster.copies))
    seconds = time.monotonic() - begin[1]
    cluster.settle()
    emit("recover and restore", cluster.since(begin[0], seconds))
    if cluster.is_raidp:
        for node in LOST:
            cluster.start_node(node)
            cluster.workers[node] = cluster.worker(node + 1)
        within(300, "replacements are live", lambda: cluster.live() == cluster.nodes)
        begin = (cluster.counters(), time.monotonic())
        cluster.recover([])
        within(300, "all copies", lambda: cluster.is_whole(cluster.copies))
        seconds = time.monotonic() - begin[1]
        cluster.settle()
        emit("copies brought home", cluster.since(begin[0], seconds))
    cluster.net.limit(0)


def circumstances(options):
    """What a reader of the record must know, in lines."""
    version = re.search(r"/hadoop-hdfs-(\d[\d.]*)\.jar", options.classpath)[1]
    with open("/proc/cpuinfo") as info:
        model = re.search(r"model name\s*: (.*)", info.read())
    return [
        f"integrations/hdfs/experiments: Hadoop {version}, {os.cpu_count()} processors ({model[1] if model else 'unknown'}), "
        f"{time.strftime('%Y-%m-%d')}, at nice {options.nice} with a load of {os.getloadavg()[1]:.0f} before.",
        f"{options.nodes} nodes as processes in network namespaces; {options.mib} MiB in blocks of {options.block_mib} MiB; disks read "
        f"{options.disk_mb_s:g} MB/s and write as much, add-ons have no limit; a node sends and gets {options.net_mb_s:g} MB/s once two "
        "are lost, and has no limit before. Blocks are on disk before their writer is told; nothing is cached before an experiment.",
    ]


def prefer(nice):
    """A session of its own with a nice value: Linux may group tasks by session."""
    if nice:
        if os.getpid() != os.getsid(0):
            os.setsid()
        os.nice(nice)
        if os.path.exists("/proc/self/autogroup"):
            with open("/proc/self/autogroup", "w") as to:
                to.write(str(nice))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("classpath")
    parser.add_argument("jar")
    parser.add_argument("folder")
    parser.add_argument("--mib", type=int, default=264, help="what is written")
    parser.add_argument("--nodes", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    parser.add_argument("--block-mib", type=int, default=2)
    parser.add_argument("--disk-mib", type=int, default=768)
    parser.add_argument("--add-on-mib", type=int, default=128)
    parser.add_argument("--disk-mb-s", type=float, default=3)
    parser.add_argument("--net-mb-s", type=float, default=3, help="of each node while something is recovered")
    parser.add_argument("--nice", type=int, default=0, help="of everything that is started")
    parser.add_argument("--only-loss", action="store_true", help="write, lose two nodes and recover")
    parser.add_argument("--no-loss", dest="loss", action="store_false")
    options = parser.parse_args()
    options.folder = os.path.realpath(options.folder)
    # Ended from outside, what was started and limited ends, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    prefer(options.nice)
    notes = set()
    print("\n".join(circumstances(options)), HEAD, sep="\n", flush=True)
    for number in range(1, options.rounds + 1):
        for system in options.systems.split(","):
            say(f"round {number}: {system}")
            shutil.rmtree(f"{options.folder}/{system}", ignore_errors=True)
            cluster = Cluster(options, system)

            def emit(experiment, values, system=system, number=number):
                print(" | ".join([system, experiment, str(number), *(f"{value:.2f}" for value in values)]), flush=True)

            try:
                cluster.up()
                experiments(cluster, options, emit)
            finally:
                cluster.down()
            notes.add(cluster.limited)
            shutil.rmtree(f"{options.folder}/{system}")
    for note in notes - {None}:
        say(note)


if __name__ == "__main__":
    main()
