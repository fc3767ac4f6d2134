//! Numbers with nouns, for messages.

/// "1 block", "2 blocks"; "1 entry", "2 entries".
pub fn counted(number: u64, what: &str) -> String {
    match (number, what.strip_suffix('y')) {
        (1, _) => format!("1 {what}"),
        (_, Some(stem)) if !stem.ends_with(['a', 'e', 'o', 'u']) => format!("{number} {stem}ies"),
        _ => format!("{number} {what}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn one_is_singular_and_none_and_many_are_plural() {
        assert_eq!((counted(0, "block"), counted(1, "block")), ("0 blocks".into(), "1 block".into()));
        assert_eq!((counted(1, "entry"), counted(2, "entry")), ("1 entry".into(), "2 entries".into()));
        assert_eq!(counted(2, "array"), "2 arrays");
    }
}
