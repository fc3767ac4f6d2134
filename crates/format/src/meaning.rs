//! The meaning of the elements of a variable or attribute: instants, durations, names, references.
//!
//! Values are stored, encoded and compared as the integers or strings that they are. A reader that ignores a meaning
//! still reads every value.
//!
//! Invariant: a meaning fits its element type ([`Meaning::validate`]): times are `int64`, named values are integers of
//! the type, references are strings.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::Corrupt;
use crate::cbor::{Sink, Source};
use crate::dtype::{DType, Scalar, limit};

/// Most named values of one enumeration.
pub const MAX_NAMES: usize = 4096;

/// What an element represents.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Meaning {
    /// An instant: a number of units since 1970-01-01T00:00:00 UTC, in the proleptic Gregorian calendar. -2^63 means
    /// that there is no instant (NaT).
    Instant(Unit),
    /// A duration: a number of units. -2^63 means that there is no duration (NaT).
    Duration(Unit),
    /// Names of some of the values, in the order of declaration; names and values are distinct.
    Names(Vec<(String, i128)>),
    /// The name of a variable or group of the container: its path.
    Object,
    /// A variable and a box of it: the variable's path and, in brackets, a range `first:end` for each axis.
    Region,
    /// For a record: the meanings of the members that have one.
    Members(BTreeMap<String, Meaning>),
}

/// A number of units of time: NumPy's `[25s]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Unit {
    /// The unit.
    pub scale: Scale,
    /// The number of units in one count, 1 to 2^31-1.
    pub count: u32,
}

/// A unit of time; the names are NumPy's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Scale {
    Year,
    Month,
    Week,
    Day,
    Hour,
    Minute,
    Second,
    Millisecond,
    Microsecond,
    Nanosecond,
    Picosecond,
    Femtosecond,
    Attosecond,
}

const SCALES: [(Scale, &str); 13] = [
    (Scale::Year, "Y"),
    (Scale::Month, "M"),
    (Scale::Week, "W"),
    (Scale::Day, "D"),
    (Scale::Hour, "h"),
    (Scale::Minute, "m"),
    (Scale::Second, "s"),
    (Scale::Millisecond, "ms"),
    (Scale::Microsecond, "us"),
    (Scale::Nanosecond, "ns"),
    (Scale::Picosecond, "ps"),
    (Scale::Femtosecond, "fs"),
    (Scale::Attosecond, "as"),
];

impl Scale {
    /// Its name in NumPy.
    pub const fn name(self) -> &'static str {
        SCALES[self as usize].1
    }

    /// The unit with this name, if there is one.
    pub fn parse(name: &str) -> Option<Self> {
        SCALES.into_iter().find(|&(_, n)| n == name).map(|(scale, _)| scale)
    }
}

impl Meaning {
    /// Checks that elements of this type can have this meaning; the error says why not.
    pub fn validate(&self, dtype: &DType) -> Result<(), String> {
        match (self, dtype) {
            (Meaning::Instant(unit) | Meaning::Duration(unit), DType::Scalar(Scalar::I64)) => {
                match i32::try_from(unit.count) {
                    Ok(1..) => Ok(()),
                    _ => Err(format!("{} units of time; 1 to {} are possible", unit.count, i32::MAX)),
                }
            }
            (Meaning::Names(names), DType::Scalar(scalar)) => check_names(names, *scalar),
            (Meaning::Object | Meaning::Region, DType::String) => Ok(()),
            (Meaning::Members(members), DType::Record(record)) if !members.is_empty() => {
                members.iter().try_for_each(|(name, meaning)| {
                    match record.members.iter().find(|member| member.name == *name) {
                        Some(member) => meaning.validate(&member.dtype),
                        None => Err(format!("a meaning of the member {name:?}, which is not there")),
                    }
                })
            }
            _ => Err(format!("{dtype} cannot stand for {self}")),
        }
    }

    /// The meaning of a member of a record; `path` has the names of members, outermost first.
    pub fn of_member<'a>(&self, path: impl IntoIterator<Item = &'a str>) -> Option<&Meaning> {
        path.into_iter().try_fold(self, |meaning, name| match meaning {
            Meaning::Members(members) => members.get(name),
            _ => None,
        })
    }

    pub(crate) fn write(&self, out: &mut Sink) {
        match self {
            Meaning::Instant(unit) => _ = out.array(3).u64(0).text(unit.scale.name()).u64(unit.count.into()),
            Meaning::Duration(unit) => _ = out.array(3).u64(1).text(unit.scale.name()).u64(unit.count.into()),
            Meaning::Names(names) => {
                out.array(2).u64(2).array(names.len());
                for (name, value) in names {
                    out.array(2).text(name).integer(*value);
                }
            }
            Meaning::Object => _ = out.array(2).u64(4).u64(0),
            Meaning::Region => _ = out.array(2).u64(4).u64(1),
            Meaning::Members(members) => {
                out.array(2).u64(3).map(members.len());
                for (name, meaning) in members {
                    out.text(name);
                    meaning.write(out);
                }
            }
        }
    }

    /// Reads a meaning. The caller checks whether it fits a type.
    pub(crate) fn read(source: &mut Source<'_>) -> Result<Self, Corrupt> {
        Self::read_nested(source, 0)
    }

    fn read_nested(source: &mut Source<'_>, depth: usize) -> Result<Self, Corrupt> {
        if depth > limit::NESTING {
            return Err(source.corrupt("meaning: nested too deep"));
        }
        let n = source.array()?;
        Ok(match (source.u64()?, n) {
            (0, 3) => Meaning::Instant(read_unit(source)?),
            (1, 3) => Meaning::Duration(read_unit(source)?),
            (2, 2) => Meaning::Names(source.list(|source| {
                source.tuple(2)?;
                Ok((source.text()?.to_owned(), source.integer()?))
            })?),
            (3, 2) => {
                let mut members = BTreeMap::new();
                source.entries(|source, name| {
                    members.insert(name.to_owned(), Self::read_nested(source, depth + 1)?);
                    Ok(())
                })?;
                Meaning::Members(members)
            }
            (4, 2) => match source.u64()? {
                0 => Meaning::Object,
                1 => Meaning::Region,
                kind => return Err(source.corrupt(format!("unknown reference {kind}"))),
            },
            (kind, n) => return Err(source.corrupt(format!("unknown meaning [{kind}, …] of {n} items"))),
        })
    }
}

fn read_unit(source: &mut Source<'_>) -> Result<Unit, Corrupt> {
    let name = source.text()?;
    let scale = Scale::parse(name).ok_or_else(|| source.corrupt(format!("unknown unit of time {name:?}")))?;
    Ok(Unit { scale, count: source.u32()? })
}

/// Smallest and largest value of an integer type.
fn limits(scalar: Scalar) -> Option<(i128, i128)> {
    Some(match scalar {
        Scalar::I8 => (i8::MIN.into(), i8::MAX.into()),
        Scalar::I16 => (i16::MIN.into(), i16::MAX.into()),
        Scalar::I32 => (i32::MIN.into(), i32::MAX.into()),
        Scalar::I64 => (i64::MIN.into(), i64::MAX.into()),
        Scalar::U8 => (0, u8::MAX.into()),
        Scalar::U16 => (0, u16::MAX.into()),
        Scalar::U32 => (0, u32::MAX.into()),
        Scalar::U64 => (0, u64::MAX.into()),
        _ => return None,
    })
}

fn check_names(names: &[(String, i128)], scalar: Scalar) -> Result<(), String> {
    let (low, high) =
        limits(scalar).ok_or_else(|| format!("{scalar} cannot be an enumeration: integers can"))?;
    if names.is_empty() || names.len() > MAX_NAMES {
        return Err(format!("an enumeration of {} names; 1 to {MAX_NAMES} are possible", names.len()));
    }
    let (mut seen, mut taken) = (BTreeSet::new(), BTreeSet::new());
    for (name, value) in names {
        if name.is_empty() || name.len() > limit::NAME || name.contains('\0') {
            return Err(format!("{name:?} cannot name a value of an enumeration"));
        }
        if !(low..=high).contains(value) {
            return Err(format!("{name:?} is {value}, which is no {scalar}"));
        }
        if !seen.insert(name.as_str()) {
            return Err(format!("two values of an enumeration are named {name:?}"));
        }
        if !taken.insert(value) {
            return Err(format!("{name:?} names the value {value}, which has a name"));
        }
    }
    Ok(())
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.count {
            1 => write!(f, "[{}]", self.scale.name()),
            n => write!(f, "[{n}{}]", self.scale.name()),
        }
    }
}

impl fmt::Display for Meaning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Meaning::Instant(unit) => write!(f, "datetime64{unit}"),
            Meaning::Duration(unit) => write!(f, "timedelta64{unit}"),
            Meaning::Object => f.write_str("reference(object)"),
            Meaning::Region => f.write_str("reference(region)"),
            Meaning::Names(names) => {
                f.write_str("enum{")?;
                for (i, (name, value)) in names.iter().enumerate() {
                    let comma = if i == 0 { "" } else { ", " };
                    write!(f, "{comma}{name}={value}")?;
                }
                f.write_str("}")
            }
            Meaning::Members(members) => {
                f.write_str("{")?;
                for (i, (name, meaning)) in members.iter().enumerate() {
                    let comma = if i == 0 { "" } else { ", " };
                    write!(f, "{comma}{name}: {meaning}")?;
                }
                f.write_str("}")
            }
        }
    }
}

/// Most names that the text of an enumeration shows.
const SHOWN: usize = 8;

/// An element type and its meaning, as text: `datetime64[ns]`, `uint8 enum{red=0, green=1}`.
pub fn described(dtype: &DType, meaning: Option<&Meaning>) -> String {
    match (meaning, dtype) {
        (None, _) => dtype.to_string(),
        (Some(Meaning::Names(names)), _) if names.len() > SHOWN => {
            let some = Meaning::Names(names[..SHOWN].to_vec()).to_string();
            let some = some.trim_end_matches('}');
            format!("{dtype} {some}, and {} more}}", names.len() - SHOWN)
        }
        (Some(meaning @ Meaning::Names(_)), _) => format!("{dtype} {meaning}"),
        (Some(Meaning::Members(_)), DType::Record(record)) => {
            let members = record.members.iter().map(|member| {
                let below = meaning.and_then(|meaning| meaning.of_member([member.name.as_str()]));
                let shape: String = member.shape.iter().map(|n| format!("[{n}]")).collect();
                format!("{}: {}{shape}", member.name, described(&member.dtype, below))
            });
            format!("record{{{}}}", members.collect::<Vec<_>>().join(", "))
        }
        (Some(meaning), _) => meaning.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(bytes: &[u8]) -> Result<Meaning, Corrupt> {
        let mut source = Source::new(bytes);
        let meaning = Meaning::read(&mut source)?;
        source.end()?;
        Ok(meaning)
    }

    fn encoded(meaning: &Meaning) -> Vec<u8> {
        let mut sink = Sink::new();
        meaning.write(&mut sink);
        sink.finish()
    }

    fn colours() -> Meaning {
        Meaning::Names(vec![("red".into(), 1), ("dark green".into(), -2)])
    }

    #[test]
    fn every_meaning_comes_back_from_its_bytes() {
        let ns = Unit { scale: Scale::Nanosecond, count: 25 };
        let inner = Meaning::Members(BTreeMap::from([("c".into(), colours())]));
        let all = [
            Meaning::Instant(ns),
            Meaning::Duration(Unit { scale: Scale::Year, count: 1 }),
            colours(),
            Meaning::Object,
            Meaning::Region,
            Meaning::Members(BTreeMap::from([("a".into(), Meaning::Instant(ns)), ("b".into(), inner)])),
        ];
        for meaning in all {
            assert_eq!(decoded(&encoded(&meaning)), Ok(meaning));
        }
    }

    #[test]
    fn the_bytes_of_a_unit_are_those_of_the_specification() {
        let meaning = Meaning::Instant(Unit { scale: Scale::Nanosecond, count: 1 });
        assert_eq!(encoded(&meaning), [0x83, 0x00, 0x62, b'n', b's', 0x01]);
        assert_eq!(meaning.to_string(), "datetime64[ns]");
        assert_eq!(
            Meaning::Duration(Unit { scale: Scale::Second, count: 25 }).to_string(),
            "timedelta64[25s]"
        );
    }

    #[test]
    fn meanings_that_do_not_fit_the_type_are_refused() {
        let day = Unit { scale: Scale::Day, count: 1 };
        let int = |scalar| DType::Scalar(scalar);
        assert!(Meaning::Instant(day).validate(&int(Scalar::I64)).is_ok());
        assert!(Meaning::Instant(day).validate(&int(Scalar::I32)).is_err());
        assert!(
            Meaning::Object.validate(&DType::String).is_ok()
                && Meaning::Region.validate(&DType::Bytes(8)).is_err()
        );
        assert!(Meaning::Instant(Unit { count: 0, ..day }).validate(&int(Scalar::I64)).is_err());
        assert!(colours().validate(&int(Scalar::I8)).is_ok());
        assert!(colours().validate(&int(Scalar::U8)).is_err(), "-2 is no uint8");
        assert!(colours().validate(&int(Scalar::F32)).is_err());
        let names = |list: &[(&str, i128)]| {
            Meaning::Names(list.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect())
                .validate(&int(Scalar::U8))
        };
        assert!(names(&[("a", 0), ("b", 1)]).is_ok());
        assert!(names(&[]).is_err());
        assert!(names(&[("a", 0), ("a", 1)]).is_err());
        assert!(names(&[("a", 0), ("b", 0)]).is_err());
        assert!(names(&[("", 0)]).is_err());
    }

    #[test]
    fn a_member_is_found_by_its_path_and_must_be_there() {
        use crate::dtype::{Member, Record};
        let member = |name: &str, dtype| Member { name: name.into(), dtype, shape: vec![], offset: 0 };
        let inner = Record { itemsize: 1, members: vec![member("c", DType::Scalar(Scalar::I8))] };
        let outer = Record { itemsize: 1, members: vec![member("b", DType::Record(inner))] };
        let below = Meaning::Members(BTreeMap::from([("c".into(), colours())]));
        let meaning = Meaning::Members(BTreeMap::from([("b".into(), below)]));
        assert_eq!(meaning.validate(&DType::Record(outer.clone())), Ok(()));
        assert_eq!(meaning.of_member(["b", "c"]), Some(&colours()));
        assert_eq!(meaning.of_member(["b", "x"]), None);
        let wrong = Meaning::Members(BTreeMap::from([("x".into(), colours())]));
        assert!(wrong.validate(&DType::Record(outer)).is_err());
    }

    #[test]
    fn a_deeply_nested_meaning_is_refused_and_not_followed() {
        let mut bytes = Vec::new();
        for _ in 0..100_000 {
            bytes.extend([0x82, 0x03, 0xa1, 0x61, b'a']);
        }
        assert!(decoded(&bytes).is_err());
    }
}
