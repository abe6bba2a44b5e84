//! Advice as a report: what so many disks store, which losses they survive, and how certainly.

use super::{Advice, Options, Ranked, notes};
use crate::durability;
use crate::figure::{Figure, Listing, Point, Points, Quote, number};
use crate::measure::Report;

const NAME: &str = "advise";

/// Disks and losses that an advice is for.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// Disks of an array.
    pub disks: usize,
    /// Lost disks that every code tolerates; `None`: codes for several numbers are beside each
    /// other.
    pub survive: Option<usize>,
    /// The most codes in the table for each number of lost disks.
    pub codes_most: usize,
}

/// Returns the report: the first code as the answer, or that of each number of lost disks; then the
/// proposed codes, their nines against their space, and the reasons.
pub fn report(advice: &Advice, asked: Asked, options: &Options) -> Report {
    let disk = options.durability.disks.len_bytes;
    let all = asked.disks as f64 * disk;
    let mut report = Report::new(NAME, format!("{} disks of {}", asked.disks, size(disk, disk)));
    let places = proposed(advice, asked);
    let shown: Vec<&Ranked> = places.iter().map(|&place| &advice.ranked[place]).collect();
    let usable = |one: &Ranked| size(all / one.space, disk);
    report.answer = answer(&shown, asked, &usable);
    for one in &shown {
        let case = one.candidate.name.as_str();
        report.computed(case, "usable bytes", all / one.space, None);
        report.computed(case, "nines", one.nines, None);
    }
    report.figures.push(Figure::Listing(table(&shown, asked, &usable)));
    report.figures.push(Figure::Points(front(&shown)));
    let reasons = places.iter().take(3).flat_map(|&place| {
        let name = &advice.ranked[place].candidate.name;
        advice.reasons(place).into_iter().map(move |why| vec![name.clone(), why])
    });
    // Reasons compare codes with the first of all, which tolerates another number of losses.
    if asked.survive.is_some() {
        report.figures.push(Figure::Listing(Listing {
            title: "Why".into(),
            caption: "The first by each criterion; the next ones beside the first.".into(),
            head: ["code", "reason"].map(String::from).to_vec(),
            rows: reasons.collect(),
        }));
        report.figures.extend(shown.first().map(|first| {
            Figure::Quote(Quote {
                title: format!("To make {}", first.candidate.name),
                caption: "Words in capitals are to be replaced.".into(),
                lines: first.candidate.commands.clone(),
            })
        }));
    }
    // Without a number of losses the table has no scores.
    report
        .text
        .extend(notes(advice, &options.weights).into_iter().skip(usize::from(asked.survive.is_none())));
    report.say(durability::assumptions(&options.durability));
    report
}

/// Returns the places of the proposed codes, by rank; if several numbers of losses stand beside
/// each other, by the tolerance first.
fn proposed(advice: &Advice, asked: Asked) -> Vec<usize> {
    let of = |place: usize| asked.survive.unwrap_or(advice.ranked[place].tolerance);
    let mut places: Vec<usize> =
        (0..advice.ranked.len()).filter(|&place| advice.ranked[place].beaten_by.is_none()).collect();
    // Without a wish for what can be lost the most usable code of each tolerance comes first.
    let space = |place: usize| if asked.survive.is_none() { advice.ranked[place].space } else { 0.0 };
    places.sort_by(|&a, &b| of(a).cmp(&of(b)).then(space(a).total_cmp(&space(b))));
    let groups = places.chunk_by(|&a, &b| of(a) == of(b));
    groups.flat_map(|group| group.iter().copied().take(asked.codes_most)).collect()
}

fn answer(shown: &[&Ranked], asked: Asked, usable: &dyn Fn(&Ranked) -> String) -> String {
    let said = |one: &Ranked| {
        let disks = if one.tolerance == 1 { "disk" } else { "disks" };
        format!(
            "{} with {}, and any {} {disks} may be lost ({:.1} nines)",
            usable(one),
            one.candidate.name,
            one.tolerance,
            one.nines
        )
    };
    let groups = shown.chunk_by(|a, b| asked.survive.is_some() || a.tolerance == b.tolerance);
    let firsts = groups.filter_map(|group| group.first()).map(|one| said(one));
    format!("Usable: {}.", firsts.collect::<Vec<_>>().join("; "))
}

fn table(shown: &[&Ranked], asked: Asked, usable: &dyn Fn(&Ranked) -> String) -> Listing {
    let rows = shown.iter().map(|one| {
        let survives = format!("any {}{}", one.tolerance, if one.is_proved { "" } else { ", claimed" });
        let mut row = vec![
            one.candidate.name.clone(),
            usable(one),
            survives,
            one.nines_shown(),
            format!("{:.3}", one.space),
            format!("{:.2}", one.io),
            one.rebuild_shown(),
            one.same.join(" "),
        ];
        if asked.survive.is_some() {
            row.insert(7, format!("{:.2}", one.score));
        }
        row
    });
    let mut head = vec!["code", ">usable", "survives", ">nines", ">space", ">I/O", ">rebuild", "stands for"];
    if asked.survive.is_some() {
        head.insert(7, ">score");
    }
    Listing {
        title: "The codes that fit".into(),
        caption: "Survives: lost disks, whichever they are. Nines: of no loss in an array within a year. Space: stored bytes per byte. I/O: blocks \
                  moved for each block that the requests ask for. Rebuild: of one lost disk."
            .into(),
        head: head.into_iter().map(String::from).collect(),
        rows: rows.collect(),
    }
}

fn front(shown: &[&Ranked]) -> Points {
    let points = shown.iter().map(|one| {
        let is_better = |other: &&Ranked| {
            other.space <= one.space
                && other.nines >= one.nines
                && (other.space < one.space || other.nines > one.nines)
        };
        Point {
            name: one.candidate.name.clone(),
            x: one.space,
            y: one.nines,
            is_front: !shown.iter().any(is_better),
        }
    });
    Points {
        title: "Nines against space".into(),
        x: "stored bytes per byte".into(),
        y: "nines".into(),
        points: points.collect(),
        caption: "Filled and joined: codes that no other beats in one without being worse in the other."
            .into(),
    }
}

/// Returns a number of bytes in the unit of the disks: TB if they have whole gigabytes, as disks
/// are sold, otherwise TiB; GB and GiB for small ones.
fn size(bytes: f64, disk: f64) -> String {
    let (base, units) = match disk % 1e9 == 0.0 {
        true => (1000f64, ["GB", "TB"]),
        false => (1024f64, ["GiB", "TiB"]),
    };
    let is_large = disk >= base.powi(4);
    format!("{} {}", number(bytes / base.powi(if is_large { 4 } else { 3 })), units[usize::from(is_large)])
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes_have_the_unit_of_the_disks() {
        let (tb, tib) = (1e12, (1u64 << 40) as f64);
        assert_eq!([size(16.0 * tb, 16.0 * tb), size(4.5 * tb, 16.0 * tb)], ["16 TB", "4.5 TB"]);
        assert_eq!([size(64.0 * tib, 16.0 * tib), size(0.5 * tib, tib)], ["64 TiB", "0.5 TiB"]);
        assert_eq!([size(3e9, 5e11), size(1.5 * tib, 0.5 * tib)], ["3 GB", "1536 GiB"]);
    }
}
