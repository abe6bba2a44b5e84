# Sourced by loss.sh and deletes.sh, behind raidp-nodes.sh: disks that are lost and recovered.

# Prints the place of a disk's add-on, for the command.
add_on() { sed -n 's|.*<name>pantile.raidp.addon</name><value>\(.*\)</value>.*|\1|p' "$dir/conf$1/hdfs-site.xml"; }
# lose DISK...: kills the nodes and empties their disks; the add-ons stay.
lose() {
    for i in "$@"; do
        kill_node "$i"
        rm -rf "$dir/disk$i"
    done
    within 120 are_live $((disks - $#)) || fail "$(live) nodes are live after $# were killed"
    sleep 3 # The NameNode takes one dead node after the other out of its tables.
}
# missing prints the number of blocks without a replica; are_whole is true if every block has both.
missing() { client $hdfs.tools.DFSck -list-corruptfileblocks / | grep -c '^blk_' || true; }
are_whole() { client $hdfs.tools.DFSck / | grep -q 'Under-replicated blocks:[[:space:]]*0 ' && [ "$(missing)" = 0 ]; }
# True if no copy is in a spare any more.
are_home() {
    (run conf pantile.hdfs.Main raidp status) >"$dir/status.out" 2>>"$dir/client.log" || true
    grep -q ' 0 spare copies' "$dir/status.out" && ! grep -q ' [1-9][0-9]* spare copies' "$dir/status.out"
}
# recover DISK... [-- OPTION...]: runs the command with the add-ons of these disks; its output is in
# recover.out.
recover() {
    local arguments=()
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        arguments+=(--add-on "$1=$(add_on "$1")")
        shift
    done
    [ $# = 0 ] || shift
    run conf pantile.hdfs.Main raidp recover "${arguments[@]}" "$@" >"$dir/recover.out" 2>>"$dir/recover.log"
}
# forget DISK...: takes blocks out of parity that were deleted while their disk was lost.
forget() {
    for i in "$@"; do
        (run conf pantile.hdfs.Main raidp forget "$i") >"$dir/forget.out" 2>>"$dir/client.log" || fail "disk $i forgets nothing: $(cat "$dir/forget.out")"
    done
}
# replace DISK...: starts nodes in the place of lost ones.
replace() {
    for i in "$@"; do start_node "$i"; done
    within 300 are_live $disks || fail "only $(live) DataNodes came back"
}
