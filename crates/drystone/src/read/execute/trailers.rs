//! Trailers of stored pieces: the checksums for partial reads, and the metadata for planning reads of encoded pieces.
//!
//! They are cached in the container, so a trailer that was read for a plan is in memory when the plan is executed.

use std::borrow::Borrow;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use drystone_format::entry::StoredPiece;
use drystone_format::piece::Trailer;
use drystone_plan::coalesce::{Fetch, coalesce};
use drystone_plan::local_read::groups;
use drystone_plan::read_plan::Work;
use drystone_store::StoreExt;

use super::{Sources, Stream};
use crate::base::error::must_exist;
use crate::read::{Prepared, Reading};
use crate::{Error, Result};

pub(in crate::read) const DAMAGED: &str = "the checksums of a subchunk fail their checksum";
/// Memory for a request of at most this length is allocated without asking for the length of the object.
const UNCHECKED: usize = 5 << 20;
/// The most trailers that are loaded for one plan. Further pieces are read completely.
const FOR_A_PLAN: usize = 8 << 20;

/// Called with a request and its bytes.
type Taking<'a, T> = dyn FnMut(&Fetch<T>, &[u8]) -> Result<()> + 'a;

/// Trailers of pieces, with the cost of loading those that are not cached.
#[derive(Default)]
pub(in crate::read) struct Known {
    by_place: HashMap<(u32, u64), Arc<Trailer>>,
    pub(in crate::read) requests: u64,
    pub(in crate::read) bytes: u64,
}

impl Known {
    pub(in crate::read) fn get(&self, source: u32, piece: &StoredPiece) -> Option<&Arc<Trailer>> {
        self.by_place.get(&(source, piece.position))
    }
}

/// Decodes the verified trailer at the end of `bytes`, which may begin with padding of the payload.
pub(in crate::read) fn decode(piece: &StoredPiece, bytes: &[u8]) -> Option<Trailer> {
    let from = bytes.len().checked_sub(usize::try_from(piece.trailer).ok()?)?;
    Trailer::decode(piece, &bytes[from..]).ok()
}

/// The memory that a trailer occupies.
fn cost(trailer: &Trailer) -> usize {
    trailer.checks.len() * 4 + trailer.meta.len() + trailer.histogram.len() + size_of::<Trailer>()
}

/// The trailers of the pieces that a plan needs and does not have yet.
pub(in crate::read) fn for_plan(
    reading: &Reading,
    sources: &Sources<'_>,
    pieces: &[(u32, StoredPiece)],
) -> Result<Known> {
    let mut known = Known::default();
    let mut seen = HashSet::new();
    let mut wanted = Vec::new();
    let mut bytes = 0;
    for (source, piece) in pieces.iter().filter(|(s, p)| seen.insert((*s, p.position))) {
        bytes += piece.trailer as usize;
        if bytes > FOR_A_PLAN {
            break;
        }
        wanted.push((*source, piece.trailer_position()..piece.end(), *piece));
    }
    let mut buffer = Vec::new();
    let options = reading.options();
    let fetches = coalesce(wanted, options.gap, options.max_request);
    if reading.inner.window().is_some() {
        return fetch_for_plan(reading, sources, &fetches, known);
    }
    for fetch in fetches {
        let mut have = false;
        known.requests += 1;
        known.bytes += fetch.len();
        for (range, piece) in &fetch.items {
            let place = (fetch.source, &fetch.range);
            let trailer = load(reading, sources, place, (range, piece, 0), &mut have, &mut buffer)?;
            known.by_place.insert((fetch.source, piece.position), trailer);
        }
    }
    Ok(known)
}

/// As [`for_plan`], from a far store: requests whose trailers are not all cached are sent together.
fn fetch_for_plan(
    reading: &Reading,
    sources: &Sources<'_>,
    fetches: &[Fetch<StoredPiece>],
    mut known: Known,
) -> Result<Known> {
    let mut missing: Vec<&Fetch<StoredPiece>> = Vec::new();
    for fetch in fetches {
        let from = sources.get(fetch.source)?;
        let found: Vec<_> = fetch
            .items
            .iter()
            .map(|(_, piece)| reading.inner.trailers.find(&(from.writer, from.part, piece.position)))
            .collect();
        known.requests += 1;
        known.bytes += fetch.len();
        if found.iter().any(Option::is_none) {
            missing.push(fetch);
            continue;
        }
        let by_place = fetch.items.iter().zip(found).filter_map(|((_, piece), found)| Some((piece, found?)));
        known.by_place.extend(by_place.map(|(piece, found)| ((fetch.source, piece.position), found)));
    }
    reading.fetch_all(sources, &missing, &mut |fetch, bytes| {
        let from = sources.get(fetch.source)?;
        for (range, piece) in &fetch.items {
            let within = (range.start - fetch.range.start) as usize..(range.end - fetch.range.start) as usize;
            let trailer = bytes
                .get(within)
                .and_then(|bytes| decode(piece, bytes))
                .ok_or_else(|| reading.damaged(sources, fetch.source, 0, range.start, DAMAGED))?;
            let (key, cost) = ((from.writer, from.part, piece.position), cost(&trailer));
            let trailer = reading.inner.trailers.put(key, trailer, cost);
            known.by_place.insert((fetch.source, piece.position), trailer);
        }
        Ok(())
    })?;
    Ok(known)
}

/// The trailers for a plan's partial reads: cached ones by number, and the requests for the others.
pub(in crate::read) struct Needed<'p> {
    found: Vec<Arc<Trailer>>,
    /// The first work served by each request.
    works: Vec<Option<&'p Work>>,
    /// Numbers of the requests that are still to be made, ascending.
    missing: Vec<usize>,
}

impl<'p> Needed<'p> {
    pub(in crate::read) fn of_plan(
        reading: &Reading,
        prepared: &'p Prepared,
        sources: &Sources<'_>,
    ) -> Result<Needed<'p>> {
        let plan = &prepared.plan;
        let count = plan.works.iter().filter_map(|work| work.trailer).max().map_or(0, |last| last + 1);
        let mut works: Vec<Option<&Work>> = vec![None; count];
        for work in &plan.works {
            if let Some(place) = work.trailer.and_then(|number| works.get_mut(number)) {
                place.get_or_insert(work);
            }
        }
        let mut needed = Needed { found: vec![Arc::default(); count], works, missing: Vec::new() };
        for (request, fetch) in plan.trailers.iter().enumerate() {
            let from = sources.get(fetch.source)?;
            let mut all = true;
            for (_, number) in &fetch.items {
                let Some((found, work)) = needed.place(*number) else { continue };
                match reading.inner.trailers.find(&(from.writer, from.part, work.piece.position)) {
                    Some(trailer) => *found = trailer,
                    None => all = false,
                }
            }
            if !all {
                needed.missing.push(request);
            }
        }
        Ok(needed)
    }

    /// Whether this request of the plan for trailers is still to be made.
    pub(in crate::read) fn is_missing(&self, request: usize) -> bool {
        self.missing.binary_search(&request).is_ok()
    }

    fn place(&mut self, number: usize) -> Option<(&mut Arc<Trailer>, &'p Work)> {
        Some((self.found.get_mut(number)?, (*self.works.get(number)?)?))
    }

    /// Numbers of the plan's requests for trailers that are still to be made, ascending.
    pub(in crate::read) fn missing(&self) -> &[usize] {
        &self.missing
    }

    /// All trailers, by number.
    pub(in crate::read) fn all(self) -> Vec<Arc<Trailer>> {
        self.found
    }

    /// Makes the requests.
    pub(in crate::read) fn load(
        &mut self,
        reading: &Reading,
        prepared: &Prepared,
        sources: &Sources<'_>,
    ) -> Result<()> {
        let missing: Vec<&Fetch<usize>> =
            self.missing.iter().filter_map(|&request| prepared.plan.trailers.get(request)).collect();
        let mut buffer = Vec::new();
        for group in groups(&missing) {
            let group = &missing[group];
            reading.read_group(sources, group, &mut buffer)?;
            let mut bytes = &buffer[..];
            for fetch in group {
                let (fetched, behind) = bytes.split_at(fetch.len() as usize);
                bytes = behind;
                self.take(reading, prepared, sources, fetch, fetched)?;
            }
        }
        Ok(())
    }

    /// Decodes the trailers in the reply to one of the requests.
    pub(super) fn take(
        &mut self,
        reading: &Reading,
        prepared: &Prepared,
        sources: &Sources<'_>,
        fetch: &Fetch<usize>,
        bytes: &[u8],
    ) -> Result<()> {
        let from = sources.get(fetch.source)?;
        for (range, number) in &fetch.items {
            let Some((found, work)) = self.place(*number) else { continue };
            let piece = &work.piece;
            let within = (range.start - fetch.range.start) as usize..(range.end - fetch.range.start) as usize;
            let trailer = bytes.get(within).and_then(|bytes| decode(piece, bytes)).ok_or_else(|| {
                let step = prepared.slots[work.slot].candidates[work.entry].entry.step;
                reading.damaged(sources, fetch.source, step, range.start, DAMAGED)
            })?;
            let (key, cost) = ((from.writer, from.part, piece.position), cost(&trailer));
            *found = reading.inner.trailers.put(key, trailer, cost);
        }
        Ok(())
    }
}

/// One trailer of an entry of `step`, from the cache or by a request. The request is made when the first of its
/// trailers is missing.
fn load(
    reading: &Reading,
    sources: &Sources<'_>,
    (source, request): (u32, &Range<u64>),
    (range, piece, step): (&Range<u64>, &StoredPiece, u64),
    have: &mut bool,
    buffer: &mut Vec<u8>,
) -> Result<Arc<Trailer>> {
    let from = sources.get(source)?;
    reading.inner.trailers.get(&(from.writer, from.part, piece.position), || {
        if !*have {
            reading.read_range(sources, source, request, buffer)?;
            *have = true;
        }
        let at = (range.start - request.start) as usize;
        let trailer = decode(piece, &buffer[at..at + (range.end - range.start) as usize])
            .ok_or_else(|| reading.damaged(sources, source, step, range.start, DAMAGED))?;
        let cost = cost(&trailer);
        Ok((trailer, cost))
    })
}

impl Reading {
    /// Reads bytes of a source into `out`.
    pub(in crate::read) fn read_range(
        &self,
        sources: &Sources<'_>,
        source: u32,
        range: &Range<u64>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let key = sources.key(source)?;
        let store = &self.inner.store;
        let len = (range.end - range.start) as usize;
        // An index may state any length; memory is allocated only for bytes that exist.
        let there = if len > out.capacity().max(UNCHECKED) {
            store.expect_range(&key, range.start, len)
        } else {
            Ok(())
        };
        out.resize(if there.is_ok() { len } else { 0 }, 0);
        // Bytes of a log never change; those of a shard may.
        let shard = sources.shard(source).is_some();
        let read = |out: &mut [u8]| match shard {
            true => store.read(&key, range.start, out),
            false => store.read_parts(&key, range.start, &mut [out]),
        };
        there
            .and_then(|()| read(out))
            .map_err(|e| must_exist(e).while_doing(format!("reading variable \"{}\"", self.path)))
    }

    /// Makes requests and passes on the bytes of each: one after the other, or, on a far store, in any order with a
    /// window in flight.
    pub(in crate::read) fn fetch_all<T, F: Borrow<Fetch<T>>>(
        &self,
        sources: &Sources<'_>,
        fetches: &[F],
        act: &mut Taking<'_, T>,
    ) -> Result<()> {
        let Some(window) = self.inner.window() else {
            let mut bytes = Vec::new();
            return fetches.iter().map(F::borrow).try_for_each(|fetch| {
                self.read_range(sources, fetch.source, &fetch.range, &mut bytes)?;
                act(fetch, &bytes)
            });
        };
        let place = |fetch: &F| Ok((sources.key(fetch.borrow().source)?, fetch.borrow().range.clone()));
        let requests = fetches.iter().map(place).collect::<Result<_>>()?;
        let stream = Stream::new(&self.inner, window, requests);
        stream.fill();
        while let Some((number, bytes)) = stream.next() {
            let taken = bytes
                .map_err(|e| must_exist(e).while_doing(format!("reading variable \"{}\"", self.path)))
                .and_then(|bytes| {
                    fetches.get(number).map_or(Ok(()), |fetch| act(fetch.borrow(), &bytes))?;
                    Ok(bytes)
                });
            match taken {
                Ok(bytes) => stream.placed(number, bytes),
                Err(error) => {
                    stream.stop();
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Makes the requests of one of the [`groups`](drystone_plan::local_read::groups). Their bytes lie one after the
    /// other in `out`.
    pub(in crate::read) fn read_group<T, F: Borrow<Fetch<T>>>(
        &self,
        sources: &Sources<'_>,
        group: &[F],
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let Some(first) = group.first().map(F::borrow) else {
            out.clear();
            return Ok(());
        };
        if group.len() == 1 {
            return self.read_range(sources, first.source, &first.range, out);
        }
        let key = sources.key(first.source)?;
        let range = |fetch: &F| (fetch.borrow().range.start, fetch.borrow().len() as usize);
        let ranges: Vec<(u64, usize)> = group.iter().map(range).collect();
        out.resize(ranges.iter().map(|(_, len)| len).sum(), 0);
        let read = self.inner.store.read_ranges(&key, &ranges, out);
        read.map_err(|e| must_exist(e).while_doing(format!("reading variable \"{}\"", self.path)))
    }

    /// The error for damage in a source; `step` is the step of the entry plus one, or 0 if unknown.
    pub(in crate::read) fn damaged(
        &self,
        sources: &Sources<'_>,
        source: u32,
        step: u64,
        at: u64,
        what: &str,
    ) -> Error {
        let key = sources.key(source).unwrap_or_else(|_| "an unknown source".into());
        let step = if step > 0 { format!(" at step {}", step - 1) } else { String::new() };
        Error::corrupt(format!("{key} is damaged at byte {at}: {what} (variable \"{}\"{step})", self.path))
    }
}
