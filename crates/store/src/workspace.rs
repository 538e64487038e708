//! The user's store together with the homes it follows: what a command works on.

use std::path::{Path, PathBuf};

use crate::home::annals::Annals;
use crate::open;

/// A store and the homes that are the user's own. A home that was only named once, to take its sessions over, is foreign: operations do
/// not go there unless it is named again.
#[derive(Debug)]
pub struct Workspace<'w> {
    store: &'w Annals,
    own: Vec<PathBuf>,
}

impl<'w> Workspace<'w> {
    /// A workspace of a store and the user's own homes.
    pub fn new(store: &'w Annals, own: &[PathBuf]) -> Workspace<'w> {
        let mut homes: Vec<PathBuf> = Vec::new();
        for path in own {
            // Two names of one place are one home.
            let path = open::canonical(path);
            if !homes.contains(&path) {
                homes.push(path);
            }
        }
        Workspace { store, own: homes }
    }

    /// The store.
    pub fn store(&self) -> &'w Annals {
        self.store
    }

    /// The user's own homes, by their canonical paths.
    pub fn own(&self) -> &[PathBuf] {
        &self.own
    }

    /// Whether a path is one of the user's own homes.
    pub fn is_own(&self, path: &Path) -> bool {
        self.own.contains(&open::canonical(path))
    }
}
