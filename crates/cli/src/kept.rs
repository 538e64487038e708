//! Reports documents that a copy or an import found different in the target and kept there.

use annals::difference::{Differing, Gist, OnDifference};
use annals::model::Key;

use crate::context::Context;
use crate::text::{Clock, count, cut, one_line};

/// Arguments that decide about documents that differ.
#[derive(Debug, Default, clap::Args)]
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

/// Limit on the documents whose differences are shown.
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
    context.note("`--ours` keeps the target's version without this report, `--theirs` takes the source's");
}

fn in_words(Gist { title, updated, archived, text }: &Gist, clock: &Clock) -> String {
    let mut facts = Vec::new();
    facts.extend(title.as_ref().map(|title| format!("\"{title}\"")));
    facts.extend(updated.map(|updated| format!("last used {}", clock.date_time(updated))));
    facts.extend(archived.map(|archived| format!("archived {}", clock.date_time(archived))));
    facts.extend(text.clone());
    if facts.is_empty() { "not shown".to_owned() } else { facts.join(", ") }
}
