#!/usr/bin/env bash
# Files deleted and truncated while disks of a RAIDP are lost, paused and killed: files that nobody
# touched must be there after two disks were lost and recovered. A NameNode and 8 DataNodes as
# processes.
#
#   deletes.sh CLASSPATH JAR DIR [FILES]    CLASSPATH of Hadoop, the jar, a folder, 300
#
# Exit status as that of raidp.sh.
set -euo pipefail
hadoop=$1 jar=$(realpath "$2") dir=$3 files=${4:-300}
heap=128 disks=8 factory=pantile.hdfs.raidp.DatasetFactory
rm -rf "$dir"
. "$(dirname "$0")/raidp-nodes.sh"
. "$(dirname "$0")/raidp-loss.sh"

load() { (run conf pantile.hdfs.raidp.Load "$@") >>"$dir/load.log" 2>>"$dir/client.log" || fail "the load: $(tail -n 3 "$dir/client.log")"; }
# recovered DISK...: replaces and recovers lost disks, then checks that no block is missing and all
# files are right.
recovered() {
    replace "$@"
    (recover "$@") || { cat "$dir/recover.out"; exit 3; }
    grep '^rebuilt [0-9]* blocks\|no replica' "$dir/recover.out"
    within 300 are_whole || fail "some blocks have one copy"
    compare
    forget "$@"
    within 180 check_all || { cat "$dir/check.out"; exit 3; }
    # A delete that a kill lost is found by the block report that is asked for after five minutes.
    within 480 is_well || { cat "$dir/status.out"; exit 3; }
}
# True if every add-on is in line, every mirror is present, and no copy is kept any more.
is_well() {
    (run conf pantile.hdfs.Main raidp check) >"$dir/status.out" 2>>"$dir/client.log" &&
        grep -q 'any 2 more disks' "$dir/status.out" && ! grep -q ' [1-9][0-9]* kept copies' "$dir/status.out"
}
start_name_node() {
    (run conf $hdfs.server.namenode.NameNode) >>"$dir/name.log" 2>&1 &
    name_node=$!
}

start_all
load fill 1 "$files"
within 60 is_well || { cat "$dir/status.out"; exit 3; }

say "deletes and truncates between the loss of two disks and their repair"
lose 1 4
load thin "$dir/load.log" 1 10 true
recovered 1 4

say "deletes while two nodes pause, which the NameNode forgets as it is killed"
kill -STOP "${node[2]}" "${node[6]}"
load thin "$dir/load.log" 2 12 false
sleep 4
kill -9 "$name_node"
wait "$name_node" 2>/dev/null || true
kill -CONT "${node[2]}" "${node[6]}"
start_name_node
within 180 are_live $disks || fail "only $(live) DataNodes came back"
sleep 10
lose 2 6
recovered 2 6

say "nodes killed while files are deleted and truncated, then two disks lost"
for round in 1 2 3; do
    (load thin "$dir/load.log" "$((10 + round))" 4 true) &
    others=("$!")
    sleep "$((RANDOM % 3)).$((RANDOM % 1000))"
    victim=$((RANDOM % disks))
    kill_node $victim
    start_node $victim
    wait "${others[0]}" || fail "the load failed"
    others=()
done
within 180 are_live $disks || fail "only $(live) DataNodes came back"
a=$((RANDOM % disks)) b=$(((a + 1 + RANDOM % (disks - 1)) % disks))
say "disks $a and $b"
lose $a $b
recovered $a $b
