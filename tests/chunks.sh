#!/usr/bin/env bash
# Raw chunks against the systems that make them, in both directions: Ceph, ISA-L, Jerasure, Hadoop
# klauspost/reedsolomon, zfec and Swift. What Debian has is installed; Hadoop and klauspost are
# fetched if Java with Maven, and Go, are there, and else left out, as zfec and Swift are without the
# packages zfec and pyeclib of Python. About a minute.
#
#   tests/chunks.sh target/debug/pantile
set -euo pipefail
pantile=$(realpath "$1")
cd "$(dirname "$0")/.."
. tools/setup.sh
need ceph-erasure-code-tool ceph-osd
for library in libisal.so.2:libisal2 libJerasure.so.2:libjerasure2; do
    ldconfig -p | grep -q "${library%%:*}" || need "${library%%:*}" "${library##*:}"
done
timeout 900 python3 reference/foreign_chunks.py check "$pantile"
