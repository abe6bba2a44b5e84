#!/usr/bin/env bash
# Builds and installs Pantile below a folder. These are the commands, their manual pages and the NBD
# plug-in; and the C library, its header, pkg-config file and CMake package. Then the stand-in for
# ISA-L with the same in a folder of its own, where no program finds it that was not told.
#
#   tools/install.sh --prefix /usr/local
#   tools/install.sh --prefix DIR --only library              # both libraries, no command
#   DESTDIR=/tmp/package tools/install.sh --prefix /usr       # where packages are made
#   tools/install.sh --prefix DIR --profile test              # what ./test has built, slower to run
set -euo pipefail
usage() { sed -n 's/^#   //p' "$0" >&2; exit 2; }
prefix='' profile=release only=all
while [ $# -gt 0 ]; do
    case $1 in
        --prefix) prefix=${2-} ;;
        --profile) profile=${2-} ;;
        --only) only=${2-} ;;
        *) usage ;;
    esac
    shift 2 || usage
done
case $prefix in /*) ;; *) echo "--prefix '$prefix': give an absolute path" >&2; usage ;; esac
case $only in all | library) ;; *) echo "--only '$only': give library" >&2; usage ;; esac
to=${DESTDIR-}$prefix
case $to in /*) ;; *) to=$PWD/$to ;; esac

cd "$(dirname "$0")/.."
. tools/setup.sh
case $profile:$only in
    test:*) what=(--workspace --lib --bins --tests) ;; # what `cargo test --workspace` builds, with the same features
    *:library) what=(--package pantile-c --package pantile-isal --lib) ;;
    *) what=(--package pantile-c --package pantile-isal --package pantile-cli --package pantile-nbd) ;;
esac
cargo build --profile "$profile" --quiet "${what[@]}"
case $profile in test | dev) built=debug ;; *) built=$profile ;; esac
built=${CARGO_TARGET_DIR:-target}/$built
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)

folders=("$to"/{include,lib/pkgconfig,lib/cmake/pantile,lib/pantile-isal/{include/isa-l,pkgconfig}})
[ $only = library ] || folders+=("$to"/{bin,lib/pantile,share/man/man1})
make_folder() { # One that is there keeps its mode.
    [ -d "$1" ] || { make_folder "$(dirname "$1")" && mkdir -m 755 "$1"; }
}
for folder in "${folders[@]}"; do make_folder "$folder"; done
# Files are written in a private folder and then replace the installed ones, so that no write
# follows a link.
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
put() { install -T -m "$1" "$2" "$3"; }
if [ $only != library ]; then
    put 755 "$built/pantile" "$to/bin/pantile"
    put 755 "$built/pantile-lab" "$to/bin/pantile-lab"
    "$built/pantile" man "$stage"
    for page in "$stage"/*.1; do put 644 "$page" "$to/share/man/man1/${page##*/}"; done
    put 644 "$built/libpantile_nbd.so" "$to/lib/pantile/libpantile_nbd.so"
fi
put 644 "$built/libpantile_c.so" "$to/lib/libpantile.so.$version"
put 755 "$built/libpantile_isal.so" "$to/lib/pantile-isal/libisal.so.2"
ln -sfT "libpantile.so.$version" "$to/lib/libpantile.so.${version%%.*}"
ln -sfT "libpantile.so.${version%%.*}" "$to/lib/libpantile.so"
put 644 "$built/libpantile_c.a" "$to/lib/libpantile.a"
put 644 bindings/c/include/pantile.h "$to/include/pantile.h"
# fill FROM TO: a template with the names of this place and version.
fill() {
    sed "s|@PREFIX@|$prefix|; s|@VERSION@|$version|; s|@MAJOR@|${version%%.*}|g" "$1" >"$stage/filled"
    put 644 "$stage/filled" "$2"
}
fill bindings/c/pantile.pc.in "$to/lib/pkgconfig/pantile.pc"
for file in pantile-config pantile-config-version; do
    fill bindings/c/cmake/$file.cmake.in "$to/lib/cmake/pantile/$file.cmake"
done
ln -sfT libisal.so.2 "$to/lib/pantile-isal/libisal.so"
fill bindings/isal/libisal.pc.in "$to/lib/pantile-isal/pkgconfig/libisal.pc"
(cd bindings/isal/include && find . -name '*.h') | while read -r header; do
    put 644 "bindings/isal/include/$header" "$to/lib/pantile-isal/include/$header"
done
commands="bin/pantile, bin/pantile-lab, share/man/man1, lib/pantile, "
[ $only = all ] || commands=''
echo "installed below $to: ${commands}lib/libpantile.so.${version%%.*}, lib/libpantile.a, include/pantile.h, lib/pkgconfig/pantile.pc, lib/cmake/pantile, lib/pantile-isal"
