//! Epochs through the C interface, over the control socket of a volume that is served. Bytes are
//! written by the server's own handle; `tests/mpi.sh` writes them by NBD.

use pantile_c::*;
use pantile_code::Code;
use pantile_host::{ControlServer, EpochId, Folder, NewDevices, NewFolder, Service};
use std::ffi::{CStr, CString};
use std::path::Path;
use std::ptr::{null, null_mut};
use std::sync::Arc;
use std::time::{Duration, Instant};

fn sentence(error: &PantileError) -> String {
    // SAFETY: the library's message ends with a zero.
    unsafe { CStr::from_ptr(error.message.as_ptr()) }.to_str().expect("UTF-8").to_string()
}

fn begin(
    volume: &Path,
    options: *const PantileEpochOptions,
) -> Result<*mut PantileEpoch, (PantileStatus, String)> {
    let volume = CString::new(volume.to_str().expect("UTF-8")).expect("no zero");
    let mut error = PantileError { status: PantileStatus::Ok, message: [0; MESSAGE_BYTES] };
    let mut epoch = null_mut();
    // SAFETY: pointers to values of this function, or NULL.
    match unsafe { pantile_epoch_begin(volume.as_ptr(), options, &mut epoch, &mut error) } {
        PantileStatus::Ok => Ok(epoch),
        status => Err((status, sentence(&error))),
    }
}

#[test]
fn a_program_in_c_has_epochs_in_a_served_volume() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("vol");
    let (status, text) = begin(&root, null()).expect_err("nothing is served");
    assert!(status == PantileStatus::NotServed && text.contains("pantile serve"), "{text}");
    let code = Code::parse("raid5:3").expect("a code");
    let new = NewFolder::new(code, NewDevices::Made { user_bytes: 16 << 20 });
    Folder::create(&root, &new).expect("it is made");
    let service = Arc::new(Service::start(Folder::open(&root).expect("a folder"), None).expect("it starts"));
    let control = ControlServer::start(&root, service.clone()).expect("it listens");
    let wrote = |handle: *mut PantileEpoch| {
        let (mut number, mut offset, mut bytes) = (0, 1, 0);
        // SAFETY: an epoch, and places of this function.
        let status = unsafe { pantile_epoch_range(handle, &mut number, &mut offset, &mut bytes, null_mut()) };
        assert!(status == PantileStatus::Ok && offset == 0 && bytes >= 4096);
        service.handle().within(EpochId(number)).write(0, &[7; 4096], true).expect("it writes");
    };
    let first = || {
        let mut block = [0; 4096];
        service.handle().read(0, &mut block).expect("it reads");
        block
    };
    let mut options = PantileEpochOptions {
        struct_bytes: size_of::<PantileEpochOptions>(),
        offset: 0,
        bytes: 4096,
        pending_bytes_most: 0,
        age_most_s: u32::MAX,
        idle_most_s: 0,
        seals_when_idle: 0,
    };

    let epoch = begin(&root, &options).expect("it begins");
    wrote(epoch);
    let (status, text) = begin(&root, null()).expect_err("it is held");
    assert!(status == PantileStatus::Refused && text.contains("held by open"), "{text}");
    // SAFETY: an epoch that is not freed yet, and places of this function.
    unsafe {
        let mut need = 0;
        assert_eq!(pantile_epoch_uri(epoch, null_mut(), 0, &mut need, null_mut()), PantileStatus::NotServed);
        std::fs::write(root.join("nbd.sock"), "").expect("a name is enough");
        assert_eq!(pantile_epoch_uri(epoch, null_mut(), 0, &mut need, null_mut()), PantileStatus::TooSmall);
        let mut uri = vec![0; need];
        assert_eq!(
            pantile_epoch_uri(epoch, uri.as_mut_ptr(), need, &mut need, null_mut()),
            PantileStatus::Ok
        );
        assert!(CStr::from_ptr(uri.as_ptr()).to_str().expect("UTF-8").starts_with("nbd+unix:///epoch-"));
        assert_eq!(pantile_epoch_abort(epoch, null_mut()), PantileStatus::Ok);
        assert_eq!(pantile_epoch_end(epoch, null_mut()), PantileStatus::EpochOver);
        pantile_epoch_free(epoch);
        pantile_epoch_free(null_mut());
        assert_eq!(pantile_epoch_end(null(), null_mut()), PantileStatus::NullPointer);
    }
    assert_eq!(first(), [0; 4096], "it was aborted");

    // Silent for a second, it ends as it was to: the call finds that it has.
    for (seals_when_idle, content) in [(0, [0; 4096]), (1, [7; 4096])] {
        (options.idle_most_s, options.seals_when_idle) = (1, seals_when_idle);
        let epoch = begin(&root, &options).expect("it begins");
        wrote(epoch);
        let since = Instant::now();
        while !service.host().report().expect("it serves").epochs.is_empty() {
            assert!(since.elapsed() < Duration::from_secs(60), "it does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
        // SAFETY: an epoch that is freed here.
        unsafe {
            assert_eq!(pantile_epoch_end(epoch, null_mut()), PantileStatus::EpochOver);
            pantile_epoch_free(epoch);
        }
        assert_eq!(first(), content);
    }

    options.offset = 4096;
    let mut refused = |bytes, struct_bytes| {
        (options.bytes, options.struct_bytes) = (bytes, struct_bytes);
        begin(&root, &options).expect_err("it is wrong").0
    };
    assert_eq!(refused(0, size_of::<PantileEpochOptions>()), PantileStatus::BadArgument);
    assert_eq!(refused(4096, 8), PantileStatus::BadArgument);
    drop(control);
    service.stop().expect("it stops");
}
