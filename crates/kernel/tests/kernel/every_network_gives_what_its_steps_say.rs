//! Claim: for every network, length, alignment and store policy, every tier of this machine writes
//! the bytes that its steps give if each runs on whole columns, and no other byte. An invalid
//! network is refused.

// Miri has no tier to compare with, and is slow with the portable one.
#![cfg(not(miri))]

use pantile_kernel::{Lanes, Network, NetworkStep, Program, ProgramError, Stores, Tier};

/// Returns the product by definition: a carry-less product, then its remainder modulo 0x11d.
fn times(a: u8, b: u8) -> u8 {
    let wide = (0..8).filter(|bit| b >> bit & 1 == 1).fold(0u16, |sum, bit| sum ^ u16::from(a) << bit);
    (8..15).rev().fold(wide, |x, bit| if x >> bit & 1 == 1 { x ^ 0x11d << (bit - 8) } else { x }) as u8
}

/// Returns a table of products: `times(a, b)` at index `256 * a + b`.
fn products() -> Vec<u8> {
    (0..=255).flat_map(|a| (0..=255).map(move |b| times(a, b))).collect()
}

/// Runs a network step by step on whole columns, level by level. Returns the buffers.
fn carried_out(network: &Network, buffers: &[Vec<u8>], products: &[u8]) -> Vec<Vec<u8>> {
    let mut buffers = buffers.to_vec();
    let len = buffers[0].len();
    let product = |f: u8, x: &[u8]| -> Vec<u8> {
        x.iter().map(|&x| products[256 * usize::from(f) + usize::from(x)]).collect()
    };
    let add = |to: &mut Vec<u8>, x: &[u8]| to.iter_mut().zip(x).for_each(|(a, b)| *a ^= b);
    let mut slots = vec![vec![0xa5; len]; network.slots];
    for step in &network.steps {
        let (values, to): (Vec<Vec<u8>>, &Lanes) = match step {
            NetworkStep::Inverse { from, factors, to, adds } => {
                let points = factors.len() + 1;
                let mut v: Vec<Vec<u8>> = match from {
                    Lanes::Slots(first) => slots[*first..first + points].to_vec(),
                    Lanes::Buffers(list) => {
                        list.iter().map(|i| i.map_or(vec![0; len], |i| buffers[i].clone())).collect()
                    }
                };
                let mut of_level = &factors[..];
                for level in 0..points.ilog2() {
                    let distance = 1 << level;
                    for lo in (0..points).filter(|i| i & distance == 0) {
                        let mut sum = v[lo].clone();
                        add(&mut sum, &v[lo + distance]);
                        add(&mut v[lo], &product(of_level[lo / (2 * distance)], &sum));
                        v[lo + distance] = sum;
                    }
                    of_level = &of_level[(points / 2) >> level..];
                }
                for (i, v) in v.iter().enumerate() {
                    if !adds {
                        slots[to + i].fill(0);
                    }
                    add(&mut slots[to + i], v);
                }
                continue;
            }
            NetworkStep::Forward { from, factors, to } => {
                let points = factors.len() + 1;
                let mut v = slots[*from..from + points].to_vec();
                for level in (0..points.ilog2()).rev() {
                    let distance = 1 << level;
                    let of_level = &factors[points - (points >> level)..];
                    for lo in (0..points).filter(|i| i & distance == 0) {
                        let of_hi = product(of_level[lo / (2 * distance)], &v[lo + distance]);
                        add(&mut v[lo], &of_hi);
                        let sum = v[lo].clone();
                        add(&mut v[lo + distance], &sum);
                    }
                }
                (v, to)
            }
            NetworkStep::Scale { from, plus, factors, to } => {
                let lane = |i: usize| {
                    let mut x = from.map_or(vec![0; len], |first| slots[first + i].clone());
                    if let Some(buffer) = plus[i] {
                        add(&mut x, &buffers[buffer]);
                    }
                    product(factors[i], &x)
                };
                ((0..factors.len()).map(lane).collect(), to)
            }
        };
        for (i, value) in values.into_iter().enumerate() {
            match to {
                Lanes::Slots(first) => slots[first + i] = value,
                Lanes::Buffers(list) => {
                    if let Some(buffer) = list[i] {
                        buffers[buffer] = value;
                    }
                }
            }
        }
    }
    buffers
}

/// Returns the number of buffers, and a network with steps of every kind and transforms of `points`
/// points. Its lists of buffers have gaps and whole blocks of gaps; results are read again, in
/// place and elsewhere. `zeros` says whether the first factor of level 0, and those of the later
/// levels, are zero.
fn everything(points: usize, zeros: [bool; 2]) -> (usize, Network) {
    let factors = |seed: usize| -> Vec<u8> {
        let mut factors: Vec<u8> =
            (0..points - 1).map(|i| (seed * 29 + i * 57 + i / 5) as u8 | 1 << (i % 7)).collect();
        let mut first = 0;
        for level in 0..points.ilog2() {
            if zeros[usize::from(level > 0)] {
                factors[first] = 0;
            }
            first += (points / 2) >> level;
        }
        factors
    };
    let list = |group: usize, is_there: &dyn Fn(usize) -> bool| -> Vec<Option<usize>> {
        (0..points).map(|i| is_there(i).then_some(group * points + i)).collect()
    };
    let all = |_: usize| true;
    let (none, some) = (|_: usize| false, |i: usize| i % 3 != 1);
    let halves = |i: usize| i / (points / 2) == 1 || points > 16 && i < 3;
    let buffers = |group: usize, is_there: &dyn Fn(usize) -> bool| Lanes::Buffers(list(group, is_there));
    let slots = |group: usize| Lanes::Slots(group * points);
    let steps = vec![
        NetworkStep::Inverse { from: buffers(0, &some), factors: factors(1), to: 0, adds: false },
        NetworkStep::Inverse { from: buffers(1, &halves), factors: factors(2), to: 0, adds: true },
        NetworkStep::Inverse { from: buffers(1, &none), factors: factors(3), to: 0, adds: true },
        NetworkStep::Forward { from: 0, factors: factors(4), to: slots(1) },
        NetworkStep::Scale {
            from: Some(points),
            plus: list(1, &some),
            factors: vec![7; points],
            to: slots(1),
        },
        NetworkStep::Inverse { from: slots(1), factors: factors(5), to: 2 * points, adds: false },
        NetworkStep::Forward { from: 2 * points, factors: factors(6), to: slots(2) },
        NetworkStep::Scale {
            from: Some(2 * points),
            plus: list(0, &none),
            factors: factors(7).into_iter().chain([3]).collect(),
            to: buffers(2, &some),
        },
        NetworkStep::Inverse { from: buffers(2, &some), factors: factors(8), to: 0, adds: true },
        NetworkStep::Forward {
            from: 0,
            factors: factors(9),
            to: buffers(3, &|i| i % 7 == 2 || i >= points / 2),
        },
        NetworkStep::Scale { from: None, plus: list(0, &some), factors: vec![9; points], to: slots(1) },
        NetworkStep::Inverse { from: slots(1), factors: factors(10), to: 0, adds: true },
        NetworkStep::Inverse { from: buffers(0, &none), factors: factors(11), to: points, adds: false },
        NetworkStep::Forward { from: 0, factors: factors(12), to: buffers(4, &all) },
        NetworkStep::Scale {
            from: Some(points),
            plus: list(1, &all),
            factors: vec![1; points],
            to: buffers(5, &some),
        },
    ];
    (6 * points, Network { slots: 3 * points, steps })
}

/// Runs the network on every tier over painted buffers, and compares buffers and guards with the
/// result of the steps.
fn check(points: usize, zeros: [bool; 2], len: usize, pitch: usize, shift: usize, products: &[u8]) {
    let (count, network) = everything(points, zeros);
    let mut painted: Vec<u8> = (0..count * pitch + 8192).map(|i| (i % 251) as u8 ^ (i / 997) as u8).collect();
    let page = painted.as_ptr().align_offset(4096);
    let start = |i: usize| 64 + i * pitch + (shift * (i + 1)) % 64;
    let before: Vec<Vec<u8>> = (0..count).map(|i| painted[page + start(i)..][..len].to_vec()).collect();
    let mut wanted = painted.clone();
    for (i, buffer) in carried_out(&network, &before, products).iter().enumerate() {
        wanted[page + start(i)..][..len].copy_from_slice(buffer);
    }
    for tier in Tier::available() {
        for stores in [Stores::Cached, Stores::Streaming] {
            let program = Program::network_with_tier(tier, count, &network).unwrap().with_stores(stores);
            let kept = painted.clone();
            let (mut views, mut rest, mut passed) = (Vec::new(), &mut painted[page..], 0);
            for i in 0..count {
                let (view, tail) = rest.split_at_mut(start(i) - passed).1.split_at_mut(len);
                views.push(view);
                (rest, passed) = (tail, start(i) + len);
            }
            program.run(&mut views).unwrap();
            assert!(
                painted == wanted,
                "{points} points, zeros {zeros:?}, {tier}, {stores:?}, length {len}, shift {shift}"
            );
            painted = kept_at(painted, &kept);
        }
    }
}

/// Restores the earlier content in the same memory, so that buffers keep their addresses.
fn kept_at(mut memory: Vec<u8>, kept: &[u8]) -> Vec<u8> {
    memory.copy_from_slice(kept);
    memory
}

/// True where the first factors are zero: that of level 0, and those of the other levels.
const ZEROS: [[bool; 2]; 4] = [[false, false], [true, false], [false, true], [true, true]];

#[test]
fn of_every_size_at_every_length_and_offset() {
    let products = products();
    for len in 0..=257 {
        for points in [2, 4, 8, 16] {
            check(points, ZEROS[len % 4], len, 448, len % 64, &products);
            check(points, ZEROS[(len + 1) % 4], len, 448, 0, &products);
        }
    }
    for offset in 0..64 {
        check(8, ZEROS[offset % 4], 130, 320, offset, &products);
        check(16, ZEROS[offset / 16], 191, 320, offset, &products);
    }
}

#[test]
fn of_many_points_and_tiles() {
    let products = products();
    for points in [32, 64, 128, 256] {
        for (i, (len, shift)) in
            [(0, 0), (1, 0), (63, 5), (64, 0), (300, 0), (513, 7), (768, 0)].into_iter().enumerate()
        {
            check(points, ZEROS[i % 4], len, 960, shift, &products);
            check(points, ZEROS[(i + 1) % 4], len, 960, 0, &products);
        }
    }
    for (points, len) in [(2, 4096 + 77), (8, 2048 + 64), (16, 5000)] {
        check(points, ZEROS[0], len, 5184, 3, &products);
        check(points, ZEROS[3], len, 5184, 0, &products);
    }
}

#[test]
fn impossible_networks_are_refused() {
    let refused = |slots: usize, steps: &[NetworkStep]| {
        Program::network(8, &Network { slots, steps: steps.to_vec() }).expect_err("it cannot be done")
    };
    let buffers = |list: &[usize]| Lanes::Buffers(list.iter().map(|&i| Some(i)).collect());
    let inverse = |list: &[usize], to: usize, adds: bool| NetworkStep::Inverse {
        from: buffers(list),
        factors: vec![3; list.len().max(1) - 1],
        to,
        adds,
    };
    let forward = |from: usize, list: &[usize]| NetworkStep::Forward {
        from,
        factors: vec![3; list.len() - 1],
        to: buffers(list),
    };
    let in_slots = |from: usize, to: usize, adds: bool| NetworkStep::Inverse {
        from: Lanes::Slots(from),
        factors: vec![3],
        to,
        adds,
    };
    for have in [0, 3, 6, 512] {
        let factors = vec![1; have.max(1) - 1];
        let step =
            NetworkStep::Inverse { from: Lanes::Buffers(vec![None; have]), factors, to: 0, adds: false };
        let have = have.max(1);
        assert_eq!(refused(1024, &[step]), ProgramError::NetworkPoints { step: 0, have, most: 256 });
    }
    let uneven = NetworkStep::Inverse { from: buffers(&[0, 1, 2]), factors: vec![1], to: 0, adds: false };
    assert_eq!(refused(4, &[uneven]), ProgramError::NetworkLanes { step: 0, have: 3, need: 2 });
    let plus = vec![None; 2];
    let uneven = NetworkStep::Scale { from: None, plus, factors: vec![1; 3], to: Lanes::Slots(0) };
    assert_eq!(refused(4, &[uneven]), ProgramError::NetworkLanes { step: 0, have: 2, need: 3 });
    let good = inverse(&[0, 1], 0, false);
    let slot_3 = ProgramError::SlotOutOfRange { step: 0, slot: 3, slots: 3 };
    assert_eq!(refused(3, &[inverse(&[0, 1], 2, false)]), slot_3);
    let far = refused(3, &[inverse(&[0, 1], usize::MAX, false)]);
    assert!(matches!(far, ProgramError::SlotOutOfRange { step: 0, slots: 3, .. }), "{far}");
    assert_eq!(refused(4, &[inverse(&[0, 1], 0, true)]), ProgramError::SlotUnwritten { step: 0, slot: 0 });
    assert_eq!(
        refused(4, &[good.clone(), forward(1, &[2, 3])]),
        ProgramError::SlotUnwritten { step: 1, slot: 2 }
    );
    let overlapping = ProgramError::SlotsOverlap { step: 1 };
    assert_eq!(refused(4, &[good.clone(), in_slots(0, 1, false)]), overlapping);
    assert_eq!(refused(4, &[good.clone(), in_slots(0, 0, true)]), overlapping);
    let absent = ProgramError::BufferOutOfRange { step: 0, buffer: 8, buffers: 8 };
    assert_eq!(refused(4, &[inverse(&[0, 8], 0, false)]), absent);
    for list in [[0, 2], [2, 2], [3, 1]] {
        let in_use = refused(4, &[good.clone(), forward(0, &list)]);
        assert!(matches!(in_use, ProgramError::TargetInUse { step: 1, .. }), "{list:?}: {in_use}");
    }
    let written = [good.clone(), forward(0, &[2, 3]), forward(0, &[4, 3])];
    assert_eq!(refused(4, &written), ProgramError::TargetInUse { step: 2, target: 3 });
    assert_eq!(refused(2049, &[good]), ProgramError::TooManySlots { have: 2049, most: 2048 });
    assert!(Program::network(0, &Network::default()).is_ok(), "nothing is nothing to do");
}
