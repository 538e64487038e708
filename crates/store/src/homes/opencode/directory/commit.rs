//! Committing: several files change together or not at all.
//!
//! New contents are staged and synced, then the journal is renamed into place: that rename is the decision. Then files
//! move to their places, parts before messages before sessions, so that OpenCode never follows a reference to nothing;
//! deletions go the other way. The next process that opens the home after a crash finishes what a journal says. A single
//! change needs no journal: one rename is atomic by itself.
//!
//! OpenCode takes no locks. Between our last look at a document and its rename there is a moment in which OpenCode could
//! write it; what a crash cuts short is protected from that too, since recovery leaves alone what has changed meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write as _};
use std::time::{Duration, Instant};

use crate::homes::opencode::arrange;
use annals_core::{Change, ContentHash, Document, Expected, Key, Transaction};
use rayon::prelude::*;

use super::files::{Files, FilesView};
use super::journal::{self, Journal, JournalStep};
use super::layout::{Layout, flat_path};
use super::read::locate;
use super::{OpencodeDirectory, Root, Tree};
use crate::home::appends::as_puts;
use crate::home::space::Space;
use crate::home::{CommitError, ConflictKind, Native, Receipt, UnreadableReason, Write};
use crate::homes::opencode::foreign::refuse_foreign;
use crate::ids::hex;
use crate::lease::{LeaseDirectory, Leases};
use crate::project::IdentityRule;
use crate::{parallel, platform};

/// How long a commit waits for another one.
pub(super) const LOCK_PATIENCE: Duration = Duration::from_secs(30);

impl Write for OpencodeDirectory {
    fn commit(&self, transaction: Transaction) -> Result<Receipt, CommitError> {
        let Some(root) = self.flat() else {
            return Err(CommitError::Unsupported(format!(
                "{} has the layout of OpenCode before 0.6, which annals only reads",
                self.path.display()
            )));
        };
        let (reason, changes) = transaction.into_parts();
        let mut changes = as_puts(self, changes)?;
        refuse_foreign(&changes)?;
        changes.sort_by_key(order_of);
        let written = changes.iter().filter(|change| !change.is_deletion()).count();
        let receipt =
            Receipt { written, deleted: changes.len() - written, revision: None, completed: Vec::new() };
        if changes.is_empty() {
            return Ok(receipt);
        }
        let committer = Committer { files: &root.files };
        let _lock = committer.lock(LOCK_PATIENCE)?;
        committer.recover_or_fail()?;
        self.refuse_read_only(&changes)?;
        committer.check(&root.prefix, &changes)?;
        if let Some(note) = &self.noter {
            note.note(&self.pieces(root, &changes)?)?;
        }
        let edits: Vec<FileEdit<'_>> = changes.iter().map(FileEdit::of).collect();
        committer.commit(&reason, &edits)?;
        for change in &changes {
            if let (Key::Session(_, session), true) = (&change.key, change.is_deletion())
                && locate(&root.tree(), session).is_ok_and(|left| left.is_empty())
            {
                self.remove_older_copies(session);
            }
        }
        Ok(receipt)
    }

    fn native(&self, key: &Key, document: Document) -> Native {
        if let Key::Record(..) = key {
            return Native::NotHeld;
        }
        // Only a document too deep to be indented cannot be laid out again; it stays as it is.
        let document = arrange::for_file(key, &document).unwrap_or(document);
        Native::Held { document, lost: Vec::new() }
    }

    fn identity_rule(&self) -> IdentityRule {
        IdentityRule::RootCommit
    }

    fn space(&self) -> Option<&dyn Space> {
        Some(self)
    }

    fn leases(&self) -> Option<Box<dyn Leases>> {
        let directory = self.flat()?.files.absolute(journal::LEASES);
        Some(Box::new(LeaseDirectory::at(directory.into())))
    }
}

impl Root {
    /// The root as it is now. A transaction that was decided and not done is finished first. Where that cannot be done,
    /// because someone is at it or the disk cannot be written to, the files are seen as they will be.
    pub(super) fn tree(&self) -> Tree<'_> {
        let mut view = FilesView { files: &self.files, overlay: BTreeMap::new() };
        // A journal that cannot be understood stops writers; readers see the files as they are.
        if self.layout == Layout::Flat
            && let Ok(Some(journal)) = Journal::read(&self.files)
        {
            let committer = Committer { files: &self.files };
            let done = committer.lock(Duration::ZERO).is_ok_and(|_lock| committer.recover().is_ok());
            if !done && journal.is_complete(&self.files) {
                view.overlay = journal.overlay();
            }
        }
        Tree { layout: &self.layout, prefix: &self.prefix, view }
    }
}

impl OpencodeDirectory {
    /// Sessions of the older layouts are not changed in place.
    fn refuse_read_only(&self, changes: &[Change]) -> Result<(), CommitError> {
        let sessions = changes.iter().filter_map(|change| match &change.key {
            Key::Session(_, session) if change.expected != Expected::Absent => Some(session),
            _ => None,
        });
        for session in sessions {
            let first = self.trees().find_map(|tree| {
                let located = locate(&tree, session).ok()?.pop()?;
                Some((tree.layout.clone(), tree.place(&located.path)))
            });
            if let Some((layout, place)) = first
                && layout != Layout::Flat
            {
                let message = format!("session {session} is in a layout that annals only reads ({place})");
                return Err(CommitError::Unsupported(message));
            }
        }
        Ok(())
    }

    /// Removes what the older layouts still hold of a session that was just deleted, or it would show up again. Its
    /// document goes first: without it the rest is invisible, should this be cut short.
    fn remove_older_copies(&self, session: &annals_core::id::SessionId) {
        for root in self.roots.iter().filter(|root| root.layout != Layout::Flat) {
            let dir = &root.files.dir;
            let (document, rest) = match &root.layout {
                Layout::PerSession => {
                    (format!("session/{session}/meta.json"), vec![format!("session/{session}")])
                }
                _ => {
                    let info = format!("session/info/{session}.json");
                    (info, vec![format!("session/message/{session}"), format!("session/part/{session}")])
                }
            };
            if dir.remove_file(&document).is_ok() {
                for path in rest {
                    let _ = dir.remove_dir_all(path);
                }
            }
        }
    }
}

/// Separates what must come first. Puts go up the hierarchy, then deletions go down it.
fn order_of(change: &Change) -> (bool, i8) {
    let level = match change.key {
        Key::Project(_) => 0,
        Key::Todo(_) | Key::Diff(_) | Key::Share(_) | Key::LegacyShare(_) | Key::Record(..) => 1,
        Key::Part(..) => 2,
        Key::Message(..) => 3,
        Key::Session(..) => 4,
    };
    match change.is_deletion() {
        false => (false, level),
        true => (true, -level),
    }
}

/// A file that is to be written or removed.
#[derive(Debug)]
pub(super) struct FileEdit<'e> {
    pub(super) path: String,
    pub(super) bytes: Option<&'e [u8]>,
}

impl<'e> FileEdit<'e> {
    fn of(change: &'e Change) -> FileEdit<'e> {
        let bytes = change.document().map(Document::bytes);
        FileEdit { path: flat_path(&change.key), bytes }
    }

    /// The order of [`order_of`], found by the path.
    pub(super) fn order(&self) -> (bool, i8) {
        let level = match self.path.split('/').next() {
            Some("project") => 0,
            Some("part") => 2,
            Some("message") => 3,
            Some("session") => 4,
            _ => 1,
        };
        match self.bytes {
            Some(_) => (false, level),
            None => (true, -level),
        }
    }
}

pub(super) struct Committer<'h> {
    pub(super) files: &'h Files,
}

/// The lock of a home, released when dropped.
pub(super) struct Lock {
    _file: std::fs::File,
}

impl Committer<'_> {
    fn failed(&self, path: &str, source: io::Error) -> CommitError {
        let path = self.files.absolute(path);
        if platform::is_read_only(&source) {
            CommitError::ReadOnly { path, source }
        } else {
            CommitError::Failed { path, source }
        }
    }

    fn unfinished(&self, path: &str, source: io::Error) -> CommitError {
        CommitError::Unfinished { path: self.files.absolute(path), source }
    }

    /// Takes the lock that all annals processes respect.
    pub(super) fn lock(&self, patience: Duration) -> Result<Lock, CommitError> {
        let failed = |source| self.failed(journal::LOCK, source);
        match platform::create_own_dir(&self.files.dir, journal::DIRECTORY) {
            // Without this sync a power cut could lose the directory, and the journal with it.
            Ok(()) => platform::sync_dir(&self.files.dir, ".").map_err(failed)?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(self.failed(journal::DIRECTORY, error)),
        }
        let mut options = platform::own_options();
        options.create(true);
        let file = self.files.dir.open_with(journal::LOCK, &options).map_err(failed)?.into_std();
        if !file.metadata().map_err(failed)?.is_file() {
            return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file")));
        }
        let deadline = Instant::now() + patience;
        let mut pause = Duration::from_micros(200);
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Lock { _file: file }),
                Err(std::fs::TryLockError::Error(error)) => return Err(failed(error)),
                Err(std::fs::TryLockError::WouldBlock) if Instant::now() >= deadline => {
                    return Err(CommitError::Busy { path: self.files.absolute(journal::LOCK) });
                }
                Err(std::fs::TryLockError::WouldBlock) => {
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(Duration::from_millis(20));
                }
            }
        }
    }

    /// Finishes what an earlier process left.
    pub(super) fn recover_or_fail(&self) -> Result<(), CommitError> {
        self.recover().map_err(|source| self.failed(journal::JOURNAL, source))
    }

    /// Makes changes that were checked, all or none.
    pub(super) fn commit(&self, reason: &str, edits: &[FileEdit<'_>]) -> Result<(), CommitError> {
        match edits {
            [] => Ok(()),
            [edit] => self.commit_one(edit),
            edits => self.commit_all(reason, edits),
        }
    }

    /// Checks what the transaction expects.
    fn check(&self, prefix: &str, changes: &[Change]) -> Result<(), CommitError> {
        let check_one = |change: &Change| {
            let path = flat_path(&change.key);
            let unusable = |what: String| CommitError::Failed {
                path: self.files.absolute(&path),
                source: io::Error::other(what),
            };
            let current = match self.files.bytes(&path) {
                Ok(current) => current.map(|bytes| ContentHash::of(&bytes)),
                // A directory can be neither replaced nor deleted as a file, and that must show before the decision.
                Err(reason @ UnreadableReason::NotAFile(_)) => return Err(unusable(reason.to_string())),
                // The file cannot be read. Only a change that expects anything may overwrite it.
                Err(_) if change.expected == Expected::Anything => None,
                Err(reason) => return Err(unusable(reason.to_string())),
            };
            let what = match (&change.expected, &current) {
                (Expected::Anything, _) | (Expected::Absent, None) => return Ok(()),
                (Expected::Unchanged(read), Some(current)) if read == current => return Ok(()),
                (Expected::Absent, Some(_)) => ConflictKind::Exists,
                (Expected::Unchanged(_), None) => ConflictKind::Gone,
                (Expected::Unchanged(_), Some(_)) => ConflictKind::Changed,
            };
            Err(CommitError::Conflict {
                key: Box::new(change.key.clone()),
                place: format!("{prefix}{path}"),
                what,
            })
        };
        changes.iter().try_for_each(check_one)
    }

    /// One change: staged beside the journal and renamed, or unlinked. Either is atomic.
    fn commit_one(&self, edit: &FileEdit<'_>) -> Result<(), CommitError> {
        let path = edit.path.clone();
        let failed = |source| self.failed(&path, source);
        match edit.bytes {
            Some(bytes) => {
                self.make_parent(&path).and_then(|made| self.sync_holders(&made)).map_err(failed)?;
                let staged = journal::stage_directory(&transaction_id());
                let written = self.stage(&staged, &path, bytes);
                if let Err(source) =
                    written.and_then(|()| self.files.dir.rename(&staged, &self.files.dir, &path))
                {
                    let _ = self.files.dir.remove_file(&staged);
                    return Err(failed(source));
                }
            }
            None => self.remove(&path).map_err(failed)?,
        }
        self.tidy_and_sync(vec![path.clone()]).map_err(|source| self.unfinished(&path, source))
    }

    fn commit_all(&self, reason: &str, edits: &[FileEdit<'_>]) -> Result<(), CommitError> {
        let mut steps = Vec::with_capacity(edits.len());
        for (n, edit) in edits.iter().enumerate() {
            // What cannot be read is not as it was found either.
            let was = self.files.bytes(&edit.path).unwrap_or(None);
            steps.push(JournalStep {
                path: edit.path.clone(),
                staged: edit.bytes.map(|_| n.to_string()),
                was: was.map(|bytes| ContentHash::of(&bytes).to_string()),
                becomes: edit.bytes.map(|bytes| ContentHash::of(bytes).to_string()),
            });
        }
        let (version, transaction) = (Journal::VERSION, transaction_id());
        let journal = Journal { version, transaction, reason: reason.to_owned(), steps };
        let mut made = Vec::new();
        if let Err((path, source)) = self.decide(&journal, edits, &mut made) {
            let _ = self.files.dir.remove_dir_all(journal.stage());
            // The innermost first; one that OpenCode has put something into meanwhile stays.
            for directory in made.iter().rev() {
                let _ = self.files.dir.remove_dir(directory);
            }
            return Err(self.failed(&path, source));
        }
        self.carry_out(&journal).map_err(|(path, source)| self.unfinished(&path, source))
    }

    /// Everything up to the decision. On an error nothing that anyone looks at has changed. Directories that had to be
    /// made are added to `made`.
    fn decide(
        &self,
        journal: &Journal,
        edits: &[FileEdit<'_>],
        made: &mut Vec<String>,
    ) -> Result<(), (String, io::Error)> {
        let stage = journal.stage();
        let dir = &self.files.dir;
        let at = |path: &str| {
            let path = path.to_owned();
            move |error: io::Error| (path, error)
        };
        platform::create_own_dir(dir, &stage).map_err(at(&stage))?;
        // Directories are made before the decision, since making one can fail on a full disk. OpenCode does not mind
        // empty ones.
        for step in journal.steps.iter().filter(|step| step.staged.is_some()) {
            made.extend(self.make_parent(&step.path).map_err(at(&step.path))?);
        }
        // A file moved into a directory that a power cut takes away would go with it.
        self.sync_holders(made).map_err(at(&stage))?;
        // Syncing one file waits for the disk; syncing several at once lets the file system do it in one go.
        let stage_one =
            |(step, edit): (&JournalStep, &FileEdit<'_>)| match (journal.staged_path(step), edit.bytes) {
                (Some(staged), Some(bytes)) => self.stage(&staged, &step.path, bytes).map_err(at(&step.path)),
                _ => Ok(()),
            };
        parallel::run(|| journal.steps.par_iter().zip(edits).try_for_each(stage_one))?;
        let draft = format!("{stage}/journal");
        let text = serde_json::to_vec_pretty(journal).map_err(|error| (draft.clone(), error.into()))?;
        self.stage_journal(&draft, &text).map_err(at(&draft))?;
        platform::sync_dir(dir, &stage).map_err(at(&stage))?;
        dir.rename(&draft, dir, journal::JOURNAL).map_err(at(&draft))?;
        platform::sync_dir(dir, journal::DIRECTORY).map_err(|error| {
            // Undecided after all: whether the rename is on the disk cannot be known, so take it back.
            let _ = dir.remove_file(journal::JOURNAL);
            (journal::DIRECTORY.to_owned(), error)
        })
    }

    /// Everything after the decision, right away.
    fn carry_out(&self, journal: &Journal) -> Result<(), (String, io::Error)> {
        for step in &journal.steps {
            let done = match journal.staged_path(step) {
                Some(staged) => self.files.dir.rename(&staged, &self.files.dir, &step.path),
                None => self.remove(&step.path),
            };
            done.map_err(|error| (step.path.clone(), error))?;
        }
        self.conclude(journal).map_err(|error| (journal::JOURNAL.to_owned(), error))
    }

    /// Everything after the decision, by a later process: some of it may have been done, and others may have written
    /// since. What has changed since the decision came later, and stands.
    fn carry_out_again(&self, journal: &Journal) -> io::Result<()> {
        for step in &journal.steps {
            match journal.staged_path(step) {
                Some(staged) => {
                    if self.files.dir.try_exists(&staged)? && self.is_as_found(step)? {
                        self.sync_holders(&self.make_parent(&step.path)?)?;
                        self.files.dir.rename(&staged, &self.files.dir, &step.path)?;
                    }
                }
                None => {
                    if self.is_as_found(step)? {
                        self.remove(&step.path)?;
                    }
                }
            }
        }
        self.conclude(journal)
    }

    fn conclude(&self, journal: &Journal) -> io::Result<()> {
        let dir = &self.files.dir;
        self.tidy_and_sync(journal.steps.iter().map(|step| step.path.clone()).collect())?;
        dir.rename(journal::JOURNAL, dir, journal::LAST)?;
        platform::sync_dir(dir, journal::DIRECTORY)?;
        // A leftover stage does no harm; the next writer removes it if this fails.
        let _ = dir.remove_dir_all(journal.stage());
        Ok(())
    }

    /// Whether a document still is what the transaction found when it was decided.
    fn is_as_found(&self, step: &JournalStep) -> io::Result<bool> {
        match self.files.bytes(&step.path) {
            Ok(found) => Ok(step.was == found.map(|bytes| ContentHash::of(&bytes).to_string())),
            Err(reason) => Err(io::Error::other(reason.to_string())),
        }
    }

    /// With the lock held: finishes a decided transaction and removes what undecided ones have staged.
    fn recover(&self) -> io::Result<()> {
        match Journal::read(self.files)? {
            Some(journal) if journal.is_complete(self.files) => self.carry_out_again(&journal)?,
            Some(_) => self.remove(journal::JOURNAL)?,
            None => {}
        }
        for entry in self.files.dir.read_dir(journal::DIRECTORY)? {
            let name = entry?.file_name();
            if let Some(name) = name.to_str().filter(|name| name.starts_with("tx-")) {
                let path = format!("{}/{name}", journal::DIRECTORY);
                let _ = self.files.dir.remove_file(&path).or_else(|_| self.files.dir.remove_dir_all(&path));
            }
        }
        Ok(())
    }

    /// Writes and syncs a file that is to become `target`, with the permissions of what it replaces.
    fn stage(&self, staged: &str, target: &str, bytes: &[u8]) -> io::Result<()> {
        let mut file = self.files.dir.open_with(staged, &platform::create_options())?;
        file.write_all(bytes)?;
        platform::keep_permissions(&self.files.dir, target, &file)?;
        file.sync_all()
    }

    /// Writes and syncs a journal. Only its owner can read it: it names sessions, and the reason of the change.
    fn stage_journal(&self, staged: &str, bytes: &[u8]) -> io::Result<()> {
        let mut file = self.files.dir.open_with(staged, platform::own_options().create_new(true))?;
        file.write_all(bytes)?;
        file.sync_all()
    }

    /// Makes the directories above `path`, and tells which were made.
    fn make_parent(&self, path: &str) -> io::Result<Vec<String>> {
        let mut made = Vec::new();
        for (slash, _) in path.match_indices('/') {
            match self.files.dir.create_dir(&path[..slash]) {
                Ok(()) => made.push(path[..slash].to_owned()),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Ok(made)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        match self.files.dir.remove_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result,
        }
    }

    /// Removes directories that a deletion has emptied, and syncs every directory that holds something changed.
    fn tidy_and_sync(&self, mut changed: Vec<String>) -> io::Result<()> {
        let dir = &self.files.dir;
        for at in 0..changed.len() {
            let path = &changed[at];
            let Some((holder, _)) = path.rsplit_once('/') else { continue };
            let of_one_entity = holder.starts_with("part/") || holder.starts_with("message/");
            if of_one_entity && !dir.try_exists(path)? && dir.remove_dir(holder).is_ok() {
                changed.push(holder.to_owned());
            }
        }
        self.sync_holders(&changed)
    }

    /// Syncs the directories that hold `paths`.
    fn sync_holders(&self, paths: &[String]) -> io::Result<()> {
        let holders: BTreeSet<&str> =
            paths.iter().map(|path| path.rsplit_once('/').map_or(".", |(holder, _)| holder)).collect();
        let sync = |holder: &str| match platform::sync_dir(&self.files.dir, holder) {
            // Removed since, with all it held.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result,
        };
        parallel::run(|| holders.into_par_iter().try_for_each(sync))
    }
}

/// A name no other transaction has.
fn transaction_id() -> String {
    let mut random = [0; 12];
    // Without randomness the process id and the lock still keep names apart: stages are removed before new ones.
    if getrandom::fill(&mut random).is_err() {
        random[..4].copy_from_slice(&std::process::id().to_le_bytes());
    }
    hex(&random)
}
