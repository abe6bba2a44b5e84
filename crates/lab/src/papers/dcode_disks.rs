//! Section V of the D-Code paper on disks that are there: what the engine would read of its
//! devices, read from files or block devices, each with everything of a request at once.
//!
//! Disks are only read: no volume is on them, and what they hold does not matter. The engine says
//! which elements a request needs, healthy or with a disk lost; a request is laid to a place of the
//! disks that is drawn, the same on all, as if the volume were as large as they are. Rebuilding
//! what was lost is not in the time.

use super::array::Array;
use super::dcode_engine::{NAME, Options};
use super::executed::{ExecuteError, STRIPES};
use super::rivals::Rival;
use crate::Report;
use pantile::Code;
use pantile_device::{
    Access, AlignedBuf, Device, FileDevice, IoPool, Op, OpenOptions, PoolOptions, Priority, Request,
};
use pantile_sim::{IoKind, Random};
use pantile_volume::{DeviceBlock, Slot};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long is waited at a time.
const A_WHILE: Duration = Duration::from_secs(60);

/// The disks, in one pool.
struct Disks {
    pool: IoPool,
    devices: Vec<Arc<FileDevice>>,
    /// As the pool numbers them.
    numbers: Vec<usize>,
}

impl Disks {
    /// Opens them to be read.
    fn open(files: &[PathBuf]) -> Result<Disks, ExecuteError> {
        let options = OpenOptions { access: Access::ReadOnly, ..OpenOptions::default() };
        let pool = IoPool::new(PoolOptions::default());
        let (mut devices, mut numbers) = (Vec::new(), Vec::new());
        for file in files {
            let device = Arc::new(FileDevice::open_with(file, options)?);
            numbers.push(pool.attach(Arc::clone(&device) as Arc<dyn Device>)?);
            devices.push(device);
        }
        Ok(Disks { pool, devices, numbers })
    }

    /// Where on every disk a request may be laid: the last byte that its stripes may begin at.
    ///
    /// Errors: a disk is too short for them, or has blocks that are no part of an element.
    fn room(&self, code: &Code, element_bytes: u64) -> Result<u64, ExecuteError> {
        let need = u64::from(STRIPES) * code.rows_max() as u64 * element_bytes;
        let mut room = u64::MAX;
        for device in &self.devices[..code.columns()] {
            let block = u64::from(device.block_len_bytes());
            if device.len_bytes() < need || !element_bytes.is_multiple_of(block) {
                let need = need.max(block);
                let device_name = device.path().display().to_string();
                return Err(ExecuteError::Short { device: device_name, have: device.len_bytes(), need });
            }
            room = room.min(device.len_bytes() - need);
        }
        Ok(room / element_bytes)
    }

    /// Reads all of it at once, and says how long it took.
    fn read(&self, parts: &[(Slot, u64, u64)]) -> Result<Duration, ExecuteError> {
        let requests: Vec<Request> = (0..)
            .zip(parts)
            .map(|(token, &(slot, offset_bytes, len))| Request {
                token,
                device: self.numbers[slot.0 as usize],
                priority: Priority::User,
                op: Op::Read {
                    offset_bytes,
                    buffer: AlignedBuf::zeroed(len as usize),
                    range: 0..len as usize,
                },
            })
            .collect();
        let begun = Instant::now();
        for request in requests {
            if self.pool.submit(request).is_err() {
                unreachable!("a request has fewer operations than a pool takes for each device");
            }
        }
        let mut done = Vec::new();
        while done.len() < parts.len() {
            self.pool.wait(&mut done, Instant::now() + A_WHILE);
        }
        let took = begun.elapsed();
        done.into_iter().try_for_each(|completion| completion.result)?;
        Ok(took)
    }
}

/// Elements, and the seconds that they took.
#[derive(Clone, Copy, Default)]
struct Ran {
    elements: u64,
    seconds: f64,
}

fn state(disks: &Disks, code: &Code, lost: Option<usize>, options: &Options) -> Result<Ran, ExecuteError> {
    let element_bytes = options.element_bytes;
    let room = disks.room(code, element_bytes)?;
    let slot = lost.map(|slot| Slot(slot as u32));
    let mut array = Array::new(code, slot, |_, _, blocks| blocks)?;
    let rows = code.rows_max() as u64;
    let stripes = array.stripes();
    let mut random = Random::new(options.seed ^ lost.map_or(0, |slot| slot as u64 + 1) << 40);
    let mut ran = Ran::default();
    for _ in 0..if lost.is_none() { options.reads } else { options.reads_lost } {
        let Some((first, count)) = array.draw(&stripes, &mut random) else { break };
        array.read(first, count)?;
        let base = random.below(room + 1);
        let reads = array.ops().filter(|op| op.kind == IoKind::Read);
        let parts: Vec<(Slot, u64, u64)> = reads
            .filter_map(|op| {
                let (stripe, row) = array.element(op.slot, DeviceBlock(op.at.0))?;
                let place = base + u64::from(stripe) * rows + u64::from(row);
                Some((op.slot, place * element_bytes, op.blocks * element_bytes))
            })
            .collect();
        ran.seconds += disks.read(&parts)?.as_secs_f64();
        ran.elements += u64::from(count);
    }
    Ok(ran)
}

/// Reads disks as volumes of every code would that they are enough for, and adds what it took.
///
/// `progress` is told what is done and of how much.
///
/// Errors: a disk cannot be opened or read, or is too short; there are fewer than the narrowest
/// code has columns.
pub fn add(
    report: &mut Report,
    options: &Options,
    files: &[PathBuf],
    progress: &dyn Fn(u64, u64),
) -> Result<(), ExecuteError> {
    debug_assert_eq!(report.experiment, NAME);
    let all: Vec<(usize, Rival)> =
        options.primes.iter().flat_map(|&p| Rival::ALL.map(|rival| (p, rival))).collect();
    let fits = |&(p, rival): &(usize, Rival)| rival.code(p).columns() <= files.len();
    let (run, left_out): (Vec<_>, Vec<_>) = all.into_iter().partition(fits);
    if run.is_empty() {
        let need = left_out.iter().map(|(p, rival)| rival.code(*p).columns()).min().unwrap_or(0);
        return Err(ExecuteError::Few { have: files.len(), need });
    }
    report.say(format!(
        "Disks: {} were read, and nothing was written to them. What the engine reads of its devices is read of them at once, at a place of the disks that is drawn for each request; \
         rebuilding what was lost is not in the time.{}",
        files.len(),
        match left_out.len() {
            0 => String::new(),
            more => format!(" They are too few for {more} of the codes."),
        }
    ));
    let disks = Disks::open(files)?;
    let of = run.iter().map(|(p, rival)| rival.code(*p).columns() as u64 + 1).sum();
    let mut done = 0;
    for (p, rival) in run {
        let code = rival.code(p);
        let case = format!("{} p={p} disks", rival.name());
        let states: [Vec<Option<usize>>; 2] = [vec![None], (0..code.columns()).map(Some).collect()];
        for (name, states) in ["healthy", "one disk lost"].into_iter().zip(states) {
            let mut sum = Ran::default();
            for lost in states {
                let ran = state(&disks, &code, lost, options)?;
                (sum.elements, sum.seconds) = (sum.elements + ran.elements, sum.seconds + ran.seconds);
                done += 1;
                progress(done, of);
            }
            let speed = (sum.elements * options.element_bytes) as f64 / 1e6 / sum.seconds;
            report.measured(&case, format!("{name}, MB/s"), speed, None).note = Some("of these disks".into());
        }
    }
    Ok(())
}
