//! The little XML that the protocol needs.

/// Escapes text for use between tags.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// The contents of all elements with a name. The elements have no attributes, and are not nested.
pub(crate) fn contents<'a>(document: &'a str, name: &str) -> Vec<&'a str> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let mut found = Vec::new();
    let mut rest = document;
    while let Some(start) = rest.find(&open) {
        rest = &rest[start + open.len()..];
        let Some(end) = rest.find(&close) else { break };
        found.push(&rest[..end]);
        rest = &rest[end + close.len()..];
    }
    found
}

/// An error document.
pub(crate) fn error(status: u16, code: &str, request: u64) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?><Error><Code>{code}</Code><Message>scripted answer {status}</Message>\
         <RequestId>RIG{request:013}</RequestId></Error>"
    )
}

/// `2026-11-20T10:11:12.000Z`
pub(crate) fn timestamp(time: std::time::SystemTime) -> String {
    let (year, month, day, seconds) = civil(time);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.000Z",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

/// `Fri, 20 Nov 2026 10:11:12 GMT`
pub(crate) fn http_date(time: std::time::SystemTime) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (year, month, day, seconds) = civil(time);
    let days = time.duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs() / 86_400);
    format!(
        "{}, {day:02} {} {year:04} {:02}:{:02}:{:02} GMT",
        DAYS[(days % 7) as usize],
        MONTHS[(month - 1) as usize],
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

/// Year, month, day, and seconds of the day (Hinnant's `civil_from_days`).
fn civil(time: std::time::SystemTime) -> (u64, u64, u64, u64) {
    let secs = time.duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let z = secs / 86_400 + 719_468;
    let (era, doe) = (z / 146_097, z % 146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    (yoe + era * 400 + u64::from(month <= 2), month, doy - (153 * mp + 2) / 5 + 1, secs % 86_400)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn dates_are_those_of_the_calendar() {
        let time = UNIX_EPOCH + Duration::from_secs(1_782_864_000 + 3723);
        assert_eq!(timestamp(time), "2026-07-01T01:02:03.000Z");
        assert_eq!(http_date(time), "Wed, 01 Jul 2026 01:02:03 GMT");
        assert_eq!(http_date(UNIX_EPOCH), "Thu, 01 Jan 1970 00:00:00 GMT");
    }

    #[test]
    fn elements_are_found() {
        assert_eq!(contents("<a><b>1</b><b>22</b></a>", "b"), ["1", "22"]);
        assert!(contents("<b>1", "b").is_empty());
    }
}
