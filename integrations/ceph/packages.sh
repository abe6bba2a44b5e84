# Sourced: Debian's Ceph, and the packages to build and probe its plug-ins.

need_ceph() {
    local package missing=()
    for package in ceph-mon ceph-mgr ceph-osd ceph-common ceph-base librados-dev libradospp-dev python3-rados g++ openssl; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
    done
    [ ${#missing[@]} = 0 ] && return
    say "installing ${missing[*]}"
    as_root apt-get update -qq
    # No daemon is started: there is no configuration yet.
    as_root apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# What files of old.cc are linked with: libraries that are empty from glibc 2.34 on.
old_libraries=(-Wl,--no-as-needed -l:libdl.so.2 -l:libpthread.so.0 -Wl,--as-needed)

# build_probe FILE: tests/probe.cc, against this machine's Ceph.
build_probe() {
    local library start=()
    [ "$(uname -m)" != x86_64 ] || start=(integrations/ceph/tests/start.cc -Wl,--wrap=__libc_start_main)
    library=$(dirname "$(dpkg -L librados2 | grep libceph-common)")
    # On the host where it runs, Ceph's common library may be in another folder.
    g++ -std=c++17 -O1 -Wall -Wextra -Werror -isystem /usr/include/rados integrations/ceph/tests/probe.cc integrations/ceph/plugin/old.cc \
        "${start[@]}" -o "$1" "${old_libraries[@]}" \
        -rdynamic -L"$library" -l:libceph-common.so.2 -Wl,-rpath,"$library:/usr/lib64/ceph:/usr/lib/ceph" -lrados
}
