//! What can name a container.

/// Whether it can name a container: parts between slashes, of letters, digits, `.`, `_` and `-`, none of which begins with a `.` or is `o`.
pub(crate) fn is_name(name: &str) -> bool {
    let is_part = |part: &str| {
        (1..=255).contains(&part.len())
            && !part.starts_with('.')
            && part != "o"
            && part.bytes().all(|c| c.is_ascii_alphanumeric() || b"._-".contains(&c))
    };
    name.len() <= 1024 && name.split('/').all(is_part)
}
