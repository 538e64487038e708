-- annals.db, schema 1. A schema that was released is never edited, only followed by another.

-- Name and value: `schema` is the version of these tables, `reader` the oldest version of annals that reads them rightly,
-- `store` names this store.
CREATE TABLE meta (name TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID;

-- What documents are compressed with (zstd).
CREATE TABLE dictionary (id INTEGER PRIMARY KEY, bytes BLOB NOT NULL);

-- The homes that were synced, and what was seen of them as a whole. `by_time`: OpenCode orders messages there by (time, id),
-- as it does in databases, and not by (era, id), as it does in files.
CREATE TABLE home (
  n       INTEGER PRIMARY KEY,
  url     TEXT NOT NULL UNIQUE,
  by_time INTEGER NOT NULL,
  stamp   BLOB,
  synced  INTEGER
);

-- Committed transactions. None is ever deleted. They are ordered by (time, n): what was learnt later about earlier times
-- (`learnt`) has a high number and an early time; of all others, times grow with numbers.
CREATE TABLE revision (
  n      INTEGER PRIMARY KEY,
  time   INTEGER NOT NULL,
  reason TEXT NOT NULL,
  home   INTEGER REFERENCES home (n),
  learnt INTEGER NOT NULL
);
CREATE INDEX revision_learnt ON revision (time) WHERE learnt;

-- Every document there is or was, in its latest state. `kind`: 1 project, 2 session, 3 message, 4 part, 5 todo list, 6
-- diff, 7 share, 8 share before 1.0.144. `owner` is the message of a part, the session of a message and of what stands
-- beside a session, 0 of sessions and projects. Sorted by (era, id) is the order of the conversation, unless the session's
-- home has it by time. No `data`: deleted,
-- or never seen itself but named by others. `form` of `data`: 0 the text itself, otherwise zstd with that dictionary.
CREATE TABLE document (
  n         INTEGER PRIMARY KEY,
  owner     INTEGER NOT NULL,
  kind      INTEGER NOT NULL,
  id        TEXT NOT NULL,
  era       INTEGER NOT NULL,
  project   TEXT,
  converted INTEGER NOT NULL,
  revision  INTEGER NOT NULL,
  since     INTEGER NOT NULL,
  home      INTEGER,
  hash      BLOB,
  form      INTEGER,
  size      INTEGER,
  data
);
CREATE UNIQUE INDEX document_key ON document (owner, kind, id, era);
CREATE INDEX document_revision ON document (revision);
CREATE INDEX document_gone ON document (owner, kind) WHERE hash IS NULL;

-- Earlier states: from the revision `since` on, until the document's next state. No `data`: it was deleted then,
-- or, where `form` is -1, its text and those of the states that followed were pruned. `hash` is combined by exclusive or
-- with `document` and `since`, 8 bytes each, the lowest first, and with the hash of `project`, if there is one: nothing else
-- tells whether these are right.
CREATE TABLE past (
  document  INTEGER NOT NULL REFERENCES document (n),
  since     INTEGER NOT NULL REFERENCES revision (n),
  project   TEXT,
  converted INTEGER NOT NULL,
  home      INTEGER,
  hash      BLOB,
  form      INTEGER,
  size      INTEGER,
  data,
  PRIMARY KEY (document, since)
) WITHOUT ROWID;

-- Which sessions a revision touched; session 0 stands for projects.
CREATE TABLE touched (
  session  INTEGER NOT NULL,
  revision INTEGER NOT NULL REFERENCES revision (n),
  written  INTEGER NOT NULL,
  deleted  INTEGER NOT NULL,
  PRIMARY KEY (session, revision)
) WITHOUT ROWID;
CREATE INDEX touched_revision ON touched (revision);

-- Where a session comes from, and the cursor of sync there: the evidence at the last look (`stamp`), when that look began
-- (`looked`), whether nothing changes any more without the evidence changing (`settled`), how deep it went (`stage`: 1 its
-- own document and its numbers, 2 everything). `gone`: when it was found missing.
CREATE TABLE origin (
  session INTEGER NOT NULL,
  home    INTEGER NOT NULL REFERENCES home (n),
  place   TEXT NOT NULL,
  updated INTEGER NOT NULL,
  stamp   BLOB,
  looked  INTEGER NOT NULL,
  settled INTEGER NOT NULL,
  stage   INTEGER NOT NULL,
  events  INTEGER,
  gone    INTEGER,
  PRIMARY KEY (session, home)
) WITHOUT ROWID;
CREATE INDEX origin_home ON origin (home);

-- What a home said when it was last looked at, where that is not what the document says now: it was changed here, or
-- another home's state is newer.
CREATE TABLE source (
  document INTEGER NOT NULL REFERENCES document (n),
  home     INTEGER NOT NULL REFERENCES home (n),
  hash     BLOB,
  PRIMARY KEY (document, home)
) WITHOUT ROWID;

-- What could not be read, and why.
CREATE TABLE quarantine (
  home    INTEGER NOT NULL REFERENCES home (n),
  place   TEXT NOT NULL,
  reason  TEXT NOT NULL,
  session TEXT,
  since   INTEGER NOT NULL,
  PRIMARY KEY (home, place)
) WITHOUT ROWID;
CREATE INDEX quarantine_session ON quarantine (session);

-- Hashes of the ids of sessions that were forgotten, so that sync does not bring them back.
CREATE TABLE forgotten (hash BLOB PRIMARY KEY) WITHOUT ROWID;

-- From here on everything is derived from documents; `annals reindex` makes it anew.

-- The numbers of a session. `stale`: it has changed since they were added up. `brief`: only the session's own document is
-- here yet, and the numbers are what its home told.
CREATE TABLE session (
  n           INTEGER PRIMARY KEY,
  stale       INTEGER NOT NULL,
  brief       INTEGER NOT NULL DEFAULT 0,
  title       TEXT,
  directory   TEXT,
  messages    INTEGER NOT NULL DEFAULT 0,
  parts       INTEGER NOT NULL DEFAULT 0,
  cost        REAL NOT NULL DEFAULT 0,
  input       REAL NOT NULL DEFAULT 0,
  output      REAL NOT NULL DEFAULT 0,
  reasoning   REAL NOT NULL DEFAULT 0,
  cache_read  REAL NOT NULL DEFAULT 0,
  cache_write REAL NOT NULL DEFAULT 0,
  models      TEXT NOT NULL DEFAULT '[]',
  agents      TEXT NOT NULL DEFAULT '[]',
  state       INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX session_stale ON session (stale) WHERE stale;

CREATE TABLE message (
  session     INTEGER NOT NULL,
  n           INTEGER NOT NULL,
  role        INTEGER NOT NULL,
  made        INTEGER NOT NULL,
  agent       TEXT,
  provider    TEXT,
  model       TEXT,
  cwd         TEXT,
  state       INTEGER NOT NULL,
  cost        REAL NOT NULL,
  input       REAL NOT NULL,
  output      REAL NOT NULL,
  reasoning   REAL NOT NULL,
  cache_read  REAL NOT NULL,
  cache_write REAL NOT NULL,
  PRIMARY KEY (session, n)
) WITHOUT ROWID;

CREATE TABLE call (
  session INTEGER NOT NULL,
  n       INTEGER NOT NULL,
  tool    TEXT NOT NULL,
  failed  INTEGER NOT NULL,
  ms      INTEGER,
  PRIMARY KEY (session, n)
) WITHOUT ROWID;
