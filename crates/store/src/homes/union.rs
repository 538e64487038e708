//! Several homes read as one.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::PathBuf;

use annals_core::id::{Millis, SessionId};
use annals_core::{Document, Key, Stored};

use crate::change_log::{ChangeLog, LogRead, RecordedChange};
use crate::check::Problem;
use crate::figures::Figures;
use crate::history::History;
use crate::home::{
    Extent, Found, Inspect, MessageDetail, MessageRange, Messages, Past, Read, ReadError, SessionFiles,
    SessionRecord, Summaries, read_figures,
};
use crate::home_url::HomeUrl;
use crate::query::SessionQuery;
use crate::summary::SessionSummary;

/// Homes as one. A session that several of them hold is one session: it is read where it was last used, and its record
/// names all of them.
pub struct UnionHome<'h>(Vec<&'h dyn Read>);

impl<'h> UnionHome<'h> {
    /// The given homes as one.
    pub fn new(homes: Vec<&'h dyn Read>) -> UnionHome<'h> {
        UnionHome(homes)
    }

    fn home_of(&self, session: &SessionRecord) -> Option<&'h dyn Read> {
        if let [only] = self.0[..] {
            return Some(only);
        }
        let origin = session.origins.first()?;
        self.0.iter().find(|home| home.url() == *origin).copied()
    }

    /// A record as it is known here: read from one of these homes, whichever it says it came from. A store names the homes
    /// it was synced with.
    fn read_from(&self, home: &dyn Read, mut record: SessionRecord) -> SessionRecord {
        let url = home.url();
        if self.0.len() > 1 && record.origins.first() != Some(&url) {
            record.origins.retain(|origin| *origin != url);
            record.origins.insert(0, url);
        }
        record
    }
}

impl std::fmt::Debug for UnionHome<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|home| home.url())).finish()
    }
}

impl Read for UnionHome<'_> {
    fn url(&self) -> HomeUrl {
        HomeUrl::several(self.0.iter().map(|home| home.url()).collect())
    }

    fn projects(&self) -> Result<Found<Vec<Stored>>, ReadError> {
        let mut all: Found<Vec<Stored>> = Found::default();
        for home in &self.0 {
            let mut found = home.projects()?;
            found.value.retain(|project| all.value.iter().all(|known| known.key != project.key));
            all.value.append(&mut found.value);
            all.quarantined.append(&mut found.quarantined);
        }
        Ok(all)
    }

    fn sessions(&self, query: &SessionQuery) -> Result<Found<Vec<SessionRecord>>, ReadError> {
        if let [only] = self.0[..] {
            return only.sessions(query);
        }
        let mut all: Found<Vec<SessionRecord>> = Found::default();
        let mut places: HashMap<SessionId, usize> = HashMap::new();
        for home in &self.0 {
            let mut found = home.sessions(query)?;
            all.quarantined.append(&mut found.quarantined);
            for record in found.value {
                let record = self.read_from(*home, record);
                match places.get(&record.id) {
                    Some(&place) => merge(&mut all.value[place], record),
                    None => {
                        places.insert(record.id.clone(), all.value.len());
                        all.value.push(record);
                    }
                }
            }
        }
        Ok(all)
    }

    fn session(&self, id: &SessionId) -> Result<Option<SessionRecord>, ReadError> {
        let mut merged: Option<SessionRecord> = None;
        for home in &self.0 {
            match (home.session(id)?.map(|record| self.read_from(*home, record)), &mut merged) {
                (Some(record), Some(merged)) => merge(merged, record),
                (Some(record), none) => *none = Some(record),
                (None, _) => {}
            }
        }
        Ok(merged)
    }

    fn messages<'h>(
        &'h self,
        session: &'h SessionRecord,
        range: &MessageRange,
        detail: MessageDetail,
    ) -> Messages<'h> {
        match self.home_of(session) {
            Some(home) => home.messages(session, range, detail),
            None => Messages::none(),
        }
    }

    fn document(&self, key: &Key) -> Result<Option<Stored>, ReadError> {
        // What stands beside a session is read where the session is.
        if let Some(session) = key.session()
            && let Some(record) = self.session(session)?
            && let Some(home) = self.home_of(&record)
        {
            return home.document(key);
        }
        self.0.iter().find_map(|home| home.document(key).transpose()).transpose()
    }

    fn session_keys(&self, id: &SessionId) -> Result<Vec<Key>, ReadError> {
        match self.session(id)?.and_then(|record| self.home_of(&record)) {
            Some(home) => home.session_keys(id),
            None => Ok(Vec::new()),
        }
    }

    fn summaries(&self) -> Option<&dyn Summaries> {
        Some(self)
    }

    fn inspect(&self) -> Option<&dyn Inspect> {
        Some(self)
    }

    fn files(&self) -> Option<&dyn SessionFiles> {
        Some(self)
    }

    fn history(&self) -> Option<&dyn History> {
        match self.0[..] {
            [only] => only.history(),
            // Revisions are numbered in each home for itself.
            _ => None,
        }
    }

    fn past(&self) -> Option<&dyn Past> {
        match self.0[..] {
            [only] => only.past(),
            _ => None,
        }
    }

    fn change_log(&self) -> Option<&dyn ChangeLog> {
        match self.0[..] {
            [only] => only.change_log(),
            _ => Some(self),
        }
    }
}

impl UnionHome<'_> {
    fn logs(&self) -> impl Iterator<Item = &dyn ChangeLog> {
        self.0.iter().filter_map(|home| home.change_log())
    }
}

/// The logs of the homes; of a session, the one of the home that it is read from.
impl ChangeLog for UnionHome<'_> {
    fn writer(&self) -> &'static str {
        self.logs().next().map_or("", ChangeLog::writer)
    }

    fn positions(&self) -> Result<Vec<(SessionId, i64)>, ReadError> {
        self.logs().map(ChangeLog::positions).collect::<Result<Vec<_>, _>>().map(|found| found.concat())
    }

    fn changes(
        &self,
        session: &SessionId,
        after: Option<i64>,
        visit: &mut dyn FnMut(RecordedChange) -> ControlFlow<()>,
    ) -> Result<LogRead, ReadError> {
        let home = self.session(session)?.and_then(|record| self.home_of(&record));
        match home.and_then(|home| home.change_log()) {
            Some(log) => log.changes(session, after, visit),
            None => Ok(LogRead::default()),
        }
    }

    fn is_same(&self, key: &Key, a: &Document, b: &Document) -> bool {
        self.logs().any(|log| log.is_same(key, a, b))
    }
}

impl Summaries for UnionHome<'_> {
    fn summarize(&self, sessions: &[&SessionRecord]) -> Result<Vec<Option<SessionSummary>>, ReadError> {
        if let [only] = self.0[..] {
            return match only.summaries() {
                Some(summaries) => summaries.summarize(sessions),
                None => Ok(vec![None; sessions.len()]),
            };
        }
        let summary = |session: &&SessionRecord| match self.home_of(session).and_then(|home| home.summaries())
        {
            Some(known) => known.summarize(&[session]).map(|mut summaries| summaries.pop().flatten()),
            None => Ok(None),
        };
        sessions.iter().map(summary).collect()
    }

    fn beginnings(&self) -> Result<HashMap<SessionId, Millis>, ReadError> {
        let mut all = HashMap::new();
        for summaries in self.0.iter().filter_map(|home| home.summaries()) {
            all.extend(summaries.beginnings()?);
        }
        Ok(all)
    }

    fn figures(
        &self,
        session: &SessionRecord,
        detail: MessageDetail,
    ) -> Result<Found<Vec<Figures>>, ReadError> {
        let Some(home) = self.home_of(session) else { return Ok(Found::default()) };
        match home.summaries() {
            Some(summaries) => summaries.figures(session, detail),
            None => read_figures(home, session, detail),
        }
    }
}

impl Inspect for UnionHome<'_> {
    fn check(&self, now: Millis, progress: &(dyn Fn() + Sync)) -> Result<Vec<Problem>, ReadError> {
        let mut problems = Vec::new();
        for home in &self.0 {
            let Some(inspected) = home.inspect() else { continue };
            // A home that cannot be checked does not hide the others.
            match inspected.check(now, progress) {
                Ok(found) => problems.extend(found),
                Err(error) if self.0.len() > 1 => {
                    problems.push(Problem::of_error(&home.url().to_string(), &error));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(problems)
    }

    fn extent(&self) -> Result<Extent, ReadError> {
        let mut sum = Extent::default();
        for inspected in self.0.iter().filter_map(|home| home.inspect()) {
            let extent = inspected.extent()?;
            sum.messages += extent.messages;
            sum.parts += extent.parts;
            sum.bytes += extent.bytes;
            sum.is_damaged |= extent.is_damaged;
        }
        Ok(sum)
    }

    fn remarks(&self) -> Vec<String> {
        self.0.iter().filter_map(|home| home.inspect()).flat_map(|inspected| inspected.remarks()).collect()
    }
}

impl SessionFiles for UnionHome<'_> {
    fn data_directory(&self, session: &SessionRecord) -> Option<PathBuf> {
        self.home_of(session)?.files()?.data_directory(session)
    }
}

/// Makes one record of two of the same session: the one used last counts, and its origin comes first.
fn merge(known: &mut SessionRecord, other: SessionRecord) {
    let (mut newer, mut older) = (other, known.clone());
    if newer.info.updated() <= older.info.updated() {
        std::mem::swap(&mut newer, &mut older);
    }
    older.origins.retain(|origin| !newer.origins.contains(origin));
    newer.origins.append(&mut older.origins);
    // One home that still has it is enough.
    newer.gone = newer.gone.and(older.gone);
    *known = newer;
}
