//! Pantile, by the calls that its users have.

use crate::peer::{Operation, Peer, Planning, Runner, in_turn, sets};
use crate::stripes::Stripes;
use pantile::{Code, Codec, PacketCodec, Plan, Recovery, WordCodec, WordProgram};
use pantile_kernel::measure::XorLimit;
use pantile_kernel::{PacketProgram, Program};

pub struct Pantile {
    name: String,
    codec: Codec,
    rows: usize,
}

impl Pantile {
    /// A code whose columns all have the same rows: one buffer per column.
    pub fn new(name: &str, spec: &str) -> Pantile {
        let codec = Codec::parse(spec).expect("a spec of this file");
        let rows = codec.code().rows_max();
        assert_eq!(codec.code().cell_count(), rows * codec.code().columns(), "columns of equal length");
        Pantile { name: name.into(), codec, rows }
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The XOR kernel that reads and writes what the operation does.
    pub fn limit(&self, operation: &Operation) -> XorLimit {
        let of = |plan: &Plan| {
            let reads: Vec<usize> = plan.reads.iter().map(|cell| cell.usize()).collect();
            let writes: Vec<usize> = plan.steps.iter().map(|step| step.target.usize()).collect();
            XorLimit::new(self.codec.code().cell_count(), &reads, &writes)
        };
        match operation {
            Operation::Encode => of(self.codec.encode_plan()),
            Operation::Decode { lost, .. } => of(self.codec.decoder(lost).expect("survivable").plan()),
        }
    }

    /// As [`Pantile::limit`], of as many whole columns: nothing that is read from end to end can be faster. `None` if it is not that many.
    pub fn limit_of_columns(&self, operation: &Operation) -> Option<XorLimit> {
        let columns = self.codec.code().columns();
        let of = |plan: &Plan| XorLimit::of_columns(columns, self.rows, plan.reads.len(), plan.steps.len());
        match operation {
            Operation::Encode => of(self.codec.encode_plan()),
            Operation::Decode { lost, .. } => of(self.codec.decoder(lost).expect("survivable").plan()),
        }
    }

    /// The elements of as many sets as the calls will meet.
    fn elements<'s>(&self, stripes: &'s Stripes, start: usize, calls: usize) -> Vec<Vec<&'s mut [u8]>> {
        sets(stripes, start, calls.min(stripes.sets())).map(|set| stripes.elements(set, self.rows)).collect()
    }
}

impl Peer for Pantile {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn data_bytes(&self, len: usize) -> usize {
        self.codec.code().data().len() * (len / self.rows)
    }

    fn prepare<'a>(&'a self, operation: &Operation) -> Option<Runner<'a>> {
        Some(match operation.clone() {
            Operation::Encode => Box::new(|stripes, start, calls| {
                let cells = self.elements(stripes, start, calls);
                in_turn(cells, calls, |stripe| self.codec.encode(stripe).expect("a stripe"));
            }),
            Operation::Decode { lost, planning: Planning::Excluded } => {
                let recovery = self.codec.decoder(&lost).expect("survivable");
                recovery.prepare();
                Box::new(move |stripes, start, calls| {
                    let cells = self.elements(stripes, start, calls);
                    in_turn(cells, calls, |stripe| recovery.run(stripe).expect("a stripe"));
                })
            }
            Operation::Decode { lost, planning: Planning::Cached } => {
                Box::new(move |stripes, start, calls| {
                    let cells = self.elements(stripes, start, calls);
                    in_turn(cells, calls, |stripe| self.codec.reconstruct(stripe, &lost).expect("a stripe"));
                })
            }
            Operation::Decode { lost, planning: Planning::Included } => {
                Box::new(move |stripes, start, calls| {
                    let cells = self.elements(stripes, start, calls);
                    in_turn(cells, calls, |stripe| {
                        let recovery = self.codec.decoder_anew(&lost).expect("survivable");
                        recovery.run(stripe).expect("a stripe");
                    });
                })
            }
        })
    }
}

/// A codec of columns in which elements are interleaved.
pub trait ColumnCodec {
    type Program: AsRef<Program>;

    fn code(&self) -> &Code;
    /// What the length of a column is a multiple of.
    fn unit_bytes(&self) -> usize;
    fn encode(&self, columns: &mut [&mut [u8]]);
    fn decoder_anew(&self, lost: &[usize]) -> Recovery<Self::Program>;
    fn run(recovery: &Recovery<Self::Program>, columns: &mut [&mut [u8]]);
    fn reconstruct(&self, columns: &mut [&mut [u8]], lost: &[usize]);
}

macro_rules! column_codec {
    ($codec:ty, $program:ty, $unit:expr) => {
        impl ColumnCodec for $codec {
            type Program = $program;

            fn code(&self) -> &Code {
                self.code()
            }

            fn unit_bytes(&self) -> usize {
                $unit(self)
            }

            fn encode(&self, columns: &mut [&mut [u8]]) {
                self.encode(columns).expect("a stripe");
            }

            fn decoder_anew(&self, lost: &[usize]) -> Recovery<$program> {
                self.decoder_anew(lost).expect("survivable")
            }

            fn run(recovery: &Recovery<$program>, columns: &mut [&mut [u8]]) {
                recovery.run(columns).expect("a stripe");
            }

            fn reconstruct(&self, columns: &mut [&mut [u8]], lost: &[usize]) {
                self.reconstruct(columns, lost).expect("a stripe");
            }
        }
    };
}

column_codec!(PacketCodec, PacketProgram, |codec: &PacketCodec| codec.code().rows_max()
    * codec.packet_bytes());
column_codec!(WordCodec, WordProgram, |_| 1);

/// The same with elements interleaved.
pub struct Interleaved<C> {
    name: String,
    codec: C,
}

/// By packets.
pub fn in_packets(name: &str, spec: &str, packet_bytes: usize) -> Interleaved<PacketCodec> {
    let codec = Pantile::new(name, spec).codec.in_packets(packet_bytes).expect("a packet has bytes");
    Interleaved { name: name.into(), codec }
}

/// As bits of words.
pub fn in_words(name: &str, spec: &str) -> Interleaved<WordCodec> {
    let codec = Pantile::new(name, spec).codec.in_words().expect("columns of words");
    Interleaved { name: name.into(), codec }
}

impl<C: ColumnCodec> Interleaved<C> {
    /// The columns of as many sets as the calls will meet, as far as they count.
    fn columns<'s>(&self, stripes: &'s Stripes, start: usize, calls: usize) -> Vec<Vec<&'s mut [u8]>> {
        let covered = self.covered_bytes(stripes.len);
        let of = |set: usize| stripes.views(set).into_iter().map(|view| &mut view[..covered]).collect();
        sets(stripes, start, calls.min(stripes.sets())).map(of).collect()
    }
}

impl<C: ColumnCodec> Peer for Interleaved<C> {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn data_bytes(&self, len: usize) -> usize {
        let code = self.codec.code();
        code.data().len() * self.covered_bytes(len) / code.rows_max()
    }

    fn covered_bytes(&self, len: usize) -> usize {
        len / self.codec.unit_bytes() * self.codec.unit_bytes()
    }

    fn prepare<'a>(&'a self, operation: &Operation) -> Option<Runner<'a>> {
        Some(match operation.clone() {
            Operation::Encode => Box::new(|stripes, start, calls| {
                let columns = self.columns(stripes, start, calls);
                in_turn(columns, calls, |stripe| self.codec.encode(stripe));
            }),
            Operation::Decode { lost, planning } => {
                let kept = self.codec.decoder_anew(&lost);
                kept.prepare();
                Box::new(move |stripes, start, calls| {
                    let columns = self.columns(stripes, start, calls);
                    in_turn(columns, calls, |stripe| match planning {
                        Planning::Excluded => C::run(&kept, stripe),
                        Planning::Cached => self.codec.reconstruct(stripe, &lost),
                        Planning::Included => C::run(&self.codec.decoder_anew(&lost), stripe),
                    });
                })
            }
        })
    }
}
