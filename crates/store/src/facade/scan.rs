//! Searches a home without a text index: reads every document and compares it with the query word by word.

use std::collections::{HashSet, VecDeque};

use annals_core::json::Node;
use annals_core::search::query::{Filter, FilterField, Match, Query};
use annals_core::search::{HighlightTerms, TokenCursor, searchable, snippet};
use annals_core::{Document, Key, Stored};

use super::{Message, Session, Sessions};
use crate::figures::{Figures, Role};
use crate::home::ReadError;
use crate::search::{Hit, SearchError};

/// Width of a snippet, in characters.
const SNIPPET_WIDTH: usize = 160;

/// Distance in words between two strings of one document, so that no phrase is found across them.
const GAP: usize = 1000;

/// A search through sessions, one after the other.
#[derive(Debug)]
pub(super) struct SessionScan {
    sessions: Sessions,
    condition: Condition,
    vocabulary: Vocabulary,
    terms: HighlightTerms,
    found: VecDeque<Result<Hit, SearchError>>,
}

impl SessionScan {
    pub(super) fn new(sessions: Sessions, query: Query) -> SessionScan {
        let terms = query.highlights();
        let mut vocabulary = Vocabulary::default();
        let condition = Condition::new(query, &mut vocabulary);
        SessionScan { sessions, condition, vocabulary, terms, found: VecDeque::new() }
    }

    fn scan(&mut self, session: &Session) {
        let stored = &session.record().stored;
        self.compare(stored, &HitPlace { session, message: None, figures: None });
        for message in session.messages() {
            let message = match message {
                Ok(message) => message,
                Err(error) => {
                    self.found.push_back(Err(error.into()));
                    continue;
                }
            };
            let record = message.record();
            let figures = Figures::of(&record.stored.document.lens(), record.made);
            let place = HitPlace { session, message: Some(&message), figures: Some(figures) };
            self.compare(&record.stored, &place);
            for part in &record.parts {
                self.compare(part, &place);
            }
            let unreadable = message.unreadable().iter().cloned();
            self.found.extend(unreadable.map(|problem| Err(ReadError::from(problem).into())));
        }
    }

    fn compare(&mut self, stored: &Stored, place: &HitPlace<'_>) {
        let Stored { key, document, .. } = stored;
        let words = self.vocabulary.words_of(key, document);
        let mut hit = place.hit(stored);
        if !self.condition.is_met(&words, &hit, place.figures.as_ref()) {
            return;
        }
        // A document without text is not in an index either.
        let Some(snippet) = snippet::of_document(key, document, &self.terms, SNIPPET_WIDTH) else { return };
        hit.snippet = snippet;
        self.found.push_back(Ok(hit));
    }
}

impl Iterator for SessionScan {
    type Item = Result<Hit, SearchError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(found) = self.found.pop_front() {
                return Some(found);
            }
            match self.sessions.next()? {
                Ok(session) => self.scan(&session),
                Err(error) => return Some(Err(error.into())),
            }
        }
    }
}

/// The session and message of a document.
struct HitPlace<'s> {
    session: &'s Session,
    message: Option<&'s Message>,
    figures: Option<Figures>,
}

impl HitPlace<'_> {
    /// The hit that the document would be.
    fn hit(&self, stored: &Stored) -> Hit {
        let text = |name: &str| {
            stored.document.root().get(name).and_then(Node::as_text).map(|text| text.to_string())
        };
        let (part, kind, tool) = match &stored.key {
            Key::Part(_, _, part) => (Some(part.clone()), text("type").unwrap_or_default(), text("tool")),
            Key::Message(..) => (None, "message".to_owned(), None),
            _ => (None, "title".to_owned(), None),
        };
        let role = self.figures.as_ref().and_then(|figures| match figures.role {
            Role::User => Some("user".to_owned()),
            Role::Assistant => Some("assistant".to_owned()),
            _ => None,
        });
        Hit {
            session: self.session.id().clone(),
            title: self.session.title().to_owned(),
            message: self.message.map(|message| message.id().clone()),
            part,
            role,
            kind,
            tool,
            time: self.message.map(|message| message.record().made),
            score: 0.0,
            snippet: Default::default(),
        }
    }
}

/// The words of a query. All other words of a text are skipped.
#[derive(Debug, Default)]
struct Vocabulary {
    words: HashSet<String>,
    beginnings: Vec<String>,
}

impl Vocabulary {
    fn add(&mut self, way: &Match) {
        match way {
            Match::Term(word) | Match::Form(word) => drop(self.words.insert(word.clone())),
            Match::Phrase(words) => self.words.extend(words.iter().cloned()),
            Match::Prefix(beginning) => self.beginnings.push(beginning.clone()),
            Match::PhrasePrefix(words) => {
                self.words.extend(words.iter().cloned());
                self.beginnings.extend(words.last().cloned());
            }
        }
    }

    /// The query's words in a document, with their positions.
    fn words_of(&self, key: &Key, document: &Document) -> Vec<(usize, String)> {
        let mut found = Vec::new();
        let mut first = 0;
        searchable(key, document, &mut |text| {
            let mut tokens = TokenCursor::new(text);
            let mut last = 0;
            while tokens.advance() {
                let token = tokens.token();
                last = token.position;
                let is_wanted = self.words.contains(token.text)
                    || self.beginnings.iter().any(|beginning| token.text.starts_with(beginning.as_str()));
                if is_wanted {
                    found.push((first + token.position, token.text.to_owned()));
                }
            }
            first += last + GAP;
        });
        found
    }
}

/// A query, with its words as an index would find them.
#[derive(Debug)]
enum Condition {
    All(Vec<Condition>),
    Any(Vec<Condition>),
    Not(Box<Condition>),
    Words(Vec<Match>),
    Filter(Filter),
}

impl Condition {
    fn new(query: Query, vocabulary: &mut Vocabulary) -> Condition {
        let mut each =
            |items: Vec<Query>| items.into_iter().map(|item| Condition::new(item, vocabulary)).collect();
        match query {
            Query::All(items) => Condition::All(each(items)),
            Query::Any(items) => Condition::Any(each(items)),
            Query::Not(item) => Condition::Not(Box::new(Condition::new(*item, vocabulary))),
            Query::Words(words) => {
                let ways = words.matches();
                ways.iter().for_each(|way| vocabulary.add(way));
                Condition::Words(ways)
            }
            Query::Filter(filter) => Condition::Filter(filter),
        }
    }

    fn is_met(&self, words: &[(usize, String)], hit: &Hit, figures: Option<&Figures>) -> bool {
        match self {
            Condition::All(items) => items.iter().all(|item| item.is_met(words, hit, figures)),
            Condition::Any(items) => items.iter().any(|item| item.is_met(words, hit, figures)),
            Condition::Not(item) => !item.is_met(words, hit, figures),
            Condition::Words(ways) => ways.iter().any(|way| is_found(way, words)),
            Condition::Filter(filter) => has(filter, hit, figures),
        }
    }
}

fn is_found(way: &Match, words: &[(usize, String)]) -> bool {
    let phrase = |phrase: &[String], is_prefix: bool| {
        let is_at = |position: usize, n: usize| {
            let is_last = n + 1 == phrase.len();
            words.iter().any(|(at, word)| {
                *at == position
                    && (*word == phrase[n] || (is_prefix && is_last && word.starts_with(&phrase[n])))
            })
        };
        words.iter().any(|(first, _)| (0..phrase.len()).all(|n| is_at(first + n, n)))
    };
    match way {
        Match::Term(wanted) | Match::Form(wanted) => words.iter().any(|(_, word)| word == wanted),
        Match::Prefix(beginning) => words.iter().any(|(_, word)| word.starts_with(beginning)),
        Match::Phrase(wanted) => phrase(wanted, false),
        Match::PhrasePrefix(wanted) => phrase(wanted, true),
    }
}

fn has(filter: &Filter, hit: &Hit, figures: Option<&Figures>) -> bool {
    let is = |value: Option<&str>| value.is_some_and(|value| value.eq_ignore_ascii_case(&filter.value));
    match filter.field {
        FilterField::Role => is(hit.role.as_deref()),
        FilterField::Tool => is(hit.tool.as_deref()),
        FilterField::Type => is(Some(&hit.kind)),
        FilterField::Agent => is(figures.and_then(|figures| figures.agent.as_deref())),
        FilterField::Model => figures.is_some_and(|figures| match (&figures.provider, &figures.model) {
            (Some(provider), Some(model)) => {
                format!("{provider}/{model}").to_lowercase().contains(&filter.value.to_lowercase())
            }
            _ => false,
        }),
        // A query with these fields is refused before the search begins.
        FilterField::Project | FilterField::Directory | FilterField::Since | FilterField::Until => false,
    }
}
