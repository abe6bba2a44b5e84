#!/usr/bin/env bash
# Installs the package in a guest with Debian's kernel and systemd. A volume on four disks is
# attached, formatted, and mounted by fstab after each boot. A disk is gone at boot and is replaced
# while mounted; the power fails under a write. Needs root and packages that it names. Takes ten
# minutes or more; GUEST_KVM=1 uses the processor's own virtualization.
#
#   tests/guest.sh [SUITE]        bookworm unless given
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/setup.sh
suite=${1:-bookworm}
for program in qemu-system-x86_64 mmdebstrap mkfs.ext4; do
    command -v "$program" >/dev/null || {
        echo "guest.sh: $program is missing; apt-get install qemu-system-x86 mmdebstrap e2fsprogs" >&2
        exit 77
    }
done
kept=${CARGO_TARGET_DIR:-target}/guest
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$kept"
if [ ! -e "$kept/$suite.tar" ]; then
    say "a root file system of $suite"
    packages=systemd,systemd-sysv,udev,dbus,linux-image-cloud-amd64,kmod,e2fsprogs,util-linux,procps,nbdkit,nbd-client,fio
    mmdebstrap --quiet --variant=minbase --mode=root --include=$packages "$suite" "$kept/part-$suite.tar"
    mv "$kept/part-$suite.tar" "$kept/$suite.tar"
fi
say "the packages"
packaging/build --out "$work/packages" --profile "${PANTILE_PACKAGE_PROFILE:-test}"
root=$work/root
mkdir "$root"
tar -C "$root" -xf "$kept/$suite.tar"
cp "$root"/boot/vmlinuz-* "$work/kernel"
cp "$root"/boot/initrd.img-* "$work/initrd"
cp "$work"/packages/pantile_*.deb "$root/root/"
echo guest >"$root/etc/hostname"
: >"$root/etc/machine-id"
sed -i 's/^root:[^:]*:/root::/' "$root/etc/shadow"
console=$root/etc/systemd/system/serial-getty@ttyS0.service.d
mkdir -p "$console"
printf '[Service]\nExecStart=\nExecStart=-/sbin/agetty -a root --keep-baud 115200 %%I dumb\n' >"$console/login.conf"
truncate -s 3G "$work/root.ext4"
mkfs.ext4 -q -F -d "$root" "$work/root.ext4"
rm -rf "$root"
say "the guest"
tests/guest.py "$work"
