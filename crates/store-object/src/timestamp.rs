//! Parses times as servers and programs write them, in UTC: `2026-11-20T10:11:12.000Z`.

use std::time::{Duration, SystemTime};

/// The time of a text; `None` if it is not one, or not in UTC.
pub(crate) fn parse(text: &str) -> Option<SystemTime> {
    let zone = text.get(19..)?.trim_start_matches(|c: char| c == '.' || c.is_ascii_digit());
    if !matches!(zone, "Z" | "+00:00") {
        return None;
    }
    let number = |range: std::ops::Range<usize>| text.get(range)?.parse::<u64>().ok();
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let (hours, minutes, seconds) = (number(11..13)?, number(14..16)?, number(17..19)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || year < 1970 {
        return None;
    }
    // Days since 1970 (Hinnant's `days_from_civil`).
    let y = if month <= 2 { year - 1 } else { year };
    let doy = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    let doe = (y % 400) * 365 + (y % 400) / 4 - (y % 400) / 100 + doy;
    let days = ((y / 400) * 146_097 + doe).checked_sub(719_468)?;
    let since = Duration::from_secs(days * 86_400 + hours * 3600 + minutes * 60 + seconds);
    SystemTime::UNIX_EPOCH.checked_add(since)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        let at = |seconds| Some(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(parse("2026-07-01T01:02:03.000Z"), at(1_782_864_000 + 3723));
        assert_eq!(parse("1970-01-01T00:00:00Z"), at(0));
        assert_eq!(parse("2024-02-29T12:00:00+00:00"), at(1_709_208_000));
        for wrong in [
            "",
            "2026-13-01T00:00:00Z",
            "yesterday",
            "1969-01-01T00:00:00Z",
            "2026-07-01T01:02:03+02:00",
            "é026",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
