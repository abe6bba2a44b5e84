//! Jerasure 2: Reed-Solomon over GF(2^w), and its bit-matrix codes by schedule. Decoding makes its
//! schedule in the call.

use crate::dynamic::Library;
use crate::peer::{Operation, Peer, Planning, Runner, sets};
use std::ffi::{c_char, c_int};

type Matrix3 = unsafe extern "C" fn(c_int, c_int, c_int) -> *mut c_int;
type Matrix2 = unsafe extern "C" fn(c_int, c_int) -> *mut c_int;
type ToBits = unsafe extern "C" fn(c_int, c_int, c_int, *mut c_int) -> *mut c_int;
type ToSchedule = unsafe extern "C" fn(c_int, c_int, c_int, *mut c_int) -> *mut *mut c_int;
type MatrixEncode =
    unsafe extern "C" fn(c_int, c_int, c_int, *mut c_int, *const *mut c_char, *const *mut c_char, c_int);
type MatrixDecode = unsafe extern "C" fn(
    c_int,
    c_int,
    c_int,
    *mut c_int,
    c_int,
    *const c_int,
    *const *mut c_char,
    *const *mut c_char,
    c_int,
) -> c_int;
type ScheduleEncode = unsafe extern "C" fn(
    c_int,
    c_int,
    c_int,
    *mut *mut c_int,
    *const *mut c_char,
    *const *mut c_char,
    c_int,
    c_int,
);
type ScheduleDecode = unsafe extern "C" fn(
    c_int,
    c_int,
    c_int,
    *mut c_int,
    *const c_int,
    *const *mut c_char,
    *const *mut c_char,
    c_int,
    c_int,
    c_int,
) -> c_int;

#[derive(Clone, Copy)]
pub struct Functions {
    reed_sol_van: Matrix3,
    cauchy_good: Matrix3,
    blaum_roth: Matrix2,
    liberation: Matrix2,
    to_bits: ToBits,
    to_schedule: ToSchedule,
    matrix_encode: MatrixEncode,
    matrix_decode: MatrixDecode,
    schedule_encode: ScheduleEncode,
    schedule_decode: ScheduleDecode,
}

impl Functions {
    pub fn of(library: &Library) -> Option<Functions> {
        // SAFETY: the signatures are those of jerasure.h, cauchy.h, liberation.h and reed_sol.h.
        unsafe {
            Some(Functions {
                reed_sol_van: library.function("reed_sol_vandermonde_coding_matrix")?,
                cauchy_good: library.function("cauchy_good_general_coding_matrix")?,
                blaum_roth: library.function("blaum_roth_coding_bitmatrix")?,
                liberation: library.function("liberation_coding_bitmatrix")?,
                to_bits: library.function("jerasure_matrix_to_bitmatrix")?,
                to_schedule: library.function("jerasure_smart_bitmatrix_to_schedule")?,
                matrix_encode: library.function("jerasure_matrix_encode")?,
                matrix_decode: library.function("jerasure_matrix_decode")?,
                schedule_encode: library.function("jerasure_schedule_encode")?,
                schedule_decode: library.function("jerasure_schedule_decode_lazy")?,
            })
        }
    }
}

/// A technique of Jerasure's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Technique {
    ReedSolVan { w: usize },
    CauchyGood,
    BlaumRoth { w: usize },
    Liberation { w: usize },
}

pub struct Jerasure {
    functions: Functions,
    technique: Technique,
    k: usize,
    m: usize,
    w: usize,
    matrix: *mut c_int,
    schedule: *mut *mut c_int,
}

impl Jerasure {
    pub fn new(functions: Functions, technique: Technique, k: usize, m: usize) -> Jerasure {
        let (ck, cm) = (k as c_int, m as c_int);
        // SAFETY: k, m and w are within what each technique allows. What is allocated is kept until
        // the process ends.
        let (w, matrix, is_bits) = unsafe {
            match technique {
                Technique::ReedSolVan { w } => (w, (functions.reed_sol_van)(ck, cm, w as c_int), false),
                Technique::CauchyGood => {
                    let matrix = (functions.cauchy_good)(ck, cm, 8);
                    (8, (functions.to_bits)(ck, cm, 8, matrix), true)
                }
                Technique::BlaumRoth { w } => (w, (functions.blaum_roth)(ck, w as c_int), true),
                Technique::Liberation { w } => (w, (functions.liberation)(ck, w as c_int), true),
            }
        };
        assert!(!matrix.is_null(), "{technique:?} for k = {k}, m = {m}");
        // SAFETY: a bit matrix of this k, m, w.
        let schedule = if is_bits {
            unsafe { (functions.to_schedule)(ck, cm, w as c_int, matrix) }
        } else {
            std::ptr::null_mut()
        };
        Jerasure { functions, technique, k, m, w, matrix, schedule }
    }

    /// The largest length up to `len` that is whole words of w packets.
    pub fn whole_packets(&self, len: usize) -> usize {
        len / (self.w * 64) * (self.w * 64)
    }

    /// Packets of up to 2 KiB, as its authors advise; a multiple of w packets fills the length.
    fn packet(&self, len: usize) -> Option<usize> {
        let words = len / self.w / 8 * 8;
        (words * self.w == len)
            .then(|| (1..).map(|n| words / n).find(|&p| p <= 2048 && p % 8 == 0 && words.is_multiple_of(p)))
            .flatten()
    }
}

impl Peer for Jerasure {
    fn name(&self) -> String {
        match self.technique {
            Technique::ReedSolVan { w } => format!("jerasure reed_sol_van w={w}"),
            Technique::CauchyGood => "jerasure cauchy_good w=8".into(),
            Technique::BlaumRoth { w } => format!("jerasure blaum_roth w={w}"),
            Technique::Liberation { w } => format!("jerasure liberation w={w}"),
        }
    }

    fn data_bytes(&self, len: usize) -> usize {
        self.k * len
    }

    fn prepare<'a>(&'a self, operation: &Operation) -> Option<Runner<'a>> {
        let (k, m, w) = (self.k as c_int, self.m as c_int, self.w as c_int);
        let f = self.functions;
        match operation.clone() {
            Operation::Encode => Some(Box::new(move |stripes, start, calls| {
                let packet = self.packet(stripes.len);
                for set in sets(stripes, start, calls) {
                    let (data, parity) = stripes.set(set).split_at(self.k);
                    let (data, parity) = (data.as_ptr().cast(), parity.as_ptr().cast());
                    // SAFETY: k and m buffers of `len` bytes, aligned to 64.
                    unsafe {
                        if self.schedule.is_null() {
                            (f.matrix_encode)(k, m, w, self.matrix, data, parity, stripes.len as c_int);
                        } else {
                            let packet = packet.expect("a length of whole packets");
                            (f.schedule_encode)(
                                k,
                                m,
                                w,
                                self.schedule,
                                data,
                                parity,
                                stripes.len as c_int,
                                packet as c_int,
                            );
                        }
                    }
                }
            })),
            Operation::Decode { lost, planning: Planning::Included } => {
                let erasures: Vec<c_int> = lost.iter().map(|&l| l as c_int).chain([-1]).collect();
                Some(Box::new(move |stripes, start, calls| {
                    let packet = self.packet(stripes.len);
                    for set in sets(stripes, start, calls) {
                        let (data, parity) = stripes.set(set).split_at(self.k);
                        let (data, parity) = (data.as_ptr().cast(), parity.as_ptr().cast());
                        // SAFETY: as above.
                        let status = unsafe {
                            if self.schedule.is_null() {
                                (f.matrix_decode)(
                                    k,
                                    m,
                                    w,
                                    self.matrix,
                                    1,
                                    erasures.as_ptr(),
                                    data,
                                    parity,
                                    stripes.len as c_int,
                                )
                            } else {
                                let packet = packet.expect("a length of whole packets");
                                (f.schedule_decode)(
                                    k,
                                    m,
                                    w,
                                    self.matrix,
                                    erasures.as_ptr(),
                                    data,
                                    parity,
                                    stripes.len as c_int,
                                    packet as c_int,
                                    1,
                                )
                            }
                        };
                        assert_eq!(status, 0);
                    }
                }))
            }
            Operation::Decode { .. } => None,
        }
    }
}
