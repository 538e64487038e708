//! An example of each JSON shape, with nothing left out.

use std::collections::BTreeMap;

use annals::wire::{
    AnswerSums, ArchivedSession, Backup, CacheTokens, CheckReport, CopiedSession, CopyReport, CopyTally,
    DifferingDocument, DocumentChange, DocumentName, ForgetReport, Gist, Home, ImportReport, IndexUpdate,
    LatestSession, Operation, OperationEffect, Overview, Problem, PruneReport, PrunedSession, ReindexReport,
    RemovedSessions, RenamedSession, Rescue, RestoredBackup, RestoredSession, RevisedSession, Revision,
    SampleHome, SearchHit, Session, SessionTree, Stats, Store, SyncReport, TextIndex, TodoList, Tokens,
    TokensPerSession, ToolCalls, UndoneOperation, UndoneRevision,
};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

const SESSION: &str = "ses_36f8c14a0ffeUi9PZkXTmCh38x";
const MESSAGE: &str = "msg_c9073eb60001C0yy9dCvBzTJu5";
const PART: &str = "prt_c9073eb60002C0yy9dCvBzTJu5";
const TIME: i64 = 1_771_000_000_000;

/// Shapes with their names.
pub(super) fn examples() -> Vec<(&'static str, Value)> {
    [sessions(), homes(), operations(), transfers(), care()].concat()
}

fn of(shape: impl Serialize) -> Value {
    serde_json::to_value(shape).unwrap()
}

fn raw(text: &str) -> &RawValue {
    serde_json::from_str(text).unwrap()
}

fn text(text: &str) -> Vec<String> {
    vec![text.to_owned()]
}

fn sessions() -> Vec<(&'static str, Value)> {
    let tokens =
        Tokens { input: 1.0, output: 2.0, reasoning: 3.0, cache: CacheTokens { read: 4.0, write: 5.0 } };
    let (models, agents, origins) = (text("anthropic/opus"), text("build"), text("/home/me/opencode.db"));
    let session = Session {
        id: SESSION,
        title: "Fix the empty cart",
        project_id: "global",
        directory: Some("/home/me/shop"),
        parent_id: Some(SESSION),
        version: Some("1.18.33"),
        created: Some(TIME),
        updated: Some(TIME),
        archived: Some(TIME),
        messages: 2,
        parts: 5,
        cost: 0.25,
        tokens,
        models: &models,
        agents: &agents,
        children: vec![SESSION],
        origins,
        gone: Some(TIME),
        status: "done",
    };
    let leaf = SessionTree { session: session.clone(), subtree: Vec::new() };
    let sums = AnswerSums { sessions: 1, messages: 2, cost: 0.25, tokens };
    let hit = SearchHit {
        session_id: SESSION,
        message_id: Some(MESSAGE),
        part_id: Some(PART),
        title: "Fix the empty cart",
        role: Some("assistant"),
        kind: "tool",
        tool: Some("bash"),
        time: Some(TIME),
        score: 1.5,
        snippet: "the cart is empty",
        highlights: vec![[4, 8]],
    };
    let stats = Stats {
        sessions: 1,
        messages: 2,
        parts: 5,
        days: 1,
        cost: 0.25,
        cost_per_day: 0.25,
        tokens,
        tokens_per_session: TokensPerSession { mean: 15.0, median: 15.0 },
        tools: BTreeMap::from([("bash", 1)]),
        tool_calls: BTreeMap::from([(
            "bash",
            ToolCalls { calls: 1, errors: 0, median_ms: Some(7), total_ms: 7 },
        )]),
        models: BTreeMap::from([("anthropic/opus", sums)]),
        agents: BTreeMap::from([("build", sums)]),
        projects: BTreeMap::from([("global", sums)]),
        by_day: BTreeMap::from([("2026-02-24".to_owned(), sums)]),
    };
    vec![
        ("Session", of(&session)),
        ("SessionTree", of(SessionTree { session, subtree: vec![leaf] })),
        ("TodoList", of(TodoList { session_id: SESSION, todos: raw("[]") })),
        ("SearchHit", of(hit)),
        ("Stats", of(stats)),
    ]
}

fn homes() -> Vec<(&'static str, Value)> {
    let home = Home {
        url: "/home/me/opencode.db".to_owned(),
        sessions: 1,
        projects: 1,
        messages: Some(2),
        parts: Some(5),
        bytes: 1000,
        updated: Some(TIME),
        problems: 0,
        remarks: text("something is not read"),
        damaged: false,
    };
    let store = Store {
        path: "/home/me/annals.db".to_owned(),
        bytes: 1000,
        sessions: 1,
        gone: 0,
        revision: 3,
        revised: Some(TIME),
        synced: true,
        index: Some(TextIndex { bytes: 1000 }),
    };
    let latest =
        LatestSession { id: SESSION.to_owned(), title: "Fix the empty cart".to_owned(), updated: TIME };
    let rescue = Rescue { sessions: 1, from: "storage".to_owned(), to: "opencode.db".to_owned() };
    let overview = Overview {
        homes: vec![home],
        store: Some(store),
        sessions: 1,
        projects: 1,
        latest: vec![latest],
        rescue: vec![rescue],
    };
    let problem = Problem {
        kind: "unreadable",
        path: "storage/part/a.json",
        id: Some(PART),
        detail: "the file ends inside a string",
        repair: "restore it from a backup, or remove it",
        session_id: Some(SESSION),
        home: "/home/me/storage",
    };
    vec![
        ("Overview", of(overview)),
        ("CheckReport", of(CheckReport { problems: vec![problem] })),
        ("SampleHome", of(SampleHome { home: "/tmp/annals-demo".to_owned() })),
    ]
}

fn effect() -> OperationEffect {
    OperationEffect { operation: Some(7), places: text("/home/me/opencode.db") }
}

fn part() -> DocumentName<'static> {
    DocumentName { kind: "part", session_id: Some(SESSION), message_id: Some(MESSAGE), part_id: Some(PART) }
}

fn operations() -> Vec<(&'static str, Value)> {
    let places = text("/home/me/opencode.db");
    let operation = Operation {
        operation: 7,
        time: TIME,
        kind: "rename",
        words: "rename last Other",
        state: "done",
        user: Some("me"),
        host: Some("desk"),
        pid: Some(4711),
        places: &places,
        session_ids: vec![SESSION],
        revisions: &[3],
        undoes: Some(5),
        undone_by: Some(8),
    };
    let removed = RemovedSessions {
        sessions: text(SESSION),
        messages: 2,
        parts: 5,
        documents: 8,
        removed: true,
        kept: true,
        effect: effect(),
        still_in: text("/mnt/old/opencode.db"),
    };
    let restored =
        RestoredSession { session_id: SESSION, revision: Some(3), written: 2, deleted: 1, effect: effect() };
    let undone = UndoneOperation {
        undone_operation: 6,
        kind: "rename",
        words: "rename last Other",
        effect: effect(),
        sessions: vec![SESSION],
    };
    let revision = Revision {
        revision: 3,
        time: TIME,
        reason: "sync",
        home: Some("/home/me/opencode.db"),
        written: 2,
        deleted: 1,
        sessions: vec![RevisedSession { session_id: SESSION, written: 2, deleted: 1 }],
    };
    let undone_revision =
        UndoneRevision { undone: 3, reason: "sync", revision: Some(4), written: 2, deleted: 1 };
    let change = DocumentChange {
        change: "changed",
        document: part(),
        before: Some(raw("{}")),
        after: Some(raw("{}")),
        in_progress: false,
    };
    vec![
        ("Operation", of(operation)),
        ("RenamedSession", of(RenamedSession { id: SESSION, title: "Other", effect: effect() })),
        ("ArchivedSession", of(ArchivedSession { id: SESSION, archived: Some(TIME), effect: effect() })),
        ("RemovedSessions", of(removed)),
        ("RestoredSession", of(restored)),
        ("UndoneOperation", of(undone)),
        ("Revision", of(revision)),
        ("UndoneRevision", of(undone_revision)),
        ("DocumentChange", of(change)),
    ]
}

fn transfers() -> Vec<(&'static str, Value)> {
    let gist = Gist { title: Some("A"), updated: Some(TIME), archived: Some(TIME), text: Some("words") };
    let differing = DifferingDocument { document: part(), target: gist, source: gist };
    let copy = CopyReport {
        seen: 4,
        copied: 1,
        unchanged: 1,
        quarantined: 1,
        sessions: CopyTally { seen: 4, copied: 1, unchanged: 1, differing: 1, quarantined: 1 },
        dry_run: false,
        completed: 1,
        converted: 1,
        newer_in_target: vec![SESSION],
        only_in_target: 1,
        lost: &BTreeMap::from([("time.initialized".to_owned(), 1)]),
        not_held: &BTreeMap::from([("share", 1)]),
        refiled: BTreeMap::from([("one", "other")]),
        tool_outputs: 1,
        tool_outputs_left: 1,
        problems: text("a.json: the file ends inside a string"),
        differing: vec![differing],
        copied_sessions: vec![CopiedSession { id: SESSION, title: "Fix the empty cart" }],
        files: text("/home/me/tool-output/1"),
        operation: Some(7),
    };
    let import = ImportReport {
        seen: 3,
        imported: 1,
        unchanged: 1,
        quarantined: 0,
        sessions: vec![SESSION],
        completed: 1,
        effect: effect(),
        differing: vec![differing],
    };
    let index = IndexUpdate { documents: 8, revision: 3 };
    let sync = SyncReport {
        store: "/home/me/annals.db".to_owned(),
        sessions: 3,
        looked: 2,
        new: 1,
        changed: 1,
        gone: vec![SESSION],
        forgotten: 1,
        seen: 3,
        imported: 1,
        unchanged: 1,
        quarantined: 1,
        deleted: 1,
        recorded: 1,
        index: Some(index),
        failed: text("/mnt/old: it is not there"),
        problems: text("a.json: the file ends inside a string"),
    };
    vec![
        ("CopyReport", of(copy)),
        ("ImportReport", of(import)),
        ("SyncReport", of(sync)),
        ("ReindexReport", of(ReindexReport { sessions: 1, index })),
    ]
}

fn care() -> Vec<(&'static str, Value)> {
    let backup = Backup {
        store: "/home/me/annals.db".to_owned(),
        file: "/mnt/disk/annals.db".to_owned(),
        bytes: 1000,
        documents: 8,
        revisions: 3,
    };
    let prune = PruneReport {
        states: 2,
        bytes: 100,
        sessions: vec![PrunedSession { session_id: Some(SESSION), states: 2, bytes: 100 }],
        pruned: true,
        operation_states: 1,
        operation_bytes: 10,
    };
    let forget = ForgetReport {
        sessions: vec![SESSION],
        documents: 8,
        states: 2,
        revisions: 3,
        rewritten: true,
        log_emptied: true,
        copies: text("/home/me/annals.db.bak"),
        remains: text("/home/me/opencode.db"),
    };
    let kept = Some("/home/me/annals.db.kept".to_owned());
    vec![
        ("Backup", of(&backup)),
        ("RestoredBackup", of(RestoredBackup { backup, kept })),
        ("PruneReport", of(prune)),
        ("ForgetReport", of(forget)),
    ]
}
