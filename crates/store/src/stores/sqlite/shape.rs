//! The tables and indexes of a store, by which a file that only pretends to be one is recognised.

use std::collections::BTreeSet;

use rusqlite::Connection;

use super::{SCHEMA, SCHEMA_SQL, UPGRADES};
use crate::sqlite;

/// The content of a database: tables, indexes and columns, each in a few words.
type SchemaShape = BTreeSet<String>;

/// The first flaw in the tables of a database that says it is a store. None if they are right.
///
/// A store never has views or triggers: one in the place of a table could say anything, and run anything.
pub(super) fn flaw(connection: &Connection) -> rusqlite::Result<Option<String>> {
    let foreign: Option<String> = first(
        connection,
        "SELECT type || ' ' || name FROM sqlite_schema \
         WHERE type NOT IN ('table', 'index') OR sql LIKE 'CREATE VIRTUAL%' ORDER BY 1",
    )?;
    if let Some(foreign) = foreign {
        return Ok(Some(format!("it has a {foreign}, which no store has")));
    }
    let version: i64 =
        connection.query_row("SELECT value FROM meta WHERE name = 'schema'", [], |row| row.get(0))?;
    let (expected, found) = (shape_of_version(version.clamp(1, SCHEMA))?, shape(connection)?);
    if let Some(missing) = expected.difference(&found).next() {
        return Ok(Some(format!("it has no {missing}, which every store has")));
    }
    // This version does not know the additions of a later one.
    let extra = found.difference(&expected).next().filter(|_| version <= SCHEMA);
    Ok(extra.map(|extra| format!("it has a {extra}, which no store has")))
}

/// The shape of an empty store of a version.
fn shape_of_version(version: i64) -> rusqlite::Result<SchemaShape> {
    let connection = sqlite::open_in_memory()?;
    connection.execute_batch(SCHEMA_SQL)?;
    for step in UPGRADES.iter().take(usize::try_from(version - 1).unwrap_or(0)) {
        connection.execute_batch(step)?;
    }
    shape(&connection)
}

fn shape(connection: &Connection) -> rusqlite::Result<SchemaShape> {
    // Leaves out the objects that SQLite makes by itself: indexes of keys, statistics.
    const NAMED: &str = "m.name NOT LIKE 'sqlite\\_%' ESCAPE '\\'";
    let objects = format!(
        "SELECT CASE type WHEN 'index' THEN 'index ' || name || ' of ' || tbl_name ELSE type || ' ' || name END \
         FROM sqlite_schema m WHERE {NAMED}"
    );
    // `hidden` marks computed columns.
    let columns = format!(
        "SELECT 'column ' || m.name || '.' || c.name || ' (' || upper(c.type) || CASE c.pk WHEN 0 THEN '' ELSE ', key ' || c.pk END \
         || CASE c.hidden WHEN 0 THEN '' ELSE ', computed' END || ')' \
         FROM sqlite_schema m, pragma_table_xinfo(m.name) c WHERE m.type = 'table' AND {NAMED}"
    );
    let mut shape = SchemaShape::new();
    for sql in [objects, columns] {
        let mut statement = connection.prepare(&sql)?;
        let names = statement.query_map([], |row| row.get::<_, String>(0))?;
        for name in names {
            shape.insert(name?);
        }
    }
    Ok(shape)
}

fn first(connection: &Connection, sql: &str) -> rusqlite::Result<Option<String>> {
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([])?;
    rows.next()?.map(|row| row.get(0)).transpose()
}

#[cfg(test)]
mod tests {
    use super::super::SqliteStore;
    use super::*;

    #[test]
    fn a_store_has_the_shape_of_its_version() {
        let directory = tempfile::tempdir().unwrap();
        let store = SqliteStore::open_or_create(&directory.path().join("annals.db")).unwrap();
        assert_eq!(store.read(flaw).unwrap(), None);
        for (change, said) in [
            ("CREATE TABLE x (y)", "it has a column x.y (), which no store has"),
            ("CREATE INDEX x ON home (url)", "it has a index x of home, which no store has"),
            ("DROP INDEX session_stale", "it has no index session_stale of session, which every store has"),
            (
                "CREATE TRIGGER x AFTER INSERT ON home BEGIN SELECT 1; END",
                "it has a trigger x, which no store has",
            ),
            (
                "ALTER TABLE session RENAME TO other; CREATE VIEW session AS SELECT * FROM other",
                "it has a view session, which no store has",
            ),
            (
                "ALTER TABLE home ADD COLUMN z AS (n + 1)",
                "it has a column home.z (, computed), which no store has",
            ),
        ] {
            let writing = store.write().unwrap();
            writing.execute_batch(change).unwrap();
            assert_eq!(flaw(&writing).unwrap().as_deref(), Some(said));
        }
        assert_eq!(store.read(flaw).unwrap(), None);
    }
}
