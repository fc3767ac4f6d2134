//! Texts to trees and back.

use drystone_expression::{Kind, MAX_TEXT, Tree, parse, parse_with_groups};

use crate::random::{Random, any_tree};
use crate::tree;

fn same(text: &str, brackets: &str) {
    assert_eq!(tree(text), tree(brackets), "{text} is {}", tree(text));
}

#[test]
fn the_text_of_a_tree_parses_to_the_tree() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for n in 0..5000 {
        let tree = any_tree(&mut random, 1 + n % 40);
        let text = tree.to_string();
        assert_eq!(parse(&text).unwrap(), tree, "{text}");
    }
}

#[test]
fn the_text_of_a_tree_has_no_needless_brackets() {
    for text in [
        "p > 3e-5 & (abs(u) < 1 | mask == 2)",
        "sqrt(u * u + v * v)",
        "a - (b - c) - d",
        "(-3) ** 2 + -3 ** 2 - a ** -b ** c",
        "~(a & b) | ~c & ~(d == e)",
        "(a == b) == c",
        "where(isnan(t), nan, f4(t) // 3.0)",
        "`fields/p`.x[x+1, y-2] > -inf",
        "`not` + `a``b` % 9223372036854775808",
        "(a & 4) == 4",
        "1 << 2 + 3 < x ^ true",
    ] {
        assert_eq!(tree(text).to_string(), text);
    }
}

#[test]
fn comparisons_bind_tighter_than_and_and_that_tighter_than_or() {
    same("a > 1 & b < 2 | c == 3", "((a > 1) & (b < 2)) | (c == 3)");
    same("a > 1 | b < 2 & c == 3", "(a > 1) | ((b < 2) & (c == 3))");
    same("a | b ^ c & d", "a | (b ^ (c & d))");
    same("~a == b & c", "(~(a == b)) & c");
    same("a + 1 << 2 * 3 < b", "((a + 1) << (2 * 3)) < b");
    same("-a ** 2", "-(a ** 2)");
    same("a ** b ** c", "a ** (b ** c)");
    same("a - b - c / d / e", "(a - b) - ((c / d) / e)");
    same("2 ** -1", "2 ** (-1)");
}

#[test]
fn words_and_signs_are_the_same_operators() {
    same("a > 1 and not b > 2 or c", "a > 1 & ~b > 2 | c");
    same("True & False", "true & false");
    same("+a - +b", "a - b");
    same("int64(a) + float32(b)", "i8(a) + f4(b)");
    same("arctan2(a, b) + magnitude(a, b)", "atan2(a, b) + sqrt(a * a + b * b)");
    same("clip(a, 1, 2) + min(a, b, c)", "min(max(a, 1), 2) + min(min(a, b), c)");
}

#[test]
fn comparisons_chain() {
    same("1 < x <= 3", "1 < x & x <= 3");
    same("~1 < x < 3", "~(1 < x & x < 3)");
    same("a == b == c < d & e", "((a == b & b == c) & c < d) & e");
}

#[test]
fn numbers_are_read_as_written() {
    same("0x1F + 0b101 + 0o17", "31 + 5 + 15");
    same("1e3 + .5 + 2. + 1.5E-2", "1000.0 + 0.5 + 2.0 + 0.015");
    assert_eq!(tree("0.1").to_string(), "0.1");
    assert_eq!(tree("-9223372036854775808").to_string(), "-9223372036854775808");
    assert_eq!(tree("18446744073709551615").to_string(), "18446744073709551615");
    assert_ne!(tree("1"), tree("1.0"));
    assert_ne!(tree("0.0"), tree("-0.0"));
    assert_eq!(tree("-nan"), tree("nan"));
}

#[test]
fn names_have_groups_members_and_neighbours() {
    let tree = tree("`a/b c`.x.`y z`[x+1, y - 2, t] + u[x-1]");
    let name = &tree.names()[0];
    assert_eq!((name.path(), name.members()), ("a/b c", &["x".to_owned(), "y z".to_owned()][..]));
    assert_eq!(tree.halo(), [("x", -1, 1), ("y", -2, 0)]);
    assert_eq!(tree.to_string(), "`a/b c`.x.`y z`[x+1, y-2] + u[x-1]");
}

#[test]
fn a_slash_leads_into_groups_and_divides_all_else() {
    let known = |path: &str| path == "fields" || path == "fields/inner";
    let in_group = parse_with_groups("2 * fields/inner/p / q > fields / q", known).unwrap();
    assert_eq!(in_group.to_string(), "2 * `fields/inner/p` / q > `fields/q`");
    same("2 * fields/inner", "(2 * fields) / inner");
}

#[test]
fn equal_trees_are_equal_however_they_were_made() {
    same("a + b", "(a) + ((b))");
    let tree = tree("a + a");
    assert_eq!(tree.nodes().len(), 2, "equal parts are there once");
    let mut builder = drystone_expression::Builder::new();
    let (_, a) =
        (builder.integer(5).unwrap(), builder.name(drystone_expression::Name::new("a").unwrap()).unwrap());
    let sum = builder.binary(drystone_expression::Binary::Add, a, a).unwrap();
    assert_eq!(builder.finish(sum), tree);
    let again: Tree = parse(&tree.to_string()).unwrap();
    assert_eq!(again.encode(), tree.encode());
}

/// Text, kind, the part that is marked, what the message says.
const MISTAKES: [(&str, Kind, &str, &str); 44] = [
    ("", Kind::Syntax, "", "empty"),
    ("p >", Kind::Syntax, "", "a name, a number, a function or `(` expected, the end found"),
    ("p > 3 q", Kind::Syntax, "q", "an operator expected, `q` found"),
    ("(p > 3", Kind::Syntax, "", "`)` expected to close the bracket, the end found"),
    ("p > 3)", Kind::Syntax, ")", "no `(` for it"),
    ("p = 3", Kind::Syntax, "=", "write `==`"),
    ("p > 3 && q", Kind::Syntax, "&&", "write `&`"),
    ("p > 3 || q", Kind::Syntax, "||", "write `|`"),
    ("!p", Kind::Syntax, "!", "write `~`"),
    ("p <> 3", Kind::Syntax, "<>", "write `!=`"),
    ("p => 3", Kind::Syntax, "=>", "write `>=`"),
    ("p ≤ 3", Kind::Syntax, "≤", "write `<=`"),
    ("p \u{2212} 3", Kind::Syntax, "\u{2212}", "write `-`"),
    ("p > 3 AND q", Kind::Syntax, "AND", "did you mean `and`?"),
    ("(p > 3 adn q)", Kind::Syntax, "adn", "did you mean `and`?"),
    ("name == 'abc'", Kind::Syntax, "'abc'", "texts between quotes stand in queries only"),
    ("name == \"abc", Kind::Syntax, "\"abc", "texts between quotes stand in queries only"),
    ("p in q", Kind::Syntax, "in", "write `x == 1 | x == 2`"),
    ("p > in", Kind::Syntax, "in", "between backticks"),
    ("p > `abc", Kind::Syntax, "`abc", "add a backtick"),
    ("p > ``", Kind::Syntax, "``", "a name is empty"),
    ("3 p", Kind::Syntax, "p", "an operator expected"),
    ("3p", Kind::Syntax, "3p", "neither a number nor a name"),
    ("1_000", Kind::Syntax, "1_000", "no `_`"),
    ("3f", Kind::Syntax, "3f", "casts as `f4(x)`"),
    ("007", Kind::Syntax, "007", "leave the zeros out"),
    ("0x", Kind::Syntax, "0x", "digits of base 16"),
    ("18446744073709551616", Kind::Constant, "18446744073709551616", "more than 64 bits"),
    ("-9223372036854775809", Kind::Constant, "-9223372036854775809", "more than 64 bits"),
    ("1e999", Kind::Constant, "1e999", "write `inf`"),
    ("1e-999", Kind::Constant, "1e-999", "write `0.0`"),
    ("sqr(p)", Kind::Unknown, "sqr", "did you mean `sqrt`?"),
    ("laplacian(p)", Kind::Syntax, "laplacian(p)", "along which dimensions"),
    ("mean(p, p > 3)", Kind::Syntax, "mean(p, p > 3)", "a dimension is needed"),
    ("where(p > 3)", Kind::Syntax, "where(p > 3)", "where(condition, a, b)"),
    ("sqrt(p, q)", Kind::Syntax, "sqrt(p, q)", "has 2 arguments"),
    ("p(3)", Kind::Unknown, "p", "no function `p`"),
    ("(p)(3)", Kind::Syntax, "(", "`*` multiplies"),
    ("(u)[x+1]", Kind::Syntax, "[", "only names have neighbours"),
    ("u[1]", Kind::Syntax, "1", "by the names of dimensions"),
    ("u[x+v]", Kind::Syntax, "v", "a number of cells expected"),
    ("u[x+65]", Kind::Limit, "u[x+65]", "farther than 64"),
    ("u[x+1, x-1]", Kind::Syntax, "u[x+1, x-1]", "named twice"),
    ("a + ~b", Kind::Syntax, "~", "`(~a)`"),
];

#[test]
fn mistakes_name_their_place_and_what_to_write() {
    for (text, kind, marked, says) in MISTAKES {
        let error = parse(text).expect_err(text);
        assert_eq!(error.kind, kind, "{text}: {error}");
        assert_eq!(&text[error.at.clone().expect(text)], marked, "{text}: {error}");
        assert!(error.to_string().contains(says), "{text}: {error}");
        assert!(error.render(text).contains("\n  "), "{text}");
    }
}

#[test]
fn an_error_is_shown_under_the_text() {
    let text = "p > 3 &\n  q = 2";
    assert_eq!(
        parse(text).unwrap_err().render(text),
        "`=` is not an operator (at byte 12 of the expression); write `==`\n    q = 2\n      ^"
    );
}

#[test]
fn large_and_deep_texts_are_refused_at_once() {
    let kind = |text: String| parse(&text).map_err(|error| error.kind);
    for (open, close) in [("(", ")"), ("-", ""), ("~", ""), ("sqrt(", ")"), ("a + (", ")"), ("a ** -", "")] {
        for n in [1000, 30_000] {
            let error = kind(format!("{}a{}", open.repeat(n), close.repeat(n)));
            assert_eq!(error, Err(Kind::Limit), "{open}");
        }
    }
    assert_eq!(kind("(".repeat(MAX_TEXT)), Err(Kind::Limit));
    assert_eq!(kind(" ".repeat(MAX_TEXT + 1)), Err(Kind::Limit));
    assert_eq!(kind("a + ".repeat(300) + "a"), Err(Kind::Limit));
    assert_eq!(kind(format!("min({}a)", "a, ".repeat(5000))), Err(Kind::Limit));
    assert_eq!(kind(format!("`{}`", "a".repeat(2000))), Err(Kind::Limit));
    assert!(kind("x == 1 | ".repeat(200) + "x == 2").is_ok(), "many terms are no depth");
}

#[test]
fn sharing_does_not_hide_size() {
    let mut builder = drystone_expression::Builder::new();
    let mut sum = builder.name(drystone_expression::Name::new("a").unwrap()).unwrap();
    let doubled = (0..64).try_for_each(|_| {
        sum = builder.binary(drystone_expression::Binary::Add, sum, sum)?;
        Ok::<(), drystone_expression::Error>(())
    });
    assert_eq!(doubled.unwrap_err().kind, Kind::Limit);
}

#[test]
fn depth_costs_no_stack() {
    let deep = std::thread::Builder::new().stack_size(64 * 1024).spawn(|| {
        let text = format!("{}a{}", "sqrt(-(".repeat(127), "))".repeat(127));
        let tree = parse(&text).unwrap();
        assert_eq!(parse(&tree.to_string()).unwrap(), tree);
        assert_eq!(Tree::decode(&tree.encode()).unwrap(), tree);
        let program =
            tree.check(|_| drystone_expression::Answer::Type(drystone_expression::Type::F4)).unwrap();
        let _ = program.bounds(&[]);
    });
    deep.unwrap().join().unwrap();
}

/// Symptom: the components of both were put together and halved, so `dot(vort, grad(u))` was another sum of products.
#[test]
fn vectors_of_different_lengths_have_no_product() {
    for text in
        ["dot(a, vector(b, c, d))", "cross(vector(b, c, d), a)", "dot(vector(a, b), vector(c, d, e, f))"]
    {
        assert!(parse(text).is_err(), "{text}");
    }
    for text in ["dot(vector(a, b), vector(c, d))", "dot(a, b, c, d)", "cross(vector(a, b), vector(c, d))"] {
        assert!(parse(text).is_ok(), "{text}");
    }
}
