//! Searches for the first byte that is not zero, plain XOR, and a test that buffers do not overlap.
//!
//! Written as folds over blocks, a shape that the compiler turns into vector code on every target.
//! On x86-64 the same code is compiled a second time for AVX2, which needs no intrinsics and cannot
//! differ. A block is examined byte by byte only if it is known to contain the answer.

/// The bytes of one step of a scan: four cache lines, so that the test for zero is a small part of
/// it.
const BLOCK_BYTES: usize = 256;

/// Calls the AVX2 copy of `$body` if the machine has AVX2, and `$body` itself if not.
macro_rules! widest {
    ($body:ident($($arg:ident: $type:ty),*) -> $result:ty) => {{
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            #[target_feature(enable = "avx2")]
            fn avx2($($arg: $type),*) -> $result {
                $body($($arg),*)
            }
            if is_x86_feature_detected!("avx2") {
                // SAFETY: the machine has AVX2, the only thing that the function asks for.
                return unsafe { avx2($($arg),*) };
            }
        }
        $body($($arg),*)
    }};
}

/// Returns the offset of the first non-zero byte at or after `from`; `None` if there is none, or if
/// `from` is past the end.
pub fn first_nonzero(bytes: &[u8], from: usize) -> Option<usize> {
    let rest = bytes.get(from..)?;
    let clean = leading_zero_bytes(rest);
    rest[clean..].iter().position(|&byte| byte != 0).map(|at| from + clean + at)
}

/// Returns the first offset at or after `from` at which any of `buffers` is not zero.
///
/// Shape: the buffers may differ in length; a short one counts as zero past its end. Cost: one pass
/// over each buffer up to the answer, in pages, so that no buffer is read far past the answer in
/// another one.
pub fn first_nonzero_any(buffers: &[&[u8]], from: usize) -> Option<usize> {
    const WINDOW_BYTES: usize = 4096;
    let end = buffers.iter().map(|buffer| buffer.len()).max()?;
    let mut start = from;
    while start < end {
        let stop = end.min(start.saturating_add(WINDOW_BYTES));
        let found =
            buffers.iter().filter_map(|buffer| first_nonzero(&buffer[..stop.min(buffer.len())], start)).min();
        if found.is_some() {
            return found;
        }
        start = stop;
    }
    None
}

/// Computes `dst[i] ^= src[i]`. Panics if the lengths differ.
pub fn xor_into(dst: &mut [u8], src: &[u8]) {
    assert_eq!(dst.len(), src.len(), "xor_into takes two buffers of one length");
    add(dst, src);
}

/// Returns true if no output of `len` bytes shares bytes with a source or with another output.
pub fn are_apart(sources: &[*const u8], outputs: &[*mut u8], len: usize) -> bool {
    let Some(reach) = len.checked_sub(1) else { return true };
    match sources.len() * outputs.len() {
        0..8 => no_two_are_near(sources, outputs, reach),
        _ => none_is_near(sources, outputs, reach),
    }
}

#[inline(always)]
fn no_two_are_near(sources: &[*const u8], outputs: &[*mut u8], reach: usize) -> bool {
    let mut any = false;
    for (number, output) in outputs.iter().enumerate() {
        // Two buffers begin at most `reach` apart if this difference is at most twice `reach`.
        let from = output.addr().wrapping_add(reach);
        let near = |other: usize| from.wrapping_sub(other) <= reach.wrapping_mul(2);
        any |= sources.iter().fold(false, |any, source| any | near(source.addr()));
        any |= outputs[..number].iter().fold(false, |any, other| any | near(other.addr()));
    }
    !any
}

fn none_is_near(sources: &[*const u8], outputs: &[*mut u8], reach: usize) -> bool {
    widest!(no_two_are_near(sources: &[*const u8], outputs: &[*mut u8], reach: usize) -> bool)
}

/// Returns the number of zero bytes at the start, in whole blocks.
fn leading_zero_bytes(bytes: &[u8]) -> usize {
    #[inline(always)]
    fn body(bytes: &[u8]) -> usize {
        let (blocks, _) = bytes.as_chunks::<BLOCK_BYTES>();
        let is_zero = |block: &&[u8; BLOCK_BYTES]| block.iter().fold(0, |any, &byte| any | byte) == 0;
        blocks.iter().take_while(is_zero).count() * BLOCK_BYTES
    }
    widest!(body(bytes: &[u8]) -> usize)
}

/// Adds `src` to the start of `dst`.
fn add(dst: &mut [u8], src: &[u8]) {
    #[inline(always)]
    fn body(dst: &mut [u8], src: &[u8]) {
        dst.iter_mut().zip(src).for_each(|(d, s)| *d ^= s);
    }
    widest!(body(dst: &mut [u8], src: &[u8]) -> ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_byte_is_found_from_everywhere() {
        let lengths = if cfg!(miri) { 255..258 } else { 0..600 };
        for len in lengths {
            let zeros = vec![0; len];
            assert_eq!(first_nonzero(&zeros, 0), None);
            for at in (0..len).step_by(if cfg!(miri) { 13 } else { 1 }) {
                let mut bytes = zeros.clone();
                bytes[at] = 1 << (at % 8);
                for from in (0..=len + 1).step_by(if len < 70 { 1 } else { 7 }).chain([at, at + 1]) {
                    let wanted = (from <= at).then_some(at);
                    assert_eq!(first_nonzero(&bytes, from), wanted, "len {len} at {at} from {from}");
                }
            }
        }
    }

    #[test]
    fn the_first_of_two_is_found() {
        let mut bytes = vec![0; 300];
        (bytes[70], bytes[210]) = (9, 9);
        assert_eq!(first_nonzero(&bytes, 0), Some(70));
        assert_eq!(first_nonzero(&bytes, 71), Some(210));
        assert_eq!(first_nonzero(&bytes, 211), None);
    }

    #[test]
    fn the_earliest_of_all_buffers_is_found() {
        let mut buffers = vec![vec![0u8; 9000]; 3];
        buffers[0][8999] = 1;
        buffers[1][5000] = 1;
        buffers[2][4999] = 1;
        let views: Vec<&[u8]> = buffers.iter().map(Vec::as_slice).collect();
        assert_eq!(first_nonzero_any(&views, 0), Some(4999));
        assert_eq!(first_nonzero_any(&views, 5000), Some(5000));
        assert_eq!(first_nonzero_any(&views, 5001), Some(8999));
        assert_eq!(first_nonzero_any(&views, 9000), None);
        assert_eq!(first_nonzero_any(&views, usize::MAX), None);
        assert_eq!(first_nonzero_any(&[], 0), None);
    }

    #[test]
    fn a_short_buffer_is_zero_past_its_end() {
        assert_eq!(first_nonzero_any(&[&[0; 10], &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5]], 0), Some(11));
    }

    #[test]
    fn xor_into_is_its_own_inverse() {
        for len in (0..300).step_by(if cfg!(miri) { 23 } else { 1 }) {
            let src: Vec<u8> = (0..len).map(|i| (i % 251) as u8 | 1).collect();
            let before: Vec<u8> = (0..len).map(|i| (i * 7 % 251) as u8).collect();
            let mut dst = before.clone();
            xor_into(&mut dst, &src);
            assert!(dst.iter().zip(&before).zip(&src).all(|((d, b), s)| d ^ b == *s));
            xor_into(&mut dst, &src);
            assert_eq!(dst, before);
        }
    }

    #[test]
    #[should_panic(expected = "one length")]
    fn xor_into_refuses_different_lengths() {
        xor_into(&mut [0; 3], &[0; 4]);
    }

    #[test]
    fn only_what_is_written_must_be_apart() {
        let source = std::ptr::without_provenance::<u8>;
        let output = std::ptr::without_provenance_mut::<u8>;
        assert!(are_apart(&[source(100), source(100), source(105)], &[output(110)], 5));
        assert!(are_apart(&[], &[output(100), output(110), output(90)], 10));
        assert!(!are_apart(&[], &[output(100), output(109)], 10));
        assert!(!are_apart(&[], &[output(109), output(100)], 10));
        assert!(!are_apart(&[source(91)], &[output(100)], 10));
        assert!(!are_apart(&[source(109)], &[output(100)], 10));
        assert!(are_apart(&[source(90), source(110)], &[output(100)], 10));
        assert!(are_apart(&[source(100)], &[output(100)], 0));
        assert!(!are_apart(&[source(100)], &[output(100)], 1));
    }

    #[test]
    fn many_buffers_are_compared_as_few_are() {
        for at in (0..40).step_by(if cfg!(miri) { 7 } else { 1 }) {
            let sources: Vec<*const u8> = (1..=20).map(|i| std::ptr::without_provenance(i * 100)).collect();
            for near in [0, 9, 10, 91] {
                let place = 100 * (at / 2 + 1) + near;
                let mut outputs: Vec<*mut u8> =
                    (21..25).map(|i| std::ptr::without_provenance_mut(i * 100)).collect();
                outputs[at % 4] = std::ptr::without_provenance_mut(place);
                let apart = are_apart(&sources, &outputs, 10);
                assert_eq!(apart, near == 10, "{at} {near}");
                assert_eq!(apart, no_two_are_near(&sources, &outputs, 9));
            }
        }
    }
}
