//! Runs `tools/install.sh` with `DESTDIR`, as for a package; stubs replace cargo and its outputs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

fn script(path: &Path, text: &str) {
    fs::write(path, text).expect("it writes");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("a mode");
}

#[test]
fn a_relative_destdir_is_below_the_folder_of_the_caller() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = tempfile::tempdir().expect("a folder");
    let at = |path: &str| folder.path().join(path);
    let folders = [
        "tools",
        "bindings/c/include",
        "bindings/c/cmake",
        "bindings/isal/include",
        "bin",
        "built/release",
        "caller",
    ];
    for name in folders {
        fs::create_dir_all(at(name)).expect("a folder");
    }
    let copied = [
        "tools/install.sh",
        "tools/setup.sh",
        "Cargo.toml",
        "bindings/c/pantile.pc.in",
        "bindings/c/include/pantile.h",
        "bindings/c/cmake/pantile-config.cmake.in",
        "bindings/c/cmake/pantile-config-version.cmake.in",
        "bindings/isal/libisal.pc.in",
        "bindings/isal/include/isa-l.h",
    ];
    for name in copied {
        fs::copy(repository.join(name), at(name)).expect("it is copied");
    }
    script(&at("bin/cargo"), "#!/bin/sh\nexit 0\n");
    script(&at("built/release/pantile"), "#!/bin/sh\n: > \"$2/pantile.1\"\n");
    for name in
        ["pantile-lab", "libpantile_nbd.so", "libpantile_c.so", "libpantile_isal.so", "libpantile_c.a"]
    {
        fs::write(at("built/release").join(name), "").expect("it writes");
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut all = vec![at("bin")];
    all.extend(std::env::split_paths(&path));
    let run = Command::new("bash")
        .args(["../tools/install.sh", "--prefix", "/usr"])
        .current_dir(at("caller"))
        .env("PATH", std::env::join_paths(all).expect("paths"))
        .env("CARGO_TARGET_DIR", at("built"))
        .env("DESTDIR", "package")
        .output()
        .expect("bash");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    assert!(at("caller/package/usr/bin/pantile").is_file(), "{}", String::from_utf8_lossy(&run.stdout));
    assert!(!at("package").exists(), "nothing is below the repository");
}
