# Sourced by e2e: a cluster of Ceph for a test, on this machine's loopback, with all its state in
# one folder. No systemd, no block device, no authentication; a monitor, a manager, and OSDs with a
# sparse file each.
#
#   cluster_up DIR OSDS     starts one; cluster_down ends it
#
# ec_dir is the folder of plug-ins.

say_lap() { printf '[%4d s] %s\n' $SECONDS "$*"; }

cluster_up() {
    cluster=$1 osds=$2
    wait_for "no room for direct I/O of $osds OSDs beside what runs; end that, or 'sysctl fs.aio-max-nr=1048576' as Ceph's package does at boot" has_room "$osds"
    mkdir -p "$cluster"/{mon,mgr/x,run,log}
    local fsid
    fsid=$(cat /proc/sys/kernel/random/uuid)
    port=${port:-$((20000 + RANDOM % 20000))}
    cat >"$cluster/ceph.conf" <<END
[global]
fsid = $fsid
mon_initial_members = a
mon_host = v2:127.0.0.1:$port/0
ms_bind_msgr1 = false
public_network = 127.0.0.0/8
cluster_network = 127.0.0.0/8
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
run_dir = $cluster/run
log_file = $cluster/log/\$name.log
erasure_code_dir = $ec_dir
osd_crush_chooseleaf_type = 0
osd_pool_default_pg_autoscale_mode = off
mon_allow_pool_delete = true
mon_max_pg_per_osd = 1000
mon_data_avail_crit = 1
mon_data_avail_warn = 1
[mon.a]
admin_socket = $cluster/run/\$name.asok
pid_file = $cluster/run/\$name.pid
mon_data = $cluster/mon
public_addr = v2:127.0.0.1:$port/0
[mgr]
admin_socket = $cluster/run/\$name.asok
pid_file = $cluster/run/\$name.pid
mgr_data = $cluster/mgr/\$id
mgr_initial_modules =
# Seconds between reports of placement groups.
mgr_stats_period = 1
[osd]
admin_socket = $cluster/run/\$name.asok
pid_file = $cluster/run/\$name.pid
osd_data = $cluster/osd.\$id
osd_objectstore = bluestore
bluestore_block_size = 2147483648
bluestore_block_create = true
bluestore_block_preallocate_file = false
bluestore_block_wal_size = 0
bluestore_block_db_size = 0
bluestore_cache_autotune = false
bluestore_cache_size = 33554432
osd_memory_target = 939524096
osd_op_num_shards = 2
osd_op_num_threads_per_shard = 1
osd_heartbeat_grace = 10
osd_heartbeat_interval = 3
osd_max_backfills = 4
osd_recovery_sleep = 0
END
    export CEPH_CONF=$cluster/ceph.conf
    monmaptool --create --fsid "$fsid" --addv a "[v2:127.0.0.1:$port]" "$cluster/monmap" >/dev/null
    ceph-mon --mkfs -i a --monmap "$cluster/monmap"
    monitors_up
    local i
    for i in $(seq 0 $((osds - 1))); do
        mkdir -p "$cluster/osd.$i"
        cat /proc/sys/kernel/random/uuid >"$cluster/osd.$i.uuid"
    done
    # Ids are given out in order. The distribution's Python has rados.
    /usr/bin/python3 - "$cluster" "$osds" <<'END'
import json, rados, sys
folder, osds = sys.argv[1], int(sys.argv[2])
client = rados.Rados(conffile=folder + "/ceph.conf")
client.connect()
for i in range(osds):
    command = {"prefix": "osd new", "uuid": open(f"{folder}/osd.{i}.uuid").read().strip()}
    status, _, why = client.mon_command(json.dumps(command), b"")
    assert status == 0, why
END
    seq 0 $((osds - 1)) | xargs -P "$osds" -I{} sh -c \
        "ceph-osd -i {} --mkfs --osd-uuid \$(cat $cluster/osd.{}.uuid) >/dev/null 2>&1"
    osds_up $(seq 0 $((osds - 1)))
    say_lap "a cluster of $osds OSDs ($(ceph-osd --version | cut -d' ' -f3)) is up"
}

# has_room OSDS: true if so many more can start. Each takes 2048 of the kernel's slots for
# asynchronous I/O (aio-nr), of which there are 65536 unless the machine was booted with Ceph on it.
has_room() { [ $(($(cat /proc/sys/fs/aio-nr) + $1 * 2048)) -le "$(cat /proc/sys/fs/aio-max-nr)" ]; }

monitors_up() {
    ceph-mon -i a >/dev/null 2>&1
    ceph-mgr -i x >/dev/null 2>&1
}

declare -A started
# osds_up ID...: starts them and waits until the monitor has seen each, or one has ended.
osds_up() {
    local id
    # The OSD runs in the foreground, so that a plug-in's standard error is kept.
    for id in "$@"; do
        setsid ceph-osd -f -i "$id" >>"$cluster/log/osd.$id.err" 2>&1 </dev/null &
        started[$id]=$!
        disown $!
    done
    wait_for "OSDs are not up" osds_are_up "$@"
}
osds_are_up() {
    local id
    for id in "$@"; do
        kill -0 "${started[$id]}" 2>/dev/null || fail "OSD $id ended at its start: $(tail -n 3 "$cluster/log/osd.$id.err")"
    done
    ceph osd dump -f json 2>/dev/null | /usr/bin/python3 -c '
import json, sys
up = {osd["osd"] for osd in json.load(sys.stdin)["osds"] if osd["up"]}
sys.exit(not up.issuperset(map(int, sys.argv[1:])))' "$@"
}

json() { /usr/bin/python3 -c "import json,sys; print(json.load(sys.stdin)$1)"; }

# wait_for WHAT COMMAND...: repeats COMMAND until it succeeds, for at most 10 minutes, however busy
# the machine is.
patience=600
wait_for() {
    local end=$((SECONDS + patience)) what=$1
    shift
    until "$@"; do
        [ $SECONDS -lt $end ] || { fail "$what: $(ceph -s 2>&1 | tr '\n' ' ' | cut -c1-600)"; }
        sleep 0.3
    done
}
is_clean() { ceph pg stat 2>/dev/null | grep -qE ': [0-9]+ active\+clean;'; }
clean() { wait_for "placement groups are not clean" is_clean; }

# kill_osd ID...: kills OSDs at once; they stay down until osds_up.
kill_osd() {
    local id
    for id in "$@"; do kill -9 "$(cat "$cluster/run/osd.$id.pid")"; rm -f "$cluster/run/osd.$id.pid"; done
    ceph osd down "$@" >/dev/null 2>&1
}

# daemons_down: stops all daemons in order; their state is kept.
daemons_down() {
    local pid pids
    pids=$(cat "$cluster"/run/*.pid 2>/dev/null || true)
    for pid in $pids; do kill "$pid" 2>/dev/null || true; done
    for pid in $pids; do
        for _ in $(seq 100); do [ -e "/proc/$pid" ] || break; sleep 0.1; done
        kill -9 "$pid" 2>/dev/null || true
    done
    rm -f "$cluster"/run/*.pid
}
cluster_down() {
    local pid
    for pid in $(cat "$cluster"/run/*.pid 2>/dev/null); do kill -9 "$pid" 2>/dev/null || true; done
    rm -rf "$cluster"
}

# quietly COMMAND...: prints its output and ends if it fails.
quietly() {
    local said
    said=$("$@" 2>&1) || fail "$*: $said"
}

# pool NAME WORD...: makes a pool with a profile of these words. Objects may be overwritten unless
# overwrites=false. With optimised=true it has Ceph 20's optimizations; it has 8 placement groups
# unless `groups` is set.
pool() {
    local name=$1 k
    shift
    quietly ceph osd erasure-code-profile set "$name" "$@" crush-failure-domain=osd
    quietly ceph osd pool create "$name" "${groups:-8}" "${groups:-8}" erasure "$name"
    [ "${overwrites:-true}" = false ] || quietly ceph osd pool set "$name" allow_ec_overwrites true
    [ "${optimised:-false}" = false ] || quietly ceph osd pool set "$name" allow_ec_optimizations true
    k=$(ceph osd erasure-code-profile get "$name" | sed -n 's/^k=\([1-9]\)/\1/p')
    # For lrc by layers k is -1.
    [ -z "$k" ] || ceph osd pool set "$name" min_size "$k" >/dev/null 2>&1
    clean
}

# scrub POOL [lies]: scrubs deeply, and expects no error, or some with `lies`.
scrub() {
    local before group
    before=$(date -u +%Y-%m-%dT%H:%M:%S)
    sleep 1
    for group in $(ceph pg ls-by-pool "$1" -f json | /usr/bin/python3 -c 'import json,sys; [print(p["pgid"]) for p in json.load(sys.stdin)["pg_stats"]]'); do
        ceph pg deep-scrub "$group" >/dev/null 2>&1
    done
    wait_for "no deep scrub of $1" is_scrubbed "$1" "$before"
    local errors
    errors=$(ceph pg ls-by-pool "$1" -f json | json '["pg_stats"]' | /usr/bin/python3 -c 'import ast,sys; print(sum(p["stat_sum"]["num_scrub_errors"] for p in ast.literal_eval(sys.stdin.read())))')
    [ "$errors" = 0 ] || [ "${2:-}" = lies ] || fail "deep scrub of $1 finds $errors errors"
    [ "$errors" != 0 ] || [ "${2:-}" != lies ] || fail "deep scrub of $1 finds no error"
}
is_scrubbed() {
    ceph pg ls-by-pool "$1" -f json | /usr/bin/python3 -c "import json,sys; sys.exit(any(p['last_deep_scrub_stamp'] < '$2' for p in json.load(sys.stdin)['pg_stats']))"
}
