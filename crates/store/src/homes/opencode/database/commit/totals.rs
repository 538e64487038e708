//! Totals of sessions: the columns of a session that follow from its messages.

use std::collections::BTreeMap;

use annals_core::id::{Millis, SessionId};
use annals_core::lens::{Message, UserMessage};
use annals_core::{Document, Usage};
use rusqlite::Connection;

use crate::homes::opencode::database::schema::Schema;

/// What the totals of sessions change by in a transaction, by the ids of the sessions.
#[derive(Default)]
pub(super) struct TotalsBySession(BTreeMap<String, Totals>);

/// What the messages of a transaction mean for the columns of their session.
#[derive(Default)]
struct Totals {
    /// Whether the session document itself says what the totals are.
    is_given: bool,
    usage: Usage,
    /// The last prompt: when it was made, its agent and its model.
    prompt: Option<(Millis, Option<String>, Option<String>)>,
}

impl TotalsBySession {
    /// Notes whether the document of a session says itself what its totals are.
    pub(super) fn given(&mut self, session: &SessionId, is_given: bool) {
        self.0.entry(session.to_string()).or_default().is_given = is_given;
    }

    /// Adds what a message changes of its session's totals.
    pub(super) fn count(&mut self, session: &SessionId, old: Option<&Document>, new: Option<&Document>) {
        let totals = self.0.entry(session.to_string()).or_default();
        let usage = |document: &Document| match document.lens::<Message<'_>>() {
            Message::Assistant(answer) => Usage::of(&answer),
            _ => Usage::default(),
        };
        if let Some(new) = new {
            totals.usage += usage(new);
            if let Message::User(prompt) = new.lens::<Message<'_>>() {
                let made = prompt.time.as_ref().and_then(|time| time.created).unwrap_or(0);
                if totals.prompt.as_ref().is_none_or(|(latest, _, _)| *latest <= made) {
                    let agent = prompt.agent.as_ref().map(|agent| agent.to_string());
                    totals.prompt = Some((made, agent, session_model(&prompt)));
                }
            }
        }
        if let Some(old) = old {
            totals.usage -= usage(old);
        }
    }

    /// Brings the columns of sessions up to date with their messages.
    pub(super) fn write(&self, connection: &Connection, schema: &Schema) -> rusqlite::Result<()> {
        for (session, totals) in &self.0 {
            let usage = &totals.usage;
            if !totals.is_given && *usage != Usage::default() && schema.has_column("session", "tokens_input")
            {
                connection
                    .prepare_cached(
                        "UPDATE session SET cost = max(0, cost + ?2), tokens_input = max(0, tokens_input + ?3), \
                         tokens_output = max(0, tokens_output + ?4), tokens_reasoning = max(0, tokens_reasoning + ?5), \
                         tokens_cache_read = max(0, tokens_cache_read + ?6), \
                         tokens_cache_write = max(0, tokens_cache_write + ?7) WHERE id = ?1",
                    )?
                    .execute((
                        session,
                        usage.cost,
                        usage.input as i64,
                        usage.output as i64,
                        usage.reasoning as i64,
                        usage.cache_read as i64,
                        usage.cache_write as i64,
                    ))?;
            }
            if let Some((_, agent, model)) = &totals.prompt
                && schema.has_column("session", "agent")
            {
                connection
                    .prepare_cached(
                        "UPDATE session SET agent = coalesce(agent, ?2), model = coalesce(model, ?3) WHERE id = ?1",
                    )?
                    .execute((session, agent, model))?;
            }
        }
        Ok(())
    }
}

/// The model of a prompt as the column of a session has it.
fn session_model(prompt: &UserMessage<'_>) -> Option<String> {
    let model = prompt.model.as_ref()?;
    let (id, provider) = (model.model_id.as_ref()?, model.provider_id.as_ref()?);
    let variant = model.variant.as_ref().or(prompt.variant.as_ref());
    let model = annals_core::lens::SessionModel {
        id: Some(id.clone()),
        provider_id: Some(provider.clone()),
        variant: variant.cloned(),
    };
    let text = annals_core::json::JsWriter::document(annals_core::json::Style::Compact, &model);
    String::from_utf8(text).ok()
}
