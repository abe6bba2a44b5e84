#!/usr/bin/env bash
# make.sh PANTILE: makes the sealed sets of format version 1 in this directory. They were made by
# the build of commit 7fa41de and are never made again: later builds must go on reading these very
# bytes (crates/seal/tests/seal/sets_of_version_1_live_on.rs).
#
#   tree/ two/ three/  what was sealed; `times` has the mode and the time of modification of each path, which git does not keep
#   NAME/              the shards of one set, or a set whose last change was decided and is not done (interrupted*)
set -euo pipefail
pantile=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d /tmp/pantile-sets.XXXXXX)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 - <<'PY'
import os, random
random.seed(7)
def write(path, size):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    open(path, 'wb').write(random.randbytes(size))
for path, size in (('tree/a', 10000), ('tree/block', 4096), ('tree/empty', 0), ('tree/deep/er/c', 17001), ('tree/deep/one', 1),
                   ('two/b', 9000), ('two/sub/d', 5000), ('three/e', 12289)):
    write(path, size)
os.symlink('a', 'tree/link')
os.symlink('../nowhere', 'tree/deep/dangling')
os.chmod('tree/block', 0o755)
os.chmod('tree/deep/one', 0o400)
os.chmod('two/sub', 0o700)
for n, top in enumerate(('tree', 'two', 'three')):
    for dirpath, dirs, files in os.walk(top, topdown=False):
        for i, name in enumerate(sorted(files + dirs) + ['']):
            path = os.path.join(dirpath, name) if name else dirpath
            os.utime(path, ns=(0, (1600000000 + n * 1000 + i) * 10**9 + 123456789), follow_symlinks=False)
PY
seal() { local out=$1; shift; "$pantile" seal "$@" --out "$out" >/dev/null 2>&1; }
seal full tree --code rs:4+2
seal full-unchecked tree --code raid6:3 --no-checksums
seal full-array tree --code dcode:5
seal full-overlap tree --code shec:4,3,2
seal full-file tree --code "$here/../custom/pair-of-rows.code"
seal full-sources tree two three --code cauchy:3+3 --name all
seal beside tree --code rs:4+2 --beside
seal beside-unchecked tree --code raid6:4 --beside --no-checksums
seal beside-array tree --code rdp:5 --beside
seal beside-sources tree two three --code raid5:3 --beside --name all
# A set that was brought up to date: generation 2, an extent freed, its meta area moved. And the
# same change cut off after it was decided, before it was done; once with nothing done, once with a
# part of it.
python3 - <<'PY'
import shutil, os, random
random.seed(8)
shutil.copytree('tree', 'earlier/tree', symlinks=True)
os.unlink('earlier/tree/a')
open('earlier/tree/deep/er/c', 'r+b').write(random.randbytes(5000))
open('earlier/tree/gone', 'wb').write(random.randbytes(30000))
PY
mv tree now-tree; mv earlier/tree tree
seal resealed tree --code rs:3+2
cp -a resealed interrupted; cp -a resealed interrupted-half
mv tree earlier/tree; mv now-tree tree
seal resealed tree
kill_at() { # OUT N: fails every write from the Nth on
  strace -f -o /dev/null -e trace=pwrite64 -e inject=pwrite64:error=EIO:when="$2"+ "$pantile" seal tree --out "$1" >/dev/null 2>&1 || true
}
decided() { # OUT: the writes at which the change of the tree, generation 3, is decided and not done (generation 2 moves the meta area)
  for n in $(seq 1 200); do
    rm -rf try; cp -a "$1" try; kill_at try "$n"
    if [ -e try/tree.journal ] && [ "$(od -An -tu8 -j32 -N8 try/tree.journal | tr -d ' ')" = 3 ]; then echo "$n"; fi
  done
}
all=($(decided interrupted))
kill_at interrupted "${all[0]}"; kill_at interrupted-half "${all[${#all[@]} * 2 / 3]}"
ls interrupted/tree.journal interrupted-half/tree.journal >/dev/null
rm -rf "$here"/{tree,two,three,full*,beside*,resealed,interrupted*}
cp -a tree two three full* beside* resealed interrupted* "$here"/
find tree two three -printf '%m %T@ %p\n' | sort -k3 > "$here/times"
du -sh "$here"
