//! The answers in the body of a reply.

use drystone_wire::{Answer, Frames, Status};

use crate::failure::Failure;
use crate::waiting::Answered;

/// The answers of a reply, one for each ask. One that says the server was busy is worth another attempt at all of them.
pub(crate) fn answers(reply: &[u8], asks: usize) -> Result<Vec<Answered>, Failure> {
    let malformed = |bad: drystone_wire::Malformed| Failure::lost(format!("the reply is {bad}"));
    let frames = Frames::decode(reply).map_err(malformed)?;
    if let (end, text) = frames.status()
        && end != Status::Ok
    {
        return Err(Failure::of(end, text));
    }
    let mut answers = Vec::with_capacity(asks);
    for (number, (header, payload)) in frames.into_frames().into_iter().enumerate() {
        match Answer::of_header(header).map_err(malformed)? {
            Answer::To { ask, status, text, numbers } if ask == number as u64 => match status {
                Status::Ok => answers.push(Ok((numbers, payload.to_vec()))),
                Status::Busy => return Err(Failure::of(status, text)),
                _ => answers
                    .push(Err(Failure { found: numbers.first().copied(), ..Failure::of(status, text) })),
            },
            _ => return Err(Failure::lost("the reply answers something else")),
        }
    }
    if answers.len() == asks { Ok(answers) } else { Err(Failure::lost("the reply lacks an answer")) }
}
