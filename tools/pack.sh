#!/usr/bin/env bash
# Packs every crate as it would be published, and builds what was packed from nothing else.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}/packed
trap 'rm -rf "$target"' EXIT
# Cargo assumes that a version never changes: remove the unpacked and the built files of an earlier
# pack.
rm -rf "${CARGO_HOME:-$HOME/.cargo}"/registry/src/-*/pantile* "$target"
cargo package --workspace --exclude pantile-sim-planted --exclude pantile-volume-planted --quiet --target-dir "$target" "$@"
