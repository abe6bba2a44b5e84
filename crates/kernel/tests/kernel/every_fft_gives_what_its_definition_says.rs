//! Claim: for every additive FFT, length, alignment and store policy, every tier of this machine
//! writes the bytes that the definition gives, and no other byte. An invalid FFT is refused.

// Miri has no tier to compare with.
#![cfg(not(miri))]

use crate::common::Random;
use crate::every_program_gives_the_portable_bytes::{Computation, compare, times};
use pantile_kernel::{Fft, FftGroup, FftOutputs, Program, ProgramError, Step, Tier};

/// A Cantor basis: for each b after the first, b^2 + b is the element before it.
const CANTOR: [u8; 3] = [1, 214, 152];

/// Returns x^2 + x.
fn halved(x: u8) -> u8 {
    times(x, x) ^ x
}

/// Returns the points of the subspace.
fn subspace(points: usize) -> Vec<u8> {
    let bits = |n: usize| (0..3).filter(move |bit| n >> bit & 1 == 1);
    (0..points).map(|n| bits(n).fold(0, |x, bit| x ^ CANTOR[bit])).collect()
}

/// Returns the factors of the group of `points` points that begins with y.
fn factors(points: usize, y: u8) -> [u8; 7] {
    let xs = subspace(points);
    let mut factors = [0; 7];
    let mut next = 0;
    for level in 0..points.ilog2() {
        for first in (0..points).step_by(2 << level) {
            factors[next] = (0..level).fold(y ^ xs[first], |x, _| halved(x));
            next += 1;
        }
    }
    factors
}

/// Returns the values at x of the basis of Lin, Chung and Han: 1, X, X^2 + X and so on, the
/// products of the iterates of X^2 + X.
fn basis(points: usize, x: u8) -> [u8; 8] {
    let taken = [x, halved(x), halved(halved(x))];
    std::array::from_fn(|i| {
        let bits = (0..3).filter(|bit| i >> bit & 1 == 1);
        if i < points { bits.fold(1, |product, bit| times(product, taken[bit])) } else { 0 }
    })
}

/// Returns the steps of an FFT from the definition, for groups that begin with `ys` and the origin.
/// A column at a point z adds to the states the coefficients of a polynomial: the one that is 1 at
/// z and 0 at the other points of its group.
fn steps_of_fft(fft: &Fft, ys: &[u8]) -> Vec<Step> {
    let points = fft.points;
    let xs = subspace(points);
    let mut states: Vec<Vec<(usize, u8)>> = vec![Vec::new(); points];
    for (group, &y) in fft.groups.iter().chain([&fft.origin]).zip(ys.iter().chain([&0])) {
        assert_eq!(group.factors, factors(points, y), "the group of {y}");
        // Coefficients from values: the inverse of the matrix of values of the basis, column by
        // column by elimination.
        let mut rows: Vec<Vec<u8>> = (0..points)
            .map(|i| {
                let values = basis(points, y ^ xs[i]);
                values[..points].iter().copied().chain((0..points).map(|j| u8::from(i == j))).collect()
            })
            .collect();
        for pivot in 0..points {
            let found =
                (pivot..points).find(|&r| rows[r][pivot] != 0).expect("values determine a polynomial");
            rows.swap(pivot, found);
            let inverse = (1..=255).find(|&c| times(c, rows[pivot][pivot]) == 1).expect("not zero");
            rows[pivot].iter_mut().for_each(|x| *x = times(*x, inverse));
            for r in (0..points).filter(|&r| r != pivot) {
                let (factor, row) = (rows[r][pivot], rows[pivot].clone());
                rows[r].iter_mut().zip(row).for_each(|(x, c)| *x ^= times(factor, c));
            }
        }
        for (i, buffer) in group.columns[..points].iter().enumerate() {
            if let Some(buffer) = *buffer {
                states.iter_mut().zip(&rows).for_each(|(state, row)| state.push((buffer, row[points + i])));
            }
        }
    }
    let step = |target: usize, row: [u8; 8]| {
        let of_state = |(state, c): (&Vec<(usize, u8)>, u8)| {
            state.iter().map(|&(buffer, x)| (buffer, times(c, x))).collect::<Vec<_>>()
        };
        // Terms of the same buffer are combined.
        let mut terms: Vec<(usize, u8)> = Vec::new();
        for (buffer, c) in states.iter().zip(row).flat_map(of_state) {
            match terms.iter_mut().find(|term| term.0 == buffer) {
                Some(term) => term.1 ^= c,
                None => terms.push((buffer, c)),
            }
        }
        Step { target, terms }
    };
    match &fft.outputs {
        FftOutputs::Solved(rows) => rows.iter().map(|&(target, row)| step(target, row)).collect(),
        FftOutputs::Values(buffers) => {
            let wanted = buffers.iter().zip(&xs);
            wanted.filter_map(|(buffer, &x)| Some(step((*buffer)?, basis(points, x)))).collect()
        }
    }
}

#[test]
fn an_fft_gives_what_its_definition_says() {
    let seed = 0x5eed_0014;
    let mut random = Random(seed);
    for round in 0..64 {
        let points = if round % 8 < 5 { 4 } else { 8 };
        // Whole groups and groups that lack columns; also more groups than one kernel call
        // processes.
        let count = if round == 5 || round == 9 { 40 } else { random.below(7) };
        let lacking = round % 3;
        let ys: Vec<u8> = (0..count).map(|_| random.next() as u8).collect();
        let group = |random: &mut Random, g: usize| {
            let is_there =
                |random: &mut Random, i: usize| i < points && (lacking == 0 || random.below(2 + lacking) > 0);
            let columns = std::array::from_fn(|i| is_there(random, i).then_some(points * g + i));
            FftGroup { columns, factors: factors(points, ys[g]) }
        };
        let mut groups: Vec<FftGroup> = (0..count).map(|g| group(&mut random, g)).collect();
        if let Some(first) = groups.first_mut().filter(|_| lacking == 2) {
            let half = random.below(2) * points / 2;
            first.columns = std::array::from_fn(|i| (half..half + points / 2).contains(&i).then_some(i));
        }
        let first = points * groups.len();
        let output = |o: usize| first + points + o;
        let is_value = |i: usize| i < points && (i % 4 < 3 || round % 2 > 0);
        let outputs = match round % 4 {
            kind if kind == 0 || points == 8 => {
                FftOutputs::Values(std::array::from_fn(|i| is_value(i).then_some(output(i))))
            }
            kind => {
                let count = if kind == 1 { 4 } else { 1 + random.below(4) };
                let row = |random: &mut Random| std::array::from_fn(|_| random.next() as u8);
                let mut rows: Vec<(usize, [u8; 8])> =
                    (0..count).map(|o| (output(o), row(&mut random))).collect();
                if kind == 1 {
                    // The last row is the last state minus the other rows.
                    rows[3].1 = std::array::from_fn(|state| {
                        u8::from(state == 3) ^ rows[0].1[state] ^ rows[1].1[state] ^ rows[2].1[state]
                    });
                }
                FftOutputs::Solved(rows)
            }
        };
        let has_origin = points == 4 && random.below(3) > 0;
        let columns =
            std::array::from_fn(|i| (i < 4 && has_origin && random.below(4) > 0).then_some(first + i));
        let origin = FftGroup { columns, factors: factors(points, 0) };
        let fft = Fft { points, groups, origin, outputs };
        let steps = steps_of_fft(&fft, &ys);
        let expanded: Vec<Step> =
            fft.expanded().into_iter().map(|(target, terms)| Step { target, terms }).collect();
        assert_eq!(expanded, steps, "round {round}");
        let buffers = output(points);
        for tier in Tier::available().into_iter().filter(|&tier| tier != Tier::Portable) {
            assert!(Program::fft_with_tier(tier, buffers, &fft).unwrap().is_some(), "{tier} has kernels");
        }
        let lens: &[usize] = match round {
            5 | 9 => &[100, 5000],
            0..9 => &[0, 1, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 1024, 1025, 2500],
            _ => &[777],
        };
        for &len in lens {
            let shift = random.below(64);
            let what = format!("seed {seed:#x}, round {round}");
            compare(buffers, Computation::Fft(&fft), len, 5200, &|i| (shift + i * 11) % 64, &what);
            compare(buffers, Computation::Fft(&fft), len, 8192, &|_| 0, &what);
        }
    }
}

#[test]
fn an_fft_of_other_points_or_outputs_is_refused() {
    let of_points = |points: usize, outputs| {
        let column = |at: usize, buffer: usize| std::array::from_fn(|i| (i == at).then_some(buffer));
        let group = FftGroup { columns: column(0, 0), factors: factors(4, 8) };
        let origin = FftGroup { columns: column(1, 1), factors: factors(4, 0) };
        let fft = Fft { points, groups: vec![group], origin, outputs };
        Program::fft(8, &fft).map(|made| made.is_some()).map_err(|error| (error.to_string(), error))
    };
    let refused = |outputs| of_points(4, outputs);
    let rows = |count: usize| FftOutputs::Solved((0..count).map(|o| (2 + o, [1; 8])).collect());
    let value = |buffer: usize| FftOutputs::Values(std::array::from_fn(|i| (i == 0).then_some(buffer)));
    for points in [0, 1, 2, 3, 5, 16, usize::MAX] {
        let (said, error) = of_points(points, value(2)).unwrap_err();
        assert_eq!(error, ProgramError::FftPoints { have: points });
        assert!(said.contains(&format!("{points} points")) && said.contains("4 and for 8"), "{said}");
    }
    for (outputs, have) in [(FftOutputs::Values([None; 8]), 0), (rows(0), 0), (rows(5), 5)] {
        let (said, error) = refused(outputs).unwrap_err();
        assert_eq!(error, ProgramError::FftOutputs { have, most: 4 });
        assert!(said.contains(&format!("{have} outputs")) && said.contains("1 to 4"), "{said}");
    }
    assert!(refused(rows(4)).is_ok());
    let twice = FftOutputs::Solved(vec![(2, [1; 8]), (2, [1; 8])]);
    assert!(matches!(refused(twice).unwrap_err().1, ProgramError::TargetInUse { target: 2, .. }));
    assert!(matches!(refused(value(1)).unwrap_err().1, ProgramError::TargetInUse { target: 1, .. }));
    assert!(matches!(refused(value(8)).unwrap_err().1, ProgramError::BufferOutOfRange { buffer: 8, .. }));
}
