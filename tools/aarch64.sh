#!/usr/bin/env bash
# Runs the tests of the kernels on aarch64, emulated: NEON gives the portable bytes and touches none
# outside; then the laws of the library, with the tier that such a machine takes and that it is
# forced to. Nothing of speed.
#
# Needs rustup: adds the target aarch64-unknown-linux-gnu if it is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/setup.sh
need aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu
need qemu-aarch64-static qemu-user-static
target=aarch64-unknown-linux-gnu
[ -d "$(rustc --print target-libdir --target $target)" ] || rustup --quiet target add $target
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64-static -L /usr/aarch64-linux-gnu"

# on_it COMMAND ARGS...: a command of cargo, for that machine, apart from what is built for this
# one.
on_it() { cargo "$1" --quiet --target $target --target-dir target/aarch64 "${@:2}"; }

say "aarch64: warnings denied"
on_it clippy --package pantile-kernel --lib -- -D warnings
say "aarch64, emulated: every kernel gives the portable bytes"
on_it test --package pantile-kernel --lib --test kernel --test no_byte_outside_is_touched
for tier in portable neon; do
    say "aarch64, emulated: laws of codes, $tier"
    PANTILE_KERNEL=$tier on_it test --package pantile --test pantile -- every_code_keeps_the_same_laws::an_update \
        every_code_keeps_the_same_laws::a_clean every_code_keeps_the_same_laws::a_forced packets_keep_the_laws
done
