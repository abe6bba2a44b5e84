# Sourced by raidp.sh and loss.sh: a NameNode and `disks` DataNodes of RAIDP as processes, with
# `factory` as their dataset factory and `heap` MiB each. It needs `hadoop`, `jar` and `dir`.
. "$(dirname "$0")/nodes.sh"

configuration core >"$dir/conf/core-site.xml"
# site DISK: the hdfs-site.xml of a DataNode, or of all other processes if DISK is missing.
site() { configuration settings "$@"; }
settings() {
    usual
    property dfs.block.replicator.classname org.apache.hadoop.hdfs.server.blockmanagement.RaidpPlacementPolicy
    property dfs.replication 2
    property dfs.replication.max 2
    property dfs.storage.policy.enabled false
    property dfs.disk.balancer.enabled false
    property dfs.namenode.reconstruction.pending.timeout-sec 5
    if [ "${1:-}" ]; then
        property dfs.datanode.data.dir "$(for j in $(seq 1 $disks); do printf '%s,' "$dir/disk$1/$j"; done | sed 's/,$//')"
        property dfs.datanode.fsdataset.factory "$factory"
        property dfs.datanode.fsdataset.volume.choosing.policy pantile.hdfs.raidp.VolumePolicy
        property dfs.datanode.address 127.0.0.1:0
        property dfs.datanode.http.address 127.0.0.1:0
        property dfs.datanode.ipc.address 127.0.0.1:0
        property pantile.raidp.array test
        property pantile.raidp.disks $disks
        property pantile.raidp.disk "$1"
        property pantile.raidp.addon.bytes 67108864
        # The add-on of the last disk is kept by the server of the first disk's node.
        if [ "$1" = $((disks - 1)) ]; then
            property pantile.raidp.addon "127.0.0.1:$((port + 2))"
        else
            property pantile.raidp.addon "$dir/add-on$1"
        fi
        if [ "$1" = 0 ]; then
            property pantile.raidp.server.address "127.0.0.1:$((port + 2))"
            property pantile.raidp.server.folder "$dir/served"
        fi
    fi
}
site >"$dir/conf/hdfs-site.xml"
logs '%d{HH:mm:ss,SSS} %p %c{1}: %m%n' log4j.logger.pantile=INFO >"$dir/conf/log4j.properties"
mkdir -p "$dir/served"
for i in $(seq 0 $((disks - 1))); do
    mkdir -p "$dir/add-on$i" "$dir/conf$i"
    cp "$dir/conf/core-site.xml" "$dir/conf/log4j.properties" "$dir/conf$i"
    site "$i" >"$dir/conf$i/hdfs-site.xml"
done

# run CONF CLASS ARGUMENT...
run() { exec java -Xmx${heap}m -XX:TieredStopAtLevel=1 -Djava.io.tmpdir="$dir/tmp" -cp "$dir/$1:$jar:$hadoop" "${@:2}"; }
client() { (run conf "$@" 2>>"$dir/client.log"); }
start_node() {
    (run "conf$1" $hdfs.server.datanode.DataNode) >>"$dir/node$1.log" 2>&1 &
    node[$1]=$!
}
check() { (run "conf$1" pantile.hdfs.Main raidp parity-check) 2>>"$dir/client.log"; }
check_all() {
    : >"$dir/check.out"
    local bad=0
    for i in $(seq 0 $((disks - 1))); do check "$i" >>"$dir/check.out" || bad=1; done
    return $bad
}

start_all() {
    say "a NameNode and $disks DataNodes of $((disks - 1)) superchunks"
    (run conf $hdfs.server.namenode.NameNode -format -force) >"$dir/format.log" 2>&1
    (run conf $hdfs.server.namenode.NameNode) >"$dir/name.log" 2>&1 &
    name_node=$!
    for i in $(seq 0 $((disks - 1))); do start_node "$i"; done
    within 600 are_live $disks || fail "only $(live) DataNodes came up"
}

# Prints the number of changes of the load; it can be a little too high.
changes() { grep -c '^is \|^more ' "$dir/load.log" || true; }
are_more() { [ "$(changes)" -ge "$1" ]; }
# Runs the load until the file load.stop exists; it deletes no files while load.keep exists.
start_load() {
    (run conf pantile.hdfs.raidp.Load write "$dir/load.stop" "$dir/load.keep") >"$dir/load.log" 2>&1 &
    load=$!
    others=("$load")
}
end_load() {
    touch "$dir/load.stop"
    wait "$load" || fail "the load failed: $(tail -n 3 "$dir/load.log")"
    others=()
    tail -n 1 "$dir/load.log"
}
compare() {
    (run conf pantile.hdfs.raidp.Load compare "$dir/load.log") >"$dir/compare.out" 2>&1 || { tail -n 5 "$dir/compare.out"; exit 3; }
    tail -n 1 "$dir/compare.out"
}
