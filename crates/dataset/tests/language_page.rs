//! The page about the language is right: its examples are checked and formatted, and its messages are real.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use drystone_dataset::{check, format};

/// The fenced blocks of the page: language, text, line.
fn blocks() -> Vec<(String, String, usize)> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/language.md");
    let page = std::fs::read_to_string(path).unwrap();
    let mut blocks = Vec::new();
    let mut open: Option<(String, String, usize)> = None;
    for (number, line) in page.lines().enumerate() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(language)) => open = Some((language.to_owned(), String::new(), number + 1)),
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some((_, text, _)), None) => {
                text.push_str(line);
                text.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block is never closed");
    blocks
}

#[test]
fn the_examples_are_right_and_formatted() {
    let mut count = 0;
    for (language, text, line) in blocks() {
        if language != "drepl" {
            continue;
        }
        count += 1;
        check(&text)
            .unwrap_or_else(|e| panic!("at line {line}:\n{}", e.render("example.drepl", &text, false)));
        let squeezed = |t: &str| -> String {
            // Comments at the ends of lines may be aligned by hand.
            t.lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" ") + "\n").collect()
        };
        assert_eq!(squeezed(&format(&text).unwrap()), squeezed(&text), "at line {line}");
    }
    assert!(count >= 8, "only {count} examples");
}

#[test]
fn the_messages_shown_are_the_real_ones() {
    let blocks = blocks();
    let pairs: Vec<_> = blocks.windows(2).filter(|pair| pair[0].0 == "drepl-error").collect();
    assert!(!pairs.is_empty());
    for pair in pairs {
        let (text, line) = (&pair[0].1, pair[0].2);
        assert_eq!(
            check(text).unwrap_err().render("example.drepl", text, false),
            pair[1].1,
            "at line {line}"
        );
    }
}

#[test]
fn the_figures_in_the_comments_are_those_computed() {
    let texts: Vec<String> = blocks().into_iter().filter(|b| b.0 == "drepl").map(|b| b.1).collect();
    let layouts = texts.iter().find(|t| t.contains("type Plain")).unwrap();
    let program = check(layouts).unwrap();
    assert_eq!(program.type_layout("Plain", &[]).unwrap().size(), 24);
    assert_eq!(program.type_layout("Tight", &[]).unwrap().size(), 11);
    let maps = check(texts.iter().find(|t| t.contains("fragment maps")).unwrap()).unwrap();
    let maps = maps.instantiate("maps", &[]).unwrap();
    let spread = maps.vars.iter().find(|v| &*v.name == "spread").unwrap();
    let mapped: Vec<u64> = (0..10).filter(|&i| spread.dims[0].map.apply(i).is_some()).collect();
    assert_eq!(mapped, [0, 4, 8]);
}
