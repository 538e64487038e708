//! Character classes of the tokenizer.
//!
//! `char` tells letters and numbers. The two tables are our own, not a copy of a Unicode property: compared with
//! `unicode-properties` and `unicode-script`, 671 characters differ, for example U+0301, which Script_Extensions also
//! assigns to scripts without spaces. The tables must not change: another class makes other tokens, and every user's index
//! would have to be rebuilt.

use std::sync::LazyLock;

/// A class is one bit, so that the classes of a word can be collected in a byte.
pub(super) type Class = u8;

/// Neither in a word nor a word.
pub(super) const SEPARATOR: Class = 0;
/// A letter that is not upper-case, also of scripts without case.
pub(super) const LOWER: Class = 1;
/// An upper-case letter.
pub(super) const UPPER: Class = 1 << 1;
/// A digit or another number.
pub(super) const DIGIT: Class = 1 << 2;
/// `_`, which joins pieces of a word and is not part of its token.
pub(super) const UNDERSCORE: Class = 1 << 3;
/// A combining mark or a joiner: continues the character before it and never begins a word.
pub(super) const MARK: Class = 1 << 4;
/// A token of its own: a character of a script that is written without spaces.
pub(super) const ALONE: Class = 1 << 5;
/// A byte of a character that is not ASCII: see [`of_char`].
pub(super) const WIDE: Class = 1 << 6;
/// The escape character, which may begin a sequence for terminals.
pub(super) const ESCAPE: Class = 1 << 7;

/// Classes of the characters in a word.
pub(super) const WORD: Class = LOWER | UPPER | DIGIT | UNDERSCORE;

/// The class of every byte.
pub(super) const OF_BYTE: [Class; 256] = {
    let mut table = [SEPARATOR; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = match byte as u8 {
            b'a'..=b'z' => LOWER,
            b'A'..=b'Z' => UPPER,
            b'0'..=b'9' => DIGIT,
            b'_' => UNDERSCORE,
            0x1b => ESCAPE,
            0x80.. => WIDE,
            _ => SEPARATOR,
        };
        byte += 1;
    }
    table
};

/// The class of a character.
pub(super) fn of_char(c: char) -> Class {
    // Alphabets are in this range; characters beyond it are either rare or `ALONE`.
    static SMALL: LazyLock<Vec<Class>> = LazyLock::new(|| {
        ('\0'..'\u{800}').map(|c| if c.is_ascii() { OF_BYTE[c as usize] } else { look_up(c) }).collect()
    });
    SMALL.get(c as usize).copied().unwrap_or_else(|| look_up(c))
}

fn look_up(c: char) -> Class {
    let is_alphabetic = c.is_alphabetic();
    let is_known = is_alphabetic || c.is_numeric();
    if is_within(c, WITHOUT_SPACES) && (is_known || is_within(c, MARKS)) {
        ALONE
    } else if is_alphabetic {
        if c.is_uppercase() { UPPER } else { LOWER }
    } else if is_known {
        DIGIT
    } else if is_within(c, MARKS) {
        MARK
    } else {
        SEPARATOR
    }
}

/// Whether a mark is invisible, so that a word is the same word without it.
pub(super) fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200c}' | '\u{200d}' | '\u{2060}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
        | '\u{e0100}'..='\u{e01ef}')
}

fn is_within(c: char, ranges: &[(u32, u32)]) -> bool {
    let c = u32::from(c);
    let after = ranges.partition_point(|&(first, _)| first <= c);
    after.checked_sub(1).is_some_and(|at| c <= ranges[at].1)
}

/// Scripts without spaces between words. Hangul is here although it has spaces, because its words take endings that people
/// leave out when they search.
const WITHOUT_SPACES: &[(u32, u32)] = &[
    (0x0e00, 0x0eff),   // Thai, Lao
    (0x1000, 0x109f),   // Myanmar
    (0x1100, 0x11ff),   // Hangul, in its letters
    (0x1780, 0x17ff),   // Khmer
    (0x1950, 0x19df),   // Tai Le, New Tai Lue
    (0x1a20, 0x1aaf),   // Tai Tham
    (0x2e80, 0x2fdf),   // Han radicals
    (0x3005, 0x3007),   // Han signs of repetition and zero
    (0x3021, 0x3029),   // Han numerals
    (0x3031, 0x3035),   // Kana signs of repetition
    (0x3038, 0x303c),   // Han numerals and signs
    (0x3040, 0x30ff),   // Hiragana, Katakana
    (0x3100, 0x318f),   // Bopomofo, Hangul letters
    (0x31a0, 0x31bf),   // Bopomofo
    (0x31f0, 0x31ff),   // Katakana
    (0x3400, 0x4dbf),   // Han
    (0x4e00, 0xa4cf),   // Han, Yi
    (0xa960, 0xa97f),   // Hangul letters
    (0xa980, 0xa9ff),   // Javanese, Myanmar
    (0xaa60, 0xaadf),   // Myanmar, Tai Viet
    (0xac00, 0xd7ff),   // Hangul
    (0xf900, 0xfaff),   // Han
    (0xff66, 0xffdc),   // Katakana and Hangul of half width
    (0x1aff0, 0x1b16f), // Kana
    (0x20000, 0x3fffd), // Han
];

/// Marks that `char` counts neither as letters nor as numbers, and invisible joiners. Characters of these ranges that are
/// letters or numbers have been recognised before this table is consulted.
const MARKS: &[(u32, u32)] = &[
    (0x00ad, 0x00ad),
    (0x0300, 0x036f),
    (0x0483, 0x0489),
    (0x0591, 0x05bd),
    (0x05bf, 0x05bf),
    (0x05c1, 0x05c2),
    (0x05c4, 0x05c5),
    (0x05c7, 0x05c7),
    (0x0610, 0x061a),
    (0x064b, 0x065f),
    (0x0670, 0x0670),
    (0x06d6, 0x06dc),
    (0x06df, 0x06e8),
    (0x06ea, 0x06ed),
    (0x0730, 0x074a),
    (0x07a6, 0x07b0),
    (0x07eb, 0x07f3),
    (0x0816, 0x082d),
    (0x0859, 0x085b),
    (0x0898, 0x089f),
    (0x08ca, 0x0903),
    (0x093a, 0x0957),
    (0x09bc, 0x09cd),
    (0x0a3c, 0x0a4d),
    (0x0abc, 0x0acd),
    (0x0b3c, 0x0b4d),
    (0x0bcd, 0x0bcd),
    (0x0c3c, 0x0c4d),
    (0x0cbc, 0x0ccd),
    (0x0d3b, 0x0d4d),
    (0x0dca, 0x0dca),
    (0x0e47, 0x0e4e),
    (0x0eba, 0x0ece),
    (0x0f18, 0x0f19),
    (0x0f35, 0x0f39),
    (0x0f71, 0x0f87),
    (0x0fc6, 0x0fc6),
    (0x1037, 0x103a),
    (0x135d, 0x135f),
    (0x1714, 0x1715),
    (0x17c9, 0x17d3),
    (0x17dd, 0x17dd),
    (0x1a60, 0x1a7f),
    (0x1ab0, 0x1ace),
    (0x1b34, 0x1b44),
    (0x1dc0, 0x1dff),
    (0x200c, 0x200d),
    (0x2060, 0x2060),
    (0x20d0, 0x20f0),
    (0x3099, 0x309a),
    (0xa66f, 0xa67d),
    (0xa806, 0xa806),
    (0xa8c4, 0xa8c4),
    (0xa9b3, 0xa9c0),
    (0xaaf6, 0xaaf6),
    (0xabed, 0xabed),
    (0xfe00, 0xfe0f),
    (0xfe20, 0xfe2f),
    (0xfeff, 0xfeff),
    (0xe0100, 0xe01ef),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_sorted() {
        for table in [WITHOUT_SPACES, MARKS] {
            assert!(table.iter().all(|(first, last)| first <= last));
            assert!(table.windows(2).all(|pair| pair[0].1 < pair[1].0));
        }
    }

    #[test]
    fn characters_have_classes() {
        let check = |text: &str, class: Class| {
            for c in text.chars() {
                assert_eq!(of_char(c), class, "{c:?}");
            }
        };
        check("azßéжαאبक", LOWER);
        check("AZÉЖΑ", UPPER);
        check("09٣५½²", DIGIT);
        check("\u{301}\u{94d}\u{200d}\u{fe0f}\u{ad}", MARK);
        check("漢字かなカナー한ไทย่ລາວမြန်မာ့ខ្មែរ々〇ꀀ𠀀ｶ", ALONE);
        check(" .-–—“”…。、・「」！🎉❤€฿\u{a0}\u{200b}\u{202e}\u{fffd}\0", SEPARATOR);
        check("_", UNDERSCORE);
        check("\u{1b}", ESCAPE);
    }

    #[test]
    fn bytes_and_characters_agree() {
        for byte in 0..0x80_u8 {
            assert_eq!(of_char(char::from(byte)), OF_BYTE[usize::from(byte)]);
        }
    }
}
