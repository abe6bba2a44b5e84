#!/usr/bin/env bash
# Eight ranks of Open MPI keep their state in a served volume (examples/mpi_checkpoint.c): one of
# them is killed in the middle of an epoch, and the state before is there, whole. Then each keeps its
# own checkpoint and a share of parity (bindings/c/mpi), and loses both. About half a minute.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/setup.sh
need nbdkit nbdkit
need mpicc libopenmpi-dev
need mpirun openmpi-bin
need pkg-config pkg-config
pkg-config --exists libnbd || as_root apt-get install -y -qq --no-install-recommends libnbd-dev >/dev/null

cargo build --profile test --quiet --workspace --lib --bins --tests # what `cargo test --workspace` builds, with the same features
pantile="${CARGO_TARGET_DIR:-$PWD/target}/debug/pantile"
work=$(mktemp -d)
vol=$work/vol
end() {
    "$pantile" stop "$vol" >/dev/null 2>&1 || true
    rm -rf "$work"
}
trap end EXIT
fail() { printf 'mpi.sh: %s\n' "$*" >&2; cat "$work/out" >&2; exit 1; }
# run_ranks STATUS PROGRAM ARGS...: what eight ranks say lies in $work/out.
run_ranks() {
    local want=$1 have=0
    shift
    # All ranks on this machine, as any user and with any number of processors.
    timeout 60 env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 \
        OMPI_MCA_mpi_yield_when_idle=1 mpirun -n 8 "$@" >"$work/out" 2>&1 || have=$?
    [ "$want" = any ] && [ "$have" != 0 ] || [ "$have" = "$want" ] || fail "status $have instead of $want: $*"
}
ranks() { run_ranks "$1" "$work/checkpoint" "$vol" "${@:2}"; }
says() { grep -q "$1" "$work/out" || fail "it does not say: $1"; }

say "a program with ranks is built as its head says"
# shellcheck disable=SC2046
tools/install.sh --only library --prefix "$work/prefix" --profile test >/dev/null
export PKG_CONFIG_PATH=$work/prefix/lib/pkgconfig LD_LIBRARY_PATH=$work/prefix/lib
mpicc -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror -O1 examples/mpi_checkpoint.c $(pkg-config --cflags --libs libnbd pantile) -o "$work/checkpoint"

say "three steps, each an epoch that eight ranks write and one seals"
"$pantile" create "$vol" --code raid6:4 --size 256M >/dev/null
"$pantile" serve "$vol" >/dev/null
ranks 0 3
says 'step 3 is sealed'

say "a rank is killed in the middle of step 5: step 4 is there, whole"
ranks any 5 5
says 'step 4 is sealed'
if grep -q 'step 5 is sealed' "$work/out"; then fail "a step without one of its ranks is sealed"; fi
ranks 0 check
says 'all 8 slices are of step 4'

say "they go on from there; a device that is lost meanwhile changes nothing"
"$pantile" fail "$vol" 1 >/dev/null
ranks 0 2
says 'step 6 is sealed'
ranks 0 check
says 'all 8 slices are of step 6'
"$pantile" delayed status "$vol" --json | grep -q '"epochs": \[\]' || { "$pantile" delayed status "$vol" --json >"$work/out"; fail "an epoch is left open"; }

say "shares of parity across ranks: every loss that the library names, each code, byte for byte"
redundant=(mpicc -std=c11 -Wall -Wextra -Werror -O1 -Ibindings/c/mpi bindings/c/mpi/pantile_ranks.c)
read -ra pantile_flags < <(pkg-config --cflags --libs pantile)
"${redundant[@]}" -g -fsanitize=address,undefined bindings/c/mpi/test.c "${pantile_flags[@]}" -o "$work/losses"
mkdir "$work/losses.d"
export ASAN_OPTIONS=detect_leaks=0 # Open MPI's own
run_ranks 0 "$work/losses" "$work/losses.d"
says 'every loss came back'

say "a rank is killed while shares are written, and two lose their storage: a generation is there, whole"
for lost in 0 3 6; do
    mkdir "$work/killed.$lost"
    run_ranks any "$work/losses" "$work/killed.$lost" killed $((RANDOM * 10 + 1000))
    ended=$(sed -n 's/^\([0-9][0-9]*\)$/\1/p' "$work/out" | tail -1)
    rm -r "$work/killed.$lost"/rank.{$lost,$((lost + 1))}
    run_ranks 0 "$work/losses" "$work/killed.$lost" after "${ended:-1}"
done

say "a program with such checkpoints loses two of its ranks' folders, and then three"
"${redundant[@]}" examples/mpi_redundancy.c "${pantile_flags[@]}" -o "$work/redundancy"
mkdir "$work/nodes"
redundancy() { run_ranks "$1" "$work/redundancy" "$work/nodes" rs:6+2 "${@:2}"; }
redundancy 0 write 12
rm -r "$work/nodes"/rank.[36]
redundancy 0 recover
says 'all ranks have generation 12; rebuilt: 3 6'
rm -r "$work/nodes"/rank.[147]
redundancy any recover
says 'PANTILE_NOT_RECOVERABLE: lost ranks 1 4 7: '
