//! A collective read: each rank states its selection. Where selections interleave, a few ranks read for all.
//!
//! `drystone_plan::joint_read` decides which ranks read which boxes, from the cost of each rank's own plan. Every
//! rank computes the same decision from the same numbers, so the decision is not sent.
//!
//! Invariant: a failure between two meetings is reported by the next one, so all ranks leave the read together.

use std::ops::Range;

use drystone_copy::{Dim, StridedCopy};
use drystone_format::MAX_NDIM;
use drystone_plan::joint_read::{Alone, JointRead, Overlap, ReadCosts};
use drystone_plan::selection::{Axis, Selection};

use super::Team;
use super::meeting::{Act, attempt};
use crate::base::array::{Target, dense_strides};
use crate::base::error::rule_error;
use crate::read::{Planned, ReadReport, Reading, Wanted};
use crate::{Error, Result};

/// The ranks that read in [`Team::read`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Readers {
    /// The ranks that the model finds cheapest.
    #[default]
    Cheapest,
    /// Each rank reads for itself.
    Alone,
    /// This many ranks read for all (at most all of them). Each rank reads for itself if the common boxes would be
    /// mostly gaps.
    Count(u32),
}

/// The cost of a collective read for this rank.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct TeamReadReport {
    /// What this rank read from storage, for itself or for others. `wanted_bytes` counts its own selection.
    pub read: ReadReport,
    /// The number of ranks that read for all; 0 if each rank read for itself.
    pub readers: usize,
}

/// Approximate costs on one machine with two cores and a page cache.
const COSTS: ReadCosts = ReadCosts { per_request: 3e-5, read: 1.5e9, copy: 1e9, per_round: 3e-4 };

/// The most axes of a selection that is sent: those of a variable and its step axis.
const AXES: usize = MAX_NDIM + 1;
/// Bytes of a selection: the number of axes, then start, step and count of each axis.
pub(super) const WISH: usize = 8 + 24 * AXES;

impl Team {
    /// Reads a selection (step axis first) of one variable; every rank has its own. Collective: all ranks pass a
    /// reading of the same variable and snapshot, and their selection, which may be empty.
    ///
    /// If ranks want small interleaved parts, a few ranks read larger boxes and distribute them; otherwise each rank
    /// reads for itself. Errors are those of [`Reading::read`], on all ranks.
    pub fn read(
        &self,
        reading: &Reading,
        selection: &Selection,
        out: &Target<'_>,
        readers: Readers,
    ) -> Result<TeamReadReport> {
        let planned = attempt(|| {
            reading.check_read(selection, out)?;
            if readers == Readers::Count(0) {
                return Err(Error::invalid("0 readers; at least one rank reads"));
            }
            reading.planned(Wanted::Box(selection.clone()))
        });
        // A read that is too large to be planned at once is not small, so it has no cost here.
        let cost = planned.as_ref().ok().and_then(Planned::cost);
        let large = ReadReport { read_bytes: u64::MAX, ..ReadReport::default() };
        let own = cost.unwrap_or(if selection.is_empty() { ReadReport::default() } else { large });
        let item = u64::from(reading.item());
        let wanted = selection.cells().unwrap_or(0).saturating_mul(item);
        let said = self.meeting.hold(
            Act::Read,
            [reading.fingerprint(readers), own.read_bytes, own.requests, wanted],
            planned.as_ref().map(|_| ()).map_err(Clone::clone),
        )?;
        let planned = planned?;
        let first = said.first().map_or(0, |values| values[0]);
        if let Some(rank) = said.iter().position(|values| values[0] != first) {
            return Err(Error::invalid(format!(
                "ranks 0 and {rank} read different variables, members, snapshots or precisions, or ask for other readers: a \
                 collective read is of one variable"
            )));
        }
        let alone = said.iter().fold(Alone::default(), |sum, values| Alone {
            read_bytes: sum.read_bytes.saturating_add(values[1]),
            requests: sum.requests.saturating_add(values[2]),
            wanted_bytes: sum.wanted_bytes.saturating_add(values[3]),
        });
        let joint = match readers {
            Readers::Alone => None,
            Readers::Cheapest if alone.read_bytes == u64::MAX => None,
            _ => self.plan(selection, item, readers, &alone)?,
        };
        match joint {
            None => {
                let done = attempt(|| planned.read(out));
                self.meeting.hold(Act::Fetched, [0; 4], done.as_ref().map(|_| ()).map_err(Clone::clone))?;
                Ok(TeamReadReport { read: done?, readers: 0 })
            }
            Some(joint) => {
                let mut report = self.read_for_all(reading, selection, out, &joint)?;
                report.read.wanted_bytes = cost.map_or(wanted, |own| own.wanted_bytes);
                Ok(report)
            }
        }
    }

    /// Gathers the selections of all ranks, and decides which ranks read.
    fn plan(
        &self,
        selection: &Selection,
        item: u64,
        readers: Readers,
        alone: &Alone,
    ) -> Result<Option<Joint>> {
        let communicator = &*self.meeting.communicator;
        let mut heard = vec![0; (WISH + 8) * self.size() as usize];
        let mut said = encode_wish(selection);
        said.extend_from_slice(&communicator.node().to_le_bytes());
        communicator.all_gather(&said, &mut heard)?;
        let (mut wishes, mut nodes) = (Vec::new(), Vec::new());
        for (rank, bytes) in heard.chunks_exact(WISH + 8).enumerate() {
            let (wish, node) = bytes.split_at_checked(WISH).unwrap_or((&[], &[]));
            let strange =
                || Error::corrupt(format!("rank {rank} sent a malformed selection; check the communicator"));
            let wish = decode_wish(wish, selection.axes.len()).ok_or_else(strange)?;
            wishes.push(wish);
            nodes.push(u64::from_le_bytes(node.try_into().map_err(|_| strange())?));
        }
        let plan = match readers {
            Readers::Alone => None,
            Readers::Cheapest => JointRead::cheapest(&wishes, &nodes, item, alone, &COSTS),
            Readers::Count(n) => JointRead::new(&wishes, &nodes, item, Some(n as usize)),
        };
        Ok(plan.map(|plan| Joint { plan, wishes }))
    }

    fn read_for_all(
        &self,
        reading: &Reading,
        selection: &Selection,
        out: &Target<'_>,
        joint: &Joint,
    ) -> Result<TeamReadReport> {
        let me = self.rank() as usize;
        let item = u64::from(reading.item());
        let number = joint.plan.readers.iter().position(|reader| *reader == me);
        let mut report = TeamReadReport { readers: joint.plan.readers.len(), ..TeamReadReport::default() };
        let mut carried = Ok(());
        for round in &joint.plan.rounds {
            let mine = number.and_then(|number| round.get(number)).and_then(Option::as_ref);
            let packed = std::mem::replace(&mut carried, Ok(())).and_then(|()| {
                attempt(|| match mine {
                    None => Ok((Vec::new(), vec![0; joint.wishes.len()], ReadReport::default())),
                    Some(cube) => fetch(reading, cube, &joint.wishes),
                })
            });
            let read = packed.as_ref().map(|(_, _, read)| *read).unwrap_or_default();
            let bound = [read.bound.absolute.to_bits(), read.bound.relative.to_bits(), 0, 0];
            let said =
                self.meeting.hold(Act::Fetched, bound, packed.as_ref().map(|_| ()).map_err(Clone::clone))?;
            let (packed, sizes, _) = packed?;
            for values in said {
                let bound = &mut report.read.bound;
                bound.absolute = bound.absolute.max(f64::from_bits(values[0]));
                bound.relative = bound.relative.max(f64::from_bits(values[1]));
            }
            report.read.read_bytes += read.read_bytes;
            report.read.requests += read.requests;
            report.read.blocks += read.blocks;
            let parts: Vec<Option<Overlap>> = round
                .iter()
                .map(|cube| cube.as_ref().and_then(|cube| Overlap::of(selection, cube)))
                .collect();
            carried = self.hand_out(&packed, &sizes, &parts, &joint.plan.readers, item, out);
        }
        self.meeting.hold(Act::Fetched, [0; 4], carried)?;
        Ok(report)
    }

    /// Sends the parts that this rank read for others, and copies received parts to their places.
    fn hand_out(
        &self,
        packed: &[u8],
        sizes: &[u64],
        parts: &[Option<Overlap>],
        readers: &[usize],
        item: u64,
        out: &Target<'_>,
    ) -> Result<()> {
        let mut expected = vec![0; sizes.len()];
        for (part, reader) in parts.iter().zip(readers) {
            if let (Some(part), Some(size)) = (part, expected.get_mut(*reader)) {
                *size = part.cells() * item;
            }
        }
        let mut received = vec![0; expected.iter().sum::<u64>() as usize]; // bounded by this rank's memory and by a round
        self.meeting.communicator.exchange(packed, sizes, &mut received, &expected)?;
        let mut rest = &received[..];
        for part in parts.iter().flatten() {
            let len = (part.cells() * item) as usize;
            let (bytes, more) =
                rest.split_at_checked(len).ok_or_else(|| Error::corrupt("bytes are missing"))?;
            rest = more;
            scatter(bytes, part, out)?;
        }
        Ok(())
    }
}

/// The decision of a collective read, with the selection of every rank.
struct Joint {
    plan: JointRead,
    wishes: Vec<Selection>,
}

/// Reads a box, and arranges the parts for each rank one after the other.
fn fetch(
    reading: &Reading,
    cube: &Selection,
    wishes: &[Selection],
) -> Result<(Vec<u8>, Vec<u64>, ReadReport)> {
    let item = u64::from(reading.item());
    let bytes = |cells: u64| cells.checked_mul(item).and_then(|n| usize::try_from(n).ok());
    let too_large = || Error::invalid("a box of a collective read is too large");
    let mut held = vec![0; cube.cells().and_then(bytes).ok_or_else(too_large)?];
    let shape = cube.shape();
    let read = reading.read(cube, &Target::dense(&mut held, &shape, item as usize)?)?;
    let strides = dense_strides(&shape, item)?;
    let (mut packed, mut sizes) = (Vec::new(), Vec::with_capacity(wishes.len()));
    for wish in wishes {
        let Some(part) = Overlap::of(wish, cube) else {
            sizes.push(0);
            continue;
        };
        let (mut start, mut dims) = (0, Vec::with_capacity(shape.len()));
        let count = part.shape();
        let dense = dense_strides(&count, item)?;
        for (d, positions) in part.positions.iter().enumerate() {
            let (axis, first) = (wish.axes[d], wish.axes[d].cell(positions.start));
            start += (first - cube.axes[d].start) * strides[d].unsigned_abs();
            dims.push(Dim::new(count[d], axis.step.wrapping_mul(strides[d]), dense[d]));
        }
        let (from, len) = (packed.len(), bytes(part.cells()).ok_or_else(too_large)?);
        packed.resize(from + len, 0);
        let copy = StridedCopy::new(start, 0, item as usize, dims).map_err(rule_error)?;
        copy.run(&held, &mut packed[from..]).map_err(rule_error)?;
        sizes.push(len as u64);
    }
    Ok((packed, sizes, read))
}

/// Copies dense cells to the positions of a part of the target.
fn scatter(bytes: &[u8], part: &Overlap, out: &Target<'_>) -> Result<()> {
    let count = part.shape();
    let dense = dense_strides(&count, out.item() as u64)?;
    let mut to = out.start() as i64;
    let mut dims = Vec::with_capacity(count.len());
    let each = part.positions.iter().zip(&count).zip(&dense).zip(out.strides());
    for (((Range { start, .. }, n), from), stride) in each {
        to += *start as i64 * stride; // inside the target, whose span was checked
        dims.push(Dim::new(*n, *from, *stride));
    }
    let to = u64::try_from(to).map_err(|_| Error::invalid("a cell lies before its array"))?;
    let copy = StridedCopy::new(0, to, out.item(), dims).map_err(rule_error)?;
    let (base, len) = out.raw();
    // SAFETY: the caller borrows the target exclusively during the read, and parts of one selection are disjoint. The
    // copy checks its bounds.
    unsafe { copy.run_raw(bytes.as_ptr(), bytes.len(), base, len) }.map_err(rule_error)
}

fn encode_wish(selection: &Selection) -> Vec<u8> {
    let mut out = vec![0; WISH];
    out[..8].copy_from_slice(&(selection.axes.len() as u64).to_le_bytes());
    for (place, axis) in out[8..].chunks_exact_mut(24).zip(&selection.axes) {
        place[..8].copy_from_slice(&axis.start.to_le_bytes());
        place[8..16].copy_from_slice(&axis.step.to_le_bytes());
        place[16..].copy_from_slice(&axis.count.to_le_bytes());
    }
    out
}

/// Decodes a selection of `ndim` axes. `None` unless its cell numbers fit 64 bits.
pub(super) fn decode_wish(bytes: &[u8], ndim: usize) -> Option<Selection> {
    let (count, rest) = bytes.split_first_chunk::<8>()?;
    if u64::from_le_bytes(*count) != ndim as u64 || ndim > AXES {
        return None;
    }
    let mut axes = Vec::with_capacity(ndim);
    for place in rest.chunks_exact(24).take(ndim) {
        let word = |at: usize| Some(u64::from_le_bytes(place.get(at..at + 8)?.try_into().ok()?));
        let axis = Axis { start: word(0)?, step: word(8)? as i64, count: word(16)? };
        if axis.count > 0 {
            let last = i128::from(axis.start) + i128::from(axis.step) * i128::from(axis.count - 1);
            if axis.step == 0 || u64::try_from(last).is_err() {
                return None;
            }
        }
        axes.push(axis);
    }
    (axes.len() == ndim).then_some(Selection { axes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_survives_encoding_and_other_bytes_are_refused() {
        let wish = Selection {
            axes: vec![Axis { start: 9, step: -3, count: 4 }, Axis { start: 7, step: 1, count: 0 }],
        };
        let said = encode_wish(&wish);
        assert_eq!(decode_wish(&said, 2), Some(wish));
        assert_eq!(decode_wish(&said, 3), None);
        assert_eq!(decode_wish(&said[..40], 2), None);
        let low = Selection { axes: vec![Axis { start: 2, step: -3, count: 2 }] };
        assert_eq!(decode_wish(&encode_wish(&low), 1), None);
    }
}
