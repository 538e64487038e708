//! Times of revisions, if the clock cannot be trusted.
//!
//! History is asked by date, and revisions are ordered by time, so times must grow with the numbers of revisions. A clock that was
//! wrong for a while breaks that. The times of all revisions then follow from what the clock said at each of them: the largest set
//! of revisions whose clocks agree with their order was right, and the others were made when their neighbours were.

use annals_core::id::Millis;
use rusqlite::Connection;

/// Dates all revisions again after one was committed at a time, by the clock, before the revision that it follows.
///
/// This reads every revision, so call it only in that case.
pub(super) fn redate(connection: &Connection, newest: i64, clock: Millis) -> rusqlite::Result<()> {
    connection.execute("UPDATE revision SET clock = ?2 WHERE n = ?1", (newest, clock))?;
    let mut statement =
        connection.prepare("SELECT n, time, clock FROM revision WHERE NOT learnt ORDER BY n")?;
    let revisions: Vec<(i64, Millis, Option<Millis>)> = statement
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
        .collect::<rusqlite::Result<_>>()?;
    let clocks: Vec<Millis> = revisions.iter().map(|(_, time, clock)| clock.unwrap_or(*time)).collect();
    let times = effective_times(&clocks);
    let mut update = connection.prepare("UPDATE revision SET time = ?2, clock = ?3 WHERE n = ?1")?;
    for ((n, old_time, old_clock), (time, clock)) in revisions.iter().zip(times.iter().zip(&clocks)) {
        let clock = Some(*clock).filter(|clock| clock != time);
        if (*old_time, *old_clock) != (*time, clock) {
            update.execute((n, time, clock))?;
        }
    }
    if times.last() == Some(&clock) {
        forget_the_future(connection, clock)?;
    }
    Ok(())
}

/// Corrects times that are later than now: a clock that was wrong noted them.
fn forget_the_future(connection: &Connection, now: Millis) -> rusqlite::Result<()> {
    // The note that a session is gone came with a revision, the last one of its home to touch the session.
    connection.execute(
        "UPDATE origin SET gone = coalesce((SELECT max(r.time) FROM revision r WHERE r.home = origin.home AND NOT r.learnt \
         AND (r.session = origin.session OR r.n IN (SELECT t.revision FROM touched t WHERE t.session = origin.session))), ?1) \
         WHERE gone > ?1",
        [now],
    )?;
    connection.execute("UPDATE quarantine SET since = ?1 WHERE since > ?1", [now]).map(drop)
}

/// The times of revisions, given what the clock said at each, the newest last. They never decrease.
///
/// The largest set of revisions whose clocks do not decrease keeps its clocks; of several such sets, the one with the later
/// revisions. The newest revision is in the set, because the clock was most likely set right, unless more than half of all
/// revisions have later clocks: then the clock is wrong now. All others get the time of the nearest one in the set before them,
/// or after them if there is none before.
fn effective_times(clocks: &[Millis]) -> Vec<Millis> {
    let Some((&now, earlier)) = clocks.split_last() else { return Vec::new() };
    let n_later = earlier.iter().filter(|clock| **clock > now).count();
    let kept = match n_later * 2 > clocks.len() {
        true => longest_growth(earlier, Millis::MAX),
        false => {
            let mut kept = longest_growth(earlier, now);
            kept.push(clocks.len() - 1);
            kept
        }
    };
    let mut kept = kept.into_iter().peekable();
    // There is always such a revision: a single one has no later clocks before it.
    let mut time = kept.peek().map_or(now, |first| clocks[*first]);
    clocks
        .iter()
        .enumerate()
        .map(|(place, clock)| {
            if kept.next_if_eq(&place).is_some() {
                time = *clock;
            }
            time
        })
        .collect()
}

/// The places of the longest subsequence of clocks up to `limit` that does not decrease. Of several, the one whose places are the
/// latest, compared from the end.
fn longest_growth(clocks: &[Millis], limit: Millis) -> Vec<usize> {
    // `smallest_ends[k]` is the smallest clock that a subsequence of length k + 1 ends with.
    let mut smallest_ends: Vec<Millis> = Vec::new();
    // The length of the longest subsequence that ends at each place; 0 above the limit.
    let lengths: Vec<usize> = clocks
        .iter()
        .map(|clock| {
            if *clock > limit {
                return 0;
            }
            let shorter = smallest_ends.partition_point(|end| end <= clock);
            match smallest_ends.get_mut(shorter) {
                Some(end) => *end = *clock,
                None => smallest_ends.push(*clock),
            }
            shorter + 1
        })
        .collect();
    let (mut wanted, mut next) = (smallest_ends.len(), Millis::MAX);
    let mut places = Vec::with_capacity(wanted);
    for place in (0..clocks.len()).rev() {
        if wanted > 0 && lengths[place] == wanted && clocks[place] <= next {
            places.push(place);
            (wanted, next) = (wanted - 1, clocks[place]);
        }
    }
    places.reverse();
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(clocks: &[Millis], expected: &[Millis]) {
        assert_eq!(effective_times(clocks), expected, "{clocks:?}");
        assert!(expected.is_sorted());
    }

    #[test]
    fn a_clock_that_never_went_back_is_right() {
        check(&[], &[]);
        check(&[5], &[5]);
        check(&[1, 2, 2, 9], &[1, 2, 2, 9]);
    }

    #[test]
    fn a_clock_that_was_ahead_dates_nothing() {
        check(&[1, 2, 400, 3], &[1, 2, 2, 3]);
        check(&[1, 2, 400, 401, 3], &[1, 2, 2, 2, 3]);
        // The first revision has only those after it to go by.
        check(&[400, 3], &[3, 3]);
        check(&[400, 401, 3, 4, 5], &[3, 3, 3, 4, 5]);
    }

    #[test]
    fn a_clock_that_is_behind_dates_nothing() {
        check(&[100, 101, 0], &[100, 101, 101]);
        check(&[100, 101, 0, 102], &[100, 101, 101, 102]);
    }

    #[test]
    fn most_revisions_decide_whether_the_clock_is_wrong_now() {
        // Half of all is not more than half.
        check(&[10, 11, 1, 2], &[1, 1, 1, 2]);
        check(&[10, 11, 12, 1, 2], &[10, 11, 12, 12, 12]);
        check(&[10, 11, 12, 1, 2, 3], &[1, 1, 1, 1, 2, 3]);
    }

    #[test]
    fn of_sets_of_one_size_the_later_revisions_count() {
        check(&[5, 6, 3, 4, 7], &[3, 3, 3, 4, 7]);
        check(&[1, 9, 8, 10], &[1, 1, 8, 10]);
    }

    #[test]
    fn times_never_decrease_and_most_are_kept() {
        // A small generator is enough to produce unforeseen shapes.
        let mut seed = 1_u64;
        for length in 0..200 {
            let clocks: Vec<Millis> = (0..length)
                .map(|_| {
                    seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    ((seed >> 40) % 50) as Millis
                })
                .collect();
            let times = effective_times(&clocks);
            assert!(times.is_sorted(), "{clocks:?}");
            assert!(times.iter().all(|time| clocks.contains(time)), "{clocks:?}");
            assert_eq!(effective_times(&times), times, "{clocks:?}");
        }
    }
}
