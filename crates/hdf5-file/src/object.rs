//! Object headers of version 2: consecutive messages, and a checksum.

use crate::checksum::lookup3;

/// The type of messages that hold an attribute; they are counted.
pub(super) const ATTRIBUTE: u8 = 0x0c;

/// One message.
pub(super) struct Message {
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) body: Vec<u8>,
}

/// Flag: attributes keep the order of their creation.
const ORDERED: u8 = 0x04;
/// Flag: the length of the messages has 4 bytes.
const LONG: u8 = 0x02;

/// A header with all its messages in one piece.
pub(super) fn header(messages: &[Message]) -> Vec<u8> {
    let len: usize = messages.iter().map(|m| 6 + m.body.len()).sum();
    let mut out = Vec::with_capacity(len + 14);
    out.extend_from_slice(b"OHDR");
    out.extend_from_slice(&[2, ORDERED | LONG]);
    out.extend_from_slice(&(len as u32).to_le_bytes());
    let mut attributes = 0u16;
    for message in messages {
        out.push(message.kind);
        out.extend_from_slice(&(message.body.len() as u16).to_le_bytes());
        out.push(message.flags);
        let is_attribute = message.kind == ATTRIBUTE;
        out.extend_from_slice(&(if is_attribute { attributes } else { 0 }).to_le_bytes());
        attributes += u16::from(is_attribute);
        out.extend_from_slice(&message.body);
    }
    let check = lookup3(&out);
    out.extend_from_slice(&check.to_le_bytes());
    out
}
