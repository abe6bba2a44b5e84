#!/usr/bin/env bash
# Packs every crate as it would be published, and builds what was packed from nothing else.
set -euo pipefail
cd "$(dirname "$0")/.."
# What a registry shows of the crates of the library.
cargo metadata --no-deps --format-version 1 | python3 -c '
import json, sys
library = {"pantile", *("pantile-" + name for name in ("gf", "kernel", "code", "plan"))}
fields = ("description", "license", "readme", "documentation", "keywords", "categories")
for package in json.load(sys.stdin)["packages"]:
    lacks = [field for field in fields if not package[field]]
    if package["name"] in library and lacks:
        sys.exit("tools/pack.sh: " + package["name"] + " has no " + ", no ".join(lacks))
'
target=${CARGO_TARGET_DIR:-target}/packed
trap 'rm -rf "$target"' EXIT
# Cargo assumes that a version never changes: remove the unpacked and the built files of an earlier
# pack.
rm -rf "${CARGO_HOME:-$HOME/.cargo}"/registry/src/-*/pantile* "$target"
cargo package --workspace --exclude pantile-sim-planted --exclude pantile-volume-planted --quiet --target-dir "$target" "$@"
