//! Valid names of containers.

/// Whether a text is a valid name of a container. Its parts between slashes have letters, digits, `.`, `_` and `-`. No
/// part begins with `.` or is `o`.
pub(crate) fn is_name(name: &str) -> bool {
    let is_part = |part: &str| {
        (1..=255).contains(&part.len())
            && !part.starts_with('.')
            && part != "o"
            && part.bytes().all(|c| c.is_ascii_alphanumeric() || b"._-".contains(&c))
    };
    name.len() <= 1024 && name.split('/').all(is_part)
}
