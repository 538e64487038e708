//! A piece of a text as JavaScript may cut it: in the middle of a character.
//!
//! A string of JavaScript is made of units of 16 bits, and a character outside of the first 65,536 takes two of them. A program that cuts a
//! text into pieces may part the two; in JSON each of them is an escape of its own. Joined again, they are the character.

use annals_core::Document;
use annals_core::json::Node;
use serde::{Deserialize, Deserializer, de};
use serde_json::value::RawValue;

/// A piece of a text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Piece {
    /// The second half of a character whose first half ended the piece before.
    low: Option<u16>,
    text: String,
    /// The first half of a character whose second half begins the next piece.
    high: Option<u16>,
}

/// The first half of a character that waits for the second one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct HalfCharacter(Option<u16>);

impl HalfCharacter {
    /// The text that a piece adds after this half.
    pub(super) fn join(&mut self, piece: &Piece) -> String {
        let mut text = match (self.0, piece.low) {
            (None, None) => String::new(),
            (Some(high), _) if *piece == Piece::default() => {
                self.0 = Some(high);
                return String::new();
            }
            (high, low) => String::from_utf16_lossy(&[high, low].into_iter().flatten().collect::<Vec<u16>>()),
        };
        text.push_str(&piece.text);
        self.0 = piece.high;
        text
    }

    /// What is left of a character whose second half never came.
    pub(super) fn end(&mut self) -> &'static str {
        self.0.take().map_or("", |_| "\u{fffd}")
    }
}

impl Piece {
    /// The piece of a text in WTF-8, where a half of a character takes three bytes.
    fn of_wtf8(bytes: &[u8]) -> Piece {
        let unit = |half: &[u8]| match half {
            [0xed, second @ 0xa0..=0xbf, third] => {
                Some(0xd000 | u16::from(second & 0x3f) << 6 | u16::from(third & 0x3f))
            }
            _ => None,
        };
        let is_low = |unit: &u16| *unit >= 0xdc00;
        let low = bytes.get(..3).and_then(unit).filter(is_low);
        let bytes = if low.is_some() { &bytes[3..] } else { bytes };
        let last = bytes.len().checked_sub(3).map(|at| bytes.split_at(at));
        let (bytes, high) = match last.and_then(|(rest, half)| Some((rest, unit(half)?))) {
            Some((rest, high)) if !is_low(&high) => (rest, Some(high)),
            _ => (bytes, None),
        };
        let mut text = String::with_capacity(bytes.len());
        let mut rest = bytes;
        while let Some(at) = rest.windows(3).position(|window| unit(window).is_some()) {
            text.push_str(&String::from_utf8_lossy(&rest[..at]));
            // A half in the middle is of no character.
            text.push('\u{fffd}');
            rest = &rest[at + 3..];
        }
        text.push_str(&String::from_utf8_lossy(rest));
        Piece { low, text, high }
    }
}

impl<'de> Deserialize<'de> for Piece {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Piece, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let document = Document::parse(raw.get().as_bytes().to_vec()).map_err(de::Error::custom)?;
        let text = Node::as_text(document.root()).ok_or_else(|| de::Error::custom("it is not a string"))?;
        Ok(Piece::of_wtf8(&text.to_wtf8()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_of_a_character_find_each_other() {
        let check = |pieces: &[&str], expected: &str| {
            let (mut half, mut text) = (HalfCharacter::default(), String::new());
            for piece in pieces {
                let piece: Piece = serde_json::from_str(piece).unwrap();
                text.push_str(&half.join(&piece));
            }
            text.push_str(half.end());
            assert_eq!(text, expected, "{pieces:?}");
        };
        check(&[r#""a é 🛒""#, r#""""#, r#"" b""#], "a é 🛒 b");
        check(&[r#""a\ud83d""#, r#""\uded2b""#], "a🛒b");
        check(&[r#""\ud83d""#, r#""""#, r#""\uded2""#], "🛒");
        check(&[r#""\ud83d\uded2\ud83d""#, r#""\uded2""#], "🛒🛒");
        check(&[r#""a\ud83d""#, r#""b""#], "a\u{fffd}b");
        check(&[r#""a\ud83d""#], "a\u{fffd}");
        check(&[r#""\uded2b""#], "\u{fffd}b");
        check(&[r#""a\ud83db""#], "a\u{fffd}b");
        assert!(serde_json::from_str::<Piece>("1").is_err());
    }
}
