//! Sections IV and V of the D-Code paper on real disks. The reads of the engine are done on files
//! or block devices, all reads of a request at once. The writes are done too, if allowed
//! ([`dcode_writes`](super::dcode_writes)).
//!
//! Disks are only read unless writing is requested: they hold no volume, and their content does
//! not matter. The engine decides which elements a request needs, healthy or with a disk lost.
//! Each request is moved to a random place, equal on all disks, as if the volume were as large as
//! they are. Computing lost elements is not timed.

use super::array::Array;
use super::dcode_engine::{NAME, Options};
use super::dcode_writes::{self, Layout, Written};
use super::executed::{ExecuteError, STRIPES};
use super::rivals::Rival;
use crate::Report;
use pantile::Code;
use pantile_device::{
    Access, AlignedBuf, Device, FileDevice, IoPool, Mode, Op, OpenOptions, PoolOptions, Priority, Request,
    Segment,
};
use pantile_host::{open_scratch, wipe};
use pantile_sim::{IoKind, Random};
use pantile_volume::{DeviceBlock, Slot};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Interval of waiting.
const A_WHILE: Duration = Duration::from_secs(60);

/// Permitted use of disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Reads only.
    Read,
    /// Reads and writes, which destroy the content.
    Write {
        /// True if the content can be anything; otherwise the disks must be blank.
        overwrite: bool,
    },
}

/// The disks, in one pool, and the codes that have enough of them.
pub struct Disks {
    pool: IoPool,
    devices: Vec<Arc<FileDevice>>,
    /// Number of each disk in the pool.
    numbers: Vec<usize>,
    of: Use,
    codes: Vec<(usize, Rival)>,
    /// Number of codes that need more disks.
    left_out: usize,
}

/// An operation on a disk.
pub(super) enum Deed {
    /// Reads: first byte, and length.
    Read(u64, u64),
    /// Writes: first byte, and content.
    Write(u64, Segment),
    Flush,
}

impl Disks {
    /// Opens files or block devices for the codes that have enough of them. Disks to be written
    /// are locked, and nothing is written yet.
    ///
    /// Errors: a disk cannot be opened, is too short, or cannot be written; there are fewer than
    /// the columns of the narrowest code.
    pub fn open(files: &[PathBuf], options: &Options, of: Use) -> Result<Disks, ExecuteError> {
        let all: Vec<(usize, Rival)> =
            options.primes.iter().flat_map(|&p| Rival::ALL.map(|rival| (p, rival))).collect();
        let fits = |&(p, rival): &(usize, Rival)| rival.code(p).columns() <= files.len();
        let (codes, left_out): (Vec<_>, Vec<_>) = all.into_iter().partition(fits);
        if codes.is_empty() {
            let need = left_out.iter().map(|(p, rival)| rival.code(*p).columns()).min().unwrap_or(0);
            return Err(ExecuteError::Few { have: files.len(), need });
        }
        let devices = match of {
            Use::Read => {
                let options = OpenOptions { access: Access::ReadOnly, ..OpenOptions::default() };
                files.iter().map(|file| FileDevice::open_with(file, options)).collect::<Result<_, _>>()?
            }
            Use::Write { overwrite } => open_scratch(files, overwrite)?,
        };
        let devices: Vec<Arc<FileDevice>> = devices.into_iter().map(Arc::new).collect();
        let pool = IoPool::new(PoolOptions::default());
        let attach = |device: &Arc<FileDevice>| pool.attach(Arc::clone(device) as Arc<dyn Device>);
        let numbers = devices.iter().map(attach).collect::<Result<_, _>>()?;
        let disks = Disks { pool, devices, numbers, of, codes, left_out: left_out.len() };
        disks.codes.iter().try_for_each(|(p, rival)| disks.check(&rival.code(*p), options.element_bytes))?;
        Ok(disks)
    }

    /// Returns the disks of an array of the code.
    fn of_code(&self, code: &Code) -> &[Arc<FileDevice>] {
        &self.devices[..code.columns()]
    }

    /// Returns the unit of reads and writes.
    pub(super) fn block_bytes(&self, code: &Code) -> u64 {
        self.of_code(code).iter().map(|device| u64::from(device.block_len_bytes())).max().unwrap_or(1)
    }

    /// Returns the length of the shortest disk.
    pub(super) fn len_bytes(&self, code: &Code) -> u64 {
        self.of_code(code).iter().map(|device| device.len_bytes()).min().unwrap_or(0)
    }

    /// Returns the bytes that stripes need on a disk that is only read.
    fn need_bytes(code: &Code, element_bytes: u64) -> u64 {
        u64::from(STRIPES) * code.rows_max() as u64 * element_bytes
    }

    /// Refuses disks that are too short for the stripes of a code, or whose blocks do not divide
    /// an element.
    fn check(&self, code: &Code, element_bytes: u64) -> Result<(), ExecuteError> {
        let need = match self.of {
            Use::Read => Disks::need_bytes(code, element_bytes),
            Use::Write { .. } => Layout::new(code, element_bytes, self.block_bytes(code)).need_bytes(),
        };
        for device in self.of_code(code) {
            let block = u64::from(device.block_len_bytes());
            let name = || device.path().display().to_string();
            if !element_bytes.is_multiple_of(block) {
                return Err(ExecuteError::Blocks { device: name(), block, element: element_bytes });
            }
            if device.len_bytes() < need {
                return Err(ExecuteError::Short { device: name(), have: device.len_bytes(), need });
            }
        }
        Ok(())
    }

    /// Runs all operations at once, and returns the time that they took.
    pub(super) fn carry_out(&self, deeds: Vec<(Slot, Deed)>) -> Result<Duration, ExecuteError> {
        let many = deeds.len();
        let request = |(token, (slot, deed)): (u64, (Slot, Deed))| Request {
            token,
            device: self.numbers[slot.0 as usize],
            priority: Priority::User,
            op: match deed {
                Deed::Read(offset_bytes, len) => Op::Read {
                    offset_bytes,
                    buffer: AlignedBuf::zeroed(len as usize),
                    range: 0..len as usize,
                },
                Deed::Write(offset_bytes, bytes) => Op::Write { offset_bytes, parts: vec![bytes] },
                Deed::Flush => Op::Flush,
            },
        };
        let requests: Vec<Request> = (0..).zip(deeds).map(request).collect();
        let begun = Instant::now();
        for request in requests {
            if self.pool.submit(request).is_err() {
                unreachable!("a request has fewer operations than a pool takes for each device");
            }
        }
        let mut done = Vec::new();
        while done.len() < many {
            self.pool.wait(&mut done, Instant::now() + A_WHILE);
        }
        let took = begun.elapsed();
        done.into_iter().try_for_each(|completion| completion.result)?;
        Ok(took)
    }
}

/// Number of elements, and the seconds that they took.
#[derive(Clone, Copy, Default)]
struct Ran {
    elements: u64,
    seconds: f64,
}

fn state(disks: &Disks, code: &Code, lost: Option<usize>, options: &Options) -> Result<Ran, ExecuteError> {
    let element_bytes = options.element_bytes;
    let need = Disks::need_bytes(code, element_bytes);
    let room = disks.len_bytes(code).saturating_sub(need) / element_bytes;
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
        let deeds: Vec<(Slot, Deed)> = reads
            .filter_map(|op| {
                let (stripe, row) = array.element(op.slot, DeviceBlock(op.at.0))?;
                let place = base + u64::from(stripe) * rows + u64::from(row);
                Some((op.slot, Deed::Read(place * element_bytes, op.blocks * element_bytes)))
            })
            .collect();
        ran.seconds += disks.carry_out(deeds)?.as_secs_f64();
        ran.elements += u64::from(count);
    }
    Ok(ran)
}

/// Reads disks as volumes of every code that has enough of them, writes them if allowed, and adds
/// the times.
///
/// `progress` receives the work done and the work in all.
///
/// Errors: a disk cannot be read or written.
pub fn add(
    report: &mut Report,
    options: &Options,
    disks: &Disks,
    progress: &dyn Fn(u64, u64),
) -> Result<(), ExecuteError> {
    debug_assert_eq!(report.experiment, NAME);
    if disks.of == (Use::Write { overwrite: true }) {
        // Clears remains that could pass for a volume or a file system.
        disks.devices.iter().try_for_each(|device| wipe(device))?;
    }
    let writes = disks.of != Use::Read;
    let of = disks
        .codes
        .iter()
        .map(|(p, rival)| rival.code(*p).columns() + 1 + usize::from(writes))
        .sum::<usize>();
    let (mut done, mut all) = (0, Written::default());
    let mut is_done = || {
        done += 1;
        progress(done, of as u64);
    };
    for &(p, rival) in &disks.codes {
        let code = rival.code(p);
        let case = format!("{} p={p} disks", rival.name());
        let mb = |elements: u64| (elements * options.element_bytes) as f64 / 1e6;
        let states: [Vec<Option<usize>>; 2] = [vec![None], (0..code.columns()).map(Some).collect()];
        for (name, states) in ["healthy", "one disk lost"].into_iter().zip(states) {
            let mut sum = Ran::default();
            for lost in states {
                let ran = state(disks, &code, lost, options)?;
                (sum.elements, sum.seconds) = (sum.elements + ran.elements, sum.seconds + ran.seconds);
                is_done();
            }
            let speed = mb(sum.elements) / sum.seconds;
            report.measured(&case, format!("{name}, MB/s"), speed, None).note = Some("of these disks".into());
        }
        if writes {
            let ran = dcode_writes::run(disks, &code, options)?;
            is_done();
            report.measured(&case, "durable writes, MB/s", mb(ran.elements) / ran.seconds, None).note =
                Some("of these disks, which were written".into());
            let accesses = ran.accesses as f64 / ran.requests as f64;
            report.measured(&case, "elements per durable write", accesses, None).note =
                Some("read before, and written".into());
            all += ran;
        }
    }
    report.say(said(disks, &all));
    Ok(())
}

/// Returns the work done on disks, in words.
fn said(disks: &Disks, written: &Written) -> String {
    let many = disks.devices.len();
    let mut text = match disks.of {
        Use::Read => format!("Disks: {many} were read, and nothing was written to them."),
        Use::Write { .. } => format!(
            "Disks: {many} were read and written: {} durable writes of section IV, which are {} pieces of {:.1} MB together and {} flushes; they now hold noise.",
            written.requests,
            written.pieces,
            written.bytes as f64 / 1e6,
            written.flushes
        ),
    };
    text.push_str(
        " All reads of a request are done at once, at a random place of the disks; computing lost elements is not timed.",
    );
    if disks.of != Use::Read {
        text.push_str(
            " A write reads the old elements, writes elements and headers of chunks, and flushes every disk, as the engine does. Computing is not timed, and \
             records that mark stripes are left out. Areas that were never written are read too; a disk can answer such reads without an access.",
        );
    }
    let cached = disks.devices.iter().filter(|device| device.mode() == Mode::Buffered).count();
    if cached > 0 {
        text.push_str(&format!(" Reads of {cached} of them go through the page cache of the system."));
    }
    if disks.left_out > 0 {
        text.push_str(&format!(" They are too few for {} of the codes.", disks.left_out));
    }
    text
}
