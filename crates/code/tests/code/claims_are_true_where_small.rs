//! A claim is a promise: every set of columns up to the tolerance is tried, for all small codes of
//! all families, and where a code claims to be MDS one more lost column is fatal.

use pantile_code::{Claim, Code, CodeError, ColumnRole, Purpose, Width, families};
use pantile_gf::{Echelon, Gf};

/// For each column the parity-check vectors of its cells.
fn check_vectors(code: &Code) -> Vec<Vec<Vec<Gf>>> {
    let vector = |cell| code.equations().iter().map(|equation| equation.coefficient(cell)).collect();
    (0..code.columns()).map(|column| code.column_cells(column).map(vector).collect()).collect()
}

/// True if every set of `size` columns can be computed from the others.
fn all_survive(code: &Code, size: usize) -> bool {
    fn walk(vectors: &[Vec<Vec<Gf>>], first: usize, left: usize, known: &mut Echelon) -> bool {
        let rank = known.rank();
        left == 0
            || (first..=vectors.len() - left).all(|column| {
                let alive = vectors[column].iter().all(|vector| known.insert(vector.clone()))
                    && walk(vectors, column + 1, left - 1, known);
                known.truncate(rank);
                alive
            })
    }
    size <= code.columns() && walk(&check_vectors(code), 0, size, &mut Echelon::new(code.equations().len()))
}

fn hold(code: &Code) {
    let Claim { tolerance, mds } = code.claim();
    assert!(all_survive(code, tolerance), "{code} does not survive {tolerance} losses");
    let mut heights: Vec<usize> = (0..code.columns()).map(|c| code.rows(c)).collect();
    heights.sort_unstable_by(|a, b| b.cmp(a));
    let redundancy: usize = heights[..tolerance].iter().sum();
    assert_eq!(mds, redundancy == code.parity().len(), "{code}: {:?}", code.claim());
    if mds {
        assert!(!all_survive(code, tolerance + 1), "{code} survives {} losses", tolerance + 1);
    }
}

/// Builds the code; skips sizes that the family refuses for a good reason.
fn built(spec: &str) -> Option<Code> {
    match Code::parse(spec) {
        Ok(code) => Some(code),
        Err(CodeError::OutOfRange { .. } | CodeError::Unsuitable { .. } | CodeError::NotMds { .. }) => None,
        Err(error) => panic!("{spec}: {error}"),
    }
}

/// Holds all codes that exist among the specs, at least `least` of them.
fn hold_all(least: usize, specs: impl IntoIterator<Item = String>) {
    let codes: Vec<Code> = specs.into_iter().filter_map(|spec| built(&spec)).collect();
    assert!(codes.len() >= least, "only {} codes", codes.len());
    codes.iter().for_each(hold);
}

#[test]
fn simple_codes() {
    let one_number = ["raid0", "mirror", "raid5", "raid6"];
    hold_all(32, one_number.iter().flat_map(|family| (1..=9).map(move |k| format!("{family}:{k}"))));
}

#[test]
fn matrix_codes() {
    let three = ["", ",powers", ",b=0x1d", ",b=0xfc"];
    let four =
        ["", ",x125", ",x164", ",x=02.8e", ",powers", ",b=0xe8", ",sqrt", ",cbrt", ",cbrt=paper", ",sixth"];
    hold_all(32, three.iter().flat_map(|o| (1..=8).map(move |k| format!("raidq:{k}+3{o}"))));
    hold_all(80, four.iter().flat_map(|o| (1..=8).map(move |k| format!("raidq:{k}+4{o}"))));
    hold_all(48, (1..=6).flat_map(|m| (1..=8).map(move |k| format!("cauchy:{k}+{m}"))));
    hold_all(48, [1, 2, 3, 4, 5, 8].iter().flat_map(|m| (1..=8).map(move |k| format!("lch:{k}+{m}"))));
    let rs = ["", ",vandermonde", ",jerasure", ",backblaze", ",zfec", ",bch"];
    hold_all(
        120,
        rs.iter().flat_map(|o| (1..=7).flat_map(move |m| (1..=7).map(move |k| format!("rs:{k}+{m}{o}")))),
    );
}

#[test]
fn bit_matrices() {
    // Each word with every number of columns that it has, as long as these are few.
    let sizes = |most: usize| (1..most).flat_map(move |m| (1..=most - m).map(move |k| (k, m)));
    for option in ["", ",orig"] {
        hold_all(6, sizes(5).map(|(k, m)| format!("crs:{k}+{m},w=2{option}")));
        hold_all(28, sizes(9).map(|(k, m)| format!("crs:{k}+{m},w=3{option}")));
        hold_all(36, sizes(9).map(|(k, m)| format!("crs:{k}+{m},w=4{option}")));
        for w in 5..=8 {
            hold_all(24, (1..=4).flat_map(|m| (1..=6).map(move |k| format!("crs:{k}+{m},w={w}{option}"))));
        }
    }
    // The widest with two and three parities: a repeated coefficient would be fatal.
    let widest =
        [(3, 2, 2), (7, 2, 3), (15, 2, 4), (13, 3, 4), (31, 2, 5), (29, 3, 5), (63, 2, 6), (127, 2, 7)];
    hold_all(8, widest.iter().map(|(k, m, w)| format!("crs:{k}+{m},w={w}")));
}

#[test]
fn minimum_density_codes() {
    for (family, words) in [("liberation", [3, 5, 7, 11]), ("blaumroth", [4, 6, 7, 10])] {
        let sizes = words.into_iter().flat_map(|w| (1..=w).map(move |k| (k, w)));
        hold_all(26, sizes.map(|(k, w)| format!("{family}:{k},w={w}")));
    }
    let codes: Vec<Code> = (1..=8).map(|k| Code::parse(&format!("liber8tion:{k}")).unwrap()).collect();
    for code in &codes {
        assert_eq!(code.claim(), Claim { tolerance: 2, mds: true }, "{code}");
        hold(code);
    }
}

/// The code that Ceph writes if a profile has no w. Any two data columns can be lost, but not
/// always three or more.
#[test]
fn blaum_roth_with_seven_rows_is_not_mds() {
    let pairs = [(0, 2), (0, 4), (1, 4), (2, 4), (1, 5), (2, 5), (0, 6), (2, 6), (4, 6)];
    for k in 1..=7 {
        let code = Code::parse(&format!("blaumroth:{k},w=7")).unwrap();
        let known: Vec<_> = pairs.into_iter().filter(|&(_, j)| j < k).collect();
        let mds = known.is_empty();
        assert_eq!(mds, k <= 2);
        assert_eq!(code.claim(), Claim { tolerance: if mds { 2 } else { 1 }, mds }, "{code}");
        assert_eq!(matches!(code.purpose(), Purpose::Study(_)), !mds, "{code}");
        let matrices = matrices_of_q(&code);
        for (j, matrix) in matrices.iter().enumerate() {
            assert!(is_invertible(matrix.clone()), "{code}: X_{j}");
            for (i, other) in matrices[..j].iter().enumerate() {
                let sum = matrix.iter().zip(other).map(|(a, b)| plus(a, b)).collect();
                assert_eq!(is_invertible(sum), !known.contains(&(i, j)), "{code}: X_{i} + X_{j}");
            }
        }
    }
}

/// Fewer data columns have the first of the same matrices, so the widest code of each word decides
/// for all; of the longest word a dozen of its matrices.
#[test]
fn matrices_of_minimum_density_are_invertible_one_by_one_and_in_pairs() {
    let primes = (3..=67).filter(|n| (2..*n).all(|d| n % d > 0));
    let widest = primes.flat_map(|p: usize| [("liberation", p), ("blaumroth", (p - 1).max(4))]);
    let widest = widest.map(|(family, word)| (family, word.min(64), word));
    for (family, k, word) in
        widest.chain([("liberation", 12, 257), ("blaumroth", 12, 256), ("liber8tion", 8, 8)])
    {
        let spec = format!("{family}:{k},w={word}");
        let spec = if family == "liber8tion" { "liber8tion:8".to_string() } else { spec };
        let code = Code::parse(&spec).unwrap();
        assert_eq!((code.rows_max(), code.columns()), (word, k + 2), "{spec}");
        let matrices = matrices_of_q(&code);
        let ones: u32 = matrices.iter().flatten().flatten().map(|bits| bits.count_ones()).sum();
        assert_eq!(ones as usize, k * word + k - 1, "{spec} has the fewest ones that are possible");
        for (j, matrix) in matrices.iter().enumerate() {
            assert!(is_invertible(matrix.clone()), "{spec}: X_{j}");
            for (i, other) in matrices[..j].iter().enumerate() {
                let sum = matrix.iter().zip(other).map(|(a, b)| plus(a, b)).collect();
                assert!(is_invertible(sum), "{spec}: X_{i} + X_{j}");
            }
        }
    }
}

/// A mask of as many bits as the longest word has.
type Bits = [u128; 3];

fn plus(a: &Bits, b: &Bits) -> Bits {
    std::array::from_fn(|i| a[i] ^ b[i])
}

/// For each data column the rows of its matrix in the second parity; the first parity must be the
/// XOR of each row.
fn matrices_of_q(code: &Code) -> Vec<Vec<Bits>> {
    let (word, k) = (code.rows_max(), code.columns() - 2);
    let rows_of = |equation: usize| {
        let mut of_column = vec![Bits::default(); k];
        let cells = code.equations()[equation].terms().iter().map(|&(index, _)| code.cell(index));
        cells
            .filter(|cell| cell.column < k)
            .for_each(|c| of_column[c.column][c.row / 128] |= 1 << (c.row % 128));
        of_column
    };
    let unit = |r: usize| std::array::from_fn(|i| if r / 128 == i { 1 << (r % 128) } else { 0 });
    assert!((0..word).all(|r| rows_of(r) == vec![unit(r); k]), "{code}: P is no plain XOR");
    let rows: Vec<Vec<Bits>> = (word..2 * word).map(rows_of).collect();
    (0..k).map(|j| rows.iter().map(|row| row[j]).collect()).collect()
}

/// By elimination over bits.
fn is_invertible(mut rows: Vec<Bits>) -> bool {
    while let Some(row) = rows.pop() {
        let Some(i) = row.iter().position(|&bits| bits != 0) else { return false };
        let lowest = row[i] & row[i].wrapping_neg();
        rows.iter_mut().filter(|other| other[i] & lowest != 0).for_each(|other| *other = plus(other, &row));
    }
    true
}

#[test]
fn vandermonde_is_refused_exactly_where_it_is_not_mds() {
    let exists = |k: usize, m: usize| Code::parse(&format!("rs:{k}+{m},vandermonde")).is_ok();
    for (k, m) in [(21, 4), (4, 21), (5, 5), (4, 6), (3, 30), (30, 3)] {
        assert!(exists(k, m), "{k}+{m}");
        hold_minors(k, m);
    }
    for (spec, limit) in [
        ("rs:22+4,vandermonde", 21),
        ("rs:40+4,vandermonde", 21),
        ("rs:6+5,vandermonde", 5),
        ("rs:5+6,vandermonde", 4),
        ("rs:5+21,vandermonde", 4),
        ("rs:4+22,vandermonde", 3),
        ("rs:4+40,vandermonde", 3),
    ] {
        match Code::parse(spec) {
            Err(CodeError::NotMds { limit: found, fatal, .. }) => {
                assert_eq!(found, limit, "{spec}");
                let (_, m) = spec[3..spec.len() - 12].split_once('+').unwrap();
                let m: usize = m.parse().unwrap();
                assert_eq!(fatal.len(), m, "{spec}: {fatal:?}");
                assert!(is_fatal_for_vandermonde(limit + 1, m, &fatal), "{spec}: {fatal:?}");
            }
            other => panic!("{spec}: {other:?}"),
        }
    }
}

/// All minors of the k x m matrix 2^(rj).
fn hold_minors(k: usize, m: usize) {
    let vectors = |r: usize| (0..k).map(|j| Gf::alpha_pow((r * j) as i64)).collect::<Vec<Gf>>();
    let small = k.min(m);
    let rows: Vec<Vec<Gf>> = (0..m).map(vectors).collect();
    for size in 2..=small {
        for columns in subsets(k, size) {
            for chosen in subsets(m, size) {
                let mut known = Echelon::new(size);
                let independent =
                    chosen.iter().all(|&r| known.insert(columns.iter().map(|&j| rows[r][j]).collect()));
                assert!(independent, "{k}+{m}: rows {chosen:?}, columns {columns:?}");
            }
        }
    }
}

fn is_fatal_for_vandermonde(k: usize, m: usize, fatal: &[usize]) -> bool {
    let data: Vec<usize> = fatal.iter().copied().filter(|&c| c < k).collect();
    let mut known = Echelon::new(data.len());
    let kept = (0..m).filter(|r| !fatal.contains(&(k + r)));
    let rank =
        kept.filter(|r| known.insert(data.iter().map(|j| Gf::alpha_pow((r * j) as i64)).collect())).count();
    rank < data.len()
}

fn subsets(n: usize, size: usize) -> Vec<Vec<usize>> {
    match size {
        0 => vec![vec![]],
        _ => (size - 1..n)
            .flat_map(|last| {
                subsets(last, size - 1).into_iter().map(move |mut set| {
                    set.push(last);
                    set
                })
            })
            .collect(),
    }
}

#[test]
fn shec_of_the_paper() {
    let sizes = (1..=8).flat_map(|k| (1..=k).flat_map(move |m| (1..=k).map(move |l| (k, m, l))));
    hold_all(200, sizes.map(|(k, m, l)| format!("shec:{k},{m},{l}")));
    let exact = |spec: &str, tolerance| {
        let code = Code::parse(spec).unwrap();
        assert_eq!(code.claim().tolerance, tolerance, "{spec}");
        assert!(!all_survive(&code, tolerance + 1), "{spec}");
    };
    exact("shec:4,3,3", 2);
    exact("shec:5,3,3", 1);
    exact("shec:6,4,3", 2);
    exact("shec:7,4,3", 1);
    exact("shec:10,6,5", 3);
}

#[test]
fn shec_of_ceph_for_every_layout() {
    let sizes =
        (1..=12usize).flat_map(|k| (1..=k.min(20 - k)).flat_map(move |m| (1..=m).map(move |c| (k, m, c))));
    let specs = sizes.flat_map(|(k, m, c)| ["", ",single"].map(|t| format!("shec:{k},{m},c={c}{t}")));
    let codes: Vec<Code> = specs.map(|spec| Code::parse(&spec).unwrap()).collect();
    assert_eq!(codes.len(), 602, "layouts within Ceph's limits, in both techniques");
    codes.iter().for_each(hold);
    // The claim is exact throughout, and nine layouts fall short of the c in their name.
    let promised = |code: &Code| -> usize {
        let c = code.spec().split("c=").nth(1).unwrap();
        c.trim_end_matches(",single").parse().unwrap()
    };
    let weaker: Vec<&Code> = codes.iter().filter(|code| code.claim().tolerance < promised(code)).collect();
    assert_eq!(weaker.len(), 9);
    codes.iter().for_each(|code| assert!(!all_survive(code, code.claim().tolerance + 1), "{code}"));
}

#[test]
fn a_shec_layout_of_ceph_loses_data_within_its_c() {
    let code = Code::parse("shec:10,7,c=6,single").unwrap();
    let vectors = check_vectors(&code);
    let mut known = Echelon::new(7);
    assert!(![1, 3, 5, 11, 14, 16].iter().all(|&column: &usize| known.insert(vectors[column][0].clone())));
    assert_eq!(code.claim(), Claim { tolerance: 5, mds: false });
}

#[test]
fn local_codes() {
    let sizes = |most: usize| (1..=most).flat_map(move |k| (1..=k).map(move |l| (k, l)));
    hold_all(100, sizes(10).flat_map(|(k, l)| (0..=5).map(move |g| format!("lrc:{k},{l},{g}"))));
    hold_all(50, sizes(12).flat_map(|(k, l)| (2..=6).map(move |m| format!("xorbas:{k},{m},{l}"))));
    hold_all(50, sizes(9).flat_map(|(k, l)| (1..=6).map(move |m| format!("slpg:{k},{m},{l}"))));
}

#[test]
fn local_claims_are_exact_where_the_family_says_so() {
    let specs =
        ["lrc:12,2,2", "lrc:6,2,1", "lrc:4,2,0", "lrc:12,3,3", "xorbas:10,6,5", "slpg:6,4,3", "slpg:8,5,4"];
    for spec in specs {
        let code = Code::parse(spec).unwrap();
        assert!(!all_survive(&code, code.claim().tolerance + 1), "{spec}: {:?}", code.claim());
    }
}

#[test]
fn codes_that_a_number_of_disks_names() {
    for family in families() {
        // Groups and overlap are a choice; such codes are tried above.
        if matches!(family.width, Width::Undecided(_)) {
            continue;
        }
        let specs = (1..=18).chain([25]).filter_map(|disks| family.spec_on(disks).ok());
        hold_all(8, specs);
    }
}

#[test]
fn codes_that_disks_and_losses_name_bear_what_they_claim_on_so_many_disks() {
    let (mut undecided, mut borne) = (0, 0);
    for family in families() {
        for (disks, survive) in (1..=11).flat_map(|disks| (0..=3).map(move |survive| (disks, survive))) {
            let specs = family.specs_that_may_bear(disks, survive);
            let codes: Vec<Code> = specs.iter().filter_map(|spec| built(spec)).collect();
            for code in &codes {
                let devices = (0..code.columns()).filter(|&c| code.role(c) == ColumnRole::Device).count();
                assert_eq!(devices, disks, "{code}");
            }
            if matches!(family.width, Width::Undecided(_)) {
                undecided += codes.len();
                borne += codes.iter().filter(|code| code.claim().tolerance >= survive).count();
                codes.iter().for_each(hold);
            }
        }
    }
    assert!(undecided > 60 && borne * 10 >= undecided * 9, "{borne} of {undecided}");
}

#[test]
fn coupled_codes() {
    let sizes = (2..=5).flat_map(|k| (1..=3).flat_map(move |m| (k..k + m).map(move |d| (k, m, d))));
    hold_all(24, sizes.map(|(k, m, d)| format!("clay:{k},{m},{d}")));
}

#[test]
fn examples_and_small_codes_of_every_family() {
    for family in families() {
        let specs = family.examples.iter().chain(family.small);
        let codes = specs.map(|spec| Code::parse(spec).unwrap()).filter(|code| code.columns() <= 20);
        codes.for_each(|code| hold(&code));
    }
}

#[test]
fn bare_constructions_are_for_study() {
    for (spec, fatal_pairs) in
        [("dcode:9,raw", 9), ("dcode:15,raw", 45), ("xcode:9,raw", 9), ("xcode:8,raw", 12)]
    {
        let code = Code::parse(spec).unwrap();
        assert!(matches!(code.purpose(), Purpose::Study(_)), "{spec}");
        assert_eq!(code.claim(), Claim { tolerance: 1, mds: false });
        hold(&code);
        let vectors = check_vectors(&code);
        let fatal = |a: usize, b: usize| {
            let mut known = Echelon::new(code.equations().len());
            !vectors[a].iter().chain(&vectors[b]).all(|vector| known.insert(vector.clone()))
        };
        let count = subsets(code.columns(), 2).iter().filter(|pair| fatal(pair[0], pair[1])).count();
        assert_eq!(count, fatal_pairs, "{spec}");
    }
    for code in families().iter().flat_map(|f| f.examples).map(|e| Code::parse(e).unwrap()) {
        let study = code.spec().ends_with(",raw");
        assert_eq!(matches!(code.purpose(), Purpose::Study(_)), study, "{code}");
    }
}

#[test]
fn raidp_small() {
    let options = ["", ",weighted", ",stack=2"];
    hold_all(18, options.iter().flat_map(|o| (3..=8).map(move |n| format!("raidp:{n}{o}"))));
    for (option, tolerance) in [("", 2), (",weighted", 3)] {
        let code = Code::parse(&format!("raidp:6{option}")).unwrap();
        assert!(!all_survive(&code, tolerance + 1), "{code}");
    }
}

/// The coefficients depend on the numbers of the disks and not on N, so the largest N decides for
/// all.
#[test]
fn raidp_at_its_limit() {
    let code = Code::parse("raidp:64,stack=2").unwrap();
    let n = 64;
    let mirrors = n * (n - 1) / 2;
    let add_on = |level: usize, disk: usize| &code.equations()[mirrors + level * n + disk];
    let mut superchunk = vec![vec![None; n]; n];
    for equation in &code.equations()[..mirrors] {
        let cells: Vec<_> = equation.terms().iter().map(|t| t.0).collect();
        let (a, b) = (code.column_of(cells[0]), code.column_of(cells[1]));
        assert!(superchunk[a][b].is_none(), "two disks share one superchunk");
        (superchunk[a][b], superchunk[b][a]) = (Some(cells[0]), Some(cells[1]));
    }
    // weight[level][disk][partner]: the coefficient of their superchunk in the add-on of `disk`.
    let weight: Vec<Vec<Vec<Gf>>> = (0..2)
        .map(|level| {
            let of = |disk: usize, partner: usize| {
                superchunk[disk][partner].map_or(Gf::ZERO, |cell| add_on(level, disk).coefficient(cell))
            };
            (0..n).map(|disk| (0..n).map(|partner| of(disk, partner)).collect()).collect()
        })
        .collect();
    // Lost disks, all their pairs unknown; add-ons without the one given, if any.
    let survives = |disks: &[usize], without: Option<(usize, usize)>| {
        let pairs = subsets(disks.len(), 2);
        let mut known = Echelon::new(pairs.len());
        for (level, weights) in weight.iter().enumerate() {
            for (i, &disk) in disks.iter().enumerate() {
                if without == Some((level, i)) {
                    continue;
                }
                let row = pairs.iter().map(|pair| match pair.iter().position(|&x| x == i) {
                    Some(place) => weights[disk][disks[pair[1 - place]]],
                    None => Gf::ZERO,
                });
                known.insert(row.collect());
            }
        }
        known.rank() == pairs.len()
    };
    for i in 0..n {
        for j in i + 1..n {
            for k in j + 1..n {
                for without in [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)] {
                    assert!(survives(&[i, j, k], Some(without)), "{i} {j} {k} without {without:?}");
                }
                for l in k + 1..n {
                    assert!(survives(&[i, j, k, l], None), "{i} {j} {k} {l}");
                }
            }
        }
    }
}
