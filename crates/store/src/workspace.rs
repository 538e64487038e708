//! The user's store together with the homes it follows: what a command works on.

use std::path::PathBuf;

use crate::home::ReadError;
use crate::home_url::HomeUrl;
use crate::open;
use crate::store::Store;

/// A store and the homes that are the user's own. A home that was only named once, to import its sessions, is foreign: operations do
/// not change it unless it is named again.
#[derive(Debug)]
pub struct Workspace<'w> {
    store: &'w dyn Store,
    own: Vec<PathBuf>,
    /// Whether the homes were named for this command only.
    is_named: bool,
}

impl<'w> Workspace<'w> {
    /// A workspace of a store and the user's own homes.
    pub fn new(store: &'w dyn Store, own: &[PathBuf]) -> Workspace<'w> {
        Workspace::of(store, own, false)
    }

    /// A workspace of a store and homes that were named: operations change them this time, but the store does not follow them because
    /// of that.
    pub fn of_named(store: &'w dyn Store, homes: &[PathBuf]) -> Workspace<'w> {
        Workspace::of(store, homes, true)
    }

    fn of(store: &'w dyn Store, own: &[PathBuf], is_named: bool) -> Workspace<'w> {
        let mut homes: Vec<PathBuf> = Vec::new();
        for path in own {
            // Two names of one place are one home.
            let path = open::canonical(path);
            if !homes.contains(&path) {
                homes.push(path);
            }
        }
        Workspace { store, own: homes, is_named }
    }

    /// Whether the homes were named for this command only.
    pub fn is_named(&self) -> bool {
        self.is_named
    }

    /// The store.
    pub fn store(&self) -> &'w dyn Store {
        self.store
    }

    /// The homes that operations change, by their canonical paths: the user's own, or those that were named.
    pub fn own(&self) -> &[PathBuf] {
        &self.own
    }

    /// Whether an operation may be taken back in a home: the home is one of the user's own, or it was named for the operation. A home that
    /// was the user's own and no longer is belongs to the original of which this store is a copy.
    pub fn may_take_back(&self, url: &str) -> Result<bool, ReadError> {
        Ok(self.holds(&HomeUrl::of_stored(url))
            || !self.store.followed_homes()?.iter().any(|home| home.is_own && home.url == url))
    }

    /// Whether a home is one of the user's own.
    pub fn is_own(&self, home: &HomeUrl) -> bool {
        !self.is_named && self.holds(home)
    }

    fn holds(&self, home: &HomeUrl) -> bool {
        home.path().is_some_and(|path| self.own.contains(&open::canonical(path)))
    }
}
