use super::*;

#[test]
fn an_outcome_has_a_value_for_each_of_its_columns() {
    let unknown = View::default();
    assert_eq!(unknown.outcome().values().len(), OUTCOME.len());
}
