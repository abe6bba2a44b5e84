//! The traits of the processor: its kind, the number of streams that its prefetcher follows, its
//! caches, and its instructions for counting bits.

use std::arch::x86_64::{__cpuid, __cpuid_count, _mm_sfence};
use std::sync::OnceLock;

use crate::streams::{FEW_STREAMS, FewStreams, Groups, STREAMING_FOOTPRINT_BYTES};

/// The ways of the first-level cache of Ice Lake.
const WAYS_ICE_LAKE: usize = 12;

/// Orders streaming stores before everything that follows.
pub(crate) fn fence() {
    // SAFETY: SSE is part of x86-64.
    unsafe { _mm_sfence() };
}

/// Prefetches a line that will be read soon; any address is valid.
#[cfg(feature = "fft")]
#[inline(always)]
pub(crate) fn fetch(line: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: SSE is part of x86-64; a prefetch of an invalid address does nothing.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) };
}

/// The processors whose memory was measured. Any other is treated like the most similar one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Any other processor, of Intel and all other makers except AMD: follows all streams.
    SapphireRapids,
    /// Intel, with AVX-512 and less than 2 MiB of second-level cache: follows all streams, and has
    /// a slow third-level cache.
    IceLake,
    /// AMD, without AVX-512: follows few streams, and has 512 KiB of second-level cache.
    Zen3,
    /// AMD, with AVX-512: follows few streams, and has 1 MiB of second-level cache.
    Zen4,
    /// AMD, family 26 or later: follows some more streams, if they are read in an order that its
    /// prefetcher recognizes.
    Zen5,
}

impl Kind {
    #[cfg(test)]
    pub(crate) const ALL: [Kind; 5] =
        [Kind::SapphireRapids, Kind::IceLake, Kind::Zen3, Kind::Zen4, Kind::Zen5];

    pub(super) fn of_this_processor() -> Kind {
        #[cfg(test)]
        if let Some(kind) = tests::TAKEN_FOR.get() {
            return kind;
        }
        static KIND: OnceLock<Kind> = OnceLock::new();
        // CPUID is executed once per process, because it traps into a hypervisor.
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

/// Returns the limits for many streams on this processor.
pub(super) fn few_streams() -> Option<FewStreams> {
    match Kind::of_this_processor() {
        Kind::SapphireRapids => None,
        // Sources are not grouped, but there are kernels for sources in its third-level cache.
        // Larger sources are in memory and are fetched far ahead.
        Kind::IceLake => Some(FewStreams {
            most: usize::MAX,
            ways: [WAYS_ICE_LAKE, usize::MAX],
            most_far_bytes: 10 << 20,
            ..FEW_STREAMS
        }),
        // Doubling makes more requests at once than products do: raid6:16 with 1 MiB staggered runs
        // at 5 GB/s with all sources at once, and at 11 GB/s in groups.
        Kind::Zen3 => Some(FewStreams {
            most_apart_doubling: FEW_STREAMS.most,
            groups: Groups { tile_bytes: 16 * 1024, ..FEW_STREAMS.groups },
            ..FEW_STREAMS
        }),
        Kind::Zen4 => Some(FEW_STREAMS),
        // Streams that begin at different offsets of a page need no groups. Kernels for far streams
        // are faster for all sources beyond the first-level cache.
        Kind::Zen5 => Some(FewStreams { most_apart: usize::MAX, most_far: 13, far_bytes: 0, ..FEW_STREAMS }),
    }
}

/// The footprint above which outputs are stored past the cache under `Stores::Auto`. It is the
/// largest second-level cache of the measured machines, or that of this processor if stores to its
/// third-level cache are as slow as to memory.
pub(crate) fn streaming_footprint_bytes() -> usize {
    match Kind::of_this_processor() {
        Kind::IceLake => 5 << 18,
        _ => STREAMING_FOOTPRINT_BYTES,
    }
}

/// Returns the maker of the processor. Source: Intel SDM and AMD APM volume 3, CPUID leaf 0.
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

/// Returns the family number of the processor. Source: Intel SDM and AMD APM volume 3, CPUID leaf
/// 1.
#[allow(unused_unsafe, reason = "as above")]
fn family() -> u32 {
    // SAFETY: as above.
    let said = unsafe { __cpuid(1) }.eax;
    match said >> 8 & 15 {
        15 => 15 + (said >> 20 & 255),
        family => family,
    }
}

/// Returns the size of the second-level cache of an Intel processor; 0 if unknown. Source: Intel
/// SDM, CPUID leaf 4.
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

/// Runs work that counts bits with the instructions for it, if the machine has them. Only inlined
/// code uses them: loops, not iterators.
#[inline]
pub(crate) fn counting<R>(work: impl FnOnce() -> R) -> R {
    #[target_feature(enable = "popcnt,bmi1,bmi2")]
    fn with_instructions<R>(work: impl FnOnce() -> R) -> R {
        work()
    }
    let has_them = is_x86_feature_detected!("popcnt")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2");
    // SAFETY: the machine has the instructions.
    if has_them { unsafe { with_instructions(work) } } else { work() }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::cell::Cell;

    use super::Kind;

    thread_local! {
        /// The kind assumed in a test; `None`: the one that CPUID reports.
        pub(super) static TAKEN_FOR: Cell<Option<Kind>> = const { Cell::new(None) };
    }

    /// Runs a function as if on each kind of processor.
    pub(crate) fn on_each(mut each: impl FnMut()) {
        for kind in Kind::ALL {
            on(kind, &mut each);
        }
    }

    /// Runs a function as if on a kind of processor.
    pub(crate) fn on<T>(kind: Kind, something: impl FnOnce() -> T) -> T {
        TAKEN_FOR.set(Some(kind));
        let done = something();
        TAKEN_FOR.set(None);
        done
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn cpuid_and_the_system_name_the_same_processor() {
        let said = std::fs::read_to_string("/proc/cpuinfo").unwrap();
        let named = |what: &str| {
            let rest = said.lines().find_map(|line| line.strip_prefix(what)).unwrap();
            rest.trim_start_matches([' ', '\t', ':']).to_string()
        };
        assert_eq!(named("vendor_id").as_bytes(), super::vendor());
        assert_eq!(named("cpu family"), super::family().to_string());
        if super::vendor() == *b"GenuineIntel" {
            let l2 = std::fs::read_to_string("/sys/devices/system/cpu/cpu0/cache/index2/size");
            // Some virtual machines do not report it.
            if let Ok(l2) = l2 {
                assert_eq!(l2.trim(), format!("{}K", super::second_level_cache_bytes() / 1024));
            }
        }
    }
}
