//! The pieces of a compound word.

use super::class::{Class, DIGIT, LOWER, SEPARATOR, UNDERSCORE, UPPER};

/// Limit on the places in a word where a letter is next to a digit. A word with more is a hash or an id, and its pieces are
/// noise.
const MAX_SWITCHES: usize = 4;

/// Finds the pieces of a word by the classes of its characters, without marks. Returns whether they are noise:
/// those of a hash or an id.
pub(super) fn split(
    word: &str,
    classes: impl Iterator<Item = (usize, Class)>,
    offset: usize,
    pieces: &mut Vec<(usize, usize)>,
) -> bool {
    let mut push = |from, to| pieces.push((offset + from, offset + to));
    let mut before = UNDERSCORE;
    // Where the piece, the lower-case letters in it and its last upper-case letter begin.
    let (mut piece, mut lower, mut upper) = (0, 0, 0);
    // Where `Server` begins in `HTTPServer`. Only its end tells whether it is a piece: `URLs` is one piece.
    let mut title = None;
    let mut switches = 0;
    for (at, class) in classes.chain([(word.len(), SEPARATOR)]) {
        if class == before {
            if class == UPPER {
                upper = at;
            }
            continue;
        }
        if before == UPPER && class == LOWER {
            title = (upper > piece).then_some(upper);
        } else {
            if before != UNDERSCORE {
                if let Some(title) = title.take().filter(|_| &word[lower..at] != "s") {
                    push(piece, title);
                    piece = title;
                }
                push(piece, at);
                let is_switch = class & (LOWER | UPPER | DIGIT) != 0 && (before | class) & DIGIT != 0;
                switches += usize::from(is_switch);
                if switches > MAX_SWITCHES {
                    return true;
                }
            }
            piece = at;
        }
        match class {
            LOWER => lower = at,
            UPPER => upper = at,
            _ => {}
        }
        before = class;
    }
    false
}
