//! An example of each JSON shape, with nothing left out.

use std::collections::BTreeMap;

use annals::wire::{
    AbortedTurns, Acknowledgement, AnswerSums, ArchivedSession, Backup, CacheTokens, CallTime, ChangedFile,
    ChangedFiles, CheckReport, ClearedHome, ClosedTurn, CompactedSession, ContentSize, ContextMessage,
    CopiedSession, CopyReport, CopyTally, DifferingDocument, DocumentChange, DocumentName, ErasedLines,
    FixReport, ForgetReport, ForkedSession, FoundRemains, FreeReport, FreedUse, Gist, HereProject, Home,
    ImportReport, IndexUpdate, LargeSession, LatestSession, LeftTurn, LineError, LlmContext, MovedHere,
    MovedProject, NewSession, NotErased, Operation, OperationEffect, Overview, Problem, ProjectSummary,
    PruneReport, PrunedCalls, PrunedSession, PurgeReport, RecordedRequest, RefusedLine, ReindexReport,
    Relative, RemovedSessions, RenamedSession, ReplacedTodoList, ReplayableCall, Rescue, RestoredBackup,
    RestoredSession, ResumeCommand, RevertedSession, RevisedSession, Revision, SampleHome, SearchHit,
    Session, SessionTree, SpaceFailure, SpacePlace, SpaceReport, SpaceUse, Stats, StatsGroup, Store,
    StoreSpace, SyncReport, TextIndex, TodoList, Tokens, TokensPerSession, ToolCalls, UndoneOperation,
    UndoneRevision, UnrevertedSession, UsedSince,
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
    [sessions(), homes(), operations(), turns(), transfers(), care()].concat()
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
    let file = ChangedFile {
        file: "src/cart.js",
        status: "modified",
        additions: Some(3),
        deletions: Some(1),
        turns: &[1, 2],
    };
    let changed = ChangedFiles {
        session_id: SESSION,
        root: Some("/home/me/shop"),
        files: vec![file],
        patch: Some("diff --git a/src/cart.js b/src/cart.js"),
    };
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
    let leaf = SessionTree { session: session.clone(), subtree: Vec::new(), forks: Vec::new() };
    let relative = Relative {
        id: SESSION,
        title: "Fix the empty cart (fork #1)",
        created: Some(TIME),
        descent: "fork",
        from_id: Some(SESSION),
        messages: Some(2),
        depth: 1,
    };
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
    let calls = ToolCalls { calls: 1, errors: 0, median_ms: Some(7), total_ms: 7 };
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
        tool_calls: BTreeMap::from([("bash", calls)]),
        models: BTreeMap::from([("anthropic/opus", sums)]),
        agents: BTreeMap::from([("build", sums)]),
        projects: BTreeMap::from([("global", sums)]),
        by_day: BTreeMap::from([("2026-02-24".to_owned(), sums)]),
        since: Some(TIME),
        until: Some(TIME + 1),
        answers: sums,
        copies: sums,
        groups: vec![StatsGroup { by: BTreeMap::from([("day", "2026-02-24")]), sums, calls }],
    };
    let size = ContentSize { kind: "prompt", parts: 1, estimated: 5 };
    let context = LlmContext {
        session: SESSION.to_owned(),
        like: "1.18.33".to_owned(),
        model: "anthropic/claude-sonnet-4-5".to_owned(),
        sdk: "anthropic",
        estimated: 14,
        recorded: Some(RecordedRequest { answer: MESSAGE.to_owned(), tokens }),
        kinds: vec![size.clone()],
        messages: vec![ContextMessage {
            id: MESSAGE.to_owned(),
            role: "user",
            estimated: 14,
            kinds: vec![size],
            recorded: Some(tokens),
        }],
    };
    vec![
        ("Session", of(&session)),
        ("ChangedFiles", of(changed)),
        ("SessionTree", of(SessionTree { session, subtree: vec![leaf.clone()], forks: vec![leaf] })),
        ("Relative", of(relative)),
        ("TodoList", of(TodoList { session_id: SESSION, todos: raw("[]") })),
        ("SearchHit", of(hit)),
        (
            "ProjectSummary",
            of(ProjectSummary {
                id: "global".to_owned(),
                name: Some("Shop".to_owned()),
                worktree: Some("/home/me/shop".to_owned()),
                vcs: Some("git".to_owned()),
                sandboxes: vec!["/home/me/shop-hotfix".to_owned()],
                created: Some(TIME),
                initialized: Some(TIME),
                updated: Some(TIME),
                sessions: 1,
                subagents: 1,
                cost: 0.25,
            }),
        ),
        (
            "ResumeCommand",
            of(ResumeCommand {
                id: SESSION,
                directory: "/home/me/shop".to_owned(),
                command: vec!["opencode".to_owned()],
            }),
        ),
        ("LlmContext", of(context)),
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
        latest: vec![latest.clone()],
        here: Some(HereProject { project_id: "global".to_owned(), sessions: 1, latest: vec![latest] }),
        week: UsedSince { since: TIME, sessions: 1, cost: 0.25 },
        failed: 1,
        open: 1,
        rescue: vec![rescue],
        moved: Some(MovedHere {
            from: "/home/me/old".to_owned(),
            to: "/home/me/shop".to_owned(),
            sessions: 1,
        }),
    };
    let problem = Problem {
        kind: "unreadable",
        path: "storage/part/a.json",
        id: Some(PART),
        detail: "the file ends inside a string",
        repair: "restore it from a backup, or remove it",
        session_id: Some(SESSION),
        home: "/home/me/storage",
        severity: "error",
    };
    let closed = ClosedTurn {
        session_id: SESSION.to_owned(),
        home: "/home/me/storage".to_owned(),
        answers: 1,
        calls: 2,
    };
    let left = LeftTurn {
        session_id: SESSION.to_owned(),
        home: "/home/me/storage".to_owned(),
        reason: "recent",
        detail: "it changed a short while ago".to_owned(),
        changed: Some(TIME),
    };
    let fix = FixReport { closed: vec![closed], left: vec![left], effect: effect() };
    vec![
        ("Overview", of(overview)),
        ("CheckReport", of(CheckReport { problems: vec![problem], fix: Some(fix) })),
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
    let moved = MovedProject {
        from: "/home/me/old".to_owned(),
        to: "/home/me/shop".to_owned(),
        sessions: text(SESSION),
        done: true,
        effect: OperationEffect { operation: Some(7), places: text("/home/me/opencode.db") },
    };
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
    let forked = ForkedSession {
        id: SESSION,
        title: "Fix the empty cart (fork #1)",
        origin_id: SESSION,
        messages: 2,
        effect: effect(),
    };
    let reverted = RevertedSession {
        session_id: SESSION,
        message_id: MESSAGE,
        part_id: Some(PART),
        files: text("/home/me/shop/cart.js"),
        effect: effect(),
    };
    let unreverted =
        UnrevertedSession { session_id: SESSION, files: text("/home/me/shop/cart.js"), effect: effect() };
    let compacted = CompactedSession {
        session_id: SESSION,
        request_id: MESSAGE,
        summary_id: MESSAGE,
        kept_from: Some(MESSAGE),
        effect: effect(),
    };
    let pruned = PrunedCalls {
        session_id: SESSION,
        part_ids: vec![PART],
        tokens: 30_000,
        pruned: true,
        effect: effect(),
    };
    let todos = ReplacedTodoList { session_id: SESSION, todos: 2, effect: effect() };
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
        ("MovedProject", of(moved)),
        ("RenamedSession", of(RenamedSession { id: SESSION, title: "Other", effect: effect() })),
        ("ArchivedSession", of(ArchivedSession { id: SESSION, archived: Some(TIME), effect: effect() })),
        ("RemovedSessions", of(removed)),
        ("RestoredSession", of(restored)),
        ("ForkedSession", of(forked)),
        ("RevertedSession", of(reverted)),
        ("UnrevertedSession", of(unreverted)),
        ("CompactedSession", of(compacted)),
        ("PrunedCalls", of(pruned)),
        ("ReplacedTodoList", of(todos)),
        ("UndoneOperation", of(undone)),
        ("Revision", of(revision)),
        ("UndoneRevision", of(undone_revision)),
        ("DocumentChange", of(change)),
    ]
}

fn turns() -> Vec<(&'static str, Value)> {
    let acknowledgement = Acknowledgement {
        line: 7,
        session: SESSION,
        message: Some(MESSAGE),
        part: Some(PART),
        child: Some(SESSION),
        deltas: Some(3),
    };
    let refused = RefusedLine {
        line: 8,
        error: LineError { kind: "no-call", message: "no call \"c1\" is open".to_owned() },
    };
    let aborted = AbortedTurns { lines: 9, aborted: text(SESSION), left: text(SESSION) };
    let new = NewSession {
        id: SESSION,
        title: "Fix the empty cart",
        directory: "/home/me/shop",
        parent_id: Some(SESSION.to_owned()),
        effect: effect(),
    };
    let call = ReplayableCall {
        session: SESSION,
        message: MESSAGE,
        part: PART,
        call: Some("call_1"),
        tool: "bash",
        input: raw(r#"{"command":"ls"}"#),
        status: "error",
        interrupted: true,
        error: Some("Tool execution aborted"),
        time: CallTime { start: Some(TIME), end: Some(TIME) },
    };
    vec![
        ("Acknowledgement", of(acknowledgement)),
        ("RefusedLine", of(refused)),
        ("AbortedTurns", of(aborted)),
        ("NewSession", of(new)),
        ("ReplayableCall", of(call)),
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
        ("PurgeReport", of(purge())),
        ("SpaceReport", of(space())),
        ("FreeReport", of(freed())),
    ]
}

fn purge() -> PurgeReport<'static> {
    const HOME: &str = "/home/me/opencode.db";
    let cleared =
        ClearedHome { home: HOME, bytes_before: 2000, bytes_after: 1000, users: &[7], log_left: true };
    PurgeReport {
        sessions: vec![SESSION],
        homes: vec![HOME],
        documents: 8,
        states: 2,
        cleared: vec![cleared],
        files: text("/home/me/tool-output/tool_1"),
        lines: vec![ErasedLines { file: "/home/me/log/a.log".to_owned(), lines: 2 }],
        snapshot_objects: 3,
        backups: text("/mnt/disk/annals.db"),
        still_in: vec![HOME],
        left: vec![NotErased { place: "/home/me/snapshot", why: "process 7 may be using the snapshots" }],
        searched: 40,
        remains: vec![FoundRemains { file: HOME.to_owned(), words: 1 }],
        done: true,
        complete: false,
    }
}

fn space() -> SpaceReport<'static> {
    const HOME: &str = "/home/me/opencode.db";
    let used = SpaceUse { kind: "events", bytes: 1000, items: Some(9), freeable: 900 };
    let place = SpacePlace { place: HOME, kind: "home", bytes: 1000, uses: vec![used], users: &[7] };
    SpaceReport {
        places: vec![place],
        sessions: vec![LargeSession { id: SESSION, title: "Fix the empty cart", bytes: 100 }],
        store: Some(StoreSpace { path: "/home/me/annals.db".to_owned(), bytes: 1000, index: 100 }),
        failed: vec![SpaceFailure { place: HOME, why: "it is damaged" }],
    }
}

fn freed() -> FreeReport<'static> {
    const HOME: &str = "/home/me/opencode.db";
    FreeReport {
        done: true,
        freed: vec![FreedUse { place: HOME, kind: "events", items: 9, bytes: 900 }],
        operations: vec![7],
        left: vec![SpaceFailure { place: HOME, why: "process 7 has it open" }],
    }
}
