#!/usr/bin/env bash
# Builds and installs Pantile below a folder: the commands, their manual pages and the NBD plug-in; the
# C library, its header and pkg-config file; and the stand-in for ISA-L in a folder of its own,
# where no program finds it that was not told.
#
#   tools/install.sh --prefix /usr/local
#   DESTDIR=/tmp/package tools/install.sh --prefix /usr       # where packages are made
#   tools/install.sh --prefix DIR --profile test              # what ./test has built, slower to run
set -euo pipefail
usage() { sed -n 's/^#   //p' "$0" >&2; exit 2; }
prefix='' profile=release
while [ $# -gt 0 ]; do
    case $1 in
        --prefix) prefix=${2-} ;;
        --profile) profile=${2-} ;;
        *) usage ;;
    esac
    shift 2 || usage
done
case $prefix in /*) ;; *) echo "--prefix '$prefix': give an absolute path" >&2; usage ;; esac
to=${DESTDIR-}$prefix
case $to in /*) ;; *) to=$PWD/$to ;; esac

cd "$(dirname "$0")/.."
. tools/setup.sh
case $profile in
    test) what=(--workspace --lib --bins --tests) ;; # what `cargo test --workspace` builds, with the same features
    *) what=(--package pantile-c --package pantile-isal --package pantile-cli --package pantile-nbd) ;;
esac
cargo build --profile "$profile" --quiet "${what[@]}"
case $profile in test | dev) built=debug ;; *) built=$profile ;; esac
built=${CARGO_TARGET_DIR:-target}/$built
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)

folders=("$to"/{bin,include,lib/pantile,lib/pantile-isal,lib/pkgconfig,share/man/man1})
make_folder() { # One that is there keeps its mode.
    [ -d "$1" ] || { make_folder "$(dirname "$1")" && mkdir -m 755 "$1"; }
}
for folder in "${folders[@]}"; do make_folder "$folder"; done
# Files are written in a private folder and then replace the installed ones, so that no write
# follows a link.
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
put() { install -T -m "$1" "$2" "$3"; }
put 755 "$built/pantile" "$to/bin/pantile"
put 755 "$built/pantile-lab" "$to/bin/pantile-lab"
"$built/pantile" man "$stage"
for page in "$stage"/*.1; do put 644 "$page" "$to/share/man/man1/${page##*/}"; done
put 644 "$built/libpantile_nbd.so" "$to/lib/pantile/libpantile_nbd.so"
put 644 "$built/libpantile_c.so" "$to/lib/libpantile.so.$version"
put 755 "$built/libpantile_isal.so" "$to/lib/pantile-isal/libisal.so.2"
ln -sfT "libpantile.so.$version" "$to/lib/libpantile.so.${version%%.*}"
ln -sfT "libpantile.so.${version%%.*}" "$to/lib/libpantile.so"
put 644 "$built/libpantile_c.a" "$to/lib/libpantile.a"
put 644 bindings/c/include/pantile.h "$to/include/pantile.h"
sed "s|@PREFIX@|$prefix|; s|@VERSION@|$version|" bindings/c/pantile.pc.in >"$stage/pantile.pc"
put 644 "$stage/pantile.pc" "$to/lib/pkgconfig/pantile.pc"
echo "installed below $to: bin/pantile, bin/pantile-lab, lib/libpantile.so.${version%%.*}, lib/libpantile.a, include/pantile.h, lib/pkgconfig/pantile.pc, lib/pantile-isal/libisal.so.2, share/man/man1"
