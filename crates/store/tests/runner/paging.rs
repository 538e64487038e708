//! Sessions in pages, and messages and parts by their ids alone.

use std::collections::HashSet;

use annals::SqliteStore;
use annals::find;
use annals::home::{Read, Write};
use annals::homes::UnionHome;
use annals::homes::opencode::database::Generation;
use annals::model::id::{MessageId, PartId, SessionId};
use annals::model::lens::{Session, SessionTime};
use annals::model::{Document, Key, Transaction};
use annals::query::{QueryError, SessionCursor, SessionOrder, SessionQuery};

use super::kit::{Sample, empty_database, empty_home, session_id};

/// Adds a session that was made and last used then; none for one that does not say.
fn add(home: &dyn Write, id: &SessionId, created: Option<i64>, updated: Option<i64>) {
    let sample = Sample::new(id.clone(), "/shop");
    let document = Document::new(&Session {
        id: Some(id.into()),
        title: Some("Paged".into()),
        time: Some(SessionTime { created, updated, ..Default::default() }),
        ..Default::default()
    });
    let mut transaction = Transaction::new("add");
    transaction.insert(sample.session_key(), document);
    home.commit(transaction).unwrap();
}

/// A hundred sessions, several of them with the same times and some with none.
fn hundred(home: &dyn Write) -> HashSet<SessionId> {
    (0..100)
        .map(|n| {
            let id = session_id(&format!("ses_{n:03}"));
            let time = |n: i64| (n % 10 != 7).then_some(1_700_000_000_000 + n);
            add(home, &id, time(n / 3), time(n * 37 % 50));
            id
        })
        .collect()
}

/// Goes through all pages. `between` is called after each of them, with the number of pages before it.
fn all_pages(home: &dyn Read, query: &SessionQuery, between: &dyn Fn(usize)) -> Vec<SessionId> {
    let mut query = query.clone();
    let mut seen: Vec<SessionId> = Vec::new();
    for n_page in 0.. {
        let page = find::sessions(home, &query).unwrap();
        assert!(page.sessions.len() <= 7);
        assert!(page.next.is_none() || page.sessions.len() == 7);
        assert!(page.total >= seen.len() + page.sessions.len());
        seen.extend(page.sessions.into_iter().map(|record| record.id));
        let Some(next) = page.next else { break };
        // As it comes back from somebody who kept it as text.
        query.cursor = Some(next.to_string().parse::<SessionCursor>().unwrap());
        between(n_page);
    }
    seen
}

#[test]
fn pages_hold_every_session_once() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open_or_create(&directory.path().join("annals.db")).unwrap();
    let (_kept, opencode) = empty_home();
    for home in [&store as &dyn Write, &opencode] {
        let ids = hundred(home);
        for order in [SessionOrder::LastUsed, SessionOrder::Created] {
            let query = SessionQuery { order, limit: Some(7), ..Default::default() };
            let seen = all_pages(home, &query, &|_| {});
            assert_eq!(seen.len(), 100, "{order:?}");
            assert_eq!(seen.iter().cloned().collect::<HashSet<_>>(), ids, "{order:?}");
            // The pages together are what is there without pages.
            let whole = find::sessions(home, &SessionQuery { limit: None, ..query }).unwrap();
            assert!(whole.next.is_none());
            assert_eq!(whole.total, 100);
            assert_eq!(seen, whole.sessions.into_iter().map(|record| record.id).collect::<Vec<_>>());
        }
    }
}

#[test]
fn sessions_that_are_added_between_pages_appear_once_or_not_at_all() {
    for order in [SessionOrder::LastUsed, SessionOrder::Created] {
        let directory = tempfile::tempdir().unwrap();
        let store = SqliteStore::open_or_create(&directory.path().join("annals.db")).unwrap();
        let ids = hundred(&store);
        let query = SessionQuery { order, limit: Some(7), ..Default::default() };
        let seen = all_pages(&store, &query, &|n_page| {
            if n_page < 10 {
                let (late, early) = (1_800_000_000_000, 1_600_000_000_000);
                add(&store, &session_id(&format!("ses_late{n_page}")), Some(late), Some(late));
                add(&store, &session_id(&format!("ses_early{n_page}")), Some(early), Some(early));
            }
        });
        let unique: HashSet<SessionId> = seen.iter().cloned().collect();
        assert_eq!(unique.len(), seen.len(), "none twice, {order:?}");
        assert!(ids.is_subset(&unique), "{order:?}");
        let added = |name: &str| seen.iter().filter(|id| id.as_str().contains(name)).count();
        assert_eq!((added("early"), added("late")), (10, 0), "{order:?}");
    }
}

#[test]
fn filters_decide_what_is_counted() {
    let (_kept, home) = empty_home();
    Sample::new(session_id("ses_a"), "/shop").store(&home, "hello", "hi");
    add(&home, &session_id("ses_b"), Some(1), Some(1));
    let ids = |query: &SessionQuery| {
        let page = find::sessions(&home, query).unwrap();
        assert_eq!(page.summaries.len(), if query.asks_for_messages() { page.sessions.len() } else { 0 });
        let ids: Vec<String> = page.sessions.iter().map(|record| record.id.to_string()).collect();
        (ids.join(" "), page.total, page.next.is_some())
    };
    let all = SessionQuery::default();
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(ids(&all), ("ses_a ses_b".to_owned(), 2, false));
    assert_eq!(ids(&SessionQuery { limit: Some(1), ..all.clone() }), ("ses_a".to_owned(), 2, true));
    assert_eq!(ids(&SessionQuery { limit: Some(0), ..all.clone() }), (String::new(), 2, false));
    assert_eq!(ids(&SessionQuery { title: text("PAGE"), ..all.clone() }), ("ses_b".to_owned(), 1, false));
    assert_eq!(ids(&SessionQuery { agent: text("build"), ..all.clone() }), ("ses_a".to_owned(), 1, false));
    assert_eq!(ids(&SessionQuery { model: text("lab/lab"), ..all.clone() }), ("ses_a".to_owned(), 1, false));
    assert_eq!(ids(&SessionQuery { model: text("other"), ..all.clone() }), (String::new(), 0, false));
    let cursor = find::sessions(&home, &SessionQuery { limit: Some(1), ..all.clone() }).unwrap().next;
    let foreign = SessionQuery { cursor, roots: true, ..all };
    assert!(matches!(find::sessions(&home, &foreign), Err(QueryError::ForeignCursor)));
}

#[test]
fn messages_and_parts_are_found_by_their_ids_alone() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open_or_create(&directory.path().join("annals.db")).unwrap();
    let (_files, opencode) = empty_home();
    let (_rows, database) = empty_database(Generation::Latest);
    for home in [&store as &dyn Write, &opencode, &database] {
        for id in ["ses_a", "ses_b", "ses_c"] {
            Sample::new(session_id(id), "/shop").store(home, "hello", id);
        }
        let union = UnionHome::new(vec![home]);
        for home in [home as &dyn Read, &union] {
            let session = home.session(&session_id("ses_b")).unwrap().unwrap();
            let keys = home.session_keys(&session.id).unwrap();
            let mut n_found = 0;
            for key in &keys {
                let (found, stored) = match key {
                    Key::Message(_, id) => find::message(home, id).unwrap().unwrap(),
                    Key::Part(_, _, id) => find::part(home, id).unwrap().unwrap(),
                    _ => continue,
                };
                assert_eq!((&found.id, &stored.key), (&session.id, key), "{}", home.url());
                assert_eq!(stored.document, home.document(key).unwrap().unwrap().document);
                n_found += 1;
            }
            assert_eq!(n_found, 4, "{}", home.url());
            assert!(find::message(home, &MessageId::parse("msg_none").unwrap()).unwrap().is_none());
            assert!(find::part(home, &PartId::parse("prt_none").unwrap()).unwrap().is_none());
        }
    }
}
