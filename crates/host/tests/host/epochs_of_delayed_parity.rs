//! Epochs through a host: their visibility, their writers, their ends, and a program that is killed
//! during a checkpoint.

use crate::common::folders::new;
use crate::common::{format, geometry, memory, open, painted, until};
use pantile_host::{
    Answer, CONTROL_SOCKET, ControlServer, EpochError, EpochOptions, Failure, FaultKind, Folder, FolderError,
    Host, HostError, NewDevices, NewFolder, OnTimeout, Order, ServedEpoch, Service, Slot,
};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

const MIB: usize = 1 << 20;

fn host(code: &str) -> Host {
    let geometry = geometry(code);
    let devices = memory(&geometry);
    format(&geometry, &devices);
    open(&geometry, &devices).expect("it opens")
}

fn read(handle: &pantile_host::Handle, at: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    handle.read(at, &mut bytes).expect("it reads");
    bytes
}

fn first(len: usize) -> EpochOptions {
    EpochOptions { range: Some((0, len as u64)), ..EpochOptions::default() }
}

#[test]
fn an_epoch_is_seen_when_it_has_ended() {
    for code in ["raid6:4", "dcode:5", "raidq:2+4", "raid0:3"] {
        let host = host(code);
        let handle = host.handle();
        let (old, new, beside) = (painted(1, MIB / 2), painted(2, MIB / 2), painted(3, 5000));
        let last = handle.len_bytes() - beside.len() as u64;
        handle.write(0, &old, false).expect("it writes");
        let mut epoch = handle.begin(&first(MIB / 2)).expect("it begins");
        // Several writers write pieces that are not whole blocks.
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let (writing, new) = (handle.within(epoch.id()), &new);
                scope.spawn(move || {
                    for (i, piece) in new.chunks(10_007).enumerate().skip(writer).step_by(4) {
                        writing.write(i as u64 * 10_007, piece, false).expect("it writes");
                    }
                });
            }
        });
        epoch.flush().expect("it flushes");
        assert!(read(&handle, 0, MIB / 2) == old, "{code}: others see what was there before");
        assert!(read(&epoch, 0, MIB / 2) == new, "{code}: the epoch sees what it wrote");
        let refused = handle.write(7, &beside, false);
        assert!(matches!(refused, Err(HostError::Failed(Failure::Busy { .. }))), "{refused:?}");
        handle.write(last, &beside, true).expect("beside the epoch all is as ever");
        let report = host.report().expect("it serves").epochs.remove(0);
        assert!(report.owed_bytes_max == 256 << 20 && report.stripes > 0, "{report:?}");
        epoch.end().expect("it ends");
        assert!(read(&handle, 0, MIB / 2) == new, "{code}: sealed");
        assert!(read(&handle, last, beside.len()) == beside);
        if host.geometry().tolerance() > 0 {
            host.fail(Slot(1)).expect("one may be lost");
            assert!(read(&handle, 0, MIB / 2) == new, "{code}: with parity");
        }
        host.stop().expect("it stops");
    }
}

#[test]
fn an_abort_and_a_drop_leave_no_trace() {
    let host = host("raid5:4");
    let handle = host.handle();
    let old = painted(1, MIB / 2);
    handle.write(0, &old, false).expect("it writes");
    for dropped in [false, true] {
        let epoch = handle.begin(&first(MIB / 2)).expect("it begins");
        epoch.write(4096, &painted(2, MIB / 2 - 4096), true).expect("it writes");
        match dropped {
            true => drop(epoch),
            false => epoch.abort().expect("it aborts"),
        }
        assert!(read(&handle, 0, MIB / 2) == old);
        handle.write(0, &old, true).expect("nobody is in the way");
    }
    host.stop().expect("it stops");
}

#[test]
fn epochs_that_overlap_and_requests_beside_are_refused() {
    let host = host("raid5:4");
    let handle = host.handle();
    let epoch = handle.begin(&first(MIB / 4)).expect("it begins");
    let (from, len) = epoch.range();
    let overlap = handle.begin(&first(1)).err();
    assert!(
        matches!(overlap, Some(HostError::Failed(Failure::EpochsOverlap { ref epochs })) if *epochs == [epoch.id()])
    );
    let outside = epoch.write(from + len, &[7; 4096], false);
    assert!(matches!(outside, Err(HostError::Failed(Failure::OutsideEpoch { .. }))), "{outside:?}");
    let other = handle.begin(&EpochOptions { range: Some((from + len, 4096)), ..EpochOptions::default() });
    other.expect("beside it is room for another").end().expect("of nothing");
    let id = epoch.id();
    epoch.abort().expect("it aborts");
    let gone = handle.within(id).write(0, &[1; 4096], false);
    assert!(matches!(gone, Err(HostError::Failed(Failure::NoSuchEpoch { .. }))), "{gone:?}");
    host.stop().expect("it stops");
}

#[test]
fn a_silent_epoch_ends_by_its_policy() {
    for (on_timeout, sealed) in [(OnTimeout::Seal, true), (OnTimeout::Abort, false)] {
        let host = host("raid6:4");
        let handle = host.handle();
        let idle_max = Some(Duration::from_secs(2));
        let options = EpochOptions { idle_max, on_timeout, ..first(MIB) };
        let epoch = handle.begin(&options).expect("it begins");
        let new = painted(9, MIB);
        epoch.write(0, &new, false).expect("it writes");
        epoch.detach();
        until(|| host.report().expect("it serves").epochs.is_empty());
        let expected = if sealed { new } else { vec![0; MIB] };
        assert!(read(&handle, 0, MIB) == expected, "{on_timeout:?}");
        host.stop().expect("it stops");
    }
}

#[test]
fn old_pending_parity_is_written() {
    let host = host("raid6:4");
    let options = EpochOptions { age_max: Some(Duration::from_millis(200)), ..first(MIB) };
    let mut epoch = host.handle().begin(&options).expect("it begins");
    epoch.write(0, &painted(4, MIB / 2), false).expect("it writes");
    let owed = || host.report().expect("it serves").epochs[0].owed_bytes;
    until(|| owed() == 0);
    epoch.end().expect("it ends");
    host.stop().expect("it stops");
}

/// Over the control socket, an epoch ends with the connection that began it, unless it is detached.
#[test]
fn an_epoch_ends_with_its_connection() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("vol");
    let devices = NewDevices::Made { user_bytes: 4 << 20 };
    Folder::create(&root, &new("raid5:3", devices)).expect("it is made");
    let service = Arc::new(Service::start(Folder::open(&root).expect("a folder"), None).expect("it starts"));
    let control = ControlServer::start(&root, service.clone()).expect("it listens");
    let epochs = || service.host().report().expect("it serves").epochs.len();
    for (detached, stays) in [(false, false), (true, true)] {
        let stream = UnixStream::connect(root.join(CONTROL_SOCKET)).expect("it listens");
        let order = format!("{{\"do\":\"delayed-start\",\"detached\":{detached}}}\n");
        (&stream).write_all(order.as_bytes()).expect("it takes orders");
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line).expect("it answers");
        let Ok(Answer::Epoch { epoch, offset: 0, .. }) = serde_json::from_str(&line) else {
            panic!("{line}")
        };
        assert_eq!(epochs(), 1);
        drop(stream);
        match stays {
            false => until(|| epochs() == 0),
            true => {
                std::thread::sleep(Duration::from_millis(300));
                assert_eq!(epochs(), 1);
                let ended = service.obey(&Order::DelayedEnd { epoch });
                assert!(matches!(ended, Answer::Done { .. }), "{ended:?}");
            }
        }
    }
    let Answer::Fault { text, .. } = service.obey(&Order::DelayedEnd { epoch: 7 }) else {
        panic!("no epoch 7")
    };
    assert!(text.contains("no epoch 7"), "{text}");
    drop(control);
    service.stop().expect("it stops");
}

/// A program that does not serve the volume begins and ends epochs over the control socket.
#[test]
fn a_program_has_epochs_in_a_volume_that_is_served() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("vol");
    let not_served = ServedEpoch::begin(&root, &first(MIB)).map(|_| ());
    assert!(matches!(&not_served, Err(EpochError::NotServed { text }) if text.contains("pantile serve")));
    let devices = NewDevices::Made { user_bytes: 16 << 20 };
    Folder::create(&root, &new("raid5:3", devices)).expect("it is made");
    let service = Arc::new(Service::start(Folder::open(&root).expect("a folder"), None).expect("it starts"));
    let control = ControlServer::start(&root, service.clone()).expect("it listens");
    let (handle, open) = (service.handle(), || service.host().report().expect("it serves").epochs.len());
    let content = |bytes: &[u8]| read(&handle, 0, MIB) == bytes;
    let begin = |options: &EpochOptions| {
        let epoch = ServedEpoch::begin(&root, options)?;
        handle.within(epoch.id()).write(0, &painted(7, MIB), true).expect("it writes");
        Ok::<_, EpochError>(epoch)
    };

    let mut epoch = begin(&first(MIB)).expect("it begins");
    assert!(matches!(epoch.range(), (0, len) if len >= MIB as u64));
    assert!(matches!(epoch.uri(), Err(EpochError::NotServed { text }) if text.contains("export epoch-")));
    std::fs::write(root.join("nbd.sock"), "").expect("a name is enough");
    assert!(epoch.uri().expect("an address").contains(&format!("/epoch-{}?socket=/", epoch.id().0)));
    assert!(content(&vec![0; MIB]));
    let overlaps = begin(&first(4096)).map(|_| ());
    assert!(matches!(&overlaps, Err(EpochError::Refused { text }) if text.contains("held by open")));
    epoch.abort().expect("it is aborted");
    assert!(content(&vec![0; MIB]));
    assert!(matches!(epoch.end(), Err(EpochError::Over { .. })), "what was aborted cannot be sealed");
    let outside = EpochOptions { range: Some((1 << 40, 4096)), ..EpochOptions::default() };
    assert!(matches!(begin(&outside), Err(EpochError::Refused { .. })));

    drop(begin(&first(MIB)).expect("it begins"));
    until(|| open() == 0);
    assert!(content(&vec![0; MIB]), "dropped is aborted");
    let silent = EpochOptions { idle_max: Some(Duration::from_secs(1)), ..first(MIB) };
    let mut epoch = begin(&silent).expect("it begins");
    until(|| open() == 0);
    assert!(matches!(epoch.end(), Err(EpochError::Over { .. })), "it was silent too long");
    assert!(content(&vec![0; MIB]));
    let mut epoch = begin(&first(MIB)).expect("it begins");
    epoch.end().expect("it ends");
    assert!(content(&painted(7, MIB)));
    drop(control);
    service.stop().expect("it stops");
}

/// A simulated server answers the first order, and ends at the second.
#[test]
fn a_program_hears_that_the_server_has_gone() {
    let folder = tempfile::tempdir().expect("a folder");
    let listener = std::os::unix::net::UnixListener::bind(folder.path().join(CONTROL_SOCKET));
    let listener = listener.expect("it listens");
    let answers = std::thread::spawn(move || {
        for last in [
            "{\"answer\":\"epoch\",\"epoch\":5,\"offset\":0,\"len_bytes\":4096}",
            "{\"answer\":\"done\",\"text\":\"\"}",
            "no answer",
        ] {
            let (stream, _) = listener.accept().expect("a program");
            let mut lines = BufReader::new(&stream).lines();
            lines.next().expect("an order").expect("an order");
            writeln!(&stream, "{last}").expect("it reads");
            if last.contains("epoch") {
                lines.next().expect("an order").expect("an order");
            }
        }
    });
    let mut epoch = ServedEpoch::begin(folder.path(), &first(MIB)).expect("it begins");
    for _ in 0..2 {
        let gone = epoch.end();
        assert!(matches!(&gone, Err(EpochError::Gone { text }) if text.contains("has ended")), "{gone:?}");
    }
    for _ in 0..2 {
        assert!(matches!(ServedEpoch::begin(folder.path(), &first(MIB)), Err(EpochError::Gone { .. })));
    }
    answers.join().expect("no panic");
}

/// Data without parity are lost with their device. The end of the epoch says so, and the program
/// writes them again.
#[test]
fn a_program_is_told_what_its_epoch_has_lost() {
    let lost = Failure::EpochLost { epoch: pantile_host::EpochId(5), ranges: Vec::new() };
    let not_there = Failure::NoSuchEpoch { epoch: pantile_host::EpochId(5) };
    let kinds = [lost, not_there].map(|failure| FolderError::Host(HostError::Failed(failure)).kind());
    assert_eq!(kinds, [FaultKind::Losses, FaultKind::Input]);

    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("vol");
    let devices = NewDevices::Made { user_bytes: 256 << 20 };
    Folder::create(&root, &new("raid5:3", devices)).expect("it is made");
    let service = Arc::new(Service::start(Folder::open(&root).expect("a folder"), None).expect("it starts"));
    let control = ControlServer::start(&root, service.clone()).expect("it listens");
    // The data exceed the memory, and a block of each stripe is not written: so no stripe gets its
    // parity early.
    let stripe = service.host().geometry().stripe_blocks() as usize * 4096;
    let range = Some((0, 48 * MIB as u64));
    let options = EpochOptions { range, age_max: None, ..EpochOptions::default() };
    let mut epoch = ServedEpoch::begin(&root, &options).expect("it begins");
    let within = service.handle().within(epoch.id());
    let (old, new) = (painted(3, stripe - 4096), painted(4, stripe - 4096));
    let write = |bytes: &[u8]| {
        for nth in 0..48 * MIB / stripe {
            within.write((nth * stripe) as u64, bytes, false).expect("it writes");
        }
    };
    write(&old);
    within.flush().expect("it flushes");
    let failed = service.obey(&Order::Fail { device: 1, lose_data: true });
    assert!(matches!(failed, Answer::Done { .. }), "{failed:?}");
    let lost = epoch.end();
    assert!(matches!(&lost, Err(EpochError::Lost { text }) if text.contains("write them again")), "{lost:?}");
    write(&new);
    epoch.end().expect("it was written again");
    assert!(read(&service.handle(), stripe as u64, new.len()) == new);
    drop(control);
    service.stop().expect("it stops");
}

/// The example is killed at many moments. After each kill it finds a checkpoint of a single step,
/// which is not older than the last one it reported as sealed.
#[test]
fn a_checkpoint_program_that_is_killed_recovers() {
    let folder = tempfile::tempdir().expect("a folder");
    let example = std::env::current_exe().expect("a test");
    let example =
        example.parent().and_then(|deps| deps.parent()).expect("a folder").join("examples/checkpoint");
    assert!(example.is_file(), "with --test alone it is not built: cargo build -p pantile-host --examples");
    let (mut sealed, mut random) = (0u64, fastrand::Rng::with_seed(5));
    for life in 0..8 {
        let mut child = std::process::Command::new(&example)
            .arg(folder.path().join("vol"))
            .arg("1000000")
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("it runs");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines().map_while(Result::ok);
        let found = lines.next().and_then(|line| line.strip_prefix("found step ")?.parse::<u64>().ok());
        let found = found.expect("the checkpoint is whole");
        // The checkpoint that was being sealed at the kill may be found, too.
        assert!((sealed..=sealed + 1).contains(&found), "life {life}: {found} after {sealed}");
        sealed = found;
        for _ in 0..random.u64(0..3) {
            let line = lines.next().expect("it goes on");
            sealed = line.strip_prefix("sealed step ").and_then(|n| n.parse().ok()).expect("a step");
        }
        std::thread::sleep(Duration::from_millis(random.u64(0..60)));
        child.kill().expect("it is killed");
        child.wait().expect("it ends");
        let more = lines.filter_map(|line| line.strip_prefix("sealed step ")?.parse::<u64>().ok()).max();
        sealed = sealed.max(more.unwrap_or(0));
    }
}

/// Each overwritten block needs a second place. A volume has as many as were requested when it was
/// made.
#[test]
fn a_volume_made_for_epochs_lets_one_write_over_so_much() {
    let written_over = |epoch_bytes: u64| -> Result<(), HostError> {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().join("vol");
        let devices = NewDevices::Made { user_bytes: 24 << 20 };
        let new = NewFolder { epoch_bytes, ..new("raid5:3", devices) };
        Folder::create(&root, &new).expect("it is made");
        let service = Service::start(Folder::open(&root).expect("a folder"), None).expect("it starts");
        let handle = service.handle();
        let (old, new) = (painted(1, 24 * MIB), painted(2, 12 * MIB));
        handle.write(0, &old, true)?;
        let range = Some((4096, new.len() as u64));
        let mut epoch = handle.begin(&EpochOptions { range, ..EpochOptions::default() })?;
        epoch.write(4096, &new, false)?;
        epoch.end()?;
        assert!(read(&handle, 0, 4096) == old[..4096] && read(&handle, 4096, new.len()) == new);
        let behind = 4096 + new.len();
        assert!(read(&handle, behind as u64, old.len() - behind) == old[behind..]);
        service.stop().expect("it stops");
        Ok(())
    };
    let refused = written_over(0);
    assert!(matches!(refused, Err(HostError::Failed(Failure::NoRoom { .. }))), "{refused:?}");
    written_over(12 << 20).expect("there is room");
    // The request exceeds the stripes of the volume.
    written_over(1 << 30).expect("there is room");
}

/// It is refused before anything is made, and the message has a size that would be accepted.
#[test]
fn epochs_that_no_record_could_name_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("vol");
    let create = |epoch_bytes: u64| {
        let devices = NewDevices::Made { user_bytes: 24 << 20 };
        let new = NewFolder { epoch_bytes, ..new("raid5:3", devices) };
        Folder::create(&root, &new)
    };
    let refused = create(u64::MAX).err();
    let Some(FolderError::EpochsTooLarge { most_bytes, .. }) = refused else { panic!("{refused:?}") };
    assert!(!root.exists());
    create(most_bytes).expect("that many fit");
}
