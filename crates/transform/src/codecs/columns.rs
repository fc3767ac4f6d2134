//! Elements cut into byte planes, where some runs of elements are wanted.

use std::ops::Range;

use crate::codecs::shuffle::kernel;
use crate::ranges::join;
use crate::scratch::set_len_reusing;
use crate::{Pieces, TransformError};

/// Joining two runs pays if fewer unwanted elements than this lie between them.
const WORTH_A_RUN: u64 = 32;

/// The wanted bytes, in terms of elements.
pub(crate) struct Runs {
    /// Runs of elements, ascending and not adjacent.
    pub(crate) elements: Vec<Range<u64>>,
    /// How many of the bytes after the last whole element are wanted, from the first on.
    pub(crate) tail: u64,
}

impl Runs {
    /// `wanted` ascends; there are `count` elements of `width` bytes.
    pub(crate) fn of(wanted: &[Range<u64>], width: u64, count: u64) -> Runs {
        let mut elements: Vec<Range<u64>> = Vec::new();
        let body = count * width;
        for range in wanted.iter().filter(|range| !range.is_empty() && range.start < body) {
            let run = range.start / width..range.end.min(body).div_ceil(width);
            join(&mut elements, run, 0);
        }
        Runs { elements, tail: wanted.last().map_or(0, |last| last.end.saturating_sub(body)) }
    }

    /// Joins many short runs into one, if `there` says that all bytes of it were fetched, and it is not long: decoding
    /// the elements between them then costs less than many runs.
    pub(crate) fn close(&mut self, there: impl FnOnce(&Range<u64>) -> bool) {
        let (Some(first), Some(last)) = (self.elements.first(), self.elements.last()) else { return };
        let all = first.start..last.end;
        let beside = all.end - all.start - self.count();
        if self.elements.len() > 1 && beside <= WORTH_A_RUN * self.elements.len() as u64 && there(&all) {
            self.elements = vec![all];
        }
    }

    /// Number of elements in all runs.
    pub(crate) fn count(&self) -> u64 {
        self.elements.iter().map(|run| run.end - run.start).sum()
    }

    /// Writes the elements to their places after `mend` has corrected them. `planes` holds their bytes plane by plane,
    /// least significant first. `buffer` is working memory for several runs.
    pub(crate) fn place(
        &self,
        planes: &[u8],
        width: usize,
        pieces: &mut Pieces<'_>,
        buffer: &mut Vec<u8>,
        mend: impl Fn(&mut [u8]),
    ) -> Result<(), TransformError> {
        let bytes = |run: &Range<u64>| run.start * width as u64..run.end * width as u64;
        if let [run] = self.elements.as_slice() {
            let place = pieces.place(bytes(run))?;
            kernel::unshuffle(planes, width, place);
            mend(place);
            return Ok(());
        }
        set_len_reusing(buffer, planes.len());
        kernel::unshuffle(planes, width, buffer);
        mend(buffer);
        let mut rest = buffer.as_slice();
        for run in &self.elements {
            let place = pieces.place(bytes(run))?;
            let (own, after) = rest.split_at_checked(place.len()).unwrap_or((rest, &[]));
            place.copy_from_slice(own);
            rest = after;
        }
        Ok(())
    }
}

/// Fills one plane of the wanted elements, run by run.
pub(crate) fn gather<'a>(
    runs: &Runs,
    plane: &mut [u8],
    bytes: impl Fn(&Range<u64>) -> Result<&'a [u8], TransformError>,
) -> Result<(), TransformError> {
    let mut rest = plane;
    for run in &runs.elements {
        let own = bytes(run)?;
        match rest.split_at_mut_checked(own.len()) {
            Some((place, after)) if own.len() as u64 == run.end - run.start => {
                place.copy_from_slice(own);
                rest = after;
            }
            _ => return Err(TransformError::corrupt("a plane is shorter than its elements", 0)),
        }
    }
    Ok(())
}
