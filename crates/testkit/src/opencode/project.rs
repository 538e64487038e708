//! Directories for OpenCode to work in.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use super::Lab;

/// 2025-01-06 10:00 UTC: the date of commits and of untouched files.
const LONG_AGO: u64 = 1_736_157_600;

impl Lab {
    /// Makes a directory with files, outside of any repository, and returns its full path.
    pub fn directory(&self, path: impl AsRef<Path>, files: &[(&str, impl AsRef<[u8]>)]) -> PathBuf {
        let directory = self.root.join(path);
        must(&directory, fs::create_dir_all(&directory));
        for (name, content) in files {
            let file = directory.join(name);
            must(&file, file.parent().map_or(Ok(()), fs::create_dir_all));
            must(&file, fs::write(&file, content));
        }
        self.backdate(&directory);
        directory
    }

    /// Makes a git repository with files in one commit, and returns its full path.
    ///
    /// Author and date are fixed, so that the same files always make the same commit. OpenCode takes the id of
    /// a repository's first commit for the id of the project: two such repositories are one project.
    pub fn repo(&self, path: impl AsRef<Path>, files: &[(&str, impl AsRef<[u8]>)]) -> PathBuf {
        let directory = self.directory(path, files);
        self.git(&directory, &["init", "-q", "-b", "main"]);
        self.git(&directory, &["add", "-A"]);
        self.git(&directory, &["commit", "-q", "--allow-empty", "-m", "Initial commit"]);
        directory
    }

    /// Makes a directory, if it is missing, and a git repository in it that OpenCode takes for the given project: it
    /// trusts the id in `.git/opencode`, its own cache. Returns the full path.
    ///
    /// This makes sessions from elsewhere visible: OpenCode finds those of the current directory's project.
    pub fn bind_project(&self, directory: impl AsRef<Path>, project_id: &str) -> PathBuf {
        let directory = self.directory(directory, &[] as &[(&str, &str)]);
        self.git(&directory, &["init", "-q", "-b", "main"]);
        let file = directory.join(".git/opencode");
        must(&file, fs::write(&file, project_id));
        directory
    }

    /// Runs git with the lab's environment, and returns its output.
    ///
    /// # Panics
    /// If it fails.
    pub fn git(&self, cwd: &Path, args: &[&str]) -> String {
        let mut command = Command::new("git");
        command.args(args).current_dir(self.root.join(cwd)).env_clear().envs(self.env());
        for who in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{who}_NAME"), "Dev");
            command.env(format!("GIT_{who}_EMAIL"), "dev@example.com");
            command.env(format!("GIT_{who}_DATE"), format!("@{LONG_AGO} +0000"));
        }
        // Dates are given, so git needs no other clock.
        command.env_remove("LD_PRELOAD");
        let output = command.output().expect("git is installed");
        assert!(
            output.status.success(),
            "`git {}` failed: {}",
            args.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Gives all files below a directory an old date, except those of git.
    pub fn backdate(&self, directory: &Path) {
        let entries = must(directory, fs::read_dir(self.root.join(directory)));
        for entry in entries {
            let path = must(directory, entry).path();
            let kind = must(&path, fs::symlink_metadata(&path)).file_type();
            if kind.is_dir() && !path.ends_with(".git") {
                self.backdate(&path);
            } else if kind.is_file() {
                let date = SystemTime::UNIX_EPOCH + Duration::from_secs(LONG_AGO);
                must(
                    &path,
                    File::options().append(true).open(&path).and_then(|file| file.set_modified(date)),
                );
            }
        }
    }
}

#[track_caller]
fn must<T>(path: &Path, result: std::io::Result<T>) -> T {
    result.unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
