//! The pieces of a compound word.

use super::class::{Class, DIGIT, LOWER, SEPARATOR, UNDERSCORE, UPPER};

/// A word with more places where a letter stands next to a digit is a hash or an id, and its pieces are noise.
const MAX_SWITCHES: usize = 4;

/// Finds the pieces of a word by the classes of its characters, marks left out. Gives up and says so if they are noise.
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
    // Where in `HTTPServer` `Server` begins. That it does is known only at its end: `URLs` is one piece.
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
