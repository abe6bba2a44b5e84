//! Findings of an experiment, each with the kind of its number.

use crate::Figure;
use serde::Serialize;
use std::collections::BTreeMap;

/// Origin of a number: the word that is printed beside it everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A document prints it; the lab has no value for it.
    Published,
    /// Something ran: a kernel, a volume's engine on devices or in virtual time, or a recorded
    /// run.
    Measured,
    /// Counted in plans, equations or requests that exist.
    Counted,
    /// A model with virtual time or chance ran; its rules are the lab's.
    Simulated,
    /// A formula of literals or counted numbers.
    Computed,
    /// A formula with a constant chosen so that published numbers come out.
    Fitted,
}

impl Kind {
    /// All kinds, in the order of tables.
    pub const ALL: [Kind; 6] =
        [Kind::Measured, Kind::Counted, Kind::Simulated, Kind::Computed, Kind::Fitted, Kind::Published];

    /// Returns the word that tables, pages and JSON print.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Published => "published",
            Kind::Measured => "measured",
            Kind::Counted => "counted",
            Kind::Simulated => "simulated",
            Kind::Computed => "computed",
            Kind::Fitted => "fitted",
        }
    }

    /// Returns true if nearness to a published number is evidence: only a measured or counted
    /// number could have come out otherwise.
    pub fn is_evidence(self) -> bool {
        matches!(self, Kind::Measured | Kind::Counted)
    }
}

/// A number that a document prints, with its line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Printed {
    /// The number; a percentage in per cent.
    pub value: f64,
    /// The line of the document that has it, or a part of the line. `docs/published.md` quotes it.
    pub line: &'static str,
}

/// Returns a number with its line.
pub const fn printed(value: f64, line: &'static str) -> Printed {
    Printed { value, line }
}

/// One number: the printed value, ours, and the deviation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measure {
    /// The experiment, as the command names it: `dcode-load`.
    pub experiment: &'static str,
    /// The code and the circumstances.
    pub case: String,
    /// The quantity, with its unit.
    pub quantity: String,
    /// Origin of the value.
    pub kind: Kind,
    /// Value that the document prints, if any.
    pub published: Option<f64>,
    /// The words in which the document prints it.
    pub line: Option<&'static str>,
    /// Our value; `None` if it is infinite or does not exist, or if only the published one is
    /// shown.
    pub value: Option<f64>,
    /// value / published - 1; the plain difference if the published value is 0.
    pub deviation: Option<f64>,
    /// Reason of the deviation, or meaning of the number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Measure {
    /// Adds the value of a document.
    fn against(mut self, printed: Printed) -> Measure {
        let published = printed.value;
        (self.published, self.line) = (Some(published), Some(printed.line));
        // The difference of two percentages is given in points: a share of a small number would
        // mislead.
        if let (Some(value), true) = (self.value, self.quantity.ends_with("per cent")) {
            self.note = Some(format!("{:.1} points apart", (value - published).abs()));
        }
        self.deviation = self.value.map(|value| match published == 0.0 {
            true => value,
            false => value / published - 1.0,
        });
        self
    }

    /// Returns the line and the value that identify the printed number.
    pub(crate) fn number(&self) -> (&'static str, u64) {
        (self.line.unwrap_or_default(), self.published.unwrap_or(f64::NAN).to_bits())
    }

    /// Returns true for a speed, which holds for one machine alone.
    fn is_speed(&self) -> bool {
        self.quantity.contains("MB/s")
    }

    /// Adds a sentence to the note.
    pub fn remark(&mut self, remark: &str) {
        let note = self.note.take().map_or(String::new(), |note| note + "; ");
        self.note = Some(note + remark);
    }

    /// Returns true if it deviates from the published value by at most `share`.
    pub fn is_within(&self, share: f64) -> bool {
        self.deviation.is_some_and(|deviation| deviation.abs() <= share)
    }
}

/// Counts of the numbers that documents print, and of those that our evidence reproduces.
///
/// A number in a line of a document counts once, however many rows refer to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Nearness {
    /// Numbers that a document prints.
    pub published: usize,
    /// Those of them that are speeds of the document's machines.
    pub speeds: usize,
    /// Published numbers, speeds excepted, beside which a measured or counted value is shown.
    pub evidence: usize,
    /// Numbers of `evidence` of which a measured or counted value deviates by at most 3 %.
    pub near: usize,
}

impl Nearness {
    /// Returns the nearness of these reports.
    pub fn of<'r>(reports: impl IntoIterator<Item = &'r Report>) -> Nearness {
        let mut sum = Nearness::default();
        let mut numbers: BTreeMap<(&str, u64), Vec<&Measure>> = BTreeMap::new();
        for measure in reports.into_iter().flat_map(Report::published) {
            numbers.entry(measure.number()).or_default().push(measure);
        }
        for measures in numbers.values() {
            let is_met = |measure: &&Measure| measure.kind.is_evidence() && measure.is_within(0.03);
            let is_speed = measures.iter().any(|measure| measure.is_speed());
            sum.published += 1;
            sum.speeds += usize::from(is_speed);
            sum.evidence += usize::from(!is_speed && measures.iter().any(|m| m.kind.is_evidence()));
            sum.near += usize::from(!is_speed && measures.iter().any(is_met));
        }
        sum
    }

    /// Returns the counts in one sentence.
    pub fn sentence(self) -> String {
        let Nearness { published, speeds, evidence, near } = self;
        format!(
            "{near} of {evidence} printed numbers beside which something measured or counted stands are met within 3 %; \
             beside {} others stand simulated, computed or fitted ones, which are not counted in, or none, and {speeds} \
             are speeds of other machines.",
            published - evidence - speeds
        )
    }
}

/// The answer of an experiment.
#[derive(Clone, Debug)]
pub struct Report {
    /// The experiment, as the command names it.
    pub experiment: &'static str,
    /// A heading for people.
    pub title: String,
    /// Answer of the whole report in one or two sentences, first on its page; empty: the text
    /// begins with the question.
    pub answer: String,
    /// Inputs beside the words of the command: files, by name and content.
    pub inputs: Vec<(String, String)>,
    /// Paragraphs: the question, the source, the convention of counting, and the result.
    pub text: Vec<String>,
    /// Every number.
    pub measures: Vec<Measure>,
    /// Pictures, each with its own data beneath.
    pub figures: Vec<Figure>,
}

/// Defines [`Report::row`] under the name of each kind.
macro_rules! rows {
    ($($(#[$doc:meta])* $name:ident $kind:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name(
            &mut self,
            case: impl Into<String>,
            quantity: impl Into<String>,
            value: f64,
            published: impl Into<Option<Printed>>,
        ) -> &mut Measure {
            self.row(Kind::$kind, case, quantity, value, published)
        }
    )*};
}

impl Report {
    /// Returns a report without numbers.
    pub fn new(experiment: &'static str, title: impl Into<String>) -> Report {
        Report {
            experiment,
            title: title.into(),
            answer: String::new(),
            inputs: Vec::new(),
            text: Vec::new(),
            measures: Vec::new(),
            figures: Vec::new(),
        }
    }

    /// Adds a paragraph.
    pub fn say(&mut self, paragraph: impl Into<String>) {
        self.text.push(paragraph.into());
    }

    /// Adds an input by name and content.
    pub fn given(&mut self, name: impl Into<String>, content: impl Into<String>) {
        self.inputs.push((name.into(), content.into()));
    }

    /// Adds the text of each custom code to the inputs.
    pub fn given_codes<'c>(&mut self, codes: impl IntoIterator<Item = &'c pantile::Code>) {
        for code in codes {
            if let Some(text) = code.definition() {
                self.given(code.spec(), text);
            }
        }
    }

    /// Adds a number of the given kind, with the printed number of a document if there is one.
    pub fn row(
        &mut self,
        kind: Kind,
        case: impl Into<String>,
        quantity: impl Into<String>,
        value: f64,
        published: impl Into<Option<Printed>>,
    ) -> &mut Measure {
        let mut measure = Measure {
            experiment: self.experiment,
            case: case.into(),
            quantity: quantity.into(),
            kind,
            published: None,
            line: None,
            value: value.is_finite().then_some(value),
            deviation: None,
            note: None,
        };
        if let Some(printed) = published.into() {
            measure = measure.against(printed);
        }
        self.measures.push(measure);
        let last = self.measures.len() - 1;
        &mut self.measures[last]
    }

    rows! {
        /// Adds a measured number.
        measured Measured;
        /// Adds a number counted in plans or equations.
        counted Counted;
        /// Adds the result of a model that ran.
        simulated Simulated;
        /// Adds the result of a formula.
        computed Computed;
        /// Adds the result of a formula with a fitted constant.
        fitted Fitted;
    }

    /// Adds a number that a document prints and that the lab has no value for, with the reason.
    pub fn only_published(
        &mut self,
        case: impl Into<String>,
        quantity: impl Into<String>,
        printed: Printed,
        why: impl Into<String>,
    ) {
        self.row(Kind::Published, case, quantity, f64::NAN, printed).note = Some(why.into());
    }

    /// Returns the numbers that a document prints.
    pub fn published(&self) -> impl Iterator<Item = &Measure> {
        self.measures.iter().filter(|measure| measure.published.is_some())
    }

    /// Returns the first number of a case and quantity.
    pub fn find(&self, case: &str, quantity: &str) -> Option<f64> {
        let found = self.measures.iter().find(|m| m.case == case && m.quantity == quantity);
        found.and_then(|measure| measure.value)
    }
}
