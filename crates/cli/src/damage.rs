//! What is said of a damaged home.

use std::collections::BTreeMap;

use annals::home::Quarantined;

use crate::context::Context;
use crate::error::{CliError, Outcome, damaged};
use crate::homes::Homes;
use crate::text::{count, shell_word};

/// Says that homes are damaged, in commands that would otherwise not come across the damage: what a store noted when it last
/// looked at them.
pub(crate) fn report_damage(context: &Context, homes: &Homes) -> Result<Outcome, CliError> {
    let Some(store) = homes.store() else { return Ok(Outcome::Done) };
    let mut by_home: BTreeMap<String, Vec<Quarantined>> = BTreeMap::new();
    for (home, problem) in store.annals.noted_damage()? {
        by_home.entry(home).or_default().push(problem);
    }
    for (home, problems) in &by_home {
        let lost = damaged(problems).unwrap_or_else(|| count(problems.len(), "document"));
        context.warn(&format!("{home} is damaged: {lost} could not be read, and numbers are too low"));
        tell_rescue(context, home);
    }
    Ok(if by_home.is_empty() { Outcome::Done } else { Outcome::WithProblems })
}

/// Says how to save what can be read of a damaged home.
pub(crate) fn tell_rescue(context: &Context, home: &str) {
    let hint = context.stderr_paint().id("hint:");
    context.note(&format!("{hint} `annals check` says where; this saves what can be read:"));
    context.note(&format!("  annals copy --from {} --to NEW.db", shell_word(home)));
}
