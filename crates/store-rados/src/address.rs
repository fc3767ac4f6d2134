//! Where a container lies: pool, namespace and prefix.

use std::fmt;

use drystone_store::validate_key;

use crate::InvalidOption;

/// The scheme of the addresses of this crate.
pub const SCHEME: &str = "rados";

/// `rados://pool`, `rados://pool/namespace` or `rados://pool/namespace/prefix`, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    pool: String,
    namespace: String,
    prefix: String,
}

impl Address {
    /// Reads an address.
    pub fn parse(url: &str) -> Result<Address, InvalidOption> {
        let Some((SCHEME, rest)) = url.split_once("://") else {
            return Err(InvalidOption::new(format!(
                "{url:?} is no address of the form rados://pool/namespace/prefix"
            )));
        };
        let rest = rest.trim_end_matches('/');
        let mut parts = rest.splitn(3, '/');
        let mut next = || parts.next().unwrap_or_default().to_owned();
        let address = Address { pool: next(), namespace: next(), prefix: next() };
        let plain = |name: &str| name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
        if address.pool.is_empty() || !plain(&address.pool) || !plain(&address.namespace) {
            return Err(InvalidOption::new(format!(
                "{url:?} names no pool and namespace of letters, digits, '.', '_' and '-'; the form is \
                 rados://pool/namespace/prefix"
            )));
        }
        if !address.prefix.is_empty() && validate_key(&address.prefix).is_err() {
            return Err(InvalidOption::new(format!("the prefix of {url:?} is not a name of an object")));
        }
        Ok(address)
    }

    /// The pool.
    pub fn pool(&self) -> &str {
        &self.pool
    }

    /// The namespace in the pool; empty is the default one.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The object of a key.
    pub(crate) fn object(&self, key: &str) -> String {
        if self.prefix.is_empty() { key.to_owned() } else { format!("{}/{key}", self.prefix) }
    }

    /// The key of an object; `None` if it is none of this container's.
    pub(crate) fn key<'a>(&self, object: &'a str) -> Option<&'a str> {
        match self.prefix.as_str() {
            "" => Some(object),
            prefix => object.strip_prefix(prefix)?.strip_prefix('/'),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}://{}", self.pool)?;
        if !self.namespace.is_empty() || !self.prefix.is_empty() {
            write!(f, "/{}", self.namespace)?;
        }
        if !self.prefix.is_empty() {
            write!(f, "/{}", self.prefix)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_pool_and_perhaps_more() {
        let parse =
            |url: &str| Address::parse(url).map(|a| (a.pool.clone(), a.namespace.clone(), a.prefix.clone()));
        let found = |a: &str, b: &str, c: &str| Ok((a.to_owned(), b.to_owned(), c.to_owned()));
        assert_eq!(parse("rados://p"), found("p", "", ""));
        assert_eq!(parse("rados://p/n"), found("p", "n", ""));
        assert_eq!(parse("rados://p/n/a/run.dry/"), found("p", "n", "a/run.dry"));
        assert_eq!(parse("rados://p//run.dry"), found("p", "", "run.dry"));
        for wrong in
            ["rados://", "rados:///n", "rados://p q", "rados://p/n/../x", "s3://b/k", "p/n", "rados://u@h/x"]
        {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        for text in ["rados://p", "rados://p/n", "rados://p/n/x/y"] {
            assert_eq!(Address::parse(text).map(|a| a.to_string()).as_deref(), Ok(text));
        }
    }

    #[test]
    fn keys_lie_below_the_prefix() {
        let address = Address { pool: "p".into(), namespace: String::new(), prefix: "a/b".into() };
        assert_eq!(address.object("log/x"), "a/b/log/x");
        assert_eq!(address.key("a/b/log/x"), Some("log/x"));
        assert_eq!((address.key("a/bc/x"), address.key("a/b"), address.key("x")), (None, None, None));
    }
}
