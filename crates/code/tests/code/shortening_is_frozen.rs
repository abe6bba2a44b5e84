//! Claim: shortened array codes promote exactly the cells that the reference chose, with exactly
//! the same update cost.

use crate::common::{cell, json, list, number, text};
use pantile_code::{Cell, Code};

#[test]
fn every_recorded_shortening_is_reproduced() {
    let file = json("shortening.json");
    for entry in list(&file["codes"]) {
        let spec = text(&entry["spec"]);
        let code = Code::parse(spec).unwrap_or_else(|error| panic!("{spec}: {error}"));
        assert_eq!(code.data().len(), number(&entry["data"]), "{spec}: data");
        let changed = |j: usize| {
            let generator = code.generator();
            (0..generator.rows()).filter(|&i| !generator.get(i, j).is_zero()).count()
        };
        let updates: Vec<usize> = (0..code.data().len()).map(changed).collect();
        assert_eq!(
            updates.iter().sum::<usize>(),
            number(&entry["update_total"]),
            "{spec}: total update cost"
        );
        assert_eq!(updates.iter().max(), Some(&number(&entry["update_max"])), "{spec}: largest update cost");
        // The cells promoted last are at the end of the parity cells, in the order of their
        // constraints.
        let last: Vec<Cell> = list(list(&entry["promoted"]).last().unwrap()).iter().map(cell).collect();
        let parity: Vec<Cell> = code.parity().iter().map(|&p| code.cell(p)).collect();
        assert!(parity.ends_with(&last), "{spec}: promoted {last:?}, parity {parity:?}");
    }
}
