//! Times on the command line.

use jiff::civil::{Date, DateTime};
use jiff::fmt::friendly::SpanParser;
use jiff::{Span, Timestamp, Zoned};

use crate::error::CliError;
use crate::text::Clock;

/// A time as people write it: `2026-02-01`, `2026-02-01T10:00`, `2026-02-01T10:00:00Z`, `7d`, `12h`, `30m`, `2 weeks ago`,
/// `1d 12h`, `today`, `yesterday`, `monday`, `last week`, `2026-02`. Without a zone it is local.
pub(crate) fn parse_time(text: &str, clock: &Clock) -> Result<i64, CliError> {
    let unclear = || {
        CliError::usage(format!("{text:?} is not a time")).hint(
            "times look like 2026-02-01, 2026-02-01T10:00, 2026-02, 7d, 12h, today, monday or \"last week\"",
        )
    };
    match text {
        "now" => return Ok(clock.now),
        "today" => return Ok(clock.midnight(0)),
        "yesterday" => return Ok(clock.midnight(1)),
        _ => {}
    }
    if let Some(begin) = period(text, clock) {
        return begin.start_of_day().map(|begin| begin.timestamp().as_millisecond()).map_err(|_| unclear());
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

/// The first day of a week, month or year: `this week`, `last month`, `2026-11`, `2026`; or the last day of that name: `monday`.
fn period(text: &str, clock: &Clock) -> Option<Zoned> {
    let today = Timestamp::from_millisecond(clock.now).ok()?.to_zoned(clock.zone().clone());
    let since_monday = today.weekday().to_monday_zero_offset();
    let back = |days: i8| today.checked_sub(Span::new().days(i64::from(days))).ok();
    let text = text.trim().to_lowercase();
    match &text[..] {
        "this week" => return back(since_monday),
        "last week" => return back(since_monday + 7),
        "this month" => return today.first_of_month().ok(),
        "last month" => return today.checked_sub(Span::new().months(1)).ok()?.first_of_month().ok(),
        "this year" => return today.first_of_year().ok(),
        "last year" => return today.checked_sub(Span::new().years(1)).ok()?.first_of_year().ok(),
        _ => {}
    }
    const DAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
    let named = |day: &&str| *day == text || (text.len() >= 3 && day.starts_with(&text));
    if let Some(day) = DAYS.iter().position(named) {
        return back((since_monday - day as i8).rem_euclid(7));
    }
    let digits = |text: &str, n: usize| text.len() == n && text.bytes().all(|b| b.is_ascii_digit());
    let (year, month) = text.split_once('-').unwrap_or((&text, "01"));
    if !digits(year, 4) || !digits(month, 2) {
        return None;
    }
    let first = Date::new(year.parse().ok()?, month.parse().ok()?, 1).ok()?;
    first.to_zoned(clock.zone().clone()).ok()
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

    #[test]
    fn periods_begin_with_their_first_day() {
        let now: Timestamp = "2026-11-18T12:00:00+01:00".parse().unwrap();
        let clock = Clock::in_zone(now.as_millisecond(), jiff::tz::TimeZone::get("Europe/Berlin").unwrap());
        for (text, expected) in [
            ("this week", "2026-11-16T00:00:00+01:00"),
            ("Last Week", "2026-11-09T00:00:00+01:00"),
            ("monday", "2026-11-16T00:00:00+01:00"),
            ("wed", "2026-11-18T00:00:00+01:00"),
            ("thursday", "2026-11-12T00:00:00+01:00"),
            ("this month", "2026-11-01T00:00:00+01:00"),
            ("last month", "2026-10-01T00:00:00+02:00"),
            ("2026-07", "2026-07-01T00:00:00+02:00"),
            ("2025", "2025-01-01T00:00:00+01:00"),
            ("last year", "2025-01-01T00:00:00+01:00"),
        ] {
            let expected: Timestamp = expected.parse().unwrap();
            assert_eq!(parse_time(text, &clock).unwrap(), expected.as_millisecond(), "{text}");
        }
        for text in ["2026-13", "mo", "last", "week", "20261"] {
            assert!(parse_time(text, &clock).is_err(), "{text}");
        }
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
