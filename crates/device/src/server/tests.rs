//! Exports of nbdkit: refusals, and the end of requests when a server goes away.

use super::*;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use tempfile::TempDir;

/// A server with one export, killed when the test ends.
struct Server {
    child: Child,
    dir: TempDir,
}

impl Server {
    /// Starts nbdkit; `None` where it is not installed.
    fn new(arguments: &[&str]) -> Option<Server> {
        let dir = tempfile::tempdir().expect("a directory");
        let mut nbdkit = Command::new("nbdkit");
        nbdkit.args(["--foreground", "--unix"]).arg(dir.path().join("s")).args(arguments);
        let Ok(child) = nbdkit.stderr(Stdio::null()).spawn() else {
            eprintln!("nbdkit is not installed: left out");
            return None;
        };
        let server = Server { child, dir };
        let begun = Instant::now();
        // The socket exists before the server listens.
        while UnixStream::connect(server.dir.path().join("s")).is_err() {
            assert!(begun.elapsed() < Duration::from_secs(30), "nbdkit does not listen");
            std::thread::sleep(Duration::from_millis(5));
        }
        Some(server)
    }

    fn uri(&self) -> PathBuf {
        format!("nbd+unix:///?socket={}", self.dir.path().join("s").display()).into()
    }

    fn signal(&self, name: &str) {
        let kill = Command::new("kill").args([name, &self.child.id().to_string()]).status();
        assert!(kill.is_ok_and(|status| status.success()));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the reason why an export is refused.
fn refused(arguments: &[&str], access: Access) -> Option<String> {
    let server = Server::new(arguments)?;
    let error = ServerDevice::open(&server.uri(), access).err().expect("it is refused");
    Some(error.to_string())
}

/// Returns the memory of one request.
fn block(of: u8) -> AlignedBuf {
    let mut block = AlignedBuf::zeroed(4096);
    block.fill(of);
    block
}

#[test]
fn an_export_without_flush_or_fua_or_with_large_blocks_is_refused_in_words() {
    let eval = ["eval", "get_size=echo 1M", "pread=head -c $3 /dev/zero", "pwrite=cat >/dev/null"];
    let with = |more: &[&'static str]| [&eval[..], more].concat();
    let large =
        ["--filter=blocksize-policy", "memory", "1M", "blocksize-minimum=8K", "blocksize-preferred=8K"];
    for (arguments, says) in [
        (with(&[]), "does not offer FLUSH"),
        (with(&["flush=:", "can_flush=exit 0", "can_fua=echo none"]), "does not offer FUA"),
        (large.to_vec(), "its blocks have 8192 bytes"),
        (vec!["-r", "memory", "1M"], "Read-only file system"),
        (vec!["memory", "100"], "100 bytes long"),
    ] {
        let Some(why) = refused(&arguments, Access::ReadWrite) else { return };
        assert!(why.contains(says), "{arguments:?}: {why}");
    }
    let Some(server) = Server::new(&["-r", "memory", "1M"]) else { return };
    let device = ServerDevice::open(&server.uri(), Access::ReadOnly).expect("it can be read");
    device.read_at(0, block(1).whole_mut()).expect("it is read");
    assert!(matches!(device.write_at(0, &[block(1).whole()]), Err(DeviceError::ReadOnly { .. })));
}

#[test]
fn a_server_that_is_not_there_is_refused_at_once() {
    let begun = Instant::now();
    let error = ServerDevice::open(Path::new("nbd+unix:///?socket=/nowhere/s"), Access::ReadOnly).err();
    let text = error.expect("it is refused").to_string();
    assert!(text.contains("No such file") || text.contains("libnbd"), "{text}");
    assert!(begun.elapsed() < CONNECTING);
}

#[test]
fn a_server_that_is_killed_ends_every_request_and_all_that_follow() {
    let Some(server) = Server::new(&["--filter=delay", "memory", "1M", "delay-read=60"]) else { return };
    let device = Arc::new(ServerDevice::open(&server.uri(), Access::ReadWrite).expect("it opens"));
    let read = |at: u64| {
        let device = device.clone();
        std::thread::spawn(move || device.read_at(at * 4096, block(0).whole_mut()))
    };
    let waiting: Vec<_> = (0..8).map(read).collect();
    device.write_at(0, &[block(7).whole()]).expect("writes pass reads that wait");
    server.signal("-KILL");
    for reads in waiting {
        let result = reads.join().expect("no panic");
        assert!(matches!(result, Err(DeviceError::Gone { .. })), "{result:?}");
    }
    assert!(matches!(device.write_at(0, &[block(7).whole()]), Err(DeviceError::Gone { .. })));
    assert!(matches!(device.flush(), Err(DeviceError::Gone { .. })), "a flush is not acknowledged");
}

#[test]
fn a_server_that_is_stopped_is_gone_after_its_silence_and_not_before() {
    let Some(server) = Server::new(&["memory", "1M"]) else { return };
    let silence = Duration::from_millis(700);
    let device = ServerDevice::open_within(&server.uri(), Access::ReadWrite, silence).expect("it opens");
    device.flush().expect("it answers");
    server.signal("-STOP");
    // Without a pending request a silent server is not given up.
    std::thread::sleep(silence * 2);
    let begun = Instant::now();
    let stopped = device.read_at(0, block(0).whole_mut());
    assert!(matches!(stopped, Err(DeviceError::Gone { errno: 110, .. })), "{stopped:?}");
    assert!(begun.elapsed() >= silence && begun.elapsed() < silence * 20, "{:?}", begun.elapsed());
    server.signal("-CONT");
    assert!(device.flush().is_err(), "what was given up does not come back by itself");
    let again = ServerDevice::open(&server.uri(), Access::ReadWrite).expect("another connection");
    again.read_at(0, block(0).whole_mut()).expect("it answers again");
}

#[test]
fn an_interruption_shorter_than_the_silence_is_waited_for() {
    let Some(server) = Server::new(&["memory", "1M"]) else { return };
    let silence = Duration::from_secs(30);
    let device = ServerDevice::open_within(&server.uri(), Access::ReadWrite, silence).expect("it opens");
    server.signal("-STOP");
    std::thread::scope(|scope| {
        let writes = scope.spawn(|| device.write_at(4096, &[block(3).whole(), block(4).whole()]));
        std::thread::sleep(Duration::from_millis(300));
        assert!(!writes.is_finished());
        server.signal("-CONT");
        writes.join().expect("no panic").expect("it is written");
    });
    let mut found = AlignedBuf::zeroed(8192);
    device.read_at(4096, found.whole_mut()).expect("it is read");
    assert_eq!((found[0], found[4096]), (3, 4));
}

#[test]
fn an_error_of_the_server_is_the_error_of_its_request_and_a_failed_flush_stays() {
    let write = "pwrite=echo ENOSPC disk full >&2; exit 1";
    let flush = "flush=if [ -e $tmpdir/once ]; then :; else touch $tmpdir/once; echo EIO >&2; exit 1; fi";
    let read = "pread=if [ $4 = 4096 ]; then echo EIO >&2; exit 1; fi; head -c $3 /dev/zero";
    let kinds = ["can_write=exit 0", "can_flush=exit 0", "can_fua=echo emulate"];
    let Some(server) = Server::new(&[&["eval", "get_size=echo 1M", read, write, flush], &kinds[..]].concat())
    else {
        return;
    };
    let device = ServerDevice::open(&server.uri(), Access::ReadWrite).expect("it opens");
    assert!(matches!(device.read_at(4096, block(0).whole_mut()), Err(DeviceError::Media { errno: 5, .. })));
    device.read_at(0, block(0).whole_mut()).expect("other places are well");
    let full = device.write_at(0, &[block(1).whole()]);
    assert!(matches!(full, Err(DeviceError::NoSpace { errno: 28, .. })), "{full:?}");
    assert!(matches!(device.flush(), Err(DeviceError::FlushFailed { errno: 5, .. })));
    assert!(matches!(device.flush(), Err(DeviceError::FlushFailed { errno: 5, .. })), "it stays");
}
