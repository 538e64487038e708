-- Makes a store of version 5 out of one of this version, for tests of the upgrade.
DROP TABLE tail;
DROP TABLE shared;
ALTER TABLE document RENAME COLUMN position TO era;
UPDATE document SET era = coalesce((SELECT made / 68719476736 FROM message m WHERE m.n = document.n), era / 68719476736) WHERE kind = 3;
UPDATE document SET era = era + coalesce((SELECT made / 68719476736 FROM message m WHERE m.n = document.owner), 0) WHERE kind = 4;
ALTER TABLE document RENAME COLUMN provenance TO converted;
ALTER TABLE past RENAME COLUMN provenance TO converted;
ALTER TABLE home RENAME COLUMN rank TO by_time;
DROP INDEX document_made;
CREATE INDEX document_converted ON document (n) WHERE converted;
UPDATE meta SET value = 5 WHERE name IN ('schema', 'reader');
