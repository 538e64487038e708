-- Makes a store of version 1 out of one of version 5, for tests of the upgrade.
DROP TABLE operation_change;
DROP TABLE operation_piece;
DROP TABLE operation_step;
DROP TABLE operation_session;
DROP TABLE operation;
ALTER TABLE revision DROP COLUMN clock;
ALTER TABLE revision DROP COLUMN operation;
ALTER TABLE past DROP COLUMN written;
CREATE TABLE source (
  document INTEGER NOT NULL REFERENCES document (n),
  home     INTEGER NOT NULL REFERENCES home (n),
  hash     BLOB,
  PRIMARY KEY (document, home)
) WITHOUT ROWID;
INSERT INTO source SELECT document, home, bytes FROM held WHERE home <> 0;
DROP TABLE held;
ALTER TABLE home DROP COLUMN own;
ALTER TABLE home DROP COLUMN identity;
ALTER TABLE home DROP COLUMN complete;
ALTER TABLE origin DROP COLUMN turn;
ALTER TABLE revision DROP COLUMN documents;
CREATE INDEX document_revision ON document (revision);
ALTER TABLE touched RENAME TO touched_2;
CREATE TABLE touched (
  session  INTEGER NOT NULL,
  revision INTEGER NOT NULL REFERENCES revision (n),
  written  INTEGER NOT NULL,
  deleted  INTEGER NOT NULL,
  PRIMARY KEY (session, revision)
) WITHOUT ROWID;
CREATE INDEX touched_revision ON touched (revision);
INSERT INTO touched SELECT session, n, written, deleted FROM revision WHERE session NOTNULL
  UNION ALL SELECT session, revision, written, deleted FROM touched_2;
DROP TABLE touched_2;
ALTER TABLE revision DROP COLUMN session;
ALTER TABLE revision DROP COLUMN written;
ALTER TABLE revision DROP COLUMN deleted;
ALTER TABLE call DROP COLUMN message;
DROP INDEX document_converted;
UPDATE meta SET value = 1 WHERE name IN ('schema', 'reader');
