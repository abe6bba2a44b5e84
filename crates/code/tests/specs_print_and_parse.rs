//! Every family's examples parse, and print as they were written.

#[test]
fn examples_are_canonical() {
    for family in pantile_code::families() {
        for example in family.examples {
            let code =
                pantile_code::Code::parse(example).unwrap_or_else(|error| panic!("{example}: {error}"));
            assert_eq!(code.spec(), *example);
            code.generator();
        }
    }
}
