#!/usr/bin/env bash
# Serves volumes to the clients that people have: qemu-img, qemu-io, nbdcopy, nbdinfo, fio, over
# sockets and TLS, and ext4 where the machine allows it. Kills the server, takes devices away, and
# compares every byte that was flushed. Bounded: about three minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/setup.sh
need_clients

profile=${PANTILE_PROFILE:-debug}
if [ "$profile" = release ]; then cargo build --release --quiet -p pantile-cli -p pantile-nbd
else cargo build --profile test --quiet --workspace --lib --bins --tests; fi # what `cargo test --workspace` builds, with the same features
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
nbdinfo --map --totals "$uri" >"$work/out"
[ "$(grep -c . "$work/out")" = 1 ] && grep -q 'hole,zero' "$work/out" || { cat "$work/out" >&2; fail "what is not written is no hole"; }
head -c 40000000 /dev/urandom >"$work/data"
nbdcopy --flush "$work/data" "$uri"
qemu-img convert -f raw -O raw "$uri" "$work/back"
same "$work/data" "$work/back" "qemu-img read something else"
# Holes stay holes in a copy; a stripe that is begun counts whole.
data=$(nbdinfo --map --totals "$uri" | awk '$NF == "data" { print $1 }')
[ "$data" -ge 40000000 ] && [ "$data" -lt 41000000 ] || fail "$data bytes of 40000000 are called data"
expect 0 "$pantile" status "$vol"
expect 0 "$pantile" serve "$vol"
grep -qxF "$uri" "$work/out" || fail "a second serve does not print the address"
expect 2 "$pantile" serve "$vol" --socket "$work/other.sock"

say "of two that serve it at once one does, and says where"
expect 0 "$pantile" stop "$vol"
for _ in $(seq 8); do
    pids=()
    for i in 1 2; do
        { have=0; "$pantile" serve "$vol" --socket "$work/$i.sock" >"$work/out$i" 2>&1 || have=$?; echo $have >"$work/have$i"; } &
        pids+=($!)
    done
    wait "${pids[@]}"
    [ "$(sort -n "$work"/have[12] | tr '\n' ' ')" = "0 2 " ] || { cat "$work"/out[12]; fail "statuses $(cat "$work"/have[12])"; }
    nbdinfo --size "$(grep -h ^nbd+unix "$work"/out[12])" >/dev/null || fail "the one that says that it serves does not"
    expect 0 "$pantile" stop "$vol"
done
serve

say "any range of bytes, zeroes and discards by qemu-io"
qemu-io -f raw -c 'write -P 0xa5 12345 70001' -c 'write -z 20000 4097' -c 'flush' -c 'read -P 0xa5 12345 7655' \
    -c 'read -P 0 20000 4097' -c 'read -P 0xa5 24097 58249' -c 'discard 40M 1M' -c 'read -P 0 40M 1M' "$uri" >"$work/out" || fail "qemu-io"
! grep -qi 'verification failed' "$work/out" || { cat "$work/out"; fail "qemu-io read something else"; }

say "an epoch of delayed parity: others see what was there before and may not write, then all of it at once"
epoch_of() { "$pantile" delayed start "$vol" --range 0+8M --json | sed -n 's/.*"uri": "\([^"]*\)".*/\1/p'; }
qemu-io -f raw -c 'write -P 0x11 0 8M' -c flush "$uri" >/dev/null
epoch=$(epoch_of)
qemu-io -f raw -c 'write -P 0x22 1M 5M' -c flush -c 'read -P 0x22 1M 5M' -c 'read -P 0x11 0 1M' "$epoch" >"$work/out" || fail "qemu-io in the epoch"
! grep -qi 'verification failed' "$work/out" || { cat "$work/out"; fail "the epoch does not see its own"; }
qemu-io -f raw -c 'read -P 0x11 0 8M' "$uri" >"$work/out" || fail "qemu-io beside the epoch"
! grep -qi 'verification failed' "$work/out" || { cat "$work/out"; fail "others see what has no parity"; }
qemu-io -f raw -c 'write -P 0x33 2M 4k' -c flush "$uri" >"$work/out" 2>&1 || true
grep -qi 'not permitted' "$work/out" || { cat "$work/out"; fail "others may write into an epoch"; }
qemu-io -f raw -c 'write -P 0x44 20M 4k' -c flush "$uri" >/dev/null || fail "others may not write beside an epoch"
! nbdinfo "${epoch/epoch-/epoch-9}" >/dev/null 2>&1 || fail "there is an epoch that nobody has begun"
expect 0 "$pantile" delayed end "$vol"
qemu-io -f raw -c 'read -P 0x22 1M 5M' -c 'read -P 0x11 6M 2M' "$uri" >"$work/out"
! grep -qi 'verification failed' "$work/out" || { cat "$work/out"; fail "an end did not make all of it visible"; }
epoch=$(epoch_of)
qemu-io -f raw -c 'write -P 0x55 1M 2M' -c flush "$epoch" >/dev/null || fail "qemu-io in the second epoch"
kill -9 "$pid"
while kill -0 "$pid" 2>/dev/null; do sleep 0.05; done
serve
qemu-io -f raw -c 'read -P 0x22 1M 5M' -c 'read -P 0x11 6M 2M' "$uri" >"$work/out"
! grep -qi 'verification failed' "$work/out" || { cat "$work/out"; fail "a crash left a part of an epoch"; }
qemu-io -f raw -c 'write -P 0x44 20M 4k' -c flush "$uri" >/dev/null
nbdcopy --flush "$work/data" "$uri"

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

say "a server that dies of a fault of its own is started again, with what was flushed, and status says so"
before=$pid
kill -ABRT "$pid"
until_server() { # a process other than $1 serves it
    for _ in $(seq 200); do
        pid=$({ "$pantile" status "$vol" --json || true; } 2>/dev/null | tr -d ' \n' | sed -n 's/.*"server":{"pid":\([0-9]*\).*/\1/p')
        [ -z "$pid" ] || [ "$pid" = "$1" ] || return 0
        sleep 0.05
    done
    fail "nobody serves it again"
}
until_server "$before"
nbdcopy "$uri" "$work/back"
same "$work/data" "$work/back" "flushed bytes were lost with a server that died"
expect 1 "$pantile" status "$vol"
grep -q 'has died once and was started again' "$work/out" || { cat "$work/out"; fail "status does not say that the server died"; }
expect 0 "$pantile" serve "$vol"
expect 0 "$pantile" stop "$vol"
sleep 0.3
! nbdinfo "$uri" >/dev/null 2>&1 || fail "what was stopped is served again"
for _ in $(seq 4); do
    serve
    kill -ABRT "$pid"
    expect 0 "$pantile" stop "$vol"
    sleep 0.2
    ! nbdinfo "$uri" >/dev/null 2>&1 || fail "what was stopped while it was started again is served"
done
serve
kill -9 "$pid"
sleep 0.3
expect 1 "$pantile" status "$vol"
grep -q 'was killed (SIGKILL)' "$work/out" || { cat "$work/out"; fail "status does not say that the server was killed"; }
serve
for _ in $(seq 4); do kill -SEGV "$pid"; until_server "$pid"; done
kill -SEGV "$pid"
while kill -0 "$pid" 2>/dev/null; do sleep 0.05; done
sleep 0.3
expect 1 "$pantile" status "$vol"
grep -q 'died 5 times within 60 s, the last time of SIGSEGV' "$work/out" || { cat "$work/out"; fail "a server that dies and dies is not given up"; }
serve
expect 0 "$pantile" status "$vol"

say "clients that die with reads under way end no service, however many: nbdkit before 1.34 dies of them, and is back within a second"
killed=$(/usr/bin/python3 - "$uri" "$vol" "$pantile" <<'PY'
import json, nbd, os, signal, subprocess, sys, time
uri, vol, pantile = sys.argv[1:]
def pid():
    run = subprocess.run([pantile, 'status', vol, '--json'], capture_output=True, text=True)
    return (json.loads(run.stdout).get('server') or {}).get('pid') if run.stdout else None
deaths, worst, served = 0, 0, pid()
for _ in range(200):
    client = os.fork()
    if client == 0:
        h = nbd.NBD(); h.connect_uri(uri)
        for k in range(60): h.aio_pread(nbd.Buffer(1 << 20), k << 20)
        for k in range(4): h.poll(50)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(client, 0)
    time.sleep(.05)
    if not os.path.exists('/proc/%d' % served):
        begun, deaths = time.time(), deaths + 1
        while True:
            try: h = nbd.NBD(); h.connect_uri(uri); h.pread(4096, 0); break
            except nbd.Error: time.sleep(.005)
        worst, served = max(worst, time.time() - begun), pid()
    if deaths == 7: break
print(deaths, round(worst, 2))
PY
) || fail "the server is not back after a client died"
printf '%s servers died of clients, the slowest was back after %s s\n' $killed
have=0; "$pantile" status "$vol" >"$work/out" 2>&1 || have=$?
if [ "${killed% *}" -gt 0 ]; then
    [ "$have" = 1 ] && grep -q 'because a client went away with requests under way.*nbdkit before 1.34: install a newer one' "$work/out" ||
        { cat "$work/out"; fail "status does not say what nbdkit died of"; }
    /usr/bin/python3 -c "import sys; sys.exit(float('${killed#* }') > ${PANTILE_PATIENCE:-5})" || fail "it takes too long until it is back (a second is wanted, a busy machine gets five)"
fi
expect 0 "$pantile" stop "$vol"
serve
expect 0 "$pantile" status "$vol"

say "a file that is no device, given to a served volume, is refused in a sentence and locks nobody out"
head -c 2000 /dev/zero >"$work/short"
expect 2 timeout 9 "$pantile" replace "$vol" 0 "$work/short"
grep -q 'of this volume needs\|its slot needs' "$work/out" || { cat "$work/out"; fail "another sentence was expected"; }
expect 0 timeout 9 "$pantile" status "$vol"

say "a start that is refused ends no server: the last one was stopped"
expect 0 "$pantile" stop "$vol"
mkdir "$work/away"
mv "$vol"/device-0[012].pantile "$work/away"
expect 2 "$pantile" serve "$vol"
"$pantile" status "$vol" >"$work/out" 2>&1 || true
! grep -q 'last server' "$work/out" || fail "status speaks of a server that never was"
mv "$work"/away/* "$vol"
serve
expect 0 "$pantile" status "$vol"

say "devices put back into a served volume that has failed: status 1 until it serves again"
expect 0 "$pantile" fail "$vol" 0
expect 0 "$pantile" fail "$vol" 1
expect 0 "$pantile" fail "$vol" 2 --yes
expect 1 "$pantile" replace "$vol" 0 "$vol/device-00.pantile"
expect 0 "$pantile" replace "$vol" 2 "$vol/device-02.pantile"
expect 0 "$pantile" replace "$vol" 1 "$vol/device-01.pantile"
expect 0 "$pantile" rebuild "$vol" --wait
expect 0 "$pantile" status "$vol"

say "stopped although its log has no room"
mkdir "$work/small"
if mount -t tmpfs -o size=40M tmpfs "$work/small" 2>/dev/null; then
    trap '"$pantile" stop "$work/small/vol" >/dev/null 2>&1 || true; umount -l "$work/small"; end' EXIT
    expect 0 "$pantile" create "$work/small/vol" --size 4M
    expect 0 "$pantile" serve "$work/small/vol"
    head -c 50000000 /dev/zero >"$work/small/full" 2>/dev/null || true
    expect 2 "$pantile" fail "$work/small/vol" 1
    expect 0 "$pantile" status "$work/small/vol"
    expect 0 timeout 60 "$pantile" stop "$work/small/vol"
    umount "$work/small"
    trap end EXIT
else
    echo "left out: this user cannot mount a small file system"
fi

say "fio verifies what it writes"
fio --name=verify --aux-path="$work" --ioengine=nbd --uri="$uri" --rw=randwrite --bs=4k --iodepth=16 --size=8M --offset=48M --verify=crc32c --end_fsync=1 \
    >"$work/out" 2>&1 || { cat "$work/out"; fail "fio read something else"; }

say "two devices taken out, read and written without them, killed again"
expect 0 "$pantile" fail "$vol" 1
expect 0 "$pantile" fail "$vol" 4
printf 'state = "%s/state"\n[volume.vol]\nfolder = "%s"\n' "$work" "$vol" >"$work/pantile.toml"
expect 1 "$pantile" monitor "$work/pantile.toml" --once
[ "$(grep -c 'Device [14] is lost' "$work/out")" = 2 ] || { cat "$work/out"; fail "the monitor does not report the lost devices"; }
expect 1 "$pantile" monitor "$work/pantile.toml" --once
[ ! -s "$work/out" ] || { cat "$work/out"; fail "the monitor reports a lost device twice"; }
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
# damage: changes bytes all over a device, so that they hit stripes in use wherever those are. What
# a read finds wrong is repaired without a scrub, so the scrub gets damage of its own.
damage() {
    expect 0 "$pantile" stop "$vol"
    for at in $(seq 8000000 200000 20000000); do
        printf 'pantile' | dd of="$vol/device-03.pantile" bs=1 seek="$at" conv=notrunc status=none
    done
    serve
}
damage
nbdcopy "$uri" "$work/back"
same "$work/data" "$work/back" "changed bytes were read"
damage
expect 1 "$pantile" scrub "$vol" --repair --wait
expect 0 "$pantile" scrub "$vol" --wait
nbdcopy "$uri" "$work/back"
same "$work/data" "$work/back" "what was repaired is wrong"
expect 0 "$pantile" stop "$vol"
# What a device did wrong is kept, whole as the volume is.
expect 1 "$pantile" status "$vol"
grep -q 'Device 3 gave [0-9]* wrong blocks' "$work/out" || { cat "$work/out"; fail "it is forgotten what the device did wrong"; }

say "devices under other names, assembled"
mkdir "$work/disks"
i=0
for d in "$work/new" "$vol"/device-0[01235].pantile; do mv "$d" "$work/disks/x$((9 - i))"; i=$((i + 1)); done
rm -rf "$vol"
expect 0 "$pantile" assemble "$work"/disks/* --into "$vol"
serve
nbdcopy "$uri" "$work/back"
same "$work/data" "$work/back" "the assembled volume is another one"
expect 0 "$pantile" stop "$vol"

say "TLS over TCP with certificates on both sides; without one nobody is let in"
certs=$work/certs
mkdir "$certs"
# signed NAME SUBJECT EXTENSIONS: a key and a certificate of the authority made below.
signed() {
    openssl req -newkey rsa:2048 -nodes -keyout "$certs/$1-key.pem" -out "$certs/$1.csr" -subj "/CN=$2" 2>/dev/null
    openssl x509 -req -in "$certs/$1.csr" -CA "$certs/ca-cert.pem" -CAkey "$certs/ca-key.pem" -CAcreateserial -days 2 \
        -extfile <(printf '%s\n' "$3") -out "$certs/$1-cert.pem" 2>/dev/null
}
openssl req -x509 -newkey rsa:2048 -nodes -keyout "$certs/ca-key.pem" -out "$certs/ca-cert.pem" -days 2 -subj /CN=authority 2>/dev/null
signed server localhost $'subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth'
signed client client 'extendedKeyUsage=clientAuth'
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
expect 2 "$pantile" serve "$vol" --tcp "127.0.0.1:$port"
expect 0 "$pantile" serve "$vol" --tcp "127.0.0.1:$port" --tls-certificates "$certs"
tls="nbds://127.0.0.1:$port?tls-certificates=$certs"
nbdinfo "$tls" | grep -q 'with TLS' || fail "nbdinfo is not served with TLS"
! timeout 20 nbdinfo "nbd://127.0.0.1:$port" >/dev/null 2>&1 || fail "a client without TLS was let in"
mkdir "$work/stranger"
cp "$certs/ca-cert.pem" "$work/stranger"
! timeout 20 nbdinfo "nbds://127.0.0.1:$port?tls-certificates=$work/stranger" >/dev/null 2>&1 || fail "a client without certificate was let in"
nbdcopy "$tls" "$work/back"
same "$work/data" "$work/back" "something else came over TLS"
qemu-io --object "tls-creds-x509,id=tls0,dir=$certs,endpoint=client" -c 'write -P 0x3c 40M 100k' -c flush -c 'read -P 0x3c 40M 100k' \
    --image-opts "driver=nbd,host=127.0.0.1,port=$port,tls-creds=tls0" >"$work/out" 2>&1 || { cat "$work/out"; fail "qemu-io over TLS"; }
! grep -qi 'verification failed' "$work/out" || { cat "$work/out"; fail "qemu-io read something else over TLS"; }
expect 0 "$pantile" stop "$vol"

say "another socket, in the foreground, for a service manager"
"$pantile" serve "$vol" --socket "$work/other.sock" --foreground >"$work/uri" 2>"$work/foreground.log" &
pid=$!
other="nbd+unix:///?socket=$work/other.sock"
# Not by 'pantile status': on a volume that is not served yet that opens it itself, and is in the
# way of the server.
for _ in $(seq 200); do nbdinfo "$other" >/dev/null 2>&1 && break; sleep 0.05; done
[ "$(cat "$work/uri")" = "$other" ] || fail "the URI is $(cat "$work/uri")"
! nbdinfo "$uri" >/dev/null 2>&1 || fail "it listens on the usual socket, too"
nbdcopy "$other" "$work/back"
same "$work/data" "$work/back" "something else came over the other socket"

say "four connections of fio at a time, each verifying what it wrote"
fio --name=many --aux-path="$work" --ioengine=nbd --uri="$other" --rw=randwrite --bs=4k --iodepth=8 --numjobs=4 --size=2M --offset=44M \
    --offset_increment=2M --verify=crc32c --end_fsync=1 --group_reporting >"$work/out" 2>&1 || { cat "$work/out"; fail "fio read something else"; }
# Another Python before the system's in the path does not have the bindings.
nbdsh() { PATH=/usr/bin:$PATH command nbdsh "$@"; }
# A flush on one connection covers the writes of another: nothing may be lost by the kill that
# follows it.
nbdsh -c "
one, two = nbd.NBD(), nbd.NBD()
one.connect_uri('$other'); two.connect_uri('$other')
one.pwrite(b'\x5a' * 300000, 41 << 20); two.flush()" || fail "two connections"
kill -9 "$pid"
wait "$pid" 2>/dev/null || true
serve
nbdsh -u "$uri" -c "assert h.pread(300000, 41 << 20) == b'\x5a' * 300000" || fail "a flush did not cover another connection"

say "stopped under clients that stay: they are shown the door, and it can be served again at once"
nbdsh -u "$uri" -c "
import subprocess
h.pwrite(b'\x6b' * 300000, 42 << 20); h.flush()
h.pwrite(b'\x6c' * 300000, 43 << 20)
subprocess.run(['$pantile', 'stop', '$vol'], check=True, timeout=30, stdout=subprocess.DEVNULL)
try: h.pread(4096, 0)
except nbd.Error: pass
else: raise SystemExit('what was stopped is served')" || fail "a client that stays keeps the server from ending"
expect 1 "$pantile" status "$vol"
serve
nbdsh -u "$uri" -c "assert h.pread(300000, 42 << 20) == b'\x6b' * 300000 and h.pread(300000, 43 << 20) == b'\x6c' * 300000" ||
    fail "what was answered before the stop is lost"

say "ext4 on the volume, killed while it is used, checked"
if ! command -v nbdfuse >/dev/null || ! command -v mkfs.ext4 >/dev/null || [ ! -w /dev/fuse ] || [ ! -w /dev/loop-control ]; then
    echo "left out: nbdfuse, mkfs.ext4, /dev/fuse or /dev/loop-control is not here, or not for this user"
else
    mkdir "$work/fuse" "$work/mnt"
    loop=
    attach() {
        nbdfuse --pidfile "$work/fuse.pid" "$work/fuse" "$uri" &
        for _ in $(seq 200); do [ -s "$work/fuse.pid" ] && break; sleep 0.05; done
        loop=$(losetup --find --show "$work/fuse/nbd")
    }
    # After its server was killed, a mount no longer looks like a mount point to programs, but the
    # kernel still has it.
    detach() {
        umount "$work/mnt" 2>/dev/null || umount -l "$work/mnt" 2>/dev/null || true
        [ -z "$loop" ] || losetup -d "$loop" || true
        loop=
        for _ in $(seq 100); do grep -q " $work/fuse " /proc/mounts || break; umount "$work/fuse" 2>/dev/null || sleep 0.05; done
        ! grep -q " $work/fuse " /proc/mounts || umount -l "$work/fuse" || true
        rm -f "$work/fuse.pid"
    }
    trap 'detach; end' EXIT
    if ! attach 2>"$work/out"; then
        cat "$work/out"
        echo "left out: this machine has no loop device over nbdfuse"
        detach
    else
        mkfs.ext4 -q -F "$loop"
        mount "$loop" "$work/mnt"
        mkdir "$work/mnt/kept"
        for i in $(seq 40); do head -c 200000 /dev/urandom >"$work/mnt/kept/$i"; done
        (cd "$work/mnt/kept" && sha256sum -- *) >"$work/sums"
        sync -f "$work/mnt"
        (for i in $(seq 4000); do head -c 30000 /dev/urandom >"$work/mnt/later$((i % 200))" || break; done) 2>/dev/null &
        writer=$!
        sleep 2
        kill -9 "$pid"
        wait "$writer" || true
        detach
        serve
        attach
        e2fsck -p "$loop" >"$work/out" 2>&1 || [ $? = 1 ] || { cat "$work/out"; fail "e2fsck -p"; }
        e2fsck -fn "$loop" >"$work/out" 2>&1 || { cat "$work/out"; fail "e2fsck finds the file system broken"; }
        mount "$loop" "$work/mnt"
        (cd "$work/mnt/kept" && sha256sum --quiet -c "$work/sums") || fail "files that were synced are lost"
        detach
    fi
    trap end EXIT
fi

if [ "$(id -u)" = 0 ] && expect 0 "$pantile" stop "$vol" && mkdir "$work/ro" && mount --bind "$vol" "$work/ro" 2>/dev/null; then
    say "a folder on a medium that cannot be written: its status, and served to be read only"
    mount -o remount,bind,ro "$work/ro"
    expect 1 "$pantile" status "$work/ro"
    "$pantile" serve "$work/ro" --read-only --foreground --socket "$work/ro.sock" >"$work/ro.log" 2>&1 &
    reader=$!
    for _ in $(seq 100); do nbdinfo --size "nbd+unix:///?socket=$work/ro.sock" >/dev/null 2>&1 && break; sleep .1; done
    nbdinfo "nbd+unix:///?socket=$work/ro.sock" | grep -q 'is_read_only: true' || { cat "$work/ro.log"; fail "it may be written"; }
    nbdcopy "nbd+unix:///?socket=$work/ro.sock" "$work/read" || { cat "$work/ro.log"; fail "it cannot be read"; }
    kill "$reader"; wait "$reader" || true
    umount "$work/ro"
    serve
    nbdcopy "$uri" "$work/read-again"
    cmp "$work/read" "$work/read-again" || fail "read only it gave something else"
    rm "$work/read" "$work/read-again"
fi

say "what clients may cost is bounded"
PANTILE="$pantile" tests/bounds.py

say "a member that hangs is lost, one that strays is named, and every command answers (40 s)"
PANTILE="$pantile" tests/hangs.py

say "the story that the README begins with"
"$pantile" demo >/dev/null

say "all clients are content"
