//! How a cluster is found, and how it is used.

use std::fmt;

/// An address or an option that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidOption(String);

impl InvalidOption {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        InvalidOption(what.into())
    }
}

impl fmt::Display for InvalidOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InvalidOption {}

/// How a cluster is found: as every client finds it, unless something is said.
#[derive(Clone)]
pub struct Options {
    /// The configuration file; else what `CEPH_CONF` names, else `/etc/ceph/ceph.conf`.
    pub(crate) conf: Option<String>,
    /// The name after `client.`; else `admin`.
    pub(crate) user: Option<String>,
    /// Settings of Ceph itself.
    pub(crate) settings: Vec<(String, String)>,
    /// Seconds until an operation that gets no answer fails.
    pub(crate) timeout: u32,
    /// Whether logs grow by appends; else they are many objects that are put whole.
    pub(crate) append: bool,
    /// Most requests under way at once.
    pub(crate) requests: u32,
}

/// What may be said.
const NAMES: [&str; 8] = ["conf", "user", "keyring", "key", "mon_host", "timeout", "append", "max_requests"];

impl Default for Options {
    fn default() -> Self {
        Options { conf: None, user: None, settings: Vec::new(), timeout: 30, append: false, requests: 64 }
    }
}

impl Options {
    /// Reads options; an unknown one is refused.
    pub fn new<'a>(options: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Options, InvalidOption> {
        let mut found = Options::default();
        for (name, value) in options {
            let number = |least: u32, most: u32| {
                let number = value.parse().ok().filter(|n| (least..=most).contains(n));
                number.ok_or_else(|| {
                    InvalidOption::new(format!(
                        "the option {name:?} is a number from {least} to {most}, not {value:?}"
                    ))
                })
            };
            match name {
                "conf" => found.conf = Some(value.to_owned()),
                "user" => found.user = Some(value.trim_start_matches("client.").to_owned()),
                "keyring" | "key" => found.settings.push((name.to_owned(), value.to_owned())),
                "mon_host" => found.settings.push(("mon_host".to_owned(), value.to_owned())),
                "timeout" => found.timeout = number(1, 3600)?,
                "max_requests" => found.requests = number(1, 512)?,
                "append" => match value {
                    "true" => found.append = true,
                    "false" => found.append = false,
                    _ => return Err(InvalidOption::new("the option \"append\" is \"true\" or \"false\"")),
                },
                _ => {
                    return Err(InvalidOption::new(format!(
                        "rados:// has no option {name:?}; there are: {}",
                        NAMES.join(", ")
                    )));
                }
            }
        }
        Ok(found)
    }

    /// Whether an option is no secret.
    pub fn is_public(name: &str) -> bool {
        NAMES.contains(&name) && name != "key"
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("conf", &self.conf).field("user", &self.user).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_checked_and_secrets_are_not_shown() {
        let made =
            Options::new([("user", "client.me"), ("key", "secret"), ("append", "true"), ("timeout", "5")]);
        let made = made.unwrap_or_default();
        assert_eq!((made.user.as_deref(), made.append, made.timeout), (Some("me"), true, 5));
        assert!(!format!("{made:?}").contains("secret") && !Options::is_public("key"));
        for wrong in
            [("append", "1"), ("timeout", "0"), ("timeout", "x"), ("what", "x"), ("max_requests", "9999")]
        {
            assert!(Options::new([wrong]).is_err(), "{wrong:?}");
        }
    }
}
