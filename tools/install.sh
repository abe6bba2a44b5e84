#!/usr/bin/env bash
# Builds and installs Pantile below a folder: the command, its manual pages and its NBD plug-in; the
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

to=${DESTDIR-}$prefix
case $to in /*) ;; *) to=$PWD/$to ;; esac
# Who may write to a folder on the way may put a link there, and so choose what is replaced; so may
# who owns a link that is there. By sudo root acts for the user who gave the command.
mine=(-user root -o -user "$(id -u)")
[ "$(id -u)" != 0 ] || [ -z "${SUDO_UID-}" ] || mine+=(-o -user "$SUDO_UID")
folders=("$to"/{bin,include,lib/pantile,lib/pantile-isal,lib/pkgconfig,share/man/man1})
refuse_what_others_may_exchange() {
    local folder dir found
    for folder in "${folders[@]}"; do
        for dir in "$folder" "$(realpath -m "$folder")"; do
            while :; do
                if [ -e "$dir" ] || [ -L "$dir" ]; then
                    found=$(find -P "$dir" -maxdepth 0 ! \( "${mine[@]}" \) -print 2>&1
                        find -L "$dir" -maxdepth 0 \( ! \( "${mine[@]}" \) -o -perm -o+w ! -perm -1000 \) -print 2>&1)
                    [ -z "$found" ] || { echo "$dir is of another user or others may write to it; name another prefix" >&2; exit 2; }
                fi
                [ "$dir" != / ] || break
                dir=$(dirname "$dir")
            done
        done
    done
}
refuse_what_others_may_exchange
install -d "${folders[@]}"
refuse_what_others_may_exchange # What was not there before could be made by others meanwhile.
install -m 755 "$built/pantile" "$to/bin/pantile"
"$built/pantile" man "$to/share/man/man1"
chmod 644 "$to"/share/man/man1/pantile*.1
install -m 644 "$built/libpantile_nbd.so" "$to/lib/pantile/libpantile_nbd.so"
install -m 644 "$built/libpantile_c.so" "$to/lib/libpantile.so.$version"
install -m 755 "$built/libpantile_isal.so" "$to/lib/pantile-isal/libisal.so.2"
ln -sf "libpantile.so.$version" "$to/lib/libpantile.so.${version%%.*}"
ln -sf "libpantile.so.${version%%.*}" "$to/lib/libpantile.so"
install -m 644 "$built/libpantile_c.a" "$to/lib/libpantile.a"
install -m 644 bindings/c/include/pantile.h "$to/include/pantile.h"
sed "s|@PREFIX@|$prefix|; s|@VERSION@|$version|" bindings/c/pantile.pc.in >"$to/lib/pkgconfig/pantile.pc"
chmod 644 "$to/lib/pkgconfig/pantile.pc"
echo "installed below $to: bin/pantile, lib/libpantile.so.${version%%.*}, lib/libpantile.a, include/pantile.h, lib/pkgconfig/pantile.pc, lib/pantile-isal/libisal.so.2, share/man/man1"
