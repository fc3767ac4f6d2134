//! The settings of a client besides the address: endpoint, region, credentials, limits.
//!
//! Options come from the caller, then from the environment, then from the profile in the user's AWS files. Names are
//! those of the `object_store` crate, and a few of our own: `timeout`, `max_requests`, `profile`.
//!
//! Invariant: [`Options::public`] contains only options from a list of harmless names; all others are treated as
//! secrets.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use drystone_store::Credentials;
use object_store::aws::AmazonS3ConfigKey;
use object_store::azure::AzureConfigKey;
use object_store::gcp::GoogleConfigKey;

use crate::credentials::{self, Profile};
use crate::supplied::Source;
use crate::{InvalidAddress, Scheme};

/// The options that the caller gave.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Options {
    values: BTreeMap<String, String>,
    source: Option<Source>,
}

/// The default time for which a request is repeated.
const DEADLINE: Duration = Duration::from_secs(30);
/// The default limit of requests under way to one endpoint.
const MAX_REQUESTS: usize = 128;

/// Parts of names that are not secret and lead to no secret.
const PUBLIC: [&str; 30] = [
    "region",
    "default_region",
    "endpoint",
    "endpoint_url",
    "endpoint_url_s3",
    "base_url",
    "allow_http",
    "skip_signature",
    "virtual_hosted_style_request",
    "imdsv1_fallback",
    "unsigned_payload",
    "checksum_algorithm",
    "conditional_put",
    "disable_tagging",
    "disable_bulk_delete",
    "s3_express",
    "request_payer",
    "storage_account_name",
    "account_name",
    "storage_use_emulator",
    "use_emulator",
    "use_azure_cli",
    "connect_timeout",
    "http1_only",
    "http2_only",
    "allow_invalid_certificates",
    "timeout",
    "max_requests",
    "profile",
    "role_arn",
];

impl Options {
    /// Options from pairs of name and value. Names are compared without case.
    pub fn new<K: Into<String>, V: Into<String>>(pairs: impl IntoIterator<Item = (K, V)>) -> Self {
        let lower = |(name, value): (K, V)| (name.into().to_ascii_lowercase(), value.into());
        Options { values: pairs.into_iter().map(lower).collect(), source: None }
    }

    /// The same options with this source of credentials; credentials are then not taken from options, the environment
    /// or a profile.
    pub fn with_credentials(self, source: Arc<dyn Credentials>) -> Self {
        Options { source: Some(Source(source)), ..self }
    }

    /// The options that may be written to a pickle, a configuration or a message.
    pub fn public(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values
            .iter()
            .filter(|(name, value)| is_public(name, value))
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The settings of a client, from these options, the environment, and the profile.
    pub(crate) fn resolve(&self, scheme: Scheme) -> Result<Resolved, InvalidAddress> {
        self.resolve_in(
            scheme,
            std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?))),
        )
    }

    pub(crate) fn resolve_in(
        &self,
        scheme: Scheme,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Resolved, InvalidAddress> {
        let environment: BTreeMap<String, String> = environment.into_iter().collect();
        let mut values = BTreeMap::new();
        let mut own = BTreeMap::new();
        for (name, value) in &environment {
            let ours = match scheme {
                Scheme::S3 => name.starts_with("AWS_"),
                Scheme::Gs => name.starts_with("GOOGLE_"),
                Scheme::Az => name.starts_with("AZURE_"),
                Scheme::Http => false,
            };
            // The environment may contain options of other programs, so an unknown one is no error.
            if ours && let Some(known) = canonical(scheme, &name.to_ascii_lowercase()) {
                values.insert(known, value.clone());
            }
        }
        for (name, value) in &self.values {
            let is_profile = scheme == Scheme::S3 && matches!(name.as_str(), "profile" | "aws_profile");
            if is_profile || matches!(name.as_str(), "timeout" | "max_requests") {
                own.insert(if is_profile { "profile" } else { name.as_str() }, value.as_str());
                continue;
            }
            let Some(known) = canonical(scheme, name) else {
                return Err(InvalidAddress::new(format!(
                    "there is no storage option {name:?} for {}; names are those of object_store, such as {}",
                    scheme_text(scheme),
                    example(scheme)
                )));
            };
            values.insert(known, value.clone());
        }
        let deadline = own.get("timeout").map_or(Ok(DEADLINE), |text| {
            seconds(text).ok_or_else(|| {
                InvalidAddress::new(format!(
                    "timeout: {text:?} is no time; write for example \"30s\" or \"500ms\""
                ))
            })
        })?;
        let max_requests = own.get("max_requests").map_or(Ok(MAX_REQUESTS), |text| {
            text.parse().ok().filter(|n| (1..=4096).contains(n)).ok_or_else(|| {
                InvalidAddress::new(format!("max_requests: {text:?} is not a number between 1 and 4096"))
            })
        })?;
        let source = self.source.clone();
        if source.is_some() && scheme == Scheme::Http {
            return Err(InvalidAddress::new("a web server takes no credentials callback"));
        }
        let mut resolved =
            Resolved { scheme, values, deadline, max_requests, profile: Profile::default(), source };
        if scheme == Scheme::S3 {
            let named = own.get("profile").map(|name| (*name).to_owned());
            resolved.take_profile(named, &environment)?;
        }
        resolved.check()?;
        Ok(resolved)
    }
}

impl std::fmt::Debug for Options {
    /// Prints all names, and the values of public options.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut map = f.debug_map();
        for (name, value) in &self.values {
            map.entry(name, &if is_public(name, value) { value.as_str() } else { "(not shown)" });
        }
        map.finish()
    }
}

fn is_public(name: &str, value: &str) -> bool {
    let bare =
        ["aws_", "google_", "azure_"].iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name);
    // An address with a user in it is a secret under any name.
    PUBLIC.contains(&bare) && !value.contains('@')
}

fn scheme_text(scheme: Scheme) -> &'static str {
    match scheme {
        Scheme::S3 => "s3",
        Scheme::Gs => "gs",
        Scheme::Az => "az",
        Scheme::Http => "http",
    }
}

fn example(scheme: Scheme) -> &'static str {
    match scheme {
        Scheme::S3 => "aws_endpoint, aws_region, aws_access_key_id, aws_secret_access_key, allow_http",
        Scheme::Gs => "google_service_account, google_skip_signature",
        Scheme::Az => "azure_storage_account_name, azure_storage_account_key, azure_skip_signature",
        Scheme::Http => "connect_timeout, proxy_url",
    }
}

/// The canonical name of an option; `None` if there is no such option.
fn canonical(scheme: Scheme, name: &str) -> Option<String> {
    Some(match scheme {
        Scheme::S3 => name.parse::<AmazonS3ConfigKey>().ok()?.as_ref().to_owned(),
        Scheme::Gs => name.parse::<GoogleConfigKey>().ok()?.as_ref().to_owned(),
        Scheme::Az => name.parse::<AzureConfigKey>().ok()?.as_ref().to_owned(),
        Scheme::Http => name.parse::<object_store::ClientConfigKey>().ok()?.as_ref().to_owned(),
    })
}

/// Parses `30s`, `500ms`, `2m`, or a number of seconds.
pub(crate) fn seconds(text: &str) -> Option<Duration> {
    let text = text.trim();
    let (number, scale) = match text.find(|c: char| c.is_ascii_alphabetic()) {
        None => (text, 1.0),
        Some(at) => match text.split_at(at) {
            (number, "ms") => (number, 1e-3),
            (number, "s") => (number, 1.0),
            (number, "m") => (number, 60.0),
            (number, "h") => (number, 3600.0),
            _ => return None,
        },
    };
    let seconds = number.trim().parse::<f64>().ok()? * scale;
    (0.001..=86_400.0).contains(&seconds).then(|| Duration::from_secs_f64(seconds))
}

/// All settings that determine a client's behaviour. Equal settings share one client.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Resolved {
    pub(crate) scheme: Scheme,
    pub(crate) values: BTreeMap<String, String>,
    pub(crate) deadline: Duration,
    pub(crate) max_requests: usize,
    pub(crate) profile: Profile,
    pub(crate) source: Option<Source>,
}

impl Resolved {
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    fn is_true(&self, name: &str) -> bool {
        self.value(name)
            .is_some_and(|value| matches!(value.to_ascii_lowercase().as_str(), "true" | "1" | "yes" | "on"))
    }

    /// The server that the caller named, without a user in it.
    pub(crate) fn endpoint(&self) -> Option<&str> {
        let named = ["aws_endpoint_url_s3", "aws_endpoint", "azure_storage_endpoint", "google_base_url"];
        named.iter().find_map(|name| self.value(name)).filter(|value| !value.is_empty())
    }

    pub(crate) fn is_anonymous(&self) -> bool {
        ["aws_skip_signature", "azure_skip_signature", "google_skip_signature"]
            .iter()
            .any(|name| self.is_true(name))
    }

    fn take_profile(
        &mut self,
        named: Option<String>,
        environment: &BTreeMap<String, String>,
    ) -> Result<(), InvalidAddress> {
        let has_keys = ["aws_access_key_id", "aws_secret_access_key", "aws_web_identity_token_file"]
            .iter()
            .any(|name| self.values.contains_key(*name));
        // Given keys take precedence over a profile, unless the options name the profile.
        if named.is_none() && (has_keys || self.source.is_some() || self.is_anonymous()) {
            return Ok(());
        }
        let profile = credentials::profile(named, environment)?;
        for (name, value) in &profile.values {
            if let Some(known) = canonical(Scheme::S3, name) {
                let of_keys = name.contains("key") || name.contains("token");
                if of_keys {
                    self.values.insert(known, value.clone());
                } else {
                    self.values.entry(known).or_insert_with(|| value.clone());
                }
            }
        }
        self.profile = profile;
        Ok(())
    }

    fn check(&mut self) -> Result<(), InvalidAddress> {
        let Some(endpoint) = self.endpoint().map(str::to_owned) else { return Ok(()) };
        let parsed = url::Url::parse(&endpoint).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let Some(parsed) = parsed.filter(|url| url.host_str().is_some()) else {
            return Err(InvalidAddress::new("the endpoint is not an address such as https://s3.example.org"));
        };
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return Err(InvalidAddress::new(
                "the endpoint has a user or a password in it; give credentials as options",
            ));
        }
        if parsed.scheme() == "http" {
            let is_loopback = match parsed.host() {
                Some(url::Host::Domain(name)) => name == "localhost",
                Some(url::Host::Ipv4(address)) => address.is_loopback(),
                Some(url::Host::Ipv6(address)) => address.is_loopback(),
                None => false,
            };
            if !is_loopback && !self.is_true("allow_http") {
                return Err(InvalidAddress::new(format!(
                    "the endpoint {endpoint} is not encrypted; if that is meant, add the storage option allow_http: \
                     \"true\""
                )));
            }
            self.values.insert("allow_http".into(), "true".into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(pairs: &[(&str, &str)], environment: &[(&str, &str)]) -> Result<Resolved, InvalidAddress> {
        let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Options::new(pairs.iter().copied()).resolve_in(Scheme::S3, environment)
    }

    #[test]
    fn options_stand_above_the_environment_whatever_they_are_called() {
        let environment = [
            ("AWS_ENDPOINT_URL", "https://env"),
            ("AWS_REGION", "r1"),
            ("AWS_ACCESS_KEY_ID", "k"),
            ("AWS_SECRET_ACCESS_KEY", "s"),
            ("PATH", "/"),
        ];
        let resolved = resolve(&[("endpoint", "https://given"), ("Timeout", "500ms")], &environment).unwrap();
        assert_eq!(resolved.endpoint(), Some("https://given"));
        assert_eq!(resolved.value("aws_region"), Some("r1"));
        assert_eq!(resolved.deadline, Duration::from_millis(500));
    }

    #[test]
    fn misspelt_options_are_named() {
        let message = resolve(&[("aws_acces_key_id", "x")], &[])
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default();
        assert!(message.contains("aws_acces_key_id") && message.contains("aws_access_key_id"), "{message}");
        assert!(resolve(&[("timeout", "soon")], &[]).is_err());
    }

    #[test]
    fn an_endpoint_without_encryption_must_be_meant() {
        assert!(resolve(&[("aws_endpoint", "http://far.example.org")], &[]).is_err());
        for pairs in [
            vec![("aws_endpoint", "http://far.example.org"), ("allow_http", "true")],
            vec![("aws_endpoint", "http://127.0.0.1:9000")],
        ] {
            assert_eq!(resolve(&pairs, &[]).unwrap().value("allow_http"), Some("true"));
        }
    }

    #[test]
    fn secrets_are_not_public_and_not_in_debug() {
        let options = Options::new([
            ("aws_secret_access_key", "hunter2"),
            ("aws_access_key_id", "hunter2"),
            ("aws_session_token", "hunter2"),
            ("azure_storage_sas_key", "hunter2"),
            ("google_service_account_key", "hunter2"),
            ("aws_endpoint", "https://hunter2:x@host"),
            ("proxy_url", "http://hunter2@proxy"),
            ("aws_region", "eu-1"),
        ]);
        assert_eq!(options.public().collect::<Vec<_>>(), [("aws_region", "eu-1")]);
        assert!(!format!("{options:?}").contains("hunter2"));
    }
}
