//! The configuration of a server: `server.toml`, read and checked before anything listens.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use drystone_region::{Declared, element_type};
use toml::de::{DeTable, DeValue};

use crate::name;

/// A configuration that cannot be used. The message names the key and says what is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidConfig(pub(crate) String);

impl fmt::Display for InvalidConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InvalidConfig {}

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Listener {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// Files of the certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TlsFiles {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
    /// Certificates of authorities. A client must present a certificate of one of them.
    pub(crate) clients: Option<PathBuf>,
}

/// Limits of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most bytes of requests that are held at once.
    pub memory: u64,
    /// The most requests that are worked on at once.
    pub requests: usize,
    /// The most requests that wait in the queue. Further ones are refused, and their clients repeat them.
    pub queue: usize,
    /// The most connections at once.
    pub connections: usize,
    /// The time after which a lease ends that is not renewed.
    pub lease: Duration,
    /// The most bytes of memory that one client shares with the server.
    pub arena: u64,
    /// The most bytes of memory that all clients together share with the server.
    pub arenas: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            memory: 256 << 20,
            requests: 64,
            queue: 1024,
            connections: 4096,
            lease: Duration::from_secs(10),
            arena: 1 << 30,
            arenas: 8 << 30,
        }
    }
}

/// A function of a shared library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FunctionFile {
    pub(crate) declared: Declared,
    pub(crate) library: PathBuf,
    pub(crate) symbol: String,
}

/// The configuration of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    pub(crate) listen: Vec<Listener>,
    pub(crate) tokens: Option<PathBuf>,
    pub(crate) tls: Option<TlsFiles>,
    /// The path or URL of each container, by name.
    pub(crate) containers: BTreeMap<String, String>,
    /// The folder of each root, by name.
    pub(crate) roots: BTreeMap<String, PathBuf>,
    /// Whether `/metrics` needs no token.
    pub(crate) open_metrics: bool,
    /// Whether a line is logged for each request, not only for failed ones.
    pub(crate) log_requests: bool,
    pub(crate) limits: Limits,
    /// Functions that rules may name.
    pub(crate) functions: Vec<FunctionFile>,
}

const KEYS: &str = "listen, tokens, tls, containers, roots, metrics, log, limits, functions";

impl Config {
    /// Reads a file. Relative paths in it are relative to its folder.
    pub fn read(path: &Path) -> Result<Config, InvalidConfig> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| InvalidConfig(format!("cannot read {}: {error}", path.display())))?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Self::parse(&text, folder).map_err(|error| InvalidConfig(format!("{}: {error}", path.display())))
    }

    /// Parses the text of a configuration. Relative paths in it are relative to `folder`.
    pub fn parse(text: &str, folder: &Path) -> Result<Config, InvalidConfig> {
        let document = DeTable::parse(text)
            .map_err(|error| InvalidConfig(format!("it is not valid TOML: {}", error.message())))?;
        let mut config = Config::default();
        for (key, value) in document.get_ref() {
            let value = value.get_ref();
            match key.get_ref().as_ref() {
                "listen" => {
                    config.listen = list(value, "listen")?
                        .iter()
                        .map(|text| listener(text, folder))
                        .collect::<Result<_, _>>()?
                }
                "tokens" => config.tokens = Some(folder.join(text_of(value, "tokens")?)),
                "tls" => config.tls = Some(tls(value, folder)?),
                "containers" => {
                    for (name, place) in named(value, "containers")? {
                        let place = if drystone::is_url(&place) {
                            place
                        } else {
                            folder.join(place).to_string_lossy().into_owned()
                        };
                        config.containers.insert(name, place);
                    }
                }
                "roots" => {
                    for (name, place) in named(value, "roots")? {
                        if drystone::is_url(&place) {
                            return bad(format!("roots.{name} is a folder, not a URL: {place}"));
                        }
                        config.roots.insert(name, folder.join(place));
                    }
                }
                "metrics" => config.open_metrics = word(value, "metrics", &["open", "token"])? == 0,
                "log" => config.log_requests = word(value, "log", &["requests", "failures"])? == 0,
                "limits" => limits(value, &mut config.limits)?,
                "functions" => {
                    for (name, value) in table(value, "functions")? {
                        let (name, value) = (name.get_ref().as_ref(), value.get_ref());
                        config.functions.push(function(name, value, folder)?);
                    }
                }
                other => return bad(format!("there is no key {other:?}; keys are: {KEYS}")),
            }
        }
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> Result<(), InvalidConfig> {
        if self.listen.is_empty() {
            return bad("listen names no address; write for example listen = [\"127.0.0.1:7070\"]");
        }
        if self.tls.is_none()
            && let Some(Listener::Tcp(far)) =
                self.listen.iter().find(|one| matches!(one, Listener::Tcp(at) if !at.ip().is_loopback()))
        {
            return bad(format!(
                "listen: {far} is reached from other machines, so it needs [tls] with certificate and key; without it \
                 listen on 127.0.0.1 or a Unix socket"
            ));
        }
        if let Some(twice) = self.roots.keys().find(|name| self.containers.contains_key(*name)) {
            return bad(format!("{twice:?} is a container and a root; one of them needs another name"));
        }
        Ok(())
    }
}

fn bad<T>(text: impl Into<String>) -> Result<T, InvalidConfig> {
    Err(InvalidConfig(text.into()))
}

fn text_of(value: &DeValue<'_>, key: &str) -> Result<String, InvalidConfig> {
    match value {
        DeValue::String(text) if !text.is_empty() => Ok(text.as_ref().to_owned()),
        _ => bad(format!("{key} must be a text")),
    }
}

fn list(value: &DeValue<'_>, key: &str) -> Result<Vec<String>, InvalidConfig> {
    match value {
        DeValue::Array(items) => items.iter().map(|item| text_of(item.get_ref(), key)).collect(),
        _ => bad(format!("{key} must be a list of texts")),
    }
}

fn table<'a, 'b>(value: &'a DeValue<'b>, key: &str) -> Result<&'a DeTable<'b>, InvalidConfig> {
    match value {
        DeValue::Table(table) => Ok(table),
        _ => bad(format!("{key} must be a table: write [{key}] above its lines")),
    }
}

fn named(value: &DeValue<'_>, key: &str) -> Result<Vec<(String, String)>, InvalidConfig> {
    let mut found = Vec::new();
    for (name, place) in table(value, key)? {
        let name = name.get_ref().as_ref();
        if !name::is_name(name) {
            return bad(format!(
                "{key}: {name:?} is not a valid name; a name has parts between slashes, each of letters, digits, \
                 '.', '_' and '-'; no part begins with '.' or is \"o\""
            ));
        }
        found.push((name.to_owned(), text_of(place.get_ref(), &format!("{key}.{name}"))?));
    }
    Ok(found)
}

fn word(value: &DeValue<'_>, key: &str, words: &[&str]) -> Result<usize, InvalidConfig> {
    let text = text_of(value, key)?;
    let found = words.iter().position(|word| *word == text);
    found.ok_or_else(|| InvalidConfig(format!("{key} must be one of {}, not {text:?}", words.join(", "))))
}

fn listener(text: &str, folder: &Path) -> Result<Listener, InvalidConfig> {
    if let Some(path) = text.strip_prefix("unix:") {
        if path.is_empty() {
            return bad("listen: unix: needs the path of a socket, as unix:/run/user/1000/drystone.sock");
        }
        return Ok(Listener::Unix(folder.join(path)));
    }
    let text = text.replace("localhost:", "127.0.0.1:");
    match text.parse() {
        Ok(address) => Ok(Listener::Tcp(address)),
        Err(_) => bad(format!(
            "listen: {text:?} is neither ADDRESS:PORT with a numeric address, as 127.0.0.1:7070, nor unix:PATH"
        )),
    }
}

fn tls(value: &DeValue<'_>, folder: &Path) -> Result<TlsFiles, InvalidConfig> {
    let (mut certificate, mut key, mut clients) = (None, None, None);
    for (name, value) in table(value, "tls")? {
        let name = name.get_ref().as_ref();
        let slot = match name {
            "certificate" => &mut certificate,
            "key" => &mut key,
            "clients" => &mut clients,
            other => return bad(format!("there is no key tls.{other}; keys are: certificate, key, clients")),
        };
        *slot = Some(folder.join(text_of(value.get_ref(), &format!("tls.{name}"))?));
    }
    match (certificate, key) {
        (Some(certificate), Some(key)) => Ok(TlsFiles { certificate, key, clients }),
        _ => bad("tls needs both certificate and key, files in PEM format"),
    }
}

fn limits(value: &DeValue<'_>, limits: &mut Limits) -> Result<(), InvalidConfig> {
    for (name, value) in table(value, "limits")? {
        let (name, value) = (name.get_ref().as_ref(), value.get_ref());
        match name {
            "memory" => {
                let text = text_of(value, "limits.memory")?;
                let bytes = bytes(&text).filter(|bytes| (16 << 20..=1 << 40).contains(bytes));
                limits.memory = bytes.ok_or_else(|| {
                    InvalidConfig(format!(
                        "limits.memory: {text:?} is not a size from 16MiB to 1TiB, such as \"256MiB\""
                    ))
                })?;
            }
            "arena" | "arenas" => {
                let text = text_of(value, &format!("limits.{name}"))?;
                let bytes = bytes(&text).filter(|bytes| *bytes <= 1 << 44);
                let bytes = bytes.ok_or_else(|| {
                    InvalidConfig(format!(
                        "limits.{name}: {text:?} is not a size from 0MiB to 16TiB, such as \"1GiB\""
                    ))
                })?;
                match name {
                    "arena" => limits.arena = bytes,
                    _ => limits.arenas = bytes,
                }
            }
            "lease" => {
                let text = text_of(value, "limits.lease")?;
                let lease = duration(&text).filter(|lease| (1..=3600).contains(&lease.as_secs()));
                limits.lease = lease.ok_or_else(|| {
                    InvalidConfig(format!(
                        "limits.lease: {text:?} is not a time from 1s to 1h, such as \"10s\""
                    ))
                })?;
            }
            "requests" | "queue" | "connections" => {
                let number = whole(value)
                    .and_then(|n| usize::try_from(n).ok())
                    .filter(|n| (1..=100_000).contains(n))
                    .ok_or_else(|| {
                        InvalidConfig(format!("limits.{name} must be a number from 1 to 100000"))
                    })?;
                match name {
                    "requests" => limits.requests = number,
                    "queue" => limits.queue = number,
                    _ => limits.connections = number,
                }
            }
            other => {
                return bad(format!(
                    "there is no key limits.{other}; keys are: memory, requests, queue, connections, lease, arena, \
                     arenas"
                ));
            }
        }
    }
    Ok(())
}

fn function(name: &str, value: &DeValue<'_>, folder: &Path) -> Result<FunctionFile, InvalidConfig> {
    let key = |part: &str| format!("functions.{name}.{part}");
    let wrong = |part: &str, what: &str| InvalidConfig(format!("{} is {what}", key(part)));
    let (mut library, mut symbol, mut ndim, mut halo) = (None, None, None, vec![0]);
    let (mut input, mut output, mut is_list) = (None, None, false);
    let mut thread_safe = false;
    let (mut deadline, mut memory) = (Declared::DEADLINE, Declared::MEMORY);
    for (part, value) in table(value, &format!("functions.{name}"))? {
        let (part, value) = (part.get_ref().as_ref(), value.get_ref());
        match part {
            "library" => library = Some(folder.join(text_of(value, &key(part))?)),
            "symbol" => symbol = Some(text_of(value, &key(part))?),
            "in" | "out" => {
                let found = element_type(&text_of(value, &key(part))?);
                let found = found.ok_or_else(|| wrong(part, "a type of elements, as \"f4\""))?;
                *(if part == "in" { &mut input } else { &mut output }) = Some(found);
            }
            "ndim" => {
                let number =
                    whole(value).and_then(|n| usize::try_from(n).ok()).filter(|n| (1..=8).contains(n));
                ndim = Some(number.ok_or_else(|| wrong(part, "a number from 1 to 8"))?);
            }
            "halo" => {
                let found: Option<Vec<u64>> = match value {
                    DeValue::Array(items) => items.iter().map(|item| whole(item.get_ref())).collect(),
                    one => whole(one).map(|one| vec![one]),
                };
                is_list = matches!(value, DeValue::Array(_));
                halo = found
                    .ok_or_else(|| wrong(part, "a number of cells, or a list with one for each dimension"))?;
            }
            "thread_safe" => match value {
                DeValue::Boolean(is) => thread_safe = *is,
                _ => return Err(wrong(part, "true or false")),
            },
            "deadline" => {
                let time = duration(&text_of(value, &key(part))?);
                let time = time.filter(|time| (1..=3600).contains(&time.as_secs()));
                deadline = time.ok_or_else(|| wrong(part, "a time from 1s to 1h, as \"10s\""))?;
            }
            "memory" => {
                let size = bytes(&text_of(value, &key(part))?).filter(|size| *size <= 1 << 40);
                memory = size.ok_or_else(|| wrong(part, "a size to 1TiB, as \"256MiB\""))?;
            }
            other => {
                return bad(format!(
                    "there is no key {}; keys are: library, symbol, in, out, ndim, halo, thread_safe, deadline, memory",
                    key(other)
                ));
            }
        }
    }
    let (Some(library), Some(symbol), Some(input), Some(output)) = (library, symbol, input, output) else {
        return bad(format!("functions.{name} needs library, symbol, in and out"));
    };
    let halo = match (is_list, ndim) {
        (true, Some(n)) if n != halo.len() => {
            return Err(wrong("halo", "a list with one for each dimension"));
        }
        (true, _) => halo,
        (false, Some(n)) => vec![halo.first().copied().unwrap_or(0); n],
        (false, None) => return bad(format!("functions.{name} needs ndim, the dimensions of the variable")),
    };
    let declared = Declared { name: name.to_owned(), input, output, halo, thread_safe, deadline, memory };
    declared.check().map_err(|error| InvalidConfig(format!("functions.{name}: {error}")))?;
    Ok(FunctionFile { declared, library, symbol })
}

/// A whole number.
fn whole(value: &DeValue<'_>) -> Option<u64> {
    match value {
        DeValue::Integer(number) if number.radix() == 10 => number.as_str().replace('_', "").parse().ok(),
        _ => None,
    }
}

/// Parses a size, such as `256MiB` or `1GiB`.
fn bytes(text: &str) -> Option<u64> {
    let units = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40)];
    let (number, shift) = units.iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, *shift)))?;
    number.trim().parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// Parses a duration, such as `2s`, `10m`, `12h` or `30d`.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return None,
    };
    let number = number.bytes().all(|c| c.is_ascii_digit()).then(|| number.parse::<u64>().ok())??;
    Some(Duration::from_secs(number.checked_mul(seconds)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, InvalidConfig> {
        Config::parse(text, Path::new("/etc/drystone"))
    }

    #[test]
    fn the_configuration_of_the_documentation_is_read() {
        let config = parse(
            "listen = [\"127.0.0.1:7070\", \"unix:/run/user/1000/drystone.sock\"]\ntokens = \"tokens.toml\"\n\
             [tls]\ncertificate = \"server.pem\"\nkey = \"server.key\"\n[containers]\nrun42 = \"/data/run42.dry\"\n\
             far = \"s3://bucket/x.dry\"\n[roots]\nscratch = \"data\"\n[limits]\nmemory = \"1GiB\"\nlease = \"2s\"\n",
        )
        .unwrap();
        assert_eq!(config.tokens.as_deref(), Some(Path::new("/etc/drystone/tokens.toml")));
        assert_eq!(config.containers["run42"], "/data/run42.dry");
        assert_eq!(config.containers["far"], "s3://bucket/x.dry");
        assert_eq!(config.roots["scratch"], Path::new("/etc/drystone/data"));
        assert_eq!((config.limits.memory, config.limits.lease), (1 << 30, Duration::from_secs(2)));
        assert!(!config.open_metrics);
    }

    const FUNCTION: &str = "library = \"f.so\"\nsymbol = \"f\"\nin = \"f4\"\nout = \"f8\"\n";

    fn function(lines: &str) -> String {
        format!("listen = [\"127.0.0.1:7070\"]\n[functions.f]\n{lines}")
    }

    #[test]
    fn functions_are_read() {
        let more = "halo = [1, 0]\nthread_safe = true\ndeadline = \"2s\"\nmemory = \"1GiB\"";
        let config = parse(&function(&format!("{FUNCTION}{more}"))).unwrap();
        let [found] = config.functions.as_slice() else { panic!("one function") };
        assert_eq!(found.library, Path::new("/etc/drystone/f.so"));
        let Declared { halo, thread_safe, deadline, memory, input, output, name } = &found.declared;
        assert_eq!((halo.as_slice(), *thread_safe, *memory), ([1, 0].as_slice(), true, 1 << 30));
        assert_eq!((name.as_str(), *deadline), ("f", Duration::from_secs(2)));
        assert_eq!((input.name(), output.name()), ("float32", "float64"));
        let config = parse(&function(&format!("{FUNCTION}ndim = 3\nhalo = 2"))).unwrap();
        assert_eq!(config.functions[0].declared.halo, [2, 2, 2]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let loopback = "listen = [\"127.0.0.1:7070\"]\n";
        for (text, named) in [
            ("", "listen"),
            ("listen = [\"0.0.0.0:7070\"]", "tls"),
            ("listen = [\"host:7070\"]", "host:7070"),
            ("listen = [\"unix:\"]", "unix:"),
            ("lisen = [\"127.0.0.1:7070\"]", "lisen"),
            (&format!("{loopback}[tls]\ncertificate = \"c\""), "key"),
            (&format!("{loopback}[containers]\n\"../x\" = \"/d\""), "../x"),
            (&format!("{loopback}[containers]\nx = \"/d\"\n[roots]\nx = \"/d\""), "x"),
            (&format!("{loopback}[roots]\nx = \"s3://b/c\""), "s3://b/c"),
            (&format!("{loopback}[limits]\nmemory = \"1\""), "memory"),
            (&format!("{loopback}[limits]\nlease = \"0s\""), "lease"),
            (&format!("{loopback}[limits]\narenas = \"much\""), "arenas"),
            (&function("symbol = \"f\"\nin = \"f4\"\nout = \"f4\""), "functions.f"),
            (&function("in = \"c8\""), "functions.f.in"),
            (&function("ndim = 9"), "functions.f.ndim"),
            (&function("halo = -1"), "functions.f.halo"),
            (&function("deadline = \"0s\""), "functions.f.deadline"),
            (&function("path = \"f.so\""), "functions.f.path"),
            (&function(&format!("{FUNCTION}ndim = 3\nhalo = [1, 1]")), "one for each dimension"),
            (&function(FUNCTION), "ndim"),
            (&function(&format!("{FUNCTION}ndim = 3\nhalo = 5000")), "1024"),
            ("listen = [", "TOML"),
        ] {
            let message = parse(text).unwrap_err().to_string();
            assert!(message.contains(named), "{text:?}: {message}");
        }
    }
}
