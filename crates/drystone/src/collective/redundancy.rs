//! Parity of a step that ranks make together: each rank sends chunks of its part to the ranks that keep its parity.
//!
//! Invariants
//! - all ranks derive the same groups from the statements of all, and so make the same number of exchanges;
//! - a rank that fails continues to exchange, if necessary zeros, until the next meeting.

use drystone_format::redundancy::{Group, Member, ROW};
use drystone_format::staged::StagedPart;
use drystone_plan::tier::redundancy::{Scheme, parity_of, sets, stripes};
use drystone_store_tiers::{ParityObject, TieredStore};
use serde_json::{Value, json};

use super::meeting::{Act, Meeting, attempt};
use crate::container::Container;
use crate::{Error, Result};

/// Bytes of each chunk that are sent at once; a multiple of a row.
const BATCH: u64 = 4 * ROW;

/// A rank's statement about its node and its part of the step.
#[derive(Debug, Clone, PartialEq)]
struct Said {
    rank: usize,
    node: String,
    /// Nodes of one group fail together.
    group: String,
    folder: String,
    writer: u64,
    parts: Vec<StagedPart>,
}

impl Said {
    fn encode(&self) -> Vec<u8> {
        let part = |p: &StagedPart| json!([p.part, p.length, p.crc, p.step]);
        let parts: Vec<Value> = self.parts.iter().map(part).collect();
        json!([self.node, self.group, self.folder, self.writer, parts]).to_string().into_bytes()
    }

    fn decode(rank: usize, bytes: &[u8]) -> Option<Said> {
        let value: Value = serde_json::from_slice(bytes).ok()?;
        let text = |at: usize| value.get(at).and_then(Value::as_str).map(str::to_owned);
        let part = |value: &Value| {
            let number = |at: usize| value.get(at).and_then(Value::as_u64);
            let small = |at: usize| number(at).and_then(|n| u32::try_from(n).ok());
            Some(StagedPart { part: small(0)?, length: number(1)?, crc: small(2)?, step: number(3) })
        };
        let parts: Option<Vec<StagedPart>> = value.get(4)?.as_array()?.iter().map(part).collect();
        Some(Said {
            rank,
            node: text(0)?,
            group: text(1)?,
            folder: text(2)?,
            writer: value.get(3)?.as_u64()?,
            parts: parts?,
        })
    }
}

/// A group, with the rank of each member.
struct Formed {
    group: Group,
    ranks: Vec<usize>,
}

/// Makes the parity of a step that all ranks have ended. `writer` is the id of this rank's writer, if it wrote.
/// Returns whether other nodes now keep all of the step. Without redundancy nothing is exchanged; all ranks know that
/// from the container.
pub(super) fn protect(
    container: &Container,
    meeting: &Meeting,
    step: u64,
    writer: Option<u64>,
) -> Result<bool> {
    let scheme = container.redundancy();
    let Some(tiers) = container.inner.tiers.as_ref().filter(|_| scheme != Scheme::None) else {
        return Ok(false);
    };
    let store = tiers.store.as_ref();
    let said = gather(store, meeting, step, writer)?;
    let (formed, all) = form(scheme, container.identity().uuid, step, &said);
    let me = meeting.rank() as usize;
    let mine = said.iter().find(|said| said.rank == me);
    let done = keep(store, meeting, &formed, mine);
    meeting.hold(Act::Kept, [0; 4], done)?;
    let put = attempt(|| {
        formed
            .iter()
            .filter(|formed| formed.ranks.first() == Some(&me))
            .try_for_each(|formed| Ok(store.put_group(formed.group.clone())?))
    });
    meeting.hold(Act::Kept, [0; 4], put)?;
    Ok(all)
}

/// The statements of all ranks, in rank order. Ranks without tiers state nothing.
fn gather(store: &TieredStore, meeting: &Meeting, step: u64, writer: Option<u64>) -> Result<Vec<Said>> {
    let communicator = &meeting.communicator;
    let own = store.node().zip(store.folder()).map(|(node, folder)| Said {
        rank: meeting.rank() as usize,
        node: node.name.clone(),
        // Hosts may share a name, but the communicator's node number is unique.
        group: if node.group == node.name {
            format!("{}#{}", node.name, communicator.node())
        } else {
            node.group.clone()
        },
        folder: folder.to_string_lossy().into_owned(),
        writer: writer.unwrap_or_default(),
        parts: writer.map(|writer| store.own_parts(writer, step)).unwrap_or_default(),
    });
    let bytes = own.as_ref().map(Said::encode).unwrap_or_default();
    let lengths = meeting.hold(Act::Keep, [bytes.len() as u64, 0, 0, 0], Ok(()))?;
    let lengths: Vec<u64> = lengths.iter().map(|values| values[0]).collect();
    let total = lengths.iter().fold(0u64, |sum, len| sum.saturating_add(*len));
    let mut heard = vec![0; usize::try_from(total).map_err(|_| malformed())?];
    let sizes = vec![bytes.len() as u64; lengths.len()];
    communicator.exchange(&bytes.repeat(lengths.len()), &sizes, &mut heard, &lengths)?;
    let mut said = Vec::new();
    let mut rest = heard.as_slice();
    for (rank, len) in lengths.iter().enumerate() {
        let (one, behind) = rest.split_at_checked(*len as usize).ok_or_else(malformed)?;
        if !one.is_empty() {
            said.push(Said::decode(rank, one).ok_or_else(malformed)?);
        }
        rest = behind;
    }
    Ok(said)
}

fn malformed() -> Error {
    Error::corrupt("a rank sent a malformed statement about its tiers; check the communicator")
}

/// The groups, and whether every part is in a group.
fn form(scheme: Scheme, uuid: [u8; 16], step: u64, said: &[Said]) -> (Vec<Formed>, bool) {
    // Ranks with bytes come first; the others can keep parity.
    let (with, without): (Vec<&Said>, Vec<&Said>) = said.iter().partition(|said| !said.parts.is_empty());
    let ordered: Vec<&Said> = with.iter().chain(&without).copied().collect();
    let groups: Vec<&str> = ordered.iter().map(|said| said.group.as_str()).collect();
    let mut kept = 0;
    let form = |set: drystone_plan::tier::redundancy::Set| {
        kept += set.members.len();
        let numbers: Vec<usize> = set.members.iter().chain(&set.keepers).copied().collect();
        let member = |(place, number): (usize, &usize)| {
            let said = ordered.get(*number)?;
            let parts = if place < set.members.len() { said.parts.clone() } else { Vec::new() };
            let (node, folder) = (said.node.clone(), said.folder.clone());
            Some((Member { writer: said.writer, node, folder, parts }, said.rank))
        };
        let found: Option<Vec<(Member, usize)>> = numbers.iter().enumerate().map(member).collect();
        let (members, ranks): (Vec<Member>, Vec<usize>) = found.unwrap_or_default().into_iter().unzip();
        let (copies, parity) = (scheme == Scheme::Partner, parity_of(scheme, members.len()));
        Formed { group: Group { uuid, step, copies, parity, members }, ranks }
    };
    let formed: Vec<Formed> = sets(scheme, &groups, with.len()).into_iter().map(form).collect();
    (formed, kept == with.len())
}

/// Sends chunks and writes this rank's parity objects.
fn keep(store: &TieredStore, meeting: &Meeting, formed: &[Formed], mine: Option<&Said>) -> Result<()> {
    let (me, size) = (meeting.rank() as usize, meeting.size() as usize);
    let mut failure: Result<()> = Ok(());
    let mut objects: Vec<Option<ParityObject>> = Vec::new();
    for formed in formed {
        let number = formed.ranks.iter().position(|rank| *rank == me);
        let begun =
            number.map(|number| attempt(|| Ok(ParityObject::begin(&formed.group, number)?))).transpose();
        objects.push(begun.unwrap_or_else(|e| {
            failure = Err(e);
            None
        }));
    }
    let longest =
        formed.iter().flat_map(|f| (0..f.ranks.len()).map(|stripe| f.group.chunk(stripe))).max().unwrap_or(0);
    for at in (0..longest).step_by(BATCH as usize) {
        let mut send: Vec<Vec<u8>> = vec![Vec::new(); size];
        let mut sizes = vec![0u64; size];
        each_transfer(formed, at, |t| {
            if t.to == me {
                sizes[t.from] += t.len as u64;
            }
            if t.from == me {
                let buffer = &mut send[t.to];
                let begin = buffer.len();
                buffer.resize(begin + t.len, 0);
                if let Some(mine) = mine {
                    let read = store.read_parts(mine.writer, &mine.parts, t.place, &mut buffer[begin..]);
                    if let Err(e) = read {
                        failure = Err(e.into());
                    }
                }
            }
        });
        let send_sizes: Vec<u64> = send.iter().map(|bytes| bytes.len() as u64).collect();
        let total: u64 = sizes.iter().sum();
        let mut heard = vec![0; usize::try_from(total).map_err(|_| malformed())?];
        meeting.communicator.exchange(&send.concat(), &send_sizes, &mut heard, &sizes)?;
        let mut rest = heard.as_slice();
        let mut from: Vec<&[u8]> = Vec::with_capacity(size);
        for len in &sizes {
            let (one, behind) = rest.split_at_checked(*len as usize).ok_or_else(malformed)?;
            from.push(one);
            rest = behind;
        }
        let written = attempt(|| write_batch(formed, &mut objects, &mut from, me, at));
        if failure.is_ok() {
            failure = written;
        }
    }
    failure?;
    objects.into_iter().flatten().try_for_each(|object| Ok(object.finish()?))
}

/// Bytes of a chunk that one rank sends to another.
struct Transfer {
    from: usize,
    to: usize,
    /// The offset in the sender's bytes.
    place: u64,
    len: usize,
}

/// The parts of each chunk from `at` on that are sent, in the order in which all ranks send and receive them.
fn each_transfer(formed: &[Formed], at: u64, mut act: impl FnMut(Transfer)) {
    for Formed { group, ranks } in formed {
        for (number, stripe) in stripes(ranks.len(), group.parity, group.copies).iter().enumerate() {
            let chunk = group.chunk(number);
            let len = chunk.saturating_sub(at).min(BATCH) as usize;
            for (member, part) in &stripe.data {
                // A member that only keeps parity has no bytes to send.
                let has = group.members.get(*member).is_some_and(|member| !member.parts.is_empty());
                for keeper in stripe.parity.iter().filter(|_| has && len > 0) {
                    if let (Some(from), Some(to)) = (ranks.get(*member), ranks.get(*keeper)) {
                        act(Transfer { from: *from, to: *to, place: *part as u64 * chunk + at, len });
                    }
                }
            }
        }
    }
}

/// Encodes the parity that this rank keeps for one batch. `from` holds the bytes that each rank sent; used bytes are
/// removed.
fn write_batch(
    formed: &[Formed],
    objects: &mut [Option<ParityObject>],
    from: &mut [&[u8]],
    me: usize,
    at: u64,
) -> Result<()> {
    for (Formed { group, ranks }, object) in formed.iter().zip(objects) {
        let Some(number) = ranks.iter().position(|rank| *rank == me) else { continue };
        let all = stripes(ranks.len(), group.parity, group.copies);
        // One buffer for each stripe whose parity this member keeps, by its position among the keepers.
        let mut kept: Vec<Vec<u8>> = vec![Vec::new(); group.parity];
        for (stripe_number, stripe) in all.iter().enumerate() {
            let Some(place) = stripe.parity.iter().position(|keeper| *keeper == number) else { continue };
            let len = group.chunk(stripe_number).saturating_sub(at).min(BATCH) as usize;
            if len == 0 {
                continue;
            }
            let zeros = vec![0; len];
            let mut data: Vec<&[u8]> = Vec::with_capacity(stripe.data.len());
            for (member, _) in &stripe.data {
                let has = group.members.get(*member).is_some_and(|member| !member.parts.is_empty());
                let sender = ranks.get(*member).and_then(|rank| from.get_mut(*rank)).filter(|_| has);
                data.push(match sender {
                    Some(sent) => {
                        let whole: &[u8] = sent;
                        let (now, later) = whole.split_at_checked(len).ok_or_else(malformed)?;
                        *sent = later;
                        now
                    }
                    None => &zeros,
                });
            }
            let coded =
                drystone_parity::encode(&data, group.parity).map_err(|e| Error::invalid(e.to_string()))?;
            kept[place] = coded.into_iter().nth(place).unwrap_or_default();
        }
        let Some(object) = object else { continue };
        let longest = kept.iter().map(Vec::len).max().unwrap_or(0);
        for row in (0..longest).step_by(ROW as usize) {
            for chunk in &kept {
                let end = chunk.len().min(row + ROW as usize);
                object.add(chunk.get(row..end).unwrap_or_default())?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_survives_encoding_and_other_bytes_are_refused() {
        let part = StagedPart { part: 1, length: 7, crc: u32::MAX, step: Some(3) };
        let (node, group, folder) = ("n".into(), "g\"".into(), "/x y".into());
        let said = Said { rank: 2, node, group, folder, writer: u64::MAX, parts: vec![part] };
        let bytes = said.encode();
        assert_eq!(Said::decode(2, &bytes), Some(said));
        for end in 0..bytes.len() {
            assert_eq!(Said::decode(2, &bytes[..end]), None);
        }
    }
}
