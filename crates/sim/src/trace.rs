//! The events of a run, line by line; the same seed gives the same lines.

use std::fmt;

use pantile_format::CrcStream;

/// The length of text kept for a report; older lines remain only in the hash.
const KEPT_BYTES: usize = 1 << 20; // a run of 300 requests is a quarter of it

/// The trace of a run.
pub struct Trace {
    text: String,
    hash: CrcStream,
    hashed: usize,
    lines: u64,
}

impl Default for Trace {
    fn default() -> Trace {
        Trace { text: String::new(), hash: CrcStream::new(), hashed: 0, lines: 0 }
    }
}

impl Trace {
    /// Adds a line.
    pub fn line(&mut self, line: fmt::Arguments<'_>) {
        fmt::Write::write_fmt(&mut self.text, line).expect("text takes text");
        self.text.push('\n');
        self.lines += 1;
        if self.text.len() > 2 * KEPT_BYTES {
            self.forget();
        }
    }

    /// Returns the number of lines so far.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// Returns a number that differs if the traces differ.
    pub fn hash(&mut self) -> u64 {
        self.hash.update(&self.text.as_bytes()[self.hashed..]);
        self.hashed = self.text.len();
        self.hash.crc().0
    }

    /// Returns the last lines that are kept, oldest first.
    pub fn tail(&self, lines: usize) -> &str {
        let start = self.text.rmatch_indices('\n').nth(lines).map_or(0, |(at, _)| at + 1);
        &self.text[start..]
    }

    fn forget(&mut self) {
        self.hash();
        let newline = self.text[..KEPT_BYTES].rfind('\n').map_or(self.text.len(), |at| at + 1);
        self.text.drain(..newline);
        self.hashed = self.text.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_all_lines_although_old_ones_are_forgotten() {
        let mut trace = Trace::default();
        let mut all = String::new();
        for i in 0..200_000 {
            trace.line(format_args!("line number {i}"));
            all += &format!("line number {i}\n");
        }
        assert_eq!(trace.hash(), pantile_format::Crc64::of(all.as_bytes()).0);
        assert_eq!(trace.tail(2), "line number 199998\nline number 199999\n");
        assert!(trace.text.len() <= 2 * KEPT_BYTES && trace.lines() == 200_000);
    }
}
