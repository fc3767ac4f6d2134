//! Minimum, maximum and NaN count of a payload, in one pass at memory speed.
//!
//! Extremes are stored as 8-byte patterns, so that every kind has one form in an index: signed integers as `i64`,
//! unsigned ones and booleans as `u64`, all floats as `f64` (which represents each of them exactly).
//!
//! Invariants
//! - NaN is never an extreme; if all values are NaN there are no extremes;
//! - -0.0 lies below +0.0, so equal data gives equal bits whatever the order of the scan;
//! - merging the statistics of the parts gives those of the whole.

pub(crate) mod class;
pub mod histogram;
mod scalar;
mod scan;

pub(crate) use scalar::{Bf16, F16, Scalar};

/// The kind of a payload's scalars. All are little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum ScalarKind {
    /// One byte; every value except 0 is true.
    Bool,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    /// IEEE 754 half precision.
    F16,
    /// The upper half of an `F32`.
    BF16,
    F32,
    F64,
    /// Kinds without an order; statistics stay empty.
    Other,
}

/// How the 8-byte patterns of a kind are decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Domain {
    /// As `i64`.
    Signed,
    /// As `u64`.
    Unsigned,
    /// As the bits of an `f64`.
    Float,
}

impl ScalarKind {
    /// Bytes of one scalar; 1 for `Other`.
    pub fn size(self) -> usize {
        use ScalarKind::*;
        match self {
            Bool | I8 | U8 | Other => 1,
            I16 | U16 | F16 | BF16 => 2,
            I32 | U32 | F32 => 4,
            I64 | U64 | F64 => 8,
        }
    }

    /// The least normal number of a kind of float; 0 for other kinds.
    pub fn least_normal(self) -> f64 {
        let exponent = match self {
            ScalarKind::F16 => -14,
            ScalarKind::BF16 | ScalarKind::F32 => -126,
            ScalarKind::F64 => -1022,
            _ => return 0.0,
        };
        2f64.powi(exponent)
    }

    /// How [`Stats::min`] and [`Stats::max`] are decoded; `None` for kinds that have none.
    pub fn domain(self) -> Option<Domain> {
        use ScalarKind::*;
        match self {
            I8 | I16 | I32 | I64 => Some(Domain::Signed),
            Bool | U8 | U16 | U32 | U64 => Some(Domain::Unsigned),
            F16 | BF16 | F32 | F64 => Some(Domain::Float),
            Other => None,
        }
    }
}

impl Domain {
    /// Maps the patterns of this domain to integers in the same order.
    pub(crate) fn order(self, bits: u64) -> u64 {
        const SIGN: u64 = 1 << 63;
        match self {
            Domain::Unsigned => bits,
            Domain::Signed => bits ^ SIGN,
            Domain::Float if bits & SIGN != 0 => !bits,
            Domain::Float => bits ^ SIGN,
        }
    }
}

/// The least and greatest magnitude of the numbers of a decoded subchunk, as far as known.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Magnitudes {
    pub least: f64,
    pub greatest: f64,
}

impl Magnitudes {
    /// The magnitudes of unknown numbers.
    pub const ANY: Magnitudes = Magnitudes { least: 0.0, greatest: f64::INFINITY };

    /// Magnitudes of numbers between two extremes, given as patterns of a kind. Without extremes there are no numbers
    /// but NaNs, if any.
    pub fn between(kind: ScalarKind, min_max: Option<(u64, u64)>, nans: u64) -> Magnitudes {
        let number = |bits: u64| match kind.domain() {
            Some(Domain::Float) => f64::from_bits(bits),
            _ => f64::NAN,
        };
        match min_max.map(|(min, max)| (number(min), number(max))) {
            Some((min, max)) if min <= max => Magnitudes {
                least: if min > 0.0 || max < 0.0 { min.abs().min(max.abs()) } else { 0.0 },
                greatest: min.abs().max(max.abs()),
            },
            None if nans > 0 => Magnitudes { least: 0.0, greatest: 0.0 },
            _ => Magnitudes::ANY,
        }
    }
}

/// Statistics of any number of scalars of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Least value as an 8-byte pattern; `None` if there is no value but NaN.
    pub min: Option<u64>,
    /// Greatest value as an 8-byte pattern; `None` if there is no value but NaN.
    pub max: Option<u64>,
    /// Number of scalars that are NaN.
    pub nans: u64,
    /// Number of scalars, NaN included.
    pub count: u64,
}

impl Stats {
    /// Statistics of one payload.
    pub fn of(kind: ScalarKind, bytes: &[u8]) -> Stats {
        let mut stats = Stats::default();
        stats.update(kind, bytes);
        stats
    }

    /// Adds the scalars in `bytes`; an incomplete scalar at the end is ignored.
    pub fn update(&mut self, kind: ScalarKind, bytes: &[u8]) {
        let scanned = match kind {
            ScalarKind::Bool => {
                let seen = scan::scan::<u8>(bytes);
                Stats {
                    min: seen.min.map(|m| u64::from(m != 0)),
                    max: seen.max.map(|m| u64::from(m != 0)),
                    ..seen
                }
            }
            ScalarKind::I8 => scan::scan::<i8>(bytes),
            ScalarKind::I16 => scan::scan::<i16>(bytes),
            ScalarKind::I32 => scan::scan::<i32>(bytes),
            ScalarKind::I64 => scan::scan::<i64>(bytes),
            ScalarKind::U8 => scan::scan::<u8>(bytes),
            ScalarKind::U16 => scan::scan::<u16>(bytes),
            ScalarKind::U32 => scan::scan::<u32>(bytes),
            ScalarKind::U64 => scan::scan::<u64>(bytes),
            ScalarKind::F16 => scan::scan::<F16>(bytes),
            ScalarKind::BF16 => scan::scan::<Bf16>(bytes),
            ScalarKind::F32 => scan::scan::<f32>(bytes),
            ScalarKind::F64 => scan::scan::<f64>(bytes),
            ScalarKind::Other => return,
        };
        self.merge(kind, &scanned);
    }

    /// Adds the statistics of another payload; both are of `kind`.
    pub fn merge(&mut self, kind: ScalarKind, other: &Stats) {
        let Some(domain) = kind.domain() else { return };
        self.min = self.min.into_iter().chain(other.min).min_by_key(|&bits| domain.order(bits));
        self.max = self.max.into_iter().chain(other.max).max_by_key(|&bits| domain.order(bits));
        self.nans = self.nans.saturating_add(other.nans);
        self.count = self.count.saturating_add(other.count);
    }
}
