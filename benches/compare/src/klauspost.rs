//! klauspost/reedsolomon, compiled to a C library (see go/main.go), one goroutine.

use crate::dynamic::Library;
use crate::peer::{Operation, Peer, Planning, Runner};
use std::ffi::c_int;

type New = unsafe extern "C" fn(c_int, c_int, c_int, c_int) -> c_int;
type Encode = unsafe extern "C" fn(c_int, *const *mut u8, c_int, c_int, c_int, c_int) -> c_int;
type Reconstruct =
    unsafe extern "C" fn(c_int, *const *mut u8, c_int, c_int, c_int, c_int, *const c_int, c_int) -> c_int;

#[derive(Clone, Copy)]
pub struct Functions {
    new: New,
    encode: Encode,
    reconstruct: Reconstruct,
}

impl Functions {
    pub fn of(library: &Library) -> Option<Functions> {
        // SAFETY: the signatures are those of go/main.go.
        unsafe {
            Some(Functions {
                new: library.function("KsNew")?,
                encode: library.function("KsEncode")?,
                reconstruct: library.function("KsReconstruct")?,
            })
        }
    }
}

pub struct Klauspost {
    functions: Functions,
    k: usize,
    leopard: bool,
    handle: c_int,
}

impl Klauspost {
    /// Its codes by matrices, or by FFT.
    pub fn new(functions: Functions, k: usize, m: usize, avx2: bool, leopard: bool) -> Klauspost {
        let (avx2, is_leopard) = (c_int::from(avx2), c_int::from(leopard));
        // SAFETY: plain numbers.
        let handle = unsafe { (functions.new)(k as c_int, m as c_int, avx2, is_leopard) };
        assert!(handle >= 0, "klauspost takes k = {k}, m = {m}");
        Klauspost { functions, k, leopard, handle }
    }
}

impl Peer for Klauspost {
    fn name(&self) -> String {
        if self.leopard { "klauspost leopard" } else { "klauspost" }.into()
    }

    fn data_bytes(&self, len: usize) -> usize {
        self.k * len
    }

    fn prepare<'a>(&'a self, operation: &Operation) -> Option<Runner<'a>> {
        match operation.clone() {
            Operation::Encode => Some(Box::new(|stripes, start, calls| {
                let (all, sets) = (stripes.all(), stripes.sets() as c_int);
                // SAFETY: as many pointers as sets times buffers, each to `len` bytes.
                let status = unsafe {
                    (self.functions.encode)(
                        self.handle,
                        all.as_ptr(),
                        sets,
                        stripes.len as c_int,
                        start as c_int,
                        calls as c_int,
                    )
                };
                assert_eq!(status, 0);
            })),
            // It keeps the inverses that it has made.
            Operation::Decode { lost, planning: Planning::Cached } => {
                let lost: Vec<c_int> = lost.iter().map(|&l| l as c_int).collect();
                Some(Box::new(move |stripes, start, calls| {
                    let (all, sets) = (stripes.all(), stripes.sets() as c_int);
                    // SAFETY: as above.
                    let status = unsafe {
                        (self.functions.reconstruct)(
                            self.handle,
                            all.as_ptr(),
                            sets,
                            stripes.len as c_int,
                            start as c_int,
                            calls as c_int,
                            lost.as_ptr(),
                            lost.len() as c_int,
                        )
                    };
                    assert_eq!(status, 0);
                }))
            }
            Operation::Decode { .. } => None,
        }
    }
}
