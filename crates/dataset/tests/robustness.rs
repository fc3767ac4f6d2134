//! Any text gets an answer in bounded time, without a panic.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::time::{Duration, Instant};

use drystone_dataset::{MAX_TEXT, check, format, fuzz};

/// A small generator, so that failures can be repeated.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    fn pick<'t>(&mut self, from: &[&'t str]) -> &'t str {
        from[self.below(from.len())]
    }
}

const WORDS: [&str; 78] = [
    "const",
    "param",
    "type",
    "struct",
    "packed",
    "dataset",
    "fragment",
    "var",
    "for",
    "in",
    "mod",
    "pad",
    "align",
    "default",
    "replica",
    "row",
    "col",
    "perm",
    "hilbert",
    "morton",
    "steps",
    "dims",
    "fill",
    "transform",
    "access",
    "min",
    "max",
    "bool",
    "int8",
    "uint64",
    "float64",
    "complex64",
    "bytes",
    "nan",
    "inf",
    "a",
    "b",
    "n",
    "i",
    "j",
    "P",
    "r",
    "0",
    "1",
    "2",
    "3",
    "64",
    "9223372036854775807",
    "1.5",
    "0x10",
    "\"zstd:3\"",
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    ",",
    ":",
    ";",
    "\n",
    ".",
    "..",
    "=",
    "+",
    "-",
    "*",
    "/",
    "%",
    "// c\n",
    "/* c */",
    "{",
    "}",
    "[",
    "]",
    "=",
    "\u{2212}",
    "'",
];

const GOOD: [&str; 7] = [
    "dataset { var data[80, 80] float64 }\nfragment frag0 { var ds[i:10, j:10] = data[i, j] }\nfragment frag1 { var a [i:50, j:60] = data[i+5, j+3] }\n",
    "const N = 10\ntype P struct { x,y,z float32; id int64 }\ndataset { var p[N] P }\nfragment soa { var x[i:N] = p[i].x; var id[i:N] = p[i].id }\n",
    "param r, px, py, pz = 2\nconst n = 4\ndataset { var u[px*n, py*n, pz*n] float64 steps dims(x, y, z) fill nan transform \"zstd:3\" }\nfragment blk(r) { var u[i:n+2, j:n+2, k:n+2] = u[i + n*(r/(py*pz)) - 1, j + n*(r/pz%py) - 1 mod py*n, k + n*(r%pz) - 1 mod pz*n] }\n",
    "dataset { var data[10, 10] float64; var c[25] float64 }\nfragment d { var c[i:5, j:5] = data[2*i+1, 2*j+1]; var f[i:100] = c[i/4]; var g[i:9] = c[(3*i + 1)/(i + 2)] }\n",
    "type V struct packed { a int8; b float64 align(4); pad 3 } align(16)\ntype Cell struct { vel [3]float64; spec [9]float32 col; v [2, 2]V perm(1, 0) }\ndataset run { var cell[8, *] Cell col access \"plane:0 40%, box:4x2\"; var s bytes(4) fill \"ab\" }\nfragment m { var vz[i:8,j:6] = cell[i,j].vel[2]; for k in 0..2 var q[i:8] hilbert align(64) = cell[i, 0].v[k, 1].{b, a}; pad 8 }\n",
    "const M = 32; const N = 30\ndataset { var data[M, N] float64 }\nfragment s(r) default { align 4096; var d[i:8, j:N] = data[i+8*r, j] }\nfragment a(r) replica(1) { var d[i:M, j:8] morton = data[i, j+8*r] }\n",
    "// a comment\nconst a = b * (2 + 3) % 7 // trailing\nconst b = max(1, min(4, 5), -2)\n/* block\n comment */ type T [a, b]int16 row\ndataset { var t[a] T; var x complex128 fill 1.5e3 }\nfragment f { /* in */ var t[i:a, k:b] = t[-i + a - 1, 0, k]\nvar x = x\n}\n",
];

#[test]
fn the_good_texts_are_good() {
    for text in GOOD {
        check(text).unwrap_or_else(|e| panic!("{}", e.render("good", text, false)));
        fuzz(text.as_bytes());
    }
}

#[test]
fn token_soup_never_panics() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for _ in 0..20_000 {
        let mut text = String::new();
        for _ in 0..random.below(40) {
            text.push_str(random.pick(&WORDS));
            if random.below(4) > 0 {
                text.push(' ');
            }
        }
        fuzz(text.as_bytes());
    }
}

#[test]
fn damaged_good_texts_never_panic() {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    for _ in 0..30_000 {
        let mut bytes = random.pick(&GOOD).as_bytes().to_vec();
        for _ in 0..=random.below(4) {
            let at = random.below(bytes.len());
            let to = (at + random.below(12)).min(bytes.len());
            match random.below(5) {
                0 => bytes[at] = random.next() as u8,
                1 => drop(bytes.drain(at..to)),
                2 => drop(bytes.splice(at..at, random.pick(&WORDS).bytes())),
                3 => drop(bytes.splice(at..to, random.pick(&WORDS).bytes())),
                _ => {
                    let copied = bytes[at..to].to_vec();
                    let place = random.below(bytes.len());
                    bytes.splice(place..place, copied);
                }
            }
            if bytes.is_empty() {
                break;
            }
        }
        fuzz(&bytes);
    }
}

/// Fills a text with copies of what `piece` makes, up to the largest allowed length.
fn filled(head: &str, mut piece: impl FnMut(usize) -> String, tail: &str) -> String {
    let mut text = head.to_owned();
    for n in 0.. {
        let next = piece(n);
        if text.len() + next.len() + tail.len() > MAX_TEXT {
            break;
        }
        text.push_str(&next);
    }
    text + tail
}

fn repeated(piece: &str) -> String {
    filled("", |_| piece.to_owned(), "")
}

/// A default fragment with as many variables as a fragment may have pieces.
fn defaults(piece: &mut dyn FnMut(usize) -> String) -> String {
    let head = "dataset { var d[1000000, 1000000] float64 }\nfragment f default {\n";
    (0..16_384).fold(head.to_owned(), |text, n| text + &piece(n)) + "}"
}

/// Texts that are meant to be slow or deep, up to one mebibyte each.
fn hostile() -> Vec<(&'static str, String)> {
    let data = "dataset { var d[1000] float64 }\n";
    vec![
        ("parentheses", filled("const a = ", |_| "(".into(), "")),
        ("closed parentheses", format!("const a = {}1{}", "(".repeat(500_000), ")".repeat(500_000))),
        ("signs", filled("const a = ", |_| "-".into(), "1")),
        ("sum", filled("const a = 1", |_| "+1".into(), "")),
        ("calls", filled("const a = ", |_| "min(".into(), "")),
        ("arguments", filled("const a = min(1", |_| ",1".into(), ")")),
        ("brackets", filled("type T ", |_| "[1]".into(), "int8")),
        ("structs", filled("type T ", |_| "struct{a ".into(), "")),
        ("braces", repeated("{")),
        ("closing braces", repeated("}")),
        ("datasets in datasets", repeated("dataset { ")),
        ("fragments without ends", repeated("fragment f {\n")),
        ("comments", repeated("/* */")),
        ("open comment", repeated("/*")),
        ("quotes", repeated("\"")),
        ("single quotes", repeated("' ")),
        ("unknown characters", repeated("?")),
        ("long name", filled("const ", |_| "x".into(), " = 1")),
        ("long number", filled("const a = ", |_| "1".into(), "")),
        ("separated number", filled("const a = 1", |_| "_1".into(), "")),
        ("newlines", repeated("\n")),
        ("semicolons", repeated(";")),
        ("mistakes", repeated("const = 1\n")),
        ("unknown names", filled("", |n| format!("const c{n} = x{n}{n}\n"), "")),
        ("unknown types", filled("dataset {\n", |n| format!("var v{n} tpye{n}\n"), "}")),
        ("chain of constants", filled("const c0 = 1\n", |n| format!("const c{} = c{n} + 0\n", n + 1), "")),
        ("chain backwards", filled("", |n| format!("const c{n} = c{}\n", n + 1), "")),
        ("chain of types", filled("type T0 int8\n", |n| format!("type T{} struct{{a T{n}}}\n", n + 1), "")),
        ("chain of types backwards", filled("", |n| format!("type T{n} T{}\n", n + 1), "")),
        ("doubling types", filled("type T0 int8\n", |n| format!("type T{} struct{{a,b T{n}}}\n", n + 1), "")),
        ("doubling arrays", filled("type T0 int8\n", |n| format!("type T{} [2,2]T{n}\n", n + 1), "")),
        ("wide struct", filled("type T struct{", |n| format!("f{n} int8;"), "}")),
        ("same constant", repeated("const a = 1\n")),
        ("same field", filled("type T struct{", |_| "f,".into(), "f int8}")),
        ("many parameters", filled("param p", |n| format!(",p{n}"), " = 1+1+1+1+1+1+1+1+1+1+1")),
        ("many variables", filled("dataset {\n", |n| format!("var v{n}[4] int8\n"), "}")),
        (
            "wide struct, many users",
            filled(
                &(filled(
                    "param q = 1\ntype T struct {",
                    |n| if n < 4000 { format!("f{n} int8 align(q);") } else { "x".repeat(MAX_TEXT) },
                    "}\n",
                ) + "dataset { var t[4] T }\n"),
                |n| format!("fragment g{n} {{ var t = t[0] }}\n"),
                "",
            ),
        ),
        ("many fragments", filled(data, |n| format!("fragment f{n} {{ var x[i:9] = d[i] }}\n"), "")),
        (
            "many counters",
            filled(data, |n| format!("fragment f{n} {{ for k in 0..16384 var x = d[k] }}\n"), ""),
        ),
        (
            "many defaults",
            defaults(&mut |n| format!("var v{n}[i:99] = d[100*i + {}, {}]\n", n % 100, n / 100)),
        ),
        ("interleaved defaults", defaults(&mut |n| format!("var v{n}[i:9, j:9] = d[16000*i + {n}, j]\n"))),
        (
            "overlapping defaults",
            defaults(&mut |n| format!("var v{n}[i:9000, j:{}] = d[2*i, 2*j + {n}]\n", n + 1)),
        ),
        (
            "many periods",
            filled(data, |n| format!("fragment f{n} default {{ var x[i:16000] = d[i mod 1] }}\n"), ""),
        ),
        ("many roles", filled(&format!("{data}fragment f "), |_| "default ".into(), "{ var x[i:9] = d[i] }")),
        ("many dimension names", filled("dataset { var a[", |_| "1,".into(), "1] int8 }")),
        (
            "many own parameters",
            filled(&format!("{data}fragment f("), |n| format!("p{n},"), "q) { var x[i:9] = d[i] }"),
        ),
        (
            "many indices",
            filled(&format!("{data}fragment f {{ var x["), |n| format!("i{n}:1,"), "k:9] = d[k] }"),
        ),
        ("long index", filled(&format!("{data}fragment f {{ var x[i:9] = d[i"), |_| "+i".into(), "] }")),
        ("long path", filled(&format!("{data}fragment f {{ var x[i:9] = d[i]"), |_| ".x".into(), " }")),
        (
            "long selection",
            filled(&format!("{data}fragment f {{ var x[i:9] = d[i].{{"), |_| "x,".into(), "x} }"),
        ),
        ("blocks on one line", filled("", |n| format!("type T{n} struct{{a int8}};"), "")),
        ("one line of mistakes", repeated("const a = ?; ")),
    ]
}

#[test]
fn no_text_of_a_mebibyte_is_slow_or_deep() {
    let mut slow = Vec::new();
    for (name, text) in hostile() {
        assert!(text.len() <= MAX_TEXT, "{name} is {} bytes long", text.len());
        let start = Instant::now();
        let checked = check(&text);
        let shown = checked.err().map_or(0, |e| e.render("hostile.drepl", &text, true).len());
        let of_check = start.elapsed();
        let formatted = format(&text).map_or(0, |f| f.len());
        let elapsed = start.elapsed();
        println!(
            "{name}: check {of_check:?}, with format {elapsed:?}, {shown} bytes of messages, {formatted} formatted"
        );
        if elapsed > Duration::from_secs(20) || shown > 100_000 {
            slow.push(format!("{name}: {elapsed:?}, {shown} bytes of messages"));
        }
    }
    assert!(slow.is_empty(), "{slow:#?}");
}

#[test]
fn a_text_that_is_too_long_is_refused_at_once() {
    let text = " ".repeat(MAX_TEXT + 1);
    let message = check(&text).unwrap_err().to_string();
    assert!(message.contains("1048577 bytes long"), "{message}");
}
