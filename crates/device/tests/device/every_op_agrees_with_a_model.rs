//! Random operations on every kind of device, compared with a plain vector. Seeds are printed and
//! can be repeated (`PANTILE_SEED=n cargo test -p pantile-device`).

use pantile_device::*;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

fn seeds() -> Vec<u64> {
    match std::env::var("PANTILE_SEED") {
        Ok(seed) => vec![seed.parse().expect("PANTILE_SEED is a number")],
        Err(_) => (0..6).collect(),
    }
}

/// Writes bytes that identify their offset and time; none is zero, and the period is 251.
fn paint(bytes: &mut [u8], start: u64) {
    bytes.iter_mut().enumerate().for_each(|(i, byte)| *byte = ((start + i as u64) % 251 + 1) as u8);
}

/// Returns a range of whole blocks on the device, mostly a short one.
fn range(rng: &mut fastrand::Rng, blocks: u64, most: u64) -> (u64, u64) {
    let len = rng.u64(1..=most.min(blocks));
    (rng.u64(0..=blocks - len), len)
}

fn agrees(device: &dyn Device, seed: u64) {
    println!("{} seed {seed}", device.path().display());
    let mut rng = fastrand::Rng::with_seed(seed);
    let block = u64::from(device.block_len_bytes());
    let blocks = device.len_bytes() / block;
    let mut model = vec![0; device.len_bytes() as usize];
    let mut found = AlignedBuf::zeroed(device.len_bytes() as usize);
    device.read_at(0, found.whole_mut()).unwrap();
    model.copy_from_slice(&found);
    for step in 0..400 {
        let (start, len) = range(&mut rng, blocks, 40);
        let (offset, bytes) = (start * block, (len * block) as usize);
        let here = offset as usize..offset as usize + bytes;
        match rng.u32(0..10) {
            0..=3 => {
                // The write has parts of several buffers, each at some offset in its buffer.
                let mut buffers = Vec::new();
                let mut left = len;
                while left > 0 {
                    let (part, lead) = (rng.u64(1..=left), rng.u64(0..4));
                    let mut buffer = AlignedBuf::zeroed(((lead + part) * block) as usize);
                    paint(&mut buffer, rng.u64(0..251));
                    buffers.push((buffer, (lead * block) as usize));
                    left -= part;
                }
                let parts: Vec<_> =
                    buffers.iter().map(|(buffer, lead)| buffer.part(*lead..buffer.len())).collect();
                device.write_at(offset, &parts).unwrap();
                model[here].copy_from_slice(
                    &parts.iter().flat_map(|part| part.bytes()).copied().collect::<Vec<_>>(),
                );
            }
            4 => {
                device.zero(offset, bytes as u64).unwrap();
                model[here].fill(0);
            }
            5 => {
                device.discard(offset, bytes as u64).unwrap();
                device.read_at(offset, found.part_mut(0..bytes)).unwrap();
                for (new, old) in found
                    .chunks(block as usize)
                    .zip(model[here].chunks_mut(block as usize))
                    .take(len as usize)
                {
                    assert!(new == old || new.iter().all(|&byte| byte == 0), "step {step}");
                    old.copy_from_slice(new);
                }
            }
            6 => device.flush().unwrap(),
            _ => {
                let lead = (rng.u64(0..4) * block) as usize;
                let mut into = AlignedBuf::zeroed(lead + bytes + 4096);
                into.fill(0xee);
                device.read_at(offset, into.part_mut(lead..lead + bytes)).unwrap();
                assert!(into[lead..lead + bytes] == model[here], "step {step} at {offset}, {bytes} bytes");
                assert!(
                    into[..lead].iter().chain(&into[lead + bytes..]).all(|&byte| byte == 0xee),
                    "step {step}"
                );
            }
        }
    }
    device.read_at(0, found.whole_mut()).unwrap();
    assert!(found[..] == model[..]);
}

#[test]
fn direct_files_agree() {
    let dir = tempfile::tempdir().unwrap();
    for seed in seeds() {
        let path = dir.path().join(seed.to_string());
        let device =
            FileDevice::create_with(&path, 300 * 4096, seed % 2 == 1, OpenOptions::default()).unwrap();
        println!("{:?}, blocks of {}", device.mode(), device.block_len_bytes());
        agrees(&device, seed);
        drop(device);
        agrees(&FileDevice::open(&path).unwrap(), seed + 1000);
    }
}

#[test]
fn buffered_files_agree() {
    let dir = tempfile::tempdir().unwrap();
    let options = OpenOptions { caching: Caching::Buffered, ..Default::default() };
    for seed in seeds() {
        let path = dir.path().join(seed.to_string());
        let device = FileDevice::create_with(path, 300 * 4096, false, options).unwrap();
        assert_eq!(device.mode(), Mode::Buffered);
        agrees(&device, seed);
    }
}

/// A file system with neither ZERO_RANGE nor a reported alignment, which needs the fallbacks.
#[test]
fn files_in_memory_agree() {
    let Ok(dir) = tempfile::tempdir_in("/dev/shm") else { return eprintln!("skipped: no /dev/shm") };
    for seed in seeds() {
        agrees(&FileDevice::create(dir.path().join(seed.to_string()), 300 * 4096).unwrap(), seed);
    }
}

#[test]
fn memory_agrees() {
    for seed in seeds() {
        agrees(&MemoryDevice::with_block_len("memory", 300 * 4096, [512, 4096][seed as usize % 2]), seed);
    }
}

#[test]
fn wrapped_devices_agree() {
    for seed in seeds() {
        let no_time = std::time::Duration::from_nanos(800);
        let fast =
            Throttle { positioning: no_time, bytes_per_s: 2_000_000_000_000, flush: no_time, lanes: 1 };
        let memory = Arc::new(MemoryDevice::new("memory", 300 * 4096));
        agrees(&Throttled::new(Counted::new(Faulty::new(memory)), fast), seed);
    }
}

/// A write of more parts than the kernel accepts in one call (1024), so a second call begins within
/// the list.
#[test]
fn a_write_of_very_many_parts_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    let device = FileDevice::create(dir.path().join("disk"), 3000 * 4096).unwrap();
    let block = device.block_len_bytes() as usize;
    let mut buffer = AlignedBuf::zeroed(2500 * block);
    paint(&mut buffer, 3);
    let parts: Vec<_> = (0..2500).map(|i| buffer.part(i * block..(i + 1) * block)).collect();
    device.write_at(0, &parts).unwrap();
    let mut found = AlignedBuf::zeroed(2500 * block);
    device.read_at(0, found.whole_mut()).unwrap();
    assert!(found[..] == buffer[..]);
}

/// Kills a server when the test ends.
struct Killed(std::process::Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn exports_agree_in_requests_of_every_size() {
    let dir = tempfile::tempdir().unwrap();
    for limits in ["1", "2"] {
        let socket = dir.path().join(limits);
        let mut nbdkit = Command::new("nbdkit");
        nbdkit.arg("--foreground").arg("--unix").arg(&socket);
        match limits {
            "1" => nbdkit.args(["memory", "1200K"]),
            // Each request of more than 8 KiB becomes several, and zeros are written as data.
            _ => nbdkit.args(["--filter=nozero", "--filter=blocksize-policy", "memory", "1200K"]).args([
                "blocksize-minimum=4K",
                "blocksize-preferred=4K",
                "blocksize-maximum=8K",
                "blocksize-error-policy=error",
            ]),
        };
        let Ok(child) = nbdkit.spawn() else { return eprintln!("nbdkit is not installed: left out") };
        let _server = Killed(child);
        // The socket exists before the server listens.
        while std::os::unix::net::UnixStream::connect(&socket).is_err() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let uri = format!("nbd+unix:///?socket={}", socket.display());
        let device = open_device(Path::new(&uri), OpenOptions::default()).unwrap();
        assert!(matches!(device.identity(), Identity::Server { .. }));
        agrees(&*device, 3);
    }
}

/// Detaches a loop device when the test ends.
struct Loop(String);

impl Loop {
    fn over(file: &Path, sector: &str) -> Option<Self> {
        let mut losetup = Command::new("losetup");
        let losetup = losetup.args(["--find", "--show", "--sector-size", sector]).arg(file);
        let out = losetup.output().ok().filter(|out| out.status.success())?;
        Some(Self(String::from_utf8(out.stdout).ok()?.trim().to_string()))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

#[test]
fn block_devices_agree_and_are_claimed() {
    let dir = tempfile::tempdir().unwrap();
    for sector in ["512", "4096"] {
        let file = dir.path().join(sector);
        std::fs::File::create(&file).unwrap().set_len(300 * 4096).unwrap();
        let Some(disk) = Loop::over(&file, sector) else {
            return eprintln!("skipped: no loop devices, or not root");
        };
        let device = FileDevice::open(&disk.0).unwrap();
        assert_eq!(
            (device.len_bytes(), device.block_len_bytes().to_string()),
            (300 * 4096, sector.to_string())
        );
        assert!(matches!(device.identity(), Identity::Block { .. }));
        assert_eq!(device.mode(), Mode::Direct);
        agrees(&device, 7);
        assert!(matches!(FileDevice::open(&disk.0), Err(DeviceError::InUse { .. })));
        drop(device);
        drop(FileDevice::open(&disk.0).unwrap());
    }
}
