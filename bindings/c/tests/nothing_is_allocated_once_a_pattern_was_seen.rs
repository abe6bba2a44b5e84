//! Claim: encoding, reconstructing, updating, verifying and running a plan allocate nothing once a
//! thread has seen the pattern, for every code. Eight threads share a codec, whose caches stay
//! within their bound. A forked child may use all of it.
//!
//! A program of its own: it counts what its threads allocate.

use pantile_c::*;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ffi::{CString, c_void};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicIsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

struct Counting;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

/// Of all threads.
static HELD_BYTES: AtomicIsize = AtomicIsize::new(0);

fn count(bytes: isize) {
    let _ = COUNT.try_with(|count| count.set(count.get() + 1));
    let _ = LARGEST.try_with(|most| most.set(most.get().max(usize::try_from(bytes).unwrap_or(0))));
    HELD_BYTES.fetch_add(bytes, Ordering::Relaxed);
}

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD_BYTES.fetch_sub(layout.size() as isize, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as isize - layout.size() as isize);
        // SAFETY: the caller's promise.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A codec, as C has it.
struct Embedded {
    codec: *mut PantileCodec,
    rows: Vec<usize>,
    tolerance: usize,
}

// SAFETY: the header: handles may be used by any number of threads at the same time.
unsafe impl Sync for Embedded {}

const ELEMENT: usize = 5000;

/// A stripe of buffers, as C has them.
struct Stripe {
    columns: Vec<*mut c_void>,
    _buffers: Vec<Vec<u8>>,
}

fn ok(status: PantileStatus) {
    assert_eq!(status, PantileStatus::Ok);
}

impl Embedded {
    fn new(spec: &str, cache_bytes: usize) -> Embedded {
        let spec = CString::new(spec).unwrap();
        let (mut code, mut codec) = (null_mut(), null_mut());
        let options =
            PantileCodecOptions { struct_bytes: size_of::<PantileCodecOptions>(), cache_bytes, stores: 0 };
        // SAFETY: as the header says, here and below.
        unsafe {
            ok(pantile_code_parse(spec.as_ptr(), &mut code, null_mut()));
            ok(pantile_codec_new(code, &options, &mut codec, null_mut()));
            pantile_code_free(code);
        }
        let known = pantile::Code::parse(spec.to_str().unwrap()).unwrap();
        Embedded {
            codec,
            rows: (0..known.columns()).map(|column| known.rows(column)).collect(),
            tolerance: known.claim().tolerance,
        }
    }

    fn stripe(&self) -> Stripe {
        let paint = |column: usize, rows: usize| -> Vec<u8> {
            (0..rows * ELEMENT).map(|i| (i * 7 + i / 251 + column * 13) as u8).collect()
        };
        let mut buffers: Vec<Vec<u8>> =
            self.rows.iter().enumerate().map(|(column, &rows)| paint(column, rows)).collect();
        let columns: Vec<*mut c_void> = buffers.iter_mut().map(|buffer| buffer.as_mut_ptr().cast()).collect();
        // SAFETY: buffers of rows times ELEMENT bytes.
        ok(unsafe { pantile_encode(self.codec, columns.as_ptr(), columns.len(), ELEMENT, null_mut()) });
        Stripe { columns, _buffers: buffers }
    }

    /// One call of each kind, with the most columns lost by a pattern; the last of them is not
    /// wanted.
    fn work(&self, stripe: &Stripe, pattern: usize, plan: *const PantilePlan) {
        let (columns, count) = (stripe.columns.as_ptr(), stripe.columns.len());
        let mut states = [1u8; 300];
        for i in 0..self.tolerance {
            states[(pattern + i * (1 + pattern / count)) % count] =
                if i > 0 && i + 1 == self.tolerance { 0 } else { 2 };
        }
        let new = [pattern as u8; 700];
        let mut fault = 0;
        // SAFETY: buffers of rows times ELEMENT bytes, one per column.
        unsafe {
            ok(pantile_encode(self.codec, columns, count, ELEMENT, null_mut()));
            ok(pantile_reconstruct(self.codec, columns, count, ELEMENT, states.as_ptr(), null_mut()));
            ok(pantile_update(
                self.codec,
                columns,
                count,
                ELEMENT,
                1,
                100,
                new.as_ptr().cast(),
                700,
                null_mut(),
            ));
            ok(pantile_plan_run(plan, columns, count, null_mut()));
            ok(pantile_verify(self.codec, columns.cast(), count, ELEMENT, &mut fault, null_mut()));
        }
        assert_eq!(fault, NONE, "the stripe is still true");
    }

    fn plan(&self) -> *mut PantilePlan {
        let wanted = PantileRange { column: 0, offset: 10, bytes: 3000 };
        let mut plan = null_mut();
        // SAFETY: lists of one entry.
        ok(unsafe {
            pantile_plan_new(self.codec, ELEMENT, &0, 1, &wanted, 1, null(), 0, &mut plan, null_mut())
        });
        plan
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        // SAFETY: it is not used any more.
        unsafe { pantile_codec_free(self.codec) };
    }
}

/// Serializes the tests: memory is counted over all threads, and a fork must find no other thread
/// inside a call.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

fn allocations() -> usize {
    COUNT.with(Cell::get)
}

const SPECS: [&str; 10] = [
    "rs:10+4",
    "raid6:8",
    "cauchy:20+6",
    "dcode:7",
    "dcode:17",
    "evenodd:7",
    "lrc:12,2,2",
    "shec:6,4,3",
    "raidq:12+4",
    "lch:48+16",
];

#[test]
fn whatever_the_code() {
    let _alone = alone();
    for spec in SPECS {
        let embedded = Embedded::new(spec, NONE);
        let (stripe, plan) = (embedded.stripe(), embedded.plan());
        let patterns = embedded.rows.len().min(6);
        // Programs of XORs are made into code once they have run for some MiB.
        (0..40 * patterns).for_each(|i| embedded.work(&stripe, i % patterns, plan));
        let before = allocations();
        (0..4 * patterns).for_each(|i| embedded.work(&stripe, i % patterns, plan));
        assert_eq!(allocations() - before, 0, "{spec}");
        // SAFETY: it is not used any more.
        unsafe { pantile_plan_free(plan) };
    }
}

/// The result and the views of the cells are small.
#[test]
fn locating_in_a_clean_stripe_keeps_its_room() {
    let _alone = alone();
    let embedded = Embedded::new("rs:10+4", NONE);
    let stripe = embedded.stripe();
    let locate = || {
        let mut need = NONE;
        let (columns, count) = (stripe.columns.as_ptr().cast(), stripe.columns.len());
        let codec = embedded.codec;
        // SAFETY: buffers of rows times ELEMENT bytes, one per column.
        ok(unsafe { pantile_locate(codec, columns, count, ELEMENT, null_mut(), 0, &mut need, null_mut()) });
        assert_eq!(need, 0, "the stripe is clean");
    };
    locate();
    LARGEST.set(0);
    locate();
    assert!(LARGEST.get() < ELEMENT, "{} bytes at once", LARGEST.get());
}

#[test]
fn by_eight_threads_within_the_bound() {
    let _alone = alone();
    // The 168 patterns fill about ten times as much.
    const CACHE_BYTES: usize = 60_000;
    let held = |cache_bytes: usize| {
        let embedded = Embedded::new("rs:20+4", cache_bytes);
        let plan = embedded.plan();
        let plan_of_all = plan.expose_provenance();
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let embedded = &embedded;
                scope.spawn(move || {
                    let plan = std::ptr::with_exposed_provenance(plan_of_all);
                    let stripe = embedded.stripe();
                    for i in 0..200 {
                        embedded.work(&stripe, (i * 5 + thread) % 168, plan);
                    }
                });
            }
        });
        // SAFETY: it is not used any more.
        unsafe { pantile_plan_free(plan) };
        let before = HELD_BYTES.load(Ordering::Relaxed);
        drop(embedded);
        before - HELD_BYTES.load(Ordering::Relaxed)
    };
    let [bounded, unbounded] = [CACHE_BYTES, NONE].map(held);
    // Four caches, of which each may be full when the threads end; their sizes are estimates.
    let bound = 6 * CACHE_BYTES as isize;
    assert!(bounded < bound && unbounded > bound, "{bounded} and {unbounded} bytes are kept");
}

#[test]
fn in_a_child_that_was_forked() {
    let _alone = alone();
    unsafe extern "C" {
        fn fork() -> i32;
        fn waitpid(child: i32, status: *mut i32, options: i32) -> i32;
        fn _exit(status: i32) -> !;
    }
    let embedded = Embedded::new("evenodd:7", NONE);
    let (stripe, plan) = (embedded.stripe(), embedded.plan());
    (0..3).for_each(|i| embedded.work(&stripe, i, plan));
    // SAFETY: the child calls the library and ends, and no other thread is inside a call.
    let child = unsafe { fork() };
    if child == 0 {
        let worked = std::panic::catch_unwind(|| (0..60).for_each(|i| embedded.work(&stripe, i % 9, plan)));
        // SAFETY: no code of the parent runs afterwards.
        unsafe { _exit(i32::from(worked.is_err())) };
    }
    let mut status = -1;
    // SAFETY: a child of ours, and a place for the number.
    assert_eq!(unsafe { waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0, "the child's work");
    (0..9).for_each(|i| embedded.work(&stripe, i, plan));
    // SAFETY: it is not used any more.
    unsafe { pantile_plan_free(plan) };
}
