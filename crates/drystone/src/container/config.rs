//! The run-time configuration: what a site or a user decides about storage without changing the application.
//!
//! A TOML file, named by `DRYSTONE_CONFIG` or found as `drystone.toml` beside the container, overrides code and
//! dataset text: how variables are encoded and cut (by patterns of their names), durability, threads.
//! docs/reference/configuration.md describes it. The file is read when a container is opened, and affects what is
//! written through that handle. The applied settings are recorded with the blocks.
//!
//! Invariants
//! - a file with an unknown key or an impossible value is refused as a whole: nothing is silently ignored;
//! - reading data needs no configuration.

use std::fmt;
use std::path::{Path, PathBuf};

use drystone_format::identity::Durability;
use drystone_store::MapPolicy;
use drystone_transform::Transform;
use toml::de::{DeTable, DeValue};

use crate::layout::BlockLayout;
use crate::{Error, Result, plugin};

const VARIABLE: &str = "DRYSTONE_CONFIG";
const FILE: &str = "drystone.toml";
const MAX_LEN: u64 = 1 << 20;
const KEYS: &str = "durability, learn, mapped, plugins, threads, variables";
/// Overrides the configuration of mapped reads.
const MAPPED: &str = "DRYSTONE_MAPPED";
const MAPPED_WORDS: &str = "\"long\", \"never\" or \"always\"";
const VARIABLE_KEYS: &str = "transform, chunks, layout, access";

/// The content of a configuration file.
#[derive(Clone, Debug)]
pub struct Config {
    path: PathBuf,
    /// Durability of new containers.
    pub durability: Option<Durability>,
    /// The number of threads that one read or one encoding may use in this process.
    pub threads: Option<usize>,
    /// Whether reads are observed, and layouts follow the observed reads.
    pub learn: bool,
    /// Which raw bytes are read through memory maps.
    pub mapped: Option<MapPolicy>,
    /// Files of plug-ins. They were loaded before the transforms were parsed.
    plugins: Vec<PathBuf>,
    /// Rules, the most specific pattern first.
    rules: Vec<Rule>,
}

/// Settings for the variables whose names match a pattern.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Pattern of names: `*` stands for any characters except `/`, `**` for any characters, `?` for one.
    pub pattern: String,
    /// How their blocks are encoded.
    pub transform: Option<Transform>,
    /// The subchunk shape into which their blocks are cut.
    pub chunks: Option<Vec<u64>>,
    /// Whether the cost model cuts their blocks, or blocks stay whole.
    pub layout: Option<BlockLayout>,
    /// The expected reads of these variables.
    pub access: Option<String>,
}

impl Config {
    /// The configuration for a container: the file that `DRYSTONE_CONFIG` names, else `drystone.toml` beside the
    /// container, else none.
    ///
    /// Errors: a named file that cannot be read; `InvalidArgument` (with its position) for unknown content.
    pub(crate) fn find(container: Option<&Path>) -> Result<Option<Config>> {
        Config::beside(container, container.is_some_and(Path::is_dir))
    }

    /// [`Config::find`] for a container whose folder exists.
    pub(crate) fn of_folder(container: &Path) -> Result<Option<Config>> {
        Config::beside(Some(container), true)
    }

    fn beside(container: Option<&Path>, is_folder: bool) -> Result<Option<Config>> {
        if let Some(named) = std::env::var_os(VARIABLE).filter(|name| !name.is_empty()) {
            return Config::read(Path::new(&named), true).map(Some);
        }
        // The kernel resolves the folder above and follows links. Usually there is no file.
        if container.is_some_and(|path| is_folder && !path.join("..").join(FILE).is_file()) {
            return Ok(None);
        }
        let beside = container.and_then(|path| path.canonicalize().ok().or_else(|| Some(path.to_path_buf())));
        let beside = beside.and_then(|path| path.parent().map(|folder| folder.join(FILE)));
        match beside {
            Some(path) if path.is_file() => Config::read(&path, false).map(Some),
            _ => Ok(None),
        }
    }

    /// Which bytes a local store maps: as `DRYSTONE_MAPPED` says, else as the configuration says.
    ///
    /// Errors: `InvalidArgument` if the environment variable has another value.
    pub(crate) fn map_policy(found: Option<&Config>) -> Result<MapPolicy> {
        match std::env::var_os(MAPPED).filter(|word| !word.is_empty()) {
            Some(word) => word.to_str().and_then(map_policy).ok_or_else(|| {
                Error::invalid(format!("{MAPPED} is {MAPPED_WORDS}, not \"{}\"", word.to_string_lossy()))
            }),
            None => Ok(found.and_then(|config| config.mapped).unwrap_or_default()),
        }
    }

    /// Loads the plug-ins listed in the configuration that `DRYSTONE_CONFIG` names. For programs that use transforms
    /// without a container.
    pub fn load_plugins() -> Result<()> {
        match std::env::var_os(VARIABLE).filter(|name| !name.is_empty()) {
            Some(named) => Config::read(Path::new(&named), true).map(drop),
            None => Ok(()),
        }
    }

    /// `named`: the environment names the file, rather than it being found beside data. Only such a file may load
    /// code.
    fn read(path: &Path, named: bool) -> Result<Config> {
        let failed = |e: std::io::Error| {
            let shown = path.display();
            Error::invalid(format!(
                "the configuration {shown} cannot be read: {e}; correct or unset {VARIABLE}"
            ))
        };
        let long = std::fs::metadata(path).map_err(failed)?.len() > MAX_LEN;
        if long {
            return Err(Error::invalid(format!("the configuration {} is over 1 MiB", path.display())));
        }
        let text = std::fs::read_to_string(path).map_err(failed)?;
        for file in listed_plugins(&text, path) {
            if !named {
                return Err(Error::invalid(format!(
                    "the configuration {} lists plug-ins, which are code: only the file that {VARIABLE} names may do that",
                    path.display()
                )));
            }
            plugin::load(&file)
                .map_err(|e| e.while_doing(format!("the configuration {}", path.display())))?;
        }
        Config::parse(&text, path)
    }

    /// Parses the text of a configuration file; `path` is for messages.
    pub fn parse(text: &str, path: &Path) -> Result<Config> {
        let line = |at: usize| text.get(..at).map_or(1, |before| before.matches('\n').count() + 1);
        let bad = |at: usize, problem: String| {
            Error::invalid(format!("the configuration {}, line {}: {problem}", path.display(), line(at)))
        };
        let document =
            DeTable::parse(text).map_err(|e| bad(e.span().map_or(0, |s| s.start), e.message().to_owned()))?;
        let mut config = Config {
            path: path.to_path_buf(),
            durability: None,
            threads: None,
            learn: true,
            mapped: None,
            rules: Vec::new(),
            plugins: Vec::new(),
        };
        for (key, value) in document.get_ref() {
            let at = value.span().start;
            match (key.get_ref().as_ref(), value.get_ref()) {
                ("durability", DeValue::String(name)) => {
                    config.durability = Some(Durability::parse(name).ok_or_else(|| {
                        bad(at, format!("durability is \"async\", \"durable\" or \"memory\", not \"{name}\""))
                    })?);
                }
                ("threads", value) => match integer(value) {
                    Some(n @ 1..=4096) => config.threads = Some(n as usize),
                    _ => return Err(bad(at, "threads is a number from 1 to 4096".into())),
                },
                ("learn", DeValue::Boolean(learn)) => config.learn = *learn,
                ("learn", _) => return Err(bad(at, "learn is true or false".into())),
                ("mapped", value) => {
                    let word = if let DeValue::String(word) = value { map_policy(word) } else { None };
                    config.mapped = Some(word.ok_or_else(|| bad(at, format!("mapped is {MAPPED_WORDS}")))?);
                }
                ("plugins", value) => {
                    config.plugins = files(value, path).ok_or_else(|| {
                        bad(at, "plugins is a list of files, as [\"/opt/codecs/runs.so\"]".into())
                    })?;
                }
                ("variables", DeValue::Table(patterns)) => {
                    for (pattern, value) in patterns {
                        let rule = rule(pattern.get_ref(), value.get_ref());
                        config.rules.push(rule.map_err(|problem| bad(value.span().start, problem))?);
                    }
                }
                (known @ ("durability" | "variables"), _) => {
                    return Err(bad(
                        at,
                        format!("{known} has another type; see docs/reference/configuration.md"),
                    ));
                }
                (other, _) => {
                    return Err(bad(key.span().start, format!("unknown key \"{other}\"; known are {KEYS}")));
                }
            }
        }
        // If two patterns match, the one with more literal characters is used.
        let plain = |rule: &Rule| rule.pattern.chars().filter(|c| !matches!(c, '*' | '?')).count();
        config.rules.sort_by_key(|rule| (std::cmp::Reverse(plain(rule)), rule.pattern.clone()));
        Ok(config)
    }

    /// The file from which it was read.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its rules, the most specific first.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The transform of a variable, from the most specific rule that states one.
    pub(crate) fn transform(&self, name: &str) -> Option<&Transform> {
        self.rules.iter().filter(|rule| matches(&rule.pattern, name)).find_map(|rule| rule.transform.as_ref())
    }

    /// The chunks of a variable of `ndim` dimensions, from the most specific rule that states chunks of that many
    /// dimensions.
    pub(crate) fn chunks(&self, name: &str, ndim: usize) -> Option<&[u64]> {
        let matching = self.rules.iter().filter(|rule| matches(&rule.pattern, name));
        matching.filter_map(|rule| rule.chunks.as_deref()).find(|chunks| chunks.len() == ndim)
    }

    /// The block layout of a variable, from the most specific rule that states one.
    pub(crate) fn layout(&self, name: &str) -> Option<BlockLayout> {
        self.rules.iter().filter(|rule| matches(&rule.pattern, name)).find_map(|rule| rule.layout)
    }

    /// The expected reads of a variable, from the most specific rule that states them.
    pub(crate) fn access(&self, name: &str) -> Option<&str> {
        self.rules.iter().filter(|rule| matches(&rule.pattern, name)).find_map(|rule| rule.access.as_deref())
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.pattern)?;
        if let Some(transform) = &self.transform {
            write!(f, " transform {}", transform.canonical())?;
        }
        if let Some(chunks) = &self.chunks {
            write!(f, " chunks {chunks:?}")?;
        }
        match self.layout {
            Some(BlockLayout::Log) => write!(f, " layout log")?,
            Some(BlockLayout::Model) => write!(f, " layout model")?,
            None => {}
        }
        if let Some(access) = &self.access {
            write!(f, " access {access}")?;
        }
        Ok(())
    }
}

/// A list of files. Files without a folder lie beside the configuration.
fn files(value: &DeValue<'_>, configuration: &Path) -> Option<Vec<PathBuf>> {
    let DeValue::Array(files) = value else { return None };
    let folder = configuration.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let one = |file: &toml::Spanned<DeValue<'_>>| match file.get_ref() {
        DeValue::String(name) if !name.is_empty() => Some(folder.join(name.as_ref())),
        _ => None,
    };
    files.iter().map(one).collect()
}

/// The plug-ins of a configuration, which must be loaded before its transforms are parsed. Empty if the list is
/// invalid; parsing reports that.
fn listed_plugins(text: &str, path: &Path) -> Vec<PathBuf> {
    let Ok(document) = DeTable::parse(text) else { return Vec::new() };
    let listed = document.get_ref().iter().find(|(key, _)| key.get_ref().as_ref() == "plugins");
    listed.and_then(|(_, value)| files(value.get_ref(), path)).unwrap_or_default()
}

fn map_policy(word: &str) -> Option<MapPolicy> {
    match word {
        "long" => Some(MapPolicy::Long),
        "never" => Some(MapPolicy::Never),
        "always" => Some(MapPolicy::Always),
        _ => None,
    }
}

fn integer(value: &DeValue<'_>) -> Option<u64> {
    match value {
        DeValue::Integer(i) if i.radix() == 10 => i.as_str().replace('_', "").parse().ok(),
        _ => None,
    }
}

fn rule(pattern: &str, value: &DeValue<'_>) -> std::result::Result<Rule, String> {
    let DeValue::Table(members) = value else {
        return Err(format!("variables.\"{pattern}\" holds {VARIABLE_KEYS}"));
    };
    let mut rule =
        Rule { pattern: pattern.to_owned(), transform: None, chunks: None, layout: None, access: None };
    for (key, value) in members {
        match (key.get_ref().as_ref(), value.get_ref()) {
            ("transform", DeValue::String(text)) => {
                let transform = Transform::parse(text);
                rule.transform =
                    Some(transform.map_err(|e| format!("variables.\"{pattern}\".transform: {e}"))?);
            }
            ("chunks", DeValue::Array(edges)) => {
                let edges: Option<Vec<u64>> =
                    edges.iter().map(|edge| integer(edge.get_ref()).filter(|n| *n > 0)).collect();
                rule.chunks = Some(edges.ok_or_else(|| {
                    format!("variables.\"{pattern}\".chunks is a list of positive numbers, one per dimension")
                })?);
            }
            ("layout", DeValue::String(text)) => {
                let layout = BlockLayout::parse(text);
                rule.layout = Some(layout.ok_or_else(|| {
                    format!("variables.\"{pattern}\".layout is \"model\" or \"log\", not \"{text}\"")
                })?);
            }
            ("access", DeValue::String(text)) => {
                rule.access = Some(text.to_string());
            }
            (key @ ("layout" | "access"), _) => {
                return Err(format!("variables.\"{pattern}\".{key} is a text"));
            }
            ("transform", _) => {
                return Err(format!("variables.\"{pattern}\".transform is a text, as \"zstd:3\""));
            }
            ("chunks", _) => {
                return Err(format!("variables.\"{pattern}\".chunks is a list, as [64, 64, 64]"));
            }
            (other, _) => {
                return Err(format!(
                    "unknown key \"{other}\" of variables.\"{pattern}\"; known are {VARIABLE_KEYS}"
                ));
            }
        }
    }
    Ok(rule)
}

/// Whether a name matches a pattern of `*`, `**` and `?`. Linear in the product of the lengths.
fn matches(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    // reached[i]: the pattern so far matches the first i characters of the name.
    let mut reached = vec![false; name.len() + 1];
    reached[0] = true;
    let mut at = 0;
    while at < pattern.len() {
        let mut next = vec![false; name.len() + 1];
        let any = pattern[at] == '*' && pattern.get(at + 1) == Some(&'*');
        for i in 0..=name.len() {
            let before = i.checked_sub(1);
            let last = before.and_then(|before| name.get(before));
            next[i] = match pattern[at] {
                '*' => reached[i] || before.is_some_and(|b| next[b]) && (any || last != Some(&'/')),
                '?' => before.is_some_and(|b| reached[b]) && last != Some(&'/'),
                c => before.is_some_and(|b| reached[b]) && last == Some(&c),
            };
        }
        reached = next;
        at += if any { 2 } else { 1 };
    }
    reached.last() == Some(&true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config> {
        Config::parse(text, Path::new("site.toml"))
    }

    #[test]
    fn patterns_match_names_as_shells_do() {
        for (pattern, name, expected) in [
            ("*", "T", true),
            ("*", "fields/T", false),
            ("**", "fields/T", true),
            ("fields/*", "fields/T", true),
            ("fields/*", "fields/a/T", false),
            ("fields/**/T", "fields/a/b/T", true),
            ("T?", "T1", true),
            ("T?", "T", false),
            ("", "", true),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} on {name}");
        }
    }

    #[test]
    fn the_most_specific_pattern_wins_member_by_member() {
        let config = parse(
            "durability = \"durable\"\nthreads = 2\n[variables]\n\"**\" = { transform = \"zstd:1\", chunks = [8, 8] }\n\
             \"fields/*\" = { transform = \"auto\" }\n\"fields/T\" = { chunks = [4, 4, 4] }\n",
        )
        .unwrap();
        assert_eq!((config.durability, config.threads), (Some(Durability::Durable), Some(2)));
        let transform = |name: &str| config.transform(name).map(Transform::canonical);
        assert_eq!(transform("fields/T").as_deref(), Some("auto"));
        assert_eq!(transform("other").as_deref(), Some("zstd:1"));
        assert_eq!(config.chunks("fields/T", 3), Some([4, 4, 4].as_slice()));
        assert_eq!(config.chunks("fields/T", 2), Some([8, 8].as_slice()));
        assert_eq!(config.chunks("fields/T", 1), None);
        let one_line = parse("variables.\"*\".transform = \"shuffle,zstd:1\"").unwrap();
        assert_eq!(one_line.transform("U").map(Transform::canonical).as_deref(), Some("shuffle,zstd:1"));
    }

    #[test]
    fn unknown_keys_and_impossible_values_are_refused_with_their_line() {
        for (text, part) in [
            ("durabilty = \"async\"", "line 1: unknown key \"durabilty\"; known are durability"),
            ("\ndurability = \"safe\"", "line 2: durability is \"async\""),
            ("durability = 3", "another type"),
            ("threads = 0", "from 1 to 4096"),
            ("threads = \"two\"", "from 1 to 4096"),
            ("variables.T = 3", "holds transform, chunks"),
            ("variables.T.layout = \"blog\"", "\"model\" or \"log\""),
            ("variables.T.access = 3", "access is a text"),
            ("variables.T.transform = \"zsdt\"", "did you mean \"zstd\""),
            ("variables.T.transform = 3", "is a text"),
            ("variables.T.chunks = [0]", "positive numbers"),
            ("variables.T.chunk = [2]", "unknown key \"chunk\""),
            ("variables = [", "site.toml, line 1"),
            ("plugins = \"x.so\"", "plugins is a list of files"),
            ("learn = 1", "true or false"),
            ("mapped = true", "mapped is \"long\", \"never\" or \"always\""),
            ("\nmapped = \"no\"", "line 2: mapped is \"long\""),
            ("plugins = [3]", "plugins is a list of files"),
        ] {
            let message = parse(text).unwrap_err().to_string();
            assert!(message.contains(part), "{text}: {message}");
        }
    }
}
