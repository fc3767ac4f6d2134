//! The body of the fuzz target, which tests also run.

use crate::{Fragment, check, format};

/// Checks that no bytes cause a panic, and that the documented guarantees hold.
pub fn fuzz(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match format(&text) {
        Ok(formatted) => {
            assert_eq!(format(&formatted).as_deref(), Ok(&*formatted), "formatting is idempotent")
        }
        Err(diagnostics) => assert!(!diagnostics.is_empty(), "an error says something"),
    }
    match check(&text) {
        Err(diagnostics) => {
            let shown = diagnostics.render("fuzz.drepl", &text, true);
            assert!(!diagnostics.is_empty() && !shown.is_empty(), "an error says something");
        }
        Ok(program) => {
            for extreme in [1, 0, -1, 3, i64::MAX, i64::MIN] {
                for fragment in program.fragments() {
                    let own = fragment.params.iter().copied();
                    let declared =
                        program.params().map(|(name, _)| name).filter(|n| !fragment.params.contains(n));
                    let values: Vec<(&str, i64)> = own.chain(declared).map(|name| (name, extreme)).collect();
                    if let Ok(fragment) = program.instantiate(fragment.name, &values) {
                        fuzz_fragment(&fragment);
                    }
                }
            }
            for name in program.variable_names() {
                let _ = program.whole(name, &[]);
            }
        }
    }
}

fn fuzz_fragment(fragment: &Fragment) {
    for leaf in fragment.lower().unwrap_or_default().iter().take(16) {
        let first: Vec<u64> = leaf.runs.iter().map(|r| r.start).collect();
        let last: Vec<u64> = leaf.runs.iter().map(|r| r.start + r.count.saturating_sub(1)).collect();
        for index in [first, last] {
            leaf.dataset_index(&index);
            let end = leaf.address(&index).map(|at| at + leaf.prim.size());
            assert!(end.is_none_or(|end| end <= fragment.size), "every element lies in the fragment");
        }
    }
    let _ = fragment.writable();
    assert!(!fragment.to_string().is_empty(), "a fragment can be shown");
}
