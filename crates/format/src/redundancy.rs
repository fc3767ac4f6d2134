//! Parity over the staged parts of several nodes: which parts a group protects, and the objects that hold the parity.
//!
//! docs/format/redundancy.md specifies them. A group is put at home after all its parity objects lie in tiers. So the
//! parts of an existing group survive the loss of as many members as it has parity chunks.

use serde_json::{Map, Value};

use crate::Corrupt;
use crate::staged::{MAX_PARTS, MAX_TEXT, StagedPart, staged_part};
use crate::text_object::{self, hex, list, number, text};

/// Greatest length of a group, in bytes.
pub const MAX_GROUP: u64 = 8 << 20;
/// The most members of a group.
pub const MAX_MEMBERS: usize = 64;
/// The most parity chunks of a stripe.
pub const MAX_PARITY: usize = 8;
/// Bytes of a row: chunks are coded and stored in rows.
pub const ROW: u64 = 64 << 10;
/// Bytes of a parity object before its group.
pub const HEAD: usize = 28;
/// Bytes of a parity object after its payload.
pub const TAIL: usize = 4;

const FORMAT: &str = "drystone-parity";
const VERSION: u64 = 1;
const MAGIC: &[u8; 8] = b"DRYPRTY1";
/// Chunks of a code with several parity chunks are multiples of this.
const BLOCK: u64 = 64;

/// Writers of different nodes that keep parity of each other's parts of one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// The container.
    pub uuid: [u8; 16],
    /// The step.
    pub step: u64,
    /// Whether each member's bytes are kept whole by the next member: the scheme `partner`.
    pub copies: bool,
    /// Number of parity chunks of each stripe.
    pub parity: usize,
    /// Members in the order of the code, 2 to 64.
    pub members: Vec<Member>,
}

/// A member of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The writer; for a member without parts, some writer of its node.
    pub writer: u64,
    /// Its node.
    pub node: String,
    /// The container's folder in a tier of that node in which the parity object lies.
    pub folder: String,
    /// Its parts, ascending by number. The group protects their bytes, one part after the other.
    pub parts: Vec<StagedPart>,
}

impl Member {
    /// Bytes of all its parts.
    pub fn length(&self) -> u64 {
        self.parts.iter().fold(0, |sum, part| sum.saturating_add(part.length))
    }
}

impl Group {
    /// Chunks into which a member's bytes are cut.
    pub fn chunks(&self) -> usize {
        if self.copies { 1 } else { self.members.len().saturating_sub(self.parity).max(1) }
    }

    /// The length of the chunks of a stripe, which are padded with zeros. With copies, stripe I has the bytes of member
    /// I.
    pub fn chunk(&self, stripe: usize) -> u64 {
        if self.copies {
            return self.members.get(stripe).map_or(0, Member::length);
        }
        let longest = self.members.iter().map(Member::length).max().unwrap_or(0);
        let chunk = longest.div_ceil(self.chunks() as u64);
        if self.parity > 1 { chunk.checked_next_multiple_of(BLOCK).unwrap_or(u64::MAX) } else { chunk }
    }

    /// The length of the payload of a member's parity object.
    pub fn payload(&self, member: usize) -> u64 {
        let stripe = if self.copies {
            (member + self.members.len()).saturating_sub(1) % self.members.len().max(1)
        } else {
            0
        };
        self.chunk(stripe).saturating_mul(self.parity as u64)
    }

    /// The bytes of the object.
    pub fn encode(&self) -> Vec<u8> {
        let uuid: String = self.uuid.iter().map(|b| format!("{b:02x}")).collect();
        let quoted = |text: &str| Value::from(text).to_string();
        let member = |member: &Member| {
            let parts: Vec<String> = member.parts.iter().map(StagedPart::text).collect();
            let (writer, node, folder) = (member.writer, quoted(&member.node), quoted(&member.folder));
            let parts = parts.join(", ");
            format!(
                "    {{\"writer\": \"{writer:016x}\", \"node\": {node}, \"folder\": {folder}, \"parts\": [{parts}]}}"
            )
        };
        let members: Vec<String> = self.members.iter().map(member).collect();
        text_object::seal(format!(
            "{{\n  \"format\": \"{FORMAT}\",\n  \"version\": {VERSION},\n  \"uuid\": \"{uuid}\",\n  \"step\": {},\n  \
             \"code\": \"{}\",\n  \
             \"parity\": {},\n  \"members\": [\n{}\n  ],\n  ",
            self.step,
            self.code(),
            self.parity,
            members.join(",\n"),
        ))
    }

    fn code(&self) -> &'static str {
        match (self.copies, self.parity) {
            (true, _) => "copy",
            (false, 1) => "xor",
            _ => "rs",
        }
    }

    /// Reads and verifies the object.
    pub fn decode(bytes: &[u8]) -> Result<Self, Corrupt> {
        Self::read(bytes).map_err(|what| Corrupt::new(format!("parity group: {what}"), 0))
    }

    fn read(bytes: &[u8]) -> Result<Self, String> {
        let json = text_object::open(bytes, MAX_GROUP, (FORMAT, VERSION))?;
        let uuid = text(&json, "uuid", MAX_TEXT)?;
        let uuid = hex(uuid, 32).and_then(|_| u128::from_str_radix(uuid, 16).ok()).ok_or("no uuid")?;
        let members: Option<Vec<Member>> = list(&json, "members", MAX_MEMBERS)?.iter().map(member).collect();
        let parity = usize::try_from(number(&json, "parity")?).map_err(|e| e.to_string())?;
        let group = Group {
            uuid: uuid.to_be_bytes(),
            step: number(&json, "step")?,
            copies: json.get("code").and_then(Value::as_str) == Some("copy"),
            parity,
            members: members.ok_or("an entry of the members is not a member")?,
        };
        if text(&json, "code", MAX_TEXT)? != group.code() {
            return Err("a code that this reader does not know".into());
        }
        let fits = (1..=MAX_PARITY).contains(&parity) && parity < group.members.len();
        if !fits || (group.copies && parity != 1) {
            return Err("the number of parity chunks does not fit its members".into());
        }
        let total = group.members.iter().try_fold(0u64, |sum, member| {
            member.parts.iter().try_fold(sum, |sum, part| sum.checked_add(part.length))
        });
        if total.is_none_or(|total| total == 0 || total > u64::MAX / 16) {
            return Err("its parts have no length, or more than there can be".into());
        }
        Ok(group)
    }
}

fn member(value: &Value) -> Option<Member> {
    let json: &Map<String, Value> = value.as_object()?;
    let node = text(json, "node", MAX_TEXT).ok().filter(|node| !node.is_empty())?;
    let parts: Option<Vec<StagedPart>> =
        list(json, "parts", MAX_PARTS).ok()?.iter().map(staged_part).collect();
    Some(Member {
        writer: hex(text(json, "writer", MAX_TEXT).ok()?, 16)?,
        node: node.to_owned(),
        folder: text(json, "folder", MAX_TEXT).ok()?.to_owned(),
        parts: parts.filter(|parts| parts.is_sorted_by(|a, b| a.part < b.part))?,
    })
}

/// The name of a group in its key at home and in those of its parity objects. `bytes` is the encoded group.
pub fn name(step: u64, bytes: &[u8]) -> String {
    // The CRC of the whole object, its own CRC included, would be the same for all objects.
    format!("{step:012}-{:08x}-{:08x}", text_object::crc_of(bytes).unwrap_or_default(), bytes.len())
}

/// The bytes before the payload of a member's parity object. `group` is the encoded group.
pub fn object_head(group: &[u8], member: u32, payload: u64) -> Vec<u8> {
    let mut head = Vec::with_capacity(HEAD + group.len());
    head.extend_from_slice(MAGIC);
    head.extend_from_slice(&u32::try_from(group.len()).unwrap_or(u32::MAX).to_le_bytes());
    head.extend_from_slice(&member.to_le_bytes());
    head.extend_from_slice(&payload.to_le_bytes());
    let crc = crate::crc32c(&head);
    head.extend_from_slice(&crc.to_le_bytes());
    head.extend_from_slice(group);
    head
}

/// The head of a parity object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectHead {
    /// Bytes of the encoded group, which follows the head.
    pub group: u64,
    /// Number of the member whose node keeps the object.
    pub member: u32,
    /// Bytes of the payload, which follows the group.
    pub payload: u64,
}

impl ObjectHead {
    /// Reads the first [`HEAD`] bytes of an object.
    pub fn decode(bytes: &[u8]) -> Result<Self, Corrupt> {
        let corrupt = |what: &str, at: usize| Corrupt::new(format!("parity object: {what}"), at);
        let bytes: &[u8; HEAD] = bytes.first_chunk().ok_or_else(|| corrupt("it is too short", 0))?;
        let word =
            |at: usize| bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes);
        if !bytes.starts_with(MAGIC) {
            return Err(corrupt("the first bytes are not \"DRYPRTY1\"", 0));
        }
        if word(24) != crate::crc32c(&bytes[..24]) {
            return Err(corrupt("its head fails its CRC", 24));
        }
        let head = ObjectHead {
            group: u64::from(word(8)),
            member: word(12),
            payload: u64::from(word(16)) | u64::from(word(20)) << 32,
        };
        match head.group <= MAX_GROUP && (head.member as usize) < MAX_MEMBERS && head.payload <= u64::MAX / 2
        {
            true => Ok(head),
            false => Err(corrupt("a length or a member that cannot be", 8)),
        }
    }

    /// The range of the payload in the object; [`TAIL`] bytes with its CRC follow.
    pub fn payload_range(&self) -> std::ops::Range<u64> {
        let begin = HEAD as u64 + self.group;
        begin..begin + self.payload
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Group {
        let part = |part, length| StagedPart { part, length, crc: 0x0102_0304, step: Some(3) };
        let member =
            |writer, parts| Member { writer, node: format!("n{writer}"), folder: "/x".into(), parts };
        let members =
            vec![member(1, vec![part(0, 100), part(2, 5)]), member(2, vec![]), member(3, vec![part(1, 64)])];
        Group { uuid: [7; 16], step: 3, copies: false, parity: 1, members }
    }

    #[test]
    fn a_group_is_read_back_and_any_other_byte_is_refused() {
        for group in [sample(), Group { copies: true, ..sample() }, Group { parity: 2, ..sample() }] {
            let bytes = group.encode();
            assert_eq!(Group::decode(&bytes), Ok(group));
            for at in 0..bytes.len() {
                let mut other = bytes.clone();
                other[at] ^= 1;
                assert!(Group::decode(&other).is_err(), "byte {at}");
                assert!(Group::decode(&bytes[..at]).is_err(), "cut at {at}");
            }
        }
    }

    #[test]
    fn groups_with_invalid_content_are_refused() {
        let refused = |change: fn(&mut Group)| {
            let mut group = sample();
            change(&mut group);
            assert!(Group::decode(&group.encode()).is_err());
        };
        refused(|g| g.parity = 0);
        refused(|g| g.parity = 3);
        refused(|g| g.members[0].parts.swap(0, 1));
        refused(|g| g.members[0].parts[0].length = u64::MAX);
        refused(|g| g.members[0].node.clear());
        refused(|g| g.members.iter_mut().for_each(|m| m.parts.clear()));
    }

    #[test]
    fn space_is_that_of_the_scheme() {
        let xor = sample();
        assert_eq!((xor.chunk(0), xor.payload(0)), (53, 53), "the longest member in two chunks");
        let copies = Group { copies: true, ..sample() };
        assert_eq!(
            [0, 1, 2].map(|member| copies.payload(member)),
            [64, 105, 0],
            "the member before it, whole"
        );
        let several = Group { parity: 2, ..sample() };
        assert_eq!((several.chunk(0), several.payload(0)), (128, 256));
    }

    #[test]
    fn a_head_is_read_back_and_any_flipped_bit_is_refused() {
        let head = object_head(b"group", 2, 1 << 40);
        let read = ObjectHead { group: 5, member: 2, payload: 1 << 40 };
        assert_eq!(ObjectHead::decode(&head), Ok(read));
        assert_eq!(read.payload_range(), 33..33 + (1 << 40));
        for at in 0..HEAD {
            let mut other = head.clone();
            other[at] ^= 1;
            assert!(ObjectHead::decode(&other).is_err(), "byte {at}");
        }
    }
}
