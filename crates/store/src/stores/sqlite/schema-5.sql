-- annals.db, from schema 4 to 5.

-- What a home has of a document, as of its last look, where the document's own row does not tell: that row has the state of the home it
-- names, or of a change made in this store if it names none. Home 0 is the store itself: a change that was made here and is not shown,
-- because the home that leads has something new. `bytes` is the hash of what the home has, `state` the hash of the state in this store that
-- says the same, `project` what a session is filed under; all NULL where the home does not have the document. `base` is what `state` was when
-- the document was last changed in this store; an empty blob if the home did not even have the session then.
CREATE TABLE held (
  document INTEGER NOT NULL REFERENCES document (n),
  home     INTEGER NOT NULL,
  bytes    BLOB,
  state    BLOB,
  project  TEXT,
  base     BLOB,
  PRIMARY KEY (document, home)
) WITHOUT ROWID;
INSERT INTO held (document, home, bytes, state, project, base)
  SELECT s.document, s.home, s.hash, coalesce(s.kept, s.hash), d.project, coalesce(s.kept, s.hash)
  FROM source s JOIN document d ON d.n = s.document;
DROP TABLE source;

-- What an operation changed in this store alone: the change of each document that was made here before, and after it. JSON: `state` and
-- `project` of the change, and in `base` what each home had then. NULL: there was no such change.
CREATE TABLE operation_change (
  operation INTEGER NOT NULL REFERENCES operation (n),
  document  INTEGER NOT NULL REFERENCES document (n),
  before    TEXT,
  after     TEXT,
  PRIMARY KEY (operation, document)
) WITHOUT ROWID;

-- What an operation is going to do, as JSON, until it is done.
ALTER TABLE operation ADD COLUMN plan TEXT;

UPDATE meta SET value = 5 WHERE name = 'reader';
