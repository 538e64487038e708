//! The tokenizer: the words of a text, as an index holds them.
//!
//! A **word** is a run of letters, numbers and `_`; everything else separates words. Its **token** is the word in lower
//! case without `_`. A **compound** such as `getUserName`, `get_user_name` or `utf8` has **pieces**. It gives the token of
//! the whole and then the tokens of its pieces, so that each spelling finds the other, and `user` finds both. Scripts
//! without spaces give a token for each character; a phrase of characters finds running text.
//!
//! Written by hand, because no filter of tantivy gives a compound and its pieces with positions that let a phrase match
//! both, and because terminal escape sequences and line numbers are not words. An index on disk holds the words, so the
//! definition of a word must never change. That includes the removal of escape sequences, see `control_sequence`.

mod class;
mod piece;
#[cfg(test)]
mod tests;

use class::{ALONE, Class, DIGIT, ESCAPE, LOWER, MARK, OF_BYTE, UPPER, WIDE, WORD};

/// One token of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token<'a> {
    /// The word or piece, in lower case.
    pub text: &'a str,
    /// Its place in the order of words. Pieces of a compound stand one after the other, and the whole stands with the
    /// first of them.
    pub position: usize,
    /// Where it begins in the text, in bytes.
    pub from: usize,
    /// Where it ends in the text, in bytes.
    pub to: usize,
}

/// A cursor over the tokens of a text.
///
/// Not an iterator, because a token borrows the buffer that the next one is written to: so a token costs no allocation.
///
/// ```
/// use annals_core::search::TokenCursor;
///
/// let mut tokens = TokenCursor::new("Calls getUserName()");
/// let mut seen = Vec::new();
/// while tokens.advance() {
///     seen.push((tokens.token().text.to_owned(), tokens.token().position));
/// }
/// let expected = [("calls", 0), ("getusername", 1), ("get", 1), ("user", 2), ("name", 3)];
/// assert_eq!(seen, expected.map(|(text, position)| (text.to_owned(), position)));
/// ```
#[derive(Debug, Clone)]
pub struct TokenCursor<'t> {
    source: &'t str,
    /// Where the next word is looked for.
    at: usize,
    /// Position of the next token.
    next_position: usize,
    /// Ranges of the pieces of the word, and the number of pieces already given.
    pieces: Vec<(usize, usize)>,
    given: usize,
    /// The current token, and its text if it differs from the source.
    position: usize,
    from: usize,
    to: usize,
    folded: String,
    is_folded: bool,
}

impl<'t> TokenCursor<'t> {
    /// Limit on the bytes of a word. A longer word is cut and has no pieces. Real words are shorter; longer ones are
    /// encoded data, which would fill an index with useless tokens.
    pub const MAX_BYTES: usize = 64;

    /// A cursor before the first token of `text`.
    pub fn new(text: &'t str) -> TokenCursor<'t> {
        TokenCursor {
            source: text,
            at: 0,
            next_position: 0,
            pieces: Vec::new(),
            given: 0,
            position: 0,
            from: 0,
            to: 0,
            folded: String::new(),
            is_folded: false,
        }
    }

    /// Goes to the next token; `false` after the last.
    pub fn advance(&mut self) -> bool {
        if let Some(&(from, to)) = self.pieces.get(self.given) {
            self.given += 1;
            self.fold(from, to);
            self.give(from, to, 1);
            return true;
        }
        let bytes = self.source.as_bytes();
        while let Some(&byte) = bytes.get(self.at) {
            if byte.is_ascii_digit() && is_line_number(bytes, self.at) {
                self.at += LINE_NUMBER;
                continue;
            }
            match OF_BYTE[usize::from(byte)] {
                LOWER | UPPER | DIGIT => {
                    self.word();
                    return true;
                }
                WIDE => {
                    let (class, len) = wide(self.source, self.at);
                    match class {
                        LOWER | UPPER | DIGIT => {
                            self.word();
                            return true;
                        }
                        ALONE => {
                            let from = self.at;
                            self.at += len;
                            self.is_folded = false;
                            self.give(from, from + len, 1);
                            return true;
                        }
                        _ => self.at += len,
                    }
                }
                ESCAPE => self.at += control_sequence(&bytes[self.at..]),
                _ => self.at += 1,
            }
        }
        false
    }

    /// The current token; before the first [`TokenCursor::advance`] it is empty.
    pub fn token(&self) -> Token<'_> {
        let text = if self.is_folded { self.folded.as_str() } else { &self.source[self.from..self.to] };
        Token { text, position: self.position, from: self.from, to: self.to }
    }

    /// Takes the word that begins here.
    fn word(&mut self) {
        let bytes = self.source.as_bytes();
        let from = self.at;
        let (first, len) = match OF_BYTE[usize::from(bytes[from])] {
            WIDE => wide(self.source, from),
            class => (class, 1),
        };
        // The classes of the other characters, with `WIDE` if any character of the word is wide.
        let mut rest = if len > 1 { WIDE } else { 0 };
        let mut to = from + len;
        while let Some(&byte) = bytes.get(to) {
            let class = OF_BYTE[usize::from(byte)];
            if class & WORD != 0 {
                rest |= class;
                to += 1;
                continue;
            }
            if class != WIDE {
                break;
            }
            let (class, len) = wide(self.source, to);
            if class & (WORD | MARK) == 0 {
                break;
            }
            rest |= class | WIDE;
            to += len;
        }
        self.at = to;
        if to - from > Self::MAX_BYTES {
            return self.whole(from, self.source.floor_char_boundary(from + Self::MAX_BYTES));
        }
        match (first, rest & !(WIDE | MARK)) {
            (LOWER, 0 | LOWER) | (DIGIT, 0 | DIGIT) if rest & WIDE == 0 => self.is_folded = false,
            (LOWER, 0 | LOWER) | (DIGIT, 0 | DIGIT) | (UPPER, 0 | UPPER | LOWER) => self.fold(from, to),
            _ => return self.compound(from, to, rest & WIDE != 0),
        }
        self.give(from, to, 1);
    }

    /// Takes a word that may have pieces.
    fn compound(&mut self, from: usize, to: usize, is_wide: bool) {
        self.pieces.clear();
        self.given = 0;
        let word = &self.source[from..to];
        let is_noise = if !is_wide {
            let classes = word.bytes().map(|byte| OF_BYTE[usize::from(byte)]);
            piece::split(word, classes.enumerate(), from, &mut self.pieces)
        } else {
            let classes = word.char_indices().map(|(at, c)| (at, class::of_char(c)));
            piece::split(word, classes.filter(|&(_, class)| class != MARK), from, &mut self.pieces)
        };
        match self.pieces.as_slice() {
            [first, .., last] if !is_noise => {
                let (from, to) = (first.0, last.1);
                self.folded.clear();
                self.is_folded = true;
                for &(from, to) in &self.pieces {
                    fold_into(&mut self.folded, &self.source[from..to]);
                }
                self.give(from, to, 0);
            }
            _ => self.whole(from, to),
        }
    }

    /// Takes a word without pieces.
    fn whole(&mut self, from: usize, to: usize) {
        self.pieces.clear();
        let word = self.source[from..to].trim_end_matches('_');
        self.folded.clear();
        self.is_folded = true;
        for piece in word.split('_') {
            fold_into(&mut self.folded, piece);
        }
        self.give(from, from + word.len(), 1);
    }

    fn give(&mut self, from: usize, to: usize, steps: usize) {
        self.from = from;
        self.to = to;
        self.position = self.next_position;
        self.next_position += steps;
    }

    /// Takes a word that becomes a token by lowering its capitals.
    fn fold(&mut self, from: usize, to: usize) {
        let piece = &self.source[from..to];
        self.is_folded = piece.bytes().any(|byte| OF_BYTE[usize::from(byte)] & (UPPER | WIDE) != 0);
        if self.is_folded {
            self.folded.clear();
            fold_into(&mut self.folded, piece);
        }
    }
}

fn fold_into(folded: &mut String, piece: &str) {
    if piece.is_ascii() {
        let from = folded.len();
        folded.push_str(piece);
        folded[from..].make_ascii_lowercase();
        return;
    }
    for c in piece.chars().filter(|&c| !class::is_invisible(c)) {
        match c {
            // The sigma at the end of a word differs from the one inside; as capitals they are the same.
            'ς' => folded.push('σ'),
            c => folded.extend(c.to_lowercase()),
        }
    }
}

/// Length of the numbers that OpenCode's `read` put before the lines of a file up to 1.1: `00012| `.
const LINE_NUMBER: usize = 7;

/// Whether such a number begins here. It is not part of the file's text, so a phrase may continue on the next line.
fn is_line_number(bytes: &[u8], at: usize) -> bool {
    (at == 0 || bytes[at - 1] == b'\n')
        && bytes
            .get(at..at + LINE_NUMBER)
            .is_some_and(|number| number[..5].iter().all(u8::is_ascii_digit) && number[5..] == *b"| ")
}

/// The class and the length of the character that begins at `at`.
fn wide(text: &str, at: usize) -> (Class, usize) {
    let c = text[at..].chars().next().unwrap_or(char::REPLACEMENT_CHARACTER);
    (class::of_char(c), c.len_utf8())
}

/// Whether a character can be in a word or be one by itself.
pub(super) fn is_word(c: char) -> bool {
    class::of_char(c) & (WORD | MARK | ALONE) != 0
}

/// Length of the terminal escape sequence, such as a colour, that begins with the first byte. Its letters are not text:
/// `\x1b[31merror` says `error`. An incomplete sequence loses only its escape character, and text in titles and links stays
/// text: this decides what is found, not what is safe to show.
pub(super) fn control_sequence(bytes: &[u8]) -> usize {
    if bytes.get(1) != Some(&b'[') {
        return 1;
    }
    let parameters = bytes[2..].iter().take_while(|byte| matches!(byte, 0x20..=0x3f)).count();
    match bytes.get(2 + parameters) {
        Some(0x40..=0x7e) => 3 + parameters,
        _ => 1,
    }
}
