//! Search: everything that was said is found, the right thing first, and nothing can make it fail.

use annals::search::Search;
use annals::store::Store;
use annals::upkeep::Upkeep;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use annals::home::{Read, Write};
use annals::ids;
use annals::model::Transaction;
use annals::model::search::query::{Filter, FilterField, parse};
use annals::query::SessionQuery;
use annals::search::{Hits, SearchError, SearchRequest, Wanted};
use annals::stores::sqlite::SqliteStore;
use annals::sync::{Stage, SyncOptions};
use annals_testkit::Fixture;

use super::annals_store::empty_store;
use super::kit::{Sample, open};
use super::sync::{ALL, run};

fn request(wanted: Wanted) -> SearchRequest {
    SearchRequest {
        wanted,
        sessions: SessionQuery::default(),
        since: None,
        until: None,
        filters: Vec::new(),
        offset: 0,
        limit: 50,
        now: ids::now(),
        snippet_width: 120,
    }
}

fn words(store: &SqliteStore, text: &str) -> Hits {
    let query = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    store.search(&request(Wanted::Words(query))).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn kinds(hits: &Hits) -> Vec<&str> {
    hits.hits.iter().map(|hit| hit.kind.as_str()).collect()
}

#[test]
fn what_was_said_is_found_by_words_pieces_phrases_and_prefixes() {
    let (_directory, store) = empty_store();
    let sample = Sample::new(ids::new_session(), "/home/dev/shop");
    sample.store(
        &store,
        "Why does computeCartTotal fail in src/cart/total.rs?",
        "Because größe is 检索引擎 here.",
    );
    store.update_index(&|_, _| ()).unwrap();
    for found in [
        "computeCartTotal",
        "compute_cart_total",
        "cart",
        "computecartt*",
        "src/cart/total.rs",
        "\"fail in src\"",
        "total NOT missing",
        "(missing OR fail) cart",
        "größe",
        "GRÖSSE OR Größe",
        "索引",
        "role:user cart",
        "\"cart total\"",
        "sample",
    ] {
        assert!(words(&store, found).total >= 1, "{found} is not found");
    }
    for missing in ["carton", "\"total cart\"", "引索", "role:assistant cart", "cart -fail", "tool:bash cart"]
    {
        assert_eq!(words(&store, missing).total, 0, "{missing} is found");
    }
    let hits = words(&store, "cart");
    let hit = &hits.hits[0];
    assert_eq!(
        (hit.role.as_deref(), hit.kind.as_str(), hit.title.as_str()),
        (Some("user"), "text", "A sample")
    );
    let marked: Vec<&str> =
        hit.snippet.highlights.iter().map(|range| &hit.snippet.text[range.clone()]).collect();
    assert!(marked.contains(&"Cart") || marked.contains(&"cart"), "{:?}", hit.snippet);
    assert!(hit.message.is_some() && hit.part.is_some());
}

/// Puts another file in the place of one: whoever has that one open, or mapped into memory, keeps it.
fn replace(path: &Path, bytes: &[u8]) {
    std::fs::remove_file(path).unwrap();
    std::fs::write(path, bytes).unwrap();
}

/// Another process may be about to make the index: to search does not take it away, nor make one.
#[test]
fn a_search_leaves_the_index_as_it_is() {
    let (_directory, store) = empty_store();
    let sample = Sample::new(ids::new_session(), "/home/dev/shop");
    sample.store(&store, "first wording", "an answer");
    // An answer without an index would be wrong.
    let fails = |store: &SqliteStore| {
        let error = store.search(&request(Wanted::Words(parse("wording").unwrap()))).unwrap_err();
        assert!(matches!(error, SearchError::Index { .. }), "{error}");
    };
    fails(&store);
    assert!(!store.index_path().exists());
    std::fs::create_dir(store.index_path()).unwrap();
    let begun = store.index_path().join("begun.term");
    std::fs::write(&begun, b"a part of it").unwrap();
    fails(&store);
    assert!(begun.exists());
    store.update_index(&|_, _| ()).unwrap();
    assert_eq!((words(&store, "wording").total, words(&store, "wording").unindexed), (1, 0));
}

/// A damaged index is an error, found without a panic. What is damaged behind the checksum of a file may go unnoticed: nothing
/// depends on it.
#[test]
fn a_damaged_index_is_an_error_at_worst() {
    let fixture = Fixture::unpack("opencode-1.0.185");
    let (_directory, store) = empty_store();
    run(&store, &open(fixture.home()), SyncOptions { stage: Stage::Text, ..ALL });
    let path = store.path().to_owned();
    // Where the list of its files is damaged, the index is made anew at once.
    let entries = std::fs::read_dir(store.index_path()).unwrap().map(|entry| entry.unwrap().path());
    let is_listed =
        |path: &PathBuf| path.extension().is_some_and(|extension| extension != "json" && extension != "lock");
    let files: Vec<PathBuf> = entries.filter(is_listed).collect();
    let (mut n_errors, mut n_answers) = (0, 0);
    static N_PANICS: AtomicUsize = AtomicUsize::new(0);
    std::panic::set_hook(Box::new(|_| _ = N_PANICS.fetch_add(1, Ordering::Relaxed)));
    for file in files {
        let whole = std::fs::read(&file).unwrap();
        for n in 0..40_usize.min(whole.len()) {
            let mut damaged = whole.clone();
            let at = n * whole.len() / 40;
            match n % 4 {
                0 => damaged[at] ^= 0x40,
                1 => damaged[at..].iter_mut().take(48).for_each(|byte| *byte = 0xff),
                2 => damaged[at..].iter_mut().take(48).for_each(|byte| *byte = 0),
                _ => damaged.truncate(at),
            }
            if damaged == whole {
                continue;
            }
            replace(&file, &damaged);
            // Opened anew, or it would keep the index it had.
            let store = SqliteStore::open(&path).unwrap();
            for query in ["the", "\"the file\"", "fi*", "role:user file"] {
                match store.search(&request(Wanted::Words(parse(query).unwrap()))) {
                    Ok(_) => n_answers += 1,
                    Err(SearchError::Index { .. }) => n_errors += 1,
                    Err(error) => panic!("{error}"),
                }
            }
        }
        replace(&file, &whole);
    }
    let _ = std::panic::take_hook();
    assert_eq!(N_PANICS.load(Ordering::Relaxed), 0);
    assert!(n_errors > 500 && n_answers < n_errors / 20, "{n_errors} errors, {n_answers} answers");
}

#[test]
fn the_index_follows_what_is_changed_deleted_and_rebuilt() {
    let (_directory, store) = empty_store();
    let sample = Sample::new(ids::new_session(), "/home/dev/shop");
    sample.store(&store, "first wording", "an answer");
    store.update_index(&|_, _| ()).unwrap();
    let part = store
        .session_keys(&sample.session)
        .unwrap()
        .into_iter()
        .find(|key| store.document(key).unwrap().unwrap().document.text().contains("first wording"));
    let stored = store.document(&part.unwrap()).unwrap().unwrap();
    let mut transaction = Transaction::new("reword");
    transaction.replace(&stored, stored.document.with(&["text"], "second wording").unwrap());
    store.commit(transaction).unwrap();
    assert_eq!(words(&store, "wording").unindexed, 1);
    let indexed = store.update_index(&|_, _| ()).unwrap();
    assert_eq!((indexed.documents, indexed.revision), (1, store.head().unwrap()));
    assert_eq!((words(&store, "first").total, words(&store, "second").total), (0, 1));
    // Nothing is lost with the index.
    std::fs::remove_dir_all(store.index_path()).unwrap();
    let error = store.search(&request(Wanted::Words(parse("second").unwrap()))).unwrap_err();
    assert!(matches!(error, SearchError::Index { .. }), "{error}");
    store.update_index(&|_, _| ()).unwrap();
    assert_eq!(words(&store, "second").total, 1);
    // Nor is anything harmed by damage in it.
    for entry in std::fs::read_dir(store.index_path()).unwrap() {
        replace(&entry.unwrap().path(), b"not what it was");
    }
    let query = parse("second").unwrap();
    let _ = store.search(&request(Wanted::Words(query)));
    store.rebuild_index(&|_, _| ()).unwrap();
    assert_eq!(words(&store, "second").total, 1);
    let stored = store.document(&stored.key).unwrap().unwrap();
    let mut transaction = Transaction::new("delete");
    transaction.delete(&stored);
    store.commit(transaction).unwrap();
    store.update_index(&|_, _| ()).unwrap();
    assert_eq!(words(&store, "second").total, 0);
}

#[test]
fn an_index_filled_during_sync_is_the_index_filled_after_it() {
    let fixture = Fixture::unpack("opencode-1.1.65");
    let source = open(fixture.home());
    let (_first, at_once) = empty_store();
    run(&at_once, &source, SyncOptions { stage: Stage::Text, ..ALL });
    let (_second, later) = empty_store();
    run(&later, &source, ALL);
    later.update_index(&|_, _| ()).unwrap();
    for query in [
        "the",
        "file",
        "role:user",
        "tool:bash",
        "type:reasoning",
        "sources",
        "orders.ts",
        "type:title",
        "agent:build",
    ] {
        let (a, b) = (words(&at_once, query), words(&later, query));
        assert_eq!(a.total, b.total, "{query}");
        assert!(a.total > 0, "{query}");
        assert_eq!((a.unindexed, b.unindexed), (0, 0));
    }
}

#[test]
fn prompts_and_answers_come_before_tool_output() {
    let fixture = Fixture::unpack("opencode-1.1.65");
    let (_directory, store) = empty_store();
    run(&store, &open(fixture.home()), SyncOptions { stage: Stage::Text, ..ALL });
    let hits = words(&store, "orders");
    let first_tool = kinds(&hits).iter().position(|kind| *kind == "tool").unwrap_or(usize::MAX);
    let first_text = kinds(&hits).iter().position(|kind| *kind == "text" || *kind == "title").unwrap();
    assert!(first_text < first_tool, "{:?}", kinds(&hits));
}

#[test]
fn filters_and_pages_narrow_what_is_found() {
    let fixture = Fixture::unpack("opencode-1.1.65");
    let (_directory, store) = empty_store();
    run(&store, &open(fixture.home()), SyncOptions { stage: Stage::Text, ..ALL });
    let all = words(&store, "the");
    let mut narrowed = request(Wanted::Words(parse("the").unwrap()));
    narrowed.filters = vec![Filter { field: FilterField::Role, value: "USER".to_owned() }];
    let users = store.search(&narrowed).unwrap();
    assert!(users.total > 0 && users.total < all.total);
    assert!(users.hits.iter().all(|hit| hit.role.as_deref() == Some("user")));
    let mut paged = request(Wanted::Words(parse("the").unwrap()));
    paged.limit = 7;
    let mut seen = Vec::new();
    while seen.len() < all.total {
        paged.offset = seen.len();
        let page = store.search(&paged).unwrap();
        assert!(!page.hits.is_empty());
        seen.extend(page.hits.into_iter().map(|hit| (hit.session, hit.message, hit.part)));
    }
    let n_seen = seen.len();
    seen.sort_by_key(|hit| format!("{hit:?}"));
    seen.dedup();
    assert_eq!(seen.len(), n_seen);
    let mut nothing = request(Wanted::Words(parse("the").unwrap()));
    nothing.until = Some(1000);
    assert_eq!(store.search(&nothing).unwrap().total, 0);
    let mut elsewhere = request(Wanted::Words(parse("the").unwrap()));
    elsewhere.sessions.directory = Some("/nowhere".to_owned());
    assert_eq!(store.search(&elsewhere).unwrap().total, 0);
}

#[test]
fn documents_are_scanned_for_substrings_and_expressions() {
    let (_directory, store) = empty_store();
    let sample = Sample::new(ids::new_session(), "/home/dev/shop");
    sample.store(&store, "line one\nlet x = \"quoted\";", "ünïcode Ünïcode");
    let scan = |wanted: Wanted| store.search(&request(wanted)).unwrap();
    let regex = |pattern: &str| Wanted::Regex { pattern: pattern.to_owned(), ignore_case: false };
    let substring = |text: &str, ignore_case| Wanted::Substring { text: text.to_owned(), ignore_case };
    // The text itself is matched, not its JSON.
    assert_eq!(scan(regex(r#"^let x = "quoted";$"#)).total, 1);
    assert_eq!(scan(regex(r"(?i)ÜNÏCODE ünïcode")).total, 1);
    assert_eq!(scan(substring("one\nlet", false)).total, 1);
    assert_eq!(scan(substring("LINE ONE", false)).total, 0);
    let hits = scan(substring("LINE ONE", true));
    assert_eq!(&hits.hits[0].snippet.text[hits.hits[0].snippet.highlights[0].clone()], "line one");
    assert!(store.search(&request(regex("(unclosed"))).is_err());
    let filtered = SearchRequest {
        filters: vec![Filter { field: FilterField::Role, value: "assistant".to_owned() }],
        ..request(substring("line", false))
    };
    assert_eq!(store.search(&filtered).unwrap().total, 0);
}

#[test]
fn no_query_can_make_a_search_fail() {
    let (_directory, store) = empty_store();
    let sample = Sample::new(ids::new_session(), "/home/dev/shop");
    sample.store(&store, "' OR 1=1; DROP TABLE document; --", "b");
    store.update_index(&|_, _| ()).unwrap();
    let long = "x".repeat(100_000);
    let many = "a ".repeat(900);
    let hostile = [
        "' OR 1=1 --",
        "\"; DROP TABLE document; --\"",
        "a* b* c* d*",
        "*",
        "[",
        "\\",
        "a\\*",
        "(((a)))",
        &long,
        &many,
        "\u{0}",
        "\u{202e}abc",
        "model:.*",
        "model:(",
        "type:*",
        "-a b",
        "NOT NOT a b",
        "a AND OR b",
        "\"\"",
        "..",
        "x:y",
        "😀",
        "🇩🇪*",
    ];
    for text in hostile {
        let Ok(query) = parse(text) else { continue };
        store.search(&request(Wanted::Words(query))).unwrap_or_else(|error| panic!("{text:.40}: {error}"));
    }
    assert_eq!(words(&store, "drop table").total, 1);
}

#[test]
fn what_is_forgotten_is_gone_from_the_index_too() {
    let (directory, store) = empty_store();
    let [sample, other] = ["/home/dev/shop", "/home/dev/notes"].map(|at| Sample::new(ids::new_session(), at));
    sample.store(&store, "the xylophonist's secret", "kept quiet");
    other.store(&store, "something else", "entirely");
    store.update_index(&|_, _| ()).unwrap();
    assert_eq!(words(&store, "xylophonist").total, 1);
    let forgotten = store.forget(std::slice::from_ref(&sample.session)).unwrap();
    assert_eq!(forgotten.index_left, None);
    assert_eq!((words(&store, "xylophonist").total, words(&store, "entirely").total), (0, 1));
    assert_eq!(words(&store, "entirely").unindexed, 0);
    for path in annals_testkit::files_below(directory.path()) {
        let bytes = std::fs::read(&path).unwrap();
        for text in ["xylophonist", sample.session.as_str()] {
            let is_there =
                bytes.windows(text.len()).any(|window| window.eq_ignore_ascii_case(text.as_bytes()));
            assert!(!is_there, "{text} is in {}", path.display());
        }
    }
}
