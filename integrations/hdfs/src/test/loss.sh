#!/usr/bin/env bash
# Disks lost in a RAIDP of 16 DataNodes as processes with small heaps. Two nodes are killed while
# files are written and appended to, recovered into spares, and replaced. Then three are recovered
# by the nodes in their places. Then `raidp recover` and DataNodes are killed by kill -9 while two
# more are recovered in one of these ways, and the command is started again. After each loss:
# parity-check of every disk, and all files compared. Prints what memory it took.
#
#   loss.sh CLASSPATH JAR DIR [KILLS [DISKS]]    CLASSPATH of Hadoop, the jar, a folder, 6, 16
#
# Deletes end before nodes are lost here; deletes.sh has those that do not.
# Exit status as that of raidp.sh.
set -euo pipefail
hadoop=$1 jar=$(realpath "$2") dir=$3 kills=${4:-6} disks=${5:-16}
heap=96 planted=0 factory=pantile.hdfs.raidp.DatasetFactory
rm -rf "$dir"
. "$(dirname "$0")/raidp-nodes.sh"
. "$(dirname "$0")/raidp-loss.sh"

# Prints the sum of the peak mebibytes of NameNode and DataNodes.
memory() {
    for process in $name_node "${node[@]}"; do cat "/proc/$process/status"; done | awk '/^VmHWM/ { all += $2 } END { print int(all / 1024) }'
}
right() {
    within 180 check_all || { cat "$dir/check.out"; exit 3; }
    awk '/ blocks in / { for (i = 2; i <= NF; i++) if ($i == "blocks") n += $(i - 1) } END { print "   parity-check of all disks: right, " n " replicas" }' "$dir/check.out"
    compare
}
start_all
start_load
within 600 are_more 150 || fail "the load stands still"

say "two nodes killed while files are written and appended to"
touch "$dir/load.keep"
sleep 10
lose 2 9
before=$(changes)
(recover 2 9) || { cat "$dir/recover.out"; exit 3; }
grep '^rebuilt [0-9]* blocks\|no replica' "$dir/recover.out"
say "$(($(changes) - before)) changes were made meanwhile"
rm "$dir/load.keep"
within 120 are_more "$(($(changes) + 20))" || fail "the load stands still"
end_load
within 600 are_whole || fail "some blocks have one copy"
compare
replace 2 9
within 600 are_home || fail "copies stay in spares: $(cat "$dir/status.out")"
within 600 are_whole || fail "some blocks have one copy"
forget 2 9
right

say "three disks"
lose 0 5 13
replace 0 5 13
(recover) || { cat "$dir/recover.out"; exit 3; }
grep '^rebuilt [0-9]* blocks\|no replica' "$dir/recover.out"
within 600 are_whole || fail "some blocks have one copy"
within 600 are_home || fail "copies stay in spares: $(cat "$dir/status.out")"
right

killed=0 victims=()
while [ $killed -lt "$kills" ]; do
    a=$((RANDOM % disks)) b=$(((a + 1 + RANDOM % (disks - 1)) % disks))
    names=("$a" "$b") way="into spares"
    lose $a $b
    if [ $((RANDOM % 2)) = 0 ]; then
        replace $a $b
        names=() way="by the nodes in their places"
    fi
    nodes=${#node[@]}
    say "disks $a and $b, recovered $way; kill -9 meanwhile"
    while [ $killed -lt "$kills" ]; do
        rm "$dir/recover.out"
        (recover "${names[@]}" -- --threads 2 --bytes-per-s 1500000) &
        command=$!
        others=("$command")
        within 60 grep -qs 'no replica' "$dir/recover.out" || fail "the command does nothing: $(tail -n 3 "$dir/recover.log")"
        sleep "$((RANDOM % 3)).$((RANDOM % 1000))"
        if ! kill -0 $command 2>/dev/null; then
            wait $command || { cat "$dir/recover.out"; exit 3; }
            break
        fi
        case $((killed % 3)) in
            0) victim=command ;;
            1) victim=$a ;;
            2) victim=$(((b + 1 + RANDOM % (disks - 1)) % disks)) ;;
        esac
        while [ $victim != command ] && [ -z "${node[$victim]:-}" ]; do victim=$(((victim + 1) % disks)); done
        victims+=("$victim")
        killed=$((killed + 1))
        if [ $victim = command ]; then
            kill -9 $command
            wait $command 2>/dev/null || true
        else
            kill_node "$victim"
            # The command does all possible steps, or names the blocks that it cannot recover.
            wait $command || [ $? = 1 ] || fail "the command: $(tail -n 3 "$dir/recover.log")"
            start_node "$victim"
            sleep 5
            within 180 are_live $nodes || fail "only $(live) DataNodes came back"
        fi
        others=()
    done
    (recover "${names[@]}") || { cat "$dir/recover.out"; exit 3; }
    within 600 are_whole || fail "some blocks have one copy"
    [ $nodes = $disks ] || replace $a $b
    within 600 are_home || fail "copies stay in spares: $(cat "$dir/status.out")"
    within 600 are_whole || fail "some blocks have one copy"
    right
done
say "killed: ${victims[*]}"
say "memory of $((disks + 1)) processes, each at its most: $(memory) MiB"
[ "$(memory)" -le 6144 ] || fail "more than 6 GiB"
