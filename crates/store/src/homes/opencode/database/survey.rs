//! What has changed, told by counters of the database.
//!
//! Since 1.16 every change of a session is an event, and the number of its last event is kept. Before that, and for what
//! others write, there are the session's row and how many messages and parts it has, which is in indexes. What shows in none of these
//! is a message or part that is rewritten in place, which happens while an answer is written and for moments after it; and, before 1.16,
//! when a part is edited through the HTTP API, long after. That is found by a full sync.

use std::collections::HashMap;
use std::path::Path;

use annals_core::id::{ProjectId, SessionId};
use annals_core::{ContentHash, Key};
use rusqlite::Connection;
use rusqlite::types::ValueRef;

use super::OpencodeDatabase;
use super::row::text_of;
use crate::home::{Read, ReadError};
use crate::platform::Stamp;
use crate::query::SessionQuery;
use crate::sqlite::{self, is_damage};
use crate::sync::source::{HomeStamp, Sighting, Source, Survey};

impl Source for OpencodeDatabase {
    fn survey(&self) -> Result<Survey, ReadError> {
        let counted = self.read(|connection| {
            Ok((self.session_rows(connection)?, self.counts(connection)?, self.project_times(connection)?))
        });
        let (rows, counts, projects) = match counted {
            Ok(counted) => counted,
            Err(error) if is_damage(&error) => return self.survey_around_damage(),
            Err(error) => return Err(self.read_error(&error)),
        };
        let mut survey = Survey { projects, ..Survey::default() };
        let mut seen = std::collections::HashSet::new();
        for SurveyRow { id, project, updated, evidence } in rows {
            let Ok(session) = SessionId::parse_opencode(&id) else { continue };
            if !seen.insert(session.clone()) {
                continue;
            }
            let mut stamp = evidence.as_bytes()[..16].to_vec();
            stamp.extend_from_slice(counts.get(&id).map_or(&[], Vec::as_slice));
            let project = ProjectId::parse(&project).unwrap_or_else(|_| ProjectId::global());
            survey.sessions.push(Sighting { session, project, stamp, written: updated, is_single: true });
        }
        Ok(survey)
    }

    fn has_place_for(&self, key: &Key) -> bool {
        match key {
            Key::LegacyShare(_) | Key::Record(..) => false,
            // Without the directory no diff is missing: the database was copied without it.
            Key::Diff(session) => {
                self.diff_path(session).is_some_and(|path| path.parent().is_some_and(Path::is_dir))
            }
            _ => true,
        }
    }

    fn rank(&self) -> i64 {
        1
    }

    /// The times of the file and its log.
    fn stamp(&self) -> Option<HomeStamp> {
        let file = self.path.canonicalize().unwrap_or_else(|_| self.path.clone());
        let stamps = [Stamp::at(&file), Stamp::at(&sqlite::log_of(&file))];
        let written = stamps.iter().map(Stamp::written).max().unwrap_or(0);
        Some(HomeStamp { bytes: stamps.map(Stamp::to_bytes).concat(), written })
    }
}

/// What a survey takes from the row of a session.
struct SurveyRow {
    id: String,
    project: String,
    updated: i64,
    /// A hash of what the row says.
    evidence: ContentHash,
}

/// The columns of a session's row that are evidence of its state, besides its project and time: all but the differences, which may be long
/// and never change alone.
const EVIDENCE: &[&str] = &[
    "directory",
    "title",
    "parent_id",
    "slug",
    "version",
    "share_url",
    "summary_additions",
    "summary_deletions",
    "summary_files",
    "revert",
    "permission",
    "workspace_id",
    "path",
    "metadata",
    "cost",
    "tokens_input",
    "tokens_output",
    "agent",
    "model",
    "time_compacting",
    "time_archived",
];

/// Adds the numbers of each row to the evidence of its session.
fn count(connection: &Connection, sql: &str, counts: &mut HashMap<String, Vec<u8>>) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let evidence = counts.entry(text_of(row.get_ref(0)?)).or_default();
        for column in 1..3 {
            match row.get_ref(column)? {
                ValueRef::Integer(number) => evidence.extend_from_slice(&number.to_le_bytes()),
                other => evidence.extend_from_slice(text_of(other).as_bytes()),
            }
        }
    }
    Ok(())
}

impl OpencodeDatabase {
    fn session_rows(&self, connection: &Connection) -> rusqlite::Result<Vec<SurveyRow>> {
        let mut sessions: Vec<SurveyRow> = Vec::new();
        for table in self.schema.session_tables() {
            let has = |column: &&str| self.schema.has_column(table, column);
            let columns: Vec<&str> = EVIDENCE.iter().copied().filter(has).collect();
            let sql = format!("SELECT id, project_id, time_updated, {} FROM {table}", columns.join(", "));
            let mut statement = connection.prepare_cached(&sql)?;
            let mut rows = statement.query([])?;
            let mut told = Vec::new();
            while let Some(row) = rows.next()? {
                told.clear();
                for column in 1..3 + columns.len() {
                    told.extend_from_slice(text_of(row.get_ref(column)?).as_bytes());
                    told.push(0);
                }
                sessions.push(SurveyRow {
                    id: text_of(row.get_ref(0)?),
                    project: text_of(row.get_ref(1)?),
                    updated: row.get_ref(2)?.as_i64_or_null().ok().flatten().unwrap_or(0),
                    evidence: ContentHash::of(&told),
                });
            }
        }
        Ok(sessions)
    }

    /// How many messages and parts each session has, and the number of its last event.
    fn counts(&self, connection: &Connection) -> rusqlite::Result<HashMap<String, Vec<u8>>> {
        let mut counts = HashMap::new();
        for (table, sql) in [
            ("message", "SELECT session_id, count(*), max(time_created) FROM message GROUP BY session_id"),
            ("part", "SELECT session_id, count(*), 0 FROM part GROUP BY session_id"),
            ("session_message", "SELECT session_id, count(*), 0 FROM session_message GROUP BY session_id"),
            ("event_sequence", "SELECT aggregate_id, seq, 0 FROM event_sequence"),
        ] {
            if self.schema.has(table) {
                count(connection, sql, &mut counts)?;
            }
        }
        Ok(counts)
    }

    /// Evidence of the state of all projects.
    fn project_times(&self, connection: &Connection) -> rusqlite::Result<Vec<u8>> {
        if !self.schema.has_column("project", "time_updated") {
            return Ok(Vec::new());
        }
        let sql =
            "SELECT count(*), coalesce(max(time_updated), 0), coalesce(sum(time_updated), 0) FROM project";
        connection.query_row(sql, [], |row| {
            let values: [i64; 3] = [row.get(0)?, row.get(1)?, row.get(2)?];
            Ok(values.into_iter().flat_map(i64::to_le_bytes).collect())
        })
    }

    /// The sessions of a damaged database that can be read. Without evidence, they are looked at every time.
    fn survey_around_damage(&self) -> Result<Survey, ReadError> {
        let found = self.sessions(&SessionQuery::default())?;
        let sessions = found.value.into_iter().map(|record| Sighting {
            session: record.id,
            project: record.project,
            stamp: Vec::new(),
            written: 0,
            is_single: true,
        });
        Ok(Survey { projects: Vec::new(), sessions: sessions.collect(), quarantined: found.quarantined })
    }
}
