//! The scanner: one iterative pass that checks a text and records the place of each value.

use super::{JsonError, JsonErrorKind};

/// Where every value of a checked text begins and ends.
///
/// Entries are in text order. A container is followed by its contents (for an object key, value, key, value …) and
/// knows the entry after them, so a reader steps over a megabyte of nested metadata at the cost of one lookup.
#[derive(Debug, Clone)]
pub struct Tape {
    pub(super) entries: Vec<TapeEntry>,
}

/// One key or value: its bytes (a string with its quotes) and the entry that follows it and all it contains.
///
/// 32 bits each: a document is limited to [`Tape::MAX_BYTES`], and half the memory means half the cache misses.
#[derive(Debug, Clone, Copy)]
pub(super) struct TapeEntry {
    pub(super) start: u32,
    pub(super) end: u32,
    pub(super) next: u32,
}

impl Tape {
    /// Limit on nesting: no program writes deeper texts, and the scanner's own stack must stay bounded.
    pub const MAX_DEPTH: usize = 1_000_000;
    /// Limit on the length of a text.
    pub const MAX_BYTES: usize = 1 << 30;

    /// Checks that `text` is one JSON document. A leading byte order mark is accepted.
    pub fn scan(text: &str) -> Result<Tape, JsonError> {
        let bytes = text.as_bytes();
        if bytes.len() > Tape::MAX_BYTES {
            return Err(JsonError::at(JsonErrorKind::TooLarge, bytes, 0));
        }
        // OpenCode's documents have an entry for every 25 bytes or so; long texts have far fewer.
        let entries = Vec::with_capacity((bytes.len() / 24).clamp(8, 256));
        let mut scanner = Scanner { bytes, at: 0, entries, open: Vec::new() };
        match scanner.document() {
            Ok(()) => Ok(Tape { entries: scanner.entries }),
            Err(kind) => Err(JsonError::at(kind, bytes, scanner.at)),
        }
    }
}

/// Number of bytes at the beginning that need no escape in a string.
fn plain(bytes: &[u8]) -> usize {
    let is_plain = |byte: u8| (byte >= 0x20) & (byte != b'"') & (byte != b'\\');
    // Whole chunks are checked with vector instructions; `position` alone would go byte by byte.
    let chunks = bytes.chunks_exact(CHUNK);
    let n_chunks =
        chunks.take_while(|chunk| chunk.iter().fold(true, |all, &byte| all & is_plain(byte))).count();
    let (seen, rest) = bytes.split_at(n_chunks * CHUNK);
    seen.len() + rest.iter().position(|&byte| !is_plain(byte)).unwrap_or(rest.len())
}

/// Bytes checked at once: the size of a vector register.
const CHUNK: usize = 32;

struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
    entries: Vec<TapeEntry>,
    /// The containers that are still open, as indices into `entries`: the stack that recursion would have used.
    open: Vec<u32>,
}

type ScanResult = Result<(), JsonErrorKind>;

impl Scanner<'_> {
    fn document(&mut self) -> ScanResult {
        if self.bytes.starts_with(b"\xef\xbb\xbf") {
            self.at = 3;
        }
        self.space();
        if self.peek().is_none() {
            return Err(JsonErrorKind::Empty);
        }
        loop {
            self.value()?;
            if self.close()? {
                break;
            }
        }
        self.space();
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(JsonErrorKind::Trailing),
        }
    }

    /// Scans values, going down into containers, until one is complete.
    fn value(&mut self) -> ScanResult {
        loop {
            self.space();
            let start = self.at;
            let Some(byte) = self.peek() else { return Err(JsonErrorKind::Cut(self.place())) };
            match byte {
                b'{' | b'[' => {
                    if self.open.len() >= Tape::MAX_DEPTH {
                        return Err(JsonErrorKind::TooDeep);
                    }
                    self.open.push(self.entries.len() as u32);
                    self.push(start, start);
                    self.at += 1;
                    self.space();
                    match (byte, self.peek()) {
                        (b'{', Some(b'}')) | (b'[', Some(b']')) => return Ok(()),
                        (b'{', _) => self.key()?,
                        _ => {}
                    }
                    continue;
                }
                b'"' => self.string()?,
                b'-' | b'0'..=b'9' => self.number()?,
                b't' => self.word(b"true")?,
                b'f' => self.word(b"false")?,
                b'n' => self.word(b"null")?,
                found => return Err(JsonErrorKind::Unexpected { wanted: "a value", found }),
            }
            self.push(start, self.at);
            return Ok(());
        }
    }

    /// After a complete value, closes the containers that end here and moves to the next member. True at the end of the
    /// document.
    fn close(&mut self) -> Result<bool, JsonErrorKind> {
        while let Some(&container) = self.open.last() {
            let is_object = self.bytes[self.entries[container as usize].start as usize] == b'{';
            self.space();
            let Some(byte) = self.peek() else { return Err(JsonErrorKind::Cut(self.place())) };
            match byte {
                b',' => {
                    self.at += 1;
                    if is_object {
                        self.space();
                        self.key()?;
                    }
                    return Ok(false);
                }
                b'}' if is_object => {}
                b']' if !is_object => {}
                found => {
                    let wanted = if is_object { "`,` or `}`" } else { "`,` or `]`" };
                    return Err(JsonErrorKind::Unexpected { wanted, found });
                }
            }
            self.at += 1;
            self.open.pop();
            let next = self.entries.len() as u32;
            let entry = &mut self.entries[container as usize];
            entry.end = self.at as u32;
            entry.next = next;
        }
        Ok(true)
    }

    fn key(&mut self) -> ScanResult {
        let start = self.at;
        match self.peek() {
            Some(b'"') => self.string()?,
            Some(found) => return Err(JsonErrorKind::Unexpected { wanted: "a key", found }),
            None => return Err(JsonErrorKind::Cut("an object")),
        }
        self.push(start, self.at);
        self.space();
        match self.peek() {
            Some(b':') => self.at += 1,
            Some(found) => return Err(JsonErrorKind::Unexpected { wanted: "`:`", found }),
            None => return Err(JsonErrorKind::Cut("an object")),
        }
        Ok(())
    }

    fn string(&mut self) -> ScanResult {
        self.at += 1;
        loop {
            self.at += plain(&self.bytes[self.at..]);
            match self.peek() {
                None => return Err(JsonErrorKind::Cut("a string")),
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => self.escape()?,
                Some(control) => return Err(JsonErrorKind::Control(control)),
            }
        }
    }

    fn escape(&mut self) -> ScanResult {
        match self.bytes.get(self.at + 1) {
            None => Err(JsonErrorKind::Cut("a string")),
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.at += 2;
                Ok(())
            }
            Some(b'u') => match self.bytes.get(self.at + 2..self.at + 6) {
                None => Err(JsonErrorKind::Cut("a string")),
                Some(digits) if digits.iter().all(u8::is_ascii_hexdigit) => {
                    self.at += 6;
                    Ok(())
                }
                Some(_) => Err(JsonErrorKind::BadEscape),
            },
            Some(_) => Err(JsonErrorKind::BadEscape),
        }
    }

    fn number(&mut self) -> ScanResult {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits()?,
            _ => return Err(JsonErrorKind::BadNumber),
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        match self.peek() {
            Some(b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'.' | b'+' | b'-') => {
                Err(JsonErrorKind::BadNumber)
            }
            _ => Ok(()),
        }
    }

    fn digits(&mut self) -> ScanResult {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        if self.at == start { Err(JsonErrorKind::BadNumber) } else { Ok(()) }
    }

    fn word(&mut self, word: &'static [u8]) -> ScanResult {
        let rest = &self.bytes[self.at..];
        if rest.starts_with(word) {
            self.at += word.len();
            Ok(())
        } else if word.starts_with(rest) {
            self.at = self.bytes.len();
            Err(JsonErrorKind::Cut("a value"))
        } else {
            Err(JsonErrorKind::Unexpected { wanted: "a value", found: rest[0] })
        }
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn push(&mut self, start: usize, end: usize) {
        let next = self.entries.len() as u32 + 1;
        self.entries.push(TapeEntry { start: start as u32, end: end as u32, next });
    }

    fn place(&self) -> &'static str {
        match self.open.last().map(|&container| self.bytes[self.entries[container as usize].start as usize]) {
            Some(b'{') => "an object",
            Some(_) => "an array",
            None => "a value",
        }
    }
}
