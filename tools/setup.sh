# Sourced by ./run and ./test: installs the packages they need, or names missing ones and how to get
# them.

say() { printf '\n== %s\n' "$*"; }

# as_root COMMAND...: with sudo where needed and possible.
as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo >/dev/null; then sudo "$@"; else
        echo "this needs root: $*" >&2
        return 1
    fi
}

# need PROGRAM PACKAGE: a distribution package, if its program is not there.
need() {
    command -v "$1" >/dev/null && return
    say "installing $2"
    as_root apt-get update -qq
    as_root apt-get install -y -qq --no-install-recommends "$2" >/dev/null
}

# need_clients: what tests/clients.sh serves volumes with and to.
need_clients() {
    need nbdkit nbdkit
    need nbdcopy libnbd-bin
    need nbdsh python3-libnbd
    need fusermount3 fuse3
    need qemu-img qemu-utils
    need fio fio
    need openssl openssl
}

need cc gcc
need python3 python3

if ! command -v cargo >/dev/null && [ -x "$HOME/.cargo/bin/cargo" ]; then
    PATH="$HOME/.cargo/bin:$PATH"
fi
if ! command -v cargo >/dev/null; then
    need rustup rustup || { echo "install Rust 1.89 or newer (rustup.rs), then run this again" >&2; exit 2; }
    rustup toolchain install stable --profile minimal --component clippy --component rustfmt
fi
have=$(rustc --version | sed 's/rustc \([0-9]*\)\.\([0-9]*\).*/\1 \2/')
if [ "${have% *}" -lt 1 ] || { [ "${have% *}" = 1 ] && [ "${have#* }" -lt 89 ]; }; then
    echo "rustc is $(rustc --version); Pantile needs 1.89 or newer: run 'rustup update stable'" >&2
    exit 2
fi
