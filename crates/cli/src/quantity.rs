//! Numbers formatted for people: bytes, counts, steps, times.

/// Bytes with a binary unit, in three digits.
pub(crate) fn bytes(n: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if n < 1024 {
        return format!("{n} B");
    }
    let mut value = n as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1023.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:.digits$} {}", UNITS[unit])
}

pub(crate) use drystone::plan::counted::counted;

/// An ascending list of numbers as ranges: `0..9, 12, 20..40 by 2`.
pub(crate) fn ranges(numbers: impl IntoIterator<Item = u64>) -> String {
    let numbers: Vec<u64> = numbers.into_iter().collect();
    let mut out: Vec<String> = Vec::new();
    let mut i = 0;
    while i < numbers.len() {
        let stride = numbers.get(i + 1).map_or(1, |n| n - numbers[i]);
        let mut j = i;
        while j + 1 < numbers.len() && numbers[j + 1] - numbers[j] == stride {
            j += 1;
        }
        if j - i < 2 && (stride != 1 || j == i) {
            out.push(numbers[i].to_string());
            i += 1;
            continue;
        }
        let by = if stride == 1 { String::new() } else { format!(" by {stride}") };
        out.push(format!("{}..{}{by}", numbers[i], numbers[j]));
        i = j + 1;
    }
    const MOST: usize = 12;
    if out.len() > MOST {
        let more = out.len() - MOST;
        out.truncate(MOST);
        out.push(format!("… ({more} more)"));
    }
    out.join(", ")
}

/// Nanoseconds since 1970 as a UTC time.
pub(crate) fn time(nanoseconds: u64) -> String {
    let seconds = nanoseconds / 1_000_000_000;
    let (day, second) = (seconds / 86_400, seconds % 86_400);
    // Years start on 1 March, from 1 March 0000, so that a leap day ends its year.
    let since = day + 719_468;
    let (era, of_era) = (since / 146_097, since % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let date = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{date:02} {:02}:{:02}:{:02} UTC",
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_read_as_people_say_them() {
        for (n, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.00 KiB"),
            (10 << 10, "10.0 KiB"),
            (1_048_575, "1.00 MiB"),
            (123 << 20, "123 MiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(bytes(n), text);
        }
        assert_eq!(counted(1, "block"), "1 block");
        assert_eq!(ranges([]), "");
        assert_eq!(ranges([3]), "3");
        assert_eq!(ranges([0, 1, 2, 3, 7, 20, 22, 24]), "0..3, 7, 20..24 by 2");
        assert_eq!(ranges([4, 5]), "4..5");
        assert_eq!(ranges([4, 9]), "4, 9");
        assert!(ranges((0..100).map(|i| i * i)).ends_with("more)"));
    }

    #[test]
    fn times_are_calendar_times() {
        assert_eq!(time(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(time(951_782_400_000_000_000), "2000-02-29 00:00:00 UTC");
        assert_eq!(time(1_795_222_799_000_000_000), "2026-11-21 00:59:59 UTC");
        assert_eq!(time(4_107_542_400_999_999_999), "2100-03-01 00:00:00 UTC");
    }
}
