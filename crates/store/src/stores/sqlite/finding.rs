//! Findings: the differences between a look and the store, and how they get into the store.

use annals_core::id::Millis;
use annals_core::{Document, Key, Position};

use super::facts::Prepared;
use super::held::{self, Has, Standing};
use super::kind::Kind;
use super::numbers::{DocumentRow, SessionRow};
use super::revise::{Put, Revising};
use super::text_index::entry::IndexEntry;
use crate::follow::HomeNumber;
use crate::state_hash::StateHash;

/// A difference between the documents that a home has and those it had at the last look.
#[derive(Debug)]
pub(super) enum Finding {
    /// The home has this document; with its text for the text index. The document itself is left out where the store has nothing of it yet:
    /// many of those wait to be stored.
    Has(Key, Option<Document>, Box<Prepared>, IndexText),
    /// The home has a document with the same value as a state in the store, at this position if the home leads.
    Same(Key, StateHash, StateHash, Option<Position>),
    /// The home, which leads, has a document at another position than the store.
    Stands(Key, Position),
    /// The home does not have the document any more.
    Lacks(Key),
}

impl Finding {
    /// Whether the home's document differs from the store's.
    pub(super) fn is_import(&self) -> bool {
        matches!(self, Finding::Has(..))
    }

    pub(super) fn key(&self) -> &Key {
        match self {
            Finding::Has(key, ..)
            | Finding::Same(key, ..)
            | Finding::Stands(key, _)
            | Finding::Lacks(key) => key,
        }
    }
}

/// A committed document for the text index.
#[derive(Debug)]
pub(super) struct ToIndex {
    pub(super) n: DocumentRow,
    pub(super) session: SessionRow,
    /// None if the document has no text to be found.
    pub(super) text: Option<Box<IndexEntry>>,
}

/// The text of a document for the text index.
#[derive(Debug)]
pub(super) enum IndexText {
    /// The index reads the document later.
    Unknown,
    Known(Option<Box<IndexEntry>>),
}

/// The look whose findings are applied.
#[derive(Debug)]
pub(super) struct AppliedLook {
    pub(super) home: HomeNumber,
    /// When the session was last used in this home before the changes that the look found.
    pub(super) used_before: Millis,
    /// The standing of the session after the look.
    pub(super) standing: Standing,
}

/// Stores a finding of a look. Clears `to_index` if the text index has to find the changes by itself. True if documents were changed.
pub(super) fn apply(
    revising: &mut Revising<'_>,
    look: &AppliedLook,
    finding: Finding,
    to_index: &mut Option<Vec<ToIndex>>,
) -> rusqlite::Result<bool> {
    let home = look.home;
    revising.give(Some(home));
    let has = match &finding {
        Finding::Has(key, document, prepared, _) => {
            if let Some(put) = put_plainly(revising, look, key, prepared, document.as_ref())? {
                return match put {
                    Put::Written(n) => index(revising, n, finding, to_index).map(|()| true),
                    Put::Unchanged => Ok(false),
                };
            }
            Has::Document(prepared, document.as_ref())
        }
        Finding::Stands(key, position) => return revising.place(key, *position).map(|()| false),
        Finding::Same(key, bytes, state, position) => {
            if let Some(position) = position {
                revising.place(key, *position)?;
            }
            Has::Same { bytes: *bytes, state: *state }
        }
        Finding::Lacks(_) => Has::Nothing,
    };
    let is_changed = held::note(revising, &look.standing, home, finding.key(), &has, look.used_before)?;
    if is_changed {
        *to_index = None;
    }
    Ok(is_changed)
}

/// Stores a document that only this home has, or had. None if another home or the store has a state of it.
fn put_plainly(
    revising: &mut Revising<'_>,
    look: &AppliedLook,
    key: &Key,
    prepared: &Prepared,
    document: Option<&Document>,
) -> rusqlite::Result<Option<Put>> {
    if !look.standing.is_alone() {
        return Ok(None);
    }
    if revising.is_unheard_of(key) {
        return revising.put(key, prepared, document).map(Some);
    }
    let known = revising.state(key)?;
    if let Some(known) = &known
        && known.since != 0
        && !(known.home == Some(look.home) && held::is_plain(revising.connection(), known)?)
    {
        return Ok(None);
    }
    match document {
        Some(document) => revising.put_over(known, key, prepared, document).map(Some),
        None => revising.put(key, prepared, None).map(Some),
    }
}

/// Notes the text of a document that was just stored, for the text index.
fn index(
    revising: &mut Revising<'_>,
    n: DocumentRow,
    finding: Finding,
    to_index: &mut Option<Vec<ToIndex>>,
) -> rusqlite::Result<()> {
    let Finding::Has(key, _, _, text) = finding else { return Ok(()) };
    match (text, key.session(), &mut *to_index) {
        _ if !Kind::of(&key).has_text() => {}
        (IndexText::Known(text), Some(session), Some(to_index)) => {
            to_index.push(ToIndex { n, session: revising.session(session)?, text });
        }
        _ => *to_index = None,
    }
    Ok(())
}
