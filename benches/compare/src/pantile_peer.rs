//! Pantile, by the calls that its users have.

use crate::peer::{Operation, Peer, Planning, Runner, in_turn, sets};
use crate::stripes::Stripes;
use pantile::{Codec, PacketCodec, Plan};
use pantile_kernel::measure::XorLimit;

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

    /// As [`Pantile::limit`], of as many whole columns: nothing that is read from end to end can be
    /// faster. `None` if it is not that many.
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

/// Code with interleaved elements.
pub struct InPackets {
    name: String,
    codec: PacketCodec,
    rows: usize,
}

impl InPackets {
    pub fn new(name: &str, spec: &str, packet_bytes: usize) -> InPackets {
        let Pantile { codec, rows, .. } = Pantile::new(name, spec);
        let codec = codec.in_packets(packet_bytes).expect("a packet has bytes");
        InPackets { name: name.into(), codec, rows }
    }

    /// The columns of as many sets as the calls will meet, of which whole packets count.
    fn columns<'s>(&self, stripes: &'s Stripes, start: usize, calls: usize) -> Vec<Vec<&'s mut [u8]>> {
        let covered = self.covered_bytes(stripes.len);
        let of = |set: usize| stripes.views(set).into_iter().map(|view| &mut view[..covered]).collect();
        sets(stripes, start, calls.min(stripes.sets())).map(of).collect()
    }
}

impl Peer for InPackets {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn data_bytes(&self, len: usize) -> usize {
        self.codec.code().data().len() * (self.covered_bytes(len) / self.rows)
    }

    fn covered_bytes(&self, len: usize) -> usize {
        let group = self.rows * self.codec.packet_bytes();
        len / group * group
    }

    fn prepare<'a>(&'a self, operation: &Operation) -> Option<Runner<'a>> {
        Some(match operation.clone() {
            Operation::Encode => Box::new(|stripes, start, calls| {
                let columns = self.columns(stripes, start, calls);
                in_turn(columns, calls, |stripe| self.codec.encode(stripe).expect("a stripe"));
            }),
            Operation::Decode { lost, planning } => {
                let kept = self.codec.decoder(&lost).expect("survivable");
                kept.prepare();
                Box::new(move |stripes, start, calls| {
                    let columns = self.columns(stripes, start, calls);
                    in_turn(columns, calls, |stripe| {
                        match planning {
                            Planning::Excluded => kept.run(stripe),
                            Planning::Cached => {
                                return self.codec.reconstruct(stripe, &lost).expect("a stripe");
                            }
                            Planning::Included => {
                                self.codec.decoder_anew(&lost).expect("survivable").run(stripe)
                            }
                        }
                        .expect("a stripe");
                    });
                })
            }
        })
    }
}
