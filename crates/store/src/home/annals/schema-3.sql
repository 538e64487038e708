-- annals.db, from schema 2 to 3.

-- Which documents a revision wrote or deleted is in its own row, a JSON array of their numbers: `json_each` reads it. An index of
-- documents by revision was a quarter of the pages that a commit of one part wrote, and told only of the last change of each.
ALTER TABLE revision ADD COLUMN documents TEXT NOT NULL DEFAULT '[]';
UPDATE revision SET documents =
  (SELECT json_group_array(d.n) FROM document d WHERE d.revision = revision.n);
DROP INDEX document_revision;

UPDATE meta SET value = 3 WHERE name = 'reader';
