# Sourced by cluster.sh and raidp-nodes.sh: a NameNode and DataNodes as processes, whose ids are in
# `name_node` and `node`; `others` are the ids of what else must not outlive the script. It makes
# the folder `dir` and draws `port`; it needs `client CLASS ARGUMENT...`, which runs a class of
# Hadoop as a client.

mkdir -p "$dir/conf" "$dir/tmp"
dir=$(realpath "$dir")
port=$((20000 + RANDOM % 10000))
hdfs=org.apache.hadoop.hdfs
declare -A node=()
name_node= others=()

say() { printf '   %s\n' "$*"; }
fail() { printf '%s: %s (logs are in %s)\n' "${0##*/}" "$*" "$dir" >&2; exit 1; }

stop_all() {
    for process in $name_node "${node[@]}" "${others[@]}"; do kill -9 "$process" 2>/dev/null || true; done
    wait 2>/dev/null || true
}
trap stop_all EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

property() { printf '  <property><name>%s</name><value>%s</value></property>\n' "$1" "$2"; }
# configuration COMMAND...: what the command prints, as a configuration file of Hadoop.
configuration() {
    echo '<configuration>'
    "$@"
    echo '</configuration>'
}
# What every core-site.xml has.
core() {
    property fs.defaultFS "hdfs://127.0.0.1:$port"
    property hadoop.tmp.dir "$dir/tmp"
}
# logs PATTERN [LINE...]: a log4j.properties that prints warnings, and what further lines ask for.
logs() {
    local pattern=$1
    shift
    printf '%s\n' log4j.rootLogger=WARN,console "$@" \
        log4j.appender.console=org.apache.log4j.ConsoleAppender \
        log4j.appender.console.target=System.err \
        log4j.appender.console.layout=org.apache.log4j.PatternLayout \
        log4j.appender.console.layout.ConversionPattern="$pattern"
}
# What both clusters have in hdfs-site.xml: a node that is gone is missed within seconds.
usual() {
    property dfs.namenode.name.dir "$dir/name"
    property dfs.namenode.http-address "127.0.0.1:$((port + 1))"
    property dfs.heartbeat.interval 1
    property dfs.namenode.heartbeat.recheck-interval 500
    property dfs.namenode.redundancy.interval.seconds 1
    property dfs.namenode.safemode.extension 0
    property dfs.blocksize 1048576
}

kill_node() {
    kill -9 "${node[$1]}"
    wait "${node[$1]}" 2>/dev/null || true
    unset "node[$1]"
}
live() { client $hdfs.tools.DFSAdmin -report -live | grep -c '^Name: ' || true; }
are_live() { [ "$(live)" = "$1" ]; }
# within SECONDS COMMAND...: until it succeeds.
within() {
    local end=$((SECONDS + $1))
    until "${@:2}"; do
        [ $SECONDS -lt $end ] || return 1
        sleep 1
    done
}
