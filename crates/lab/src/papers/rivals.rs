//! The array codes that the D-Code paper compares, by the prime that they are built from.

/// The primes of the paper.
pub const PRIMES: [usize; 4] = [5, 7, 11, 13];

/// A code of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rival {
    /// Row-Diagonal Parity: p + 1 disks.
    Rdp,
    /// H-Code: p + 1 disks.
    HCode,
    /// Horizontal-Diagonal Parity: p - 1 disks.
    Hdp,
    /// X-Code: p disks.
    XCode,
    /// D-Code: p disks.
    DCode,
    /// EVENODD: p + 2 disks.
    EvenOdd,
}

impl Rival {
    /// All codes, in the order of the paper's figures; EVENODD, which it leaves out, last.
    pub const ALL: [Rival; 6] =
        [Rival::Rdp, Rival::HCode, Rival::Hdp, Rival::XCode, Rival::DCode, Rival::EvenOdd];

    /// Returns the name that the papers use.
    pub fn name(self) -> &'static str {
        match self {
            Rival::Rdp => "RDP",
            Rival::HCode => "H-Code",
            Rival::Hdp => "HDP",
            Rival::XCode => "X-Code",
            Rival::DCode => "D-Code",
            Rival::EvenOdd => "EVENODD",
        }
    }

    /// Returns the spec of the code built from the prime p.
    pub fn spec(self, p: usize) -> String {
        match self {
            Rival::Rdp => format!("rdp:{}", p + 1),
            Rival::HCode => format!("hcode:{}", p + 1),
            Rival::Hdp => format!("hdp:{}", p - 1),
            Rival::XCode => format!("xcode:{p}"),
            Rival::DCode => format!("dcode:{p}"),
            Rival::EvenOdd => format!("evenodd:{}", p + 2),
        }
    }

    /// Returns the code built from the prime p.
    pub fn code(self, p: usize) -> pantile::Code {
        match pantile::Code::parse(&self.spec(p)) {
            Ok(code) => code,
            Err(error) => unreachable!("every prime of the paper is allowed: {error}"),
        }
    }
}
