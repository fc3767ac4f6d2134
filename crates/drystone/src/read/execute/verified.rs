//! Verification: compares the checksums of read bytes with the stored ones; an error says where they differ.

use std::ops::Range;

use drystone_format::piece::Trailer;
use drystone_format::table::Prefix;
use drystone_plan::read_plan::Work;
use drystone_transform::TransformError;
use drystone_transform::checks::{crc_units, verify_units};

use super::Job;
use super::trailers;
use crate::base::checksum::crc32;
use crate::{Error, Result};

impl Job<'_> {
    pub(super) fn verify_prefix(&self, work: &Work, prefix: &Prefix, bytes: &[u8]) -> Result<()> {
        if bytes.len() as u64 == prefix.length && crc32(bytes) == prefix.check {
            return Ok(());
        }
        Err(self.damaged(work, prefix.position, "the prefix of a subchunk fails its checksum"))
    }

    pub(in crate::read) fn undecodable(&self, work: &Work, error: &TransformError) -> Error {
        self.damaged(work, work.piece.position, &format!("decoding: {error}"))
    }

    /// Checks a payload against the trailer at the end of `rest`, or against its single checksum if there is no
    /// trailer.
    pub(super) fn verify_whole(
        &self,
        work: &Work,
        rest: &[u8],
        payload: &[u8],
        sums: &mut Vec<u32>,
    ) -> Result<()> {
        let piece = &work.piece;
        if piece.trailer == 0 {
            if crc32(payload) != piece.check {
                return Err(self.damaged(work, piece.position, "a subchunk fails its checksum"));
            }
            return Ok(());
        }
        let unit = if piece.unit_log2 == 0 { payload.len().max(1) } else { 1 << piece.unit_log2 };
        sums.clear();
        crc_units(payload, unit, sums);
        self.compare_whole(work, rest, sums)
    }

    /// Compares the sums of a whole payload with the trailer at the end of `rest`.
    pub(super) fn compare_whole(&self, work: &Work, rest: &[u8], sums: &[u32]) -> Result<()> {
        let piece = &work.piece;
        let at = piece.position + piece.length;
        let Trailer { checks, .. } =
            trailers::decode(piece, rest).ok_or_else(|| self.damaged(work, at, trailers::DAMAGED))?;
        self.compare(work, 0, sums, &checks)
    }

    /// Compares the sums of units of a piece with the stored ones. `first` is the number of the first unit.
    pub(super) fn compare(&self, work: &Work, first: usize, sums: &[u32], stored: &[u32]) -> Result<()> {
        match sums.iter().zip(stored).position(|(a, b)| a != b) {
            None if sums.len() == stored.len() => Ok(()),
            bad => Err(self.fails_checksum(work, first + bad.unwrap_or(0))),
        }
    }

    pub(super) fn fails_checksum(&self, work: &Work, unit: usize) -> Error {
        let from = (unit as u64).saturating_mul(1 << work.piece.unit_log2);
        let at = work.piece.position.saturating_add(from);
        self.damaged(work, at, "the data fails its checksum")
    }

    pub(in crate::read) fn trailer(&self, work: &Work) -> Option<&Trailer> {
        Some(self.trailers.get(work.trailer?)?.as_ref())
    }

    /// The stored sums of `count` units of a piece, from byte `start` of its payload. Empty if some are missing.
    pub(super) fn checks(&self, work: &Work, start: u64, count: usize) -> (usize, &[u32]) {
        let before = work.prefix.map_or(0, |prefix| prefix.length);
        let first = (start.saturating_sub(before) >> work.piece.unit_log2) as usize;
        let checks = self.trailer(work).map_or(&[][..], |t| t.checks.as_slice());
        (first, checks.get(first..first + count).unwrap_or_default())
    }

    /// Checks a range of a piece; the range consists of whole check units.
    pub(super) fn verify_units(&self, work: &Work, bytes: &[u8], payload: &Range<u64>) -> Result<()> {
        let unit = 1usize << work.piece.unit_log2;
        let (first, stored) = self.checks(work, payload.start, bytes.len().div_ceil(unit));
        verify_units(bytes, unit, stored).map_err(|bad| self.fails_checksum(work, first + bad))
    }
}
