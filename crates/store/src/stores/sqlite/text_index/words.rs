//! The tokenizer that gives words to tantivy, and the backlog of text that tantivy has not taken yet.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use annals_core::search::token::TokenCursor;
use tantivy::tokenizer::{Token, TokenStream, Tokenizer};

/// Upper bound on the bytes of text given to tantivy before the writer waits for it.
const MAX_AHEAD: usize = 8 << 20;
/// How long to wait for tantivy to take text. After that it may have failed, which the next addition tells.
const PATIENCE: Duration = Duration::from_secs(1);

/// Bytes of text that tantivy has not processed yet. tantivy accepts any number of documents and lets them wait in memory.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    bytes: Mutex<usize>,
    has_shrunk: Condvar,
}

impl Backlog {
    /// Waits until there is room for a text.
    pub(super) fn add(&self, n_bytes: usize) {
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        while *bytes > MAX_AHEAD {
            let (waited, timeout) =
                self.has_shrunk.wait_timeout(bytes, PATIENCE).unwrap_or_else(PoisonError::into_inner);
            bytes = waited;
            if timeout.timed_out() {
                break;
            }
        }
        *bytes += n_bytes;
    }

    fn remove(&self, n_bytes: usize) {
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let was_full = *bytes > MAX_AHEAD;
        *bytes = bytes.saturating_sub(n_bytes);
        if was_full && *bytes <= MAX_AHEAD {
            self.has_shrunk.notify_all();
        }
    }
}

/// The tokenizer of the index.
#[derive(Debug, Clone)]
pub(super) struct WordTokenizer {
    token: Token,
    backlog: Arc<Backlog>,
}

impl WordTokenizer {
    pub(super) fn new(backlog: Arc<Backlog>) -> WordTokenizer {
        WordTokenizer { token: Token::default(), backlog }
    }
}

/// The words of one text.
pub(super) struct WordStream<'a> {
    tokens: TokenCursor<'a>,
    token: &'a mut Token,
}

impl Tokenizer for WordTokenizer {
    type TokenStream<'a> = WordStream<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> WordStream<'a> {
        self.backlog.remove(text.len());
        self.token.reset();
        WordStream { tokens: TokenCursor::new(text), token: &mut self.token }
    }
}

impl TokenStream for WordStream<'_> {
    fn advance(&mut self) -> bool {
        if !self.tokens.advance() {
            return false;
        }
        let token = self.tokens.token();
        self.token.text.clear();
        self.token.text.push_str(token.text);
        self.token.position = token.position;
        self.token.offset_from = token.from;
        self.token.offset_to = token.to;
        true
    }

    fn token(&self) -> &Token {
        self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        self.token
    }
}
