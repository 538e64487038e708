//! Facts about a document that the store knows without reading it again: the columns of the derived tables.

use annals_core::id::Millis;
use annals_core::json::Node;
use annals_core::lens::{Message, Part};
use annals_core::{Document, Key, Position, Provenance, Stored, Usage};
use rusqlite::{Connection, Row};

use super::codec::{self, Packed};
use super::numbers::{DocumentRow, SessionRow};
use crate::figures::{Call, Figures, Role};
use crate::summary::SessionState;

/// A document ready to be stored. Everything that takes time is done before the transaction that stores it begins.
#[derive(Debug, Clone)]
pub(crate) struct Prepared {
    pub(super) packed: Packed,
    pub(super) facts: Facts,
    /// The document's position among its siblings, if its home gives one.
    pub(super) position: Option<Position>,
    pub(super) provenance: Provenance,
}

/// The facts that a document of some kind tells.
#[derive(Debug, Clone)]
pub(super) enum Facts {
    None,
    Message(Box<Figures>),
    Call(Call),
}

impl Prepared {
    pub(crate) fn new(key: &Key, document: &Document) -> Prepared {
        Prepared {
            packed: codec::pack(document.bytes()),
            facts: Facts::of(key, document),
            position: None,
            provenance: Provenance::default(),
        }
    }

    /// A document as a home holds it, at the position it has there.
    pub(crate) fn of(stored: &Stored) -> Prepared {
        let prepared = Prepared::new(&stored.key, &stored.document);
        Prepared { position: Some(stored.position), provenance: stored.provenance, ..prepared }
    }

    /// When a message was made, if it says so.
    pub(super) fn made(&self) -> Option<Millis> {
        match &self.facts {
            Facts::Message(figures) => Some(figures.made).filter(|made| *made != 0),
            _ => None,
        }
    }
}

impl Facts {
    pub(super) fn of(key: &Key, document: &Document) -> Facts {
        match key {
            Key::Message(..) => {
                let message = document.lens::<Message<'_>>();
                let made = message.created().unwrap_or(0);
                Facts::Message(Box::new(Figures::of(&message, made)))
            }
            Key::Part(..) => {
                let root = document.root();
                let kind = root.get("type").and_then(Node::as_text);
                let is_tool = kind.is_some_and(|kind| kind == "tool" || kind == "tool_use");
                match is_tool.then(|| document.lens::<Part<'_>>()) {
                    Some(Part::Tool(part)) => Call::of(&part).map_or(Facts::None, Facts::Call),
                    _ => Facts::None,
                }
            }
            _ => Facts::None,
        }
    }

    /// Stores the facts of document `n`, in place of its earlier ones. `owner` is the document that it belongs to.
    pub(super) fn store(
        &self,
        connection: &Connection,
        session: SessionRow,
        owner: DocumentRow,
        n: DocumentRow,
    ) -> rusqlite::Result<()> {
        match self {
            Facts::None => Ok(()),
            Facts::Message(figures) => store_message(connection, session, n, figures),
            Facts::Call(call) => store_call(connection, session, owner, n, call),
        }
    }

    /// Removes the facts of document `n`.
    pub(super) fn remove(
        connection: &Connection,
        session: SessionRow,
        n: DocumentRow,
    ) -> rusqlite::Result<()> {
        for sql in [
            "DELETE FROM message WHERE session = ?1 AND n = ?2",
            "DELETE FROM call WHERE session = ?1 AND n = ?2",
        ] {
            connection.prepare_cached(sql)?.execute((session, n))?;
        }
        Ok(())
    }
}

/// Stores the figures of message `n`.
pub(super) fn store_message(
    connection: &Connection,
    session: SessionRow,
    n: DocumentRow,
    figures: &Figures,
) -> rusqlite::Result<()> {
    let Figures { role, made, agent, provider, model, cwd, state, usage, .. } = figures;
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO message (session, n, role, made, agent, provider, model, cwd, state, \
             cost, input, output, reasoning, cache_read, cache_write) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
        )?
        .execute(rusqlite::params![
            session,
            n,
            role.number(),
            made,
            agent,
            provider,
            model,
            cwd,
            state.number(),
            usage.cost,
            usage.input,
            usage.output,
            usage.reasoning,
            usage.cache_read,
            usage.cache_write
        ])
        .map(drop)
}

/// Stores call `n` of a message.
pub(super) fn store_call(
    connection: &Connection,
    session: SessionRow,
    message: DocumentRow,
    n: DocumentRow,
    call: &Call,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO call (session, n, message, tool, failed, ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute((session, n, message, &call.tool, call.failed, call.duration))
        .map(drop)
}

/// The columns of `message` that [`figures_of`] reads, in this order.
pub(super) const FIGURES: &str = "m.role, m.made, m.agent, m.provider, m.model, m.cwd, m.state, m.cost, m.input, \
     m.output, m.reasoning, m.cache_read, m.cache_write";

/// The figures in a row of `message`.
pub(super) fn figures_of(row: &Row<'_>) -> rusqlite::Result<Figures> {
    Ok(Figures {
        role: Role::from_number(row.get(0)?),
        made: row.get(1)?,
        agent: row.get(2)?,
        provider: row.get(3)?,
        model: row.get(4)?,
        cwd: row.get(5)?,
        state: SessionState::from_number(row.get(6)?),
        usage: usage_of(row, 7)?,
        n_parts: 0,
        calls: Vec::new(),
        provenance: Provenance::default(),
        quarantined: Vec::new(),
    })
}

/// Cost and tokens, from the column `first` on: `cost`, `input`, `output`, `reasoning`, `cache_read`, `cache_write`.
pub(super) fn usage_of(row: &Row<'_>, first: usize) -> rusqlite::Result<Usage> {
    Ok(Usage {
        cost: row.get(first)?,
        input: row.get(first + 1)?,
        output: row.get(first + 2)?,
        reasoning: row.get(first + 3)?,
        cache_read: row.get(first + 4)?,
        cache_write: row.get(first + 5)?,
    })
}
