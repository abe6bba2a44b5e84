//! `pantile bench`: measures the speed of codes on this machine.

use crate::args;
use crate::failure::{Failure, Outcome, Verdict};
use crate::interrupt;
use crate::json::rounded;
use crate::render::table::Table;
use crate::terminal::{Terminal, print, print_json};
use clap::Args;
use pantile::{
    Arena, CellIndex, CellSet, Code, Codec, Costs, PacketCodec, Plan, Stores, Tier, split_columns,
};
use pantile_kernel::measure::{LimitOrder, XorLimit, thread_cpu_ns};
use serde::Serialize;

/// Measure how fast codes encode, decode and update here
///
/// Answers: how fast is this code on my processor, and how close is that to the limit? Each line is
/// one operation on stripes in one layout; its limit is an XOR kernel of the same run that reads
/// and writes exactly the same bytes in the same place.
#[derive(Args)]
#[command(after_long_help = "\
Columns:
  chunk      bytes of one column of one stripe, rounded down to whole rows of 64 bytes, or of a packet
  op         encode: all parities from the data; decode: the lost columns from the others; update: one data element
  layout     aligned: every column starts a page, as buffers of O_DIRECT do; staggered: as Pantile lays out its own
  GB/s       10^9 bytes of user data per second: the stripe's data; for an update the new element
  limit      the same, if nothing were computed; share is GB/s divided by it

Times are CPU times of this thread, medians of nine turns; the stripe stays in the caches unless it is larger than 2 MiB, \
then stripes of 256 MiB take turns. With --cold they do in any case, and what is encoded and decoded goes past the caches: so it is with \
data that was just received and parity that is sent on. With --packet the elements of a column are interleaved, a packet of each in turn; the limit is then \
also taken of whole columns, as many as are read and written. PANTILE_KERNEL=portable|neon|avx2|avx2-gfni|avx512-gfni forces a kernel.

Examples:
  pantile bench raid6:16 cauchy:16+4 dcode:13
  pantile bench rs:10+4 --chunk 1M --lost 0,5
  pantile bench rs:10+4 --cold
  pantile bench dcode:13 --packet 512
  pantile bench dcode:7 --json | jq '.[].limit_share'")]
pub struct Bench {
    /// The codes: specs such as dcode:7, or paths of code files.
    #[arg(required = true, num_args = 1..)]
    codes: Vec<String>,
    #[command(flatten)]
    reading: args::Reading,
    /// Bytes of one column of one stripe.
    #[arg(long, value_name = "SIZE", default_value = "64K", value_parser = args::size)]
    chunk: u64,
    /// Lost columns and cells for decoding; by default as many columns as the code tolerates.
    #[arg(long, value_name = "LOST")]
    lost: Option<String>,
    /// Read stripes of any size from memory, and write past the caches.
    #[arg(long)]
    cold: bool,
    /// Interleave the elements of a column, by packets of this many bytes.
    #[arg(long, value_name = "SIZE", value_parser = args::size)]
    packet: Option<u64>,
    /// Print JSON: a list of {"code", "chunk_len_bytes", "op", "layout", "kernel", "bytes_per_s",
    /// "xor_limit_bytes_per_s", "limit_share"}, with "packet_len_bytes" if there are packets.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Line {
    code: String,
    chunk_len_bytes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    packet_len_bytes: Option<usize>,
    op: &'static str,
    layout: &'static str,
    kernel: &'static str,
    bytes_per_s: f64,
    xor_limit_bytes_per_s: f64,
    limit_share: f64,
}

/// Length of a cache line: the shortest element, and the unit of an element's length.
const LINE_BYTES: usize = 64;

/// A stripe above this size does not stay in a second-level cache.
const WARM_BYTES: usize = 2 << 20;

/// Memory that the stripes of cold runs fill together, unless one alone is larger.
const COLD_BYTES: usize = 256 << 20;

/// Largest stripe: a measurement takes no more memory.
const STRIPE_BYTES_MOST: usize = 1 << 30;

/// Number of turns, and the shortest duration of one.
const TURNS: usize = 9;
const TURN_NS: u64 = 2_000_000;

impl Bench {
    pub fn run(self, terminal: &Terminal) -> Outcome {
        let mut lines = Vec::new();
        for text in &self.codes {
            let code = args::code(text, self.reading)?;
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

/// A code and its settings for the measurement.
struct Subject {
    codec: Codec,
    /// The codec of interleaved elements, if they are interleaved.
    packets: Option<PacketCodec>,
    /// Stores of the codec; with [`Stores::Streaming`] stripes also come from memory.
    stores: Stores,
    element_len: usize,
    lost: CellSet,
}

impl Subject {
    fn new(code: &Code, bench: &Bench) -> Result<Subject, Failure> {
        let rows = code.rows_max();
        let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let (chunk, unit) = (size(bench.chunk), bench.packet.map_or(LINE_BYTES, size));
        let line = rows.saturating_mul(unit);
        let element_len = chunk.checked_div(line).unwrap_or(0) * unit;
        if unit > 0 && element_len == 0 {
            return Err(Failure::Input(format!(
                "--chunk: a column of {code} has {rows} rows of at least {unit} bytes; give {line} bytes or more, \
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
        let codec = Codec::new(code).with_stores(stores);
        let packets = match bench.packet {
            Some(_) => {
                Some(codec.in_packets(unit).map_err(|error| Failure::Input(format!("--packet: {error}")))?)
            }
            None => None,
        };
        let subject = Subject { codec, packets, stores, element_len, lost };
        match subject.recovery() {
            Ok(_) => Ok(subject),
            Err(error) => Err(Failure::Losses(error.to_string())),
        }
    }

    fn code(&self) -> &Code {
        self.codec.code()
    }

    /// Returns the recovery of a caller's decode: whole columns by the decoder, single cells by the
    /// cheapest plan.
    fn recovery(&self) -> Result<std::sync::Arc<pantile::Recovery>, pantile::PlanError> {
        match self.lost_columns() {
            Some(columns) => self.codec.decoder(&columns),
            None => self.codec.recovery(&self.lost, &self.wanted(), &Costs::uniform()),
        }
    }

    /// Returns the lost columns; `None` if single cells are lost.
    fn lost_columns(&self) -> Option<Vec<usize>> {
        let columns = self.lost.columns(self.code());
        (CellSet::of_columns(self.code(), &columns) == self.lost).then_some(columns)
    }

    fn wanted(&self) -> Vec<CellIndex> {
        self.lost.iter().collect()
    }

    /// Measures one operation in one layout; `None` if the code does not have it. Turns alternate
    /// with those of every order of the limit.
    fn measure(&self, op: &'static str, stripes: &mut Stripes) -> Option<Line> {
        let code = self.code();
        let data_len = code.data().len() * self.element_len;
        let recovery = self.recovery().ok()?;
        let (bytes, limits) = match op {
            "encode" => (data_len, self.limits(self.codec.encode_plan())?),
            "decode" => (data_len, self.limits(recovery.plan())?),
            _ => (self.element_len, vec![self.update_limit()?]),
        };
        let limits: Vec<(LimitOrder, &Limit)> = limits
            .iter()
            .flat_map(|limit| {
                limit.xor.orders(limit.len, self.stores).into_iter().map(move |order| (order, limit))
            })
            .collect();
        let new = vec![0x5a; self.element_len];
        let in_packets = match &self.packets {
            Some(codec) => Some((codec, self.recovery_in_packets(codec).ok()?)),
            None => None,
        };
        match &in_packets {
            Some((_, recovery)) => recovery.prepare(),
            None => recovery.prepare(),
        }
        let mut times = vec![Vec::new(); limits.len() + 1];
        let mut position = 0;
        let mut call = |contestant: usize, stripe: &mut [&mut [u8]]| {
            if contestant > 0 {
                let (order, limit) = limits[contestant - 1];
                let done = limit.xor.run(order, stripe);
                return done.unwrap_or_else(|error| unreachable!("the limit is for these buffers: {error}"));
            }
            position = (position + 1) % code.data().len();
            let done = match (&in_packets, op) {
                (None, "encode") => self.codec.encode(stripe),
                (None, "decode") => recovery.run(stripe),
                (None, _) => self.codec.update(stripe, position, &new),
                (Some((codec, _)), "encode") => codec.encode(stripe),
                (Some((_, recovery)), "decode") => recovery.run(stripe),
                (Some((codec, _)), _) => codec.update(stripe, position, &new),
            };
            done.unwrap_or_else(|error| unreachable!("the stripes are those of the code: {error}"));
        };
        let cuts = |contestant: usize| match contestant {
            0 => self.packets.is_none(),
            _ => limits[contestant - 1].1.of_cells,
        };
        for turn in 0..TURNS + 1 {
            for (contestant, times) in times.iter_mut().enumerate() {
                let per_call = stripes.turn(self, cuts(contestant), |stripe| call(contestant, stripe));
                // The first turn compiles programs and touches memory, so it is not counted.
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
            packet_len_bytes: self.packets.as_ref().map(PacketCodec::packet_bytes),
            op,
            layout: stripes.layout,
            kernel: Tier::best().name(),
            bytes_per_s: rate(medians[0]).round(),
            xor_limit_bytes_per_s: rate(best).round(),
            limit_share: rounded(best / medians[0]),
        })
    }

    /// Returns the recovery for interleaved elements.
    fn recovery_in_packets(
        &self,
        codec: &PacketCodec,
    ) -> Result<std::sync::Arc<pantile::PacketRecovery>, pantile::PlanError> {
        match self.lost_columns() {
            Some(columns) => codec.decoder(&columns),
            None => codec.recovery(&self.lost, &self.wanted(), &Costs::uniform()),
        }
    }

    /// Returns the limits of a plan: its reads and writes, each cell in one piece. With packets
    /// also the same number of whole columns, since cells in one piece are more streams than
    /// packets.
    fn limits(&self, plan: &Plan) -> Option<Vec<Limit>> {
        let code = self.code();
        let reads: Vec<usize> = plan.reads.iter().map(|cell| cell.usize()).collect();
        let writes: Vec<usize> = plan.steps.iter().map(|step| step.target.usize()).collect();
        if writes.is_empty() {
            return None;
        }
        let mut limits = vec![self.limit_of_cells(XorLimit::new(code.cell_count(), &reads, &writes))];
        let rows = code.rows_max();
        let is_even = (0..code.columns()).all(|column| code.rows(column) == rows);
        if self.packets.is_some()
            && is_even
            && let Some(xor) = XorLimit::of_columns(code.columns(), rows, reads.len(), writes.len())
        {
            limits.push(Limit { xor, len: rows * self.element_len, of_cells: false });
        }
        Some(limits)
    }

    fn limit_of_cells(&self, xor: XorLimit) -> Limit {
        Limit { xor, len: self.element_len, of_cells: true }
    }

    /// Returns the limit of an update of the first data element. An untouched cell stands for the
    /// new content.
    fn update_limit(&self) -> Option<Limit> {
        let code = self.code();
        let changed = code.data()[0];
        let generator = code.generator();
        let mut touched: Vec<usize> = (0..code.parity().len())
            .filter(|&row| !generator.get(row, 0).is_zero())
            .map(|row| code.parity()[row].usize())
            .collect();
        touched.push(changed.usize());
        let other = code.cells().map(|cell| cell.usize()).find(|cell| !touched.contains(cell))?;
        Some(self.limit_of_cells(XorLimit::adding(code.cell_count(), &[other], &touched)))
    }
}

/// A limit, and the length of its buffers.
struct Limit {
    xor: XorLimit,
    /// Length of a buffer in bytes.
    len: usize,
    /// True if the buffers are cells in one piece; else columns.
    of_cells: bool,
}

/// The stripes of a layout, one after another in memory.
struct Stripes {
    layout: &'static str,
    memory: Memory,
    count: usize,
    next: usize,
}

enum Memory {
    /// Columns that start at pages: the buffer, the offset of its first page, and the distance of
    /// columns.
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

    /// Calls `call` on one stripe after the other for a turn, with columns or with cells. Returns
    /// nanoseconds per call; cutting columns into cells is not counted.
    fn turn(&mut self, subject: &Subject, cuts: bool, mut call: impl FnMut(&mut [&mut [u8]])) -> f64 {
        let (mut spent, mut calls) = (0, 0u64);
        // A short call is repeated, so that the time of reading the clock does not matter.
        let often = if self.count > 1 { 1 } else { 1 + 20_000 / subject.element_len };
        while spent < TURN_NS {
            let mut columns = self.columns(subject);
            let mut buffers = match cuts {
                true => match split_columns(subject.code(), &mut columns, subject.element_len) {
                    Ok(cells) => cells,
                    Err(error) => unreachable!("columns were cut to their rows: {error}"),
                },
                false => columns,
            };
            let before = thread_cpu_ns();
            (0..often).for_each(|_| call(&mut buffers));
            spent += thread_cpu_ns() - before;
            calls += often as u64;
            self.next = (self.next + 1) % self.count;
        }
        spent as f64 / calls as f64
    }

    /// Returns the columns of the next stripe, each with the length of its rows.
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
