//! Names of objects: relative, slash-separated, the same on every transport.
//!
//! A key is one or more components of `A-Z a-z 0-9 . _ -`, joined by single slashes. This excludes everything that some
//! transport treats specially (absolute paths, `..`, drive letters, percent signs). So a container can be moved between
//! stores, and a hostile key cannot leave its root.

use crate::{Result, StoreError};

/// The longest key, in bytes.
pub const MAX_KEY_LEN: usize = 1024;
/// The longest component of a key, in bytes: what common file systems support.
pub const MAX_COMPONENT_LEN: usize = 255;

/// Checks that `key` can name an object. Every [`Store`](crate::Store) does this first.
pub fn validate_key(key: &str) -> Result<()> {
    fault_in_key(key).map_or(Ok(()), |reason| Err(invalid(key, reason)))
}

/// Checks that some valid key could begin with `prefix`: the empty prefix, or the beginning of a key, which
/// may end inside a component or after a slash.
pub fn validate_prefix(prefix: &str) -> Result<()> {
    // The last component can still be completed, even "." and "..", so a letter is appended before the check.
    if prefix.len() >= MAX_KEY_LEN {
        return Err(invalid(prefix, "it is longer than 1024 bytes"));
    }
    fault_in_key(&format!("{prefix}x")).map_or(Ok(()), |reason| Err(invalid(prefix, reason)))
}

/// Whether `name` could be a component of a key. The store ignores files with other names.
pub(crate) fn is_component(name: &str) -> bool {
    fault_in_component(name).is_none()
}

pub(crate) fn invalid(key: &str, reason: &'static str) -> StoreError {
    StoreError::InvalidKey { key: key.to_owned(), reason }
}

fn fault_in_key(key: &str) -> Option<&'static str> {
    if key.is_empty() {
        return Some("it is empty");
    }
    if key.len() > MAX_KEY_LEN {
        return Some("it is longer than 1024 bytes");
    }
    key.split('/').find_map(fault_in_component)
}

fn fault_in_component(component: &str) -> Option<&'static str> {
    match component {
        "" => Some("it has an empty component (a slash at the start or end, or two in a row)"),
        "." | ".." => Some("'.' and '..' are not allowed as components"),
        _ if component.len() > MAX_COMPONENT_LEN => Some("a component is longer than 255 bytes"),
        _ if !component.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-')) => {
            Some("only A-Z, a-z, 0-9, '.', '_' and '-' are allowed between slashes")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_names_are_keys() {
        for key in ["a", "drystone.json", "log/00-7.seg", "zarr/u/c.0/.zarray", "a/..b/c..", "x/-"] {
            assert!(validate_key(key).is_ok(), "{key}");
        }
        assert!(validate_key(&"k".repeat(MAX_COMPONENT_LEN)).is_ok());
    }

    #[test]
    fn names_that_could_leave_the_root_or_mean_something_else_are_refused() {
        for key in
            ["", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "a/./b", "a b", "a\\b", "a:b", "é", "a\0"]
        {
            assert!(validate_key(key).is_err(), "{key:?}");
        }
        assert!(validate_key(&"k".repeat(MAX_COMPONENT_LEN + 1)).is_err());
        assert!(validate_key(&"k/".repeat(MAX_KEY_LEN)).is_err());
    }

    #[test]
    fn a_prefix_may_stop_anywhere_in_a_key() {
        for prefix in ["", "l", "log/", "log/a", "a/.", "a/.."] {
            assert!(validate_prefix(prefix).is_ok(), "{prefix:?}");
        }
        for prefix in ["/", "a//", "../", "a/../b", "~"] {
            assert!(validate_prefix(prefix).is_err(), "{prefix:?}");
        }
    }
}
