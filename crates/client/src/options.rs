//! The client's options besides the address: token, certificate, timeouts, limits.
//!
//! Invariant: [`Options::public`] contains only values of names on a list of harmless ones; any other value
//! counts as a secret.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::InvalidAddress;

/// Options as the caller gave them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Options(BTreeMap<String, String>);

/// The names of options, and whether their values are public.
const NAMES: [(&str, bool); 6] = [
    ("token", false),
    ("timeout", true),
    ("max_requests", true),
    ("arena", true),
    ("ca_certificate", true),
    ("allow_invalid_certificates", true),
];

/// The source of a token.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) enum TokenFrom {
    Given(String),
    File(PathBuf),
    None,
}

impl TokenFrom {
    /// The current token; a file may change at any time.
    pub(crate) fn token(&self) -> Option<String> {
        let word = match self {
            TokenFrom::Given(word) => word.clone(),
            TokenFrom::File(path) => std::fs::read_to_string(path).ok()?,
            TokenFrom::None => return None,
        };
        Some(word.trim().to_owned()).filter(|word| !word.is_empty())
    }
}

/// The options of an endpoint. Endpoints of one server with different options are distinct.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Resolved {
    pub(crate) token: TokenFrom,
    pub(crate) deadline: Duration,
    pub(crate) max_requests: usize,
    /// The most bytes of memory shared with a server on this machine.
    pub(crate) arena: u64,
    pub(crate) ca_certificate: Option<PathBuf>,
    pub(crate) allow_invalid_certificates: bool,
}

impl Options {
    /// Takes pairs of names and values; names are compared without case.
    pub fn new<K: Into<String>, V: Into<String>>(pairs: impl IntoIterator<Item = (K, V)>) -> Self {
        Options(
            pairs.into_iter().map(|(name, value)| (name.into().to_ascii_lowercase(), value.into())).collect(),
        )
    }

    /// Options without secrets, for pickles, configurations and messages.
    pub fn public(&self) -> impl Iterator<Item = (&str, &str)> {
        let is_public = |name: &str| NAMES.contains(&(name, true));
        self.0
            .iter()
            .filter(move |(name, _)| is_public(name))
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }

    pub(crate) fn resolve(&self) -> Result<Resolved, InvalidAddress> {
        self.resolve_in(|name| std::env::var(name).ok())
    }

    fn resolve_in(&self, environment: impl Fn(&str) -> Option<String>) -> Result<Resolved, InvalidAddress> {
        if let Some(name) = self.0.keys().find(|name| NAMES.iter().all(|(known, _)| known != name)) {
            let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
            return Err(InvalidAddress(format!(
                "there is no storage option {name:?} for servers; names are: {}",
                names.join(", ")
            )));
        }
        let get = |name: &str| self.0.get(name).map(String::as_str);
        let token = match (get("token"), environment("BEARER_TOKEN"), environment("BEARER_TOKEN_FILE")) {
            (Some(word), ..) => TokenFrom::Given(word.to_owned()),
            (None, Some(word), _) if !word.trim().is_empty() => TokenFrom::Given(word),
            (None, _, Some(path)) if !path.is_empty() => TokenFrom::File(path.into()),
            _ => TokenFrom::None,
        };
        if let TokenFrom::Given(word) = &token
            && word.trim().contains(|c: char| !c.is_ascii_graphic())
        {
            return Err(InvalidAddress("the token must be one word of printable ASCII characters".into()));
        }
        let deadline = get("timeout")
            .map_or(Some(Duration::from_secs(30)), seconds)
            .ok_or_else(|| InvalidAddress("timeout must be a time such as \"30s\" or \"500ms\"".into()))?;
        let max_requests =
            get("max_requests").map_or(Some(32), |text| text.parse().ok().filter(|n| (1..=4096).contains(n)));
        let max_requests = max_requests
            .ok_or_else(|| InvalidAddress("max_requests must be a number between 1 and 4096".into()))?;
        let arena = get("arena").map_or(Some(1 << 30), size).ok_or_else(|| {
            InvalidAddress(
                "arena must be a size such as \"1GiB\" or \"256MiB\"; \"0MiB\" shares no memory".into(),
            )
        })?;
        let allow_invalid_certificates = match get("allow_invalid_certificates") {
            None | Some("false") => false,
            Some("true") => true,
            Some(_) => {
                return Err(InvalidAddress(
                    "allow_invalid_certificates must be \"true\" or \"false\"".into(),
                ));
            }
        };
        let ca_certificate = get("ca_certificate").map(PathBuf::from);
        Ok(Resolved { token, deadline, max_requests, arena, ca_certificate, allow_invalid_certificates })
    }
}

impl std::fmt::Debug for Options {
    /// The names, and the values of those that are public.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = |name: &str, value: &str| {
            if NAMES.contains(&(name, true)) { value.to_owned() } else { "(not shown)".to_owned() }
        };
        f.debug_map().entries(self.0.iter().map(|(name, value)| (name, shown(name, value)))).finish()
    }
}

/// Parses a size, such as `256MiB` or `1GiB`.
fn size(text: &str) -> Option<u64> {
    let units = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40)];
    let (number, shift) =
        units.iter().find_map(|(unit, shift)| Some((text.trim().strip_suffix(unit)?, *shift)))?;
    number.trim().parse::<u64>().ok()?.checked_mul(1 << shift).filter(|size| *size <= 1 << 44)
}

/// Parses a duration: `30s`, `500ms`, `2m`, or a number of seconds.
fn seconds(text: &str) -> Option<Duration> {
    let text = text.trim();
    let (number, scale) = match text.find(|c: char| c.is_ascii_alphabetic()) {
        None => (text, 1.0),
        Some(at) => match text.split_at(at) {
            (number, "ms") => (number, 1e-3),
            (number, "s") => (number, 1.0),
            (number, "m") => (number, 60.0),
            _ => return None,
        },
    };
    let seconds = number.trim().parse::<f64>().ok()? * scale;
    (0.001..=86_400.0).contains(&seconds).then(|| Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_comes_from_the_caller_then_from_the_environment() {
        let environment = |name: &str| match name {
            "BEARER_TOKEN" => Some("from-environment\n".to_owned()),
            _ => Some("/file".to_owned()),
        };
        let word = |options: Options| options.resolve_in(environment).unwrap().token.token();
        assert_eq!(word(Options::new([("token", "given")])).as_deref(), Some("given"));
        assert_eq!(word(Options::default()).as_deref(), Some("from-environment"));
        let file = Options::default()
            .resolve_in(|name| (name == "BEARER_TOKEN_FILE").then(|| "/f".to_owned()))
            .unwrap();
        assert!(file.token == TokenFrom::File("/f".into()));
    }

    #[test]
    fn tokens_are_shown_nowhere() {
        let options = Options::new([("Token", "hunter2"), ("timeout", "5s")]);
        assert!(!format!("{options:?}").contains("hunter2"));
        assert_eq!(options.public().collect::<Vec<_>>(), [("timeout", "5s")]);
        let bad = Options::new([("token", "hunter2 x")]).resolve_in(|_| None).err().unwrap().to_string();
        assert!(!bad.contains("hunter2"), "{bad}");
    }

    #[test]
    fn unknown_and_odd_options_are_refused() {
        for (name, value) in [
            ("aws_region", "x"),
            ("timeout", "soon"),
            ("max_requests", "0"),
            ("arena", "much"),
            ("allow_invalid_certificates", "yes"),
        ] {
            let message = Options::new([(name, value)]).resolve_in(|_| None).err().unwrap().to_string();
            assert!(message.contains(name), "{message}");
        }
    }
}
