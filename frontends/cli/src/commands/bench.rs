//! `pantile bench`: how fast codes are here.

use crate::args;
use crate::failure::{Failure, Outcome, Verdict};
use crate::interrupt;
use crate::json::rounded;
use crate::render::table::Table;
use crate::terminal::{Terminal, print, print_json};
use clap::Args;
use pantile::kernel::measure::{LimitOrder, XorLimit, thread_cpu_ns};
use pantile::kernel::{Arena, PacketProgram, Tier};
use pantile::{
    CellIndex, CellSet, Code, Codec, Costs, PacketCodec, Plan, PlanError, Recovery, Stores, StripeError,
    WordCodec, WordProgram, split_columns,
};
use serde::Serialize;
use std::sync::Arc;

/// Measure how fast codes encode, decode and update on one core of this machine
///
/// Answers: what will my processor do with this code, and how far is that from what it could do? Each line is one
/// operation on stripes in one layout; its limit is an XOR kernel of the same run that reads and writes exactly the same
/// bytes in the same place.
#[derive(Args)]
#[command(after_long_help = "\
Columns:
  chunk      bytes of one column of one stripe, rounded down to whole rows of 64 bytes, or of a packet
  op         encode: all parities from the data; decode: the lost columns from the others; update: one data element, with --words one data column
  layout     aligned: every column starts a page, as buffers of O_DIRECT do; staggered: as Pantile lays out its own
  GB/s       10^9 bytes of user data per second: the stripe's data; for an update the new element, or column
  limit      the same, if nothing were computed; share is GB/s divided by it

Times are CPU times of this thread, medians of nine turns; the stripe stays in the caches unless it is larger than 2 MiB, \
then stripes of 256 MiB take turns. With --cold they do in any case, and what is encoded and decoded goes past the caches: so it is with \
data that was just received and parity that is sent on. With --packet the elements of a column are interleaved, a packet of each in turn; the limit is then \
also taken of whole columns, as many as are read and written. With --words the elements of a column are the bits of words that fill its bytes, \
for codes of 1, 2 or 4 rows and XORs alone. PANTILE_KERNEL=portable|avx2|avx2-gfni|avx512-gfni forces a kernel.

Examples:
  pantile bench raid6:16 cauchy:16+4 dcode:13
  pantile bench rs:10+4 --chunk 1M --lost 0,5
  pantile bench rs:10+4 --cold
  pantile bench dcode:13 --packet 512
  pantile bench crs:10+4,w=4 --words
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
    /// Columns and cells that are lost when decoding; by default as many columns as the code bears.
    #[arg(long, value_name = "LOST")]
    lost: Option<String>,
    /// Stripes come from memory, however small, and what is encoded and decoded goes past the caches.
    #[arg(long)]
    cold: bool,
    /// Elements of a column are interleaved, by packets of so many bytes.
    #[arg(long, value_name = "SIZE", value_parser = args::size)]
    packet: Option<u64>,
    /// Elements of a column are the bits of words.
    #[arg(long, conflicts_with = "packet")]
    words: bool,
    /// Print JSON: a list of {"code", "chunk_len_bytes", "op", "layout", "kernel", "bytes_per_s", "xor_limit_bytes_per_s",
    /// "limit_share"}, with "packet_len_bytes" if there are packets, and "word_bits" if there are words.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Line {
    code: String,
    chunk_len_bytes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    packet_len_bytes: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    word_bits: Option<usize>,
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

/// How elements lie in columns.
enum Columns {
    /// Each in one piece.
    Cells,
    /// By packets of each in turn.
    Packets(PacketCodec),
    /// As bits of words.
    Words(WordCodec),
}

/// What decodes such columns.
enum Decoder {
    Cells(Arc<Recovery>),
    Packets(Arc<Recovery<PacketProgram>>),
    Words(Arc<Recovery<WordProgram>>),
}

/// A code with what is measured of it.
struct Subject {
    codec: Codec,
    columns: Columns,
    /// How its codec stores; [`Stores::Streaming`]: stripes come from memory, too.
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
        let columns = match (bench.packet, bench.words) {
            (Some(_), _) => {
                let codec = codec.in_packets(unit);
                Columns::Packets(codec.map_err(|error| Failure::Input(format!("--packet: {error}")))?)
            }
            (None, true) => {
                let codec = codec.in_words();
                Columns::Words(codec.map_err(|error| Failure::Input(format!("--words: {error}")))?)
            }
            (None, false) => Columns::Cells,
        };
        let subject = Subject { codec, columns, stores, element_len, lost };
        if matches!(subject.columns, Columns::Words(_)) && subject.lost_columns().is_none() {
            return Err(Failure::Input(
                "--lost: words are lost with their columns; name whole columns, or leave --words out".into(),
            ));
        }
        match subject.recovery() {
            Ok(_) => Ok(subject),
            Err(error) => Err(Failure::Losses(error.to_string())),
        }
    }

    fn code(&self) -> &Code {
        self.codec.code()
    }

    /// As a caller would decode: whole columns by the decoder, single cells by the cheapest recovery.
    fn recovery(&self) -> Result<Arc<Recovery>, PlanError> {
        match self.lost_columns() {
            Some(columns) => self.codec.decoder(&columns),
            None => self.codec.recovery(&self.lost, &self.wanted(), &Costs::uniform()),
        }
    }

    /// What is lost, if it is whole columns.
    fn lost_columns(&self) -> Option<Vec<usize>> {
        let columns = self.lost.columns(self.code());
        (CellSet::of_columns(self.code(), &columns) == self.lost).then_some(columns)
    }

    fn wanted(&self) -> Vec<CellIndex> {
        self.lost.iter().collect()
    }

    /// One operation in one layout; nothing if the code has none such. Turns are taken with every order of the limit.
    fn measure(&self, op: &'static str, stripes: &mut Stripes) -> Option<Line> {
        let code = self.code();
        let data_len = code.data().len() * self.element_len;
        let decoder = self.decoder().ok()?;
        let (bytes, limits) = match op {
            "encode" => (data_len, self.limits(self.codec.encode_plan())?),
            "decode" => (data_len, self.limits(decoder.plan())?),
            _ => (self.changed_len(), vec![self.update_limit()?]),
        };
        let limits: Vec<(LimitOrder, &Limit)> = limits
            .iter()
            .flat_map(|limit| {
                limit.xor.orders(limit.len, self.stores).into_iter().map(move |order| (order, limit))
            })
            .collect();
        let new = vec![0x5a; self.changed_len()];
        decoder.prepare();
        let mut times = vec![Vec::new(); limits.len() + 1];
        let mut position = 0;
        let mut call = |contestant: usize, stripe: &mut [&mut [u8]]| {
            if contestant > 0 {
                let (order, limit) = limits[contestant - 1];
                let done = limit.xor.run(order, stripe);
                return done.unwrap_or_else(|error| unreachable!("the limit is for these buffers: {error}"));
            }
            position = (position + 1) % code.data().len();
            let done = match (op, &self.columns) {
                ("encode", Columns::Cells) => self.codec.encode(stripe),
                ("encode", Columns::Packets(codec)) => codec.encode(stripe),
                ("encode", Columns::Words(codec)) => codec.encode(stripe),
                ("decode", _) => decoder.run(stripe),
                (_, Columns::Cells) => self.codec.update(stripe, position, &new),
                (_, Columns::Packets(codec)) => codec.update(stripe, position, &new),
                (_, Columns::Words(codec)) => {
                    codec.update(stripe, code.column_of(code.data()[position]), &new)
                }
            };
            done.unwrap_or_else(|error| unreachable!("the stripes are those of the code: {error}"));
        };
        let cuts = |contestant: usize| match contestant {
            0 => matches!(self.columns, Columns::Cells),
            _ => limits[contestant - 1].1.of_cells,
        };
        for turn in 0..TURNS + 1 {
            for (contestant, times) in times.iter_mut().enumerate() {
                let per_call = stripes.turn(self, cuts(contestant), |stripe| call(contestant, stripe));
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
            packet_len_bytes: match &self.columns {
                Columns::Packets(codec) => Some(codec.packet_bytes()),
                _ => None,
            },
            word_bits: match &self.columns {
                Columns::Words(codec) => Some(codec.word_bits()),
                _ => None,
            },
            op,
            layout: stripes.layout,
            kernel: Tier::best().name(),
            bytes_per_s: rate(medians[0]).round(),
            xor_limit_bytes_per_s: rate(best).round(),
            limit_share: rounded(best / medians[0]),
        })
    }

    /// The same for columns as they are laid out.
    fn decoder(&self) -> Result<Decoder, PlanError> {
        Ok(match (&self.columns, self.lost_columns()) {
            (Columns::Cells, _) => Decoder::Cells(self.recovery()?),
            (Columns::Packets(codec), Some(columns)) => Decoder::Packets(codec.decoder(&columns)?),
            (Columns::Packets(codec), None) => {
                Decoder::Packets(codec.recovery(&self.lost, &self.wanted(), &Costs::uniform())?)
            }
            (Columns::Words(codec), columns) => Decoder::Words(codec.decoder(&columns.unwrap_or_default())?),
        })
    }

    /// Bytes that an update replaces: an element, or all of a column where these are its bits.
    fn changed_len(&self) -> usize {
        match &self.columns {
            Columns::Words(codec) => self.element_len * codec.word_bits(),
            _ => self.element_len,
        }
    }

    /// What a plan reads and writes, each cell in one piece. In packets also as many whole columns, if it is that many: cells in one piece are more
    /// streams than packets are. In words these alone.
    fn limits(&self, plan: &Plan) -> Option<Vec<Limit>> {
        let code = self.code();
        let reads = self.buffers_of(plan.reads.iter().map(|cell| cell.usize()));
        let writes = self.buffers_of(plan.steps.iter().map(|step| step.target.usize()));
        if writes.is_empty() {
            return None;
        }
        let mut limits = vec![self.limit(XorLimit::new(self.buffers(), &reads, &writes))];
        let rows = code.rows_max();
        let is_even = (0..code.columns()).all(|column| code.rows(column) == rows);
        if matches!(self.columns, Columns::Packets(_))
            && is_even
            && let Some(xor) = XorLimit::of_columns(code.columns(), rows, reads.len(), writes.len())
        {
            limits.push(Limit { xor, len: rows * self.element_len, of_cells: false });
        }
        Some(limits)
    }

    /// The limit of what is done to the buffers of a run.
    fn limit(&self, xor: XorLimit) -> Limit {
        Limit { xor, len: self.changed_len(), of_cells: !matches!(self.columns, Columns::Words(_)) }
    }

    /// How many buffers a run reads and writes: cells, or columns where these are words.
    fn buffers(&self) -> usize {
        match &self.columns {
            Columns::Words(_) => self.code().columns(),
            _ => self.code().cell_count(),
        }
    }

    /// The buffers in which cells lie, each once.
    fn buffers_of(&self, cells: impl Iterator<Item = usize>) -> Vec<usize> {
        let Columns::Words(codec) = &self.columns else { return cells.collect() };
        let mut columns: Vec<usize> = cells.map(|cell| cell / codec.word_bits()).collect();
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    /// What an update of the first data element, or of its column, reads and writes: the new content stands in for a buffer that it leaves alone.
    fn update_limit(&self) -> Option<Limit> {
        let code = self.code();
        let changed = self.buffers_of([code.data()[0].usize()].into_iter());
        let is_changed =
            |&position: &usize| self.buffers_of([code.data()[position].usize()].into_iter()) == changed;
        let positions: Vec<usize> = (0..code.data().len()).filter(is_changed).collect();
        let has =
            |&row: &usize| positions.iter().any(|&position| !code.generator().get(row, position).is_zero());
        let reached = (0..code.parity().len()).filter(has).map(|row| code.parity()[row].usize());
        let mut touched = self.buffers_of(reached);
        touched.extend(changed);
        let other = (0..self.buffers()).find(|buffer| !touched.contains(buffer))?;
        Some(self.limit(XorLimit::adding(self.buffers(), &[other], &touched)))
    }
}

impl Decoder {
    fn plan(&self) -> &Plan {
        match self {
            Decoder::Cells(recovery) => recovery.plan(),
            Decoder::Packets(recovery) => recovery.plan(),
            Decoder::Words(recovery) => recovery.plan(),
        }
    }

    fn prepare(&self) {
        match self {
            Decoder::Cells(recovery) => recovery.prepare(),
            Decoder::Packets(recovery) => recovery.prepare(),
            Decoder::Words(recovery) => recovery.prepare(),
        }
    }

    fn run(&self, stripe: &mut [&mut [u8]]) -> Result<(), StripeError> {
        match self {
            Decoder::Cells(recovery) => recovery.run(stripe),
            Decoder::Packets(recovery) => recovery.run(stripe),
            Decoder::Words(recovery) => recovery.run(stripe),
        }
    }
}

/// A limit, and the buffers that it is for.
struct Limit {
    xor: XorLimit,
    /// Bytes of a buffer.
    len: usize,
    /// Cells in one piece; else columns.
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

    /// Calls on stripe after stripe for a turn, of columns or cut into cells, which is not counted; nanoseconds per call.
    fn turn(&mut self, subject: &Subject, cuts: bool, mut call: impl FnMut(&mut [&mut [u8]])) -> f64 {
        let (mut spent, mut calls) = (0, 0u64);
        // A short call is made often, so that the clock does not count.
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
