#!/usr/bin/env bash
# Serves volumes to the clients that people have: qemu-img, qemu-io, nbdcopy, nbdinfo, fio. Kills the server, takes devices away,
# and compares every byte that was flushed. Bounded: about a minute.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/setup.sh
need nbdkit nbdkit
need nbdcopy libnbd-bin
need qemu-img qemu-utils
need fio fio

profile=${PANTILE_PROFILE:-debug}
if [ "$profile" = release ]; then cargo build --release --quiet -p pantile-cli -p pantile-nbd
else cargo build --quiet -p pantile-cli -p pantile-nbd; fi
pantile="${CARGO_TARGET_DIR:-$PWD/target}/$profile/pantile"

work=$(mktemp -d)
vol=$work/vol
uri="nbd+unix:///?socket=$vol/nbd.sock"
end() {
    "$pantile" stop "$vol" >/dev/null 2>&1 || true
    rm -rf "$work"
}
trap end EXIT

fail() { printf 'clients.sh: %s\n' "$*" >&2; [ ! -s "$vol/serve.log" ] || cat "$vol/serve.log" >&2; exit 1; }
# expect STATUS COMMAND...
expect() {
    local want=$1 have=0
    shift
    "$@" >"$work/out" 2>&1 || have=$?
    [ "$have" = "$want" ] || { cat "$work/out" >&2; fail "status $have instead of $want: $*"; }
}
serve() { pid=$("$pantile" serve "$vol" --json | sed -n 's/.*"pid": \([0-9]*\).*/\1/p'); }
same() { cmp -n "$(stat -c %s "$1")" "$1" "$2" || fail "$3"; }

say "a volume of files, written by nbdcopy, read by qemu-img"
"$pantile" create "$vol" --size 64M
serve
nbdinfo "$uri" | grep -q 'can_multi_conn: true' || fail "several connections are not offered"
nbdinfo "$uri" | grep -q 'block_size_preferred: 4096' || fail "no block size is told"
head -c 40000000 /dev/urandom >"$work/data"
nbdcopy --flush "$work/data" "$uri"
qemu-img convert -f raw -O raw "$uri" "$work/back"
same "$work/data" "$work/back" "qemu-img read something else"
expect 0 "$pantile" status "$vol"
expect 2 "$pantile" serve "$vol"

say "any range of bytes, zeroes and discards by qemu-io"
qemu-io -f raw -c 'write -P 0xa5 12345 70001' -c 'write -z 20000 4097' -c 'flush' -c 'read -P 0xa5 12345 7655' \
    -c 'read -P 0 20000 4097' -c 'read -P 0xa5 24097 58249' -c 'discard 40M 1M' -c 'read -P 0 40M 1M' "$uri" >"$work/out" || fail "qemu-io"
! grep -qi 'verification failed' "$work/out" || { cat "$work/out"; fail "qemu-io read something else"; }

say "killed while it is written to; what was flushed is there"
nbdcopy --flush "$work/data" "$uri"
fio --name=load --ioengine=nbd --uri="$uri" --rw=randwrite --bs=4k --iodepth=32 --offset=44M --size=16M --time_based --runtime=20 \
    >/dev/null 2>&1 &
load=$!
sleep 2
kill -9 "$pid"
wait "$load" || true
serve
nbdcopy "$uri" "$work/back"
same "$work/data" "$work/back" "flushed bytes were lost by a kill"

say "fio verifies what it writes"
fio --name=verify --ioengine=nbd --uri="$uri" --rw=randwrite --bs=4k --iodepth=16 --size=8M --offset=48M --verify=crc32c --end_fsync=1 \
    >"$work/out" 2>&1 || { cat "$work/out"; fail "fio read something else"; }

say "two devices taken out, read and written without them, killed again"
expect 0 "$pantile" fail "$vol" 1
expect 0 "$pantile" fail "$vol" 4
expect 1 "$pantile" status "$vol"
nbdcopy "$uri" "$work/back"
same "$work/data" "$work/back" "degraded reads are wrong"
head -c 10000000 /dev/urandom | dd of="$work/data" conv=notrunc status=none
nbdcopy --flush "$work/data" "$uri"
kill -9 "$pid"
serve
nbdcopy "$uri" "$work/back"
same "$work/data" "$work/back" "degraded writes were lost by a kill"

say "one comes back, the other is replaced; both are made whole, and the volume is scrubbed"
truncate -s "$(stat -c %s "$vol/device-04.pantile")" "$work/new"
expect 0 "$pantile" replace "$vol" 1 "$vol/device-01.pantile"
expect 0 "$pantile" replace "$vol" 4 "$work/new"
expect 0 "$pantile" rebuild "$vol" --wait
expect 0 "$pantile" status "$vol"
expect 0 "$pantile" fail "$vol" 0
expect 0 "$pantile" fail "$vol" 2
nbdcopy "$uri" "$work/back"
same "$work/data" "$work/back" "what was rebuilt is wrong"
expect 0 "$pantile" replace "$vol" 0 "$vol/device-00.pantile"
expect 0 "$pantile" replace "$vol" 2 "$vol/device-02.pantile"
expect 0 "$pantile" rebuild "$vol" --wait
expect 0 "$pantile" scrub "$vol" --wait

say "bytes change behind its back: never read, found by the scrub, repaired"
expect 0 "$pantile" stop "$vol"
for at in 8000000 9000000 12000000; do
    printf 'pantile' | dd of="$vol/device-03.pantile" bs=1 seek=$at conv=notrunc status=none
done
serve
nbdcopy "$uri" "$work/back"
same "$work/data" "$work/back" "changed bytes were read"
expect 1 "$pantile" scrub "$vol" --repair --wait
expect 0 "$pantile" scrub "$vol" --wait
expect 0 "$pantile" stop "$vol"
expect 0 "$pantile" status "$vol"

say "devices under other names, assembled"
mkdir "$work/disks"
i=0
for d in "$work/new" "$vol"/device-0[01235].pantile; do mv "$d" "$work/disks/x$((9 - i))"; i=$((i + 1)); done
rm -rf "$vol"
expect 0 "$pantile" assemble "$work"/disks/* --into "$vol"
serve
nbdcopy "$uri" "$work/back"
same "$work/data" "$work/back" "the assembled volume is another one"
say "all clients are content"
