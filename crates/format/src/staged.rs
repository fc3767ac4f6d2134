//! Registrations: which parts of a writer's log lie in the tiers of its node and are not at home yet.
//!
//! docs/format/staged.md specifies them. A registration is put before the first step record that needs one of its
//! parts, and removed after the last of them is at home. So a part that a manifest names is at home or registered.

use serde_json::{Map, Value};

use crate::Corrupt;
use crate::text_object::{self, hex, list, text};

/// Greatest length of a registration, in bytes.
pub const MAX_REGISTRATION: u64 = 8 << 20;
/// Most parts of a registration.
pub const MAX_PARTS: usize = 1 << 16;
/// Most folders of a registration.
pub const MAX_FOLDERS: usize = 64;
/// Most bytes of a text in a registration.
pub const MAX_TEXT: usize = 4096;

/// The value of the member `format`.
const FORMAT: &str = "drystone-staged";
/// The format version this crate writes and reads.
const VERSION: u64 = 1;

/// Parts of one writer's log that lie in the tiers of its node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registration {
    /// The container.
    pub uuid: [u8; 16],
    /// The writer, as in the names of its log.
    pub writer: u64,
    /// The node in whose tiers the parts lie.
    pub node: String,
    /// Failure group: nodes of one group fail together.
    pub group: String,
    /// The boot of the node in which the registration was made; empty if unknown.
    pub boot: String,
    /// The container's folders in the tiers, nearest first.
    pub folders: Vec<String>,
    /// The parts, ascending by number.
    pub parts: Vec<StagedPart>,
}

/// A closed part that may not be at home.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StagedPart {
    /// Its number.
    pub part: u32,
    /// Its length in bytes, at least 1.
    pub length: u64,
    /// CRC-32C of its bytes.
    pub crc: u32,
    /// The step in which it was closed; `None` for values without step.
    pub step: Option<u64>,
}

impl Registration {
    /// The bytes of the file.
    pub fn encode(&self) -> Vec<u8> {
        let uuid: String = self.uuid.iter().map(|b| format!("{b:02x}")).collect();
        let text = |text: &str| Value::from(text).to_string();
        let folders: Vec<String> = self.folders.iter().map(|folder| text(folder)).collect();
        let parts: Vec<String> = self.parts.iter().map(|part| format!("    {}", part.text())).collect();
        let head = format!(
            "{{\n  \"format\": \"{FORMAT}\",\n  \"version\": {VERSION},\n  \"uuid\": \"{uuid}\",\n  \"writer\": \"{:016x}\",\n  \
             \"node\": {},\n  \"group\": {},\n  \"boot\": {},\n  \"folders\": [{}],\n  \"parts\": [\n{}\n  ],\n  ",
            self.writer,
            text(&self.node),
            text(&self.group),
            text(&self.boot),
            folders.join(", "),
            parts.join(",\n"),
        );
        text_object::seal(head)
    }

    /// Reads and verifies the file.
    pub fn decode(bytes: &[u8]) -> Result<Self, Corrupt> {
        let corrupt = |what: &str| Corrupt::new(format!("registration: {what}"), 0);
        let json =
            text_object::open(bytes, MAX_REGISTRATION, (FORMAT, VERSION)).map_err(|what| corrupt(&what))?;
        let text = |name: &str| text(&json, name, MAX_TEXT).map_err(|what| corrupt(&what));
        let list = |name: &str, most: usize| list(&json, name, most).map_err(|what| corrupt(&what));
        let uuid = hex(text("uuid")?, 32).and_then(|_| u128::from_str_radix(text("uuid").ok()?, 16).ok());
        let node = text("node")?;
        if node.is_empty() {
            return Err(corrupt("the node has no name"));
        }
        let folder = |value: &Value| value.as_str().filter(|text| text.len() <= MAX_TEXT).map(str::to_owned);
        let folders: Option<Vec<String>> = list("folders", MAX_FOLDERS)?.iter().map(folder).collect();
        let parts: Option<Vec<StagedPart>> = list("parts", MAX_PARTS)?.iter().map(staged_part).collect();
        let parts = parts.ok_or_else(|| corrupt("an entry of the parts is not a part"))?;
        if !parts.is_sorted_by(|a, b| a.part < b.part) {
            return Err(corrupt("the parts do not ascend"));
        }
        Ok(Registration {
            uuid: uuid.ok_or_else(|| corrupt("no uuid"))?.to_be_bytes(),
            writer: hex(text("writer")?, 16).ok_or_else(|| corrupt("no writer"))?,
            node: node.to_owned(),
            group: text("group")?.to_owned(),
            boot: text("boot")?.to_owned(),
            folders: folders.ok_or_else(|| corrupt("the name of a folder is not a text"))?,
            parts,
        })
    }
}

impl StagedPart {
    /// The part as a JSON object.
    pub(crate) fn text(&self) -> String {
        let StagedPart { part, length, crc, step } = self;
        let step = step.map_or("null".to_owned(), |step| step.to_string());
        format!("{{\"part\": {part}, \"length\": {length}, \"crc32c\": \"{crc:08x}\", \"step\": {step}}}")
    }
}

pub(crate) fn staged_part(value: &Value) -> Option<StagedPart> {
    let json: &Map<String, Value> = value.as_object()?;
    let step = match json.get("step")? {
        Value::Null => None,
        step => Some(step.as_u64()?),
    };
    Some(StagedPart {
        part: u32::try_from(json.get("part")?.as_u64()?).ok()?,
        length: json.get("length")?.as_u64().filter(|length| *length > 0)?,
        crc: u32::try_from(hex(json.get("crc32c")?.as_str()?, 8)?).ok()?,
        step,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Registration {
        let part = |part, step| StagedPart { part, length: 100 + u64::from(part), crc: 0x0102_0304, step };
        Registration {
            uuid: [7; 16],
            writer: 0xfeed,
            node: "knoten \"7\"\n".into(),
            group: "rack".into(),
            boot: String::new(),
            folders: vec!["/dev/shm/x/07".into(), "/ssd/ü".into()],
            parts: vec![part(0, Some(3)), part(2, None)],
        }
    }

    #[test]
    fn a_registration_is_read_back_and_any_other_byte_is_refused() {
        for registration in [sample(), Registration { parts: Vec::new(), folders: Vec::new(), ..sample() }] {
            let bytes = registration.encode();
            assert_eq!(Registration::decode(&bytes), Ok(registration));
            for at in 0..bytes.len() {
                let mut other = bytes.clone();
                other[at] ^= 1;
                assert!(Registration::decode(&other).is_err(), "byte {at}");
                assert!(Registration::decode(&bytes[..at]).is_err(), "cut at {at}");
            }
        }
    }

    #[test]
    fn registrations_with_invalid_content_are_refused() {
        let refused = |change: fn(&mut Registration)| {
            let mut registration = sample();
            change(&mut registration);
            assert!(Registration::decode(&registration.encode()).is_err());
        };
        refused(|r| r.parts.swap(0, 1));
        refused(|r| r.parts[0].length = 0);
        refused(|r| r.node.clear());
        refused(|r| r.node = "n".repeat(MAX_TEXT + 1));
        refused(|r| r.folders = vec![String::new(); MAX_FOLDERS + 1]);
    }
}
