//! The identity of a container, `drystone.json` (docs/format/identity.md).
//!
//! The decoder accepts one flat JSON object of strings, integers and arrays of strings: the format allows
//! nothing else.

use crate::Corrupt;
pub use crate::hint::{decode_hint, decode_mark, encode_hint, encode_mark};

/// What a commit guarantees in case of a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Durability {
    /// Committed data is on stable storage.
    Durable,
    /// Committed data survives processes. A power cut may lose commits after the last mark.
    Async,
    /// Never synced.
    Memory,
}

impl Durability {
    /// The durability's name in the identity.
    pub const fn name(self) -> &'static str {
        match self {
            Durability::Durable => "durable",
            Durability::Async => "async",
            Durability::Memory => "memory",
        }
    }

    /// The durability with this name.
    pub fn parse(name: &str) -> Option<Self> {
        [Durability::Durable, Durability::Async, Durability::Memory].into_iter().find(|d| d.name() == name)
    }
}

/// The identity of a container. The caller checks whether it supports `version` and `features`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Identity {
    pub version: u32,
    pub uuid: [u8; 16],
    pub durability: Durability,
    /// Features that a reader must support to read this container at all.
    pub features: Vec<String>,
    /// The redundancy of data in tiers against the loss of nodes ("partner", "xor:8"); empty if there is none. Only
    /// writers need it.
    pub redundancy: String,
    /// UTC time of creation, for information.
    pub created: String,
}

/// The format version this crate writes and reads.
pub const VERSION: u32 = 1;

const CRC: &str = "\"crc32c\"";

impl Identity {
    /// The bytes of the file.
    pub fn encode(&self) -> Vec<u8> {
        let uuid: String = self.uuid.iter().map(|b| format!("{b:02x}")).collect();
        let features: Vec<String> = self.features.iter().map(|f| quote(f)).collect();
        let redundancy = match self.redundancy.as_str() {
            "" => String::new(),
            said => format!("\"redundancy\": {},\n  ", quote(said)),
        };
        let head = format!(
            "{{\n  \"format\": \"drystone\",\n  \"version\": {},\n  \"uuid\": \"{uuid}\",\n  \"durability\": \"{}\",\n  \
             \"features\": [{}],\n  {redundancy}\"created\": {},\n  ",
            self.version,
            self.durability.name(),
            features.join(", "),
            quote(&self.created),
        );
        let crc = crate::crc32c(head.as_bytes());
        format!("{head}{CRC}: \"{crc:08x}\"\n}}\n").into_bytes()
    }

    /// Reads and verifies the file.
    pub fn decode(bytes: &[u8]) -> Result<Self, Corrupt> {
        let mut json = Json { bytes, at: 0 };
        let members = json.object()?;
        let corrupt = |what: &str| Corrupt::new(format!("identity: {what}"), 0);
        let text = |name: &str| match members.iter().find(|m| m.name == name) {
            Some(Member { value: Flat::Text(text), .. }) => Ok(text.as_str()),
            _ => Err(corrupt(&format!("the member {name:?} is missing, or not a text"))),
        };
        let last = members.last().filter(|m| m.name == "crc32c");
        let last = last.ok_or_else(|| corrupt("crc32c is not the last member"))?;
        let covered = bytes.get(..last.at).unwrap_or_default();
        if text("crc32c")? != format!("{:08x}", crate::crc32c(covered)) {
            return Err(corrupt("it fails its CRC"));
        }
        if text("format")? != "drystone" {
            return Err(corrupt("the format is not \"drystone\""));
        }
        let version = members.iter().find(|m| m.name == "version").and_then(|m| match m.value {
            Flat::Integer(version) => u32::try_from(version).ok(),
            _ => None,
        });
        let features = members.iter().find(|m| m.name == "features").and_then(|m| match &m.value {
            Flat::List(features) => Some(features.clone()),
            _ => None,
        });
        let durability = Durability::parse(text("durability")?);
        let redundancy = match members.iter().any(|m| m.name == "redundancy") {
            true => text("redundancy")?,
            false => "",
        };
        Ok(Identity {
            version: version.ok_or_else(|| corrupt("no version"))?,
            uuid: parse_uuid(text("uuid")?).ok_or_else(|| corrupt("no uuid"))?,
            durability: durability.ok_or_else(|| corrupt("unknown durability"))?,
            features: features.ok_or_else(|| corrupt("no features"))?,
            redundancy: redundancy.to_owned(),
            created: text("created")?.to_owned(),
        })
    }
}

fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let lower = |b: u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
    (text.len() == 32 && text.bytes().all(lower)).then_some(())?;
    u128::from_str_radix(text, 16).ok().map(u128::to_be_bytes)
}

fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if u32::from(c) < 0x20 => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

enum Flat {
    Text(String),
    Integer(u64),
    List(Vec<String>),
}

struct Member {
    /// Offset of the quotation mark before the name.
    at: usize,
    name: String,
    value: Flat,
}

/// A reader of flat JSON.
struct Json<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Json<'_> {
    fn corrupt(&self, what: &str) -> Corrupt {
        Corrupt::new(format!("identity: {what} expected"), self.at)
    }

    /// The next byte that is not white space.
    fn peek(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.bytes.get(self.at) {
            self.at += 1;
        }
        self.bytes.get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, byte: u8) -> Result<(), Corrupt> {
        match self.take(byte) {
            true => Ok(()),
            false => Err(self.corrupt(&format!("{:?}", char::from(byte)))),
        }
    }

    fn object(&mut self) -> Result<Vec<Member>, Corrupt> {
        let mut members: Vec<Member> = Vec::new();
        self.expect(b'{')?;
        loop {
            self.peek();
            let at = self.at;
            let name = self.text()?;
            if members.iter().any(|m| m.name == name) || members.len() == 64 {
                return Err(self.corrupt("another name"));
            }
            self.expect(b':')?;
            members.push(Member { at, name, value: self.value()? });
            if !self.take(b',') {
                break;
            }
        }
        self.expect(b'}')?;
        match self.peek() {
            None => Ok(members),
            Some(_) => Err(self.corrupt("the end")),
        }
    }

    fn value(&mut self) -> Result<Flat, Corrupt> {
        match self.peek() {
            Some(b'"') => Ok(Flat::Text(self.text()?)),
            Some(b'[') => self.list().map(Flat::List),
            Some(b'0'..=b'9') => self.integer().map(Flat::Integer),
            _ => Err(self.corrupt("a string, an integer or a list")),
        }
    }

    fn list(&mut self) -> Result<Vec<String>, Corrupt> {
        let mut items = Vec::new();
        self.expect(b'[')?;
        if self.take(b']') {
            return Ok(items);
        }
        loop {
            items.push(self.text()?);
            if !self.take(b',') {
                break;
            }
        }
        self.expect(b']').map(|()| items)
    }

    fn integer(&mut self) -> Result<u64, Corrupt> {
        let mut value = 0u64;
        while let Some(digit @ b'0'..=b'9') = self.bytes.get(self.at) {
            let next = value.checked_mul(10).and_then(|v| v.checked_add(u64::from(digit - b'0')));
            value = next.ok_or_else(|| self.corrupt("a smaller integer"))?;
            self.at += 1;
        }
        Ok(value)
    }

    fn text(&mut self) -> Result<String, Corrupt> {
        self.expect(b'"')?;
        let mut out = Vec::new();
        loop {
            let byte = *self.bytes.get(self.at).ok_or_else(|| self.corrupt("the end of a string"))?;
            self.at += 1;
            match byte {
                b'"' => break,
                b'\\' => out.extend_from_slice(self.escape()?.encode_utf8(&mut [0; 4]).as_bytes()),
                0..0x20 => return Err(self.corrupt("an escaped control character")),
                byte => out.push(byte),
            }
        }
        String::from_utf8(out).map_err(|_| self.corrupt("UTF-8"))
    }

    /// The character after a backslash; `\u` outside the surrogates.
    fn escape(&mut self) -> Result<char, Corrupt> {
        let byte = self.bytes.get(self.at).copied();
        self.at += 1;
        match byte {
            Some(c @ (b'"' | b'\\' | b'/')) => Ok(c.into()),
            Some(b'n') => Ok('\n'),
            Some(b't') => Ok('\t'),
            Some(b'r') => Ok('\r'),
            Some(b'b') => Ok('\u{8}'),
            Some(b'f') => Ok('\u{c}'),
            Some(b'u') => {
                let hex = self.at.checked_add(4).and_then(|end| self.bytes.get(self.at..end));
                let hex = hex.filter(|hex| hex.iter().all(u8::is_ascii_hexdigit));
                let code = hex.and_then(|hex| std::str::from_utf8(hex).ok());
                let code = code.and_then(|hex| u32::from_str_radix(hex, 16).ok()).and_then(char::from_u32);
                self.at += 4;
                code.ok_or_else(|| self.corrupt("a character"))
            }
            _ => Err(self.corrupt("an escape")),
        }
    }
}
