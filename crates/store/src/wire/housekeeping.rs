//! The space that homes take, and what was freed of it.

use serde::Serialize;

use crate::ops::{Freed, FreedSpace, PlaceSpace, SpaceSurvey};
use crate::record::SessionRecord;

/// The space that the user's homes take.
#[derive(Debug, Clone, Serialize)]
pub struct SpaceReport<'a> {
    /// The homes, and the directories with what lies beside them.
    pub places: Vec<SpacePlace<'a>>,
    /// The largest sessions.
    pub sessions: Vec<LargeSession<'a>>,
    /// The user's store; `null` if there is none.
    pub store: Option<StoreSpace>,
    /// Places that could not be measured.
    pub failed: Vec<SpaceFailure<'a>>,
}

/// A place that takes space.
#[derive(Debug, Clone, Serialize)]
pub struct SpacePlace<'a> {
    /// The home or directory.
    pub place: &'a str,
    /// `home`, or `beside` for a directory with what lies beside homes.
    pub kind: &'static str,
    /// Bytes in all.
    pub bytes: u64,
    /// What they are used for, the largest use first.
    pub uses: Vec<SpaceUse>,
    /// Ids of other processes that have the home open.
    pub users: &'a [u32],
}

/// Space that serves one use.
#[derive(Debug, Clone, Serialize)]
pub struct SpaceUse {
    /// `sessions`, `events`, `unused`, `migrated`, `orphans`, `snapshots`, `logs`, `tool-output` or `other`.
    pub kind: &'static str,
    /// Number of bytes.
    pub bytes: u64,
    /// Number of sessions, entries or files; `null` where they are not counted.
    pub items: Option<usize>,
    /// Bytes that `annals housekeeping --free` would free, as far as that can be told before.
    pub freeable: u64,
}

/// A session by its size.
#[derive(Debug, Clone, Serialize)]
pub struct LargeSession<'a> {
    /// Id of the session.
    pub id: &'a str,
    /// Its title.
    pub title: &'a str,
    /// Bytes that it takes in all homes.
    pub bytes: u64,
}

/// The space that the store takes.
#[derive(Debug, Clone, Serialize)]
pub struct StoreSpace {
    /// The file.
    pub path: String,
    /// Bytes of the file.
    pub bytes: u64,
    /// Bytes of the text index; 0 if there is none.
    pub index: u64,
}

/// A place that could not be measured or freed.
#[derive(Debug, Clone, Serialize)]
pub struct SpaceFailure<'a> {
    /// The place.
    pub place: &'a str,
    /// Why not.
    pub why: &'a str,
}

/// Space that was freed, or would be.
#[derive(Debug, Clone, Serialize)]
pub struct FreeReport<'a> {
    /// Whether it was freed; `false` if it only would be.
    pub done: bool,
    /// What was freed, by place and use.
    pub freed: Vec<FreedUse<'a>>,
    /// Numbers of the operations that `annals undo` takes.
    pub operations: Vec<i64>,
    /// What could not be freed.
    pub left: Vec<SpaceFailure<'a>>,
}

/// Space that was freed in one place.
#[derive(Debug, Clone, Serialize)]
pub struct FreedUse<'a> {
    /// The home or directory.
    pub place: &'a str,
    /// What it was used for.
    pub kind: &'static str,
    /// Number of sessions, entries or files; 0 where they are not counted.
    pub items: usize,
    /// Number of bytes. Those of deleted rows are given back to the disk when unused pages are freed.
    pub bytes: u64,
}

impl<'a> SpaceReport<'a> {
    /// The space that homes take, with the largest sessions.
    pub fn of(
        survey: &'a SpaceSurvey,
        largest: &'a [(SessionRecord, u64)],
        store: Option<StoreSpace>,
    ) -> SpaceReport<'a> {
        SpaceReport {
            places: survey.places.iter().map(SpacePlace::from).collect(),
            sessions: largest
                .iter()
                .map(|(record, bytes)| LargeSession {
                    id: record.id.as_str(),
                    title: record.info.title(),
                    bytes: *bytes,
                })
                .collect(),
            store,
            failed: failures(&survey.failed),
        }
    }
}

impl<'a> From<&'a PlaceSpace> for SpacePlace<'a> {
    fn from(place: &'a PlaceSpace) -> SpacePlace<'a> {
        SpacePlace {
            place: &place.place,
            kind: if place.is_home { "home" } else { "beside" },
            bytes: place.uses.iter().map(|space| space.space.bytes).sum(),
            uses: place
                .uses
                .iter()
                .map(|space| SpaceUse {
                    kind: space.space.kind.name(),
                    bytes: space.space.bytes,
                    items: space.space.items,
                    freeable: space.freeable,
                })
                .collect(),
            users: &place.users,
        }
    }
}

impl<'a> FreeReport<'a> {
    /// What was freed, or would be.
    pub fn of(freed: &'a Freed, is_done: bool) -> FreeReport<'a> {
        FreeReport {
            done: is_done,
            freed: freed.items.iter().map(FreedUse::from).collect(),
            operations: freed.operations.iter().filter_map(|report| report.operation).collect(),
            left: failures(&freed.left),
        }
    }
}

impl<'a> From<&'a FreedSpace> for FreedUse<'a> {
    fn from(freed: &'a FreedSpace) -> FreedUse<'a> {
        let FreedSpace { place, kind, items, bytes } = freed;
        FreedUse { place, kind: kind.name(), items: *items, bytes: *bytes }
    }
}

fn failures(failed: &[(String, String)]) -> Vec<SpaceFailure<'_>> {
    failed.iter().map(|(place, why)| SpaceFailure { place, why }).collect()
}
