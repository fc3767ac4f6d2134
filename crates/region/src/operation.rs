//! Operations in transit: computations on the values of a box. Pure.
//!
//! A *local* operation computes cells of the result from cells of its source: it needs only a box of values. A
//! *reduction* has one result for a whole step; the parts of disjoint boxes are merged, in the order of their places.
//!
//! Invariants
//! - an operation has one text, and other spellings are refused;
//! - the result does not depend on the order in which boxes arrived.

use drystone::format::dtype::{DType, Scalar};
use drystone::{Error, Result};

use super::error::{invalid, unsupported};
use super::lease::Cells;

/// The most bins of a histogram.
const BINS: u64 = 1 << 16;

/// What is computed.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// The least value of a step.
    Min,
    /// The greatest value of a step.
    Max,
    /// The sum of a step.
    Sum,
    /// The mean of a step.
    Mean,
    /// The number of values of a step in each of several intervals of equal width; the last interval includes both
    /// ends.
    Histogram {
        /// Intervals.
        bins: u64,
        /// Where the first begins.
        low: f64,
        /// Where the last ends.
        high: f64,
    },
    /// Means of blocks with this edge.
    Downsample {
        /// Cells along each axis.
        factor: u64,
    },
    /// Every n-th cell along each axis.
    Stride {
        /// Cells from one to the next.
        by: u64,
    },
    /// Whether a value is above.
    Above {
        /// The threshold.
        value: f64,
    },
    /// The values as floats of 32 or 64 bits.
    Cast {
        /// The type.
        to: Scalar,
    },
}

/// The part of a reduction for one box.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Partial {
    /// Least or greatest value, or a sum; and the number of values.
    Number(f64, u64),
    /// Counts.
    Counts(Vec<u64>),
}

/// Cells of a result.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Computed {
    /// First cell.
    pub(super) offset: Vec<u64>,
    /// Extents.
    pub(super) count: Vec<u64>,
    /// Little-endian elements in C order.
    pub(super) bytes: Vec<u8>,
}

impl Operation {
    /// `NAME` or `NAME:KEY=VALUE,KEY=VALUE`.
    pub fn parse(text: &str) -> Result<Operation> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let mut values = Vec::new();
        for part in rest.split(',').filter(|part| !part.is_empty()) {
            let (key, value) =
                part.split_once('=').ok_or_else(|| wrong(text, "parameters are written KEY=VALUE"))?;
            values.push((key.trim(), value.trim()));
        }
        let keys: &[&str] = match name.trim() {
            "min" | "max" | "sum" | "mean" => &[],
            "histogram" => &["bins", "low", "high"],
            "downsample" => &["factor"],
            "stride" => &["by"],
            "above" => &["value"],
            "cast" => &["dtype"],
            _ => {
                return Err(wrong(
                    text,
                    "there are min, max, sum, mean, histogram, downsample, stride, above and cast",
                ));
            }
        };
        let mut found: Vec<&str> = values.iter().map(|(key, _)| *key).collect();
        found.sort_unstable();
        let mut wanted = keys.to_vec();
        wanted.sort_unstable();
        if found != wanted {
            return Err(wrong(text, &format!("{} takes {}", name.trim(), listed(keys))));
        }
        let value = |key: &str| values.iter().find(|(k, _)| *k == key).map_or("", |(_, value)| *value);
        let whole = |key: &str, most: u64| {
            let number = value(key).parse::<u64>().ok().filter(|n| (1..=most).contains(n));
            number.ok_or_else(|| wrong(text, &format!("{key} is a whole number from 1 to {most}")))
        };
        let real = |key: &str| {
            let number = value(key).parse::<f64>().ok().filter(|x| x.is_finite());
            number.ok_or_else(|| wrong(text, &format!("{key} is a finite number")))
        };
        Ok(match name.trim() {
            "min" => Operation::Min,
            "max" => Operation::Max,
            "sum" => Operation::Sum,
            "mean" => Operation::Mean,
            "histogram" => {
                let (bins, low, high) = (whole("bins", BINS)?, real("low")?, real("high")?);
                if low >= high {
                    return Err(wrong(text, "low lies below high"));
                }
                Operation::Histogram { bins, low, high }
            }
            "downsample" => Operation::Downsample { factor: whole("factor", 1 << 20)? },
            "stride" => Operation::Stride { by: whole("by", 1 << 20)? },
            "above" => Operation::Above { value: real("value")? },
            _ => match value("dtype") {
                "f4" | "float32" => Operation::Cast { to: Scalar::F32 },
                "f8" | "float64" => Operation::Cast { to: Scalar::F64 },
                _ => return Err(wrong(text, "dtype is f4 or f8")),
            },
        })
    }

    /// Whether it has one result for a whole step.
    pub(super) fn is_reduction(&self) -> bool {
        use Operation::{Histogram, Max, Mean, Min, Sum};
        matches!(self, Min | Max | Sum | Mean | Histogram { .. })
    }

    /// Type and shape of the result, for a source of this type and shape.
    pub(super) fn result(&self, dtype: &DType, shape: &[u64]) -> Result<(DType, Vec<u64>)> {
        let DType::Scalar(scalar) = *dtype else { return Err(unfit(dtype)) };
        element(scalar).ok_or_else(|| unfit(dtype))?;
        let coarse = |by: u64| shape.iter().map(|n| n.div_ceil(by)).collect();
        let (scalar, shape) = match self {
            Operation::Min | Operation::Max => (scalar, Vec::new()),
            Operation::Sum | Operation::Mean => (Scalar::F64, Vec::new()),
            Operation::Histogram { bins, .. } => (Scalar::U64, vec![*bins]),
            Operation::Downsample { factor } => {
                let float = if scalar == Scalar::F32 { Scalar::F32 } else { Scalar::F64 };
                (float, coarse(*factor))
            }
            Operation::Stride { by } => (scalar, coarse(*by)),
            Operation::Above { .. } => (Scalar::Bool, shape.to_vec()),
            Operation::Cast { to } => (*to, shape.to_vec()),
        };
        Ok((DType::Scalar(scalar), shape))
    }

    /// The part of a reduction for these values.
    pub(super) fn partial(&self, values: &[f64]) -> Partial {
        match self {
            Operation::Min => Partial::Number(extreme(values, |a, b| a < b), values.len() as u64),
            Operation::Max => Partial::Number(extreme(values, |a, b| a > b), values.len() as u64),
            Operation::Histogram { bins, low, high } => Partial::Counts(counted(values, *bins, *low, *high)),
            _ => Partial::Number(values.iter().sum(), values.len() as u64),
        }
    }

    /// The result of a reduction, from the parts of boxes in the order of their places.
    pub(super) fn merged(&self, parts: &[&Partial], of: &DType) -> Vec<u8> {
        let (mut counts, mut numbers, mut many) = (Vec::new(), Vec::new(), 0_u64);
        for part in parts {
            match part {
                Partial::Number(number, n) => {
                    numbers.push(*number);
                    many += n;
                }
                Partial::Counts(some) => {
                    counts.resize(some.len(), 0_u64);
                    counts.iter_mut().zip(some).for_each(|(all, n)| *all += n);
                }
            }
        }
        let number = match self {
            Operation::Histogram { .. } => return counts.iter().flat_map(|n| n.to_le_bytes()).collect(),
            Operation::Min => extreme(&numbers, |a, b| a < b),
            Operation::Max => extreme(&numbers, |a, b| a > b),
            Operation::Mean => numbers.iter().sum::<f64>() / many as f64,
            _ => numbers.iter().sum(),
        };
        let scalar = match (self, of) {
            (Operation::Min | Operation::Max, DType::Scalar(scalar)) => *scalar,
            _ => Scalar::F64,
        };
        encoded(&[number], scalar)
    }

    /// The result of a local operation for a box of a source with this shape; `None`: it contributes no cell of the
    /// result.
    pub(super) fn local(
        &self,
        cells: &Cells,
        shape: &[u64],
        dtype: &DType,
        values: &[f64],
    ) -> Result<Option<Computed>> {
        let (DType::Scalar(to), _) = self.result(dtype, shape)? else { return Ok(None) };
        let (offset, count) = (&cells.offset, &cells.count);
        let (by, is_mean) = match self {
            Operation::Downsample { factor } => (*factor, true),
            Operation::Stride { by } => (*by, false),
            Operation::Above { value } => {
                let bytes = values.iter().map(|x| u8::from(x > value)).collect();
                return Ok(Some(Computed { offset: offset.clone(), count: count.clone(), bytes }));
            }
            _ => {
                let bytes = encoded(values, to);
                return Ok(Some(Computed { offset: offset.clone(), count: count.clone(), bytes }));
            }
        };
        let cuts = |((at, n), all): ((&u64, &u64), &u64)| {
            !at.is_multiple_of(by) || (!n.is_multiple_of(by) && at + n < *all)
        };
        if is_mean && offset.iter().zip(count).zip(shape).any(cuts) {
            return Err(invalid(format!(
                "the box at {offset:?} of {count:?} cells cuts blocks of downsample:factor={by}: release boxes that \
                 begin and end at multiples of {by}, or at the end of \"{}\"",
                cells.variable
            )));
        }
        let first: Vec<u64> = offset.iter().map(|at| at.div_ceil(by)).collect();
        let end: Vec<u64> = offset.iter().zip(count).map(|(at, n)| (at + n).div_ceil(by)).collect();
        let coarse: Vec<u64> = first.iter().zip(&end).map(|(a, b)| b.saturating_sub(*a)).collect();
        if coarse.contains(&0) {
            return Ok(None);
        }
        let many = usize::try_from(coarse.iter().product::<u64>()).unwrap_or(0);
        let (mut sums, mut members) = (vec![0.0; many], vec![0_u64; many]);
        let mut place = vec![0_u64; count.len()];
        for value in values {
            let wanted = is_mean || place.iter().zip(offset).all(|(p, at)| (at + p).is_multiple_of(by));
            if wanted {
                let inner = place.iter().zip(offset).zip(first.iter().zip(&coarse));
                let index = inner.fold(0, |index, ((p, at), (from, n))| index * n + ((at + p) / by - from));
                let index = usize::try_from(index).unwrap_or(usize::MAX);
                if let (Some(sum), Some(n)) = (sums.get_mut(index), members.get_mut(index)) {
                    *sum += value;
                    *n += 1;
                }
            }
            for (p, n) in place.iter_mut().zip(count).rev() {
                *p += 1;
                if *p < *n {
                    break;
                }
                *p = 0;
            }
        }
        if is_mean {
            sums.iter_mut().zip(&members).for_each(|(sum, n)| *sum /= *n as f64);
        }
        Ok(Some(Computed { offset: first, count: coarse, bytes: encoded(&sums, to) }))
    }
}

impl std::fmt::Display for Operation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Operation::Min => f.write_str("min"),
            Operation::Max => f.write_str("max"),
            Operation::Sum => f.write_str("sum"),
            Operation::Mean => f.write_str("mean"),
            Operation::Histogram { bins, low, high } => {
                write!(f, "histogram:bins={bins},low={low},high={high}")
            }
            Operation::Downsample { factor } => write!(f, "downsample:factor={factor}"),
            Operation::Stride { by } => write!(f, "stride:by={by}"),
            Operation::Above { value } => write!(f, "above:value={value}"),
            Operation::Cast { to: Scalar::F32 } => f.write_str("cast:dtype=f4"),
            Operation::Cast { .. } => f.write_str("cast:dtype=f8"),
        }
    }
}

fn wrong(text: &str, what: &str) -> Error {
    invalid(format!("{text:?} is no operation: {what}"))
}

fn unfit(dtype: &DType) -> Error {
    unsupported(format!(
        "values of type {dtype} cannot be computed with in transit; floats of 32 and 64 bits and integers to \
         32 bits can"
    ))
}

fn listed(keys: &[&str]) -> String {
    if keys.is_empty() { "no parameters".into() } else { keys.join(", ") }
}

/// Bytes of an element, if all its values are exact as 64-bit floats.
fn element(scalar: Scalar) -> Option<usize> {
    match scalar {
        Scalar::I8 | Scalar::U8 => Some(1),
        Scalar::I16 | Scalar::U16 => Some(2),
        Scalar::I32 | Scalar::U32 | Scalar::F32 => Some(4),
        Scalar::F64 => Some(8),
        _ => None,
    }
}

/// Elements as 64-bit floats, exactly.
pub(super) fn decoded(bytes: &[u8], dtype: &DType) -> Result<Vec<f64>> {
    fn all<const N: usize>(bytes: &[u8], one: impl Fn([u8; N]) -> f64) -> Vec<f64> {
        bytes.as_chunks::<N>().0.iter().map(|chunk| one(*chunk)).collect()
    }
    let DType::Scalar(scalar) = dtype else { return Err(unfit(dtype)) };
    Ok(match scalar {
        Scalar::I8 => all(bytes, |b| i8::from_le_bytes(b).into()),
        Scalar::U8 => all(bytes, |b| u8::from_le_bytes(b).into()),
        Scalar::I16 => all(bytes, |b| i16::from_le_bytes(b).into()),
        Scalar::U16 => all(bytes, |b| u16::from_le_bytes(b).into()),
        Scalar::I32 => all(bytes, |b| i32::from_le_bytes(b).into()),
        Scalar::U32 => all(bytes, |b| u32::from_le_bytes(b).into()),
        Scalar::F32 => all(bytes, |b| f32::from_le_bytes(b).into()),
        Scalar::F64 => all(bytes, f64::from_le_bytes),
        _ => return Err(unfit(dtype)),
    })
}

/// The values in a type, rounded to it where necessary.
fn encoded(values: &[f64], scalar: Scalar) -> Vec<u8> {
    fn all<const N: usize>(values: &[f64], one: impl Fn(f64) -> [u8; N]) -> Vec<u8> {
        values.iter().flat_map(|value| one(*value)).collect()
    }
    match scalar {
        Scalar::I8 => all(values, |x| (x as i8).to_le_bytes()),
        Scalar::U8 => all(values, |x| (x as u8).to_le_bytes()),
        Scalar::I16 => all(values, |x| (x as i16).to_le_bytes()),
        Scalar::U16 => all(values, |x| (x as u16).to_le_bytes()),
        Scalar::I32 => all(values, |x| (x as i32).to_le_bytes()),
        Scalar::U32 => all(values, |x| (x as u32).to_le_bytes()),
        Scalar::F32 => all(values, |x| (x as f32).to_le_bytes()),
        _ => all(values, f64::to_le_bytes),
    }
}

/// The first value in an order; a NaN if there is one, as in NumPy.
fn extreme(values: &[f64], before: impl Fn(f64, f64) -> bool) -> f64 {
    let first = values.first().copied().unwrap_or(f64::NAN);
    values
        .iter()
        .fold(first, |kept, x| if kept.is_nan() || !(x.is_nan() || before(*x, kept)) { kept } else { *x })
}

/// Counts as NumPy's `histogram` does: the ends of intervals decide, not the quotient.
fn counted(values: &[f64], bins: u64, low: f64, high: f64) -> Vec<u64> {
    let width = (high - low) / bins as f64;
    let end = |n: u64| if n == bins { high } else { n as f64 * width + low };
    let mut counts = vec![0; usize::try_from(bins).unwrap_or(0)];
    for value in values.iter().filter(|x| (low..=high).contains(*x)) {
        let mut bin = (((value - low) / (high - low) * bins as f64) as u64).min(bins - 1);
        if *value < end(bin) {
            bin = bin.saturating_sub(1);
        } else if bin + 1 < bins && *value >= end(bin + 1) {
            bin += 1;
        }
        if let Some(count) = usize::try_from(bin).ok().and_then(|bin| counts.get_mut(bin)) {
            *count += 1;
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    const F8: DType = DType::Scalar(Scalar::F64);

    fn cells(offset: &[u64], count: &[u64]) -> Cells {
        Cells { variable: "T".into(), step: Some(0), offset: offset.to_vec(), count: count.to_vec() }
    }

    #[test]
    fn an_operation_has_one_text_and_what_is_wrong_is_named() {
        let texts = [
            "min",
            "max",
            "sum",
            "mean",
            "histogram:bins=8,low=-1.5,high=2",
            "downsample:factor=8",
            "stride:by=3",
            "above:value=0.25",
            "cast:dtype=f4",
        ];
        for text in texts {
            assert_eq!(Operation::parse(text).unwrap().to_string(), text);
        }
        for (text, said) in [
            ("median", "there are min"),
            ("min:by=2", "no parameters"),
            ("stride", "takes by"),
            ("stride:by=0", "from 1"),
            ("histogram:bins=8,low=2,high=2", "below"),
            ("histogram:bins=99999999,low=1,high=2", "from 1"),
            ("above:value=nan", "finite"),
            ("cast:dtype=i4", "f4 or f8"),
            ("stride:3", "KEY=VALUE"),
        ] {
            let error = Operation::parse(text).unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }

    #[test]
    fn reductions_of_boxes_are_those_of_the_whole() {
        let values: Vec<f64> = (0..100).map(|n| f64::from((n * 37) % 101) - 40.0).collect();
        for text in ["min", "max", "sum", "mean", "histogram:bins=7,low=-40,high=60"] {
            let op = Operation::parse(text).unwrap();
            let whole = op.merged(&[&op.partial(&values)], &F8);
            let (a, b) = values.split_at(33);
            assert_eq!(op.merged(&[&op.partial(a), &op.partial(b)], &F8), whole, "{text}");
        }
        let min = Operation::Min;
        let with_nan = min.partial(&[1.0, f64::NAN, 0.0]);
        assert!(decoded(&min.merged(&[&with_nan], &F8), &F8).unwrap()[0].is_nan());
    }

    #[test]
    fn local_operations_of_boxes_are_those_of_the_whole() {
        let shape = [5, 7];
        let values: Vec<f64> = (0..35).map(f64::from).collect();
        let mean = Operation::Downsample { factor: 2 };
        let done = mean.local(&cells(&[0, 0], &[5, 7]), &shape, &F8, &values).unwrap().unwrap();
        assert_eq!((done.offset, done.count), (vec![0, 0], vec![3, 4]));
        let means = decoded(&done.bytes, &F8).unwrap();
        assert_eq!((means[0], means[3], means[11]), (4.0, 9.5, 34.0));
        let part = [30.0, 31.0];
        let done = mean.local(&cells(&[4, 2], &[1, 2]), &shape, &F8, &part).unwrap().unwrap();
        assert_eq!((done.offset, done.count), (vec![2, 1], vec![1, 1]));
        assert_eq!(decoded(&done.bytes, &F8).unwrap(), [means[9]]);
        let cut = mean.local(&cells(&[1, 0], &[2, 7]), &shape, &F8, &values[..14]);
        assert!(cut.unwrap_err().to_string().contains("multiples of 2"));
        let stride = Operation::Stride { by: 3 };
        let done = stride.local(&cells(&[1, 1], &[3, 4]), &shape, &F8, &values[..12]).unwrap().unwrap();
        assert_eq!((done.offset.clone(), done.count.clone()), (vec![1, 1], vec![1, 1]));
        assert_eq!(decoded(&done.bytes, &F8).unwrap(), [10.0]);
        assert_eq!(stride.local(&cells(&[1, 1], &[1, 1]), &shape, &F8, &[0.0]).unwrap(), None);
    }
}
