//! Times on the command line.

use jiff::civil::{Date, DateTime};
use jiff::{Timestamp, Zoned};

use crate::error::CliError;
use crate::text::Clock;

/// A time as people write it: `2026-02-01`, `2026-02-01T10:00`, `2026-02-01T10:00:00Z`, `7d`, `12h`, `30m`, `2w`, `today`,
/// `yesterday`. Without a zone it is local.
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
    if let Some(millis) = relative(text) {
        return Ok(clock.now.saturating_sub(millis));
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

/// A length of time back from now, in milliseconds.
fn relative(text: &str) -> Option<i64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).filter(|&digits| digits > 0)?;
    let number: i64 = text[..digits].parse().ok()?;
    let unit = match text[digits..].trim_end_matches(" ago").trim() {
        "s" | "sec" | "second" | "seconds" => 1_000,
        "m" | "min" | "minute" | "minutes" => 60_000,
        "h" | "hour" | "hours" => 3_600_000,
        "d" | "day" | "days" => 86_400_000,
        "w" | "week" | "weeks" => 7 * 86_400_000,
        "mo" | "month" | "months" => 30 * 86_400_000,
        "y" | "year" | "years" => 365 * 86_400_000,
        _ => return None,
    };
    number.checked_mul(unit)
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
        check("today", 1_771_891_200_000);
        check("yesterday", 1_771_804_800_000);
        for bad in ["", "soon", "7", "7x", "2026-13-01", "99999999999999999999d"] {
            assert!(parse_time(bad, &clock).is_err(), "{bad}");
        }
    }
}
