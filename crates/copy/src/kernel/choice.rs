//! Chooses the loop that suits a copy. The choice is made once per copy, from values alone, so that it can be printed
//! and tested.
//!
//! Invariant: every choice is correct for every shape for which it can be made; it affects only the speed. Measurements
//! are documented beside the loops.

use super::element::Lines;
use super::few_loads;
use super::plane::{Kernel, LinePrefetch};
use super::processor::{Processor, Sharing};
use super::stream::{self, LINE};
use super::strided::{self, LONGEST_PREFETCHED};
#[cfg(all(target_arch = "x86_64", not(miri)))]
use super::{rows, wide};

/// Where the elements of the innermost loop lie in the destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Places {
    /// Adjacent, and every row begins at a multiple of 16 bytes.
    Packed,
    /// In any other order, mostly adjacent; the loop must not rely on that.
    Dense,
    /// With gaps, several elements in a cache line.
    Sharing,
    /// With gaps, at most one short element in a cache line; `whole`: each element is a whole number of lines.
    Apart { whole: bool },
}

/// The size class of a destination, if the copy is so long that this matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Target {
    /// Fits in a processor's own caches.
    Cached,
    /// Fits in the shared cache.
    Shared,
    /// Too large for caching to pay.
    Far,
    /// Larger than the shared cache.
    Memory,
}

impl Target {
    /// The size class for a copy of `copied` bytes into a buffer of this size.
    pub(super) fn of(copied: u64, buffer: usize, processor: &Processor) -> Target {
        let long = stream::AVAILABLE && copied >= stream::FAR_COPY;
        match long {
            true if buffer >= stream::FAR_BUFFER.max(processor.uncached) => Target::Memory,
            true if buffer >= stream::FAR_BUFFER => Target::Far,
            true if buffer >= stream::UNCACHED_BUFFER => Target::Shared,
            _ => Target::Cached,
        }
    }

    /// Whether stores may bypass the caches.
    pub(super) fn is_far(self) -> bool {
        self >= Target::Far
    }
}

/// Adjacent rows of more bytes than this bypass the caches, two rows at a time.
const SHORT_ROW: usize = 4 * LINE;

/// The inputs of a choice.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Bytes of an element, at least 1.
    pub(super) elem: usize,
    /// Bytes from one element of the innermost loop to the next in the source, in absolute value.
    pub(super) reach: usize,
    /// The same in the destination.
    pub(super) apart: usize,
    pub(super) places: Places,
    /// Whether the source is likely to be in a processor's own cache.
    pub(super) near: bool,
    pub(super) target: Target,
}

/// A loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// Short elements by 64-byte registers.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    Windows(wide::Windowed),
    /// Rows of some lines, by 64-byte registers.
    Rows(LinePrefetch),
    /// The same for adjacent rows, past the caches, two rows side by side.
    RowsPast,
    /// One element after the other.
    Plain,
    /// Rows of some lines by moves of 16 bytes, prefetched.
    Lines { near: bool },
    /// Elements of 16 bytes, by a loop with one load.
    OneLoad,
    /// The same to adjacent places in a cache, by a loop with one load or two that prefetches destination lines.
    Stepping,
    /// Prefetches lines that elements share.
    Sharing,
    /// Prefetches all destination lines.
    Owning,
    /// Whole lines past the caches; prefetches those in which runs begin and end.
    Ending,
    /// Past the caches; prefetches runs of the source.
    Prefetching { packed: bool },
    /// Past the caches, 4 or 8 bytes gathered into 16.
    PackedElements,
    /// Past the caches, multiples of 16 bytes.
    Packed,
    /// Past the caches, whole lines of each run.
    Streamed,
}

impl Choice {
    /// The loop for a shape that windows in 64-byte registers do not suit.
    pub(super) fn of(shape: &Shape, processor: &Processor) -> Choice {
        let Shape { places, target, .. } = *shape;
        match places {
            Places::Apart { whole: true } if target.is_far() => Choice::Streamed,
            Places::Apart { .. } if target.is_far() => shape.apart(target, processor),
            _ if shape.suits_rows_past(processor) => Choice::RowsPast,
            _ if shape.suits_rows(processor) => shape.rows(),
            _ if target.is_far() && shape.suits_one_load(processor) => Choice::OneLoad,
            _ if !target.is_far() && shape.suits_stepping(processor) => Choice::Stepping,
            Places::Sharing if target.is_far() && shape.shares(processor) => Choice::Sharing,
            _ if target.is_far() => shape.past(),
            Places::Apart { .. } if target == Target::Shared && shape.owns(processor) => Choice::Owning,
            _ => shape.plain(),
        }
    }

    /// The kernel for elements of `elem` bytes.
    pub(super) fn kernel(self, elem: usize) -> Kernel {
        match self {
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            Choice::Windows(windowed) => windowed.kernel(),
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            Choice::Rows(prefetched) => rows::kernel(prefetched),
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            Choice::RowsPast => rows::past_kernel(),
            #[cfg(not(all(target_arch = "x86_64", not(miri))))]
            Choice::Rows(_) | Choice::RowsPast => strided::plain_kernel(elem),
            Choice::Plain => strided::plain_kernel(elem),
            Choice::Lines { near } => strided::lines_kernel(near),
            Choice::OneLoad => few_loads::rolled_kernel(),
            Choice::Stepping => few_loads::run_stepping,
            Choice::Sharing => strided::sharing_kernel(elem),
            Choice::Owning => strided::owning_kernel(elem),
            Choice::Ending => strided::run_ending,
            Choice::Prefetching { packed } => strided::prefetching_kernel(packed),
            Choice::PackedElements => strided::packed_elements_kernel(elem),
            Choice::Packed => strided::packed_kernel(),
            Choice::Streamed => strided::streamed_kernel(),
        }
    }
}

impl Shape {
    /// The choice for elements with gaps in a far destination.
    fn apart(&self, target: Target, processor: &Processor) -> Choice {
        match self.elem {
            _ if self.elem <= 16 && !processor.prefetches_owned => Choice::Plain,
            ..=LONGEST_PREFETCHED if target == Target::Far => Choice::Owning,
            long if long >= processor.ends_from => Choice::Ending,
            _ => Choice::Owning,
        }
    }

    /// Whether rows are moved by 64-byte registers, on processors where that is fast: in the cache, unless they are
    /// short and near; from memory, where useless hardware prefetches cost more than stores past the caches save.
    fn suits_rows(&self, processor: &Processor) -> bool {
        let far = self.target.is_far();
        let shortest = if self.near && !far { 3 * LINE } else { 2 * LINE };
        let wasteful = self.elem <= SHORT_ROW && self.dense() && self.reach >= 3 * self.elem;
        processor.rows_in_registers && self.elem >= shortest && (!far || wasteful)
    }

    /// Whether adjacent rows of some lines bypass the caches, two of them side by side.
    fn suits_rows_past(&self, processor: &Processor) -> bool {
        processor.rows_in_registers
            && self.target.is_far()
            && self.dense()
            && (SHORT_ROW + 1..=LONGEST_PREFETCHED).contains(&self.elem)
    }

    /// The choice for rows: by registers, or by `memcpy` if they are long.
    fn rows(&self) -> Choice {
        match self.target.is_far() {
            true => Choice::Rows(LinePrefetch::IntoMemory),
            false if self.elem > Lines::LONGEST => Choice::Plain,
            false if self.near => Choice::Rows(LinePrefetch::Not),
            false => Choice::Rows(LinePrefetch::IntoCache),
        }
    }

    /// The choice for elements without gaps, or in a near destination.
    fn past(&self) -> Choice {
        let Shape { elem, reach, .. } = *self;
        let packed = self.places == Places::Packed;
        let sixteens = elem.is_multiple_of(16);
        let asks = reach >= elem + LINE && (2 * LINE..=LONGEST_PREFETCHED).contains(&elem);
        match elem {
            // Reading is most of the work, and stores past the caches delay it. Plain stores are 1.1 to 1.4 times as
            // fast for elements of 16 to 256 bytes at distances of 5 to 8 times their size.
            ..=256 if self.sparse() => self.plain(),
            _ if asks => Choice::Prefetching { packed: packed && sixteens },
            4 | 8 if packed => Choice::PackedElements,
            _ if packed && sixteens => Choice::Packed,
            _ if elem >= 2 * LINE => Choice::Streamed,
            _ => self.plain(),
        }
    }

    /// The choice for elements in a destination without a usable order.
    fn plain(&self) -> Choice {
        match self.elem {
            128..=Lines::LONGEST => Choice::Lines { near: self.near },
            _ => Choice::Plain,
        }
    }

    fn dense(&self) -> bool {
        matches!(self.places, Places::Packed | Places::Dense)
    }

    /// Whether elements are read from separate lines, which the hardware prefetcher predicts best for a single load.
    fn suits_one_load(&self, processor: &Processor) -> bool {
        self.elem == 16 && self.reach >= 2 * LINE && processor.prefers_one_load
    }

    /// Whether elements from at least two lines apart become adjacent in the destination, by a loop of few loads.
    fn suits_stepping(&self, processor: &Processor) -> bool {
        self.elem == 16 && self.dense() && self.reach >= 2 * LINE && processor.gathers_stepping
    }

    /// Whether the lines of elements with gaps are prefetched in a shared cache.
    fn owns(&self, processor: &Processor) -> bool {
        self.elem <= LONGEST_PREFETCHED && (self.elem > 16 || processor.owns(self.elem, self.apart))
    }

    /// Whether the shared lines of elements of this size are prefetched.
    fn shares(&self, processor: &Processor) -> bool {
        let Sharing { elements, apart, in_cache, .. } = processor.sharing;
        let far = in_cache || self.target == Target::Memory;
        far && (elements.0..=elements.1).contains(&self.elem) && self.apart <= apart
    }

    /// Whether most of what is read is useless: at most one byte of five is wanted, or one short element in two lines.
    fn sparse(&self) -> bool {
        self.reach >= 5 * self.elem || self.elem < LINE && self.reach >= 2 * LINE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(amd: bool, shape: &Shape) -> String {
        format!("{:?}", Choice::of(shape, &Processor::new(amd, 32 << 20, true)))
    }

    #[test]
    fn the_loop_follows_from_the_shape_and_the_processor() {
        use Places::{Dense, Packed, Sharing};
        use Target::{Cached, Far, Memory, Shared};
        let apart = Places::Apart { whole: false };
        let whole = Places::Apart { whole: true };
        for ((elem, reach, apart), places, near, target, amd, other) in [
            ((8, 64, 8), Dense, true, Cached, "Plain", "Plain"),
            ((8, 8, 128), apart, true, Shared, "Owning", "Owning"),
            ((8, 8, 256), apart, true, Shared, "Plain", "Owning"),
            ((16, 16, 128), apart, true, Shared, "Plain", "Owning"),
            ((8, 8, 64), apart, false, Far, "Plain", "Owning"),
            ((16, 16, 512), apart, false, Memory, "Plain", "Owning"),
            ((8, 8, 16), Sharing, false, Far, "Plain", "Sharing"),
            ((4, 4, 24), Sharing, false, Far, "Plain", "Sharing"),
            ((4, 4, 24), Sharing, false, Memory, "Sharing", "Sharing"),
            ((2, 2, 16), Sharing, false, Memory, "Sharing", "Plain"),
            ((4, 4, 32), Sharing, false, Memory, "Plain", "Sharing"),
            ((4, 4, 32), Sharing, false, Shared, "Plain", "Plain"),
            ((8, 24, 8), Packed, false, Far, "PackedElements", "PackedElements"),
            ((16, 112, 16), Dense, true, Cached, "Plain", "Plain"),
            ((16, 128, 16), Dense, true, Cached, "Stepping", "Plain"),
            ((16, 4096, 16), Packed, false, Shared, "Stepping", "Plain"),
            ((16, 128, 16), Dense, false, Far, "Plain", "OneLoad"),
            ((48, 96, 48), Packed, false, Memory, "Packed", "Packed"),
            ((128, 256, 128), Dense, true, Cached, "Lines { near: true }", "Lines { near: true }"),
            ((256, 512, 256), Dense, true, Cached, "Rows(Not)", "Lines { near: true }"),
            ((256, 512, 256), Dense, false, Cached, "Rows(IntoCache)", "Lines { near: false }"),
            (
                (256, 512, 256),
                Packed,
                false,
                Far,
                "Prefetching { packed: true }",
                "Prefetching { packed: true }",
            ),
            ((256, 768, 256), Packed, false, Far, "Rows(IntoMemory)", "Prefetching { packed: true }"),
            ((256, 2048, 256), Dense, false, Far, "Rows(IntoMemory)", "Lines { near: false }"),
            ((272, 544, 272), Dense, false, Far, "RowsPast", "Prefetching { packed: false }"),
            ((1024, 2048, 1024), Packed, false, Far, "RowsPast", "Prefetching { packed: true }"),
            ((4096, 8192, 4096), Dense, false, Memory, "RowsPast", "Prefetching { packed: false }"),
            ((8192, 16384, 8192), Packed, false, Far, "Packed", "Packed"),
            ((256, 256, 256), Dense, false, Far, "Streamed", "Streamed"),
            ((256, 256, 512), apart, false, Far, "Owning", "Owning"),
            ((128, 128, 256), apart, false, Memory, "Ending", "Owning"),
            ((256, 256, 512), apart, false, Memory, "Ending", "Ending"),
            ((256, 256, 512), whole, false, Far, "Streamed", "Streamed"),
            ((4096, 4096, 8192), apart, true, Shared, "Plain", "Owning"),
            ((4096, 4096, 8192), apart, true, Cached, "Plain", "Plain"),
            ((8192, 8192, 16384), apart, false, Far, "Ending", "Ending"),
        ] {
            let shape = Shape { elem, reach, apart, places, near, target };
            let found = [true, false].map(|maker| chosen(maker, &shape));
            assert_eq!(found, [amd, other], "{shape:?}");
        }
    }

    #[test]
    fn a_target_is_as_far_as_its_size_and_that_of_the_copy() {
        let processor = Processor::new(false, 32 << 20, false);
        let targets = [1 << 10, 1 << 20, 4 << 20, 16 << 20].map(|len| Target::of(1 << 20, len, &processor));
        assert_eq!(targets, [Target::Cached, Target::Shared, Target::Far, Target::Memory]);
        assert_eq!(Target::of(1 << 10, 1 << 30, &processor), Target::Cached);
    }
}
