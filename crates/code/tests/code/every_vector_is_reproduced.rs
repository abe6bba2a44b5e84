//! Claim: the codes are those of the independent reference, cell by cell and byte by byte.

use crate::common::{hold, json, list, text};
use pantile_code::{Code, families};

#[test]
fn every_named_code_is_the_reference_code() {
    for family in families() {
        let file = json(&format!("codes/{}.json", family.name));
        assert_eq!(text(&file["family"]), family.name);
        let entries = list(&file["codes"]);
        for example in family.examples {
            assert!(
                entries.iter().any(|entry| text(&entry["spec"]) == *example),
                "vectors/codes/{}.json leaves out the example {example}: name it in reference/catalogue.py, then run \
                 python3 reference/make_vectors.py codes",
                family.name
            );
        }
        for entry in entries {
            let spec = text(&entry["spec"]);
            let code = Code::parse(spec).unwrap_or_else(|error| panic!("{spec}: {error}"));
            assert_eq!(code.spec(), spec, "a vector's spec is canonical");
            assert_eq!(code.family(), family.name);
            hold(&code, entry, spec);
        }
    }
}

#[test]
fn every_vector_file_belongs_to_a_family() {
    for file in std::fs::read_dir(crate::common::vectors("codes")).unwrap() {
        let path = file.unwrap().path();
        let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
        assert!(families().iter().any(|f| f.name == stem), "{} has no family", path.display());
    }
}
