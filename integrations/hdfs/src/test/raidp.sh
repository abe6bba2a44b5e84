#!/usr/bin/env bash
# RAIDP under kill -9: a NameNode and 5 DataNodes as processes, files written, appended to and
# deleted all the time, a DataNode killed at a random moment and started again; then parity-check of
# every disk, and all files compared.
#
#   raidp.sh CLASSPATH JAR DIR [ROUNDS [FACTORY]]    CLASSPATH of Hadoop, the jar, a folder, 5 rounds
#
# FACTORY is another dataset factory: one with a planted fault, which must be found. Exit status 0:
# all is right; 3: parity-check or a comparison found something; 1: anything else went wrong.
set -euo pipefail
hadoop=$1 jar=$(realpath "$2") dir=$3 rounds=${4:-5} factory=${5:-pantile.hdfs.raidp.DatasetFactory}
disks=5 heap=192 planted=0
[ $# -lt 5 ] || planted=1
rm -rf "$dir"
. "$(dirname "$0")/raidp-nodes.sh"

start_all

say "$rounds times kill -9 while files are written, appended to and deleted"
start_load
holds() { [ "$(find "$dir/disk$1" -path '*/finalized/*' -name 'blk_*.meta' 2>/dev/null | wc -l)" -ge 3 ]; }
for round in $(seq 1 "$rounds"); do
    # All DataNodes are live and work again before the kill.
    within 120 are_live $disks || fail "round $round: only $(live) DataNodes are there"
    # A planted fault is in the add-ons that are folders, and hits where blocks are.
    victim=$((RANDOM % (disks - planted)))
    within 120 holds $victim || fail "round $round: disk $victim has no blocks"
    within 120 are_more "$(($(changes) + 8))" || fail "round $round: the load stands still"
    sleep "0.$((RANDOM % 1000))"
    kill_node $victim
    sleep "0.$((RANDOM % 1000))"
    start_node $victim
    # The NameNode counts the killed node as live until some seconds without a heartbeat.
    sleep 5
    kill -0 "$load" 2>/dev/null || fail "the load ended by itself: $(tail -n 3 "$dir/load.log")"
    [ $((round % 10)) != 0 ] || say "$round times, $(changes) changes so far"
done
within 120 are_live $disks || fail "only $(live) DataNodes came back"
end_load
within 60 check_all || { cat "$dir/check.out"; exit 3; }
cat "$dir/check.out"
compare
