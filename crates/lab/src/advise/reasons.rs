//! Reasons for the rank of a code, in plain sentences.

use super::{Advice, Criterion, NINES_ENOUGH, Ranked};
use crate::figure::number;

impl Advice {
    /// Returns sentences about one ranked code: for the first, its place by each criterion; for
    /// another, its gains and losses against the first.
    pub fn reasons(&self, place: usize) -> Vec<String> {
        let Some((first, one)) = self.ranked.first().zip(self.ranked.get(place)) else { return Vec::new() };
        match place {
            0 => {
                Criterion::ALL.map(|of| self.stands(first, of)).into_iter().chain(imbalance(first)).collect()
            }
            _ => vec![beside(one, first)],
        }
    }

    /// Returns the place of a code by a criterion, as a sentence.
    fn stands(&self, one: &Ranked, of: Criterion) -> String {
        let best = self.ranked.iter().min_by(|a, b| a.cost(of).total_cmp(&b.cost(of))).unwrap_or(one);
        let is_best = one.cost(of) <= best.cost(of) * (1.0 + 1e-9);
        let (value, least) = (said(one, of), said(best, of));
        let rest = match (is_best, of) {
            (true, Criterion::Durability) => "none of the candidates has more that count".into(),
            (true, Criterion::Rebuild) => "none of the candidates is quicker".into(),
            (true, _) => "none of the candidates needs less".into(),
            (false, Criterion::Durability) => format!("the most is {least} ({})", best.candidate.name),
            (false, _) => format!("the least is {least} ({})", best.candidate.name),
        };
        match of {
            Criterion::Space => format!("Space: it stores {value} bytes for each byte; {rest}."),
            Criterion::Io => format!(
                "I/O: this trace moves {value} blocks for each block that it asks for, {:.0} % of them users' data; {rest}.",
                100.0 * one.user_share
            ),
            Criterion::Rebuild => format!(
                "Rebuild: a lost disk comes back in {value}, from what {} disks hold; {rest}.",
                number(one.rebuild_disks)
            ),
            Criterion::Durability => format!(
                "Durability: {value} nines that an array loses nothing within a year; {rest}. Any {} {} may be lost, {}.",
                one.tolerance,
                if one.tolerance == 1 { "disk" } else { "disks" },
                if one.is_proved { "proved" } else { "as its construction claims" }
            ),
        }
    }
}

/// Returns the printed value of a criterion.
fn said(one: &Ranked, of: Criterion) -> String {
    match of {
        Criterion::Space => format!("{:.3}", one.space),
        Criterion::Io => format!("{:.2}", one.io),
        Criterion::Rebuild => format!("{:.1} h", one.rebuild_hours),
        Criterion::Durability => format!("{:.1}", one.nines),
    }
}

/// Imbalance from which on it is mentioned: a fifth above the mean.
const IMBALANCE: f64 = 1.2;

fn imbalance(one: &Ranked) -> Option<String> {
    (one.busiest >= IMBALANCE)
        .then(|| format!("Balance: its busiest disk does {:.2} times the mean of the disks.", one.busiest))
}

/// Returns the gains and losses of one code against the first.
fn beside(one: &Ranked, first: &Ranked) -> String {
    /// Relative differences below this are not mentioned: the trace of another day would change
    /// them.
    const ALIKE: f64 = 0.005;
    let mut better = Vec::new();
    let mut worse = Vec::new();
    for of in Criterion::ALL {
        let ratio = one.cost(of) / first.cost(of);
        if (ratio - 1.0).abs() < ALIKE {
            continue;
        }
        let percent = |value: f64| match value < 2.0 {
            true => format!("{:.0} %", 100.0 * (value - 1.0).abs()),
            false => format!("{value:.1} times"),
        };
        let words = match of {
            Criterion::Durability => format!("{:.1} nines instead of {:.1}", one.nines, first.nines),
            _ if ratio < 1.0 => format!("{} less {}", percent(ratio), what(of)),
            _ if ratio < 2.0 => format!("{} more {}", percent(ratio), what(of)),
            _ => format!("{} the {}", percent(ratio), what(of)),
        };
        if ratio < 1.0 { better.push(words) } else { worse.push(words) }
    }
    match (better.is_empty(), worse.is_empty()) {
        (true, true) => format!("as good as {} by what counts here", first.candidate.name),
        (false, true) => format!("{}, and nothing worse by what is counted", better.join(", ")),
        (true, false) => worse.join(", "),
        (false, false) => format!("{}, but {}", better.join(", "), worse.join(", ")),
    }
}

fn what(of: Criterion) -> &'static str {
    match of {
        Criterion::Space => "space",
        Criterion::Io => "I/O",
        Criterion::Rebuild => "rebuild time",
        Criterion::Durability => "durability",
    }
}

/// Returns the meaning of the table's columns, and the assumptions.
pub fn notes(advice: &Advice, weights: &super::Weights) -> Vec<String> {
    let mut notes = vec![format!(
        "score: how many times worse than the best of each column, the weighted geometric mean; weights {weights}. Nines above {NINES_ENOUGH} \
         count for no more. Scores that are a few per cent apart say little: another day's trace moves them."
    )];
    let stood_for: Vec<&Ranked> = advice.ranked.iter().filter(|one| one.durability_of.is_some()).collect();
    if !stood_for.is_empty() {
        notes.push(
            "*: of a code of several rows, or with a tolerance above eight, nines are those of Reed-Solomon on as many disks, \
             rebuilt from whole disks: the safe side."
                .into(),
        );
    }
    if advice.ranked.iter().any(|one| one.is_sampled) {
        notes.push(
            "\u{2248}: too many sets of lost disks to examine each here; the number is of a sample, and 'pantile durability CODE' draws a \
             larger one."
                .into(),
        );
    }
    if advice.ranked.iter().any(|one| !one.rebuild_is_least) {
        notes.push("~: from the best plan that was found; a cheaper one is not ruled out.".into());
    }
    notes
}
