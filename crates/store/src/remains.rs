//! Remains of erased sessions: words of their documents that are still found in the bytes of files.
//!
//! What the files of a home or a store hold is not looked up in them but searched for, byte by byte: in free pages, logs and temporary files
//! there is no other way.

use std::collections::{BTreeSet, HashSet};
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use aho_corasick::{AhoCorasick, MatchKind};
use annals_core::{Document, Key};

use crate::home::{MessageDetail, MessageRange, Read, ReadError};
use crate::platform;
use crate::query::SessionQuery;
use crate::stores::sqlite::TEXT_OF_EVERY_STORE;

/// Shorter words are in any text.
const MIN_WORD: usize = 12;
/// Longer words are cut: their beginning is enough to find them.
const MAX_WORD: usize = 64;
/// Upper bound on the words that are searched for. The longest are taken: keys and tokens are long.
const MAX_WORDS: usize = 20_000;
/// Bytes of a file that are searched at a time.
const PIECE: usize = 1 << 20;

/// Words by which erased sessions would be recognised: their ids, and what their documents say.
#[derive(Debug, Clone, Default)]
pub struct Words {
    words: HashSet<Vec<u8>>,
}

impl Words {
    /// Adds an id.
    pub fn add_id(&mut self, id: &str) {
        self.words.insert(id.as_bytes().to_vec());
    }

    /// Adds a document of an erased session.
    pub fn add(&mut self, key: &Key, document: &Document) {
        match key {
            Key::Session(_, id) => self.add_id(id.as_str()),
            Key::Message(_, id) => self.add_id(id.as_str()),
            Key::Part(_, _, id) => self.add_id(id.as_str()),
            _ => {}
        }
        // A number may be a time, and any document may be of the same millisecond.
        let is_number =
            |word: &[u8]| word.iter().all(|byte| byte.is_ascii_digit() || b".-+eE".contains(byte));
        let words = words_of(document.bytes()).filter(|word| word.len() >= MIN_WORD && !is_number(word));
        self.words.extend(words.map(|word| word[..word.len().min(MAX_WORD)].to_vec()));
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// A searcher for the words.
    pub fn searcher(&self) -> Searcher {
        let mut words: Vec<Vec<u8>> = self.words.iter().cloned().collect();
        words.sort_unstable_by(|a, b| (b.len(), a).cmp(&(a.len(), b)));
        words.truncate(MAX_WORDS);
        let searcher = Searcher::new(words);
        // Such a word is nobody's secret, and found wherever a store is.
        let common: HashSet<Vec<u8>> = searcher.found_in(TEXT_OF_EVERY_STORE).cloned().collect();
        if common.is_empty() {
            return searcher;
        }
        Searcher::new(searcher.words.into_iter().filter(|word| !common.contains(word)).collect())
    }

    /// The words among these that sessions or projects of a home say.
    pub(crate) fn said_in(&self, home: &dyn Read) -> Result<HashSet<Vec<u8>>, ReadError> {
        let mut said = HashSet::new();
        if self.is_empty() {
            return Ok(said);
        }
        let searcher = self.searcher();
        let mut look = |document: &Document| said.extend(searcher.found_in(document.bytes()).cloned());
        for project in home.projects()?.value {
            look(&project.document);
        }
        for session in home.sessions(&SessionQuery::default())?.value {
            look(&session.stored.document);
            for message in home.messages(&session, &MessageRange::ALL, MessageDetail::Parts) {
                let message = message?;
                look(&message.stored.document);
                message.parts.iter().for_each(|part| look(&part.document));
            }
            for key in Key::beside(&session.id) {
                match home.document(&key) {
                    Ok(stored) => stored.iter().for_each(|stored| look(&stored.document)),
                    Err(ReadError::Unreadable(_)) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(said)
    }
}

/// The words of a JSON text: what stands between spaces, quotes and escapes.
fn words_of(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let is_end =
        |byte: u8| byte.is_ascii_whitespace() || byte.is_ascii_control() || b"\"\\{}[],:".contains(&byte);
    let mut rest = text;
    std::iter::from_fn(move || {
        while let Some((&first, others)) = rest.split_first() {
            match first {
                // The letter of an escape belongs to no word, and neither do the digits of a code.
                b'\\' => {
                    rest =
                        others.get(if others.first() == Some(&b'u') { 5 } else { 1 }..).unwrap_or_default();
                }
                first if is_end(first) => rest = others,
                _ => {
                    let end = rest.iter().position(|byte| is_end(*byte)).unwrap_or(rest.len());
                    let (word, after) = rest.split_at(end);
                    rest = after;
                    return Some(word);
                }
            }
        }
        None
    })
}

/// Searches for words in bytes.
#[derive(Debug)]
pub struct Searcher {
    automaton: AhoCorasick,
    words: Vec<Vec<u8>>,
}

/// Words of erased sessions that were found in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remains {
    /// The file.
    pub path: PathBuf,
    /// The words.
    pub words: BTreeSet<Vec<u8>>,
}

impl Searcher {
    fn new(words: Vec<Vec<u8>>) -> Searcher {
        let automaton = AhoCorasick::builder().match_kind(MatchKind::Standard).build(&words);
        Searcher { automaton: automaton.expect("some thousand words fit into an automaton"), words }
    }

    /// Whether any of the words is in `bytes`.
    pub fn is_in(&self, bytes: &[u8]) -> bool {
        self.automaton.is_match(bytes)
    }

    /// The words that are in `bytes`.
    fn found_in(&self, bytes: &[u8]) -> impl Iterator<Item = &Vec<u8>> {
        self.automaton.find_overlapping_iter(bytes).map(|found| &self.words[found.pattern().as_usize()])
    }

    /// The words that are in a file.
    pub fn search_file(&self, path: &Path) -> io::Result<BTreeSet<Vec<u8>>> {
        let mut file = platform::open_to_read(path)?;
        let mut found = BTreeSet::new();
        let mut bytes = vec![0; PIECE + MAX_WORD];
        let mut kept = 0;
        loop {
            let read = read_up_to(&mut file, &mut bytes[kept..])?;
            let filled = kept + read;
            found.extend(self.found_in(&bytes[..filled]).cloned());
            if read == 0 {
                return Ok(found);
            }
            // A word may begin in this piece and end in the next.
            let begin = filled.saturating_sub(MAX_WORD);
            bytes.copy_within(begin..filled, 0);
            kept = filled - begin;
        }
    }

    /// Searches files, and all files in directories, but for those that `skip` names. Links are not followed. A file that cannot be read is
    /// reported as an error beside what was found.
    ///
    /// Closing a file drops the locks that SQLite holds on it in this process, so nothing here may have a database among them open.
    pub fn search(&self, places: &[PathBuf], skip: &dyn Fn(&Path) -> bool) -> SearchedFiles {
        let mut searched = SearchedFiles::default();
        let mut left: Vec<PathBuf> = places.to_vec();
        while let Some(path) = left.pop() {
            let Ok(metadata) = path.symlink_metadata() else { continue };
            if skip(&path) {
                continue;
            }
            if metadata.is_dir() {
                match std::fs::read_dir(&path) {
                    Ok(entries) => left.extend(entries.flatten().map(|entry| entry.path())),
                    Err(error) => searched.unreadable.push((path, error)),
                }
            } else if metadata.is_file() {
                // A name holds the id of a session or message.
                let name = path.file_name().unwrap_or_default().as_encoded_bytes().to_vec();
                let mut words: BTreeSet<Vec<u8>> = self.found_in(&name).cloned().collect();
                match self.search_file(&path) {
                    Ok(found) => words.extend(found),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    Err(error) => searched.unreadable.push((path.clone(), error)),
                }
                searched.files += 1;
                searched.bytes += metadata.len();
                if !words.is_empty() {
                    searched.remains.push(Remains { path, words });
                }
            }
        }
        searched.remains.sort_by(|a, b| a.path.cmp(&b.path));
        searched
    }
}

/// Outcome of a search through files.
#[derive(Debug, Default)]
pub struct SearchedFiles {
    /// Number of files that were searched.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Files in which words were found.
    pub remains: Vec<Remains>,
    /// Files and directories that could not be read.
    pub unreadable: Vec<(PathBuf, io::Error)>,
}

impl SearchedFiles {
    /// Leaves out words that sessions or projects of a home say too.
    pub fn without_words_of(mut self, home: &dyn Read) -> Result<SearchedFiles, ReadError> {
        let said = self.words().said_in(home)?;
        for remains in &mut self.remains {
            remains.words.retain(|word| !said.contains(word));
        }
        self.remains.retain(|remains| !remains.words.is_empty());
        Ok(self)
    }

    /// All words that were found.
    pub fn words(&self) -> Words {
        Words { words: self.remains.iter().flat_map(|remains| remains.words.iter().cloned()).collect() }
    }
}

/// Fills as much of a buffer as the file has.
fn read_up_to(file: &mut File, mut buffer: &mut [u8]) -> io::Result<usize> {
    let mut total = 0;
    while !buffer.is_empty() {
        match platform::again(|| file.read(buffer))? {
            0 => break,
            n => {
                total += n;
                buffer = &mut buffer[n..];
            }
        }
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_between_quotes_and_escapes() {
        let words = |text: &str| -> Vec<String> {
            words_of(text.as_bytes()).map(|word| String::from_utf8_lossy(word).into_owned()).collect()
        };
        assert_eq!(words(r#"{"a":"key=sk-1\nline \u00e9x ü"}"#), ["a", "key=sk-1", "line", "x", "ü"]);
        assert_eq!(words(r#""cut\"#), ["cut"]);
        assert_eq!(words(r#""cut\u12"#), ["cut"]);
    }

    #[test]
    fn a_word_that_every_store_has_is_not_searched_for() {
        let document = br#"{"responseHeaders":{"authorization":"sk-secret-of-somebody"}}"#;
        let mut words = Words::default();
        let session = annals_core::id::SessionId::parse("ses_1").unwrap();
        words.add(&Key::Diff(session), &Document::parse(document.to_vec()).unwrap());
        let searcher = words.searcher();
        assert!(!searcher.is_in(TEXT_OF_EVERY_STORE));
        assert!(searcher.is_in(b"... sk-secret-of-somebody ..."));
    }

    #[test]
    fn a_word_is_found_across_pieces_of_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let mut words = Words::default();
        words.add_id("ses_of_a_secret_kind");
        let searcher = words.searcher();
        for at in [0, PIECE - 7, PIECE, PIECE + MAX_WORD - 3, 3 * PIECE] {
            let mut bytes = vec![b'.'; at];
            bytes.extend(b"ses_of_a_secret_kind");
            bytes.extend(vec![b'.'; 100]);
            let path = directory.path().join(at.to_string());
            std::fs::write(&path, &bytes).unwrap();
            assert_eq!(searcher.search_file(&path).unwrap().len(), 1, "{at}");
        }
        std::fs::write(directory.path().join("none"), "ses_of_a_secret_").unwrap();
        let searched = searcher.search(&[directory.path().to_owned()], &|_| false);
        assert_eq!((searched.files, searched.remains.len()), (6, 5));
    }
}
