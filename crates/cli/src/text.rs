//! Text for a terminal: made harmless, cut, wrapped; numbers and times for people.

use std::borrow::Cow;

use jiff::{Timestamp, tz::TimeZone};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// A transcript's text without anything a terminal would act on: escape sequences and invisible direction marks are
/// left out, other control characters are shown as pictures.
pub(crate) fn harmless(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|c| c != '\n' && is_active(c)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\n' => out.push('\n'),
            '\t' => out.push_str("    "),
            '\r' => {
                if chars.peek() != Some(&'\n') {
                    out.push('\n');
                }
            }
            '\u{1b}' => skip_escape(&mut chars),
            '\u{9b}' => skip_until(&mut chars, |c| ('\u{40}'..='\u{7e}').contains(&c)),
            '\u{0}'..='\u{1f}' => out.push(char::from_u32(0x2400 + c as u32).unwrap_or('\u{fffd}')),
            '\u{7f}' => out.push('\u{2421}'),
            '\u{80}'..='\u{9f}' => out.push('\u{fffd}'),
            c if is_active(c) => {}
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// The same in one line.
pub(crate) fn one_line(text: &str) -> String {
    let harmless = harmless(text);
    harmless.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn is_active(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// Skips what follows an escape character: a control sequence, a command string, or a single character.
fn skip_escape(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match chars.peek() {
        Some('[') => {
            chars.next();
            skip_until(chars, |c| ('\u{40}'..='\u{7e}').contains(&c));
        }
        Some(']' | 'P' | 'X' | '^' | '_') => {
            // Ends with BEL or ESC \. One that never ends must not swallow the rest, so a line break ends it too.
            while let Some(&c) = chars.peek() {
                if c == '\n' {
                    return;
                }
                chars.next();
                if c == '\u{7}' || c == '\u{9c}' {
                    return;
                }
                if c == '\u{1b}' {
                    chars.next_if_eq(&'\\');
                    return;
                }
            }
        }
        Some('\u{20}'..='\u{7e}') => {
            chars.next();
        }
        _ => {}
    }
}

fn skip_until(chars: &mut std::iter::Peekable<std::str::Chars<'_>>, is_last: impl Fn(char) -> bool) {
    while let Some(c) = chars.next_if(|c| ('\u{20}'..='\u{7e}').contains(c)) {
        if is_last(c) {
            return;
        }
    }
}

/// How many columns a line takes.
pub(crate) fn width(line: &str) -> usize {
    UnicodeWidthStr::width(line)
}

/// A line cut to `columns`, with an ellipsis where something is missing.
pub(crate) fn cut(line: &str, columns: usize) -> Cow<'_, str> {
    if width(line) <= columns {
        return Cow::Borrowed(line);
    }
    let mut used = 0;
    let mut kept = String::new();
    for c in line.chars() {
        let width = c.width().unwrap_or(0);
        if used + width + 1 > columns {
            break;
        }
        used += width;
        kept.push(c);
    }
    kept.push('…');
    Cow::Owned(kept)
}

/// A line cut or filled up with spaces to exactly `columns`.
pub(crate) fn fit(line: &str, columns: usize) -> String {
    let cut = cut(line, columns);
    let padding = columns.saturating_sub(width(&cut));
    format!("{cut}{:padding$}", "")
}

/// The same, filled up on the left.
pub(crate) fn fit_right(line: &str, columns: usize) -> String {
    let cut = cut(line, columns);
    let padding = columns.saturating_sub(width(&cut));
    format!("{:padding$}{cut}", "")
}

/// Text broken into lines of at most `columns`. Lines that are short enough stay as they are.
pub(crate) fn wrap(text: &str, columns: usize) -> Vec<String> {
    // Broken at spaces only: a path or an address that is cut at a slash can no longer be copied.
    let options = textwrap::Options::new(columns.max(10)).word_separator(textwrap::WordSeparator::AsciiSpace);
    let mut lines = Vec::new();
    for line in text.lines() {
        if width(line) <= columns {
            lines.push(line.to_owned());
        } else {
            let indent = " ".repeat(hanging_indent(line).min(columns / 2));
            lines.extend(
                textwrap::wrap(line, options.clone().subsequent_indent(&indent))
                    .into_iter()
                    .map(Cow::into_owned),
            );
        }
    }
    lines
}

/// Where the text of a line begins, behind its indent and its list mark: what continues it stays below.
fn hanging_indent(line: &str) -> usize {
    let text = line.trim_start();
    let indent = line.len() - text.len();
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let mark = match &text[digits..] {
        rest if digits > 0 && (rest.starts_with(". ") || rest.starts_with(") ")) => digits + 2,
        rest if digits == 0
            && (rest.starts_with("- ") || rest.starts_with("* ") || rest.starts_with("> ")) =>
        {
            2
        }
        _ => 0,
    };
    indent + mark
}

/// `1 session`, `2 sessions`.
pub(crate) fn count(n: usize, noun: &str) -> String {
    format!("{} {noun}{}", grouped(n), if n == 1 { "" } else { "s" })
}

/// A number with thin groups of three digits.
pub(crate) fn grouped(n: usize) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A large number in three or four characters.
pub(crate) fn short_number(n: f64) -> String {
    match n {
        n if n >= 999_500_000.0 => format!("{:.1}G", n / 1e9),
        n if n >= 999_500.0 => format!("{:.1}M", n / 1e6),
        n if n >= 9_950.0 => format!("{:.0}k", n / 1e3),
        n if n >= 1_000.0 => format!("{:.1}k", n / 1e3),
        n => format!("{n:.0}"),
    }
}

/// Money: cents where that is enough, more where it is little.
pub(crate) fn dollars(cost: f64) -> String {
    match cost.abs() {
        0.0 => "$0".to_owned(),
        cost_abs if cost_abs < 0.0001 => "<$0.0001".to_owned(),
        cost_abs if cost_abs < 0.1 => format!("${cost:.4}"),
        cost_abs if cost_abs < 1000.0 => format!("${cost:.2}"),
        _ => format!("${}", grouped(cost.max(0.0) as usize)),
    }
}

/// A length of time.
pub(crate) fn duration(millis: i64) -> String {
    match millis.max(0) {
        ms if ms < 1_000 => format!("{ms}ms"),
        ms if ms < 10_000 => format!("{:.1}s", ms as f64 / 1e3),
        ms if ms < 60_000 => format!("{}s", ms / 1_000),
        ms if ms < 3_600_000 => format!("{}m{:02}s", ms / 60_000, ms / 1_000 % 60),
        ms if ms < 86_400_000 => format!("{}h{:02}m", ms / 3_600_000, ms / 60_000 % 60),
        ms => format!("{}d{}h", ms / 86_400_000, ms / 3_600_000 % 24),
    }
}

/// A size in bytes.
pub(crate) fn bytes(n: u64) -> String {
    match n {
        n if n >= 1 << 30 => format!("{:.1} GB", n as f64 / f64::from(1 << 30)),
        n if n >= 1 << 20 => format!("{:.1} MB", n as f64 / f64::from(1 << 20)),
        n if n >= 1 << 10 => format!("{:.1} KB", n as f64 / f64::from(1 << 10)),
        n => format!("{n} B"),
    }
}

/// The clock and the time zone of a command.
#[derive(Debug, Clone)]
pub(crate) struct Clock {
    pub(crate) now: i64,
    pub(crate) zone: TimeZone,
}

impl Clock {
    /// A time of day, seconds included.
    pub(crate) fn time(&self, millis: i64) -> String {
        self.format(millis, "%H:%M:%S")
    }

    /// A date and time.
    pub(crate) fn date_time(&self, millis: i64) -> String {
        self.format(millis, "%Y-%m-%d %H:%M")
    }

    /// A date.
    pub(crate) fn date(&self, millis: i64) -> String {
        self.format(millis, "%Y-%m-%d")
    }

    /// How long ago, or the date if that is clearer; at most ten columns.
    pub(crate) fn ago(&self, millis: i64) -> String {
        match self.now - millis {
            past if past < -60_000 => self.date(millis),
            past if past < 60_000 => "just now".to_owned(),
            past if past < 3_600_000 => format!("{}m ago", past / 60_000),
            past if past < 86_400_000 => format!("{}h ago", past / 3_600_000),
            past if past < 14 * 86_400_000 => format!("{}d ago", past / 86_400_000),
            _ => self.date(millis),
        }
    }

    /// Which day a time falls on, in days since 1970-01-01.
    pub(crate) fn day(&self, millis: i64) -> i64 {
        match Timestamp::from_millisecond(millis) {
            Ok(time) => {
                let offset = self.zone.to_offset(time).seconds();
                (millis.div_euclid(1000) + i64::from(offset)).div_euclid(86_400)
            }
            Err(_) => millis.div_euclid(86_400_000),
        }
    }

    /// The date of such a day.
    pub(crate) fn date_of_day(&self, day: i64) -> String {
        match Timestamp::from_second(day.saturating_mul(86_400)) {
            Ok(time) => time.strftime("%Y-%m-%d").to_string(),
            Err(_) => day.to_string(),
        }
    }

    /// The beginning of today.
    pub(crate) fn midnight(&self) -> i64 {
        let today = Timestamp::from_millisecond(self.now).map(|now| now.to_zoned(self.zone.clone()));
        let midnight = today.and_then(|today| today.start_of_day());
        midnight.map_or(self.now, |midnight| midnight.timestamp().as_millisecond())
    }

    fn format(&self, millis: i64, format: &str) -> String {
        match Timestamp::from_millisecond(millis) {
            Ok(time) => time.to_zoned(self.zone.clone()).strftime(format).to_string(),
            Err(_) => "-".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_gets_nothing_to_act_on() {
        let check = |text: &str, expected: &str| assert_eq!(harmless(text), expected, "{text:?}");
        check("plain é 日本 🎉\nnext", "plain é 日本 🎉\nnext");
        check("\x1b[31mred\x1b[0m", "red");
        check("\x1b[2J\x1b[1;1Hgone", "gone");
        check("\x1b]0;title\x07text", "text");
        check("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link");
        check("\x1b]never ends\nnext line", "\nnext line");
        check("\x1bPdevice\x1b\\x", "x");
        check("\u{9b}31mred", "red");
        check("bell\x07 back\x08", "bell␇ back␈");
        check("a\tb", "a    b");
        check("one\r\ntwo\rthree", "one\ntwo\nthree");
        check("\u{202e}evil\u{2066}", "evil");
        check("\u{85}\u{7f}\0", "\u{fffd}␡␀");
        check("\x1b", "");
        check("\x1b[", "");
    }

    #[test]
    fn lines_are_cut_to_columns_not_characters() {
        assert_eq!(cut("short", 10), "short");
        assert_eq!(cut("exactly ten", 11), "exactly ten");
        assert_eq!(cut("日本語テキスト", 7), "日本語…");
        assert_eq!(fit("日本", 6), "日本  ");
        assert_eq!(fit_right("12", 4), "  12");
        assert_eq!(width(&cut("a🎉b🎉c🎉", 4)), 4);
    }

    #[test]
    fn numbers_are_for_people() {
        assert_eq!(
            [0.0, 999.0, 1234.0, 12_345.0, 1_500_000.0, 2.5e9].map(short_number),
            ["0", "999", "1.2k", "12k", "1.5M", "2.5G"]
        );
        assert_eq!(
            [0.0, 0.00001, 0.0123, 1.5, 1234.0].map(dollars),
            ["$0", "<$0.0001", "$0.0123", "$1.50", "$1,234"]
        );
        assert_eq!(
            [5, 1500, 59_000, 61_000, 3_700_000, 90_000_000].map(duration),
            ["5ms", "1.5s", "59s", "1m01s", "1h01m", "1d1h"]
        );
        assert_eq!([0usize, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(count(1, "session"), "1 session");
    }

    #[test]
    fn wrapped_lines_keep_their_indent() {
        assert_eq!(wrap("  - one two three four", 14), ["  - one two", "    three four"]);
        assert_eq!(wrap("1. one two three four", 12), ["1. one two", "   three", "   four"]);
        assert_eq!(wrap("see docs/coupons.md", 12), ["see", "docs/coupons", ".md"]);
        assert_eq!(wrap("short\n\nline", 12), ["short", "", "line"]);
    }
}
