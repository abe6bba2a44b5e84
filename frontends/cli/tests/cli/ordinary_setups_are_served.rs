//! Claim: ordinary setups, with several users, shares and disks without owners, are sealed,
//! verified, healed and restored. Only the system's permissions refuse an operation.
//!
//! Each situation is a script of commands. `ok COMMAND` must end with status 0, `st N COMMAND` with
//! N. `as USER pantile ..` runs a command as that user, `pantile ..` as root. File systems without
//! owners are imitated by modes: such a system shows all files as rwxrwxrwx of one user.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::{Command, Stdio};

const PRELUDE: &str = r#"
set -eu; umask 022; unset SUDO_UID SUDO_GID
pantile() { env HOME="$D/root" XDG_STATE_HOME= "$P" "$@"; }
as() { # USER[:GROUP] COMMAND: as that user, with that one group
  u=${1%%:*}; g=${1#*:}; shift; [ "$1" != pantile ] || { shift; set -- "$P" "$@"; }
  (cd "$D" && setpriv --reuid "$u" --regid "$g" --clear-groups env HOME="$D/home$u" XDG_STATE_HOME= "$@"); }
st() { want=$1; shift; got=0; "$@" >"$D/.said" 2>&1 || got=$?
  [ "$got" = "$want" ] || { echo "status $got, not $want: $*"; cat "$D/.said"; exit 1; }; }
ok() { st 0 "$@"; }
said() { grep -q -e "$1" "$D/.said" || { echo "not said: $1"; cat "$D/.said"; exit 1; }; }
files() { # OWNER DIR: four files
  for i in 1 2 3 4; do head -c 30000 /dev/urandom >"$2/f$i"; done; chown -R "$1" "$2"; }
own() { [ "$(stat -c %u:%g:%a "$2")" = "$1" ] || { echo "$2 is $(stat -c %u:%g:%a "$2"), not $1"; exit 1; }; }
same() { cmp "$1" "$2" || exit 1; }
mkdir root home1000 home1001 home65534; chown 1000:1000 home1000; chown 1001:1001 home1001; chown 65534:65534 home65534
"#;

/// Situations, each with its script.
const SITUATIONS: &[(&str, &str)] = &[
    (
        "root's nightly job seals two homes",
        r#"mkdir home1000/docs home1001/docs par; files 1000:1000 home1000/docs; files 1001:1001 home1001/docs
        mkdir -m 700 home1000/docs/.ssh; chown 1000:1000 home1000/docs/.ssh; cp -a home1000/docs kept
        ok pantile seal --disk a=home1000/docs --disk b=home1001/docs --beside --code raid6 --name homes --out par
        ok pantile seal --out par; ok pantile verify par; rm -r home1000/docs/f1 home1000/docs/.ssh; ok pantile heal par
        own 1000:1000:644 home1000/docs/f1; own 1000:1000:700 home1000/docs/.ssh; same kept/f1 home1000/docs/f1"#,
    ),
    (
        "root seals to a disk of a user that is open to all",
        r#"mkdir disk docs; files 0:0 docs; chmod 777 disk; chown 1000:1000 disk
        mkdir -m 777 disk/par; ok pantile seal docs --beside --code raid6:1 --out disk/par; said 'pin detects it'
        ok pantile seal --out disk/par; rm docs/f1; ok pantile heal disk/par"#,
    ),
    (
        "another user seals to that disk",
        r#"mkdir disk home1001/docs; files 1001:1001 home1001/docs; chmod 777 disk; chown 1000:1000 disk
        ok as 1001 pantile seal home1001/docs --beside --code raid6:1 --out disk/par; ok as 1001 pantile seal --out disk/par
        rm home1001/docs/f1; ok as 1001 pantile heal disk/par; [ -e home1001/docs/f1 ]
        ok as 1001 pantile unseal disk/par --to home1001/docs"#,
    ),
    (
        "the user of that disk seals to it",
        r#"mkdir disk home1000/docs; files 1000:1000 home1000/docs; chmod 777 disk; chown 1000:1000 disk
        ok as 1000 pantile seal home1000/docs --beside --code raid6:1 --out disk/par; chmod -R 777 disk
        ok as 1000 pantile verify disk/par; rm home1000/docs/f2; ok as 1000 pantile heal disk/par; rm home1000/docs/f2
        ok as 1000 pantile heal disk/par --disk docs=home1000/docs; ok as 1000 pantile unseal disk/par --to home1000/new"#,
    ),
    (
        "a disk of root's that is open to all",
        r#"mkdir disk docs home1000/docs; files 0:0 docs; files 1000:1000 home1000/docs; chmod 777 disk
        ok pantile seal docs --code rs:2+2 --out disk/par
        ok as 1000 pantile seal home1000/docs --beside --code raid6:1 --out disk/theirs; ok as 1000 pantile verify disk/theirs
        rm home1000/docs/f3; ok as 1000 pantile heal disk/theirs; [ -e home1000/docs/f3 ]"#,
    ),
    (
        "a desktop mounts the disk for its user",
        r#"mkdir disk home1000/docs; files 1000:1000 home1000/docs; chown 1000:1000 disk
        ok as 1000 pantile seal home1000/docs --beside --code raid6:1 --out disk/par; ok as 1000 pantile verify disk/par
        rm home1000/docs/f1; ok as 1000 pantile heal disk/par; ok pantile verify disk/par --disk docs=home1000/docs
        ok pantile seal home1000/docs --out disk/par; rm home1000/docs/f1; ok as 1000 pantile heal disk/par"#,
    ),
    (
        "the files are on a disk that is open to all, the parity at home",
        r#"mkdir disk; files 1000:1000 disk; chmod -R 777 disk; ok as 1000 pantile seal disk --beside --code raid6:1 --out home1000/par
        rm disk/f1; ok as 1000 pantile heal home1000/par; own 1000:1000:777 disk/f1"#,
    ),
    (
        "a share of a group",
        r#"mkdir share home1000/docs; chown 0:500 share; chmod 2775 share; files 1000:1000 home1000/docs
        ok as 1000:500 pantile seal home1000/docs --beside --code raid6:1 --out share/par; ok as 1000:500 pantile verify share/par
        rm home1000/docs/f1; ok as 1000:500 pantile heal share/par
        # The shards are for their owner alone.
        st 3 as 1001:500 pantile verify share/par; st 3 as 1001:500 pantile seal home1000/docs --out share/par
        ok pantile seal home1000/docs --out share/par; ok pantile verify share/par; rm home1000/docs/f1; ok pantile heal share/par
        own 1000:500:644 home1000/docs/f1; ok as 1000:500 pantile verify share/par"#,
    ),
    (
        "a NAS of whole disks, with shares on them",
        r#"mkdir disk1 disk2 disk3; mkdir -m 2775 disk1/share disk2/share disk3/share; chown 0:500 disk?/share
        files 1000:500 disk1/share; files 1000:500 disk2/share
        ok pantile seal disk1 disk2 --beside --code raid5 --name pool --out disk3/share/par
        ok pantile seal disk1 disk2 --beside --code raid5 --name pool --out disk3/par; ok pantile verify disk3/par"#,
    ),
    (
        "a NAS with one share on every disk",
        r#"mkdir disk1 disk2 disk3; mkdir disk1/share disk2/share; files 1000:500 disk1/share; files 1000:500 disk2/share
        ok pantile seal disk1/share disk2/share --beside --code raid5 --name pool --out disk3/par
        cp -a disk2/share kept; rm -r disk2/share/*; ok pantile heal disk3/par; diff -r kept disk2/share"#,
    ),
    (
        "a new disk takes the place of a dead one",
        r#"mkdir disk1 disk2 disk3; mkdir disk1/share disk2/share; files 1000:500 disk1/share; files 1000:500 disk2/share
        chown 0:500 disk?/share; chmod 2775 disk?/share; cp -a disk2 kept
        ok pantile seal disk1 disk2 --beside --code raid5 --name pool --out disk3/par
        mv disk2 dead; mkdir disk2; st 1 pantile verify disk3/par; said "run 'pantile heal disk3/par'"; said mounted
        ok pantile heal disk3/par; diff -r kept disk2; own 0:500:2775 disk2/share; own 1000:500:644 disk2/share/f1
        ok pantile seal --out disk3/par; ok pantile heal disk3/par"#,
    ),
    (
        "an array on which user 65534 owns everything, open to all",
        r#"mkdir array; mkdir -m 777 array/docs array/own; files 65534:100 array/docs; chmod -R 777 array
        ok pantile seal array/docs --beside --code raid6:1 --out array/par
        chmod 700 array/own; ok pantile seal array/docs --beside --code raid6:1 --out array/own
        ok as 65534:100 pantile seal array/docs --beside --code raid6:1 --out array/theirs; rm array/docs/f1
        ok as 65534:100 pantile heal array/theirs; rm array/docs/f1; ok pantile heal array/par; own 65534:100:777 array/docs/f1"#,
    ),
    (
        "a user's set, and root's nightly job on it",
        r#"mkdir home1000/docs; files 1000:1000 home1000/docs; cp -a home1000/docs kept
        ok as 1000 pantile seal home1000/docs --beside --code raid6:1 --out home1000/par
        ok pantile seal home1000/docs --out home1000/par; ok pantile verify home1000/par; rm home1000/docs/f1; ok pantile heal home1000/par
        own 1000:1000:644 home1000/docs/f1; ok pantile unseal home1000/par --to new; own 1000:1000:644 new/f2
        # The same by sudo.
        export SUDO_UID=1000 SUDO_GID=1000; rm home1000/docs/f1; ok pantile heal home1000/par; own 1000:1000:644 home1000/docs/f1
        ok pantile seal --out home1000/par; ok as 1000 pantile verify home1000/par; diff -r kept home1000/docs"#,
    ),
    (
        "a set that was made by sudo",
        r#"mkdir home1000/docs srv; files 1000:1000 home1000/docs
        SUDO_UID=1000 ok pantile seal home1000/docs --beside --code raid6:1 --out home1000/par
        # The shards are root's alone.
        st 3 as 1000 pantile verify home1000/par; ok pantile verify home1000/par; rm home1000/docs/f1; ok pantile heal home1000/par
        own 1000:1000:644 home1000/docs/f1; ok pantile seal home1000/docs --beside --code raid6:1 --out srv/par"#,
    ),
    (
        "root keeps a backup of a user in that user's home",
        r#"mkdir home1000/docs; files 1000:1000 home1000/docs; ok pantile seal home1000/docs --code rs:2+2 --out home1000/full
        rm home1000/full/docs.00.shard; ok pantile heal home1000/full; ok pantile unseal home1000/full --to back; diff -r home1000/docs back"#,
    ),
    (
        "shards and files were copied from another machine, with its user",
        r#"mkdir home1000/docs srv; files 1000:1000 home1000/docs
        ok as 1000 pantile seal home1000/docs --beside --code raid6:1 --out home1000/par
        ok as 1000 pantile seal home1000/docs --code rs:2+2 --out home1000/full
        cp -a home1000 srv/copy; chown -R 1234:1234 srv/copy; mv home1000 away; cp -a srv/copy/docs kept
        ok pantile info srv/copy/par; ok pantile unseal srv/copy/full --to new
        rm srv/copy/docs/f1; st 1 pantile verify srv/copy/par --disk docs=srv/copy/docs
        # Only the set says where the files were: their place is asked for.
        st 3 pantile heal srv/copy/par; said '--disk docs='
        ok pantile heal srv/copy/par --disk docs=srv/copy/docs; same kept/f1 srv/copy/docs/f1"#,
    ),
    (
        "unseal is run again into the folder of the first run",
        r#"mkdir docs; files 0:0 docs; ok pantile seal docs --code rs:2+2 --out full; ok pantile unseal full --to back
        ok pantile unseal full --to back; said 'there already'; chown -R 1234:1234 full; rm back/f1; ok pantile unseal full --to back
        diff -r docs back"#,
    ),
    (
        "root restores a home onto a new disk",
        r#"mkdir home1000/docs; files 1000:1000 home1000/docs; chmod 700 home1000/docs
        ok pantile seal home1000 --code rs:2+2 --out full; mv home1000 kept; ok pantile unseal full --to home1000
        own 1000:1000:700 home1000/docs; own 1000:1000:644 home1000/docs/f1; own 1000:1000:755 home1000; diff -r kept home1000"#,
    ),
    (
        "a set in a folder of temporary files of all users",
        r#"mkdir -m 1777 tmp; mkdir home1000/docs; files 1000:1000 home1000/docs
        ok as 1000 pantile seal home1000/docs --beside --code raid6:1 --out tmp/x; ok as 1000 pantile seal home1000/docs --beside --code raid6:1 --out tmp
        rm home1000/docs/f1; ok as 1000 pantile heal tmp; rm home1000/docs/f1; ok as 1000 pantile heal tmp/x
        # A shard behind root's link on such a mount.
        mkdir -m 1777 mount; mkdir par docs; files 0:0 docs; ok pantile seal docs --beside --code raid6:1 --out par
        mv par/docs.01.shard mount; ln -s "$D/mount/docs.01.shard" par; ok pantile verify par
        rm mount/docs.01.shard; st 1 pantile verify par; ok pantile heal par; [ -e mount/docs.01.shard ]"#,
    ),
    (
        "a user namespace",
        r#"mkdir home1000/docs; files 1000:1000 home1000/docs
        inside() { as 1000 unshare -Ur "$P" "$@"; }; as 1000 unshare -Ur true 2>/dev/null || exit 0
        ok inside seal home1000/docs --beside --code raid6:1 --out home1000/par; ok inside seal --out home1000/par
        rm home1000/docs/f1; ok inside heal home1000/par; [ -e home1000/docs/f1 ]"#,
    ),
    (
        "root of a container writes to a folder of the host's user",
        r#"mkdir docs host; files 0:0 docs; chown 1500:1500 host; ok pantile seal docs --beside --code raid6:1 --out host
        rm docs/f1; ok pantile heal host"#,
    ),
    (
        "a Samba share on which user 65534 owns everything",
        r#"mkdir share docs home65534/docs; files 65534:65534 home65534/docs; files 0:0 docs; chown 65534:65534 share
        ok pantile seal docs --beside --code raid6:1 --out share/par; rm docs/f1; ok pantile heal share/par
        ok as 65534 pantile seal home65534/docs --beside --code raid6:1 --out share/theirs
        rm home65534/docs/f1; ok as 65534 pantile heal share/theirs"#,
    ),
    (
        "files and shards move together",
        r#"mkdir -p a/docs; files 1000:1000 a/docs; chown 1000:1000 a; ok as 1000 pantile seal a/docs --beside --code raid6:1 --out a/par
        mv a b; ok as 1000 pantile verify b/par --disk docs=b/docs; rm b/docs/f1; ok as 1000 pantile heal b/par --disk docs=b/docs
        ok as 1000 pantile seal --out b/par; rm b/docs/f1; ok as 1000 pantile heal b/par"#,
    ),
    (
        "a disk is copied to a larger one",
        r#"mkdir disk1 disk2; files 1000:1000 disk1; files 1000:1000 disk2; ok pantile seal disk1 disk2 --beside --code raid5 --name pool --out par
        cp -a disk2 larger; mv disk2 old; st 1 pantile verify par; said mounted; ok pantile verify par --disk disk2=larger
        ok pantile heal par --disk disk2=larger; ok pantile seal --out par; rm larger/f1; ok pantile heal par; same old/f1 larger/f1"#,
    ),
    (
        "the system is installed again, and knows no record",
        r#"mkdir home1000/docs; files 1000:1000 home1000/docs; ok as 1000 pantile seal home1000/docs --beside --code raid6:1 --out home1000/par
        rm -r home1000/.local; rm home1000/docs/f1; st 2 as 1000 pantile heal home1000/par; said '--disk docs='
        ok as 1000 pantile heal home1000/par --disk docs=home1000/docs; ok as 1000 pantile seal home1000/docs --out home1000/par
        # The user has another number there.
        mv home1000 home1001/old; chown -R 1001:1001 home1001; rm home1001/old/docs/f2
        ok as 1001 pantile heal home1001/old/par --disk docs=home1001/old/docs; [ -e home1001/old/docs/f2 ]"#,
    ),
    (
        "HOME is not set, or that of another user",
        r#"mkdir docs srv; files 0:0 docs; nohome() { env -u HOME -u XDG_STATE_HOME "$P" "$@"; }
        other() { env HOME="$D/home1000" XDG_STATE_HOME= "$P" "$@"; }
        ok other seal docs --beside --code raid6:1 --out par; rm docs/f1; ok other heal par; [ -e docs/f1 ]
        ok nohome verify par; rm docs/f1; ok nohome heal par --disk docs=docs; [ -e docs/f1 ]"#,
    ),
    (
        "the mount point of one disk of several is renamed",
        r#"mkdir disk1 disk2 disk3; for d in 1 2 3; do files 0:0 disk$d; done
        ok pantile seal disk1 disk2 disk3 --beside --code raid5 --name pool --out par; mv disk1 films
        ok pantile seal --disk disk1=films --out par; ok pantile verify par; cp -a films kept; rm films/*
        ok pantile heal par; diff -r kept films"#,
    ),
];

/// Runs a script in a separate folder, and returns its output if it fails.
fn fault(script: &str) -> Option<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("it is open");
    let output = Command::new("bash")
        .args(["-c", &format!("{PRELUDE}\n{script}")])
        .env("D", path)
        .env("P", env!("CARGO_BIN_EXE_pantile"))
        .current_dir(path)
        .stdin(Stdio::null())
        .output()
        .expect("a shell runs it");
    let said = [output.stdout, output.stderr].concat();
    (!output.status.success()).then(|| String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn ordinary_setups_are_served() {
    if std::fs::metadata("/proc/self").map_or(true, |process| process.uid() != 0) {
        println!("skipped: only root can become another user");
        return;
    }
    assert_eq!(SITUATIONS.len(), 27);
    let faults: Vec<String> = SITUATIONS
        .iter()
        .filter_map(|(name, script)| fault(script).map(|fault| format!("{name}:\n{fault}")))
        .collect();
    assert!(faults.is_empty(), "{} of 27\n\n{}", faults.len(), faults.join("\n\n"));
}
