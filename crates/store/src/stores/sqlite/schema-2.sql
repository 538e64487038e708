-- annals.db, from schema 1 to 2.

-- What a revision touched is in its own row. With a table and two indexes for that, a commit
-- of one part wrote half as many pages again.

-- Nearly every revision touches one session: `session`, with how many of its documents were written and deleted. Session 0
-- stands for projects.
ALTER TABLE revision ADD COLUMN session INTEGER;
ALTER TABLE revision ADD COLUMN written INTEGER NOT NULL DEFAULT 0;
ALTER TABLE revision ADD COLUMN deleted INTEGER NOT NULL DEFAULT 0;

-- The sessions of those that touched several.
ALTER TABLE touched RENAME TO touched_1;
CREATE TABLE touched (
  revision INTEGER NOT NULL REFERENCES revision (n),
  session  INTEGER NOT NULL,
  written  INTEGER NOT NULL,
  deleted  INTEGER NOT NULL,
  PRIMARY KEY (revision, session)
) WITHOUT ROWID;
UPDATE revision SET (session, written, deleted) =
  (SELECT t.session, t.written, t.deleted FROM touched_1 t WHERE t.revision = revision.n)
  WHERE (SELECT count(*) FROM touched_1 t WHERE t.revision = revision.n) = 1;
INSERT INTO touched (revision, session, written, deleted)
  SELECT revision, session, written, deleted FROM touched_1
  WHERE revision IN (SELECT n FROM revision WHERE session IS NULL);
DROP TABLE touched_1;

-- To which message a call belongs, and which documents are converted: to ask the documents themselves, all over the file, was
-- most of what adding up took.
ALTER TABLE call ADD COLUMN message INTEGER NOT NULL DEFAULT 0;
UPDATE call SET message = coalesce((SELECT d.owner FROM document d WHERE d.n = call.n), 0);
CREATE INDEX document_converted ON document (n) WHERE converted;

UPDATE meta SET value = 2 WHERE name = 'reader';
