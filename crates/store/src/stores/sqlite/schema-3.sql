-- annals.db, from schema 2 to 3.

-- Which documents a revision wrote or deleted is in its own row, a JSON array of their numbers: `json_each` reads it. An index of
-- documents by revision was a quarter of the pages that a commit of one part wrote, and told only of the last change of each.
ALTER TABLE revision ADD COLUMN documents TEXT NOT NULL DEFAULT '[]';
UPDATE revision SET documents =
  (SELECT json_group_array(d.n) FROM document d WHERE d.revision = revision.n);
DROP INDEX document_revision;

-- How deep a look went (`stage`): 1 the session's own document and its numbers, 2 also what each message took and each call, 3
-- everything. What is known of messages and calls before they are there themselves has numbers below 0, and counts as long as
-- the session is `brief`.
UPDATE origin SET stage = 3 WHERE stage = 2;

UPDATE meta SET value = 3 WHERE name = 'reader';
