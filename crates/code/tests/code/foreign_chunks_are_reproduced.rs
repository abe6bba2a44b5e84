//! Claim: the chunks are those that Ceph's erasure-code plugins wrote.

use crate::common::{chunks, digest, json, list, number, pattern, text, vectors};
use pantile_code::Code;

#[test]
fn every_ceph_case_gives_cephs_chunks() {
    let file = json("foreign/ceph_w8.json");
    let cases = list(&file["cases"]);
    assert!(cases.len() >= 641, "only {} cases", cases.len());
    for case in cases {
        let spec = text(&case["spec"]);
        let name = format!("{spec} ({})", text(&case["profile"]));
        let code = code(spec);
        let (chunk_len, stripes) = (number(&case["chunk"]), number(&case["stripes"]));
        let data_len = code.data().len();
        let element_len = chunk_len / code.rows_max();
        let user = pattern(data_len * element_len * stripes);
        let mut shards = vec![Vec::new(); code.columns()];
        for stripe in user.chunks(data_len * element_len) {
            let elements: Vec<&[u8]> = stripe.chunks(element_len).collect();
            shards.iter_mut().zip(chunks(&code, &elements)).for_each(|(shard, chunk)| shard.extend(chunk));
        }
        let ours: Vec<String> = shards.iter().map(|shard| digest(shard)).collect();
        let wanted: Vec<&str> = list(&case["sha256"]).iter().map(text).collect();
        assert_eq!(ours, wanted, "{name}");
    }
}

/// Returns the code of a spec; `custom:FILE` is a code file in the folder of the cases.
fn code(spec: &str) -> Code {
    let made = match spec.strip_prefix("custom:") {
        None => Code::parse(spec),
        Some(file) => Code::from_text(&std::fs::read_to_string(vectors("foreign").join(file)).unwrap()),
    };
    made.unwrap_or_else(|error| panic!("{spec}: {error}"))
}
