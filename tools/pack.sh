#!/usr/bin/env bash
# Packs every crate as it would be published, and builds what was packed from nothing else.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}/packed
trap 'rm -rf "$target"' EXIT
# Cargo takes a version for what never changes: neither what it unpacked of one before nor what it
# built may be there.
rm -rf "${CARGO_HOME:-$HOME/.cargo}"/registry/src/-*/pantile* "$target"
cargo package --workspace --quiet --target-dir "$target" "$@"
