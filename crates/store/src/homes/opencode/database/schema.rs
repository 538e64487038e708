//! What a database has: tables and columns, and which of OpenCode's migrations made them.

use std::collections::{HashMap, HashSet};

use rusqlite::Connection;

use super::column::DocumentColumn;
use crate::sqlite::is_damage;

/// Every migration up to OpenCode 1.18.33, in order. The first [`N_IN_1_2_27`] are those of 1.2.27.
const MIGRATIONS: [&str; 38] = [
    "20260127222353_familiar_lady_ursula",
    "20260211171708_add_project_commands",
    "20260213144116_wakeful_the_professor",
    "20260225215848_workspace",
    "20260227213759_add_session_workspace_id",
    "20260228203230_blue_harpoon",
    "20260303231226_add_workspace_fields",
    "20260309230000_move_org_to_state",
    "20260312043431_session_message_cursor",
    "20260323234822_events",
    "20260410174513_workspace-name",
    "20260413175956_chief_energizer",
    "20260423070820_add_icon_url_override",
    "20260427172553_slow_nightmare",
    "20260428004200_add_session_path",
    "20260501142318_next_venus",
    "20260504145000_add_sync_owner",
    "20260507164347_add_workspace_time",
    "20260510033149_session_usage",
    "20260511000411_data_migration_state",
    "20260511173437_session-metadata",
    "20260601010001_normalize_storage_paths",
    "20260601202201_amazing_prowler",
    "20260602002951_lowly_union_jack",
    "20260602182828_add_project_directories",
    "20260603001617_session_message_projection_indexes",
    "20260603040000_session_message_projection_order",
    "20260603141458_session_input_inbox",
    "20260603160727_jittery_ezekiel_stane",
    "20260604172448_event_sourced_session_input",
    "20260605003541_add_session_context_snapshot",
    "20260605042240_add_context_epoch_agent",
    "20260611035744_credential",
    "20260611192811_lush_chimera",
    "20260612174303_project_dir_strategy",
    "20260622142730_simplify_session_context_epoch",
    "20260622170816_reset_v2_session_state",
    "20260622202450_simplify_session_input",
];
const N_IN_1_2_27: usize = 9;

/// The newest version whose schema is known.
pub(super) const NEWEST: &str = "1.18.33";

/// The tables of 1.2.27, as it makes them. Both 1.2.27 and 1.18.33 take over a file that has these.
const TABLES_OF_1_2_27: &str = include_str!("schema-1.2.27.sql");

/// The tables of 1.18.33, which 1.16 and later open.
const TABLES_OF_1_18_33: &str = include_str!("schema-1.18.33.sql");

/// Which tables a new database gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generation {
    /// Those of 1.2.27: every version from there on opens it, and brings it up to date.
    Portable,
    /// Those of 1.18.33: 1.16 and later open it, and it holds all that they keep.
    Latest,
}

/// The tables and columns of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Schema {
    tables: HashMap<String, HashSet<String>>,
    migrations: Vec<String>,
}

impl Schema {
    /// Looks at what there is.
    pub(super) fn probe(connection: &Connection) -> rusqlite::Result<Schema> {
        let mut tables: HashMap<String, HashSet<String>> = HashMap::new();
        let mut statement = connection.prepare(
            "SELECT t.name, c.name FROM sqlite_schema t, pragma_table_info(t.name) c WHERE t.type = 'table'",
        )?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            tables.entry(row.get(0)?).or_default().insert(row.get(1)?);
        }
        let mut schema = Schema { tables, migrations: Vec::new() };
        let mut names: Vec<String> = Vec::new();
        for (table, column) in [("__drizzle_migrations", "name"), ("migration", "id")] {
            if schema.has_column(table, column) {
                let mut statement = connection.prepare(&format!(
                    "SELECT {column} FROM {table} NOT INDEXED WHERE {column} IS NOT NULL"
                ))?;
                let found: rusqlite::Result<Vec<String>> =
                    statement.query_map([], |row| row.get(0)).and_then(Iterator::collect);
                match found {
                    Ok(found) => names.extend(found),
                    // Reading does without it, and a file without a list is not written to.
                    Err(error) if is_damage(&error) => return Ok(schema),
                    Err(error) => return Err(error),
                }
            }
        }
        names.sort();
        names.dedup();
        schema.migrations = names;
        Ok(schema)
    }

    /// The names of all tables.
    pub(super) fn tables(&self) -> impl Iterator<Item = &str> {
        self.tables.keys().map(String::as_str)
    }

    pub(super) fn has(&self, table: &str) -> bool {
        self.tables.contains_key(table)
    }

    pub(super) fn has_column(&self, table: &str, column: &str) -> bool {
        self.tables.get(table).is_some_and(|columns| columns.contains(column))
    }

    /// Those of a table's known columns that this database has.
    pub(super) fn present<'c>(&self, table: &str, columns: &'c [DocumentColumn]) -> Vec<&'c DocumentColumn> {
        columns.iter().filter(|column| self.has_column(table, column.name)).collect()
    }

    /// Whether sessions could be in it.
    pub(super) fn is_opencode(&self) -> bool {
        let has_sessions = ["session", "session_v2"].iter().any(|table| self.has_column(table, "id"));
        has_sessions && (self.has_column("message", "data") || self.has_column("session_message", "data"))
    }

    /// The tables that hold sessions, the one that counts first.
    pub(super) fn session_tables(&self) -> impl Iterator<Item = &'static str> {
        ["session_v2", "session"].into_iter().filter(|table| self.has_column(table, "id"))
    }

    /// Whether OpenCode 1.16 or later has opened it: those know a project by its remote.
    pub(super) fn knows_remotes(&self) -> bool {
        self.has("migration")
    }

    /// Migrations that are not known here.
    pub(super) fn unknown_migrations(&self) -> Vec<&str> {
        let known = |name: &&str| !MIGRATIONS.contains(name);
        self.migrations.iter().map(String::as_str).filter(known).collect()
    }

    /// What keeps rows from being written, in words; `None` if they can be written.
    pub(super) fn unwritable(&self) -> Option<String> {
        match self.unknown_migrations()[..] {
            _ if self.has("session_v2") => Some("the tables of OpenCode 2".to_owned()),
            [] if self.migrations.is_empty() => Some("no list of migrations".to_owned()),
            [] => {
                let missing = ["project", "session", "message", "part", "todo"]
                    .into_iter()
                    .find(|table| !self.has_column(table, "time_created"));
                missing.map(|table| format!("no usable table `{table}`"))
            }
            [.., newest] => Some(format!("migration {newest}")),
        }
    }

    /// What of the database is not read, in words.
    pub(super) fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if self.has("session_v2") {
            remarks.push(format!(
                "it was used by OpenCode 2, whose other tables ({}) are not read",
                self.unknown_tables().join(", ")
            ));
        } else if let [.., newest] = self.unknown_migrations()[..] {
            remarks.push(format!(
                "it was made by an OpenCode newer than {NEWEST} (migration {newest}); what later versions added is not read"
            ));
        }
        remarks
    }

    fn unknown_tables(&self) -> Vec<String> {
        const KNOWN: [&str; 25] = [
            "__drizzle_migrations",
            "account",
            "account_state",
            "control_account",
            "credential",
            "data_migration",
            "event",
            "event_sequence",
            "message",
            "migration",
            "part",
            "permission",
            "project",
            "project_directory",
            "session",
            "session_context_epoch",
            "session_entry",
            "session_input",
            "session_message",
            "session_share",
            "session_v2",
            "sqlite_sequence",
            "sqlite_stat1",
            "todo",
            "workspace",
        ];
        let mut unknown: Vec<String> =
            self.tables.keys().filter(|table| !KNOWN.contains(&table.as_str())).cloned().collect();
        unknown.sort();
        unknown
    }
}

/// Makes tables with the list of the migrations that led to them, or OpenCode would refuse the file.
pub(super) fn create(connection: &Connection, generation: Generation) -> rusqlite::Result<()> {
    let (tables, migrations, insert) = match generation {
        // A migration's moment is in its name: 20260127222353 is 2026-01-27 22:23:53 UTC.
        Generation::Portable => (
            TABLES_OF_1_2_27,
            &MIGRATIONS[..N_IN_1_2_27],
            "INSERT INTO __drizzle_migrations (hash, created_at, name, applied_at) SELECT '', 1000 * unixepoch(
                substr(?1, 1, 4) || '-' || substr(?1, 5, 2) || '-' || substr(?1, 7, 2) || ' ' ||
                substr(?1, 9, 2) || ':' || substr(?1, 11, 2) || ':' || substr(?1, 13, 2)
             ), ?1, strftime('%Y-%m-%dT%H:%M:%fZ', 'now')",
        ),
        Generation::Latest => (
            TABLES_OF_1_18_33,
            &MIGRATIONS[..],
            "INSERT INTO migration (id, time_completed) VALUES (?1, 1000 * unixepoch('now'))",
        ),
    };
    connection.execute_batch("BEGIN IMMEDIATE")?;
    connection.execute_batch(tables)?;
    let mut insert = connection.prepare(insert)?;
    for name in migrations {
        insert.execute([name])?;
    }
    drop(insert);
    connection.execute_batch("COMMIT")
}
