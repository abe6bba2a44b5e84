//! The text form of a code: `family:argument,argument,...`.
//!
//! ```text
//! spec     = family ":" argument *( "," argument )
//! argument = count / count "+" count / key / key "=" value
//! family, key = lower-case letter *( lower-case letter / digit / "-" )
//! count    = "0" / non-zero digit *digit
//! value    = 1*( lower-case letter / digit / "." / "-" )
//! ```
//!
//! The grammar is the same for all families; each family defines its arguments. A parsed
//! [`Code`](crate::Code) has the canonical spec: positional arguments first, then options without
//! those at their default.

use crate::families::{Family, families};
use crate::{Code, CodeError, foreign};
use std::cmp::Reverse;
use std::fmt;
use std::str::FromStr;

/// The canonical spec of a code: two specs are equal exactly if they name the same code.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CodeSpec(String);

impl CodeSpec {
    /// The canonical text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the code that the spec names.
    pub fn code(&self) -> Code {
        Code::parse(&self.0).expect("a CodeSpec is made from a code that was built")
    }
}

impl FromStr for CodeSpec {
    type Err = CodeError;
    fn from_str(text: &str) -> Result<CodeSpec, CodeError> {
        Code::parse(text).map(|code| CodeSpec(code.spec().to_string()))
    }
}

impl fmt::Display for CodeSpec {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.0)
    }
}

impl Code {
    /// Builds the code that a spec names, even one that must not store data; programs that store
    /// data call [`Code::check_stores`]. Names of other systems are accepted, too
    /// ([`foreign`](crate::foreign)).
    ///
    /// Errors: a [`CodeError`] with the limit and the remedy; Cost: that of the construction; no
    /// proof is run.
    pub fn parse(spec: &str) -> Result<Code, CodeError> {
        if let Some(known) = foreign::code(spec) {
            return known;
        }
        let syntax =
            |part: &str, expected| CodeError::Syntax { spec: spec.into(), part: part.into(), expected };
        let Some((name, rest)) = spec.split_once(':') else {
            return Err(match find(spec) {
                Some(family) => CodeError::MissingArgument {
                    family: family.name,
                    argument: "arguments after a colon",
                    forms: family.forms,
                },
                None if is_word(spec) => unknown(spec),
                None => syntax(spec, "family:arguments"),
            });
        };
        if name == "custom" {
            return Err(CodeError::NeedsFile { spec: spec.into() });
        }
        if !is_word(name) {
            return Err(syntax(name, "a family name in lower-case letters"));
        }
        let family = find(name).ok_or_else(|| unknown(name))?;
        let arguments = rest
            .split(',')
            .map(|part| Argument::parse(part).map_err(|expected| syntax(part, expected)))
            .collect::<Result<Vec<Argument>, CodeError>>()?;
        let mut arguments = Arguments { spec: spec.into(), family, rest: arguments };
        let code = (family.build)(&mut arguments)?;
        debug_assert!(arguments.rest.is_empty(), "{name} did not call Arguments::finish");
        Ok(code)
    }
}

fn find(name: &str) -> Option<&'static Family> {
    families().iter().find(|f| f.name == name)
}

fn unknown(name: &str) -> CodeError {
    // Among equally similar names, suggest the one whose codes tolerate most, and never one that
    // tolerates no loss: a typing error must not lead to less redundancy than the user wanted.
    let survives = |family: &Family| Code::parse(family.examples[0]).map_or(0, |code| code.claim().tolerance);
    let near = |family: &Family| {
        let d = distance(name, family.name);
        (d <= (family.name.len() / 3).clamp(1, 2)).then_some(d)
    };
    let nearest = families()
        .iter()
        .filter_map(|family| Some((near(family)?, Reverse(survives(family)), family.name)))
        .filter(|&(_, Reverse(tolerance), _)| tolerance > 0)
        .min()
        .map(|(_, _, known)| known);
    CodeError::UnknownFamily { family: name.into(), nearest }
}

/// Returns the edit distance of two names, for the suggestion in an error.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &y) in b.iter().enumerate() {
            let next = (diagonal + usize::from(x != y)).min(row[j] + 1).min(row[j + 1] + 1);
            diagonal = std::mem::replace(&mut row[j + 1], next);
        }
    }
    row[b.len()]
}

fn is_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Argument {
    Count(usize),
    Sum(usize, usize),
    Option { key: String, value: Option<String> },
}

impl Argument {
    fn parse(text: &str) -> Result<Argument, &'static str> {
        if text.is_empty() {
            return Err("an argument");
        }
        if text.starts_with(|c: char| c.is_ascii_digit()) {
            return match text.split_once('+') {
                Some((k, m)) => Ok(Argument::Sum(count(k)?, count(m)?)),
                None => Ok(Argument::Count(count(text)?)),
            };
        }
        let (key, value) = match text.split_once('=') {
            Some((key, value)) => (key, Some(value)),
            None => (text, None),
        };
        if !is_word(key) {
            return Err("a number, k+m, or an option in lower-case letters");
        }
        let good = |v: &str| {
            !v.is_empty()
                && v.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '.' || c == '-')
        };
        match value {
            Some(value) if !good(value) => Err("a value of lower-case letters and digits after '='"),
            _ => Ok(Argument::Option { key: key.into(), value: value.map(str::to_string) }),
        }
    }
}

fn count(text: &str) -> Result<usize, &'static str> {
    let digits = !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    let plain = text == "0" || !text.starts_with('0');
    match text.parse::<usize>() {
        Ok(value) if digits && plain && value <= 1_000_000 => Ok(value),
        _ => Err("a decimal number without leading zeros, at most 1000000,"),
    }
}

impl fmt::Display for Argument {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Argument::Count(n) => write!(out, "{n}"),
            Argument::Sum(k, m) => write!(out, "{k}+{m}"),
            Argument::Option { key, value: None } => write!(out, "{key}"),
            Argument::Option { key, value: Some(value) } => write!(out, "{key}={value}"),
        }
    }
}

/// Advice about a number outside its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hint {
    /// The reason why the number cannot be smaller, or a replacement; can be empty.
    pub below: &'static str,
    /// The reason why the number cannot be larger, or a replacement; can be empty.
    pub above: &'static str,
}

/// Most ranges need advice about their upper end only.
impl From<&'static str> for Hint {
    fn from(above: &'static str) -> Hint {
        Hint { below: "", above }
    }
}

/// The arguments of a spec; the family takes them one by one to build a code.
pub struct Arguments {
    spec: String,
    family: &'static Family,
    rest: Vec<Argument>,
}

impl Arguments {
    /// Returns the spec as it was given, for errors.
    pub fn spec(&self) -> &str {
        &self.spec
    }

    /// Takes the next argument, which must be a count within `least..=most`.
    pub fn count(
        &mut self,
        what: &'static str,
        least: usize,
        most: usize,
        hint: impl Into<Hint>,
    ) -> Result<usize, CodeError> {
        match self.rest.first() {
            Some(&Argument::Count(given)) => {
                self.rest.remove(0);
                self.in_range(what, given, least, most, hint)
            }
            _ => Err(self.missing_or_unexpected(what)),
        }
    }

    /// Takes the next argument, which must have the form k+m. The caller checks the ranges with
    /// [`Arguments::in_range`].
    pub fn sum(&mut self) -> Result<(usize, usize), CodeError> {
        match self.rest.first() {
            Some(&Argument::Sum(k, m)) => {
                self.rest.remove(0);
                Ok((k, m))
            }
            _ => Err(self.missing_or_unexpected("k+m")),
        }
    }

    /// Takes the next argument if it is a count.
    pub fn optional_count(&mut self) -> Option<usize> {
        match self.rest.first() {
            Some(&Argument::Count(given)) => {
                self.rest.remove(0);
                Some(given)
            }
            _ => None,
        }
    }

    /// Takes an option without a value, at any position. Returns true if it was there.
    pub fn flag(&mut self, key: &str) -> bool {
        let found =
            self.rest.iter().position(|a| matches!(a, Argument::Option { key: k, value: None } if k == key));
        found.map(|i| self.rest.remove(i)).is_some()
    }

    /// Takes an option with a value, at any position.
    pub fn value(&mut self, key: &str) -> Option<String> {
        let found = self
            .rest
            .iter()
            .position(|a| matches!(a, Argument::Option { key: k, value: Some(_) } if k == key))?;
        match self.rest.remove(found) {
            Argument::Option { value, .. } => value,
            _ => None,
        }
    }

    /// Takes an option whose value is a count within `least..=most`.
    pub fn count_value(
        &mut self,
        key: &'static str,
        least: usize,
        most: usize,
        hint: impl Into<Hint>,
    ) -> Result<Option<usize>, CodeError> {
        let Some(text) = self.value(key) else { return Ok(None) };
        match count(&text) {
            Ok(given) => self.in_range(key, given, least, most, hint).map(Some),
            Err(_) => Err(self.unexpected(format!("{key}={text}"))),
        }
    }

    /// Returns the number, or an error if it is not within `least..=most`.
    pub fn in_range(
        &self,
        what: &'static str,
        given: usize,
        least: usize,
        most: usize,
        hint: impl Into<Hint>,
    ) -> Result<usize, CodeError> {
        match (least..=most).contains(&given) {
            true => Ok(given),
            false => {
                let Hint { below, above } = hint.into();
                let hint = match given < least {
                    true if below.is_empty() && what.contains("the number of") => "a stripe has at least one",
                    true => below,
                    false => above,
                };
                Err(CodeError::OutOfRange { family: self.family.name, what, given, least, most, hint })
            }
        }
    }

    /// Returns the error for an argument, or a combination of arguments, that the family does not
    /// accept.
    pub fn unexpected(&self, argument: String) -> CodeError {
        CodeError::UnexpectedArgument { family: self.family.name, argument, forms: self.family.forms }
    }

    /// Returns the error for a missing argument.
    pub fn missing(&self, argument: &'static str) -> CodeError {
        CodeError::MissingArgument { family: self.family.name, argument, forms: self.family.forms }
    }

    /// Returns the error for a combination of numbers that is not possible; `rule` is a sentence
    /// without its full stop.
    pub fn unsuitable(&self, rule: String) -> CodeError {
        CodeError::Unsuitable { family: self.family.name, rule }
    }

    /// Returns an error if an argument was not taken. Every family calls it before it builds.
    pub fn finish(&self) -> Result<(), CodeError> {
        match self.rest.first() {
            None => Ok(()),
            Some(argument) => Err(self.unexpected(argument.to_string())),
        }
    }

    fn missing_or_unexpected(&self, what: &'static str) -> CodeError {
        match self.rest.first() {
            None => self.missing(what),
            Some(argument) => self.unexpected(argument.to_string()),
        }
    }
}
