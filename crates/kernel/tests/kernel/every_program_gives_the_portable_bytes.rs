//! Claim: for every program, length, alignment and store policy, every tier of this machine writes
//! exactly the bytes that the portable tier writes step by step, and no other byte.

// Miri has no tier to compare with.
#![cfg(not(miri))]

use crate::common::{Random, number, paint, random_bits, random_grid, xor, zig_zag};
use pantile_kernel::{
    Buffer, Horner, HornerOutputs, HornerStep, Program, ProgramError, ShapeError, Step, Stores, System, Tier,
    Update, Use,
};

/// The bytes around every buffer that must not change.
const GUARD_BYTES: usize = 64;

/// A computation to compile.
pub enum Computation<'a> {
    Steps(&'a [Step]),
    System(System<'a>),
    Horner(&'a Horner),
    #[cfg(feature = "fft")]
    Fft(&'a pantile_kernel::Fft),
}

fn check(
    buffers: usize,
    steps: &[Step],
    len: usize,
    distance: usize,
    shift: &dyn Fn(usize) -> usize,
    what: &str,
) {
    compare(buffers, Computation::Steps(steps), len, distance, shift, what);
}

/// Returns each buffer with only the access that the program needs.
fn given<'b>(program: &Program, views: Vec<&'b mut [u8]>) -> Vec<Buffer<'b>> {
    let give = |(i, view): (usize, &'b mut [u8])| match program.use_of(i) {
        Use::Unused => Buffer::Absent,
        Use::Read => Buffer::Read(view),
        Use::Written => Buffer::Write(view),
    };
    views.into_iter().enumerate().map(give).collect()
}

/// Runs a computation on every tier over painted buffers, and compares buffers and guards.
pub fn compare(
    buffers: usize,
    computation: Computation,
    len: usize,
    distance: usize,
    shift: &dyn Fn(usize) -> usize,
    what: &str,
) {
    assert!(distance >= len + 2 * GUARD_BYTES + 64);
    let run_in = |program: &Program, is_given: bool| {
        let mut memory = vec![0u8; buffers * distance + 8192];
        let page = memory.as_ptr().align_offset(4096);
        paint(&mut memory, 4096 - page);
        let mut views: Vec<&mut [u8]> = Vec::new();
        let mut rest = &mut memory[page..];
        let mut passed = 0;
        for i in 0..buffers {
            let start = i * distance + GUARD_BYTES + shift(i);
            let (_, tail) = rest.split_at_mut(start - passed);
            let (view, tail) = tail.split_at_mut(len);
            views.push(view);
            rest = tail;
            passed = start + len;
        }
        match is_given {
            true => program.run_given(&mut given(program, views)).expect("what it needs of one length"),
            false => program.run(&mut views).expect("buffers of one length"),
        }
        memory[page..page + buffers * distance].to_vec()
    };
    // A program writes the same with writable buffers and with only the access that it needs.
    let run = |program: &Program| {
        let bytes = run_in(program, false);
        assert!(bytes == run_in(program, true), "{what}: with less than all to be written");
        bytes
    };
    let compile = |tier| match computation {
        Computation::Steps(steps) => Program::with_tier(tier, buffers, steps).expect("good steps"),
        // If a tier has no kernel, the steps are used, as in the portable tier.
        Computation::Horner(horner) => Program::horner_with_tier(tier, buffers, horner)
            .expect("good buffers")
            .unwrap_or_else(|| Program::with_tier(tier, buffers, &steps_of(horner)).expect("good steps")),
        // Another test compares these steps with the definition.
        #[cfg(feature = "fft")]
        Computation::Fft(fft) => {
            let steps = fft.expanded().into_iter().map(|(target, terms)| Step { target, terms });
            let made = Program::fft_with_tier(tier, buffers, fft).expect("good buffers");
            made.unwrap_or_else(|| {
                Program::with_tier(tier, buffers, &steps.collect::<Vec<_>>()).expect("good steps")
            })
        }
        Computation::System(system) => {
            Program::solving_with_tier(tier, buffers, &system).expect("a good system")
        }
    };
    let portable = run(&compile(Tier::Portable));
    for tier in Tier::available() {
        for stores in [Stores::Cached, Stores::Streaming] {
            let program = compile(tier).with_stores(stores);
            assert!(run(&program) == portable, "{what}, {tier}, {stores:?}, length {len}, at first");
            program.prepare();
            assert!(run(&program) == portable, "{what}, {tier}, {stores:?}, length {len}, prepared");
        }
    }
}

/// Returns a code in which each buffer is in a row and in a diagonal; the diagonals also include
/// the row parities.
fn rows_and_diagonals(rows: usize, columns: usize) -> (usize, Vec<Step>) {
    let data = |row: usize, column: usize| row * columns + column;
    let first = rows * columns;
    let mut steps: Vec<Step> =
        (0..rows).map(|row| xor(first + row, (0..columns).map(|c| data(row, c)))).collect();
    let diagonals = columns + 1;
    for d in 0..diagonals {
        let cells = (0..rows).flat_map(|row| (0..=columns).map(move |c| (row, c)));
        let on = cells.filter(|(row, c)| (row + c) % diagonals == d);
        let terms = on.map(|(row, c)| if c == columns { first + row } else { data(row, c) });
        steps.push(xor(first + rows + d, terms));
    }
    (first + rows + diagonals, steps)
}

/// Returns a recovery along a chain: each step needs the one before.
fn chain(links: usize, width: usize) -> (usize, Vec<Step>) {
    let data = links * width;
    let steps = (0..links)
        .map(|i| {
            let own = (0..width).map(|c| i * width + c);
            let neighbours = (0..width).map(move |c| (i + 1) % links * width + c).filter(|b| b % 2 == 0);
            xor(data + i, own.chain(neighbours).chain((i > 0).then(|| data + i - 1)))
        })
        .collect();
    (data + links, steps)
}

/// Returns steps that read random earlier buffers, `percent` of those that can be read.
fn random_steps(
    random: &mut Random,
    sources: usize,
    targets: usize,
    percent: usize,
    plain: bool,
) -> Vec<Step> {
    (0..targets)
        .map(|t| {
            let mut terms = Vec::new();
            for buffer in 0..sources + t {
                if random.below(100) < percent {
                    terms.push((buffer, if plain { 1 } else { random.next() as u8 }));
                    if random.below(20) == 0 {
                        terms.push((buffer, 1));
                    }
                }
            }
            Step { target: sources + t, terms }
        })
        .collect()
}

#[test]
fn at_every_length_and_offset() {
    let (buffers, steps) = rows_and_diagonals(3, 4);
    let (chained, links) = chain(5, 3);
    for len in 0..=257 {
        for offset in 0..64 {
            let shift = move |i: usize| (offset + i * 7) % 64;
            check(buffers, &steps, len, 512, &shift, &format!("rows and diagonals, offset {offset}"));
            if len % 3 == 0 {
                check(chained, &links, len, 512, &shift, &format!("chain, offset {offset}"));
            }
        }
    }
}

#[test]
fn for_grids_of_every_width_in_one_batch_and_in_several() {
    for columns in 1..=32 {
        let (buffers, steps) = rows_and_diagonals(columns.min(9), columns);
        for len in [1023, 1600, 4096] {
            for offset in [0, 8] {
                check(buffers, &steps, len, 4608, &|_| offset, &format!("{columns} columns"));
            }
        }
        let (buffers, steps) = chain(columns, 5);
        check(buffers, &steps, 3333, 4096, &|i| i % 3, &format!("a chain of {columns}"));
    }
}

#[test]
fn for_zig_zags_of_every_width() {
    for side in (2..=15).chain([17, 23]) {
        for links in [2 * side - 1, 2 * side] {
            let (buffers, steps) = zig_zag(side, links);
            for len in [127, 128, 129, 256, 383, 1000] {
                let what = format!("a zig-zag of {links} links");
                check(buffers, &steps, len, 1408, &|_| 0, &what);
                check(buffers, &steps, len, 1408, &|i| i * 5 % 64, &what);
            }
        }
    }
}

#[test]
fn for_random_programs_of_every_shape() {
    let seed = 0x5eed_0011;
    let mut random = Random(seed);
    for sources in [1, 2, 5, 13, 40, 90] {
        for targets in [1, 2, 3, 9, 20, 45] {
            for percent in [3, 20, 70] {
                for plain in [true, false] {
                    let steps = random_steps(&mut random, sources, targets, percent, plain);
                    let shift = random.below(64);
                    let len = random.below(3000);
                    let what = format!("seed {seed:#x}, {sources} and {targets}, {percent} %, plain {plain}");
                    check(sources + targets, &steps, len, 4096, &|i| (shift + i * 13) % 64, &what);
                }
            }
        }
    }
}

/// `PANTILE_GRIDS` sets the number of grids, `PANTILE_SEED` their seed.
#[test]
fn for_random_grids_with_holes() {
    let seed = number("PANTILE_SEED").unwrap_or(0x5eed_0013);
    for grid in 0..number("PANTILE_GRIDS").unwrap_or(400) {
        let mut random = Random(seed + grid);
        let (buffers, steps) = random_grid(&mut random);
        let len = [128, 129, 255, 256, 513, 1100][random.below(6)];
        let shift = random.below(2) * random.below(64);
        check(buffers, &steps, len, 1536, &|i| shift * i % 64, &format!("seed {}", seed + grid));
    }
}

/// `PANTILE_GRIDS` sets the number of programs, `PANTILE_SEED` their seed.
#[test]
fn for_random_bits() {
    let seed = number("PANTILE_SEED").unwrap_or(0x5eed_0014);
    for matrix in 0..number("PANTILE_GRIDS").unwrap_or(150) {
        let mut random = Random(seed + matrix);
        let (buffers, steps) = random_bits(&mut random);
        let len = [31, 32, 33, 63, 64, 100, 513][random.below(7)];
        let shift = random.below(2) * random.below(64);
        check(buffers, &steps, len, 1536, &|i| shift * i % 64, &format!("seed {}", seed + matrix));
    }
}

#[test]
fn copies_empty_sums_and_doubled_terms() {
    let steps = [xor(3, []), xor(4, [0]), xor(5, [0]), xor(6, [1, 1, 2]), xor(7, [4, 5]), xor(8, [3, 6])];
    for len in [0, 63, 64, 300, 9000] {
        check(9, &steps, len, 9600, &|i| i, "copies");
    }
}

#[test]
fn impossible_steps_are_refused() {
    let error = |steps: &[Step]| Program::new(4, steps).expect_err("bad steps");
    assert_eq!(error(&[xor(4, [0])]), ProgramError::BufferOutOfRange { step: 0, buffer: 4, buffers: 4 });
    assert_eq!(
        error(&[xor(1, [0]), xor(2, [7])]),
        ProgramError::BufferOutOfRange { step: 1, buffer: 7, buffers: 4 }
    );
    assert_eq!(error(&[xor(1, [0, 1])]), ProgramError::TargetInUse { step: 0, target: 1 });
    assert_eq!(error(&[xor(1, [0]), xor(1, [2])]), ProgramError::TargetInUse { step: 1, target: 1 });
    assert_eq!(error(&[xor(1, [0]), xor(0, [2])]), ProgramError::TargetInUse { step: 1, target: 0 });
    let program = Program::new(2, &[xor(1, [0])]).expect("good steps");
    let (mut a, mut b) = ([1u8; 5], [2u8; 6]);
    assert_eq!(program.run(&mut [&mut a]), Err(ShapeError::BufferCount { have: 1, need: 2 }));
    assert_eq!(program.run(&mut [&mut a, &mut b]), Err(ShapeError::BufferLen { index: 1, have: 6, need: 5 }));
    assert_eq!(b, [2; 6], "nothing is written on error");
}

/// Checks that an update writes the same bytes if only its written buffers are present, and if only
/// the change is given.
fn check_given(
    update: &Update,
    targets: &[(usize, u8)],
    cells: &[Vec<u8>],
    (new, change): (&[u8], &[u8]),
    paint: &dyn Fn(usize, usize) -> Vec<u8>,
) {
    for has_changed in [true, false] {
        let mut given: Vec<Vec<u8>> = (0..12).map(|i| paint(i, new.len())).collect();
        let written = |i: usize| targets.iter().any(|target| target.0 == i) || (has_changed && i == 1);
        let mut buffers: Vec<Buffer<'_>> = Vec::new();
        for (i, cell) in given.iter_mut().enumerate() {
            buffers.push(if written(i) { Buffer::Write(cell) } else { Buffer::Absent });
        }
        match has_changed {
            true => update.run_given(&mut buffers, new).expect("what is written"),
            false => update.add_change_given(&mut buffers, change).expect("what is written"),
        }
        drop(buffers);
        (0..12)
            .filter(|&i| has_changed || i != 1)
            .for_each(|i| assert!(given[i] == cells[i], "{targets:?}, length {}, buffer {i}", new.len()));
        if !has_changed {
            assert!(given[1] == paint(1, new.len()), "the changed buffer is left alone");
        }
    }
}

#[test]
fn an_update_is_the_sum_of_the_change_at_every_length() {
    let paint = |seed: usize, len: usize| (0..len).map(|i| ((i * 7 + seed) % 251) as u8).collect::<Vec<u8>>();
    let coefficients = [1u8, 0x8e, 0, 2, 0xff, 1, 0x1d, 3, 9];
    for tier in Tier::available() {
        // All numbers of targets. The first target, a later one or none has coefficient 1; one has
        // coefficient 0.
        for (outputs, first) in (0..=9).flat_map(|outputs| [(outputs, 0), (outputs, 3), (outputs, 6)]) {
            let targets: Vec<(usize, u8)> =
                (0..outputs).map(|o| (o + 2, coefficients[(first + o) % coefficients.len()])).collect();
            let update = Update::with_tier(tier, 12, 1, &targets).expect("good targets");
            for len in (0..=257).chain([2047, 2048, 2049, 5000]) {
                let mut cells: Vec<Vec<u8>> = (0..12).map(|i| paint(i, len)).collect();
                let new = paint(100, len);
                let mut views: Vec<&mut [u8]> = cells.iter_mut().map(Vec::as_mut_slice).collect();
                update.run(&mut views, &new).expect("one length");
                // The result of the portable tier for the change.
                let change: Vec<u8> = paint(1, len).iter().zip(&new).map(|(a, b)| a ^ b).collect();
                check_given(&update, &targets, &cells, (&new, &change), &paint);
                for (i, cell) in cells.iter().enumerate() {
                    let mut wanted = paint(i, len);
                    if i == 1 {
                        wanted.clone_from(&new);
                    } else if let Some(&(_, c)) = targets.iter().find(|target| target.0 == i) {
                        let dot =
                            pantile_kernel::Dot::with_tier(Tier::Portable, 1, &[vec![(0, c)]]).expect("one");
                        dot.accumulate(&[&change], &mut [&mut wanted]).expect("one length");
                    }
                    assert!(*cell == wanted, "{tier}, {targets:?}, length {len}, buffer {i}");
                }
            }
        }
    }
    assert!(matches!(Update::new(3, 1, &[(1, 1)]), Err(ProgramError::TargetInUse { .. })));
    assert!(matches!(Update::new(3, 1, &[(0, 1), (0, 2)]), Err(ProgramError::TargetInUse { .. })));
    assert!(matches!(Update::new(3, 3, &[(0, 1)]), Err(ProgramError::BufferOutOfRange { .. })));
}

/// The lists that a system borrows.
struct Parts {
    sources: Vec<usize>,
    coefficients: Vec<u8>,
    starts: Vec<Option<usize>>,
    outputs: Vec<usize>,
    solution: Vec<u8>,
}

impl Parts {
    fn system(&self) -> System<'_> {
        let Parts { sources, coefficients, starts, outputs, solution } = self;
        System { sources, coefficients, starts, outputs, solution }
    }
}

/// Returns a system of `outputs` outputs over `sources` sources; one sum in four has no start. In
/// every second system all sums take the first source with coefficient 1, and most of the solution
/// is zero or one. With `ones`, one sum is all ones; the first `adds_up` outputs add up to it, like
/// the lost buffers of a parity.
fn random_system(random: &mut Random, sources: usize, outputs: usize, ones: bool, adds_up: usize) -> Parts {
    let at = random.below(outputs);
    let plain = if random.below(2) == 0 { outputs } else { 0 };
    let is_one = |i: usize| ones && i % outputs == at || i < plain;
    let coefficients =
        (0..sources * outputs).map(|i| if is_one(i) { 1 } else { random.next() as u8 }).collect();
    let starts = (0..outputs).map(|sum| (random.below(4) > 0).then_some(sources + sum)).collect();
    let is_plain = plain > 0;
    let entry = |_| match random.below(3) {
        few @ 0..2 if is_plain => few as u8,
        _ => random.next() as u8,
    };
    let mut solution: Vec<u8> = (0..outputs * outputs).map(entry).collect();
    if adds_up > 0 {
        let (first, others) = solution[..adds_up * outputs].split_at_mut(outputs);
        for (sum, x) in first.iter_mut().enumerate() {
            *x = others.iter().skip(sum).step_by(outputs).fold(u8::from(sum == at), |total, row| total ^ row);
        }
    }
    let first_output = sources + outputs;
    let outputs = (first_output..first_output + outputs).collect();
    Parts { sources: (0..sources).collect(), coefficients, starts, outputs, solution }
}

#[test]
fn systems_solved_in_registers_give_what_their_steps_give() {
    let seed = 0x5eed_0012;
    let mut random = Random(seed);
    for outputs in 1..=7 {
        for ones in [false, true] {
            for adds_up in 0..=outputs {
                for sources in [1, 2, 7, 64, 65] {
                    let parts = random_system(&mut random, sources, outputs, ones, adds_up);
                    let what = format!(
                        "seed {seed:#x}, {sources} sources, {outputs} outputs, ones {ones}, {adds_up}"
                    );
                    let buffers = sources + 2 * outputs;
                    let lens: &[usize] =
                        if sources == 7 { &[0, 1, 63, 64, 65, 255, 256, 257, 1000] } else { &[700] };
                    for &len in lens {
                        let shift = random.below(64);
                        let computation = Computation::System(parts.system());
                        compare(buffers, computation, len, 1280, &|i| (shift + i * 11) % 64, &what);
                        compare(buffers, Computation::System(parts.system()), len, 1536, &|_| 0, &what);
                    }
                }
            }
        }
    }
    let good = || random_system(&mut Random(seed), 4, 2, true, 0);
    let error = |parts: &Parts| Program::solving(8, &parts.system()).unwrap_err();
    assert!(Program::solving(8, &good().system()).is_ok());
    let twice = Parts { outputs: vec![6, 3], ..good() };
    assert!(matches!(error(&twice), ProgramError::TargetInUse { target: 3, .. }));
    let outside = Parts { outputs: vec![6, 8], ..good() };
    assert!(matches!(error(&outside), ProgramError::BufferOutOfRange { buffer: 8, .. }));
    for misshapen in [
        Parts { outputs: vec![6], ..good() },
        Parts { starts: vec![None; 3], ..good() },
        Parts { sources: vec![0, 1, 2], ..good() },
        Parts { coefficients: vec![1; 7], ..good() },
        Parts { solution: vec![1; 5], ..good() },
    ] {
        assert!(matches!(error(&misshapen), ProgramError::SystemShape { .. }));
    }
    let nothing =
        Parts { sources: vec![0], coefficients: vec![], starts: vec![], outputs: vec![], solution: vec![] };
    assert!(Program::solving(1, &nothing.system()).is_ok());
}

#[test]
fn a_program_over_more_buffers_than_fit_on_the_stack_is_checked_as_well() {
    let system = |target: usize| {
        let parts = Parts {
            sources: vec![599, 1],
            coefficients: vec![2, 3, 1, 1],
            starts: vec![Some(7), None],
            outputs: vec![0, target],
            solution: vec![1, 2, 3, 4],
        };
        Program::solving(600, &parts.system())
    };
    assert!(system(598).is_ok());
    assert!(matches!(system(599), Err(ProgramError::TargetInUse { step: 1, target: 599 })));
    assert!(matches!(system(600), Err(ProgramError::BufferOutOfRange { buffer: 600, .. })));
}

#[test]
fn more_buffers_than_any_machine_has_are_refused() {
    let one = Parts {
        sources: vec![0],
        coefficients: vec![1, 2],
        starts: vec![Some(1), Some(2)],
        outputs: vec![3, 4],
        solution: vec![1, 2, 3, 4],
    };
    for have in [(1 << 24) + 1, usize::MAX] {
        let refused = ProgramError::TooManyBuffers { have, most: 1 << 24 };
        assert!(refused.to_string().contains("16777216"));
        assert_eq!(Program::new(have, &[]).unwrap_err(), refused);
        assert_eq!(Program::solving(have, &one.system()).unwrap_err(), refused);
    }
    assert!(Program::new(1 << 24, &[]).is_ok());
}

/// Returns a product in GF(2^8), by the schoolbook method.
pub fn times(mut a: u8, mut b: u8) -> u8 {
    let mut product = 0;
    while b > 0 {
        if b & 1 == 1 {
            product ^= a;
        }
        a = a << 1 ^ if a & 0x80 == 0 { 0 } else { 0x1d };
        b >>= 1;
    }
    product
}

/// Returns a step of Horner's rule as a matrix over planes.
fn step_matrix(step: HornerStep, planes: usize) -> Vec<Vec<u8>> {
    let mut matrix = vec![vec![0; planes]; planes];
    match step {
        HornerStep::One => (0..planes).for_each(|t| matrix[t][t] = 1),
        HornerStep::Byte(g) => (0..planes).for_each(|t| matrix[t][t] = g),
        HornerStep::Shift { by, factors } => {
            (0..planes).for_each(|t| matrix[t][(t + planes - by) % planes] = factors[t]);
        }
        HornerStep::Quadratic { b, c } => matrix = vec![vec![0, c], vec![1, b]],
    }
    matrix
}

/// Returns the steps that are equivalent to Horner's rule.
fn steps_of(horner: &Horner) -> Vec<Step> {
    let d = horner.planes;
    let multiply = |a: &[Vec<u8>], b: &[Vec<u8>]| -> Vec<Vec<u8>> {
        let entry = |t: usize, s: usize| (0..d).fold(0, |sum, x| sum ^ times(a[t][x], b[x][s]));
        (0..d).map(|t| (0..d).map(|s| entry(t, s)).collect()).collect()
    };
    let mut states: Vec<Vec<(usize, u8)>> = vec![Vec::new(); horner.steps.len() * d];
    for (p, &step) in horner.steps.iter().enumerate() {
        let step = step_matrix(step, d);
        let mut power = step_matrix(HornerStep::One, d);
        for column in &horner.columns {
            for (t, s) in (0..d).flat_map(|t| (0..d).map(move |s| (t, s))) {
                states[p * d + t].extend(column.iter().map(|column| (column[s], power[t][s])));
            }
            power = multiply(&step, &power);
        }
    }
    match &horner.outputs {
        HornerOutputs::States(buffers) => {
            buffers.iter().zip(states).map(|(&target, terms)| Step { target, terms }).collect()
        }
        HornerOutputs::Solved { adds, rows } => {
            adds.iter().zip(&mut states).for_each(|(add, state)| state.extend(add.map(|buffer| (buffer, 1))));
            let terms = |row: &[u8]| {
                let of_state = |(state, &c): (&Vec<(usize, u8)>, &u8)| {
                    state.iter().map(|&(buffer, x)| (buffer, times(c, x))).collect::<Vec<_>>()
                };
                states.iter().zip(row).flat_map(of_state).collect()
            };
            rows.iter().map(|(target, row)| Step { target: *target, terms: terms(row) }).collect()
        }
    }
}

#[test]
fn horners_rule_gives_what_its_steps_give() {
    let seed = 0x5eed_0013;
    let mut random = Random(seed);
    let shift =
        |random: &mut Random, by| HornerStep::Shift { by, factors: [(); 3].map(|()| random.next() as u8) };
    for round in 0..60 {
        let planes = 2 + round % 2;
        let last = match (planes, round % 4 < 2) {
            (2, _) => [
                HornerStep::Byte(random.next() as u8),
                HornerStep::Quadratic { b: random.next() as u8, c: random.next() as u8 },
            ],
            (_, true) => [shift(&mut random, 1), shift(&mut random, 2)],
            (_, false) => [shift(&mut random, 2), shift(&mut random, 1)],
        };
        // Some tiers have kernels for the factors of RAIDq.
        let is_raidq = round % 5 < 2;
        let steps = match (is_raidq, planes) {
            (false, _) => vec![HornerStep::One, HornerStep::Byte(random.next() as u8), last[0], last[1]],
            (true, 2) => vec![
                HornerStep::One,
                HornerStep::Byte(2),
                HornerStep::Byte(random.next() as u8 | 4),
                HornerStep::Quadratic { b: random.next() as u8 | 4, c: 1 },
            ],
            (true, _) => vec![
                HornerStep::One,
                HornerStep::Byte(2),
                HornerStep::Shift { by: 1, factors: [2, 1, 1] },
                HornerStep::Shift { by: 2, factors: [2, 2, 1] },
            ],
        };
        let count = 1 + random.below(20);
        let columns: Vec<Option<Vec<usize>>> = (0..count)
            .map(|column| (random.below(5) > 0).then(|| (column * planes..(column + 1) * planes).collect()))
            .collect();
        let first = count * planes;
        let states = 4 * planes;
        let outputs = if round % 3 == 0 {
            HornerOutputs::States((first..first + states).collect())
        } else {
            let rows = 1 + random.below(states);
            let row = |random: &mut Random| (0..states).map(|_| random.next() as u8).collect::<Vec<u8>>();
            HornerOutputs::Solved {
                adds: (0..states).map(|i| (random.below(3) > 0).then_some(first + i)).collect(),
                rows: (0..rows).map(|o| (first + states + o, row(&mut random))).collect(),
            }
        };
        let horner = Horner { planes, columns, steps, outputs };
        for tier in Tier::available().into_iter().filter(|&tier| tier != Tier::Portable) {
            let program = Program::horner_with_tier(tier, first + 2 * states, &horner).unwrap();
            assert!(!is_raidq || program.is_some(), "{tier} has a kernel");
        }
        let lens: &[usize] =
            if round < 8 { &[0, 1, 63, 64, 65, 127, 128, 129, 257, 1024, 1025, 2500] } else { &[777] };
        for &len in lens {
            let shift = random.below(64);
            let what = format!("seed {seed:#x}, round {round}");
            let computation = Computation::Horner(&horner);
            compare(first + 2 * states, computation, len, 3072, &|i| (shift + i * 11) % 64, &what);
            compare(first + 2 * states, Computation::Horner(&horner), len, 4096, &|_| 0, &what);
        }
    }
}

#[test]
fn a_shift_by_no_plane_or_by_all_is_refused() {
    for (planes, bys) in [(2, &[0, 2, 3, usize::MAX][..]), (3, &[0, 3, 4, usize::MAX])] {
        for &by in bys {
            let shift = HornerStep::Shift { by, factors: [2, 1, 1] };
            let steps = vec![HornerStep::One, HornerStep::Byte(2), shift, shift];
            let columns = (0..3).map(|c| Some((c * planes..(c + 1) * planes).collect())).collect();
            let outputs = HornerOutputs::States((3 * planes..7 * planes).collect());
            let horner = Horner { planes, columns, steps, outputs };
            for tier in Tier::available() {
                let refused = Program::horner_with_tier(tier, 7 * planes, &horner).map(|made| made.is_some());
                assert_eq!(refused, Err(ProgramError::ShiftOutOfRange { state: 2, by, planes }), "{tier}");
            }
        }
    }
}

#[test]
fn a_program_takes_no_less_than_it_needs_and_no_more() {
    let steps = [Step { target: 2, terms: vec![(0, 1), (1, 7)] }, Step { target: 3, terms: vec![(2, 5)] }];
    let program = Program::new(5, &steps).unwrap();
    let uses: Vec<Use> = (0..5).map(|i| program.use_of(i)).collect();
    assert_eq!(uses, [Use::Read, Use::Read, Use::Written, Use::Written, Use::Unused]);
    let (source, other) = ([3u8; 90], [9u8; 90]);
    let (mut p, mut q) = ([1u8; 90], [2u8; 90]);
    let mut run = |changed: usize, to: Option<&[u8]>| {
        let mut given = [
            Buffer::Read(&source),
            Buffer::Read(&source),
            Buffer::Write(&mut p),
            Buffer::Write(&mut q),
            Buffer::Absent,
        ];
        match to {
            Some(bytes) => given[changed] = Buffer::Read(bytes),
            None => given[changed] = Buffer::Absent,
        }
        program.run_given(&mut given)
    };
    let refused = |index, is_written| Err(ShapeError::BufferGiven { index, is_written });
    assert_eq!(run(1, None), refused(1, false));
    assert_eq!(run(2, None), refused(2, true));
    assert_eq!(run(3, Some(&other)), refused(3, true));
    assert_eq!(run(1, Some(&other[1..])), Err(ShapeError::BufferLen { index: 1, have: 89, need: 90 }));
    assert_eq!(run(4, Some(&other[1..])), Err(ShapeError::BufferLen { index: 4, have: 89, need: 90 }));
    // No refused run wrote anything. One buffer can be passed as two that are read.
    assert_eq!(run(4, None), Ok(()));
    assert!(p[0] == p[89] && p[0] != 1 && q[0] != 2);
    assert_eq!(program.run_given(&mut []), Err(ShapeError::BufferCount { have: 0, need: 5 }));
}
