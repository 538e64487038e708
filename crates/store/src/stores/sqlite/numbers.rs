//! The numbers that tables have for things, as columns.

use rusqlite::types::{FromSql, FromSqlResult, ToSql, ToSqlOutput, ValueRef};

use crate::follow::HomeNumber;

impl ToSql for HomeNumber {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::from(self.0))
    }
}

impl FromSql for HomeNumber {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<HomeNumber> {
        i64::column_result(value).map(HomeNumber)
    }
}
