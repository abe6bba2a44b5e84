#!/usr/bin/env bash
# Runs the tests of the kernel crate under Miri, which sees every byte that is touched out of
# bounds, twice, or before it is set: the portable tier, the helpers, the weaves. Vector
# instructions are left out there; no_byte_outside_is_touched covers them on the machine itself.
#
# Needs rustup: installs the nightly toolchain with miri if they are missing.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! cargo +nightly miri --version >/dev/null 2>&1; then
    echo "== installing the nightly toolchain with miri"
    rustup toolchain install nightly --profile minimal --component miri,rust-src
fi
cargo +nightly miri setup >/dev/null
# Buffers are placed by address, which strict provenance does not allow for pointers made from
# integers; the few of a test that are, nobody follows.
MIRIFLAGS="-Zmiri-strict-provenance -Zmiri-disable-isolation" cargo +nightly miri test --package pantile-kernel --lib "$@" -- --skip every_product_is_the_schoolbook_product
