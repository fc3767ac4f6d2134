//! Properties of the processor other than its instruction sets: the size of the shared cache, and differences between
//! makers. They are detected once.
//!
//! Why not one loop for all: prefetching before stores to every other 8 bytes takes 0.87 of the time on a Xeon, and 1.1
//! to 1.2 times as long on an EPYC (Zen 5). No loop was best on both.
//!
//! Invariant: a property only chooses among loops that are correct on every processor.

use std::sync::OnceLock;

/// The detected properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Processor {
    /// Destinations of at least this many bytes are assumed not to be in a shared cache.
    pub(super) uncached: usize,
    /// Prefetch distance of short elements in the cache, in elements.
    pub(super) elements_ahead: isize,
    /// Whether short elements are prefetched from any source. On Zen 5, loops that prefetch take 1.05 to 1.25 times as
    /// long from memory, and up to 1.7 times from a processor's own caches.
    pub(super) prefetches_far: bool,
    /// Whether lines that hold one short element each are prefetched before they are written, in any destination and at
    /// any distance. On Zen 5 such loops take 1.05 to 1.5 times as long, except those for which [`owns`](Self::owns) is
    /// true.
    pub(super) prefetches_owned: bool,
    /// Whether lines that several elements share are prefetched before they are written.
    pub(super) prefetches_shared: bool,
    /// The elements for which that is done in destinations in memory.
    pub(super) sharing: Sharing,
    /// Whether elements gathered from memory, if one byte of eight is wanted, bypass the caches instead of being
    /// written to prefetched lines: on Zen 5 this is 1.15 to 1.2 times as fast.
    pub(super) bypasses_for_sparse: bool,
    /// Whether elements of 4 bytes, two to a line, and less than 64 KiB of elements of 8 bytes are read from the cache
    /// one or two at a time and not by registers: on Zen 5 this is 1.0 to 1.2 times as fast, and up to 1.5 times for 8
    /// bytes.
    pub(super) takes_pairs_singly: bool,
    /// Whether elements of 1 to 4 bytes are scattered by registers, with prefetching, also if only one byte in five to
    /// eight is written (for 4 bytes one in five, into memory one in seven). On Zen 5, where masked stores wait for
    /// lines that no near cache holds, this is 1.2 to 4 times as fast in the cache as one by one, and 1.0 to 1.2 times
    /// from memory. Without prefetching it was 0.5 to 0.8 times there.
    pub(super) scatters_widely: bool,
    /// Whether a loop with one load reads elements of 16 bytes from memory faster than one with eight.
    pub(super) prefers_one_load: bool,
    /// Whether a loop of one load or two that prefetches destination lines is faster for elements of 16 bytes
    /// from a cache.
    pub(super) gathers_stepping: bool,
    /// Runs of at least this many bytes, with gaps, in memory bypass the caches, except for the lines in which they
    /// begin and end.
    pub(super) ends_from: usize,
    /// Whether rows of some lines are moved faster by 64-byte registers, whose loads and stores cross lines, than by
    /// stores that do not.
    pub(super) rows_in_registers: bool,
}

/// Elements whose destination lines are prefetched in memory if several share a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sharing {
    /// Bytes of the shortest and the longest of these elements.
    pub(super) elements: (usize, usize),
    /// The largest distance between them in the destination.
    pub(super) apart: usize,
    /// Prefetch distance in bytes, or 64 elements if that is less.
    pub(super) ahead: Option<isize>,
    /// Whether this also pays if the destination may be in the shared cache.
    pub(super) in_cache: bool,
}

/// Half of the cache that processors share is the limit, within these bounds. Measured with runs of 256 to 4096 bytes,
/// repeatedly into one buffer: stores past the caches take 0.6 to 1.4 of the time of prefetching lines in 64 MiB and
/// 0.8 to 2.5 in 8 to 48 MiB (105 MiB shared); they take 0.6 to 0.75 in 16 MiB and 1.1 in 8 MiB (32 MiB shared).
const UNCACHED: std::ops::RangeInclusive<usize> = 8 << 20..=64 << 20;

impl Processor {
    /// An unknown processor.
    const ANY: Processor = Processor {
        uncached: if cfg!(miri) { 8 << 10 } else { *UNCACHED.end() },
        elements_ahead: 64,
        prefetches_far: true,
        prefetches_owned: true,
        prefetches_shared: true,
        sharing: Sharing { elements: (4, 16), apart: usize::MAX, ahead: None, in_cache: true },
        bypasses_for_sparse: false,
        takes_pairs_singly: false,
        scatters_widely: false,
        prefers_one_load: true,
        gathers_stepping: false,
        ends_from: 192,
        rows_in_registers: false,
    };

    /// The properties of a maker's processors, given the size of the cache that cores share (0 if unknown) and whether
    /// registers hold a line.
    pub(super) fn new(amd: bool, shared_cache: usize, registers: bool) -> Processor {
        let uncached = match shared_cache {
            0 => Self::ANY.uncached,
            bytes => (bytes / 2).clamp(*UNCACHED.start(), *UNCACHED.end()),
        };
        match amd {
            true => Processor {
                uncached,
                elements_ahead: 32,
                prefetches_far: false,
                prefetches_owned: false,
                prefetches_shared: false,
                sharing: Sharing { elements: (2, 4), apart: 31, ahead: Some(2048), in_cache: false },
                bypasses_for_sparse: true,
                takes_pairs_singly: true,
                scatters_widely: true,
                prefers_one_load: false,
                gathers_stepping: true,
                ends_from: 128,
                rows_in_registers: registers,
            },
            false => Processor { uncached, ..Self::ANY },
        }
    }

    /// Whether destination lines of elements of up to 16 bytes at this distance are prefetched in a shared cache.
    ///
    /// Measured with 1 to 8 bytes, 64 to 128 bytes apart, in 1 to 4 MiB (Zen 5): 0.9 to 1.2 times as fast, mostly 1.1.
    /// In smaller or larger buffers, and from distances of 256 bytes on, 0.65 to 1.0 times.
    pub(super) fn owns(&self, elem: usize, apart: usize) -> bool {
        self.prefetches_owned || elem <= 8 && apart <= 128
    }

    /// The processor that runs this.
    pub(super) fn this() -> &'static Processor {
        static THIS: OnceLock<Processor> = OnceLock::new();
        THIS.get_or_init(found)
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
fn found() -> Processor {
    let amd = matches!(&hardware::maker(), b"AuthenticAMD" | b"HygonGenuine");
    Processor::new(amd, hardware::shared_cache(amd), permutes())
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn found() -> Processor {
    Processor::new(false, 0, false)
}

/// Whether the processor can permute bytes across a register.
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(super) fn permutes() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vbmi")
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
pub(super) fn permutes() -> bool {
    false
}

/// The properties that the processor reports.
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod hardware {
    use std::arch::x86_64::{__cpuid, __cpuid_count};

    /// The maker's twelve letters.
    pub(super) fn maker() -> [u8; 12] {
        let found = __cpuid(0);
        let mut letters = [0; 12];
        for (at, part) in [found.ebx, found.edx, found.ecx].into_iter().enumerate() {
            letters[4 * at..4 * at + 4].copy_from_slice(&part.to_le_bytes());
        }
        letters
    }

    /// Bytes of the third-level cache; 0 if it is not reported.
    pub(super) fn shared_cache(amd: bool) -> usize {
        const CACHES: u32 = 4;
        const AMD_CACHES: u32 = 0x8000_001D;
        let (leaf, last) = match amd {
            true => (AMD_CACHES, __cpuid(0x8000_0000).eax),
            false => (CACHES, __cpuid(0).eax),
        };
        if last < leaf {
            return 0;
        }
        // Visits one level after the other until one does not exist; there are only a few.
        (0..8)
            .map(|k| __cpuid_count(leaf, k))
            .take_while(|cache| cache.eax & 0x1F != 0)
            .filter(|cache| cache.eax >> 5 & 7 == 3)
            .map(|cache| {
                let (line, parts, ways) = (cache.ebx & 0xFFF, cache.ebx >> 12 & 0x3FF, cache.ebx >> 22);
                [line, parts, ways, cache.ecx].iter().map(|&less_one| less_one as usize + 1).product()
            })
            .next()
            .unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_a_shared_cache_is_where_stores_go_past_it() {
        let uncached = |mebibytes: usize| Processor::new(false, mebibytes << 20, true).uncached >> 20;
        assert_eq!([0, 8, 32, 105, 512].map(uncached), [64, 8, 16, 52, 64]);
    }

    #[test]
    fn properties_follow_the_maker_and_registers_the_processor() {
        assert!(!Processor::new(false, 32 << 20, true).rows_in_registers);
        assert!(Processor::new(true, 32 << 20, true).rows_in_registers);
        assert!(!Processor::new(true, 32 << 20, false).rows_in_registers);
        assert_eq!(Processor::new(false, 0, true), Processor::ANY);
    }

    #[cfg(all(target_arch = "x86_64", target_os = "linux", not(miri)))]
    #[test]
    fn the_shared_cache_is_as_large_as_the_system_says() {
        let told = std::fs::read_to_string("/sys/devices/system/cpu/cpu0/cache/index3/size");
        let Some(kibibytes) = told.ok().and_then(|told| told.trim().strip_suffix('K')?.parse::<usize>().ok())
        else {
            return;
        };
        let amd = matches!(&hardware::maker(), b"AuthenticAMD" | b"HygonGenuine");
        let found = hardware::shared_cache(amd) >> 10;
        // A virtual machine may report it differently.
        assert!([0, kibibytes].contains(&found), "{found} KiB, the system says {kibibytes}");
    }
}
