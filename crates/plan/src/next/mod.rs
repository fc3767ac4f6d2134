//! Predicts the next reads of a handle from its last ones.
//!
//! The one predictor of the engine. [`variables`] says which variables follow, for the same cells; [`boxes`] says which
//! boxes of a variable follow; an announced sequence needs no prediction. The caller prefetches what is predicted; a
//! wrong prediction costs bytes, and never a wrong value.
//!
//! Invariants
//! - no clock and no I/O: the caller says how long the reader computed and what the link can carry;
//! - no box is predicted twice while predictions are correct;
//! - for a reader that jumps, predictions soon stop.

pub mod boxes;
pub mod variables;

use std::collections::{BTreeMap, VecDeque};

use crate::selection::Selection;
use crate::tiles::Tiles;
use boxes::{Spans, Track, from_spans, to_spans};
pub use variables::{Next, Together, Variables, together};

/// Number of variables whose boxes are remembered.
const TRACKS: usize = 64;
/// Most boxes that are predicted and not read yet.
const ASKED: usize = 64;
/// A reader of announced pieces may skip at most this many of them.
const SKIPPED: u64 = 64;

/// The speed and the space of a far store.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Link {
    /// Seconds to the first byte.
    pub latency: f64,
    /// Bytes per second.
    pub bandwidth: f64,
    /// Bytes that may be prefetched and not read yet.
    pub room: u64,
}

/// A read that begins.
#[derive(Debug, Clone, Copy)]
pub struct Begun<'a> {
    /// Number of the variable.
    pub variable: u32,
    /// The cells, step axis first.
    pub cells: &'a Selection,
    /// The variable's shape, step axis first.
    pub shape: &'a [u64],
    /// Whether its first axis is the step axis.
    pub has_steps: bool,
    /// Bytes of a cell.
    pub item: u64,
    /// Seconds since the last read of the handle ended, if there was one.
    pub computed: Option<f64>,
}

/// What is likely to be read next.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ahead {
    /// Boxes of the variable, nearest first: as many as the link loads in time, without those that were predicted
    /// before.
    pub boxes: Vec<Selection>,
    /// Earlier predictions were wrong, so their prefetch may be cancelled.
    pub jumped: bool,
}

/// What one reader has read, as far as it predicts the next reads.
#[derive(Debug, Default)]
pub struct Predictor {
    /// Which variables follow.
    pub variables: Variables,
    tracks: BTreeMap<u32, Track>,
    announced: Option<Announced>,
    asked: VecDeque<(u32, Spans)>,
    /// Seconds that the reader computes between two reads, on average.
    computes: f64,
}

/// Pieces that the reader has announced to read in order.
#[derive(Debug)]
struct Announced {
    variable: u32,
    pieces: Tiles,
    next: u64,
}

impl Predictor {
    /// Announces that the pieces of a variable will be read in their order. They replace those announced before.
    pub fn announce(&mut self, variable: u32, pieces: Tiles) {
        self.announced = Some(Announced { variable, pieces, next: 0 });
    }

    /// Records a read, and predicts the boxes of the variable that follow.
    pub fn boxes(&mut self, read: &Begun<'_>, link: &Link) -> Ahead {
        if let Some(seconds) = read.computed {
            self.computes = if self.computes > 0.0 { 0.7 * self.computes + 0.3 * seconds } else { seconds };
        }
        let Some(spans) = to_spans(read.cells) else { return Ahead::default() };
        self.asked.retain(|(variable, asked)| (*variable, asked) != (read.variable, &spans));
        let known = self.of_announced(read, link);
        if self.tracks.len() >= TRACKS && !self.tracks.contains_key(&read.variable) {
            self.tracks.clear();
        }
        let track = self.tracks.entry(read.variable).or_default();
        let came_true = track.observe(&spans, read.shape, read.has_steps);
        let jumped = !came_true && known.is_none() && self.asked.iter().any(|(of, _)| *of == read.variable);
        if jumped {
            self.asked.retain(|(variable, _)| *variable != read.variable);
        }
        let found = match known {
            Some(boxes) => boxes,
            None => {
                let most = depth(&spans, read.item, self.computes, link).min(track.trusted());
                track.ahead(most, read.shape, read.has_steps)
            }
        };
        let mut fresh = Vec::new();
        for spans in found {
            let asked = (read.variable, spans);
            if self.asked.contains(&asked) || self.asked.len() >= ASKED {
                continue;
            }
            fresh.push(from_spans(&asked.1));
            self.asked.push_back(asked);
        }
        Ahead { boxes: fresh, jumped }
    }

    /// The next announced pieces, if this is one of them.
    fn of_announced(&mut self, read: &Begun<'_>, link: &Link) -> Option<Vec<Spans>> {
        let announced = self.announced.as_mut().filter(|one| one.variable == read.variable)?;
        let (from, len) = (announced.next, announced.pieces.len());
        let piece = |n: u64| announced.pieces.get(n).map(|(_, piece)| piece);
        let found = (from..len.min(from + SKIPPED)).find(|n| piece(*n).as_ref() == Some(read.cells));
        let Some(at) = found else {
            self.announced = None;
            return None;
        };
        let spans = to_spans(read.cells)?;
        let most = depth(&spans, read.item, self.computes, link) as u64;
        let boxes = (at + 1..len.min(at + 1 + most)).filter_map(|n| to_spans(&piece(n)?)).collect();
        announced.next = at + 1;
        if announced.next >= len {
            self.announced = None;
        }
        Some(boxes)
    }
}

/// How many boxes are prefetched: those that the link needs to be in time for a reader that computes `computes` seconds
/// per box, within the link's room.
pub fn depth(spans: &Spans, item: u64, computes: f64, link: &Link) -> usize {
    let bytes = boxes::cells(spans).saturating_mul(item).max(1);
    let transfer = bytes as f64 / link.bandwidth.max(1.0);
    // The reader wants a box this often. Requests for several are under way, so that not every box waits for the
    // latency.
    let every = computes.max(transfer).max(1e-6);
    let wanted = ((link.latency + transfer) / every).ceil() + 1.0;
    (wanted as u64).min(link.room / bytes).min(ASKED as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tiles::Grain;

    const LINK: Link = Link { latency: 30e-3, bandwidth: 125e6, room: 64 << 20 };

    fn begun<'a>(cells: &'a Selection, shape: &'a [u64], has_steps: bool) -> Begun<'a> {
        Begun { variable: 1, cells, shape, has_steps, item: 4, computed: Some(0.01) }
    }

    /// Reads boxes in order; returns which of them were predicted before they were read, and how many bytes were
    /// predicted in vain.
    fn run(boxes: &[Selection], shape: &[u64], has_steps: bool) -> (Vec<bool>, u64) {
        let mut predictor = Predictor::default();
        let mut ahead: Vec<Selection> = Vec::new();
        let mut hits = Vec::new();
        for cells in boxes {
            hits.push(ahead.contains(cells));
            ahead.retain(|one| one != cells);
            ahead.extend(predictor.boxes(&begun(cells, shape, has_steps), &LINK).boxes);
        }
        (hits, ahead.iter().filter_map(Selection::cells).sum::<u64>() * 4)
    }

    fn share(hits: &[bool]) -> f64 {
        let later = &hits[2..];
        later.iter().filter(|hit| **hit).count() as f64 / later.len() as f64
    }

    /// Tiles of `edge` cells of a plane with a halo, clipped at the plane's edges, row by row.
    fn tiles(n: u64, edge: u64, halo: u64) -> Vec<Selection> {
        let span = |k: u64| {
            let start = (k * edge).saturating_sub(halo);
            (start, ((k + 1) * edge + halo).min(n) - start)
        };
        let each = n.div_ceil(edge);
        let tile = |(y, x): (u64, u64)| Selection::boxed(&[span(y).0, span(x).0], &[span(y).1, span(x).1]);
        (0..each).flat_map(|y| (0..each).map(move |x| (y, x))).map(tile).collect()
    }

    #[test]
    fn rasters_of_tiles_are_predicted_with_and_without_halos_in_both_directions() {
        for halo in [0, 1, 2] {
            let mut all = tiles(512, 64, halo);
            let (hits, _) = run(&all, &[512, 512], false);
            assert!(share(&hits) >= 0.95, "halo {halo}: {hits:?}");
            all.reverse();
            let (hits, _) = run(&all, &[512, 512], false);
            assert!(share(&hits) >= 0.95, "backwards, halo {halo}: {hits:?}");
        }
    }

    #[test]
    fn steps_are_predicted_in_both_directions_and_with_a_stride() {
        let step = |t: u64| Selection::boxed(&[t, 0, 128], &[1, 256, 64]);
        for steps in
            [(0..50).collect::<Vec<u64>>(), (0..50).rev().collect(), (0..50).map(|t| 3 * t).collect()]
        {
            let boxes: Vec<Selection> = steps.iter().map(|t| step(*t)).collect();
            let (hits, _) = run(&boxes, &[200, 256, 256], true);
            // A stride is trusted once it was seen twice.
            assert!(hits[3..].iter().all(|hit| *hit), "{steps:?}: {hits:?}");
        }
        let (hits, _) = run(&(0..50).map(step).collect::<Vec<_>>(), &[200, 256, 256], true);
        assert!(hits[2..].iter().all(|hit| *hit), "from the third access on");
    }

    #[test]
    fn a_raster_within_a_raster_is_learnt_at_its_first_return() {
        // All tiles of a region that ends inside the array, at each step.
        let mut boxes = Vec::new();
        for t in 0..6 {
            for y in 2..6 {
                for x in 1..5 {
                    boxes.push(Selection::boxed(&[t, 32 * y, 32 * x], &[1, 32, 32]));
                }
            }
        }
        let (hits, wasted) = run(&boxes, &[6, 512, 512], true);
        assert!(share(&hits[16..]) >= 0.95, "{hits:?}");
        assert!(wasted <= 10 * 32 * 32 * 4, "{wasted}: the ends of the first rows were not known");
    }

    #[test]
    fn random_reads_are_hardly_predicted() {
        let mut random = crate::random::Random(5);
        let mut boxes = Vec::new();
        for _ in 0..400 {
            let (y, x) = (random.below(16), random.below(16));
            boxes.push(Selection::boxed(&[32 * y, 32 * x], &[32, 32]));
        }
        let mut predictor = Predictor::default();
        let mut said = 0;
        for cells in &boxes {
            said += predictor.boxes(&begun(cells, &[512, 512], false), &LINK).boxes.len();
        }
        assert!(said <= 20, "{said} of 400 is more than 5 %");
    }

    #[test]
    fn announced_pieces_are_known_before_anything_was_read() {
        let all = Selection::all(&[512, 512]);
        let grain = [Grain { phase: 0, length: 128 }; 2];
        let pieces = Tiles::new(&all, &grain, 128 * 512);
        let mut predictor = Predictor::default();
        predictor.announce(1, pieces.clone());
        let mut ahead: Vec<Selection> = Vec::new();
        for n in 0..pieces.len() {
            let (_, piece) = pieces.get(n).expect("there are as many");
            assert_eq!(n > 0, ahead.contains(&piece), "piece {n}");
            ahead.extend(predictor.boxes(&begun(&piece, &[512, 512], false), &LINK).boxes);
        }
        assert_eq!(ahead.len() as u64, pieces.len() - 1, "each is said once");
    }

    #[test]
    fn the_depth_is_what_the_link_needs_within_its_room() {
        let spans = to_spans(&Selection::boxed(&[0, 0], &[1, 125_000])).expect("a box");
        assert_eq!(depth(&spans, 1, 0.1, &LINK), 2, "computing takes longer than the link");
        assert_eq!(
            depth(&spans, 1, 0.0, &LINK),
            32,
            "31 transfers of 1 ms take as long as one with its latency"
        );
        assert_eq!(depth(&spans, 1, 0.0, &Link { room: 300_000, ..LINK }), 2);
        assert_eq!(depth(&spans, 1, 0.1, &Link { room: 100_000, ..LINK }), 0);
    }
}
