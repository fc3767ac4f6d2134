//! Tokens, which give rights on paths, and may expire. The file holds only their hashes, never the tokens themselves.

use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use toml::de::{DeTable, DeValue};

use crate::InvalidConfig;
use crate::name::is_name;

/// What a token allows on a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Right {
    /// To read.
    Read,
    /// To create containers, and to add objects.
    Create,
    /// To add, replace and remove objects of existing containers.
    Modify,
}

impl Right {
    const ALL: [Right; 3] = [Right::Read, Right::Create, Right::Modify];

    /// Its name in scopes.
    pub fn name(self) -> &'static str {
        match self {
            Right::Read => "storage.read",
            Right::Create => "storage.create",
            Right::Modify => "storage.modify",
        }
    }
}

/// A right on a container, a root, or everything below a path: `storage.read:/run42`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    right: Right,
    /// Without slashes at either end; empty for everything.
    path: String,
}

impl Scope {
    /// Parses `RIGHT:/PATH`.
    pub fn parse(text: &str) -> Result<Scope, InvalidConfig> {
        let wrong = || {
            InvalidConfig(format!(
                "{text:?} is not a scope; write for example storage.read:/run42; rights are storage.read, \
                 storage.create and storage.modify, the path is a container's name, the beginning of one, or /"
            ))
        };
        let (right, path) = text.split_once(':').ok_or_else(wrong)?;
        let right = Right::ALL.into_iter().find(|known| known.name() == right).ok_or_else(wrong)?;
        let path = path.strip_prefix('/').ok_or_else(wrong)?;
        let path = path.strip_suffix('/').unwrap_or(path);
        if !path.is_empty() && !is_name(path) {
            return Err(wrong());
        }
        Ok(Scope { right, path: path.to_owned() })
    }

    fn covers(&self, right: Right, name: &str) -> bool {
        let rest = name.strip_prefix(&self.path);
        self.right == right
            && (self.path.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:/{}", self.right.name(), self.path)
    }
}

/// The entry of a token in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) id: String,
    scopes: Vec<Scope>,
    /// Seconds since 1970.
    expires: Option<u64>,
}

impl Known {
    pub(crate) fn allows(&self, right: Right, name: &str) -> bool {
        self.scopes.iter().any(|scope| scope.covers(right, name))
    }

    pub(crate) fn has_expired(&self, now: SystemTime) -> bool {
        let now = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        self.expires.is_some_and(|end| now >= end)
    }
}

/// The tokens of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tokens(HashMap<[u8; 32], Known>);

impl Tokens {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Tokens, InvalidConfig> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            InvalidConfig(format!("cannot read the tokens in {}: {error}", path.display()))
        })?;
        Self::parse(&text).map_err(|error| InvalidConfig(format!("{}: {error}", path.display())))
    }

    /// Parses the text of a file.
    pub fn parse(text: &str) -> Result<Tokens, InvalidConfig> {
        let wrong = |what: &str| InvalidConfig(format!("this is not a file of tokens: {what}"));
        let document = DeTable::parse(text).map_err(|error| wrong(error.message()))?;
        let mut tokens = HashMap::new();
        for (key, value) in document.get_ref() {
            let DeValue::Array(items) = value.get_ref() else {
                return Err(wrong("token is a list of tables"));
            };
            if key.get_ref().as_ref() != "token" {
                return Err(wrong(&format!("there is no key {:?}", key.get_ref())));
            }
            for item in items {
                let DeValue::Table(table) = item.get_ref() else {
                    return Err(wrong("token is a list of tables"));
                };
                let (hash, known) =
                    entry(table).ok_or_else(|| wrong("an entry has id, hash, scopes and perhaps expires"))?;
                tokens.insert(hash, known);
            }
        }
        Ok(Tokens(tokens))
    }

    /// The entry of this token. Hashes are compared, so the time of the comparison reveals nothing about tokens.
    pub(crate) fn find(&self, word: &str) -> Option<&Known> {
        self.0.get(&hash_of(word))
    }

    /// The id, the scopes and the expiry of each token, sorted by id. The expiry is in seconds since 1970.
    pub fn list(&self) -> Vec<(String, Vec<Scope>, Option<u64>)> {
        let mut all: Vec<_> =
            self.0.values().map(|known| (known.id.clone(), known.scopes.clone(), known.expires)).collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    }
}

fn entry(table: &DeTable<'_>) -> Option<([u8; 32], Known)> {
    let get = |key: &str| {
        table.iter().find(|(name, _)| name.get_ref().as_ref() == key).map(|(_, value)| value.get_ref())
    };
    let text = |value: Option<&DeValue<'_>>| match value {
        Some(DeValue::String(text)) => Some(text.as_ref().to_owned()),
        _ => None,
    };
    let hash = text(get("hash"))?;
    let hash = parse_hex(hash.strip_prefix("sha256:")?)?;
    let DeValue::Array(scopes) = get("scopes")? else { return None };
    let scopes =
        scopes.iter().map(|scope| Scope::parse(&text(Some(scope.get_ref()))?).ok()).collect::<Option<_>>()?;
    let expires = match get("expires") {
        None => None,
        Some(DeValue::Integer(i)) if i.radix() == 10 => Some(i.as_str().replace('_', "").parse().ok()?),
        Some(_) => return None,
    };
    Some((hash, Known { id: text(get("id"))?, scopes, expires }))
}

fn hash_of(word: &str) -> [u8; 32] {
    let mut out = [0; 32];
    out.copy_from_slice(digest(&SHA256, word.as_bytes()).as_ref());
    out
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

fn parse_hex(text: &str) -> Option<[u8; 32]> {
    let mut out = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (byte, at) in out.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(text.get(at..at + 2)?, 16).ok()?;
    }
    Some(out)
}

/// A new token.
pub struct Issued {
    /// The id, which lists show and `revoke` takes.
    pub id: String,
    /// The token itself, shown once.
    pub word: String,
}

/// Makes a token and adds it to the file. Creates the file if there is none.
pub fn issue(path: &Path, scopes: &[Scope], expires: Option<Duration>) -> Result<Issued, InvalidConfig> {
    if scopes.is_empty() {
        return Err(InvalidConfig("a token needs a scope, such as storage.read:/run42".into()));
    }
    // A file that cannot be read is left as it is.
    if path.exists() {
        Tokens::read(path)?;
    }
    let mut bytes = [0; 36];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| InvalidConfig("the system gave no random numbers".into()))?;
    let (id, word) = bytes.split_at(4);
    let (id, word) = (hex(id), format!("dry_{}", hex(word)));
    let mut text =
        format!("[[token]]\nid = \"{id}\"\nhash = \"sha256:{}\"\nscopes = [", hex(&hash_of(&word)));
    for (n, scope) in scopes.iter().enumerate() {
        let _ = write!(text, "{}\"{scope}\"", if n == 0 { "" } else { ", " });
    }
    text.push_str("]\n");
    if let Some(life) = expires {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // Rounded up, so that the token is valid for at least the requested time.
        let end = now.saturating_add(life).as_secs().saturating_add(u64::from(now.subsec_nanos() > 0));
        let _ = writeln!(text, "expires = {end}");
    }
    text.push('\n');
    let cannot = |error: std::io::Error| InvalidConfig(format!("cannot write {}: {error}", path.display()));
    let mut options = std::fs::OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path).map_err(cannot)?;
    // One write, so that entries that are appended at the same time do not mix.
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(cannot)?;
    Ok(Issued { id, word })
}

/// Removes the token with this id from the file. Returns whether there was one.
pub fn revoke(path: &Path, id: &str) -> Result<bool, InvalidConfig> {
    Tokens::read(path)?;
    let cannot = |error: std::io::Error| InvalidConfig(format!("cannot write {}: {error}", path.display()));
    let text = std::fs::read_to_string(path).map_err(cannot)?;
    let named = format!("id = \"{id}\"");
    let (mut kept, mut found) = (String::new(), false);
    for (n, block) in text.split("[[token]]").enumerate() {
        if n > 0 && block.lines().any(|line| line.trim() == named) {
            found = true;
            continue;
        }
        if n > 0 {
            kept.push_str("[[token]]");
        }
        kept.push_str(block);
    }
    if found {
        let beside = path.with_extension("new");
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&beside).map_err(cannot)?;
        file.write_all(kept.as_bytes()).and_then(|()| file.sync_all()).map_err(cannot)?;
        std::fs::rename(&beside, path).map_err(cannot)?;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_its_rights_on_its_paths_and_no_others() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("tokens.toml");
        let scopes =
            ["storage.read:/run42", "storage.modify:/scratch/"].map(|text| Scope::parse(text).unwrap());
        let issued = issue(&file, &scopes, None).unwrap();
        let second =
            issue(&file, &[Scope::parse("storage.create:/").unwrap()], Some(Duration::from_secs(60)))
                .unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(!text.contains(&issued.word) && !text.contains(&issued.word[4..]), "the file holds no words");
        assert!(!issued.word.contains(char::is_whitespace));
        let tokens = Tokens::read(&file).unwrap();
        let known = tokens.find(&issued.word).unwrap();
        assert!(known.allows(Right::Read, "run42") && known.allows(Right::Modify, "scratch/x.dry"));
        for (right, name) in [
            (Right::Read, "run421"),
            (Right::Read, "scratch/x.dry"),
            (Right::Create, "scratch/x.dry"),
            (Right::Modify, "run42"),
            (Right::Modify, "scratched"),
        ] {
            assert!(!known.allows(right, name), "{right:?} {name}");
        }
        let other = tokens.find(&second.word).unwrap();
        assert!(other.allows(Right::Create, "any/where") && !other.allows(Right::Read, "any/where"));
        assert!(!other.has_expired(SystemTime::now()));
        assert!(other.has_expired(SystemTime::now() + Duration::from_secs(62)));
        assert!(tokens.find("dry_0").is_none() && tokens.find("").is_none());
        assert!(revoke(&file, &issued.id).unwrap() && !revoke(&file, &issued.id).unwrap());
        let tokens = Tokens::read(&file).unwrap();
        assert!(tokens.find(&issued.word).is_none() && tokens.find(&second.word).is_some());
    }

    #[test]
    fn scopes_that_mean_nothing_are_refused() {
        for text in [
            "",
            "read:/x",
            "storage.read",
            "storage.read:x",
            "storage.read:/../x",
            "storage.write:/x",
            "storage.read:/a//b",
        ] {
            assert!(Scope::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_file_that_is_not_one_of_tokens_is_an_error() {
        for text in [
            "x = 1",
            "token = 1",
            "[[token]]\nid = \"a\"",
            "[[token]]\nid=\"a\"\nhash=\"sha256:00\"\nscopes=[]",
            "[",
        ] {
            assert!(Tokens::parse(text).is_err(), "{text:?}");
        }
        assert_eq!(Tokens::parse(""), Ok(Tokens::default()));
    }
}
