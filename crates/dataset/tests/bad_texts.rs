//! Texts with mistakes, each with its message. The messages are for people: after a change, read every difference.
//! `BLESS=1 cargo test -p drystone-dataset --test bad_texts` writes the expected messages again.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::fs;
use std::path::Path;

#[test]
fn every_bad_text_gets_its_message() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bad");
    let mut names: Vec<String> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".drepl"))
        .collect();
    names.sort();
    assert!(names.len() >= 60, "only {} bad texts", names.len());
    let mut wrong = Vec::new();
    for name in &names {
        let text = fs::read_to_string(folder.join(name)).unwrap();
        let got = match drystone_dataset::check(&text) {
            Ok(_) => "no mistake was found\n".to_owned(),
            Err(diagnostics) => diagnostics.render(name, &text, false),
        };
        let expected = folder.join(name.replace(".drepl", ".expected"));
        if std::env::var_os("BLESS").is_some() {
            fs::write(&expected, &got).unwrap();
        } else if fs::read_to_string(&expected).unwrap_or_default() != got {
            wrong.push(format!("{name}:\n{got}"));
        }
        if got.starts_with("no mistake") {
            wrong.push(format!("{name}: no mistake was found"));
        }
    }
    assert!(wrong.is_empty(), "{} messages differ\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn colour_adds_escapes_and_nothing_else() {
    let text = "dataset { var p[10] flaot64 }";
    let diagnostics = drystone_dataset::check(text).unwrap_err();
    let plain = diagnostics.render("p.drepl", text, false);
    let mut coloured = diagnostics.render("p.drepl", text, true);
    assert!(coloured.contains("\x1b[1;31m"));
    while let Some(at) = coloured.find('\x1b') {
        let end = at + coloured[at..].find('m').unwrap();
        coloured.replace_range(at..=end, "");
    }
    assert_eq!(coloured, plain);
}

#[test]
fn a_text_cannot_steer_the_terminal() {
    let text = "const a = \x1b[31m \u{202e} \x07\n\t?";
    let shown = drystone_dataset::check(text).unwrap_err().render("a\x1b]0;b", text, false);
    assert!(!shown.contains(['\x1b', '\x07', '\u{202e}', '\t']), "{shown:?}");
}
