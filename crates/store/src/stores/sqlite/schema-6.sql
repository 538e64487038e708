-- annals.db, from schema 5 to 6.

-- `position` says where a message or part stands among its siblings, as its home says (annals-core, `position.rs`): sorted by (position, id)
-- is the order of the conversation. It takes the place of `era` and of `home.by_time`. The upgrade computes it from what there was.
ALTER TABLE document RENAME COLUMN era TO position;

-- Which program wrote a document, and in which format, by number (annals-core, `provenance.rs`). 0 and 1 are what `converted` said.
ALTER TABLE document RENAME COLUMN converted TO provenance;
ALTER TABLE past RENAME COLUMN converted TO provenance;
DROP INDEX document_converted;
CREATE INDEX document_made ON document (n) WHERE provenance;

-- Of homes in which a session was used at the same time, the one with the higher rank leads: OpenCode's files have 0, its databases 1.
ALTER TABLE home RENAME COLUMN by_time TO rank;

-- `document.kind` 9 is a record of another agent's, as it stands in that agent's home; `owner` is its session.

UPDATE meta SET value = 6 WHERE name = 'reader';
