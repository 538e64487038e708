//! A session of very many parts and a very long part: pages of it must be read quickly and in little memory.

use annals::store::Store;
use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use annals::home::{MessageDetail, MessageRange, Read, SessionRecord, Write};
use annals::model::id::{MessageId, ProjectId, SessionId};
use annals::model::{Document, Key, Transaction};
use annals::stores::sqlite::SqliteStore;

use crate::generate;
use crate::store::{megabytes, milliseconds, peak_memory};

/// Number of parts in each message.
const PARTS: usize = 50;
/// Number of messages in one commit.
const MESSAGES: usize = 200;
/// Number of messages on a page.
const PAGE: usize = 20;

/// Makes a store with such a session in a directory.
pub fn make(directory: &Path, n_parts: usize, n_bytes: usize) -> Result<String, Box<dyn std::error::Error>> {
    let store = SqliteStore::open_or_create(&directory.join("annals.db"))?;
    let session = annals::ids::new_session();
    let began = Instant::now();
    let mut transaction = Transaction::new("a session");
    transaction.insert(
        Key::Session(ProjectId::global(), session.clone()),
        document(format!(r#"{{"id":"{session}","title":"A long one","time":{{"created":1,"updated":1}}}}"#))?,
    );
    for n in 0..n_parts.div_ceil(PARTS) {
        let message = insert_message(&mut transaction, &session)?;
        for part in (n * PARTS..n_parts).take(PARTS) {
            let text = format!("Part {part} of many: the cart crashes when it is empty.");
            insert_part(&mut transaction, &session, &message, &text)?;
        }
        if n % MESSAGES == MESSAGES - 1 {
            store.commit(std::mem::replace(&mut transaction, Transaction::new("more of it")))?;
        }
    }
    store.commit(transaction)?;
    let mut transaction = Transaction::new("a long part");
    let message = insert_message(&mut transaction, &session)?;
    insert_part(&mut transaction, &session, &message, &printed(n_bytes))?;
    store.commit(transaction)?;
    Ok(format!(
        "made {n_parts} parts and one of {:.0} MB in {:.1} s, {:.0} MB on disk; peak memory {:.0} MB\n",
        megabytes(n_bytes as u64),
        began.elapsed().as_secs_f64(),
        megabytes(store.bytes()),
        megabytes(peak_memory())
    ))
}

/// Reads pages of the session that [`make`] made.
pub fn measure(directory: &Path) -> Result<String, Box<dyn std::error::Error>> {
    let mut report = String::from("| what | figure |\n|---|---|\n");
    let store = SqliteStore::open(&directory.join("annals.db"))?;
    let session = store.sessions(&Default::default())?.value.pop().ok_or("there is no session")?;
    let ids = message_ids(&store, &session)?;
    let mut times = Vec::new();
    // The last message has the long part: the pages before it are read first, then the one with it.
    for n in 1..=100 {
        let before = &ids[(ids.len() - 1) * n / 101];
        times.push(page(&store, &session, Some(before.clone()))?);
    }
    times.sort();
    let at = |share: f64| milliseconds(times[((times.len() - 1) as f64 * share) as usize]);
    writeln!(
        report,
        "| 100 pages of {PAGE} messages, anywhere | p50 {:.0} ms, worst {:.0} ms |",
        at(0.5),
        at(1.0)
    )?;
    writeln!(report, "| peak memory until then | {:.0} MB |", megabytes(peak_memory()))?;
    let last = page(&store, &session, None)?;
    writeln!(report, "| the last page, with the long part | {:.0} ms |", milliseconds(last))?;
    writeln!(report, "| peak memory | {:.0} MB |", megabytes(peak_memory()))?;
    Ok(report)
}

/// `n_bytes` of text that a command might print.
fn printed(n_bytes: usize) -> String {
    let vocabulary = generate::vocabulary();
    let mut text = String::with_capacity(n_bytes + 64);
    let mut drawn: u64 = 1;
    while text.len() < n_bytes {
        drawn = drawn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // Words are as frequent as in prose: the second half as frequent as the first, and so on.
        let rank = (vocabulary.len() as f64).powf((drawn >> 33) as f64 / f64::from(1_u32 << 31));
        text.push_str(&vocabulary[(rank as usize).min(vocabulary.len() - 1)]);
        text.push_str(if drawn >> 60 == 0 { "\\n" } else { " " });
    }
    text
}

fn message_ids(
    store: &SqliteStore,
    session: &SessionRecord,
) -> Result<Vec<MessageId>, Box<dyn std::error::Error>> {
    let mut ids = Vec::new();
    for record in store.messages(session, &MessageRange::ALL, MessageDetail::PartCounts) {
        if let Key::Message(_, id) = record?.stored.key {
            ids.push(id);
        }
    }
    Ok(ids)
}

fn page(
    store: &SqliteStore,
    session: &SessionRecord,
    before: Option<MessageId>,
) -> Result<Duration, Box<dyn std::error::Error>> {
    let began = Instant::now();
    let mut messages =
        store.messages(session, &MessageRange { before, last: Some(PAGE) }, MessageDetail::Parts);
    messages.by_ref().try_for_each(|message| message.map(drop))?;
    let took = began.elapsed();
    match messages.into_quarantined().is_empty() {
        true => Ok(took),
        false => Err("something could not be read".into()),
    }
}

fn insert_message(
    transaction: &mut Transaction,
    session: &SessionId,
) -> Result<MessageId, Box<dyn std::error::Error>> {
    let id = annals::ids::new_message();
    let now = annals::ids::now();
    let text = format!(
        r#"{{"id":"{id}","sessionID":"{session}","role":"assistant","time":{{"created":{now},"completed":{now}}}}}"#
    );
    transaction.insert(Key::Message(session.clone(), id.clone()), document(text)?);
    Ok(id)
}

fn insert_part(
    transaction: &mut Transaction,
    session: &SessionId,
    message: &MessageId,
    text: &str,
) -> Result<(), Box<dyn std::error::Error>> {
    let id = annals::ids::new_part();
    let text = format!(
        r#"{{"id":"{id}","sessionID":"{session}","messageID":"{message}","type":"text","text":"{text}"}}"#
    );
    transaction.insert(Key::Part(session.clone(), message.clone(), id), document(text)?);
    Ok(())
}

fn document(text: String) -> Result<Document, Box<dyn std::error::Error>> {
    Ok(Document::parse(text.into_bytes())?)
}
