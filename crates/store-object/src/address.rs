//! The address of a container: scheme, bucket and prefix, or a web address.

use crate::InvalidAddress;

/// The schemes that this build can open.
pub const SCHEMES: [&str; 5] = ["s3", "gs", "az", "http", "https"];

/// The protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scheme {
    /// Amazon S3, and servers with its protocol.
    S3,
    /// Google Cloud Storage.
    Gs,
    /// Azure Blob Storage.
    Az,
    /// Any web server: read-only, without listing.
    Http,
}

/// A validated address of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    scheme: Scheme,
    /// The bucket or container; for the HTTP scheme, host and port.
    bucket: String,
    /// Path of the container in the bucket, without slashes at either end; may be empty.
    prefix: String,
}

impl Address {
    /// Parses a URL. A URL with a user, a password, a query or a fragment is refused, with an error that does not
    /// repeat it.
    pub fn parse(url: &str) -> Result<Address, InvalidAddress> {
        let Some((scheme, _)) = url.split_once("://") else {
            return Err(InvalidAddress::new(format!("{url:?} is not a URL; it has no scheme such as s3://")));
        };
        let scheme = match scheme {
            "s3" | "s3a" => Scheme::S3,
            "gs" => Scheme::Gs,
            "az" | "abfs" | "abfss" => Scheme::Az,
            "http" | "https" => Scheme::Http,
            other => {
                return Err(InvalidAddress::new(format!(
                    "the scheme {other:?} is not built in; there are: {}",
                    SCHEMES.join(", ")
                )));
            }
        };
        let parsed = url::Url::parse(url).map_err(|error| {
            InvalidAddress::new(format!("the address of the container is no URL: {error}"))
        })?;
        let host = parsed.host_str().unwrap_or("");
        let shown = format!("{}://{host}/...", parsed.scheme());
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return Err(InvalidAddress::new(format!(
                "{shown} has a user or a password in it; give them in storage_options or in the environment"
            )));
        }
        if parsed.query().is_some() || parsed.fragment().is_some() {
            return Err(InvalidAddress::new(format!(
                "{shown} ends with a query or a fragment; a container's address is a path"
            )));
        }
        if host.is_empty() {
            return Err(InvalidAddress::new(format!("{url:?} names no bucket or host")));
        }
        let path = object_store::path::Path::from_url_path(parsed.path())
            .map_err(|error| InvalidAddress::new(format!("the path of {shown} cannot be used: {error}")))?;
        let bucket = match (scheme, parsed.port()) {
            (Scheme::Http, Some(port)) => format!("{}://{host}:{port}", parsed.scheme()),
            (Scheme::Http, None) => format!("{}://{host}", parsed.scheme()),
            (_, None) => host.to_owned(),
            (_, Some(_)) => {
                return Err(InvalidAddress::new(format!(
                    "{shown} has a port; the server is named by the option aws_endpoint, the address by bucket and path"
                )));
            }
        };
        Ok(Address { scheme, bucket, prefix: path.as_ref().to_owned() })
    }

    /// The protocol.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The bucket; for the HTTP scheme, host and port.
    pub fn bucket(&self) -> &str {
        &self.bucket
    }

    /// The path of the container within the bucket.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let scheme = match self.scheme {
            Scheme::S3 => "s3://",
            Scheme::Gs => "gs://",
            Scheme::Az => "az://",
            Scheme::Http => "",
        };
        write!(f, "{scheme}{}", self.bucket)?;
        if self.prefix.is_empty() { Ok(()) } else { write!(f, "/{}", self.prefix) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_bucket_and_prefix() {
        let address = Address::parse("s3://bucket/a/b/run42.dry/").unwrap();
        assert_eq!(
            (address.scheme(), address.bucket(), address.prefix()),
            (Scheme::S3, "bucket", "a/b/run42.dry")
        );
        assert_eq!(address.to_string(), "s3://bucket/a/b/run42.dry");
        let web = Address::parse("https://example.org:8443/x/run.dry").unwrap();
        assert_eq!((web.bucket(), web.prefix()), ("https://example.org:8443", "x/run.dry"));
        assert_eq!(web.to_string(), "https://example.org:8443/x/run.dry");
        assert_eq!(Address::parse("gs://b").unwrap().prefix(), "");
    }

    #[test]
    fn an_unknown_scheme_lists_the_known_ones() {
        let message = Address::parse("ftp://x/y").unwrap_err().to_string();
        for scheme in SCHEMES {
            assert!(message.contains(scheme), "{message}");
        }
    }

    #[test]
    fn secrets_in_a_url_are_refused_and_not_repeated() {
        for url in ["https://user:hunter2@host/x", "s3://hunter2:pw@bucket/x", "https://host/x?sig=hunter2"] {
            let message = Address::parse(url).unwrap_err().to_string();
            assert!(!message.contains("hunter2"), "{message}");
        }
    }
}
