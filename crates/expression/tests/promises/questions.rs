//! Questions to catalogues: texts between quotes, `min` and `max` of one argument.

use drystone_expression::{Answer, Node, Reduction, Tree, Type, parse, parse_question};

#[test]
fn a_question_has_texts_and_reductions() {
    let tree =
        parse_question("campaign == 'it''s' & max(fields/p.x) > 3 & ~(name == \"a*\")").expect("parses");
    assert_eq!(tree.texts(), ["it's", "a*"]);
    assert!(tree.nodes().iter().any(|node| matches!(node, Node::Reduce(Reduction::Max, _))));
    assert_eq!(tree.names()[1].path(), "fields/p");
    let printed = tree.to_string();
    assert_eq!(parse_question(&printed).expect("parses again"), tree, "{printed}");
}

#[test]
fn an_expression_over_cells_has_neither() {
    assert!(parse("campaign == 'a'").expect_err("a text").to_string().contains("texts"));
    let reduced = parse("max(p) > 3").expect("a reduction of a derived variable");
    let error = reduced.check(|_| Answer::Type(Type::F8)).expect_err("not of cells");
    assert!(error.to_string().contains("max") && error.to_string().contains("derived"), "{error}");
}

#[test]
fn texts_and_reductions_of_questions_are_neither_typed_nor_stored() {
    for text in ["a == 'x'", "max(a) > 1"] {
        let tree = parse_question(text).expect("parses");
        let error = tree.check(|_| Answer::Type(Type::F8)).expect_err("no type");
        assert!(error.to_string().contains("catalogue"), "{error}");
        assert!(Tree::decode(&tree.encode()).is_err(), "no decoder takes it");
    }
}

#[test]
fn a_text_without_an_end_is_an_error_at_its_place() {
    let error = parse_question("a == 'x").expect_err("no end");
    assert!(error.render("a == 'x").contains("no end"), "{error}");
}
