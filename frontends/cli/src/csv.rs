//! Comma-separated values (RFC 4180) for spreadsheets and programs: a head, then one line per row,
//! numbers in full precision.

use pantile_lab::{Measure, Report};

/// Returns a field, quoted if necessary.
pub fn field(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_string(),
    }
}

/// Returns every number of reports, with its kind.
pub fn measures(reports: &[Report]) -> String {
    let mut out = String::from("experiment,case,quantity,kind,published,value,deviation,note,line\n");
    for measure in reports.iter().flat_map(|report| &report.measures) {
        let Measure { experiment, case, quantity, kind, published, value, deviation, note, line } = measure;
        let number = |value: &Option<f64>| value.map_or(String::new(), |value| value.to_string());
        let fields = [
            field(experiment),
            field(case),
            field(quantity),
            kind.name().to_string(),
            number(published),
            number(value),
            number(deviation),
            field(note.as_deref().unwrap_or_default()),
            field(line.unwrap_or_default()),
        ];
        out += &fields.join(",");
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_that_would_end_a_field_is_quoted() {
        assert_eq!(field("raid6:6"), "raid6:6");
        assert_eq!(field("lrc:12,2,2"), "\"lrc:12,2,2\"");
        assert_eq!(field("a \"b\"\n"), "\"a \"\"b\"\"\n\"");
    }
}
