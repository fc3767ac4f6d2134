//! Times and named values in a replica: NumPy's time types in Zarr, and attributes of the CF conventions.
//!
//! Zarr arrays of times have the data types `numpy.datetime64` and `numpy.timedelta64`. HDF5 and netCDF have no such
//! types: the integers get CF's attribute `units`, or `numpy_dtype` if CF has no such unit. Named values are integers
//! with `flag_values` and `flag_meanings` in all three formats.

use drystone_format::dtype::{DType, Scalar};
use drystone_format::instant::NAT;
use drystone_format::meaning::{Meaning, Scale, Unit};
use drystone_format::schema::Attrs;
use drystone_format::value::{TypedArray, Value};
use serde_json::{Value as Json, json};

/// Zarr's data type of times; `None` if the values stay integers in Zarr.
pub(super) fn data_type(meaning: &Meaning) -> Option<Json> {
    let (name, unit) = match meaning {
        Meaning::Instant(unit) => ("numpy.datetime64", unit),
        Meaning::Duration(unit) => ("numpy.timedelta64", unit),
        Meaning::Names(_) | Meaning::Members(_) | Meaning::Object | Meaning::Region => return None,
    };
    Some(json!({"name": name, "configuration": {"unit": unit.scale.name(), "scale_factor": unit.count}}))
}

/// CF's name of a unit; `None` if CF has none.
fn cf_unit(unit: Unit) -> Option<&'static str> {
    match unit {
        Unit { count: 2.., .. } => None,
        Unit { scale, .. } => Some(match scale {
            Scale::Day => "days",
            Scale::Hour => "hours",
            Scale::Minute => "minutes",
            Scale::Second => "seconds",
            Scale::Millisecond => "milliseconds",
            Scale::Microsecond => "microseconds",
            Scale::Nanosecond => "nanoseconds",
            _ => return None,
        }),
    }
}

/// Attributes of integers that are times, for formats without a time type.
pub(super) fn times(meaning: &Meaning) -> Attrs {
    let text = |name: &str, value: String| (name.to_owned(), Value::Text(value));
    let (unit, is_instant) = match meaning {
        Meaning::Instant(unit) => (*unit, true),
        Meaning::Duration(unit) => (*unit, false),
        Meaning::Names(_) | Meaning::Members(_) | Meaning::Object | Meaning::Region => return Attrs::new(),
    };
    let nat = TypedArray {
        dtype: DType::Scalar(Scalar::I64),
        shape: Vec::new(),
        data: NAT.to_le_bytes().to_vec(),
        meaning: None,
    };
    // Readers that apply masks then show no time for these values.
    let missing = ("missing_value".to_owned(), Value::Array(nat));
    match (cf_unit(unit), is_instant) {
        (Some(name), true) => Attrs::from([
            text("units", format!("{name} since 1970-01-01")),
            text("calendar", "proleptic_gregorian".into()),
            missing,
        ]),
        (Some(name), false) => Attrs::from([text("units", name.into()), missing]),
        (None, _) => Attrs::from([text("numpy_dtype", meaning.to_string())]),
    }
}

/// CF attributes that name values. Blanks in names become underscores.
pub(super) fn flags(meaning: &Meaning, scalar: Scalar) -> Attrs {
    let Meaning::Names(names) = meaning else { return Attrs::new() };
    let size = scalar.size() as usize;
    let data: Vec<u8> =
        names.iter().flat_map(|(_, value)| value.to_le_bytes().into_iter().take(size)).collect();
    let shape = vec![names.len() as u64];
    let values = TypedArray { dtype: DType::Scalar(scalar), shape, data, meaning: None };
    let words: Vec<String> = names.iter().map(|(name, _)| name.replace(char::is_whitespace, "_")).collect();
    Attrs::from([
        ("flag_values".to_owned(), Value::Array(values)),
        ("flag_meanings".to_owned(), Value::Text(words.join(" "))),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_type_in_zarr_and_a_unit_elsewhere() {
        let instant = Meaning::Instant(Unit { scale: Scale::Nanosecond, count: 1 });
        let expected =
            json!({"name": "numpy.datetime64", "configuration": {"unit": "ns", "scale_factor": 1}});
        assert_eq!(data_type(&instant), Some(expected));
        let said = times(&instant);
        assert_eq!(said["units"], Value::Text("nanoseconds since 1970-01-01".into()));
        let months = Meaning::Duration(Unit { scale: Scale::Month, count: 1 });
        assert_eq!(
            times(&months),
            Attrs::from([("numpy_dtype".into(), Value::Text("timedelta64[M]".into()))])
        );
    }

    #[test]
    fn named_values_are_flags_of_their_own_type() {
        let names = Meaning::Names(vec![("dark red".into(), -1), ("blue".into(), 2)]);
        let said = flags(&names, Scalar::I16);
        assert_eq!(said["flag_meanings"], Value::Text("dark_red blue".into()));
        let Value::Array(values) = &said["flag_values"] else { panic!("an array") };
        assert_eq!((values.data.as_slice(), values.validate()), (&[0xff, 0xff, 2, 0][..], Ok(())));
    }
}
