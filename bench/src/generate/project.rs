//! The places work happens in: eleven repositories and the project OpenCode uses outside of any.

use super::language::Language;
use super::rng::{Rng, Stream};
use super::words::{Form, Words};

#[derive(Debug)]
pub(crate) struct Project {
    pub(crate) index: usize,
    /// The root commit of the repository, or `global`.
    pub(crate) id: String,
    pub(crate) worktree: String,
    /// Where sessions are opened; the same as the worktree in a repository.
    pub(crate) directory: String,
    pub(crate) language: Language,
    /// Paths below the directory, of which the first are opened most often.
    pub(crate) files: Vec<String>,
}

/// How many sessions of a hundred belong to each project. The second is `global`.
pub(crate) const SHARES: [(u64, usize); 12] =
    [(34, 0), (9, 1), (19, 2), (12, 3), (8, 4), (6, 5), (4, 6), (3, 7), (2, 8), (1, 9), (1, 10), (1, 11)];

const GLOBAL: usize = 1;

impl Project {
    pub(crate) fn all(words: &Words, seed: u64) -> Vec<Self> {
        (0..SHARES.len()).map(|index| Self::new(words, seed, index)).collect()
    }

    fn new(words: &Words, seed: u64, index: usize) -> Self {
        let mut rng = Rng::new(seed, Stream::Project, index as u64);
        let language = [Language::Rust, Language::Python, Language::TypeScript, Language::Go]
            [(index + seed as usize) % 4];
        let directory = format!(
            "/home/dev/projects/{}-{}",
            words.rare(Form::Plain, &mut rng),
            words.rare(Form::Plain, &mut rng)
        );
        let n_files = 60 + SHARES[index].0 as usize * 40;
        let folders: Vec<&str> = (0..8).map(|_| words.rare(Form::Plain, &mut rng)).collect();
        let files = (0..n_files)
            .map(|_| {
                let top = rng.weighted(&[(6, "src"), (2, "tests"), (1, "lib")]);
                let folder = rng.pick(&folders);
                format!("{top}/{folder}/{}.{}", words.rare(Form::Snake, &mut rng), language.ending())
            })
            .collect();
        let global = index == GLOBAL;
        Self {
            index,
            id: if global { "global".to_owned() } else { rng.hex(40) },
            worktree: if global { "/".to_owned() } else { directory.clone() },
            directory,
            language,
            files,
        }
    }

    /// Only in a repository does OpenCode take snapshots and know what changed.
    pub(crate) fn has_git(&self) -> bool {
        self.index != GLOBAL
    }

    pub(crate) fn absolute(&self, file: &str) -> String {
        format!("{}/{file}", self.directory)
    }
}
