-- annals.db, from schema 6 to 7.

-- Text that was appended to a string of a document which is still being written. `document.form` 2 and 3 (0 and 1, plus 2) say that the rest of
-- the document is in `data`, with nothing in that string, and the string itself is here, in the order of revisions; `hash` in `document` is
-- that of the rest. `revision` 0 is what the string held when the first text was appended to it. `field` names the string, `at` is its length
-- before, in bytes. `hash` is combined with `document`, `revision` and `field` as that of a past state is.
-- The next put of the document stores all of it again; its rows here are left for a minute, for subscribers, and mean nothing any more.
CREATE TABLE tail (
  document INTEGER NOT NULL REFERENCES document (n),
  revision INTEGER NOT NULL,
  field    TEXT NOT NULL,
  at       INTEGER NOT NULL,
  hash     BLOB NOT NULL,
  text     TEXT NOT NULL,
  PRIMARY KEY (document, revision)
) WITHOUT ROWID;

-- Texts that several documents share: those of a fork and of its origin, which differ in their ids only. `document.form` 4 says that `data` is a
-- JSON array with the number of such a text and the ids, in the order of the text; `hash` in `document` is that of the whole text.
CREATE TABLE shared (
  n    INTEGER PRIMARY KEY,
  hash BLOB NOT NULL UNIQUE,
  form INTEGER NOT NULL,
  size INTEGER NOT NULL,
  data NOT NULL
);

UPDATE meta SET value = 7 WHERE name = 'reader';
