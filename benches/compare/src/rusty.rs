//! rusty_erasure: the Cauchy matrix, and its RAID-6-only function.

use crate::peer::{Operation, Peer, Planning, Runner, sets};
use crate::stripes::Stripes;
use rusty_erasure::{Coder, Matrix};

pub struct Rusty {
    coder: Coder,
    k: usize,
}

impl Rusty {
    pub fn new(k: usize, m: usize, avx2: bool) -> Rusty {
        let matrix = Matrix::cauchy(k, m).expect("a Cauchy matrix");
        let kernels = if avx2 { rusty_erasure::kernels_named("avx2") } else { None };
        let kernels = kernels.unwrap_or_else(rusty_erasure::best_kernels);
        Rusty { coder: Coder::with_kernels(matrix, kernels).expect("a coder"), k }
    }

    /// The shards that are there, and the buffers of those that are not.
    fn apart<'s>(
        stripes: &'s Stripes,
        set: usize,
        lost: &[usize],
    ) -> (Vec<Option<&'s [u8]>>, Vec<&'s mut [u8]>) {
        let mut shards = Vec::with_capacity(stripes.buffers());
        let mut out = Vec::with_capacity(lost.len());
        for (i, view) in stripes.views(set).into_iter().enumerate() {
            if lost.contains(&i) {
                shards.push(None);
                out.push(view);
            } else {
                shards.push(Some(&*view));
            }
        }
        (shards, out)
    }
}

impl Peer for Rusty {
    fn name(&self) -> String {
        "rusty_erasure".into()
    }

    fn data_bytes(&self, len: usize) -> usize {
        self.k * len
    }

    fn prepare<'a>(&'a self, operation: &Operation) -> Option<Runner<'a>> {
        match operation.clone() {
            Operation::Encode => Some(Box::new(|stripes, start, calls| {
                let mut prepared: Vec<_> = sets(stripes, start, calls.min(stripes.sets()))
                    .map(|set| stripes.parts(set, self.k))
                    .collect();
                let count = prepared.len();
                for i in 0..calls {
                    let (data, parity) = &mut prepared[i % count];
                    self.coder.encode(data, parity).expect("a stripe");
                }
            })),
            Operation::Decode { lost, planning: Planning::Excluded } => {
                let mut lost = lost;
                lost.sort_unstable();
                let present: Vec<bool> =
                    (0..self.coder.k() + self.coder.p()).map(|i| !lost.contains(&i)).collect();
                let plan = self.coder.decode_plan(&present, &lost).expect("survivable");
                Some(Box::new(move |stripes, start, calls| {
                    let mut prepared: Vec<_> = sets(stripes, start, calls.min(stripes.sets()))
                        .map(|set| Rusty::apart(stripes, set, &lost))
                        .collect();
                    let count = prepared.len();
                    for i in 0..calls {
                        let (shards, out) = &mut prepared[i % count];
                        self.coder.recover_with(&plan, shards, out).expect("a stripe");
                    }
                }))
            }
            Operation::Decode { planning: Planning::Cached, .. } => None,
            Operation::Decode { lost, planning: Planning::Included } => {
                let mut lost = lost;
                lost.sort_unstable();
                Some(Box::new(move |stripes, start, calls| {
                    for set in sets(stripes, start, calls) {
                        let (shards, mut out) = Rusty::apart(stripes, set, &lost);
                        self.coder.recover(&shards, &lost, &mut out).expect("a stripe");
                    }
                }))
            }
        }
    }
}

pub struct RustyPq {
    pub k: usize,
}

impl Peer for RustyPq {
    fn name(&self) -> String {
        "rusty_erasure pq_gen".into()
    }

    fn data_bytes(&self, len: usize) -> usize {
        self.k * len
    }

    fn prepare<'a>(&'a self, operation: &Operation) -> Option<Runner<'a>> {
        (*operation == Operation::Encode).then(|| -> Runner<'a> {
            Box::new(|stripes, start, calls| {
                let k = stripes.buffers() - 2;
                let mut prepared: Vec<_> = sets(stripes, start, calls.min(stripes.sets()))
                    .map(|set| stripes.parts(set, k))
                    .collect();
                let count = prepared.len();
                for i in 0..calls {
                    let (data, parity) = &mut prepared[i % count];
                    let (p, q) = parity.split_at_mut(1);
                    rusty_erasure::raid::pq_gen(data, p[0], q[0]).expect("a stripe");
                }
            })
        })
    }
}
