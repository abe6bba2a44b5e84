#!/usr/bin/env bash
# Volumes over servers: each member is an export of an nbdkit in a network namespace of its own, by
# a cable (veth) of its own. Servers are killed, stopped, cut off and back, one by one and all at
# once; every byte is compared, and the bytes of each cable are counted. Needs root for the
# namespaces.
#
#   tests/servers.sh          faults, TLS, and the bytes of two codes: about two minutes
#   tests/servers.sh heavy    every table of docs/servers.md: about three
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -z "${PANTILE_NETWORK:-}" ]; then
    . tools/setup.sh
    need_clients
    need ip iproute2
    :
    if ! unshare --net --mount true 2>/dev/null; then
        as_root true && command -v sudo >/dev/null || { say "servers.sh: left out: no network namespaces here"; exit 0; }
        exec sudo --preserve-env=PATH,CARGO_TARGET_DIR PANTILE_NETWORK=own unshare --net --mount "$0" "$@"
    fi
    PANTILE_NETWORK=own exec unshare --net --mount "$0" "$@"
fi
say() { printf '\n== %s\n' "$*"; }
mount -t sysfs sysfs /sys # of these cables
ip link set lo up

pantile="${CARGO_TARGET_DIR:-$PWD/target}/debug/pantile"
work=$(mktemp -d)
vol=$work/vol
uri="nbd+unix:///?socket=$vol/nbd.sock"
declare -A machine=() server=()
end() {
    [ $? = 0 ] || tail -5 "$work/shell.log" >&3
    timeout 60 "$pantile" stop "$vol" >/dev/null 2>&1 || true
    for one in "${!server[@]}"; do touch "$work/killed$one"; signal "$one" KILL; done
    for pid in "${machine[@]}"; do kill -KILL "$pid" 2>/dev/null || true; done
    rm -rf "$work"
}
exec 3>&2 2>"$work/shell.log" # without the shell's own lines on who was killed
trap end EXIT
fail() {
    exec 2>&3
    printf 'servers.sh: %s\n' "$*" >&2
    timeout 20 "$pantile" status "$vol" >&2 || true
    [ ! -s "$vol/serve.log" ] || tail -20 "$vol/serve.log" >&2
    tail -20 "$work/nbdkit.log" >&2
    exit 1
}
# expect STATUS TEXT COMMAND...
expect() {
    local want=$1 text=$2 have=0
    shift 2
    timeout 120 "$@" >"$work/out" 2>&1 || have=$?
    [ "$have" = "$want" ] && grep -q -- "$text" "$work/out" || { cat "$work/out" >&3; fail "status $have, wanted $want with '$text': $*"; }
}

# machine N: a namespace with one cable to here.
machine() {
    unshare --net sleep infinity &
    machine[$1]=$!
    until [ "$(readlink /proc/${machine[$1]}/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.05; done
    ip link add "m$1" type veth peer name eth0 netns "${machine[$1]}"
    ip address add "10.77.$1.1/24" dev "m$1"
    ip link set "m$1" up
    on "$1" ip address add "10.77.$1.2/24" dev eth0
    on "$1" ip link set lo up
    on "$1" ip link set eth0 up
}
on() { local one=$1; shift; nsenter --net --target "${machine[$one]}" -- "$@"; }
# supervised N COMMAND...: starts it again when it ends, as systemd would, until it is killed.
# (nbdkit 1.32 ends by an assertion, `sock >= 0`, when a connection with several requests is cut.)
supervised() {
    local one=$1
    shift
    rm -f "$work/killed$one" "$work/pid$one"
    while [ ! -e "$work/killed$one" ]; do
        nsenter --net --target "${machine[$one]}" -- "$@" --pidfile="$work/pid$one" 2>>"$work/nbdkit.log" || true
        sleep 0.2
    done &
    server[$one]=$!
}
# start N [ARGUMENTS OF NBDKIT...]: its disk stays what it was.
start() {
    local one=$1
    shift
    [ -e "$work/disk$one" ] || truncate -s "$size" "$work/disk$one"
    supervised "$one" nbdkit --foreground -i "10.77.$one.2" "$@" file "$work/disk$one"
    for _ in $(seq 100); do nbdinfo --size "${scheme:-nbd}://10.77.$one.2/${tls:-}" >/dev/null 2>&1 && return; sleep 0.05; done
    fail "server $one does not answer"
}
signal() { kill "-$2" "$(cat "$work/pid$1")" 2>/dev/null || true; }
kill_server() { touch "$work/killed$1"; signal "$1" KILL; wait "${server[$1]}" 2>/dev/null || true; }
cable() { on "$1" ip link set eth0 "$2"; }
members() { local one; for one in $(seq 0 $(($1 - 1))); do printf '%s://10.77.%s.2/%s ' "${scheme:-nbd}" "$one" "${tls:-}"; done; }
# made CODE COUNT [OPTIONS...]: a volume over new disks, served.
made() {
    local code=$1 count=$2 one
    shift 2
    [ ! -e "$vol" ] || { timeout 60 "$pantile" stop "$vol" >/dev/null; rm -rf "$vol"; }
    for one in $(seq 0 "$count"); do
        [ -n "${machine[$one]:-}" ] || machine "$one"
        [ -z "${server[$one]:-}" ] || kill_server "$one"
        rm -f "$work/disk$one"
        start "$one"
    done
    # shellcheck disable=SC2046
    "$pantile" create "$vol" $(members "$count") --code "$code" "$@" >/dev/null
    "$pantile" serve "$vol" >/dev/null
}
whole() {
    for _ in $(seq 120); do
        sleep 0.5
        timeout 60 "$pantile" status "$vol" >"$work/status" 2>&1 && return
    done
    fail "it is not whole after a minute"
}
write() { timeout 120 nbdcopy --flush "$1" "$uri" || fail "a write failed"; }
same() {
    timeout 120 nbdcopy "$uri" "$work/back" || fail "a read failed"
    cmp -n "$(stat -c %s "$1")" "$1" "$work/back" || fail "$2"
}
data() { head -c "$2M" /dev/urandom >"$work/$1"; }

# bytes rx|tx FIRST LAST: over these cables; rx is what the volume has read.
bytes() { local sum=0 one; for one in $(seq "$2" "$3"); do sum=$((sum + $(cat "/sys/class/net/m$one/statistics/${1}_bytes"))); done; echo $sum; }
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.3f", a / b }'; }
at_most() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a <= b) }' || fail "$3: $1, at most $2"; }
mib=48
# lost CODE COUNT: what is read over all cables to rebuild member 0 on another server, of the data.
lost() {
    local code=$1 count=$2 before
    made "$code" "$count"
    write "$work/first"
    sleep 2
    kill_server 0
    for _ in $(seq 20); do sleep 0.5; timeout 60 "$pantile" status "$vol" >/dev/null 2>&1 || break; done
    expect 1 'Device 0 is lost' "$pantile" status "$vol"
    before=$(bytes rx 1 "$((count - 1))")
    "$pantile" replace "$vol" 0 "nbd://10.77.$count.2/" >/dev/null
    whole
    read_ratio=$(ratio $(($(bytes rx 1 "$((count - 1))") - before)) $((mib << 20)))
    same "$work/first" "$code: bytes differ after the rebuild"
    printf '%-12s %6s of the data read over the network for one lost member\n' "$code" "$read_ratio"
}

size=64M
data first $mib
data second 20

say "refused in words: no library, no flush, no server, one export twice"
machine 0
machine 1
start 0
start 1
(
    library=$(ldconfig -p | awk '/libnbd.so.0/ { print $NF; exit }')
    unshare --mount sh -c "mount --bind /dev/null $library; exec '$pantile' create '$vol' $(members 2) --code mirror" >"$work/out" 2>&1
) && fail "it opens without libnbd"
grep -q 'apt-get install libnbd0' "$work/out" || { cat "$work/out"; fail "the package is not named"; }
expect 2 'Connection refused' "$pantile" create "$vol" nbd://10.77.0.2/ nbd://10.77.0.2:1/ --code mirror
expect 2 'same device' "$pantile" create "$vol" nbd://10.77.0.2/ nbd://10.77.0.2:10809/ --code mirror
on 0 ip address add 10.77.0.3/24 dev eth0
kill_server 0
supervised 0 nbdkit --foreground file "$work/disk0"
sleep 0.5
expect 2 'same device' "$pantile" create "$vol" nbd://10.77.0.2/ nbd://10.77.0.3/ --code mirror --yes
kill_server 0
supervised 0 nbdkit --foreground -i 10.77.0.2 eval 'get_size=echo 64M' 'pread=head -c $3 /dev/zero' 'pwrite=cat >/dev/null'
sleep 0.5
expect 2 'does not offer FLUSH' "$pantile" create "$vol" nbd://10.77.0.2/ nbd://10.77.1.2/ --code mirror

say "a server that is killed under load, and started again"
made raid6:4 6
write "$work/first"
same "$work/first" "bytes differ"
timeout 120 nbdcopy --flush "$work/second" "$uri" &
writer=$!
sleep 0.1
kill_server 2
wait $writer || fail "a write failed when one server of six was killed"
same "$work/second" "bytes differ without a server"
expect 1 'the server is gone' "$pantile" status "$vol"
start 2
whole
same "$work/second" "bytes differ with the server back"

say "one that is stopped holds up readers and writers once, for its silence of 10 s"
signal 3 STOP
begun=$SECONDS
timeout 25 nbdcopy "$uri" "$work/back" || fail "a reader waits for a server that is stopped"
write "$work/first"
[ $((SECONDS - begun)) -lt 30 ] || fail "a reader and a writer waited $((SECONDS - begun)) s"
same "$work/first" "bytes differ without the server that is stopped"
signal 3 CONT
whole
same "$work/first" "bytes differ with it back"
expect 0 clean "$pantile" scrub "$vol" --wait

say "a cable that is out for 4 s: the volume waits, and loses no member"
cable 1 down
timeout 120 nbdcopy --flush "$work/second" "$uri" &
writer=$!
sleep 4
cable 1 up
wait $writer || fail "a write failed"
expect 0 clean "$pantile" status "$vol"
same "$work/second" "bytes differ"

say "a cable that is out for long, and all cables at once: what was flushed is there when they are back"
cable 1 down
write "$work/first"
same "$work/first" "bytes differ without the cable"
cable 1 up
whole
for one in 0 1 2 3 4 5; do cable $one down; done
! timeout 100 nbdcopy --flush "$work/second" "$uri" 2>/dev/null || fail "a write to no server is acknowledged"
timeout 20 "$pantile" status "$vol" >"$work/status" 2>&1 && fail "it is called clean"
for one in 0 1 2 3 4 5; do cable $one up; done
for _ in $(seq 120); do sleep 1; timeout 20 "$pantile" status "$vol" >/dev/null 2>&1 && break; done
whole
write "$work/second"
same "$work/second" "bytes differ after all were away"
cmp -i 20971520 -n $(((mib - 20) << 20)) "$work/first" "$work/back" || fail "what was flushed is lost"

say "the claim: a server of the same volume on another machine is refused"
"$pantile" assemble $(members 6) --into "$work/other" >/dev/null
expect 3 'is served already' unshare --pid --fork --mount-proc "$pantile" serve "$work/other"
rm -rf "$work/other"

say "TLS: members with certificates, and one without is refused"
certs=$work/certs
mkdir "$certs"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=ca -keyout "$certs/ca-key.pem" -out "$certs/ca-cert.pem" 2>/dev/null
for kind in server client; do
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=$kind" -keyout "$certs/$kind-key.pem" -out "$certs/$kind.csr" 2>/dev/null
    { for one in 0 1 2 3; do printf 'IP:10.77.%s.2,' $one; done | sed 's/^/subjectAltName=/; s/,$/\n/'; } >"$certs/names"
    openssl x509 -req -in "$certs/$kind.csr" -CA "$certs/ca-cert.pem" -CAkey "$certs/ca-key.pem" -CAcreateserial -days 2 -extfile "$certs/names" -out "$certs/$kind-cert.pem" 2>/dev/null
done
timeout 60 "$pantile" stop "$vol" >/dev/null
rm -rf "$vol"
tls="?tls-certificates=$certs" scheme=nbds
for one in 0 1 2 3; do
    kill_server $one
    rm -f "$work/disk$one"
    start $one --tls=require --tls-certificates="$certs" --tls-verify-peer
done
expect 2 '10.77.0.2' "$pantile" create "$vol" nbd://10.77.0.2/ nbd://10.77.1.2/ nbd://10.77.2.2/ --code raid5:2
"$pantile" create "$vol" $(members 3) --code raid5:2 >/dev/null
"$pantile" serve "$vol" >/dev/null
write "$work/first"
kill_server 1
same "$work/first" "bytes differ over TLS without a member"
"$pantile" replace "$vol" 1 "nbds://10.77.3.2/$tls" >/dev/null
whole
same "$work/first" "bytes differ over TLS"
tls= scheme=nbd

say "bytes over the network"
lost rs:6+4 10
rs=$read_ratio
lost shec:6,4,3 10
at_most "$read_ratio" "$(awk -v rs="$rs" 'BEGIN { print 0.6 * rs }')" "shec reads too much"

if [ "${1:-}" = heavy ]; then
    lost lrc:6,2,2 10
    lost clay:6,4,9 10
    lost raidp:6 12
    lost mirror:3 3
    # written CODE COUNT: sent to all members for each byte of data, in a row and in durable pieces.
    written() {
        local code=$1 count=$2 before row small
        made "$code" "$count"
        before=$(bytes tx 0 $((count - 1)))
        write "$work/first"
        row=$(ratio $(($(bytes tx 0 $((count - 1))) - before)) $((mib << 20)))
        before=$(bytes tx 0 $((count - 1)))
        pieces 4096 "$uri"
        small=$(ratio $(($(bytes tx 0 $((count - 1))) - before)) $((256 * 4096)))
        printf '%-12s %6s bytes sent for each byte in a row, %6s for 4 KiB written durably\n' "$code" "$row" "$small"
    }
    # pieces BYTES URI: 256 durable writes.
    pieces() { PATH=/usr/bin:/bin nbdsh -u "$2" -c "for i in range(256): h.pwrite(bytearray([i % 250 + 1]) * $1, i * $1, nbd.CMD_FLAG_FUA)"; }
    written raidp:6 12
    written mirror:3 3
    written raid6:4 6
    made raid5:4 5 --epochs 32M
    write "$work/first"
    sleep 3
    for kind in wcl delayed; do
        target=$uri
        [ $kind = wcl ] || target=$("$pantile" delayed start "$vol" --range 0+32M --json | sed -n 's/.*"uri": "\([^"]*\)".*/\1/p')
        before=$(bytes tx 0 4) read_before=$(bytes rx 0 4)
        pieces 131072 "$target"
        [ $kind = wcl ] || "$pantile" delayed end "$vol" "$(sed 's/.*epoch-\([0-9]*\).*/\1/' <<<"$target")" >/dev/null
        printf '%-12s %6s bytes sent, %6s read for each byte of durable writes of 128 KiB (raid5:4)\n' $kind \
            "$(ratio $(($(bytes tx 0 4) - before)) $((256 * 131072)))" "$(ratio $(($(bytes rx 0 4) - read_before)) $((256 * 131072)))"
    done
fi
say "servers.sh: all is well"
