//! x86-64: 32-byte vectors since 2013 (AVX2), one-instruction products since 2019 (GFNI), 64-byte
//! vectors.

/// A loop over outputs 0..M that is written out. The compiler stops unrolling nested loops of this
/// size, and then keeps the sums in memory instead of registers: 31 instead of 55 GB/s with four
/// outputs.
macro_rules! for_each_output {
    ($o:ident < $m:ident $body:block) => {
        for_each_output!(@ $o $m $body 0 1 2 3 4 5 6 7)
    };
    (@ $o:ident $m:ident $body:block $($n:literal)*) => {
        $(if $n < $m {
            #[allow(non_upper_case_globals)]
            const $o: usize = $n;
            $body
        })*
    };
}

/// The `dot` of a module that stores in a given way, by so many columns for each number of outputs;
/// `None` for numbers that are not named.
macro_rules! pick_dot {
    ($shape:expr, $stores:ident by $columns:ident; $($m:literal)*) => {
        match ($shape.outputs, $shape.ones) {
            $(
                ($m, false) => Some(dot::<$m, { $columns[$m] }, false, $stores, PLAIN> as Kernel<_>),
                ($m, true) => Some(dot::<$m, { $columns[$m] }, true, $stores, PLAIN> as Kernel<_>),
            )*
            _ => None,
        }
    };
}

/// The same for those that solve before they store, with bits added to their form.
macro_rules! pick_solving {
    ($shape:expr, $stores:ident by $columns:ident, $added:expr; $($m:literal)*) => {
        match ($shape.outputs, $shape.ones, $shape.last_by_sum) {
            $(
                ($m, false, false) => Some(dot::<$m, { $columns[$m] }, false, $stores, { SOLVED | $added }> as Kernel<_>),
                ($m, true, false) => Some(dot::<$m, { $columns[$m] }, true, $stores, { SOLVED | $added }> as Kernel<_>),
                ($m, true, true) => Some(dot::<$m, { $columns[$m] }, true, $stores, { LAST_BY_SUM | $added }> as Kernel<_>),
            )*
            _ => None,
        }
    };
}

/// The same for those of expanded systems.
macro_rules! pick_expanded {
    ($outputs:expr, $stores:ident by $columns:ident; $($m:literal)*) => {
        match $outputs {
            $($m => Some(dot::<$m, { $columns[$m] }, true, $stores, EXPANDED> as Kernel<_>),)*
            _ => None,
        }
    };
}

/// The `change` of a module; `None` for numbers of outputs that are not named.
macro_rules! pick_change {
    ($outputs:expr, $ones:expr; $($m:literal)*) => {
        match ($outputs, $ones) {
            $(
                ($m, false) => Some(change::<$m, false> as Kernel<_>),
                ($m, true) => Some(change::<$m, true> as Kernel<_>),
            )*
            _ => None,
        }
    };
}

/// The `fft` or `fft8` of a module that stores in a given way, by so many columns for each number
/// of points; `None` for what it does not finish.
macro_rules! pick_fft {
    ($points:expr, $finish:expr, $stores:ident by $columns:ident) => {
        match ($points, $finish) {
            (4, Finish::States) => Some(fft::<{ $columns[0] }, $stores, STATES_ALONE> as FftKernel<_>),
            (4, Finish::Values) => Some(fft::<{ $columns[0] }, $stores, VALUES>),
            (4, Finish::Rows) => Some(fft::<{ $columns[0] }, $stores, ROWS>),
            (4, Finish::RowsAndWhatIsLeft) => Some(fft::<{ $columns[0] }, $stores, ROWS_AND_LEFT>),
            (8, Finish::States) => Some(fft8::<{ $columns[1] }, $stores, STATES_ALONE>),
            (8, Finish::Values) => Some(fft8::<{ $columns[1] }, $stores, VALUES>),
            _ => None,
        }
    };
}

/// As [`for_each_output`], for the columns of a visit.
macro_rules! for_each_column {
    ($o:ident < $m:ident $body:block) => {
        for_each_output!(@ $o $m $body 0 1 2 3 4 5 6 7 8 9 10 11 12 13)
    };
}

/// As [`for_each_output`], for the states of Horner's rule and of an FFT.
macro_rules! for_each_state {
    ($p:ident $body:block) => {
        for_each_state!(@ $p $body 0 1 2 3)
    };
    (@ $p:ident $body:block $($n:literal)*) => {
        $({
            #[allow(non_upper_case_globals)]
            const $p: usize = $n;
            $body
        })*
    };
}

#[macro_use]
mod loops;
#[macro_use]
mod xor_loops;

mod ahead;
mod assembler;
pub(crate) mod avx2;
pub(crate) mod avx2_gfni;
pub(crate) mod avx512_gfni;
mod partial;
pub(crate) mod xor_code;

use std::arch::x86_64::{__cpuid, __cpuid_count, _mm_sfence};
use std::sync::OnceLock;

use crate::portable;
use crate::terms::{FEW_STREAMS, FewStreams, Groups};

/// Multiplication by c as the 8 x 8 bit matrix that `vgf2p8affineqb` takes.
///
/// The instruction computes bit i of its result as the parity of `matrix.byte[7 - i] & x`. Bit i of
/// c * x is the sum over j of x_j times bit i of c * 2^j, so byte 7 - i has bit j = bit i of c *
/// 2^j. Source: Intel SDM, volume 2, GF2P8AFFINEQB; checked against the portable table by every
/// kernel test.
fn affine_matrix(c: u8) -> u64 {
    AFFINE_MATRICES[usize::from(c)]
}

/// All of them: a recovery that is planned for one stripe must not take longer to compile than to
/// run.
static AFFINE_MATRICES: [u64; 256] = affine_matrices();

const fn affine_matrices() -> [u64; 256] {
    let mut matrices = [0; 256];
    let mut c = 0;
    while c < 256 {
        let mut j = 0;
        while j < 8 {
            let image = portable::product(c as u8, 1 << j);
            let mut i = 0;
            while i < 8 {
                matrices[c] |= ((image >> i & 1) as u64) << (8 * (7 - i) + j);
                i += 1;
            }
            j += 1;
        }
        c += 1;
    }
    matrices
}

/// What a kernel stores: its sums; what follows from them by
/// [`Job::solution`](crate::engine::Job::solution); the same, the last output being what the others
/// leave of sum 0. Engines may add bits of their own.
const PLAIN: u8 = 0;
const SOLVED: u8 = 1;
const LAST_BY_SUM: u8 = 2;

/// A form of its own: all sums but sum 0 are outputs, and the last output is what those taken leave
/// of it ([`crate::expand`]).
const EXPANDED: u8 = 8;

/// Added to a form: zeros and ones of the solution are looked for, visit by visit. Where parities
/// are lost with data half of its products are such; whoever has none loses by looking.
const LOOKING: u8 = 4;

/// What an additive FFT finishes: [`Finish`](crate::fft::Finish).
const STATES_ALONE: u8 = 0;
const VALUES: u8 = 1;
const ROWS: u8 = 2;
const ROWS_AND_LEFT: u8 = 3;

/// Whether a factor is the first of its level, of so many points.
const fn is_first(points: usize, factor: usize) -> bool {
    factor < points && (points - factor).is_power_of_two()
}

/// Where kernels of networks store: [`To`](crate::network::To).
const TO_SLOTS: u8 = 0;
const TO_BUFFERS: u8 = 1;
const TO_PAST: u8 = 2;

/// Bytes of a line of any cache, and what goes past it as a whole.
const LINE: usize = crate::packets::LINE_BYTES;

/// Ways of the first-level cache of Zen 3 and Zen 4: of more page-aligned buffers than that it does
/// not hold a line each. What comes with a line that is read is evicted before the next visit then;
/// so a visit takes all that it can.
const WAYS: usize = 8;

/// The same of Ice Lake.
const WAYS_ICE_LAKE: usize = 12;

/// How a kernel stores, through the cache or past it, and what it fetches into the first-level
/// cache while it reads: nothing, what its next visit reads, what one of the visits after it does,
/// or what comes much later.
const CACHED: u8 = 0;
const CACHED_NEXT: u8 = 1;
const CACHED_LATER: u8 = 2;
/// Through the cache, of less than a vector, where whole ones are taken one at a time, too: these
/// are compiled apart, without what only this needs. A mask costs nothing (AVX-512, two vectors and
/// more).
const SHORT: u8 = 3;
const PAST: u8 = 4;
const PAST_NEXT: u8 = 5;
const PAST_LATER: u8 = 6;
const PAST_AHEAD: u8 = 7;

/// Whether kernels store past the cache.
const fn is_past(stores: u8) -> bool {
    stores >= PAST
}

/// How kernels store here. To fetch far ahead helps hardware that follows many streams (Sapphire
/// Rapids: 16 % gained at (16,4) from memory; Ice Lake: 16 to 29), and takes from hardware that
/// follows few what it has (Zen 4: half is lost at (10,4)). That wants to be told what comes next,
/// not more; or nothing at all (Zen 5).
fn stores(streaming: bool) -> u8 {
    match (streaming, Kind::of_this_processor()) {
        (false, _) => CACHED,
        (true, Kind::SapphireRapids | Kind::IceLake) => PAST_AHEAD,
        (true, Kind::Zen3 | Kind::Zen4) => PAST_NEXT,
        (true, Kind::Zen5) => PAST,
    }
}

/// How far ahead a kernel fetches; 0: nothing. What twice as far gains and loses, and
/// `prefetchnta`, is in NOTES.md.
const fn fetched_ahead_bytes(stores: u8) -> usize {
    match stores {
        PAST_NEXT | CACHED_NEXT => 128,
        PAST_LATER | CACHED_LATER => 256,
        PAST_AHEAD => 1024,
        _ => 0,
    }
}

/// Orders streaming stores before everything that follows.
pub(crate) fn fence() {
    // SAFETY: SSE is part of x86-64.
    unsafe { _mm_sfence() };
}

/// The processors whose memory was measured. Any other is taken for the one that is most like it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Of Intel and all other makers: follows as many streams as there are.
    SapphireRapids,
    /// Of Intel, with AVX-512 and less than 2 MiB of second-level cache: follows as many, and has a
    /// slow cache behind that.
    IceLake,
    /// Of AMD, without AVX-512: follows few streams, and has 512 KiB of second-level cache.
    Zen3,
    /// Of AMD, with AVX-512: follows few streams, and has 1 MiB of it.
    Zen4,
    /// Of AMD, of family 26 or later: follows some more, if they are read in an order that does not
    /// mislead it.
    Zen5,
}

impl Kind {
    #[cfg(test)]
    pub(crate) const ALL: [Kind; 5] =
        [Kind::SapphireRapids, Kind::IceLake, Kind::Zen3, Kind::Zen4, Kind::Zen5];

    fn of_this_processor() -> Kind {
        #[cfg(test)]
        if let Some(kind) = tests::TAKEN_FOR.get() {
            return kind;
        }
        static KIND: OnceLock<Kind> = OnceLock::new();
        // Asked once: CPUID traps into a hypervisor.
        *KIND.get_or_init(|| {
            let avx512 = is_x86_feature_detected!("avx512f");
            match &vendor() {
                b"AuthenticAMD" => match (avx512, family()) {
                    (false, _) => Kind::Zen3,
                    (true, ..=25) => Kind::Zen4,
                    (true, _) => Kind::Zen5,
                },
                b"GenuineIntel" if avx512 && second_level_cache_bytes() < 2 << 20 => Kind::IceLake,
                _ => Kind::SapphireRapids,
            }
        })
    }
}

/// How what streams is read here.
fn few_streams() -> Option<FewStreams> {
    match Kind::of_this_processor() {
        Kind::SapphireRapids => None,
        // No groups, but kernels for what lies in its third cache; what is more lies in memory, and
        // is fetched far ahead.
        Kind::IceLake => Some(FewStreams {
            most: usize::MAX,
            ways: [WAYS_ICE_LAKE, usize::MAX],
            most_far_bytes: 10 << 20,
            ..FEW_STREAMS
        }),
        // Doubling asks for more at once than products do: raid6:16, 1 MiB staggered, all sources
        // at once 5, in groups 11 GB/s.
        Kind::Zen3 => Some(FewStreams {
            most_apart_doubling: FEW_STREAMS.most,
            groups: Groups { tile_bytes: 16 * 1024, ..FEW_STREAMS.groups },
            ..FEW_STREAMS
        }),
        Kind::Zen4 => Some(FEW_STREAMS),
        // Apart, no groups, but kernels for what lies far; these gain from the first-level cache
        // on.
        Kind::Zen5 => Some(FewStreams { most_apart: usize::MAX, most_far: 13, far_bytes: 0, ..FEW_STREAMS }),
    }
}

/// From which footprint on outputs are stored past the cache if the caller leaves it to us: what
/// the largest second-level cache of our machines holds, or what this one does where the third is
/// as slow as memory is to store to.
pub(crate) fn streaming_footprint_bytes() -> usize {
    match Kind::of_this_processor() {
        Kind::IceLake => 5 << 18,
        _ => crate::dot::STREAMING_FOOTPRINT_BYTES,
    }
}

/// Who made the processor. Source: Intel SDM and AMD APM volume 3, CPUID leaf 0.
#[allow(unused_unsafe, reason = "CPUID became a safe function after the oldest compiler that we support")]
fn vendor() -> [u8; 12] {
    // SAFETY: every x86-64 processor has CPUID.
    let said = unsafe { __cpuid(0) };
    let mut vendor = [0; 12];
    for (bytes, register) in vendor.chunks_exact_mut(4).zip([said.ebx, said.edx, said.ecx]) {
        bytes.copy_from_slice(&register.to_le_bytes());
    }
    vendor
}

/// Which generation of its maker's processors this is. Source: Intel SDM and AMD APM volume 3,
/// CPUID leaf 1.
#[allow(unused_unsafe, reason = "as above")]
fn family() -> u32 {
    // SAFETY: as above.
    let said = unsafe { __cpuid(1) }.eax;
    match said >> 8 & 15 {
        15 => 15 + (said >> 20 & 255),
        family => family,
    }
}

/// What a processor of Intel says of its second-level cache; 0 if nothing. Source: Intel SDM, CPUID
/// leaf 4.
#[allow(unused_unsafe, reason = "as above")]
fn second_level_cache_bytes() -> usize {
    // SAFETY: as above.
    let caches = (0..8).map(|i| unsafe { __cpuid_count(4, i) }).take_while(|said| said.eax & 31 != 0);
    let mut second = caches.filter(|said| said.eax >> 5 & 7 == 2);
    second.next().map_or(0, |said| {
        let (ways, parts, line) = ((said.ebx >> 22) + 1, (said.ebx >> 12 & 1023) + 1, (said.ebx & 4095) + 1);
        ways as usize * parts as usize * line as usize * (said.ecx as usize + 1)
    })
}

/// Does what counts bits with the instructions for that, if the machine has them. Only what is
/// inlined has them: loops, not iterators.
#[inline]
pub(crate) fn counting<R>(work: impl FnOnce() -> R) -> R {
    #[target_feature(enable = "popcnt,bmi1,bmi2")]
    fn with_instructions<R>(work: impl FnOnce() -> R) -> R {
        work()
    }
    let has_them = is_x86_feature_detected!("popcnt")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2");
    // SAFETY: the machine has them.
    if has_them { unsafe { with_instructions(work) } } else { work() }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::cell::Cell;

    use super::Kind;

    thread_local! {
        /// What this processor is taken for, if it is not asked.
        pub(super) static TAKEN_FOR: Cell<Option<Kind>> = const { Cell::new(None) };
    }

    /// Does something on each kind of processor.
    pub(crate) fn on_each(mut each: impl FnMut()) {
        for kind in Kind::ALL {
            on(kind, &mut each);
        }
    }

    /// Does something on a kind of processor.
    pub(crate) fn on<T>(kind: Kind, something: impl FnOnce() -> T) -> T {
        TAKEN_FOR.set(Some(kind));
        let done = something();
        TAKEN_FOR.set(None);
        done
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn what_the_processor_says_is_what_the_system_names() {
        let said = std::fs::read_to_string("/proc/cpuinfo").unwrap();
        let named = |what: &str| {
            let rest = said.lines().find_map(|line| line.strip_prefix(what)).unwrap();
            rest.trim_start_matches([' ', '\t', ':']).to_string()
        };
        assert_eq!(named("vendor_id").as_bytes(), super::vendor());
        assert_eq!(named("cpu family"), super::family().to_string());
        if super::vendor() == *b"GenuineIntel" {
            let l2 = std::fs::read_to_string("/sys/devices/system/cpu/cpu0/cache/index2/size");
            // Some virtual machines do not say.
            if let Ok(l2) = l2 {
                assert_eq!(l2.trim(), format!("{}K", super::second_level_cache_bytes() / 1024));
            }
        }
    }
}
