//! The answers in the body of a reply.

use std::ops::Range;

use drystone_wire::{Answer, Frames, Status};

use crate::failure::Failure;
use crate::waiting::Answered;

/// The answers of a reply, one for each request. If one reports that the server was busy, this fails, so that all are
/// tried again.
pub(crate) fn answers(mut reply: Vec<u8>, asks: usize) -> Result<Vec<Answered>, Failure> {
    let found = found(&reply, asks)?;
    let mut answers = Vec::with_capacity(asks);
    let is_alone = found.len() == 1;
    for answer in found {
        answers.push(answer.map(|(numbers, place)| {
            if is_alone {
                // The payload stays in place, without the frame around it.
                reply.truncate(place.end);
                reply.drain(..place.start);
                (numbers, std::mem::take(&mut reply))
            } else {
                (numbers, reply.get(place).unwrap_or_default().to_vec())
            }
        }));
    }
    Ok(answers)
}

/// The numbers of an answer, and the range of its payload in the reply.
type Found = Result<(Vec<u64>, Range<usize>), Failure>;

fn found(reply: &[u8], asks: usize) -> Result<Vec<Found>, Failure> {
    let malformed = |bad: drystone_wire::Malformed| Failure::lost(format!("the reply is {bad}"));
    let frames = Frames::decode(reply).map_err(malformed)?;
    if let (end, text) = frames.status()
        && end != Status::Ok
    {
        return Err(Failure::of(end, text));
    }
    let mut found = Vec::with_capacity(asks);
    for (number, (header, payload)) in frames.into_frames().into_iter().enumerate() {
        // The payload is a part of the reply.
        let at = (payload.as_ptr() as usize).saturating_sub(reply.as_ptr() as usize);
        match Answer::of_header(header).map_err(malformed)? {
            Answer::To { ask, status, text, numbers } if ask == number as u64 => match status {
                Status::Ok => found.push(Ok((numbers, at..at + payload.len()))),
                Status::Busy => return Err(Failure::of(status, text)),
                _ => {
                    found.push(Err(Failure { found: numbers.first().copied(), ..Failure::of(status, text) }))
                }
            },
            _ => return Err(Failure::lost("the reply answers something else")),
        }
    }
    if found.len() == asks { Ok(found) } else { Err(Failure::lost("the reply lacks an answer")) }
}
