#!/usr/bin/env python3
"""Drives the guest of tests/guest.sh over its serial line: boots it, types, compares answers."""
import atexit
import os
import re
import select
import subprocess
import sys
import time

WORK = sys.argv[1]
PROMPT = b"root@guest:~# "
LOG = open(os.environ.get("GUEST_LOG", f"{WORK}/serial.log"), "ab")
DISKS = [f"{WORK}/disk{n}" for n in range(5)]


class Guest:
    """One boot of the guest, with the disks of these numbers: vdb, vdc, ..."""

    def __init__(self, disks):
        kvm = os.environ.get("GUEST_KVM") == "1"  # in a virtual machine it can fail midway
        accel = ["-accel", "kvm", "-cpu", "host"] if kvm else ["-accel", "tcg,thread=multi", "-cpu", "max"]
        self.slow = 1 if kvm else 8
        # The first device is /dev/vda, whatever the others are.
        drives = ["-drive", f"file={WORK}/root.ext4,format=raw,if=none,id=root,cache=writeback"]
        drives += ["-device", "virtio-blk-pci,drive=root"]
        for number in disks:
            drives += ["-drive", f"file={DISKS[number]},format=raw,if=none,id=d{number},cache=writeback"]
            drives += ["-device", f"virtio-blk-pci,drive=d{number},serial=disk{number}"]
        line = "root=/dev/vda rw console=ttyS0 systemd.show_status=0 no_timer_check panic=-1"
        self.process = subprocess.Popen(
            ["qemu-system-x86_64", *accel, "-smp", "2", "-m", "1024", "-nographic", "-no-reboot"]
            + ["-kernel", f"{WORK}/kernel", "-initrd", f"{WORK}/initrd", "-append", line]
            + drives,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        atexit.register(self.process.kill)
        self.begun = time.time()
        self.said = b""
        self.until(PROMPT, 120)

    def until(self, token, seconds):
        end = time.time() + seconds * self.slow
        while token not in self.said:
            if time.time() > end:
                fail(f"no answer within {seconds} s", self.said.decode(errors="replace"))
            if select.select([self.process.stdout], [], [], 1)[0]:
                more = os.read(self.process.stdout.fileno(), 65536)
                if not more:
                    fail("the guest ended", self.said.decode(errors="replace"))
                self.said += more
                LOG.write(more)
                LOG.flush()
        text, self.said = self.said, b""
        return text.decode(errors="replace").replace("\r", "")

    def run(self, command, status=0, seconds=60):
        """The output of a command, which must end with this status."""
        self.process.stdin.write(f"{command}; echo STATUS=$?\n".encode())
        text = self.until(PROMPT, seconds)
        found = re.search(r"STATUS=(\d+)\n", text)
        if not found or int(found.group(1)) != status:
            fail(f"expected status {status}: {command}", text)
        return text.split("\n", 1)[1][: -len("STATUS=0\n") - len(PROMPT)]

    def mounted(self, seconds):
        """Waits until the volume is mounted: nofail means that the boot does not."""
        units = "-u pantile@srv-tank -u mnt-tank.mount -u dev-pantile-tank.device -u 'systemd-fsck@*'"
        said = f"{{ journalctl -b --no-pager -o short-monotonic {units} -u systemd-udevd | tail -n 40; udevadm info /dev/nbd0; "
        said += "cat /run/pantile/nbd0; ls -l /dev/pantile; dmesg | grep nbd0; pantile status /srv/tank; "
        said += "grep -H . /proc/$(pidof nbdkit)/task/*/wchan | sort -t: -k2 | uniq -c -f1; false; }"
        self.run("systemctl is-system-running --wait; true", seconds=seconds)
        tries = "for i in $(seq 30); do findmnt /mnt/tank && break; sleep 1; done"
        self.run(f"{tries}; findmnt /mnt/tank || {said}", seconds=60)

    def power_off(self):
        begun = time.time()
        self.process.stdin.write(b"systemctl poweroff\n")
        try:
            self.process.wait(90 * self.slow)
        except subprocess.TimeoutExpired:
            fail("the guest does not power off within 90 s", self.rest())
        print(f"guest: off after {time.time() - begun:.0f} s", flush=True)

    def cut(self):
        """As when the power fails."""
        self.process.kill()
        self.process.wait()

    def rest(self):
        os.set_blocking(self.process.stdout.fileno(), False)
        return (self.process.stdout.read() or b"").decode(errors="replace")


def fail(what, said=""):
    print(f"guest.py: {what}\n{said[-4000:]}", file=sys.stderr, flush=True)
    sys.exit(1)


def say(text):
    print(f"guest: {text}", flush=True)


def main():
    for disk in DISKS:
        with open(disk, "wb") as file:
            file.truncate(300 << 20)
    say("the package is installed, a volume is made, attached, formatted and mounted")
    guest = Guest([0, 1, 2, 3])
    guest.run("dpkg -i /root/pantile_*.deb")
    guest.run("mkdir /srv/x && pantile create /srv/tank --devices /dev/vd[bcde] --code raid6:2")
    guest.run("systemctl enable --now pantile@srv-tank.service")
    guest.run("pantile attach /srv/tank | grep -x /dev/pantile/tank")
    # With one worker in the kernel's pool, and little time to make more, receivers can share a
    # thread.
    pool = "/sys/devices/virtual/workqueue/cpumask"
    guest.run(f"fresh() {{ pantile detach tank && echo 1 >{pool} && echo 3 >{pool} && pantile attach /srv/tank; }}")
    guest.run("readers() { for c in 0 1; do taskset -c $c dd if=/dev/pantile/tank of=/dev/null bs=4k count=1 iflag=direct || return; done; }")
    for _ in range(8):
        guest.run("fresh && readers")
    guest.run("mkfs.ext4 -q /dev/pantile/tank && mkdir /mnt/tank")
    options = "nofail,_netdev,x-systemd.requires=pantile@srv-tank.service"
    guest.run(f"echo '/dev/pantile/tank /mnt/tank ext4 {options} 0 2' >>/etc/fstab")
    guest.run("systemctl daemon-reload && mount /mnt/tank && cp -a /usr/bin /mnt/tank/ && sync")
    said = guest.run("pantile detach tank", status=2)
    if "umount /mnt/tank" not in said:
        fail("a mounted device is detached without a hint", said)
    hook = 'printf "[hooks]\\ncommand = [\\"dd\\", \\"of=/root/messages\\", \\"oflag=append\\", \\"conv=notrunc\\"]\\n[monitor]\\nevery = \\"3s\\"\\n"'
    guest.run(f"mkdir /etc/pantile && {hook} >/etc/pantile/pantile.toml && pantile check-config")
    guest.run("systemctl enable --now pantile-monitor && pantile monitor --test | grep -x 'command: sent'")
    guest.power_off()

    say("after a boot it is mounted, clean, with all files")
    guest = Guest([0, 1, 2, 3])
    same = "diff -rq --no-dereference /usr/bin /mnt/tank/bin"
    guest.mounted(180)
    guest.run(same, seconds=120)
    guest.run("pantile status /srv/tank")
    guest.power_off()

    say("with a disk missing it boots, is mounted, and says so; a new disk takes its place")
    guest = Guest([0, 1, 3, 4])
    guest.mounted(300)
    guest.run(same, seconds=120)
    said = guest.run("pantile status /srv/tank", status=1)
    print(said.strip())
    lost = re.search(r"[Dd]evice (\d) is lost", said)
    if not lost:
        fail("status does not name the lost device", said)
    guest.run("until grep -q 'is lost' /root/messages; do sleep 1; done", seconds=120)
    new = guest.run("readlink -f /dev/disk/by-id/virtio-disk4").strip()
    guest.run(f"pantile replace /srv/tank {lost.group(1)} {new}")
    guest.run("until pantile status /srv/tank >/dev/null; do sleep 1; done", seconds=240)
    guest.run(same, seconds=120)
    guest.run("until grep -q 'No longer: ' /root/messages; do sleep 1; done", seconds=120)

    say("the power fails while SQLite's way of writing goes on; what was flushed is there")
    guest.run("mkdir -p /mnt/tank/cut")
    loop = "i=0; while :; do i=$((i+1)); echo $i >/mnt/tank/cut/$i; sync -f /mnt/tank/cut/$i; echo flushed $i; done"
    guest.process.stdin.write(f"{loop}\n".encode())
    text = guest.until(b"flushed 40", 120)
    guest.cut()
    flushed = max(int(number) for number in re.findall(r"flushed (\d+)\n", text + "\n"))
    guest = Guest([0, 1, 3, 4])
    guest.mounted(600)
    guest.run(f"for i in $(seq {flushed}); do [ $(cat /mnt/tank/cut/$i) = $i ] || exit 9; done")
    guest.run(same, seconds=120)

    say("a volume that cannot open does not hang the boot")
    guest.power_off()
    guest = Guest([0])
    guest.run("systemctl is-system-running --wait; systemctl is-failed pantile@srv-tank.service", seconds=300)
    guest.run("findmnt /mnt/tank", status=1)
    guest.power_off()
    say("all of it holds")


main()
