//! Whole bodies in memory.

use crate::frame::{BODY_HEAD_LEN, FRAME_HEAD_LEN, FrameHead, body_head, check_body_head};
use crate::{Answer, Header, Malformed, Status, checksum};

/// A builder of bodies.
#[derive(Debug)]
pub struct Builder {
    bytes: Vec<u8>,
    frames: u64,
}

impl Builder {
    /// A body without frames.
    pub fn new() -> Self {
        Builder { bytes: body_head().to_vec(), frames: 0 }
    }

    /// Adds a frame with this payload.
    pub fn frame(&mut self, header: &Header, payload: &[&[u8]]) {
        let len = payload.iter().map(|part| part.len() as u64).sum();
        self.bytes.extend_from_slice(&FrameHead::encode(header, len));
        payload.iter().for_each(|part| self.bytes.extend_from_slice(part));
        self.bytes.extend_from_slice(&checksum(payload).to_le_bytes());
        self.frames += 1;
    }

    /// Completes the body.
    pub fn end(self, status: Status, text: &str) -> Vec<u8> {
        let frames = self.frames;
        let mut this = self;
        this.frame(&Answer::End { frames, status, text: text.to_owned() }.header(), &[]);
        this.bytes
    }

    /// Bytes so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Always false: a body has a head.
    pub fn is_empty(&self) -> bool {
        false
    }
}

impl Default for Builder {
    fn default() -> Self {
        Self::new()
    }
}

/// The frames of a whole body, checked, without the end frame.
#[derive(Debug)]
pub struct Frames<'a> {
    frames: Vec<(Header, &'a [u8])>,
    status: Status,
    text: String,
}

impl<'a> Frames<'a> {
    /// Reads a body to its last byte.
    pub fn decode(bytes: &'a [u8]) -> Result<Frames<'a>, Malformed> {
        let early = |at: usize| Malformed::new("the body ends too early", at);
        let head = bytes.first_chunk::<BODY_HEAD_LEN>().ok_or_else(|| early(bytes.len()))?;
        check_body_head(head)?;
        let mut at = BODY_HEAD_LEN;
        let mut frames = Vec::new();
        let take = |at: &mut usize, len: usize| {
            let part = at.checked_add(len).and_then(|end| bytes.get(*at..end)).ok_or_else(|| early(*at));
            *at = at.saturating_add(len);
            part
        };
        loop {
            let begin = at;
            let shift = |bad: Malformed| Malformed { at: bad.at + begin as u64, ..bad };
            let head = take(&mut at, FRAME_HEAD_LEN)?.first_chunk().ok_or_else(|| early(begin))?;
            let head = FrameHead::decode(head).map_err(shift)?;
            let header = head.header(take(&mut at, head.header_len)?).map_err(shift)?;
            let len = usize::try_from(head.payload_len).map_err(|_| early(begin))?;
            let payload = take(&mut at, len)?;
            let crc = take(&mut at, 4)?;
            if checksum(&[payload]).to_le_bytes() != crc {
                return Err(Malformed::new("the checksum of a payload does not match", begin));
            }
            if !Answer::is_end(&header) {
                frames.push((header, payload));
                continue;
            }
            let Answer::End { frames: count, status, text } = Answer::of_header(header).map_err(shift)?
            else {
                return Err(Malformed::new("no end", begin));
            };
            if count != frames.len() as u64 || !payload.is_empty() {
                return Err(Malformed::new("the end counts other frames than there are", begin));
            }
            if at != bytes.len() {
                return Err(Malformed::new("bytes behind the end", at));
            }
            return Ok(Frames { frames, status, text });
        }
    }

    /// The end of the body.
    pub fn status(&self) -> (Status, &str) {
        (self.status, &self.text)
    }

    /// The frames: header and payload.
    pub fn into_frames(self) -> Vec<(Header, &'a [u8])> {
        self.frames
    }
}
