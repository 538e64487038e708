//! Summaries of sessions, from a home's totals or from their messages.

use annals_core::Usage;
use annals_core::id::Millis;
use rayon::prelude::*;

use crate::figures::Figures;
use crate::home::{Found, MessageDetail, Quarantined, Read, ReadError, SessionRecord, visit_figures};
use crate::parallel;
use crate::summary::SessionSummary;

/// Summarises sessions, several at a time. `progress` is called with each one that is done.
pub fn summarize(
    home: &dyn Read,
    records: &[SessionRecord],
    progress: &(dyn Fn() + Sync),
) -> Result<Found<Vec<SessionSummary>>, ReadError> {
    let known = match home.summaries() {
        Some(summaries) => summaries.summarize(&records.iter().collect::<Vec<_>>())?,
        None => vec![None; records.len()],
    };
    let unknown: Vec<&SessionRecord> =
        records.iter().zip(&known).filter(|(_, known)| known.is_none()).map(|(record, _)| record).collect();
    let mut found: Found<Vec<SessionSummary>> = Found::default();
    let mut added_up = Vec::new();
    if !unknown.is_empty() {
        let summarize = |record: &SessionRecord| {
            let summary = read(home, record, MessageDetail::PartCounts, &mut |_| {});
            progress();
            summary
        };
        let read: Result<Vec<_>, ReadError> =
            parallel::run(|| unknown.into_par_iter().map(summarize).collect());
        added_up = read?;
    }
    let mut added_up = added_up.into_iter();
    for known in known {
        let summary = known.or_else(|| {
            let (summary, mut quarantined) = added_up.next()?;
            found.quarantined.append(&mut quarantined);
            Some(summary)
        });
        found.value.extend(summary);
    }
    Ok(found)
}

/// A session as a conversation: when it began, and how much of it the model has got.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Conversation {
    /// When the first message was made. In a fork that is before the session itself.
    pub began: Option<Millis>,
    /// Tokens of the last answer that has any, with what was sent for it: how full the context is.
    pub context: f64,
}

/// Looks at the messages of a session, in figures.
pub fn conversation(home: &dyn Read, session: &SessionRecord) -> Result<Conversation, ReadError> {
    let mut conversation = Conversation::default();
    visit_figures(home, session, MessageDetail::PartCounts, &mut |figures| {
        let began = conversation.began.map_or(figures.made, |began| began.min(figures.made));
        conversation.began = Some(began);
        let tokens = figures.usage.total_tokens();
        if tokens > 0.0 {
            conversation.context = tokens;
        }
    })?;
    Ok(conversation)
}

/// Adds up the messages of a session.
pub(crate) fn read(
    home: &(impl Read + ?Sized),
    record: &SessionRecord,
    detail: MessageDetail,
    visit: &mut dyn FnMut(Figures),
) -> Result<(SessionSummary, Vec<Quarantined>), ReadError> {
    let mut summary = SessionSummary::of_document(record);
    let mut quarantined = Vec::new();
    let unvisited = visit_figures(home, record, detail, &mut |mut figures| {
        quarantined.append(&mut figures.quarantined);
        summary.add(&figures);
        visit(figures);
    })?;
    quarantined.extend(unvisited);
    // A session that records its own usage includes messages that are gone, and calls that left no message.
    if let Some(usage) = Usage::of_session(&record.stored.document.lens()) {
        summary.usage = usage;
    }
    Ok((summary, quarantined))
}
