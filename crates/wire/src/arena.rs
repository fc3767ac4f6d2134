//! A connection with an arena: its greeting, and the head of each message. docs/format/wire.md, "Arena".

use crate::Malformed;
use crate::frame::VERSION;

/// The protocol name with which a client upgrades its connection.
pub const UPGRADE: &str = "drystone-arena";
/// Size of a greeting in bytes.
pub const GREETING_LEN: usize = 16;
/// Size of a message head in bytes.
pub const MESSAGE_HEAD_LEN: usize = 8;

const MAGIC: [u8; 4] = *b"DRYA";
/// The longest name of a container, in bytes.
const MAX_NAME_LEN: u32 = 1024;
/// The longest body of a message, in bytes: requests about regions have headers and no payload.
const MAX_BODY_LEN: u32 = 4 << 20;

/// The greeting: a server's first bytes on a connection with an arena. The arena's descriptor comes with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// Size of the arena in bytes.
    pub len: u64,
}

impl Greeting {
    /// Encodes it.
    pub fn encode(self) -> [u8; GREETING_LEN] {
        let mut out = [0; GREETING_LEN];
        let version = VERSION.to_le_bytes();
        let all = MAGIC.iter().chain(&version).chain(&[0; 2]).copied().chain(self.len.to_le_bytes());
        out.iter_mut().zip(all).for_each(|(to, from)| *to = from);
        out
    }

    /// Decodes it.
    pub fn decode(bytes: &[u8; GREETING_LEN]) -> Result<Greeting, Malformed> {
        let [m, n, o, p, a, b, reserved @ .., l0, l1, l2, l3, l4, l5, l6, l7] = *bytes;
        if [m, n, o, p] != MAGIC {
            return Err(Malformed::new("it does not begin with DRYA", 0));
        }
        if u16::from_le_bytes([a, b]) != VERSION {
            return Err(Malformed::new("a version that this program does not know", 4));
        }
        if reserved != [0, 0] {
            return Err(Malformed::new("reserved bytes are not zero", 6));
        }
        let len = u64::from_le_bytes([l0, l1, l2, l3, l4, l5, l6, l7]);
        if len == 0 || len > 1 << 46 {
            return Err(Malformed::new("an arena of an impossible length", 8));
        }
        Ok(Greeting { len })
    }
}

/// The head of a message: the lengths of its container's name and of its body. Answers name no container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageHead {
    /// Bytes of the container's name.
    pub name_len: u32,
    /// Bytes of the body.
    pub body_len: u32,
}

impl MessageHead {
    /// Encodes it.
    pub fn encode(self) -> [u8; MESSAGE_HEAD_LEN] {
        let ([a, b, c, d], [e, f, g, h]) = (self.name_len.to_le_bytes(), self.body_len.to_le_bytes());
        [a, b, c, d, e, f, g, h]
    }

    /// Decodes it. Lengths beyond the limits are refused before any allocation.
    pub fn decode(bytes: &[u8; MESSAGE_HEAD_LEN]) -> Result<MessageHead, Malformed> {
        let [a, b, c, d, e, f, g, h] = *bytes;
        let head = MessageHead {
            name_len: u32::from_le_bytes([a, b, c, d]),
            body_len: u32::from_le_bytes([e, f, g, h]),
        };
        if head.name_len > MAX_NAME_LEN {
            return Err(Malformed::new("a name of more than 1 KiB", 0));
        }
        if head.body_len > MAX_BODY_LEN {
            return Err(Malformed::new("a message of more than 4 MiB", 4));
        }
        Ok(head)
    }
}
