//! Intel's isa-l, by name: the general encoder, which decodes too once it is given the right
//! matrix, and the RAID-6-only `pq_gen`.

use crate::dynamic::Library;
use crate::peer::{Operation, Peer, Planning, Runner, sets};
use std::ffi::{c_int, c_void};

type EncodeData = unsafe extern "C" fn(c_int, c_int, c_int, *const u8, *const *mut u8, *const *mut u8);
type InitTables = unsafe extern "C" fn(c_int, c_int, *const u8, *mut u8);
type GenMatrix = unsafe extern "C" fn(*mut u8, c_int, c_int);
type Invert = unsafe extern "C" fn(*mut u8, *mut u8, c_int) -> c_int;
type PqGen = unsafe extern "C" fn(c_int, c_int, *const *mut c_void) -> c_int;
type Multiply = unsafe extern "C" fn(u8, u8) -> u8;

#[derive(Clone, Copy)]
pub struct Functions {
    encode_data: EncodeData,
    init_tables: InitTables,
    matrix: GenMatrix,
    invert: Invert,
    multiply: Multiply,
    pq_gen: PqGen,
}

impl Functions {
    /// Functions that the library picks for this machine, or its AVX2 functions (with the tables of
    /// before GFNI).
    pub fn of(library: &Library, avx2: bool) -> Option<Functions> {
        let init = "ec_init_tables";
        // SAFETY: the signatures are those of erasure_code.h and raid.h.
        unsafe {
            Some(Functions {
                encode_data: library.function(if avx2 { "ec_encode_data_avx2" } else { "ec_encode_data" })?,
                init_tables: library.function(init)?,
                matrix: library.function("gf_gen_cauchy1_matrix")?,
                invert: library.function("gf_invert_matrix")?,
                multiply: library.function("gf_mul")?,
                pq_gen: library.function(if avx2 { "pq_gen_avx2" } else { "pq_gen" })?,
            })
        }
    }
}

pub struct Isal {
    name: String,
    functions: Functions,
    k: usize,
    m: usize,
    matrix: Vec<u8>,
}

impl Isal {
    pub fn new(name: &str, functions: Functions, k: usize, m: usize) -> Isal {
        let mut matrix = vec![0u8; (k + m) * k];
        // SAFETY: room for k + m rows of k.
        unsafe { (functions.matrix)(matrix.as_mut_ptr(), (k + m) as c_int, k as c_int) };
        Isal { name: name.into(), functions, k, m, matrix }
    }

    fn tables(&self, rows: &[u8]) -> Vec<u8> {
        let outputs = rows.len() / self.k;
        let mut tables = vec![0u8; 32 * rows.len()];
        // SAFETY: 32 bytes per coefficient.
        unsafe {
            (self.functions.init_tables)(
                self.k as c_int,
                outputs as c_int,
                rows.as_ptr(),
                tables.as_mut_ptr(),
            )
        };
        tables
    }

    /// The survivors that are read, and the rows of the lost over them: what isa-l's examples do by
    /// hand.
    fn decode_rows(&self, lost: &[usize]) -> (Vec<usize>, Vec<u8>) {
        let k = self.k;
        let survivors: Vec<usize> = (0..k + self.m).filter(|i| !lost.contains(i)).take(k).collect();
        let mut system: Vec<u8> =
            survivors.iter().flat_map(|&s| self.matrix[s * k..(s + 1) * k].to_vec()).collect();
        let mut inverse = vec![0u8; k * k];
        // SAFETY: both are k x k.
        let status =
            unsafe { (self.functions.invert)(system.as_mut_ptr(), inverse.as_mut_ptr(), k as c_int) };
        assert_eq!(status, 0, "a Cauchy matrix is MDS");
        let mut rows = Vec::with_capacity(lost.len() * k);
        for &l in lost {
            if l < k {
                rows.extend_from_slice(&inverse[l * k..(l + 1) * k]);
            } else {
                for j in 0..k {
                    // SAFETY: a function of two bytes.
                    let product = |i: usize| unsafe {
                        (self.functions.multiply)(inverse[i * k + j], self.matrix[l * k + i])
                    };
                    rows.push((0..k).fold(0, |sum, i| sum ^ product(i)));
                }
            }
        }
        (survivors, rows)
    }

    fn apply(&self, tables: &[u8], from: &[*mut u8], to: &[*mut u8], len: usize) {
        // SAFETY: tables for as many outputs; buffers of `len` bytes.
        unsafe {
            (self.functions.encode_data)(
                len as c_int,
                from.len() as c_int,
                to.len() as c_int,
                tables.as_ptr(),
                from.as_ptr(),
                to.as_ptr(),
            )
        };
    }
}

impl Peer for Isal {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn data_bytes(&self, len: usize) -> usize {
        self.k * len
    }

    fn prepare<'a>(&'a self, operation: &Operation) -> Option<Runner<'a>> {
        match operation.clone() {
            Operation::Encode => {
                let tables = self.tables(&self.matrix[self.k * self.k..]);
                Some(Box::new(move |stripes, start, calls| {
                    for set in sets(stripes, start, calls) {
                        let (from, to) = stripes.set(set).split_at(self.k);
                        self.apply(&tables, from, to, stripes.len);
                    }
                }))
            }
            Operation::Decode { planning: Planning::Cached, .. } => None,
            Operation::Decode { lost, planning } => {
                let (survivors, rows) = self.decode_rows(&lost);
                let tables = self.tables(&rows);
                Some(Box::new(move |stripes, start, calls| {
                    let (mut from, mut to) =
                        (vec![std::ptr::null_mut(); self.k], vec![std::ptr::null_mut(); lost.len()]);
                    for set in sets(stripes, start, calls) {
                        let buffers = stripes.set(set);
                        to.iter_mut().zip(&lost).for_each(|(p, &l)| *p = buffers[l]);
                        if planning == Planning::Included {
                            let (survivors, rows) = self.decode_rows(&lost);
                            from.iter_mut().zip(&survivors).for_each(|(p, &s)| *p = buffers[s]);
                            self.apply(&self.tables(&rows), &from, &to, stripes.len);
                        } else {
                            from.iter_mut().zip(&survivors).for_each(|(p, &s)| *p = buffers[s]);
                            self.apply(&tables, &from, &to, stripes.len);
                        }
                    }
                }))
            }
        }
    }
}

/// P and Q of RAID-6 by isa-l's own function for it.
pub struct IsalPq {
    pub name: String,
    pub k: usize,
    pub functions: Functions,
}

impl Peer for IsalPq {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn data_bytes(&self, len: usize) -> usize {
        self.k * len
    }

    fn prepare<'a>(&'a self, operation: &Operation) -> Option<Runner<'a>> {
        (*operation == Operation::Encode).then(|| -> Runner<'a> {
            Box::new(|stripes, start, calls| {
                for set in sets(stripes, start, calls) {
                    let buffers = stripes.set(set);
                    // SAFETY: buffers of `len` bytes, aligned to 64 in both layouts.
                    unsafe {
                        (self.functions.pq_gen)(
                            buffers.len() as c_int,
                            stripes.len as c_int,
                            buffers.as_ptr().cast(),
                        )
                    };
                }
            })
        })
    }
}
