//! Times on the command line.

use jiff::civil::{Date, DateTime};
use jiff::fmt::friendly::SpanParser;
use jiff::{Timestamp, Zoned};

use crate::error::CliError;
use crate::text::Clock;

/// A time as people write it: `2026-02-01`, `2026-02-01T10:00`, `2026-02-01T10:00:00Z`, `7d`, `12h`, `30m`, `2 weeks ago`,
/// `1d 12h`, `today`, `yesterday`. Without a zone it is local.
pub(crate) fn parse_time(text: &str, clock: &Clock) -> Result<i64, CliError> {
    let unclear = || {
        CliError::usage(format!("{text:?} is not a time"))
            .hint("times look like 2026-02-01, 2026-02-01T10:00, 7d, 12h, today or yesterday")
    };
    match text {
        "now" => return Ok(clock.now),
        "today" => return Ok(clock.midnight(0)),
        "yesterday" => return Ok(clock.midnight(1)),
        _ => {}
    }
    if let Some(millis) = time_ago(text, clock) {
        return Ok(millis);
    }
    if let Ok(instant) = text.parse::<Timestamp>() {
        return Ok(instant.as_millisecond());
    }
    let local = |time: DateTime| -> Result<Zoned, jiff::Error> { time.to_zoned(clock.zone().clone()) };
    let zoned = match (text.parse::<Date>(), text.replacen(' ', "T", 1).parse::<DateTime>()) {
        (_, Ok(time)) => local(time),
        (Ok(date), _) => local(date.at(0, 0, 0, 0)),
        _ => return Err(unclear()),
    };
    zoned.map(|zoned| zoned.timestamp().as_millisecond()).map_err(|_| unclear())
}

/// The moment a span before now, with or without `ago`. `m` is a minute and `mo` a month. Days and longer units go by the
/// calendar: a week ago is the same time of day, also if clocks changed since.
fn time_ago(text: &str, clock: &Clock) -> Option<i64> {
    // A sign would leave open which way it goes, and `10:30:00` looks like a time of day: the parser takes both.
    if !text.starts_with(|c: char| c.is_ascii_digit()) || text.contains(':') {
        return None;
    }
    let span = SpanParser::new().parse_span(text.trim_end()).ok()?.abs();
    let now = Timestamp::from_millisecond(clock.now).ok()?.to_zoned(clock.zone().clone());
    Some(now.saturating_sub(span).timestamp().as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A day on which clocks change has 23 or 25 hours, and some begin at 01:00.
    #[test]
    fn yesterday_begins_at_midnight_whatever_clocks_do() {
        let check = |zone: &str, now: &str, today: &str, yesterday: &str| {
            let millis = |time: &str| time.parse::<Timestamp>().unwrap().as_millisecond();
            let clock = Clock::in_zone(millis(now), jiff::tz::TimeZone::get(zone).unwrap());
            assert_eq!(parse_time("today", &clock).unwrap(), millis(today), "{zone} {now}");
            assert_eq!(parse_time("yesterday", &clock).unwrap(), millis(yesterday), "{zone} {now}");
        };
        let berlin = "Europe/Berlin";
        check(berlin, "2026-03-30T10:00:00Z", "2026-03-29T22:00:00Z", "2026-03-28T23:00:00Z");
        check(berlin, "2026-10-26T10:00:00Z", "2026-10-25T23:00:00Z", "2026-10-24T22:00:00Z");
        check("Africa/Cairo", "2026-04-25T10:00:00Z", "2026-04-24T21:00:00Z", "2026-04-23T22:00:00Z");
    }

    /// In Berlin 2026-03-29 has 23 hours and 2026-10-25 has 25.
    #[test]
    fn days_go_by_the_calendar_and_hours_by_the_clock() {
        let check = |now: &str, text: &str, expected: &str| {
            let millis = |time: &str| time.parse::<Timestamp>().unwrap().as_millisecond();
            let clock = Clock::in_zone(millis(now), jiff::tz::TimeZone::get("Europe/Berlin").unwrap());
            assert_eq!(parse_time(text, &clock).unwrap(), millis(expected), "{text} before {now}");
        };
        let (spring, autumn) = ("2026-03-29T12:00:00+02:00", "2026-10-25T12:00:00+01:00");
        check(spring, "1d", "2026-03-28T12:00:00+01:00");
        check(spring, "24h", "2026-03-28T11:00:00+01:00");
        check(spring, "2 weeks ago", "2026-03-15T12:00:00+01:00");
        check(spring, "1mo", "2026-02-28T12:00:00+01:00");
        check(autumn, "1d", "2026-10-24T12:00:00+02:00");
        check(autumn, "24h", "2026-10-24T13:00:00+02:00");
        check(autumn, "2w", "2026-10-11T12:00:00+02:00");
        check(autumn, "1 year", "2025-10-25T12:00:00+02:00");
        // 02:30 did not exist that day.
        check("2026-03-30T02:30:00+02:00", "1 day ago", "2026-03-29T03:30:00+02:00");
    }

    #[test]
    fn times_are_read_as_people_write_them() {
        let clock = Clock::in_zone(1_771_950_000_000, jiff::tz::TimeZone::UTC);
        let check =
            |text: &str, expected: i64| assert_eq!(parse_time(text, &clock).unwrap(), expected, "{text}");
        check("2026-02-01", 1_769_904_000_000);
        check("2026-02-01T10:00", 1_769_940_000_000);
        check("2026-02-01 10:00", 1_769_940_000_000);
        check("2026-02-01T10:00:00Z", 1_769_940_000_000);
        check("2026-02-01T10:00:00+02:00", 1_769_932_800_000);
        check("7d", 1_771_950_000_000 - 7 * 86_400_000);
        check("2 weeks ago", 1_771_950_000_000 - 14 * 86_400_000);
        check("2w", 1_771_950_000_000 - 14 * 86_400_000);
        for (unit, seconds) in [
            ("s sec second seconds", 1),
            ("m min minute minutes", 60),
            ("h hour hours", 3_600),
            ("d day days", 86_400),
            ("w week weeks", 7 * 86_400),
            ("mo month months", 31 * 86_400),
            ("y year years", 365 * 86_400),
        ] {
            for name in unit.split(' ') {
                for text in [format!("1{name}"), format!("1 {name} "), format!("1{name} ago")] {
                    check(&text, 1_771_950_000_000 - seconds * 1_000);
                }
            }
        }
        check("1d12h", 1_771_950_000_000 - 36 * 3_600_000);
        check("1 day, 12 hours ago", 1_771_950_000_000 - 36 * 3_600_000);
        check("1.5h", 1_771_950_000_000 - 90 * 60_000);
        check("999999d", 1_771_950_000_000 - 999_999 * 86_400_000);
        check("today", 1_771_891_200_000);
        check("yesterday", 1_771_804_800_000);
        for bad in
            ["", "soon", "7", "7x", "-7d", "+7d", "10:30:00", "ago", "2026-13-01", "99999999999999999999d"]
        {
            assert!(parse_time(bad, &clock).is_err(), "{bad}");
        }
    }
}
