//! Words of the text index that resemble another one, for queries that find nothing.

use levenshtein_automata::{DFA, Distance, LevenshteinAutomatonBuilder, SINK_STATE};
use tantivy_fst::Automaton;

use super::SqliteStore;
use super::text_index::entry::TEXT;
use crate::search::SearchError;

/// Longer words may differ in two letters, shorter ones in one.
const LONG: usize = 6;
/// Upper bound on the words that are looked at in each segment of the index.
const MAX_LOOKED_AT: usize = 2000;

impl SqliteStore {
    /// Words of the index that differ from `word` in a letter or two, those in the most documents first.
    pub(super) fn similar_words(&self, word: &str, limit: usize) -> Result<Vec<String>, SearchError> {
        let (Some(searcher), _) = self.search_index()? else { return Ok(Vec::new()) };
        let failed = |error: &dyn std::fmt::Display| SearchError::Index {
            path: self.index_path().display().to_string(),
            what: error.to_string(),
        };
        let n_letters = word.chars().count();
        if n_letters < 3 {
            return Ok(Vec::new());
        }
        let distance = if n_letters >= LONG { 2 } else { 1 };
        let dfa = LevenshteinAutomatonBuilder::new(distance, true).build_dfa(word);
        let mut found: Vec<(u8, u64, String)> = Vec::new();
        for segment in searcher.segment_readers() {
            let index = segment.inverted_index(TEXT).map_err(|error| failed(&error))?;
            let mut terms =
                index.terms().search(DfaAutomaton(&dfa)).into_stream().map_err(|error| failed(&error))?;
            let mut n_left = MAX_LOOKED_AT;
            while n_left > 0 && terms.advance() {
                n_left -= 1;
                let Ok(text) = std::str::from_utf8(terms.key()) else { continue };
                let (Distance::Exact(far) | Distance::AtLeast(far)) = dfa.eval(text);
                let n = u64::from(terms.value().doc_freq);
                match found.iter_mut().find(|(_, _, known)| known == text) {
                    Some((_, sum, _)) => *sum += n,
                    None => found.push((far, n, text.to_owned())),
                }
            }
        }
        found.retain(|(far, _, text)| *far > 0 && text != word);
        found.sort_by(|(a_far, a_n, a), (b_far, b_n, b)| (a_far, b_n, a).cmp(&(b_far, a_n, b)));
        Ok(found.into_iter().take(limit).map(|(_, _, text)| text).collect())
    }
}

/// The automaton of a word, as tantivy's dictionaries walk it.
struct DfaAutomaton<'d>(&'d DFA);

impl Automaton for DfaAutomaton<'_> {
    type State = u32;

    fn start(&self) -> u32 {
        self.0.initial_state()
    }

    fn is_match(&self, state: &u32) -> bool {
        matches!(self.0.distance(*state), Distance::Exact(_))
    }

    fn can_match(&self, state: &u32) -> bool {
        *state != SINK_STATE
    }

    fn accept(&self, state: &u32, byte: u8) -> u32 {
        self.0.transition(*state, byte)
    }
}
