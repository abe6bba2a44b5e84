//! RAIDq: three or four parities with powers as coefficients, P_p = sum of g_p^i D_i, so that
//! encoding is Horner's rule with a few fixed multipliers, and the first two parities stay RAID-6's
//! P and Q.
//!
//! | form | generators | data columns up to |
//! | --- | --- | --- |
//! | `k+3` | 1, a, a^1/2 | 255 |
//! | `k+3,powers` | 1, a, a^2 (triple parity) | 255 |
//! | `k+3,b=0xHH` | 1, b, b^2 | the order of b |
//! | `k+4` | 1, a, a^1/2, X with X^2 = a^3 X + 1 (`x92`, the paper's) | 92 |
//! | `k+4,x125` | the same with X^2 = a^77 X + 1 | 125 |
//! | `k+4,x164` | the same with X^2 = 0xfe X + 0x72 | 164 |
//! | `k+4,x=bb.cc` | the same with X^2 = bX + c, b and c in hex | computed |
//! | `k+4,powers` | 1, a, a^2, a^3 | 21 |
//! | `k+4,b=0xHH` | 1, b, b^2, b^3 | computed; 27 at best for a generator, 33 for order 85 |
//! | `k+4,sqrt` | 1, a, a^1/2, a^3/2 | 21 |
//! | `k+4,cbrt` | 1, a, a^1/3, a^2/3 with a^1/3 = Y, Y^3 = a | 63 |
//! | `k+4,cbrt=paper` | the same with the paper's root a^1/3 = a^85 Y | 63 |
//! | `k+4,sixth` | 1, a^1/2, a^1/6, a^1/3 with a^1/6 = a^-1/2 Y^2 | 63 |
//!
//! X is in GF(2^16) and Y in GF(2^24). Instead of a second field, a column has 2 or 3 rows over
//! GF(2^8). Row t is the coefficient of X^t, and a power of a generator acts on the rows as a
//! matrix: X (lo, hi) = (c hi, lo + b hi), Y (c0, c1, c2) = (a c2, c0, c1). Generators from GF(2^8)
//! act on every row alike, so those parities stay byte-identical to RAID-6's.
//!
//! Limits: MDS exactly up to the numbers in the table, which [`plank`](crate::plank) computes. The
//! first minor that is zero above the limit is the certificate in the refusal. There are 32,640
//! polynomials X^2 + bX + c: 125 is the best limit with c = 1, 164 the best of all.
//!
//! Source: M.-S. Chen, B.-Y. Yang, C.-M. Cheng, "RAIDq: a software-friendly, multiple-parity RAID"
//! (HotStorage 2013). Errata: the paper calls the X form "not an MDS code"; that is true only for
//! general k. It gives 27 as the limit of 1, b, b^2, b^3; that is true only for generators b. Its
//! a^1/3 = 0x00d600 is a^85 Y, one of three roots. Y = 0x000100 itself is the one whose
//! multiplication is a shift (the default here).

use super::{Family, Width};
use crate::plank::{self, Element, Tower};
use crate::{Arguments, Claim, Code, CodeBuilder, CodeError, Hint};
use pantile_gf::{ALPHA, Gf, Matrix};

pub(super) const FAMILY: Family = Family {
    name: "raidq",
    summary: "3 or 4 parities by powers, P and Q those of RAID-6: any 3 or 4 columns can be lost",
    forms: &[
        "raidq:k+3",
        "raidq:k+3,powers",
        "raidq:k+3,b=0xHH",
        "raidq:k+4",
        "raidq:k+4,x125",
        "raidq:k+4,x164",
        "raidq:k+4,x=bb.cc",
        "raidq:k+4,powers",
        "raidq:k+4,b=0xHH",
        "raidq:k+4,sqrt",
        "raidq:k+4,cbrt",
        "raidq:k+4,cbrt=paper",
        "raidq:k+4,sixth",
    ],
    examples: &["raidq:8+3", "raidq:16+4", "raidq:100+4,x125", "raidq:12+4,cbrt"],
    small: &["raidq:5+3", "raidq:5+3,powers", "raidq:4+3,b=0x1d", "raidq:4+4", "raidq:7+4,x125", "raidq:5+4,x164", "raidq:4+4,x=08.d8", "raidq:6+4,powers", "raidq:6+4,sqrt", "raidq:4+4,cbrt", "raidq:4+4,cbrt=paper", "raidq:4+4,sixth", "raidq:6+4,b=0xfc"],
    width: Width::DataPlus(3),
    source: "Chen, Yang, Cheng, RAIDq (HotStorage 2013); limits by pantile_code::plank",
    build,
};

fn build(arguments: &mut Arguments) -> Result<Code, CodeError> {
    let (k, m) = arguments.sum()?;
    let options = options(arguments)?;
    arguments.finish()?;
    let hint = Hint { below: "raid5 has 1 and raid6 has 2", above: "cauchy has up to 6, rs more" };
    arguments.in_range("m, the number of parities,", m, 3, 4, hint)?;
    arguments.in_range("k, the number of data columns,", k, 1, plank::MOST_DATA, "the powers of a repeat after 255")?;
    if options.len() > 1 {
        return Err(arguments.unsuitable(format!("{} exclude each other", options.join(" and "))));
    }
    let option = options.first().map_or("", String::as_str);
    let rows = rows(arguments, m, option)?;
    if k > rows.limit {
        return Err(refusal(arguments, k, m, &rows));
    }
    Ok(code(k, &rows).finish(rows.spec(k, m), "raidq", Claim { tolerance: m, mds: true }))
}

/// Returns the options as they were given.
fn options(arguments: &mut Arguments) -> Result<Vec<String>, CodeError> {
    let mut found = Vec::new();
    for flag in ["x92", "x125", "x164", "powers", "sqrt", "cbrt", "sixth"] {
        if arguments.flag(flag) {
            found.push(flag.to_string());
        }
    }
    for key in ["b", "x", "cbrt"] {
        if let Some(value) = arguments.value(key) {
            found.push(format!("{key}={value}"));
        }
    }
    Ok(found)
}

/// A choice of generators, with its name and the limit of k.
struct Rows {
    /// The canonical option, empty for the default.
    option: String,
    /// The generators in words.
    words: String,
    field: Tower,
    generators: Vec<Element>,
    limit: usize,
}

impl Rows {
    fn spec(&self, k: usize, m: usize) -> String {
        match self.option.as_str() {
            "" => format!("raidq:{k}+{m}"),
            option => format!("raidq:{k}+{m},{option}"),
        }
    }
}

fn rows(arguments: &Arguments, m: usize, option: &str) -> Result<Rows, CodeError> {
    let root = ALPHA.sqrt();
    match (m, option) {
        (3, "") => Ok(of_bytes("", "[1, a, a^1/2]", vec![Gf::ONE, ALPHA, root], 255)),
        (4, "" | "x92") => of_x(arguments, "", Gf::alpha_pow(3), Gf::ONE, Some(92)),
        (4, "x125") => of_x(arguments, "x125", Gf::alpha_pow(77), Gf::ONE, Some(125)),
        (4, "x164") => of_x(arguments, "x164", Gf(0xfe), Gf(0x72), Some(164)),
        (3, "powers") => Ok(of_bytes("powers", "[1, a, a^2]", vec![Gf::ONE, ALPHA, ALPHA.pow(2)], 255)),
        (4, "powers") => {
            let generators = vec![Gf::ONE, ALPHA, ALPHA.pow(2), ALPHA.pow(3)];
            Ok(of_bytes("powers", "[1, a, a^2, a^3]", generators, 21))
        }
        (4, "sqrt") => {
            let generators = vec![Gf::ONE, ALPHA, root, root.pow(3)];
            Ok(of_bytes("sqrt", "[1, a, a^1/2, a^3/2]", generators, 21))
        }
        (4, "cbrt") => Ok(of_cube_root("cbrt", Gf::ONE)),
        (4, "cbrt=paper") => Ok(of_cube_root("cbrt=paper", Gf::alpha_pow(85))),
        (4, "sixth") => Ok(sixth()),
        (_, option) => match option.split_once('=') {
            Some(("b", value)) => of_b(arguments, m, value),
            Some(("x", value)) if m == 4 => of_x_text(arguments, value),
            _ => Err(arguments.unexpected(option.into())),
        },
    }
}

fn of_bytes(option: &str, words: &str, generators: Vec<Gf>, limit: usize) -> Rows {
    let field = Tower::bytes();
    let generators = generators.into_iter().map(|g| field.embed(g)).collect();
    Rows { option: option.into(), words: words.into(), field, generators, limit }
}

fn of_b(arguments: &Arguments, m: usize, value: &str) -> Result<Rows, CodeError> {
    let b = value.strip_prefix("0x").and_then(byte).filter(|b| !b.is_zero());
    let Some(b) = b else { return Err(arguments.unexpected(format!("b={value}"))) };
    if b == ALPHA {
        return rows(arguments, m, "powers");
    }
    let generators: Vec<Gf> = (0..m as u64).map(|p| b.pow(p)).collect();
    let words = if m == 3 { "[1, b, b^2]" } else { "[1, b, b^2, b^3]" };
    let mut rows = of_bytes(&format!("b=0x{b}"), &format!("{words} with b = 0x{b}"), generators, 0);
    // With three parities the rows are Vandermonde, and the code is MDS up to the order of the
    // element.
    rows.limit = match (m, b.order()) {
        (3, Some(order)) => order,
        _ => plank::first_vanishing_minor(&rows.field, &rows.generators).map_or(plank::MOST_DATA, |minor| minor.limit()),
    };
    Ok(rows)
}

fn of_x_text(arguments: &Arguments, value: &str) -> Result<Rows, CodeError> {
    let coefficients = value.split_once('.').and_then(|(b, c)| Some((byte(b)?, byte(c)?)));
    match coefficients {
        None => Err(arguments.unexpected(format!("x={value}"))),
        Some((Gf(8), Gf(1))) => rows(arguments, 4, "x92"),
        Some((Gf(0x3c), Gf(1))) => rows(arguments, 4, "x125"),
        Some((Gf(0xfe), Gf(0x72))) => rows(arguments, 4, "x164"),
        Some((b, c)) => of_x(arguments, &format!("x={b}.{c}"), b, c, None),
    }
}

/// Two lower-case hexadecimal digits.
fn byte(text: &str) -> Option<Gf> {
    let plain = text.len() == 2 && text.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'));
    plain.then(|| u8::from_str_radix(text, 16).ok().map(Gf)).flatten()
}

fn of_x(arguments: &Arguments, option: &str, b: Gf, c: Gf, known: Option<usize>) -> Result<Rows, CodeError> {
    let Some(field) = Tower::quadratic(b, c) else {
        return Err(arguments.unsuitable(format!(
            "X^2 + 0x{b} X + 0x{c} has a root in GF(2^8), so it names no X; x=08.01 is one without"
        )));
    };
    let limit = known.or_else(|| plank::limit_of_fourth_generator(b, c)).unwrap_or(0);
    let bytes = [Gf::ONE, ALPHA, ALPHA.sqrt()];
    let mut generators: Vec<Element> = bytes.into_iter().map(|g| field.embed(g)).collect();
    generators.push(field.root(Gf::ONE));
    let words = format!("[1, a, a^1/2, X] with X^2 = 0x{b} X + 0x{c}");
    Ok(Rows { option: option.into(), words, field, generators, limit })
}

fn of_cube_root(option: &str, factor: Gf) -> Rows {
    let field = Tower::cubic();
    let root = field.root(factor);
    let generators = vec![field.embed(Gf::ONE), field.embed(ALPHA), root, field.product(root, root)];
    let words = format!("[1, a, a^1/3, a^2/3] with a^1/3 = 0x{factor} Y");
    Rows { option: option.into(), words, field, generators, limit: 63 }
}

fn sixth() -> Rows {
    let field = Tower::cubic();
    let cube_root = field.root(Gf::ONE);
    let sixth_root = field.product(field.embed(Gf::ONE / ALPHA.sqrt()), field.product(cube_root, cube_root));
    let generators = vec![field.embed(Gf::ONE), field.embed(ALPHA.sqrt()), sixth_root, cube_root];
    Rows { option: "sixth".into(), words: "[1, a^1/2, a^1/6, a^1/3]".into(), field, generators, limit: 63 }
}

fn refusal(arguments: &Arguments, k: usize, m: usize, rows: &Rows) -> CodeError {
    let minor = plank::first_vanishing_minor(&rows.field, &rows.generators)
        .expect("a limit below 255 has a vanishing minor one column on");
    assert_eq!(minor.limit(), rows.limit, "the limit of {} is frozen wrongly", rows.words);
    let instead = match k {
        _ if m == 3 => format!("Use raidq:{k}+3, which holds up to 255."),
        ..=92 => format!("Use raidq:{k}+4 (up to 92) or cauchy:{k}+4 (up to 251)."),
        93..=125 => format!("Use raidq:{k}+4,x125 (up to 125), raidq:{k}+4,x164 (up to 164) or cauchy:{k}+4 (up to 251)."),
        126..=164 => format!("Use raidq:{k}+4,x164 (up to 164) or cauchy:{k}+4 (up to 251)."),
        165..=251 => format!("Use cauchy:{k}+4, which holds up to 251."),
        _ => "Use at most 251 data columns with cauchy.".into(),
    };
    CodeError::NotMds {
        spec: arguments.spec().into(),
        rows: rows.words.clone(),
        k,
        limit: rows.limit,
        fatal: minor.fatal_columns(m),
        instead,
    }
}

/// Builds the code. Row t of parity p is: P_p\[t\] = sum over i and s of (matrix of
/// g_p^i)\[t\]\[s\] D_i\[s\].
fn code(k: usize, rows: &Rows) -> CodeBuilder {
    let degree = rows.field.degree();
    let mut code = CodeBuilder::uniform(k + rows.generators.len(), degree);
    for (p, &generator) in rows.generators.iter().enumerate() {
        let step = rows.field.matrix(generator);
        let mut power = Matrix::identity(degree);
        let mut terms = vec![Vec::new(); degree];
        for i in 0..k {
            for (t, row) in terms.iter_mut().enumerate() {
                row.extend((0..degree).map(|s| ((s, i), power.get(t, s))));
            }
            power = &power * &step;
        }
        terms.into_iter().enumerate().for_each(|(t, row)| code.define((t, k + p), row));
    }
    code
}
