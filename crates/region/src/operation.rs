//! Operations in transit: computations on the values of a box. Pure.
//!
//! A *local* operation computes cells of the result from cells of its source: it needs only a box of values. A
//! *reduction* has one result for a whole step; the parts of disjoint boxes are merged. [`pass`](super::pass) computes.
//!
//! Invariants
//! - an operation has one text, and other spellings are refused;
//! - the result does not depend on the boxes into which a step was cut, nor on their order.

use drystone::format::dtype::{DType, Scalar};
use drystone::{Error, Result};

use super::error::{invalid, unsupported};
use drystone_expression::is_function_name;

/// The most bins of a histogram.
const BINS: u64 = 1 << 16;

/// A computation.
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
    /// The number of values of a step in each of several intervals of equal width. The last interval includes both
    /// ends.
    Histogram {
        /// The number of intervals.
        bins: u64,
        /// The beginning of the first interval.
        low: f64,
        /// The end of the last interval.
        high: f64,
    },
    /// The means of blocks with this edge.
    Downsample {
        /// The edge of a block, in cells.
        factor: u64,
    },
    /// Every n-th cell along each axis.
    Stride {
        /// The distance in cells from one to the next.
        by: u64,
    },
    /// Whether each value is above a threshold.
    Above {
        /// The threshold.
        value: f64,
    },
    /// The values as floats of 32 or 64 bits.
    Cast {
        /// The type of the result.
        to: Scalar,
    },
    /// A function that is registered where the values are released.
    Function {
        /// Its name.
        name: String,
    },
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
    /// Parses `NAME` or `NAME:KEY=VALUE,KEY=VALUE`.
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
            "function" => &["name"],
            _ => {
                return Err(wrong(
                    text,
                    "there are min, max, sum, mean, histogram, downsample, stride, above, cast and function",
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
                if low >= high || !(high - low).is_finite() {
                    return Err(wrong(text, "low lies below high, and their difference is a finite number"));
                }
                Operation::Histogram { bins, low, high }
            }
            "downsample" => Operation::Downsample { factor: whole("factor", 1 << 20)? },
            "stride" => Operation::Stride { by: whole("by", 1 << 20)? },
            "above" => Operation::Above { value: real("value")? },
            "function" if is_function_name(value("name")) => {
                Operation::Function { name: value("name").to_owned() }
            }
            "function" => return Err(wrong(text, "name has letters, digits, '_', '-' and '.'")),
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
            Operation::Function { name } => {
                return Err(unsupported(format!(
                    "function {name:?} is applied to releases (on); apply computes with committed values"
                )));
            }
        };
        Ok((DType::Scalar(scalar), shape))
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
            Operation::Function { name } => write!(f, "function:name={name}"),
        }
    }
}

fn wrong(text: &str, what: &str) -> Error {
    invalid(format!("{text:?} is not an operation: {what}"))
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

/// The bytes of an element. `None` unless all its values are exact as 64-bit floats.
fn element(scalar: Scalar) -> Option<usize> {
    match scalar {
        Scalar::I8 | Scalar::U8 => Some(1),
        Scalar::I16 | Scalar::U16 => Some(2),
        Scalar::I32 | Scalar::U32 | Scalar::F32 => Some(4),
        Scalar::F64 => Some(8),
        _ => None,
    }
}

/// Elements of a type as 64-bit floats, exactly; they replace what is in `values`.
pub(super) fn decode(bytes: &[u8], scalar: Scalar, values: &mut Vec<f64>) {
    fn all<const N: usize>(bytes: &[u8], values: &mut Vec<f64>, one: impl Fn([u8; N]) -> f64) {
        values.extend(bytes.as_chunks::<N>().0.iter().map(|chunk| one(*chunk)));
    }
    values.clear();
    match scalar {
        Scalar::I8 => all(bytes, values, |b| i8::from_le_bytes(b).into()),
        Scalar::U8 => all(bytes, values, |b| u8::from_le_bytes(b).into()),
        Scalar::I16 => all(bytes, values, |b| i16::from_le_bytes(b).into()),
        Scalar::U16 => all(bytes, values, |b| u16::from_le_bytes(b).into()),
        Scalar::I32 => all(bytes, values, |b| i32::from_le_bytes(b).into()),
        Scalar::U32 => all(bytes, values, |b| u32::from_le_bytes(b).into()),
        Scalar::F32 => all(bytes, values, |b| f32::from_le_bytes(b).into()),
        // `Operation::result` refuses other types.
        _ => all(bytes, values, f64::from_le_bytes),
    }
}

/// The values in a type, rounded to it where necessary.
pub(super) fn encoded(values: &[f64], scalar: Scalar) -> Vec<u8> {
    let mut out = vec![0; values.len() * scalar.size() as usize];
    encode(values, scalar, &mut out);
    out
}

/// The same, to memory that has their length.
pub(super) fn encode(values: &[f64], scalar: Scalar, out: &mut [u8]) {
    fn all<const N: usize>(values: &[f64], out: &mut [u8], one: impl Fn(f64) -> [u8; N]) {
        out.as_chunks_mut::<N>().0.iter_mut().zip(values).for_each(|(out, value)| *out = one(*value));
    }
    match scalar {
        Scalar::I8 => all(values, out, |x| (x as i8).to_le_bytes()),
        Scalar::U8 => all(values, out, |x| (x as u8).to_le_bytes()),
        Scalar::I16 => all(values, out, |x| (x as i16).to_le_bytes()),
        Scalar::U16 => all(values, out, |x| (x as u16).to_le_bytes()),
        Scalar::I32 => all(values, out, |x| (x as i32).to_le_bytes()),
        Scalar::U32 => all(values, out, |x| (x as u32).to_le_bytes()),
        Scalar::F32 => all(values, out, |x| (x as f32).to_le_bytes()),
        _ => all(values, out, f64::to_le_bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_has_one_text_and_errors_name_the_mistake() {
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
            "function:name=smooth_3-d.v2",
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
            ("function", "takes name"),
            ("function:name=/tmp/f.so", "letters"),
            ("function:name=f,library=/tmp/f.so", "takes name"),
            ("function:name=", "letters"),
            ("stride:3", "KEY=VALUE"),
        ] {
            let error = Operation::parse(text).unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
