//! Converts instants to texts of ISO 8601 and back, in the proleptic Gregorian calendar without leap seconds, as NumPy
//! does.
//!
//! A text has the digits of the unit: `2026-01` for months, `2026-01-31T12` for hours, nine digits of a second for
//! nanoseconds.

use crate::meaning::{Scale, Unit};

/// The integer that stands for "not a time": no instant and no duration.
pub const NAT: i64 = i64::MIN;

const DAY: i128 = 86_400;

/// Units in a second; `None` for units longer than a second.
fn per_second(scale: Scale) -> Option<(i128, usize)> {
    Some(match scale {
        Scale::Millisecond => (1_000, 3),
        Scale::Microsecond => (1_000_000, 6),
        Scale::Nanosecond => (1_000_000_000, 9),
        Scale::Picosecond => (1_000_000_000_000, 12),
        Scale::Femtosecond => (1_000_000_000_000_000, 15),
        Scale::Attosecond => (1_000_000_000_000_000_000, 18),
        _ => return None,
    })
}

/// Seconds in a unit; `None` for units shorter than a second, and for months and years.
fn seconds(scale: Scale) -> Option<i128> {
    Some(match scale {
        Scale::Week => 7 * DAY,
        Scale::Day => DAY,
        Scale::Hour => 3600,
        Scale::Minute => 60,
        Scale::Second => 1,
        _ => return None,
    })
}

/// Year, month (1 to 12) and day (1 to 31) of a day, which is counted from 1970-01-01.
fn civil(days: i128) -> (i128, i128, i128) {
    let z = days + 719_468; // days since 0000-03-01
    let era = z.div_euclid(146_097); // of 400 years each
    let day = z.rem_euclid(146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153; // months since March
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year + era * 400 + i128::from(month <= 2), month, of_year - (153 * shifted + 2) / 5 + 1)
}

/// The day of a date, counted from 1970-01-01.
fn day_of(year: i128, month: i128, day: i128) -> i128 {
    let y = if month <= 2 { year - 1 } else { year };
    let era = y.div_euclid(400);
    let of_era = y.rem_euclid(400);
    let of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn date(days: i128) -> String {
    let (year, month, day) = civil(days);
    format!("{}-{month:02}-{day:02}", year_text(year))
}

fn year_text(year: i128) -> String {
    if year < 0 { format!("-{:04}", -year) } else { format!("{year:04}") }
}

/// An instant as text; `NaT` for no instant.
pub fn text(value: i64, unit: Unit) -> String {
    if value == NAT {
        return "NaT".into();
    }
    let count = i128::from(value) * i128::from(unit.count);
    if let Some((parts, digits)) = per_second(unit.scale) {
        let (whole, part) = (count.div_euclid(parts), count.rem_euclid(parts));
        return format!("{}.{part:0digits$}", time(whole, Scale::Second));
    }
    match unit.scale {
        Scale::Year => year_text(1970 + count),
        Scale::Month => {
            format!("{}-{:02}", year_text(1970 + count.div_euclid(12)), count.rem_euclid(12) + 1)
        }
        scale => time(count * seconds(scale).unwrap_or(1), scale),
    }
}

/// Seconds since 1970 with the digits of a unit from weeks to seconds.
fn time(count: i128, scale: Scale) -> String {
    let (day, second) = (date(count.div_euclid(DAY)), count.rem_euclid(DAY));
    let (h, m, s) = (second / 3600, second / 60 % 60, second % 60);
    match scale {
        Scale::Week | Scale::Day => day,
        Scale::Hour => format!("{day}T{h:02}"),
        Scale::Minute => format!("{day}T{h:02}:{m:02}"),
        _ => format!("{day}T{h:02}:{m:02}:{s:02}"),
    }
}

/// A duration as text, a number and its unit; `NaT` for no duration.
pub fn duration_text(value: i64, unit: Unit) -> String {
    if value == NAT {
        return "NaT".into();
    }
    format!("{} {}", i128::from(value) * i128::from(unit.count), unit.scale.name())
}

/// Where an instant lies among the values of a unit: the last value that is not after it, and whether they are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed {
    /// The last value that is not after it.
    pub floor: i64,
    /// Whether the instant equals that value.
    pub exact: bool,
}

/// The instant that a text names (`2026`, `2026-01-31`, `2026-01-31T12:30:00.5`, with or without `Z`). `None` for other
/// texts, and for instants beyond the range of the unit.
pub fn parse(text: &str, unit: Unit) -> Option<Placed> {
    let text = text.trim();
    let text = text.strip_suffix('Z').unwrap_or(text);
    let (negative, body) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (date, time) = match body.split_once(['T', ' ']) {
        Some((date, time)) => (date, Some(time)),
        None => (body, None),
    };
    let mut parts = date.split('-');
    let year = number(parts.next()?, 4..=12)?;
    let year = if negative { -year } else { year };
    let month = parts.next().map_or(Some(1), |part| number(part, 2..=2))?;
    let day = parts.next().map_or(Some(1), |part| number(part, 2..=2))?;
    let days = day_of(year, month, day);
    if parts.next().is_some() || civil(days) != (year, month, day) {
        return None;
    }
    let (second, atto) = time.map_or(Some((0, 0)), time_of_day)?;
    place(year, month, days * DAY + second, atto, (day, second, atto) == (1, 0, 0), unit)
}

/// The duration that a text names, a number and a unit (`90 m`, `-1.5 s`); `None` for other texts, for durations beyond
/// the range of the unit, and for those that the unit cannot express, such as months in days.
pub fn parse_duration(text: &str, unit: Unit) -> Option<Placed> {
    let text = text.trim();
    let (number, name) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic())?);
    let from = Scale::parse(name.trim())?;
    let (whole, fraction) = number.trim().split_once('.').unwrap_or((number.trim(), ""));
    if fraction.len() > 18 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let tenths = 10i128.pow(fraction.len() as u32);
    let part: i128 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
    let count = whole.parse::<i64>().ok().map(i128::from)?.checked_mul(tenths)?;
    let count = if whole.starts_with('-') { count.checked_sub(part)? } else { count.checked_add(part)? };
    // Both are converted to the same small unit: months, or the shorter of the two units.
    let (from, to) = ratio(from, unit.scale)?;
    let (many, each) = (count.checked_mul(from)?, tenths.checked_mul(to)?.checked_mul(unit.count.into())?);
    let floor = i64::try_from(many.div_euclid(each)).ok().filter(|floor| *floor != NAT)?;
    Some(Placed { floor, exact: many.rem_euclid(each) == 0 })
}

/// The lengths of two units, in a unit that divides both.
fn ratio(a: Scale, b: Scale) -> Option<(i128, i128)> {
    let months = |scale| match scale {
        Scale::Year => Some(12),
        Scale::Month => Some(1),
        _ => None,
    };
    match (months(a), months(b)) {
        (Some(a), Some(b)) => return Some((a, b)),
        (None, None) => {}
        _ => return None,
    }
    let parts = |scale| per_second(scale).map_or(1, |(parts, _)| parts);
    let finest = parts(a).max(parts(b));
    let length = |scale| seconds(scale).unwrap_or(1) * (finest / parts(scale));
    Some((length(a), length(b)))
}

/// Seconds and attoseconds within a day.
fn time_of_day(text: &str) -> Option<(i128, i128)> {
    let mut parts = text.split(':');
    let hour = number(parts.next()?, 2..=2).filter(|h| *h < 24)?;
    let minute = parts.next().map_or(Some(0), |part| number(part, 2..=2)).filter(|m| *m < 60)?;
    let (second, fraction) = match parts.next() {
        None => ("00", ""),
        Some(rest) => rest.split_once('.').unwrap_or((rest, "")),
    };
    let second = number(second, 2..=2).filter(|s| *s < 60)?;
    if parts.next().is_some() {
        return None;
    }
    let atto = match fraction {
        "" => 0,
        digits => number(digits, 1..=18)? * 10i128.pow(18 - digits.len() as u32),
    };
    Some((hour * 3600 + minute * 60 + second, atto))
}

fn number(text: &str, digits: std::ops::RangeInclusive<usize>) -> Option<i128> {
    (digits.contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok())?
}

/// Where an instant lies among the values of a unit. `begins` says that it is the first instant of its month.
fn place(year: i128, month: i128, second: i128, atto: i128, begins: bool, unit: Unit) -> Option<Placed> {
    let each = i128::from(unit.count);
    let (count, exact) = match (unit.scale, per_second(unit.scale)) {
        (_, Some((parts, digits))) => {
            let rest = 10i128.pow(18 - digits as u32);
            (second * parts + atto / rest, atto % rest == 0)
        }
        (Scale::Year, _) => (year - 1970, begins && month == 1),
        (Scale::Month, _) => ((year - 1970) * 12 + month - 1, begins),
        (scale, _) => {
            let each = seconds(scale)?;
            (second.div_euclid(each), second.rem_euclid(each) == 0 && atto == 0)
        }
    };
    let floor = i64::try_from(count.div_euclid(each)).ok().filter(|floor| *floor != NAT)?;
    Some(Placed { floor, exact: exact && count.rem_euclid(each) == 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(scale: Scale) -> Unit {
        Unit { scale, count: 1 }
    }

    #[test]
    fn instants_have_the_digits_of_their_unit() {
        // Expected values are NumPy's: np.datetime64(value, unit).
        for (value, scale, expected) in [
            (0, Scale::Nanosecond, "1970-01-01T00:00:00.000000000"),
            (-1, Scale::Nanosecond, "1969-12-31T23:59:59.999999999"),
            (i64::MAX, Scale::Nanosecond, "2262-04-11T23:47:16.854775807"),
            (951_782_400, Scale::Second, "2000-02-29T00:00:00"),
            (11_016, Scale::Day, "2000-02-29"),
            (-719_529, Scale::Day, "-0001-12-31"),
            (2_932_897, Scale::Day, "10000-01-01"),
            (360, Scale::Month, "2000-01"),
            (-1, Scale::Month, "1969-12"),
            (56, Scale::Year, "2026"),
            (1, Scale::Week, "1970-01-08"),
            (25, Scale::Hour, "1970-01-02T01"),
            (61, Scale::Minute, "1970-01-01T01:01"),
            (1_500, Scale::Millisecond, "1970-01-01T00:00:01.500"),
            (NAT, Scale::Day, "NaT"),
        ] {
            assert_eq!(text(value, unit(scale)), expected, "{value} {}", scale.name());
        }
        assert_eq!(text(2, Unit { scale: Scale::Hour, count: 12 }), "1970-01-02T00");
        assert_eq!(duration_text(3, Unit { scale: Scale::Second, count: 25 }), "75 s");
        assert_eq!(duration_text(NAT, unit(Scale::Day)), "NaT");
    }

    #[test]
    fn a_text_is_the_value_that_has_it() {
        for scale in [Scale::Year, Scale::Month, Scale::Day, Scale::Hour, Scale::Second, Scale::Nanosecond] {
            for value in [0, 1, -1, 54_321, -54_321, 1_234_567, -1_234_567] {
                let shown = text(value, unit(scale));
                let expected = Some(Placed { floor: value, exact: true });
                assert_eq!(parse(&shown, unit(scale)), expected, "{shown} {}", scale.name());
            }
        }
    }

    #[test]
    fn an_instant_between_two_values_says_so() {
        let day = unit(Scale::Day);
        assert_eq!(parse("1970-01-02T12", day), Some(Placed { floor: 1, exact: false }));
        assert_eq!(parse("1969-12-31T12", day), Some(Placed { floor: -1, exact: false }));
        assert_eq!(parse("1970-01-02 00:00:00Z", day), Some(Placed { floor: 1, exact: true }));
        assert_eq!(parse("1970-02-02", unit(Scale::Month)), Some(Placed { floor: 1, exact: false }));
        assert_eq!(parse("1970", unit(Scale::Nanosecond)), Some(Placed { floor: 0, exact: true }));
        let twelve = Unit { scale: Scale::Hour, count: 12 };
        assert_eq!(parse("1970-01-01T13", twelve), Some(Placed { floor: 1, exact: false }));
        assert_eq!(
            parse("1970-01-01T00:00:00.0000000005", unit(Scale::Nanosecond)).map(|p| (p.floor, p.exact)),
            Some((0, false))
        );
    }

    #[test]
    fn a_duration_is_a_number_and_a_unit() {
        let placed = |text: &str, scale, count| {
            parse_duration(text, Unit { scale, count }).map(|placed| (placed.floor, placed.exact))
        };
        assert_eq!(placed("90 m", Scale::Second, 1), Some((5400, true)));
        assert_eq!(placed("90m", Scale::Hour, 1), Some((1, false)));
        assert_eq!(placed("-90 m", Scale::Hour, 1), Some((-2, false)));
        assert_eq!(placed("-1.5 s", Scale::Millisecond, 1), Some((-1500, true)));
        assert_eq!(placed("-0.5 s", Scale::Millisecond, 1), Some((-500, true)));
        assert_eq!(placed("75 s", Scale::Second, 25), Some((3, true)));
        assert_eq!(placed("2 Y", Scale::Month, 1), Some((24, true)));
        for wrong in ["1 M of", "5", "s", "", "1 x", "1.2.3 s", "1.-2 s"] {
            assert_eq!(placed(wrong, Scale::Second, 1), None, "{wrong}");
        }
        assert_eq!(placed("1 M", Scale::Day, 1), None);
        assert_eq!(placed("1000 W", Scale::Attosecond, 1), None);
    }

    #[test]
    fn texts_that_are_no_instant_or_out_of_range_are_none() {
        let ns = unit(Scale::Nanosecond);
        for wrong in [
            "",
            "now",
            "2026-13-01",
            "2026-02-30",
            "2026-1-1",
            "26",
            "2026-01-01T24",
            "2026-01-01T00:60",
            "2026-01-01T1:00",
            "é",
        ] {
            assert_eq!(parse(wrong, ns), None, "{wrong}");
        }
        assert_eq!(parse("2300-01-01", ns), None);
        assert!(parse("2300-01-01", unit(Scale::Second)).is_some());
    }
}
