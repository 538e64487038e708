//! The head of a transcript: title, particulars and sums of the session.

use std::io;

use annals::family::Forks;
use annals::home::{Read, SessionRecord};
use annals::model::lens::Session;
use annals::query::SessionQuery;
use annals::summarize::{conversation, summarize};

use crate::output::Output;
use crate::text::{Clock, count, cut, dollars, one_line, short_number, wrap};

/// Prints the head of a session.
pub(super) fn print(
    output: &mut Output,
    clock: &Clock,
    home: &dyn Read,
    record: &SessionRecord,
) -> io::Result<()> {
    let session = record.stored.document.lens::<Session<'_>>();
    let paint = output.paint;
    let title = session.title.map(|title| one_line(&title.to_str())).unwrap_or_default();
    for line in wrap(&title, output.width) {
        output.line(paint.bold(line))?;
    }
    let time = session.time.unwrap_or_default();
    let mut facts = vec![record.id.to_string()];
    facts.extend(session.directory.map(|directory| one_line(&directory.to_str())));
    facts.extend(time.updated.map(|updated| clock.date_time(updated)));
    facts.extend(time.archived.map(|_| "archived".to_owned()));
    for line in wrap(&facts.join(" · "), output.width) {
        output.line(paint.dim(line))?;
    }
    let conversation = conversation(home, record).unwrap_or_default();
    let mut sums = sums(home, record);
    if conversation.context > 0.0 && sums.len() > 1 {
        sums.insert(2, format!("context {}", short_number(conversation.context)));
    }
    if !sums.is_empty() {
        for line in wrap(&sums.join(" · "), output.width) {
            output.line(paint.dim(line))?;
        }
    }
    if let Some(parent) = session.parent_id {
        output.line(paint.dim(format!("started by {}", one_line(&parent.to_str()))))?;
    }
    let is_fork =
        conversation.began.zip(record.info.created()).is_some_and(|(began, created)| began < created);
    if let Some(origin) = is_fork.then(|| origin(home, record)).flatten() {
        output.line(paint.dim(cut(&format!("forked from {origin}"), output.width)))?;
    }
    if let Some(url) = session.share.and_then(|share| share.url).filter(|url| !url.is_empty()) {
        output.line(paint.dim(format!("shared at {}", one_line(&url.to_str()))))?;
    }
    if let Some(gone) = record.gone {
        let line = format!("gone from OpenCode since {}; this is what the store kept", clock.date_time(gone));
        output.line(paint.warn(cut(&line, output.width)))?;
    }
    Ok(())
}

/// The session that a fork comes from, with its title.
fn origin(home: &dyn Read, record: &SessionRecord) -> Option<String> {
    let sessions = home.sessions(&SessionQuery::default()).ok()?.value;
    let forks = Forks::among(home, &sessions).ok()?;
    let origin = forks.origin(&record.id)?;
    let title = sessions.iter().find(|session| session.id == origin.session)?.info.title();
    Some(format!("{}  {}", origin.session, one_line(title)))
}

/// What the session amounts to. Nothing if that cannot be read: the messages below say more.
fn sums(home: &dyn Read, record: &SessionRecord) -> Vec<String> {
    let read = summarize(home, std::slice::from_ref(record), &|| {});
    let Some(summary) = read.ok().and_then(|mut found| found.value.pop()) else { return Vec::new() };
    if summary.messages == 0 {
        return Vec::new();
    }
    let mut facts = vec![count(summary.messages, "message")];
    if summary.usage.total_tokens() > 0.0 {
        facts.push(format!("{} tokens", short_number(summary.usage.total_tokens())));
    }
    if summary.usage.cost > 0.0 {
        facts.push(dollars(summary.usage.cost));
    }
    if let Some(changes) = record.info.changes().filter(|changes| changes.files > 0) {
        let files = count(usize::try_from(changes.files).unwrap_or(usize::MAX), "file");
        facts.push(format!("{files} changed, +{} −{}", changes.additions, changes.deletions));
    }
    facts.extend(summary.models.iter().map(|model| one_line(model)));
    facts
}
