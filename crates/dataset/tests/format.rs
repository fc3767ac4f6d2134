//! The formatter: one way to write a text, nothing is lost, and formatting twice changes nothing.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use drystone_dataset::{format, parse};

fn formatted(text: &str) -> String {
    format(text).unwrap_or_else(|e| panic!("{}", e.render("text", text, false)))
}

/// The tree of a text without positions, so that two texts with the same meaning compare equal.
fn meaning(text: &str) -> String {
    let parsed = parse(text);
    assert!(parsed.diagnostics.is_empty(), "{}", parsed.diagnostics.render("text", text, false));
    let tree = format!("{:?}", parsed.file);
    let mut out = String::new();
    let mut rest = tree.as_str();
    while let Some(at) = rest.find("Span {") {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        rest = &rest[rest.find('}').unwrap() + 1..];
    }
    out + rest
}

fn check_format(text: &str, expected: &str) {
    let once = formatted(text);
    assert_eq!(once, expected);
    assert_eq!(formatted(&once), once, "formatting twice");
    assert_eq!(meaning(&once), meaning(text), "the meaning");
}

#[test]
fn statements_get_a_line_each_and_blanks_are_made_regular() {
    check_format(
        "const   n=64;param r,px , py=2\ntype P struct{x,y,z float32;id int64}\n\n\n\ndataset{var p[n*2,*]P steps dims(a,b) fill - 1}",
        "const n = 64
param r, px, py = 2
type P struct { x, y, z float32; id int64 }

dataset { var p[n*2, *] P steps dims(a, b) fill -1 }
",
    );
}

#[test]
fn a_block_that_does_not_fit_on_a_line_is_broken() {
    check_format(
        "dataset { var a_rather_long_name[1000, 1000] float64 transform \"zstd:3\"; var another_long_name[1000] float32 }",
        "dataset {
    var a_rather_long_name[1000, 1000] float64 transform \"zstd:3\"
    var another_long_name[1000] float32
}
",
    );
}

#[test]
fn comments_stay_where_they_are() {
    check_format(
        "// about the file\n\n/* a */ const n = 1 // one\ntype P struct { // of particles\n  x float64 /* in m */; y float64\n\n  // the end\n}\n// last",
        "// about the file

/* a */ const n = 1  // one
type P struct {  // of particles
    x float64 /* in m */
    y float64

    // the end
}
// last
",
    );
}

#[test]
fn a_comment_inside_a_statement_continues_it_on_the_next_line() {
    check_format(
        "fragment f {\nvar x[ // index\n i:4 ] = data[i] }\nconst a = 1 +\n// why\n2",
        "fragment f {
    var x[  // index
        i:4] = data[i]
}
const a = 1 +
    // why
    2
",
    );
}

#[test]
fn types_and_paths_keep_their_brackets_close() {
    check_format(
        "type C struct packed {\nvel [ 3 ]float64 align( 8 )\nm [2] [3] int8 col\n pad 4 } align(16)
dataset { var c [10 , 4] [3]C col\nvar s bytes( 12 ) fill \"abc\" }
fragment f ( r ) replica ( 1 )\n{ align 64; for k in 0 .. 3\n var v [ i : 10 ] row align( 8 ) = c[ - i + r , k ] . vel [ ( i+1 )/4 mod  3] . { a , b } }",
        "type C struct packed {
    vel [3]float64 align(8)
    m [2][3]int8 col
    pad 4
} align(16)
dataset {
    var c[10, 4] [3]C col
    var s bytes(12) fill \"abc\"
}
fragment f(r) replica(1) {
    align 64
    for k in 0..3 var v[i:10] row align(8) = c[-i + r, k].vel[(i + 1)/4 mod 3].{a, b}
}
",
    );
}

#[test]
fn a_text_that_cannot_be_parsed_is_not_formatted() {
    assert!(format("dataset {").is_err());
    assert_eq!(formatted(""), "");
    assert_eq!(formatted("\n\n// only this\n\n"), "// only this\n");
}

/// Inserts spaces, comments and separators into good texts. Most still parse; then formatting must not change their
/// meaning, and formatting again must change nothing.
#[test]
fn formatting_keeps_the_meaning_of_any_text_that_parses() {
    let texts = [
        "const n = 4 + -2*(3 - 1)\nparam a, b = n\ntype V struct packed { x, y [2, 3]float32 col align(8); pad 2 } align(16)\n",
        "dataset run { var d[n, *] [3]V row steps dims(u, v) fill -1.5e3 transform \"z;{\"; var s bytes(4) fill \"a b\" }\n",
        "fragment f(a) replica(2) { align 64; for k in 0..n - 1 var x[i:n, j:2*n] perm(1, 0) = d[-i + 1, (j + k)/2 mod 5].x[0, k].{p, q}; pad 3 }\n",
    ];
    let strewn = [" ", "\n", "\n\n\n", "/* note */", " // note\n", ";", "\t", "/* note\n b */", "\r\n"];
    let mut seed = 0x1234_5678_9abc_def1_u64;
    let mut random = move |n: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed % n as u64) as usize
    };
    let mut parsed = 0;
    for _ in 0..8_000 {
        let mut text = texts[random(3)].to_owned() + texts[random(3)];
        for _ in 0..random(5) {
            let gaps: Vec<usize> = text
                .char_indices()
                .filter(|(_, c)| !c.is_alphanumeric() && *c != '"' && *c != '.')
                .map(|(at, _)| at)
                .collect();
            text.insert_str(gaps[random(gaps.len())], strewn[random(strewn.len())]);
        }
        let Ok(once) = format(&text) else { continue };
        parsed += 1;
        assert_eq!(meaning(&once), meaning(&text), "{text}\n---\n{once}");
        assert_eq!(formatted(&once), once, "{text}");
        let comments = |t: &str| t.matches("note").count();
        assert_eq!(comments(&once), comments(&text), "{text}\n---\n{once}");
    }
    assert!(parsed > 2_000, "only {parsed} texts parsed");
}
