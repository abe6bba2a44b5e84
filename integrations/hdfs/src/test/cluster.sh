#!/usr/bin/env bash
# A cluster of processes: a NameNode and 18 DataNodes of unmodified Hadoop with the jar beside them,
# and what kill -9 does to files that are being written, read and rebuilt.
#
#   cluster.sh CLASSPATH JAR DIR [JAVA]     CLASSPATH of Hadoop, the jar, a folder for everything,
#                                           and the Java to run it on
#
# One DataNode is started without the jar: what its operator reads then is looked for, too.
# Takes some six minutes on two cores. Everything listens on 127.0.0.1.
set -euo pipefail
hadoop=$1 jar=$(realpath "$2") dir=$3 java=${4:-java}
rm -rf "$dir"
. "$(dirname "$0")/nodes.sh"
mkdir -p "$dir/home/bin" "$dir/bare/bin"

coders() {
    core
    for codec in rs rs-legacy xor; do
        property "io.erasurecode.codec.$codec.rawcoders" "${codec}_pantile_native,${codec}_java"
    done
    property io.erasurecode.codec.raidq.rawcoders raidq_pantile_native
}
settings() {
    usual
    property dfs.namenode.reconstruction.pending.timeout-sec 15
    # A node that is killed and started again within seconds may never be asked for its first report
    # (seen with 3.5.0); the usual next one is six hours later.
    property dfs.blockreport.intervalMsec 30000
    property dfs.datanode.ec.reconstruction.validation true
}
configuration coders >"$dir/conf/core-site.xml"
configuration settings >"$dir/conf/hdfs-site.xml"
logs '%p %c{1}: %m%n' >"$dir/conf/log4j.properties"
# Two commands `hadoop`, which `java -jar` asks for the class path: one with the jar, and one
# without.
printf '#!/bin/sh\n[ "$1" = classpath ] && echo "%s"\n' "$dir/conf:$jar:$hadoop" >"$dir/home/bin/hadoop"
printf '#!/bin/sh\n[ "$1" = classpath ] && echo "%s"\n' "$dir/conf:$hadoop" >"$dir/bare/bin/hadoop"
chmod +x "$dir/home/bin/hadoop" "$dir/bare/bin/hadoop"

# run WITH_JAR CLASS ARGUMENT...
run() {
    local path=$dir/conf:$hadoop
    [ "$1" = no ] || path=$dir/conf:$jar:$hadoop
    exec "$java" -Xmx192m -XX:TieredStopAtLevel=1 -Djava.io.tmpdir="$dir/tmp" -cp "$path" "${@:2}"
}
client() { (run yes "$@" 2>>"$dir/client.log"); }
shell() { client org.apache.hadoop.fs.FsShell "$@"; }
ec() { client $hdfs.tools.ECAdmin "$@"; }
tool() { HADOOP_HOME=$dir/home "$java" -Xmx256m -jar "$jar" "$@" 2>>"$dir/client.log"; }
start_node() { # NUMBER WITH_JAR
    (run "$2" $hdfs.server.datanode.DataNode -Ddfs.datanode.data.dir="$dir/data$1" -Ddfs.datanode.address=127.0.0.1:0 \
        -Ddfs.datanode.http.address=127.0.0.1:0 -Ddfs.datanode.ipc.address=127.0.0.1:0) >>"$dir/node$1.log" 2>&1 &
    node[$1]=$!
}
good() { tool verify "$@" >"$dir/verify.out"; }
# The numbers of nodes that hold one of the first four units of a file's first group, one a line.
holders() {
    local group=$(client $hdfs.tools.DFSck "$1" -files -blocks | grep -o 'blk_-[0-9]*' | head -1)
    group=${group#blk_}
    for unit in 0 1 2 3; do find "$dir"/data* -name "blk_$((group + unit))" ; done | sed "s|^$dir/data\([0-9]*\)/.*|\1|"
}
same() { shell -cat "$2" | cmp - "$1"; }

say "a NameNode and 12 DataNodes with the jar"
(run yes $hdfs.server.namenode.NameNode -format -force) >"$dir/format.log" 2>&1
(run yes $hdfs.server.namenode.NameNode) >"$dir/name.log" 2>&1 &
name_node=$!
for n in 1 2 3 4 5 6 7 8 9 10 11 12; do start_node $n yes; done
within 600 are_live 12 || fail "only $(live) DataNodes came up"

cat >"$dir/raidq.xml" <<'XML'
<configuration>
 <layoutversion>1</layoutversion>
 <schemas>
  <schema id="q84"><codec>raidq</codec><k>8</k><m>4</m></schema>
  <schema id="q124"><codec>raidq</codec><k>12</k><m>4</m></schema>
 </schemas>
 <policies>
  <policy><schema>q84</schema><cellsize>131072</cellsize></policy>
  <policy><schema>q124</schema><cellsize>131072</cellsize></policy>
 </policies>
</configuration>
XML
ec -addPolicies -policyFile "$dir/raidq.xml" >/dev/null
ec -enablePolicy -policy RAIDQ-8-4-128k >/dev/null
ec -enablePolicy -policy RAIDQ-12-4-128k >/dev/null
shell -mkdir /rs /q /wide
ec -setPolicy -path /rs -policy RS-6-3-1024k >/dev/null
ec -setPolicy -path /q -policy RAIDQ-8-4-128k >/dev/null
ec -setPolicy -path /wide -policy RAIDQ-12-4-128k >/dev/null
tool check >"$dir/check.out" || fail "check: $(cat "$dir/check.out")"
! HADOOP_HOME=$dir/bare "$java" -jar "$jar" check >"$dir/check.out" 2>&1 || fail "check finds no fault where the jar is not installed"
grep -q '^jar: it is not on the class path' "$dir/check.out" || fail "check: $(cat "$dir/check.out")"

say "kill -9 of a DataNode while a file is written"
head -c 20000000 /dev/urandom >"$dir/content"
{ head -c 9000000 "$dir/content"; sleep 4; tail -c +9000001 "$dir/content"; } | shell -put - /rs/torn &
writer=$!
sleep 5
kill_node 1
wait $writer || fail "writing failed with one node of 12 gone"
same "$dir/content" /rs/torn || fail "/rs/torn is not what was written"
start_node 1 yes
within 300 are_live 12 || fail "node 1 did not come back"

say "four of 12 killed: RAIDQ-8-4 is read all the same"
shell -put "$dir/content" /q/down
for n in $(holders /q/down | head -4); do
    gone+=("$n")
    kill_node "$n"
done
[ ${#gone[@]} = 4 ] || fail "/q/down lies on too few nodes"
same "$dir/content" /q/down || fail "/q/down is not what was written"
for n in "${gone[@]}"; do start_node "$n" yes; done
within 300 are_live 12 || fail "the four did not come back"
within 300 good /q/down /rs/torn || fail "verify: $(cat "$dir/verify.out")"

say "a DataNode without the jar is the only one left to rebuild on"
start_node 13 no
within 300 are_live 13 || fail "node 13 did not come up"
kill_node "${gone[0]}"
without() { grep -q 'Fail to create raw erasure decoder with given codec: raidq' "$dir/node13.log"; }
within 300 without || fail "node 13 did not say that it lacks the codec"
same "$dir/content" /q/down || fail "/q/down is not what was written"

say "with the jar it rebuilds, and is killed while it does"
kill_node 13
start_node 13 yes
busy() { find "$dir/data13" -name "blk_-*" 2>/dev/null | grep -q .; }
within 300 busy || fail "node 13 rebuilds nothing"
kill_node 13
start_node 13 yes
within 300 good /q/down /rs/torn || fail "not rebuilt: $(cat "$dir/verify.out")"
same "$dir/content" /q/down || fail "/q/down is not what was written"
cat "$dir/verify.out"

say "RAIDQ-12-4 on 16 nodes: written under kill -9, read with four killed"
for n in "${gone[0]}" 14 15 16; do start_node "$n" yes; done
within 600 are_live 16 || fail "only $(live) DataNodes came up"
head -c 60000000 /dev/urandom >"$dir/wide"
{ head -c 25000000 "$dir/wide"; sleep 4; tail -c +25000001 "$dir/wide"; } | shell -put - /wide/file &
writer=$!
sleep 6
kill_node 14
wait $writer || fail "writing failed with one node of 16 gone"
same "$dir/wide" /wide/file || fail "/wide/file is not what was written"
start_node 14 yes
within 300 are_live 16 || fail "node 14 did not come back"
within 300 good /wide/file || fail "not whole: $(cat "$dir/verify.out")"
mapfile -t holding < <(holders /wide/file)
for n in "${holding[@]}"; do kill_node "$n"; done
[ ${#holding[@]} = 4 ] || fail "/wide/file lies on too few nodes"
same "$dir/wide" /wide/file || fail "/wide/file is not what was written"

say "two spare nodes rebuild, and one of them and a source are killed while they do"
for n in 17 18 "${holding[2]}" "${holding[3]}"; do start_node "$n" yes; done
rebuilds() { find "$dir/data17" -name "blk_-*.meta" 2>/dev/null | grep -q .; }
within 300 rebuilds || fail "node 17 rebuilds nothing"
kill_node 17
kill_node "${holding[2]}"
good /wide/file && say "(they had ended)"
same "$dir/wide" /wide/file || fail "/wide/file is not what was written"
start_node 17 yes
start_node "${holding[2]}" yes
within 300 good /wide/file || fail "not rebuilt: $(cat "$dir/verify.out")"
same "$dir/wide" /wide/file || fail "/wide/file is not what was written"
[ "$(grep -c ' agree$' "$dir/verify.out")" = 5 ] || fail "not five groups: $(cat "$dir/verify.out")"
