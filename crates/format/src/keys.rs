//! Names of the byte strings in a store (docs/format/README.md).

/// The identity.
pub const IDENTITY: &str = "drystone.json";

/// The hint.
pub const HINT: &str = "manifest/hint";

/// The floor: up to which version manifests lie in packs, and in which packs.
pub const FLOOR: &str = "manifest/floor";

/// The directory of packs of log parts.
pub const LOG_PACKS: &str = "log/packs";

/// The observed reads.
pub const READS: &str = "reads.dsr";

/// The storage targets on which objects are created.
pub const TARGETS: &str = "targets.json";

/// A segment.
pub fn segment(writer: u64, part: u32) -> String {
    format!("log/{writer:016x}-{part:04}.seg")
}

/// The step records of a segment.
pub fn idx(writer: u64, part: u32) -> String {
    format!("log/{writer:016x}-{part:04}.idx")
}

/// A page file.
pub fn pages(id: u64) -> String {
    format!("index/{id:016x}.dsx")
}

/// A flag in the file number of a page reference: the page is inside the manifest whose version is in the other bits.
pub const IN_MANIFEST: u64 = 1 << 63;

/// The key of the page file or manifest that a file number names.
pub fn page_file(file: u64) -> String {
    if file & IN_MANIFEST == 0 { pages(file) } else { manifest(file & !IN_MANIFEST) }
}

/// The manifest of a version.
pub fn manifest(version: u64) -> String {
    format!("manifest/{version:012}.dsm")
}

/// The flush mark of a version.
pub fn mark(version: u64) -> String {
    format!("manifest/{version:012}.mark")
}

/// Writer, part, and whether the key is an idx. `None` for other keys, and for any other spelling of these.
pub fn parse_log(key: &str) -> Option<(u64, u32, bool)> {
    let (name, kind) = key.strip_prefix("log/")?.split_once('.')?;
    let (writer, part) = name.split_once('-')?;
    let writer = u64::from_str_radix(writer, 16).ok()?;
    let part = part.parse().ok()?;
    let is_idx = kind == "idx";
    let spelled = if is_idx { idx(writer, part) } else { segment(writer, part) };
    (spelled == key).then_some((writer, part, is_idx))
}

/// The id of a page file.
pub fn parse_pages(key: &str) -> Option<u64> {
    let id = u64::from_str_radix(key.strip_prefix("index/")?.strip_suffix(".dsx")?, 16).ok()?;
    (pages(id) == key).then_some(id)
}

/// The version of a manifest.
pub fn parse_manifest(key: &str) -> Option<u64> {
    let version = key.strip_prefix("manifest/")?.strip_suffix(".dsm")?.parse().ok()?;
    (version <= crate::manifest::MAX_VERSION && manifest(version) == key).then_some(version)
}

/// The version of a flush mark.
pub fn parse_mark(key: &str) -> Option<u64> {
    let version = key.strip_prefix("manifest/")?.strip_suffix(".mark")?.parse().ok()?;
    (version <= crate::manifest::MAX_VERSION && mark(version) == key).then_some(version)
}

/// A pack of manifests.
pub fn pack(id: u64) -> String {
    format!("manifest/{id:016x}.pack")
}

/// The id of a pack.
pub fn parse_pack(key: &str) -> Option<u64> {
    let id = u64::from_str_radix(key.strip_prefix("manifest/")?.strip_suffix(".pack")?, 16).ok()?;
    (pack(id) == key).then_some(id)
}

/// A pack of log parts.
pub fn log_pack(id: u64) -> String {
    format!("log/{id:016x}.pack")
}

/// The id of a pack of log parts.
pub fn parse_log_pack(key: &str) -> Option<u64> {
    let id = u64::from_str_radix(key.strip_prefix("log/")?.strip_suffix(".pack")?, 16).ok()?;
    (log_pack(id) == key).then_some(id)
}

/// The prefix of registrations of parts in tiers.
pub const STAGED: &str = "tiers/";

/// The most characters of a node's name in a component of a key.
const MAX_NODE: usize = 128;

/// The component of keys that stands for a node: its name if that is a valid component; else those of its characters
/// that a key may have, and a CRC.
pub fn node(name: &str) -> String {
    let may = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let plain = (1..=MAX_NODE).contains(&name.len()) && name.chars().all(may) && !name.starts_with('.');
    if plain && !name.contains("--") {
        return name.to_owned();
    }
    let kept: String = name.chars().filter(|c| may(*c)).take(MAX_NODE - 12).collect();
    format!("x{kept}--{:08x}", crate::crc32c(name.as_bytes()))
}

/// A registration of a writer's parts in the tiers of a node. The one with the greatest number holds.
pub fn staged(node_name: &str, writer: u64, number: u32) -> String {
    let of = staged_of(node_name, writer);
    if number == 0 { format!("{of}.json") } else { format!("{of}-{number:010}.json") }
}

/// The prefix of the registrations of a writer in the tiers of a node.
pub fn staged_of(node_name: &str, writer: u64) -> String {
    format!("{STAGED}{}/{writer:016x}", node(node_name))
}

/// The node's component, the writer and the number of a registration.
pub fn parse_staged(key: &str) -> Option<(&str, u64, u32)> {
    let (node, name) = key.strip_prefix(STAGED)?.split_once('/')?;
    let name = name.strip_suffix(".json").filter(|_| !node.is_empty())?;
    let (writer, number) = match name.split_once('-') {
        Some((writer, digits)) => (writer, digits.parse().ok().filter(|number| *number > 0)?),
        None => (name, 0),
    };
    let writer = u64::from_str_radix(writer, 16).ok()?;
    let expected = if number == 0 { format!("{writer:016x}") } else { format!("{writer:016x}-{number:010}") };
    (expected == name).then_some((node, writer, number))
}

/// The prefix of parity groups in the home store, and of parity objects in a container's folder of a tier.
pub const PARITY: &str = "parity/";

/// The groups of a step.
pub fn groups_of(step: u64) -> String {
    format!("{PARITY}{step:012}-")
}

/// The group with this name.
pub fn group(name: &str) -> String {
    format!("{PARITY}{name}.json")
}

/// The name of the file, below [`PARITY`], of a member's parity object of a group.
pub fn parity_object(name: &str, member: usize) -> String {
    format!("{name}-{member:03}.red")
}

/// Name and step of a group.
pub fn parse_group(key: &str) -> Option<(&str, u64)> {
    let name = key.strip_prefix(PARITY)?.strip_suffix(".json")?;
    parse_group_name(name).map(|step| (name, step))
}

/// Name of the group, and number of the member, of a parity object.
pub fn parse_parity_object(file: &str) -> Option<(&str, usize)> {
    let (name, member) = file.strip_suffix(".red")?.rsplit_once('-')?;
    parse_group_name(name)?;
    let member = member.parse().ok()?;
    (parity_object(name, member) == file).then_some((name, member))
}

fn parse_group_name(name: &str) -> Option<u64> {
    let mut words = name.splitn(3, '-');
    let step: u64 = words.next()?.parse().ok()?;
    let hex =
        |word: Option<&str>| word.filter(|w| w.len() == 8).and_then(|w| u32::from_str_radix(w, 16).ok());
    let (crc, length) = (hex(words.next())?, hex(words.next())?);
    (format!("{step:012}-{crc:08x}-{length:08x}") == name).then_some(step)
}

/// The prefix of byte files.
pub const FILES: &str = "files/";

/// A journal of files.
pub fn journal(generation: u64) -> String {
    format!("files/{generation:012}.jnl")
}

/// A claim: once this object exists, nothing is added to the previous generation.
pub fn journal_claim(generation: u64) -> String {
    format!("files/{generation:012}.claim")
}

/// A data log of byte files: number of its mount in the upper half, its own number in the lower.
pub fn data_log(log: u64) -> String {
    format!("files/{:08x}-{:08x}.dat", log >> 32, log & 0xffff_ffff)
}

/// A mount that may write files.
pub fn mount(mount: u32) -> String {
    format!("files/{mount:08x}.mount")
}

/// The objects below the folder of byte files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum FilesKey {
    Journal(u64),
    Claim(u64),
    Data(u64),
    Mount(u32),
}

/// The kind of an object below [`FILES`].
pub fn parse_files(key: &str) -> Option<FilesKey> {
    let (stem, kind) = key.strip_prefix(FILES)?.rsplit_once('.')?;
    let hex = |text: &str| (text.len() == 8).then(|| u32::from_str_radix(text, 16).ok()).flatten();
    let found = match kind {
        "jnl" => FilesKey::Journal(stem.parse().ok()?),
        "claim" => FilesKey::Claim(stem.parse().ok()?),
        "mount" => FilesKey::Mount(hex(stem)?),
        "dat" => {
            let (mount, number) = stem.split_once('-')?;
            FilesKey::Data(u64::from(hex(mount)?) << 32 | u64::from(hex(number)?))
        }
        _ => return None,
    };
    let canonical = match found {
        FilesKey::Journal(generation) => journal(generation),
        FilesKey::Claim(generation) => journal_claim(generation),
        FilesKey::Mount(mount_id) => mount(mount_id),
        FilesKey::Data(log) => data_log(log),
    };
    (canonical == key).then_some(found)
}
