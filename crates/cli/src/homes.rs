//! Opens what a command works on: the user's store, synced with OpenCode's homes, or the homes that `--home` names.

use std::ops::Deref;
use std::path::{Path, PathBuf};

use annals::HomeUrl;
use annals::history::At;
use annals::home::{Read, SessionRecord, Write};
use annals::homes::UnionHome;
use annals::homes::opencode::database::Generation;
use annals::open::{self, Discovered};
use annals::ops::OperationQuery;
use annals::query::SessionQuery;
use annals::scratch::Scratch;
use annals::store::{OpenStoreError, Store};
use annals::sync::source::Source;
use annals::sync::{self, Stage, SyncError, SyncOptions, SyncOutcome};
use annals::workspace::Workspace;

use crate::context::{Context, now};
use crate::error::{CliError, Outcome};
use crate::moment::{open_at, session_then};
use crate::progress::Progress;
use crate::text::{count, grouped, one_line};

/// The store or the homes that a command reads.
pub(crate) enum Homes {
    /// A store.
    Store(Box<OpenedStore>),
    /// Homes as they are.
    Direct(Vec<Box<dyn Write>>),
}

/// An open store, and the homes it is synced with.
pub(crate) struct OpenedStore {
    pub(crate) annals: Box<dyn Store>,
    /// The homes of OpenCode it follows.
    sources: Vec<PathBuf>,
    /// Whether `--home` named the store. Such a store is not synced.
    pub(crate) is_named: bool,
    pub(crate) freshness: Freshness,
}

/// Whether a store is up to date with its homes.
pub(crate) enum Freshness {
    /// The store was just synced.
    Synced,
    /// The store was not synced: `--home` named it, the user wants no sync, or there is no home to sync with.
    Left,
    /// The store cannot be written to.
    ReadOnly,
    /// The sync failed.
    Failed(SyncError),
}

/// Why the user's store cannot be used.
enum UnusableStore {
    Open(OpenStoreError),
    Sync(SyncError),
    /// The store cannot be written to and is empty.
    Empty(String),
    /// There is neither a home nor a store to read.
    Nothing(CliError),
}

impl From<UnusableStore> for CliError {
    fn from(unusable: UnusableStore) -> CliError {
        match unusable {
            UnusableStore::Open(error) => error.into(),
            UnusableStore::Sync(error) => error.into(),
            UnusableStore::Empty(path) => CliError::new(format!("the store {path} cannot be written to"))
                .hint("`--store PATH` puts it elsewhere"),
            UnusableStore::Nothing(error) => error,
        }
    }
}

/// The homes of OpenCode that the user has.
struct FoundHomes {
    paths: Vec<PathBuf>,
    sources: Vec<Box<dyn Source>>,
    /// Why the first home that could not be opened failed.
    refused: Option<CliError>,
}

impl Context {
    /// Opens the store or homes for a command that reads. If the store cannot be used, OpenCode's homes are read directly.
    pub(crate) fn open(&self, stage: Stage) -> Result<Homes, CliError> {
        if !self.homes.is_empty() {
            return self.open_named();
        }
        let found = self.find_homes();
        let store = match self.open_user_store(&found, stage) {
            Ok(OpenedStore { freshness: Freshness::Failed(error), .. }) => Err(UnusableStore::Sync(error)),
            other => other,
        };
        match store {
            Ok(store) => Ok(Homes::Store(Box::new(store))),
            Err(UnusableStore::Nothing(error)) => Err(error),
            // A user who names a store wants that one, and not an answer from elsewhere.
            Err(UnusableStore::Open(error @ OpenStoreError::NotAStore { .. })) if self.store.is_named => {
                Err(error.into())
            }
            Err(unusable) if found.paths.is_empty() => Err(unusable.into()),
            Err(unusable) => {
                self.warn_of(&unusable.into(), "reading OpenCode's homes directly");
                self.open_found().map(Homes::Direct)
            }
        }
    }

    /// Opens the store or homes for a command that reads. An earlier state is read from the store.
    pub(crate) fn open_for(&self, stage: Stage, moment: Option<At>) -> Result<Homes, CliError> {
        match moment {
            Some(_) => self.open_store(stage, "keeps no history").map(|store| Homes::Store(Box::new(store))),
            None => self.open(stage),
        }
    }

    /// Opens the store, for commands that need one. `lack` says what a home of OpenCode lacks for the command.
    pub(crate) fn open_store(&self, stage: Stage, lack: &str) -> Result<OpenedStore, CliError> {
        match &self.homes[..] {
            [] => {
                let store = self.open_user_store(&self.find_homes(), stage)?;
                let Freshness::Failed(error) = store.freshness else { return Ok(store) };
                self.warn_of(&error.into(), "recent changes in OpenCode are not shown");
                Ok(OpenedStore { freshness: Freshness::Left, ..store })
            }
            [url] => self.open_named_store(url)?.ok_or_else(|| {
                CliError::new(format!("{url} {lack}")).hint(
                    "this needs a store of annals: leave `--home` out, or give it the path of an `annals.db`",
                )
            }),
            _ => Err(CliError::usage("this command works on one store; give `--home` once")),
        }
    }

    /// Opens a store for searching: the user's, the one that `--home` names, or a temporary one made of the homes it names.
    /// `stage` says whether its text index is wanted.
    pub(crate) fn open_searchable(&self, stage: Stage) -> Result<(OpenedStore, Option<Scratch>), CliError> {
        if let [] | [_] = self.homes[..]
            && self.homes.first().is_none_or(|url| self.names_store(url))
        {
            return Ok((self.open_store(stage, "cannot be searched")?, None));
        }
        let mut sources = Vec::new();
        for url in &self.homes {
            sources.extend(open_sources(url)?);
        }
        let failed =
            |error: std::io::Error| CliError::new(format!("cannot create a temporary directory: {error}"));
        let directory = Scratch::new_in(&std::env::temp_dir()).map_err(failed)?;
        let path = directory.path().join("annals.db");
        self.note_verbose(&format!("searching a temporary store, {}", path.display()));
        let annals = open::open_or_create_store(&path)?.with_clock(now);
        self.sync(&*annals, &sources, SyncOptions::to(stage))?;
        let freshness = Freshness::Synced;
        Ok((OpenedStore { annals, sources: Vec::new(), is_named: true, freshness }, Some(directory)))
    }

    /// Syncs the user's store with the homes that `--home` names, or else with the user's.
    pub(crate) fn sync_now(&self, options: SyncOptions) -> Result<(Box<dyn Store>, SyncOutcome), CliError> {
        if !self.is_syncing {
            return Err(CliError::usage("`sync` with `--no-sync` would do nothing"));
        }
        let sources: Vec<Box<dyn Source>> = match &self.homes[..] {
            [] => {
                let found = self.find_homes();
                if found.sources.is_empty() {
                    return Err(found.refused.unwrap_or_else(|| self.no_homes()));
                }
                found.sources
            }
            named => {
                let mut sources = Vec::new();
                for url in named {
                    if self.names_store(url) {
                        let error =
                            CliError::usage(format!("{url} is a store, and no store syncs from another"));
                        return Err(error
                            .hint("`--home` names the home to sync from, `--store` the store to sync to"));
                    }
                    sources.extend(open_sources(url)?);
                }
                sources
            }
        };
        let annals = open::open_or_create_store(&self.store_path()?)?.with_clock(now);
        let own = self.found_paths();
        let workspace = Workspace::new(&*annals, &own);
        self.recover(&workspace);
        let (own, foreign): (Vec<_>, Vec<_>) =
            sources.into_iter().partition(|source| workspace.is_own(&source.url()));
        let mut account = SyncOutcome::default();
        for (sources, is_own) in [(own, true), (foreign, false)] {
            if !sources.is_empty() {
                account.add(self.sync(&*annals, &sources, SyncOptions { own: is_own, ..options })?);
            }
        }
        Ok((annals, account))
    }

    /// The path of the store that a backup replaces: the user's, or the one that `--home` names.
    pub(crate) fn store_to_replace(&self) -> Result<PathBuf, CliError> {
        match &self.homes[..] {
            [] => self.store_path(),
            [url] if self.names_store(url) => Ok(self.current_dir.join(open::path_of(url)?)),
            [url] => Err(CliError::usage(format!("{url} is not a store"))),
            _ => Err(CliError::usage("this command works on one store; give `--home` once")),
        }
    }

    /// Opens the homes that `--home` names.
    fn open_named(&self) -> Result<Homes, CliError> {
        if let [url] = &self.homes[..]
            && let Some(store) = self.open_named_store(url)?
        {
            return Ok(Homes::Store(Box::new(store)));
        }
        self.open_each().map(Homes::Direct)
    }

    fn open_each(&self) -> Result<Vec<Box<dyn Write>>, CliError> {
        let mut homes: Vec<Box<dyn Write>> = Vec::new();
        for url in &self.homes {
            homes.extend(open::open_all(url)?);
        }
        self.note_reading(&homes);
        Ok(homes)
    }

    /// Opens the store at `url`; `None` if something else is there.
    fn open_named_store(&self, url: &HomeUrl) -> Result<Option<OpenedStore>, CliError> {
        if !self.names_store(url) {
            return Ok(None);
        }
        let annals = open::open_store(open::path_of(url)?)?.with_clock(now);
        self.note_verbose(&format!("reading {}", annals.url()));
        Ok(Some(OpenedStore { annals, sources: Vec::new(), is_named: true, freshness: Freshness::Left }))
    }

    fn names_store(&self, url: &HomeUrl) -> bool {
        url.path().is_some_and(open::is_annals)
    }

    pub(crate) fn store_path(&self) -> Result<PathBuf, CliError> {
        self.store.path.clone().ok_or_else(|| {
            CliError::new("neither XDG_DATA_HOME nor HOME is set, so there is no place for a store")
                .hint("give one with `--store`")
        })
    }

    /// Opens the user's store, creates it the first time, and syncs it.
    fn open_user_store(&self, found: &FoundHomes, stage: Stage) -> Result<OpenedStore, UnusableStore> {
        let nothing = || match &found.refused {
            Some(error) => UnusableStore::Nothing(error.clone()),
            None => UnusableStore::Nothing(self.no_homes()),
        };
        let Some(path) = &self.store.path else { return Err(nothing()) };
        let opened = match found.sources.is_empty() {
            // Without a home to sync with, no store is created.
            true if !path.exists() => {
                return Err(match self.is_syncing || found.paths.is_empty() {
                    true => nothing(),
                    false => UnusableStore::Nothing(
                        CliError::new(format!("there is no store at {} yet", path.display()))
                            .hint("run the command without `--no-sync` to create it"),
                    ),
                });
            }
            true => open::open_store(path),
            false => open::open_or_create_store(path),
        };
        let annals = opened.map_err(UnusableStore::Open)?.with_clock(now);
        if let Some(lost) = annals.lost() {
            self.warn(&format!(
                "{} has lost its last {}: its log, annals.db-wal, was truncated or deleted (a sync brings back what the homes still have)",
                annals.url(),
                count(lost.count(), "revision")
            ));
        }
        self.recover(&Workspace::new(&*annals, &found.paths));
        let is_empty = || annals.sessions(&SessionQuery::default()).is_ok_and(|found| found.value.is_empty());
        let freshness = if annals.is_read_only() {
            if is_empty() {
                return Err(UnusableStore::Empty(annals.url().to_string()));
            }
            if !found.sources.is_empty() {
                self.warn(&format!(
                    "{} cannot be written to, so recent changes in OpenCode are missing (`--home PATH` reads a home directly)",
                    annals.url()
                ));
            }
            Freshness::ReadOnly
        } else if found.sources.is_empty() {
            // A store from which everything was deleted still has its history, and one may have recorded what was done elsewhere.
            let has_done_nothing = || {
                let last = OperationQuery { limit: Some(1), ..OperationQuery::default() };
                annals.operations(&last).is_ok_and(|operations| operations.is_empty())
            };
            if self.is_syncing && annals.head().is_ok_and(|head| head == 0) && has_done_nothing() {
                return Err(nothing());
            }
            Freshness::Left
        } else if self.is_syncing {
            match self.sync(&*annals, &found.sources, SyncOptions::to(stage)) {
                Ok(_) => Freshness::Synced,
                Err(error) => Freshness::Failed(error),
            }
        } else {
            Freshness::Left
        };
        Ok(OpenedStore { annals, sources: found.paths.clone(), is_named: false, freshness })
    }

    /// Syncs a store and reports the result.
    fn sync(
        &self,
        store: &dyn Store,
        sources: &[Box<dyn Source>],
        options: SyncOptions,
    ) -> Result<SyncOutcome, SyncError> {
        let homes: Vec<&dyn Source> = sources.iter().map(|source| &**source).collect();
        let progress = SyncProgress(self.progress(0, "syncing sessions"));
        let account = sync::sync(store, &homes, options, &progress)?;
        drop(progress);
        for failed in &account.failed {
            self.warn(&format!("{}; its last known state is shown", one_line(failed)));
        }
        self.note_verbose(&format!("store {}: {}", store.url(), in_short(&account)));
        Ok(account)
    }

    /// Opens OpenCode's homes directly: those that `--home` names, or else the user's. Without any, opens the store.
    pub(crate) fn open_directly(&self) -> Result<Vec<Box<dyn Write>>, CliError> {
        match self.homes.is_empty() {
            false => self.open_each(),
            true => match self.open_found() {
                Err(error) if self.found_paths().is_empty() => {
                    match self.store.path.as_deref().map(open::open_store) {
                        Some(Ok(store)) if store.sessions(&SessionQuery::default())?.value.is_empty() => {
                            Err(error)
                        }
                        Some(Ok(store)) => Ok(vec![store.with_clock(now)]),
                        _ => Err(error),
                    }
                }
                homes => homes,
            },
        }
    }

    /// Opens the user's homes directly: all in the data directory, and the database that `OPENCODE_DB` names.
    pub(crate) fn open_found(&self) -> Result<Vec<Box<dyn Write>>, CliError> {
        let mut homes = Vec::new();
        let mut refused: Option<CliError> = None;
        for path in self.found_paths() {
            match open::open(&path) {
                Ok(home) => homes.push(home),
                // A home that cannot be opened does not hide the others. The sync has named it already.
                Err(error) => refused = refused.or(Some(error.into())),
            }
        }
        match refused {
            Some(error) if homes.is_empty() => Err(error),
            None if homes.is_empty() => Err(self.no_homes()),
            _ => {
                self.note_reading(&homes);
                Ok(homes)
            }
        }
    }

    fn find_homes(&self) -> FoundHomes {
        let mut found = FoundHomes { paths: self.found_paths(), sources: Vec::new(), refused: None };
        let wanted = if self.is_syncing { &found.paths[..] } else { &[] };
        for path in wanted {
            match open_source(path) {
                Ok(source) => found.sources.push(source),
                Err(error) => {
                    self.warn(&error.message);
                    found.refused = found.refused.or(Some(error));
                }
            }
        }
        found
    }

    /// Makes sure that all homes of the user's are known: an operation must not miss one.
    pub(crate) fn expect_all_homes(&self) -> Result<(), CliError> {
        match &self.data_directory {
            Some(data) if self.homes.is_empty() => match open::discover(data).unlisted {
                Some(why) => Err(CliError::new(format!("cannot list {}: {why}", data.display()))
                    .hint("nothing was changed; another home in that directory may hold the session")),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// The user's homes, as they were when the command began.
    pub(crate) fn found_paths(&self) -> Vec<PathBuf> {
        self.found.get_or_init(|| self.discover_homes()).clone()
    }

    /// The user's homes: those in the data directory, and the database that `OPENCODE_DB` names.
    pub(crate) fn discover_homes(&self) -> Vec<PathBuf> {
        let Some(data) = &self.data_directory else { return Vec::new() };
        let Discovered { directory, mut databases, .. } = open::discover(data);
        if let Some(named) = self.opencode_db.as_deref().map(|named| data.join(named))
            && named.is_file()
        {
            databases.retain(|path| *path != named);
            databases.insert(0, named);
        }
        databases.into_iter().chain(directory).collect()
    }

    fn no_homes(&self) -> CliError {
        match &self.data_directory {
            Some(data) => CliError::new(format!("no OpenCode sessions in {}", data.display()))
                .hint("`--home PATH` names another place; `annals demo` shows annals on a sample"),
            None => CliError::new(
                "neither XDG_DATA_HOME nor HOME is set, so OpenCode's directory cannot be found",
            )
            .hint("give it with `--home`"),
        }
    }

    /// Where new sessions go: into the database of a data directory that has one, because its OpenCode reads the database;
    /// without OpenCode, into the store.
    pub(crate) fn target(&self) -> Result<NamedTarget, CliError> {
        let url = match &self.homes[..] {
            [] => match &self.data_directory {
                Some(data) if !self.found_paths().is_empty() => HomeUrl::from(data.as_path()),
                _ => return Ok(NamedTarget::Store(self.store_path()?)),
            },
            [one] => one.clone(),
            _ => return Err(CliError::usage("this command works on one home; give `--home` once")),
        };
        match open::discover(open::path_of(&url)?).databases.first() {
            Some(database) => Ok(NamedTarget::Home(HomeUrl::from(database.as_path()))),
            None => Ok(NamedTarget::Home(url)),
        }
    }

    /// The target at `url`: the user's store, or a home.
    pub(crate) fn target_of(&self, url: &HomeUrl) -> Result<NamedTarget, CliError> {
        let path = self.current_dir.join(open::path_of(url)?);
        let is_own_store = self.store.path.as_ref().is_some_and(|store| {
            path.canonicalize().ok().is_some_and(|path| store.canonicalize().ok() == Some(path))
        });
        Ok(if is_own_store { NamedTarget::Store(path) } else { NamedTarget::Home(HomeUrl::from(path)) })
    }

    /// Warns that parts are missing in the output because the store does not have them yet.
    pub(crate) fn report_awaited(&self, n_parts: usize) -> Outcome {
        if n_parts == 0 {
            return Outcome::Done;
        }
        self.warn(&format!(
            "the store does not have all of it yet: {} missing (`annals sync` fetches them)",
            match n_parts {
                1 => "1 part is".to_owned(),
                n => format!("{} parts are", grouped(n)),
            }
        ));
        Outcome::WithProblems
    }

    /// Warns of an error in one line: what went wrong, what is done instead, and what to do about it.
    fn warn_of(&self, error: &CliError, instead: &str) {
        let hint = error.hints.first().map(|hint| format!(" ({hint})")).unwrap_or_default();
        self.warn(&format!("{}; {instead}{hint}", one_line(&error.message)));
    }

    fn note_reading(&self, homes: &[Box<dyn Write>]) {
        for home in homes {
            self.note_verbose(&format!("reading {}", home.url()));
        }
    }
}

impl OpenedStore {
    /// The user's own homes.
    pub(crate) fn own(&self) -> &[PathBuf] {
        &self.sources
    }
}

impl Homes {
    /// All homes as one.
    pub(crate) fn read(&self) -> UnionHome<'_> {
        match self {
            Homes::Store(store) => UnionHome::new(vec![&*store.annals]),
            Homes::Direct(homes) => UnionHome::new(homes.iter().map(|home| &**home as &dyn Read).collect()),
        }
    }

    /// All homes as one, or the store as it was at `moment`.
    pub(crate) fn view(&self, moment: Option<At>) -> Result<HomesView<'_>, CliError> {
        match (self, moment) {
            (Homes::Store(store), Some(at)) => {
                Ok(HomesView::Then { store: &*store.annals, past: open_at(&*store.annals, at)?, at })
            }
            _ => Ok(HomesView::Now(self.read())),
        }
    }

    /// The store, if the command reads one.
    pub(crate) fn store(&self) -> Option<&OpenedStore> {
        match self {
            Homes::Store(store) => Some(store),
            Homes::Direct(_) => None,
        }
    }
}

/// Homes as they are now, or a store as it was.
pub(crate) enum HomesView<'h> {
    Now(UnionHome<'h>),
    Then { store: &'h dyn Store, past: Box<dyn Read + 'h>, at: At },
}

impl HomesView<'_> {
    /// The session that `wanted` names.
    pub(crate) fn session(&self, context: &Context, wanted: Option<&str>) -> Result<SessionRecord, CliError> {
        match self {
            HomesView::Now(homes) => context.session_or_choice(homes, wanted),
            HomesView::Then { store, past, at } => match wanted {
                Some(wanted) => session_then(context, *store, &**past, wanted, *at),
                None => context.session_or_choice(&**past, None),
            },
        }
    }
}

impl<'h> Deref for HomesView<'h> {
    type Target = dyn Read + 'h;

    fn deref(&self) -> &(dyn Read + 'h) {
        match self {
            HomesView::Now(homes) => homes,
            HomesView::Then { past, .. } => &**past,
        }
    }
}

/// Where new sessions go.
pub(crate) enum NamedTarget {
    Home(HomeUrl),
    Store(PathBuf),
}

impl NamedTarget {
    /// Opens the target, or creates it.
    pub(crate) fn open_or_create(&self) -> Result<Box<dyn Write>, CliError> {
        Ok(match self {
            NamedTarget::Home(url) => open::open_or_create(url, Generation::Portable)?,
            NamedTarget::Store(path) => open::open_or_create_store(path)?.with_clock(now),
        })
    }
}

/// Opens a home of OpenCode as a source for sync.
fn open_source(path: &Path) -> Result<Box<dyn Source>, CliError> {
    Ok(open::open_source(path)?)
}

/// Opens all homes at `url` as sources for sync. A store knows homes by their whole paths.
fn open_sources(url: &HomeUrl) -> Result<Vec<Box<dyn Source>>, CliError> {
    let path = open::path_of(url)?;
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let Discovered { directory, databases, .. } =
        if path.is_dir() { open::discover(&path) } else { Discovered::default() };
    match databases.is_empty() {
        true => Ok(vec![open_source(&path)?]),
        false => databases.iter().chain(&directory).map(|path| open_source(path)).collect(),
    }
}

/// Whether a session is in a home of OpenCode that the store follows.
pub(crate) fn is_followed(store: &dyn Store, session: &SessionRecord) -> bool {
    session.gone.is_none() && session.origins.iter().any(|origin| *origin != store.url())
}

/// The number of parts of a session that a store counted but does not have yet, given that `n_read` were read. A list
/// needs no parts, so a sync for it fetches none.
pub(crate) fn parts_awaited(home: &dyn Read, session: &SessionRecord, n_read: usize) -> usize {
    let known = home.summaries().and_then(|known| known.summarize(&[session]).ok());
    let summary = known.and_then(|mut summaries| summaries.pop()?);
    summary.map_or(0, |summary| summary.parts.saturating_sub(n_read))
}

/// The result of a sync in a few words.
pub(crate) fn in_short(account: &SyncOutcome) -> String {
    let mut facts = vec![count(account.sessions, "session")];
    for (n, what) in [(account.new, "new"), (account.changed, "changed"), (account.gone.len(), "gone")] {
        if n > 0 {
            facts.push(format!("{} {what}", grouped(n)));
        }
    }
    if facts.len() == 1 {
        facts.push("nothing new".to_owned());
    } else {
        facts.push(format!("{} imported", count(account.imported, "document")));
    }
    facts.join(", ")
}

/// Counts the sessions of all homes together.
struct SyncProgress(Progress);

impl sync::Progress for SyncProgress {
    fn begin(&self, _home: &str, sessions: usize) {
        self.0.expect(sessions);
    }

    fn step(&self) {
        self.0.advance();
    }

    fn index(&self, done: usize, total: usize) {
        self.0.rename("indexing documents");
        self.0.reach(done, total);
    }
}
