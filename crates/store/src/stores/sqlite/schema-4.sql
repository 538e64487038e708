-- annals.db, from schema 3 to 4.

-- What the clock said at a commit, where that is not `time`. `time` grows with the numbers of revisions (but for `learnt` ones);
-- a clock that was wrong for a while must not date what came before or after it.
ALTER TABLE revision ADD COLUMN clock INTEGER;

-- The operation that a revision is part of.
ALTER TABLE revision ADD COLUMN operation INTEGER;

-- The revision that brought the last text of a state which was written step by step; NULL where that is `since`. Between the two
-- the document was in progress, and what it said then is not kept.
ALTER TABLE past ADD COLUMN written INTEGER;

-- What a home says of a document whose shown state comes from elsewhere: one row for each document that the home has, where several
-- homes hold a session. `kept` is the hash of the state in this store that says the same, where the home has another form of it.
ALTER TABLE source ADD COLUMN kept BLOB;

-- `own`: found where the user's agents keep their homes, so operations go there. A home that was only named once is not. `identity`
-- recognises a home that was moved. `complete`: everything was taken over at least once, with what belongs to no message any more.
ALTER TABLE home ADD COLUMN own INTEGER NOT NULL DEFAULT 0;
ALTER TABLE home ADD COLUMN identity BLOB;
ALTER TABLE home ADD COLUMN complete INTEGER NOT NULL DEFAULT 0;

-- How many looks there were before this one, in any home: which of two looks is the later one, whatever the clock did.
ALTER TABLE origin ADD COLUMN turn INTEGER NOT NULL DEFAULT 0;

-- What somebody asked for. `state`: 0 under way, 1 done, 2 dropped (nothing had been changed). `words` is the command as it was given.
CREATE TABLE operation (
  n         INTEGER PRIMARY KEY,
  time      INTEGER NOT NULL,
  kind      TEXT NOT NULL,
  words     TEXT NOT NULL,
  user      TEXT,
  host      TEXT,
  pid       INTEGER,
  state     INTEGER NOT NULL,
  undoes    INTEGER REFERENCES operation (n),
  undone_by INTEGER REFERENCES operation (n)
);

-- A commit of an operation to one home. `state`: 0 noted, 1 made.
CREATE TABLE operation_step (
  operation INTEGER NOT NULL REFERENCES operation (n),
  n         INTEGER NOT NULL,
  place     TEXT NOT NULL,
  state     INTEGER NOT NULL,
  PRIMARY KEY (operation, n)
) WITHOUT ROWID;

-- What such a commit changed, byte for byte: a file of a directory, or a row of a database. `before` is what was there, with `form` and
-- `size` as of documents; hashes are NULL where there was, or is, nothing. `form` -1: what was there is not kept any more.
CREATE TABLE operation_piece (
  operation   INTEGER NOT NULL,
  step        INTEGER NOT NULL,
  place       TEXT NOT NULL,
  session     TEXT,
  before_hash BLOB,
  after_hash  BLOB,
  form        INTEGER,
  size        INTEGER,
  before,
  PRIMARY KEY (operation, step, place),
  FOREIGN KEY (operation, step) REFERENCES operation_step (operation, n)
) WITHOUT ROWID;
CREATE INDEX operation_piece_session ON operation_piece (session);

-- The sessions that an operation was about.
CREATE TABLE operation_session (
  operation INTEGER NOT NULL REFERENCES operation (n),
  session   TEXT NOT NULL,
  PRIMARY KEY (operation, session)
) WITHOUT ROWID;
CREATE INDEX operation_session_session ON operation_session (session);

UPDATE meta SET value = 4 WHERE name = 'reader';
