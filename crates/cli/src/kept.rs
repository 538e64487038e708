//! Documents that a copy or an import found different in the target and kept there: what is said of them.

use annals::difference::{Differing, Gist, OnDifference};
use annals::model::Key;
use serde::Serialize;

use crate::context::Context;
use crate::text::{Clock, count, cut, one_line};

/// What to do about documents that differ, as arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct DifferenceArgs {
    /// Keep the target's version of documents that differ, and do not report them
    #[arg(long, conflicts_with = "theirs")]
    ours: bool,
    /// Take the source's version of documents that differ
    #[arg(long)]
    theirs: bool,
}

impl DifferenceArgs {
    pub(crate) fn choice(&self) -> OnDifference {
        match (self.ours, self.theirs) {
            (true, _) => OnDifference::Ours,
            (_, true) => OnDifference::Theirs,
            _ => OnDifference::Report,
        }
    }

    pub(crate) fn is_given(&self) -> bool {
        self.ours || self.theirs
    }
}

/// A document that differs, for machines.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DifferingJson {
    kind: &'static str,
    #[serde(rename = "sessionID")]
    session: Option<String>,
    #[serde(rename = "messageID")]
    message: Option<String>,
    #[serde(rename = "partID")]
    part: Option<String>,
    target: GistJson,
    source: GistJson,
}

#[derive(Serialize)]
struct GistJson {
    title: Option<String>,
    updated: Option<i64>,
    archived: Option<i64>,
    text: Option<String>,
}

impl From<&Differing> for DifferingJson {
    fn from(differing: &Differing) -> DifferingJson {
        let (message, part) = match &differing.key {
            Key::Message(_, message) => (Some(message.to_string()), None),
            Key::Part(_, message, part) => (Some(message.to_string()), Some(part.to_string())),
            _ => (None, None),
        };
        DifferingJson {
            kind: match &differing.key {
                Key::Diff(_) => "diff",
                Key::Todo(_) => "todo",
                Key::Share(_) | Key::LegacyShare(_) => "share",
                key => key.noun(),
            },
            session: differing.key.session().map(ToString::to_string),
            message,
            part,
            target: (&differing.target).into(),
            source: (&differing.source).into(),
        }
    }
}

impl From<&Gist> for GistJson {
    fn from(Gist { title, updated, archived, text }: &Gist) -> GistJson {
        GistJson { title: title.clone(), updated: *updated, archived: *archived, text: text.clone() }
    }
}

/// Differences of this many documents are shown.
const SHOWN: usize = 5;

/// Says which documents were kept, what each side has, and how to decide.
pub(crate) fn report(context: &Context, differing: &[Differing]) {
    if differing.is_empty() {
        return;
    }
    let what = count(differing.len(), "document");
    context.note(&match differing.len() {
        1 => format!("{what} differs and stays as the target has it:"),
        _ => format!("{what} differ and stay as the target has them:"),
    });
    for Differing { key, target, source } in differing.iter().take(SHOWN) {
        let of = match key {
            Key::Message(session, _) | Key::Part(session, ..) => format!(" of session {session}"),
            _ => String::new(),
        };
        context.note(&one_line(&format!("{key}{of}")));
        for (side, gist) in [("target", target), ("source", source)] {
            let line = one_line(&in_words(gist, &context.clock));
            context.note(&format!("  {side}  {}", cut(&line, 110)));
        }
    }
    if differing.len() > SHOWN {
        context.note(&format!("… and {} more", differing.len() - SHOWN));
    }
    context.note("`--ours` keeps the target's and says no more, `--theirs` takes the source's");
}

fn in_words(Gist { title, updated, archived, text }: &Gist, clock: &Clock) -> String {
    let mut facts = Vec::new();
    facts.extend(title.as_ref().map(|title| format!("\"{title}\"")));
    facts.extend(updated.map(|updated| format!("last used {}", clock.date_time(updated))));
    facts.extend(archived.map(|archived| format!("archived {}", clock.date_time(archived))));
    facts.extend(text.clone());
    if facts.is_empty() { "not shown".to_owned() } else { facts.join(", ") }
}
