//! Maintaining.
use super::OpenAnnalsError;
use super::file::StoreFile;
#[derive(Debug)]
pub struct BackupError;
#[derive(Debug)]
pub struct Pruned;
#[derive(Debug)]
pub struct RestoredBackup;
pub fn restore_backup() {}
pub(super) fn upgrade(_: &StoreFile, _: i64, _: &[&str]) -> Result<(), OpenAnnalsError> {
    Ok(())
}
