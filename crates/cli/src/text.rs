//! Text for a terminal: made harmless, cut, wrapped; numbers and times for people.
//!
//! Text is made harmless by hand, because crates that strip sequences (`anstream`, `strip-ansi-escapes`) know bytes only:
//! they pass on U+009B, direction marks and invisible characters, show no other control character, and a sequence that
//! never ends takes the rest of the text with it. The tokenizer's sequences are another matter: they decide what is a word.
//!
//! Sizes, lengths of time, tokens and money are by hand because tables need them in few columns: `1.2 KB`, `1m01s` and `12k`
//! where `indicatif` would write `1.21 KiB`, `61 seconds` and `12,345`.

use std::borrow::Cow;
use std::sync::OnceLock;

use jiff::{Timestamp, tz::TimeZone};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// A text without anything a terminal would act on and without anything that hides or reorders what is seen: escape
/// sequences, direction marks and invisible characters are left out, other control characters are shown as pictures.
///
/// Joiners and variation selectors stay where writing needs them: inside an emoji, and between letters of scripts that
/// join. Everywhere else they only make two texts that differ look alike.
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
            '\u{2028}' | '\u{2029}' => out.push('\n'),
            '\u{1b}' => skip_escape(&mut chars),
            '\u{9b}' => skip_until(&mut chars, |c| ('\u{40}'..='\u{7e}').contains(&c)),
            '\u{0}'..='\u{1f}' => out.push(char::from_u32(0x2400 + c as u32).unwrap_or('\u{fffd}')),
            '\u{7f}' => out.push('\u{2421}'),
            '\u{80}'..='\u{9f}' => out.push('\u{fffd}'),
            c if is_active(c) => {
                if is_joining(out.chars().next_back(), c, chars.peek().copied()) {
                    out.push(c);
                }
            }
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// A text made [`harmless`], in one line.
pub(crate) fn one_line(text: &str) -> String {
    let harmless = harmless(text);
    harmless.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A title in one line. One that OpenCode made up says only when the session was made, which a list says anyway.
pub(crate) fn shown_title(title: &str) -> String {
    let is_time = |rest: &str| rest.starts_with("20") && rest.ends_with('Z') && rest.contains('T');
    for made_up in ["New session", "Child session"] {
        let rest = title.strip_prefix(made_up).and_then(|rest| rest.strip_prefix(" - "));
        if rest.is_some_and(is_time) {
            return made_up.to_owned();
        }
    }
    one_line(title)
}

/// A line as it may go to a terminal: [`harmless`] and in one line, except for the styles that a [`Painter`] adds, which
/// stay if `styles` is true. Everything that is written passes here, whether its author thought of it or not.
///
/// [`Painter`]: crate::output::Painter
pub(crate) fn for_terminal(line: &str, styles: bool) -> Cow<'_, str> {
    if !line.chars().any(is_active) {
        return Cow::Borrowed(line);
    }
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    let add = |out: &mut String, text: &str| out.push_str(&harmless(text).replace('\n', " "));
    while let Some((start, length)) = next_style(rest) {
        add(&mut out, &rest[..start]);
        if styles {
            out.push_str(&rest[start..start + length]);
        }
        rest = &rest[start + length..];
    }
    add(&mut out, rest);
    Cow::Owned(out)
}

/// A line with the symbols that annals itself writes replaced by ASCII characters of the same width, for terminals that cannot show them.
/// In a transcript they are replaced too; all else that it says stays as it is.
pub(crate) fn in_ascii(line: &str) -> Cow<'_, str> {
    if line.is_ascii() {
        return Cow::Borrowed(line);
    }
    let plain = |c: char| match c {
        '…' => '~',
        '✓' | '●' | '◆' => '+',
        '✗' | '×' => 'x',
        '○' | '◌' => 'o',
        '↳' | '→' | '▸' | '❯' => '>',
        '·' | '─' | '–' | '—' | '−' | '▃' | '▄' => '-',
        '▌' | '│' | '├' | '┃' => '|',
        '└' => '`',
        '█' | '▉' | '▊' | '▋' | '▇' => '#',
        '▏' | '▎' | '▍' => ':',
        '▁' | '▂' => '_',
        '▅' | '▆' => '=',
        '∴' | '•' => '*',
        '“' | '”' => '"',
        c => c,
    };
    Cow::Owned(line.chars().map(plain).collect())
}

/// Where the next sequence stands that only sets a colour or weight, and how long it is.
fn next_style(text: &str) -> Option<(usize, usize)> {
    text.match_indices("\u{1b}[").find_map(|(start, introducer)| {
        let numbers = &text[start + introducer.len()..];
        let end = numbers.find(|c: char| !c.is_ascii_digit() && c != ';')?;
        let is_style = |number: &str| {
            let number = number.parse::<u8>().unwrap_or(0);
            // Not among them: text that blinks, is hidden or is drawn on its own colour.
            matches!(number, 0..=4 | 22..=24 | 30..=37 | 39 | 90..=97)
        };
        (numbers[end..].starts_with('m') && numbers[..end].split(';').all(is_style))
            .then_some((start, introducer.len() + end + 1))
    })
}

/// A path or another word for a command line that the reader may copy: quoted where a shell would read it differently.
pub(crate) fn shell_word(word: &str) -> String {
    // The only thing to refuse is NUL, which no shell can take; it is shown as a picture like any other control character.
    shlex::Quoter::new().allow_nul(true).quote(word).unwrap_or_default().into_owned()
}

/// Whether a character does something instead of being seen: controls, direction marks, invisible format characters.
pub(crate) fn is_active(c: char) -> bool {
    if c < '\u{ad}' {
        return c.is_control();
    }
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        | '\u{13430}'..='\u{13440}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
}

/// Whether an invisible character is part of what is seen: a joiner between emoji or between letters that join, a variation
/// selector behind a character that has variants.
fn is_joining(before: Option<char>, c: char, after: Option<char>) -> bool {
    let Some(before) = before else { return false };
    match c {
        '\u{200d}' => {
            let is_emoji_before = is_emoji(before) || before == '\u{fe0f}';
            (is_emoji_before && after.is_some_and(is_emoji))
                || (is_of_joining_script(before) && after.is_some_and(is_of_joining_script))
        }
        '\u{200c}' => is_of_joining_script(before) && after.is_some_and(is_of_joining_script),
        '\u{fe0e}' | '\u{fe0f}' => is_emoji(before) || matches!(before, '0'..='9' | '#' | '*'),
        '\u{fe00}'..='\u{fe0d}' | '\u{e0100}'..='\u{e01ef}' => {
            matches!(before, '\u{2190}'..='\u{2bff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
        }
        _ => false,
    }
}

fn is_emoji(c: char) -> bool {
    matches!(c,
        '\u{a9}' | '\u{ae}' | '\u{203c}' | '\u{2049}' | '\u{2122}' | '\u{2139}' | '\u{2194}'..='\u{21aa}'
        | '\u{231a}'..='\u{23ff}' | '\u{24c2}' | '\u{25aa}'..='\u{25fe}' | '\u{2600}'..='\u{27bf}'
        | '\u{2934}' | '\u{2935}' | '\u{2b05}'..='\u{2b55}' | '\u{3030}' | '\u{303d}' | '\u{3297}' | '\u{3299}'
        | '\u{1f000}'..='\u{1faff}')
}

/// Letters of scripts in which a joiner, or its opposite, changes how words are written: Arabic to Malayalam, Sinhala,
/// Myanmar, Khmer.
fn is_of_joining_script(c: char) -> bool {
    matches!(c, '\u{620}'..='\u{8ff}' | '\u{900}'..='\u{dff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17b3}' | '\u{17b6}'..='\u{17ff}')
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

/// The number of columns that a line takes.
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

/// A line cut at its front to `columns`, with an ellipsis where something is missing: the end of a path says most.
pub(crate) fn cut_front(line: &str, columns: usize) -> Cow<'_, str> {
    if width(line) <= columns {
        return Cow::Borrowed(line);
    }
    let mut room = columns.saturating_sub(1);
    let kept = line.char_indices().rev().take_while(|(_, c)| {
        let width = c.width().unwrap_or(0);
        let fits = width <= room;
        room = room.saturating_sub(width);
        fits
    });
    let begin = kept.last().map_or(line.len(), |(at, _)| at);
    Cow::Owned(format!("…{}", &line[begin..]))
}

/// A line cut or filled up with spaces to exactly `columns`.
pub(crate) fn fit(line: &str, columns: usize) -> String {
    let cut = cut(line, columns);
    let padding = columns.saturating_sub(width(&cut));
    format!("{cut}{:padding$}", "")
}

/// A line cut or filled up on the left with spaces to exactly `columns`.
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

/// The column where the text of a line begins, behind its indent and its list mark: continuation lines start there.
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

/// A number in groups of three digits.
pub(crate) fn grouped(n: usize) -> String {
    indicatif::HumanCount(n as u64).to_string()
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
    zone: OnceLock<TimeZone>,
}

/// The user's time zone. jiff would look for its name in all of the directory of zones, which takes a command that answers at once a tenth of its
/// time; the file that says which zone it is holds the zone itself.
fn local_zone() -> TimeZone {
    let is_named = std::env::var_os("TZ").is_some();
    let file = (!is_named).then(|| std::fs::read("/etc/localtime").ok()).flatten();
    file.and_then(|file| TimeZone::tzif("local", &file).ok()).unwrap_or_else(TimeZone::system)
}

impl Clock {
    /// A clock in the time zone of the system.
    pub(crate) fn new(now: i64) -> Clock {
        Clock { now, zone: OnceLock::new() }
    }

    /// A clock in another time zone.
    #[cfg(test)]
    pub(crate) fn in_zone(now: i64, zone: TimeZone) -> Clock {
        Clock { now, zone: zone.into() }
    }

    /// The time zone, which is read when it is needed first.
    pub(crate) fn zone(&self) -> &TimeZone {
        self.zone.get_or_init(local_zone)
    }

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

    /// When something was, so that it can be told from what was shortly before: at most twelve columns.
    pub(crate) fn when(&self, millis: i64) -> String {
        match self.now - millis {
            past if past < -60_000 => self.date(millis),
            past if past < 60_000 => "just now".to_owned(),
            past if past < 3_600_000 => format!("{}m ago", past / 60_000),
            past if past < 86_400_000 => format!("{}h ago", past / 3_600_000),
            past if past < 6 * 86_400_000 => self.format(millis, "%a %H:%M"),
            past if past < 300 * 86_400_000 => self.format(millis, "%b %d %H:%M"),
            _ => self.date(millis),
        }
    }

    /// The day of a time, in days since 1970-01-01.
    pub(crate) fn day(&self, millis: i64) -> i64 {
        match Timestamp::from_millisecond(millis) {
            Ok(time) => {
                let offset = self.zone().to_offset(time).seconds();
                (millis.div_euclid(1000) + i64::from(offset)).div_euclid(86_400)
            }
            Err(_) => millis.div_euclid(86_400_000),
        }
    }

    /// The Monday of the week of a time, as a date.
    pub(crate) fn week(&self, millis: i64) -> String {
        let day = self.day(millis);
        // 1970-01-01 was a Thursday.
        self.date_of_day(day - (day + 3).rem_euclid(7))
    }

    /// The month of a time, such as `2026-02`.
    pub(crate) fn month(&self, millis: i64) -> String {
        self.date_of_day(self.day(millis)).chars().take(7).collect()
    }

    /// The date of a day that is counted since 1970-01-01.
    pub(crate) fn date_of_day(&self, day: i64) -> String {
        match Timestamp::from_second(day.saturating_mul(86_400)) {
            Ok(time) => time.strftime("%Y-%m-%d").to_string(),
            Err(_) => day.to_string(),
        }
    }

    /// The beginning of the day `days_ago` days ago; 0 is today.
    pub(crate) fn midnight(&self, days_ago: i64) -> i64 {
        let today = Timestamp::from_millisecond(self.now).map(|now| now.to_zoned(self.zone().clone()));
        let day = today.and_then(|today| today.checked_sub(jiff::Span::new().try_days(days_ago)?));
        let midnight = day.and_then(|day| day.start_of_day());
        midnight.map_or(self.now, |midnight| midnight.timestamp().as_millisecond())
    }

    fn format(&self, millis: i64, format: &str) -> String {
        match Timestamp::from_millisecond(millis) {
            Ok(time) => time.to_zoned(self.zone().clone()).strftime(format).to_string(),
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
        check("\u{9c}\u{9d}52;c;QQ==\u{7}", "\u{fffd}\u{fffd}52;c;QQ==␇");
        check("one\u{2028}two\u{2029}three", "one\ntwo\nthree");
    }

    #[test]
    fn nothing_invisible_is_left() {
        let invisible = [
            '\u{ad}',
            '\u{34f}',
            '\u{61c}',
            '\u{115f}',
            '\u{180e}',
            '\u{200b}',
            '\u{200c}',
            '\u{200d}',
            '\u{200e}',
            '\u{200f}',
            '\u{202a}',
            '\u{202e}',
            '\u{2060}',
            '\u{2063}',
            '\u{2066}',
            '\u{2069}',
            '\u{206f}',
            '\u{3164}',
            '\u{fe00}',
            '\u{fe0f}',
            '\u{feff}',
            '\u{fff9}',
            '\u{fffb}',
            '\u{1d173}',
            '\u{e0001}',
            '\u{e0041}',
            '\u{e007f}',
            '\u{e0100}',
        ];
        for c in invisible {
            assert_eq!(harmless(&format!("a{c}b")), "ab", "U+{:04X}", c as u32);
            assert_eq!(one_line(&format!("{c}")), "", "U+{:04X}", c as u32);
        }
    }

    #[test]
    fn what_writing_needs_stays() {
        // A family, a heart, a keycap, a person with a skin tone at a computer; Persian, Hindi; a variant of a Han character.
        for text in [
            "👨\u{200d}👩\u{200d}👧",
            "❤\u{fe0f}",
            "1\u{fe0f}\u{20e3}",
            "🧑🏽\u{200d}💻",
            "🏳\u{fe0f}\u{200d}🌈",
            "می\u{200c}خواهم",
            "क्\u{200d}ष",
            "葛\u{e0100}",
        ] {
            assert_eq!(harmless(text), text, "{text:?}");
        }
        // Elsewhere the same characters hide something.
        assert_eq!(harmless("pay\u{200d}pal 🎉\u{200d} x\u{fe0f} \u{fe0f}\u{fe0f}"), "paypal 🎉 x ");
        assert_eq!(harmless("🏴\u{e0067}\u{e0062}\u{e007f}"), "🏴");
    }

    #[test]
    fn only_colours_of_our_own_pass_the_door() {
        let check = |line: &str, styled: &str, plain: &str| {
            assert_eq!(for_terminal(line, true), styled, "{line:?}");
            assert_eq!(for_terminal(line, false), plain, "{line:?}");
        };
        check("plain", "plain", "plain");
        check("\x1b[1;31merror:\x1b[0m x", "\x1b[1;31merror:\x1b[0m x", "error: x");
        check("a\x1b]52;c;QQ==\x07.db", "a.db", "a.db");
        check("\x1b[2Ja\x1b[36mb\x1b[0m\x1b[1Ac", "a\x1b[36mb\x1b[0mc", "abc");
        check("\x1b[8mhidden\x1b[5mblinks\x1b[38;5;0m", "hiddenblinks", "hiddenblinks");
        check("two\nlines\ttab", "two lines    tab", "two lines    tab");
        check("\x1b[31", "", "");
    }

    #[test]
    fn a_command_can_be_copied() {
        assert_eq!(shell_word("/home/me/opencode.db"), "/home/me/opencode.db");
        assert_eq!(shell_word("/home/me/my $(files)"), "'/home/me/my $(files)'");
        assert_eq!(shell_word("it's"), r#""it's""#);
        assert_eq!(shell_word("a\0$b"), "'a\0$b'");
    }

    #[test]
    fn symbols_have_a_plain_form_of_the_same_width() {
        assert_eq!(in_ascii("✓ read  a… · $1 ██▌▏ ↳ é 日本"), "+ read  a~ - $1 ##|: > é 日本");
    }

    #[test]
    fn weeks_begin_on_monday() {
        let clock = Clock::in_zone(0, TimeZone::UTC);
        let check = |date: &str, week: &str, month: &str| {
            let millis = format!("{date}T12:00:00Z").parse::<Timestamp>().unwrap().as_millisecond();
            assert_eq!((&clock.week(millis)[..], &clock.month(millis)[..]), (week, month), "{date}");
        };
        check("2026-11-15", "2026-11-09", "2026-11");
        check("2026-11-16", "2026-11-16", "2026-11");
        check("2026-11-18", "2026-11-16", "2026-11");
        check("1969-12-31", "1969-12-29", "1969-12");
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
