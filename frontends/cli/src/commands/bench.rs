//! `pantile bench`: how fast codes are here.

use crate::args;
use crate::failure::{Failure, Outcome, Verdict};
use crate::interrupt;
use crate::json::rounded;
use crate::render::table::Table;
use crate::terminal::{Terminal, print, print_json};
use clap::Args;
use pantile::kernel::measure::{XorLimit, thread_cpu_ns};
use pantile::kernel::{Arena, Tier};
use pantile::{CellSet, Code, Codec, Costs, Plan, Stores, split_columns};
use serde::Serialize;

/// Measure how fast codes encode, decode and update on one core of this machine
///
/// Answers: what will my processor do with this code, and how far is that from what it could do? Each line is one
/// operation on stripes in one layout; its limit is an XOR kernel of the same run that reads and writes exactly the same
/// bytes in the same place.
#[derive(Args)]
#[command(after_long_help = "\
Columns:
  chunk      bytes of one column of one stripe, rounded down to whole rows of 64 bytes
  op         encode: all parities from the data; decode: the lost columns from the others; update: one data element
  layout     aligned: every column starts a page, as buffers of O_DIRECT do; staggered: as Pantile lays out its own
  GB/s       10^9 bytes of user data per second: the stripe's data; for an update the new element
  limit      the same, if nothing were computed; share is GB/s divided by it

Times are CPU times of this thread, medians of nine turns; the stripe stays in the caches unless it is larger than 2 MiB, \
then stripes of 256 MiB take turns. With --cold they do in any case, and what is encoded and decoded goes past the caches: so it is with \
data that was just received and parity that is sent on. PANTILE_KERNEL=portable|avx2|avx2-gfni|avx512-gfni forces a kernel.

Examples:
  pantile bench raid6:16 cauchy:16+4 dcode:13
  pantile bench rs:10+4 --chunk 1M --lost 0,5
  pantile bench rs:10+4 --cold
  pantile bench dcode:7 --json | jq '.[].limit_share'")]
pub struct Bench {
    /// The codes: specs such as dcode:7, or paths of code files.
    #[arg(required = true, num_args = 1..)]
    codes: Vec<String>,
    /// Bytes of one column of one stripe.
    #[arg(long, value_name = "SIZE", default_value = "64K", value_parser = args::size)]
    chunk: u64,
    /// Columns and cells that are lost when decoding; by default as many columns as the code bears.
    #[arg(long, value_name = "LOST")]
    lost: Option<String>,
    /// Stripes come from memory, however small, and what is encoded and decoded goes past the caches.
    #[arg(long)]
    cold: bool,
    /// Print JSON: a list of {"code", "chunk_len_bytes", "op", "layout", "kernel", "bytes_per_s", "xor_limit_bytes_per_s",
    /// "limit_share"}.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Line {
    code: String,
    chunk_len_bytes: usize,
    op: &'static str,
    layout: &'static str,
    kernel: &'static str,
    bytes_per_s: f64,
    xor_limit_bytes_per_s: f64,
    limit_share: f64,
}

/// The least bytes of an element, and what its length is a multiple of: a cache line.
const LINE_BYTES: usize = 64;

/// A stripe above it does not stay in a second-level cache.
const WARM_BYTES: usize = 2 << 20;

/// What the stripes that take turns fill together, unless one alone is larger.
const COLD_BYTES: usize = 256 << 20;

/// The largest stripe: more memory is not taken for a measurement.
const STRIPE_BYTES_MOST: usize = 1 << 30;

/// Turns, and the least duration of one.
const TURNS: usize = 9;
const TURN_NS: u64 = 2_000_000;

impl Bench {
    pub fn run(self, terminal: &Terminal) -> Outcome {
        let mut lines = Vec::new();
        for text in &self.codes {
            let code = args::code(text)?;
            let subject = Subject::new(&code, &self)?;
            for staggered in [false, true] {
                let mut stripes = Stripes::new(&subject, staggered);
                for op in ["encode", "decode", "update"] {
                    if interrupt::asked() {
                        return Ok(Verdict::Interrupted);
                    }
                    lines.extend(subject.measure(op, &mut stripes));
                }
            }
        }
        if self.json {
            print_json(&lines)?;
            return Ok(Verdict::Good);
        }
        let mut table =
            Table::new(&["code", ">chunk", "op", "layout", "kernel", ">GB/s", ">limit", ">share"]);
        for line in lines {
            table.row(vec![
                line.code,
                line.chunk_len_bytes.to_string(),
                line.op.into(),
                line.layout.into(),
                line.kernel.into(),
                format!("{:.1}", line.bytes_per_s / 1e9),
                format!("{:.1}", line.xor_limit_bytes_per_s / 1e9),
                format!("{:.2}", line.limit_share),
            ]);
        }
        print(&table.render(terminal))?;
        Ok(Verdict::Good)
    }
}

/// A code with what is measured of it.
struct Subject {
    codec: Codec,
    /// How its codec stores; [`Stores::Streaming`]: stripes come from memory, too.
    stores: Stores,
    element_len: usize,
    lost: CellSet,
}

impl Subject {
    fn new(code: &Code, bench: &Bench) -> Result<Subject, Failure> {
        let rows = code.rows_max();
        let line = rows * LINE_BYTES;
        let chunk = usize::try_from(bench.chunk).unwrap_or(usize::MAX);
        let element_len = chunk / line * LINE_BYTES;
        if element_len == 0 {
            return Err(Failure::Input(format!(
                "--chunk: a column of {code} has {rows} rows of at least {LINE_BYTES} bytes; give {line} bytes or more, \
                 not {chunk}"
            )));
        }
        if element_len.saturating_mul(code.cell_count()) > STRIPE_BYTES_MOST {
            return Err(Failure::Input(format!(
                "--chunk: a stripe of {code} with chunks of {chunk} bytes is larger than 1 GiB; give at most {} bytes",
                STRIPE_BYTES_MOST / code.cell_count() * rows
            )));
        }
        let lost = match &bench.lost {
            Some(text) => args::cells("--lost", text, code)?.set(code),
            None => CellSet::of_columns(code, &(0..code.claim().tolerance).collect::<Vec<_>>()),
        };
        let stores = if bench.cold { Stores::Streaming } else { Stores::Auto };
        let subject = Subject { codec: Codec::new(code).with_stores(stores), stores, element_len, lost };
        match subject.recovery() {
            Ok(_) => Ok(subject),
            Err(error) => Err(Failure::Losses(error.to_string())),
        }
    }

    fn code(&self) -> &Code {
        self.codec.code()
    }

    /// As a caller would decode: whole columns by the decoder, single cells by the cheapest recovery.
    fn recovery(&self) -> Result<std::sync::Arc<pantile::Recovery>, pantile::PlanError> {
        let columns = self.lost.columns(self.code());
        if CellSet::of_columns(self.code(), &columns) == self.lost {
            return self.codec.decoder(&columns);
        }
        let wanted: Vec<_> = self.lost.iter().collect();
        self.codec.recovery(&self.lost, &wanted, &Costs::uniform())
    }

    /// One operation in one layout; nothing if the code has none such. Turns are taken with every order of the limit.
    fn measure(&self, op: &'static str, stripes: &mut Stripes) -> Option<Line> {
        let code = self.code();
        let data_len = code.data().len() * self.element_len;
        let cells = code.cell_count();
        let of = |plan: &Plan| {
            let reads: Vec<usize> = plan.reads.iter().map(|cell| cell.usize()).collect();
            let writes: Vec<usize> = plan.steps.iter().map(|step| step.target.usize()).collect();
            (!writes.is_empty()).then(|| XorLimit::new(cells, &reads, &writes))
        };
        let (bytes, limit) = match op {
            "encode" => (data_len, of(self.codec.encode_plan())?),
            "decode" => (data_len, of(self.recovery().ok()?.plan())?),
            _ => (self.element_len, self.update_limit()?),
        };
        let orders = limit.orders(self.element_len, self.stores);
        let new = vec![0x5a; self.element_len];
        let recovery = self.recovery().ok()?;
        recovery.prepare();
        let mut times = vec![Vec::new(); orders.len() + 1];
        let mut position = 0;
        let mut call = |contestant: usize, stripe: &mut [&mut [u8]]| {
            if contestant > 0 {
                let done = limit.run(orders[contestant - 1], stripe);
                return done.unwrap_or_else(|error| unreachable!("the limit is for these buffers: {error}"));
            }
            let done = match op {
                "encode" => self.codec.encode(stripe),
                "decode" => recovery.run(stripe),
                _ => {
                    position = (position + 1) % code.data().len();
                    self.codec.update(stripe, position, &new)
                }
            };
            done.unwrap_or_else(|error| unreachable!("the stripes are those of the code: {error}"));
        };
        for turn in 0..TURNS + 1 {
            for (contestant, times) in times.iter_mut().enumerate() {
                let per_call = stripes.turn(self, |stripe| call(contestant, stripe));
                // The first turn makes programs and touches memory.
                if turn > 0 {
                    times.push(per_call);
                }
            }
        }
        let medians: Vec<f64> = times
            .into_iter()
            .map(|mut times| {
                times.sort_by(f64::total_cmp);
                times[times.len() / 2]
            })
            .collect();
        let rate = |ns: f64| bytes as f64 / ns * 1e9;
        let best = medians[1..].iter().copied().fold(f64::INFINITY, f64::min);
        Some(Line {
            code: code.spec().to_string(),
            chunk_len_bytes: self.element_len * code.rows_max(),
            op,
            layout: stripes.layout,
            kernel: Tier::best().name(),
            bytes_per_s: rate(medians[0]).round(),
            xor_limit_bytes_per_s: rate(best).round(),
            limit_share: rounded(best / medians[0]),
        })
    }

    /// What an update of the first data element reads and writes: the new content stands in for a cell that it leaves alone.
    fn update_limit(&self) -> Option<XorLimit> {
        let code = self.code();
        let changed = code.data()[0];
        let generator = code.generator();
        let mut touched: Vec<usize> = (0..code.parity().len())
            .filter(|&row| !generator.get(row, 0).is_zero())
            .map(|row| code.parity()[row].usize())
            .collect();
        touched.push(changed.usize());
        let other = code.cells().map(|cell| cell.usize()).find(|cell| !touched.contains(cell))?;
        Some(XorLimit::adding(code.cell_count(), &[other], &touched))
    }
}

/// The stripes of a layout, one after another in memory.
struct Stripes {
    layout: &'static str,
    memory: Memory,
    count: usize,
    next: usize,
}

enum Memory {
    /// Columns start pages: the buffer, where the first page of it starts, and from column to column.
    Aligned { bytes: Vec<u8>, start: usize, pitch: usize },
    /// One arena per stripe.
    Staggered(Vec<Arena>),
}

impl Stripes {
    fn new(subject: &Subject, staggered: bool) -> Stripes {
        const PAGE_BYTES: usize = 4096;
        let code = subject.code();
        let chunk = subject.element_len * code.rows_max();
        let pitch = chunk.next_multiple_of(PAGE_BYTES);
        let stripe = pitch * code.columns();
        let is_cold = stripe > WARM_BYTES || subject.stores == Stores::Streaming;
        let count = if is_cold { (COLD_BYTES / stripe).max(1) } else { 1 };
        let memory = if staggered {
            Memory::Staggered((0..count).map(|_| Arena::new(code.columns(), chunk)).collect())
        } else {
            let mut bytes = vec![0; count * stripe + PAGE_BYTES];
            bytes.iter_mut().enumerate().for_each(|(i, byte)| *byte = (i % 251) as u8);
            let start = bytes.as_ptr().align_offset(PAGE_BYTES);
            Memory::Aligned { bytes, start, pitch }
        };
        Stripes { layout: if staggered { "staggered" } else { "aligned" }, memory, count, next: 0 }
    }

    /// Calls on stripe after stripe for a turn; nanoseconds per call. Cutting the stripes into cells is not counted.
    fn turn(&mut self, subject: &Subject, mut call: impl FnMut(&mut [&mut [u8]])) -> f64 {
        let (mut spent, mut calls) = (0, 0u64);
        // A short call is made often, so that the clock does not count.
        let often = if self.count > 1 { 1 } else { 1 + 20_000 / subject.element_len };
        while spent < TURN_NS {
            let mut columns = self.columns(subject);
            let Ok(mut cells) = split_columns(subject.code(), &mut columns, subject.element_len) else {
                unreachable!("columns were cut to their rows")
            };
            let before = thread_cpu_ns();
            (0..often).for_each(|_| call(&mut cells));
            spent += thread_cpu_ns() - before;
            calls += often as u64;
            self.next = (self.next + 1) % self.count;
        }
        spent as f64 / calls as f64
    }

    /// The columns of the next stripe, each as long as its rows.
    fn columns(&mut self, subject: &Subject) -> Vec<&mut [u8]> {
        let code = subject.code();
        let len = |column: usize| code.rows(column) * subject.element_len;
        let columns: Vec<&mut [u8]> = match &mut self.memory {
            Memory::Staggered(arenas) => arenas[self.next].all_mut(),
            Memory::Aligned { bytes, start, pitch } => {
                let first = *start + self.next * *pitch * code.columns();
                bytes[first..].chunks_mut(*pitch).take(code.columns()).collect()
            }
        };
        columns.into_iter().enumerate().map(|(column, buffer)| &mut buffer[..len(column)]).collect()
    }
}
