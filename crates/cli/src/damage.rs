//! Reports damaged homes.

use std::collections::BTreeMap;

use annals::home::Quarantined;

use crate::context::Context;
use crate::error::{CliError, Outcome, damaged};
use crate::homes::Homes;
use crate::text::{count, shell_word};

/// Reports the damage that a store noted when it last read its homes, for commands that would not meet the damage themselves.
pub(crate) fn report_damage(context: &Context, homes: &Homes) -> Result<Outcome, CliError> {
    let Some(store) = homes.store() else { return Ok(Outcome::Done) };
    let mut by_home: BTreeMap<String, Vec<Quarantined>> = BTreeMap::new();
    for (home, problem) in store.annals.noted_damage()? {
        by_home.entry(home).or_default().push(problem);
    }
    for (home, problems) in &by_home {
        let lost = damaged(problems).unwrap_or_else(|| count(problems.len(), "document"));
        context.warn(&format!("{home} is damaged: {lost} could not be read, so counts are too low"));
        tell_rescue(context, home);
    }
    Ok(if by_home.is_empty() { Outcome::Done } else { Outcome::WithProblems })
}

/// Tells how to save the readable documents of a damaged home.
pub(crate) fn tell_rescue(context: &Context, home: &str) {
    let hint = context.stderr_paint().id("hint:");
    context.note(&format!("{hint} `annals check` says where; this saves what can be read:"));
    context.note(&format!("  annals copy --from {} --to NEW.db", shell_word(home)));
}
