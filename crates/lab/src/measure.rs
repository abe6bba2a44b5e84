//! What an experiment found.

use crate::Figure;
use serde::Serialize;

/// One number: what a paper prints, what was measured, how far they are apart.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measure {
    /// The experiment, as the command names it: `dcode-load`.
    pub experiment: &'static str,
    /// What was measured: a code and the circumstances.
    pub case: String,
    /// Which number of it, with its unit.
    pub quantity: String,
    /// The value that the paper prints; none if it prints nothing.
    pub published: Option<f64>,
    /// Ours; none if it is infinite or does not exist.
    pub measured: Option<f64>,
    /// measured / published - 1; the plain difference if the published value is 0.
    pub deviation: Option<f64>,
    /// Why it deviates, or what it means.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Measure {
    /// A number that no paper prints.
    pub fn new(
        experiment: &'static str,
        case: impl Into<String>,
        quantity: impl Into<String>,
        measured: f64,
    ) -> Measure {
        Measure {
            experiment,
            case: case.into(),
            quantity: quantity.into(),
            published: None,
            measured: measured.is_finite().then_some(measured),
            deviation: None,
            note: None,
        }
    }

    /// The same beside the value of a paper.
    pub fn against(mut self, published: f64) -> Measure {
        self.published = Some(published);
        // Of a percentage the difference in points says more than its share of a small number.
        if let (Some(measured), true) = (self.measured, self.quantity.ends_with("per cent")) {
            self.note = Some(format!("{:.1} points apart", (measured - published).abs()));
        }
        self.deviation = self.measured.map(|measured| match published == 0.0 {
            true => measured,
            false => measured / published - 1.0,
        });
        self
    }

    /// The same, beside the value of a paper if it prints one.
    pub fn maybe_against(self, published: Option<f64>) -> Measure {
        match published {
            Some(published) => self.against(published),
            None => self,
        }
    }

    /// The same with a remark.
    pub fn noted(mut self, note: impl Into<String>) -> Measure {
        self.note = Some(note.into());
        self
    }
}

/// The answer of an experiment.
#[derive(Clone, Debug)]
pub struct Report {
    /// The experiment, as the command names it.
    pub experiment: &'static str,
    /// A heading for people.
    pub title: String,
    /// What went in beside the words of the command: files, by name and content.
    pub inputs: Vec<(String, String)>,
    /// What is asked, of which source, by which convention it is counted, and what came out:
    /// paragraphs.
    pub text: Vec<String>,
    /// Every number.
    pub measures: Vec<Measure>,
    /// Pictures, each with its own data beneath.
    pub figures: Vec<Figure>,
}

impl Report {
    /// A report without numbers yet.
    pub fn new(experiment: &'static str, title: impl Into<String>) -> Report {
        Report {
            experiment,
            title: title.into(),
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

    /// Names an input.
    pub fn given(&mut self, name: impl Into<String>, content: impl Into<String>) {
        self.inputs.push((name.into(), content.into()));
    }

    /// Names as inputs the texts of codes that no family has.
    pub fn given_codes<'c>(&mut self, codes: impl IntoIterator<Item = &'c pantile::Code>) {
        for code in codes {
            if let Some(text) = code.definition() {
                self.given(code.spec(), text);
            }
        }
    }

    /// Adds a number of this experiment.
    pub fn measure(
        &mut self,
        case: impl Into<String>,
        quantity: impl Into<String>,
        measured: f64,
        published: Option<f64>,
    ) -> &mut Measure {
        let measure = Measure::new(self.experiment, case, quantity, measured).maybe_against(published);
        self.measures.push(measure);
        let last = self.measures.len() - 1;
        &mut self.measures[last]
    }

    /// The numbers that a paper prints.
    pub fn published(&self) -> impl Iterator<Item = &Measure> {
        self.measures.iter().filter(|measure| measure.published.is_some())
    }

    /// The first number of a case and quantity.
    pub fn find(&self, case: &str, quantity: &str) -> Option<f64> {
        let found = self.measures.iter().find(|m| m.case == case && m.quantity == quantity);
        found.and_then(|measure| measure.measured)
    }
}
