//! Lets the user choose a session on a terminal, where the command line names none or several.

use std::io::{self, IsTerminal};

use annals::home::SessionRecord;
use dialoguer::FuzzySelect;
use dialoguer::console::Term;
use dialoguer::theme::{ColorfulTheme, SimpleTheme, Theme};

use crate::context::Context;
use crate::error::{CliError, exit_code};
use crate::project_names::ProjectNames;
use crate::text::{cut, fit, shown_title};

/// Sessions that are offered. Everything older is better found with words.
const OFFERED: usize = 2000;
/// Rows of the list that are on the screen at once.
const ROWS: usize = 12;

impl Context {
    /// Whether the user can be asked.
    pub(crate) fn can_ask(&self) -> bool {
        io::stdin().is_terminal()
            && io::stderr().is_terminal()
            && !self.json
            && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
    }

    /// Lets the user choose one of these sessions.
    pub(crate) fn choose(
        &self,
        question: &str,
        candidates: &[SessionRecord],
        names: &ProjectNames,
    ) -> Result<SessionRecord, CliError> {
        let columns = terminal_size::terminal_size().map_or(80, |(width, _)| usize::from(width.0));
        let offered = &candidates[..candidates.len().min(OFFERED)];
        let rows: Vec<String> = offered
            .iter()
            .map(|record| {
                let when = fit(&self.clock.when(record.info.last_used()), 12);
                let project = fit(&names.short(&record.project, record.info.directory()), 12);
                // Each of them is in one line and harmless to a terminal.
                let row = format!("{when}  {project}  {}", shown_title(record.info.title()));
                cut(&row, columns.saturating_sub(4)).into_owned()
            })
            .collect();
        let theme: Box<dyn Theme> = match self.stderr_paint().color {
            true => Box::new(ColorfulTheme::default()),
            false => Box::new(SimpleTheme),
        };
        #[cfg(unix)]
        let guard = InterruptGuard::new();
        let chosen = FuzzySelect::with_theme(&*theme)
            .with_prompt(question)
            .items(&rows)
            .default(0)
            .max_length(ROWS)
            .report(false)
            .interact_opt();
        let _ = Term::stderr().show_cursor();
        #[cfg(unix)]
        drop(guard);
        match chosen {
            Ok(Some(index)) => Ok(offered[index].clone()),
            Ok(None) => Err(CliError::new("nothing was chosen")),
            Err(_) => Err(CliError::interrupted()),
        }
    }
}

/// While it lives, Ctrl-C ends the process with the cursor shown again. The list hides it; and between two keys the terminal sends a signal
/// for Ctrl-C instead of a key.
#[cfg(unix)]
struct InterruptGuard(Option<signal_hook::iterator::Handle>);

#[cfg(unix)]
impl InterruptGuard {
    fn new() -> InterruptGuard {
        let Ok(mut signals) = signal_hook::iterator::Signals::new([signal_hook::consts::SIGINT]) else {
            return InterruptGuard(None);
        };
        let handle = signals.handle();
        std::thread::spawn(move || {
            if signals.forever().next().is_some() {
                let _ = Term::stderr().show_cursor();
                #[allow(clippy::exit, reason = "the main thread waits for a key and cannot be told")]
                std::process::exit(exit_code::INTERRUPTED.into());
            }
        });
        InterruptGuard(Some(handle))
    }
}

#[cfg(unix)]
impl Drop for InterruptGuard {
    fn drop(&mut self) {
        if let Some(handle) = &self.0 {
            handle.close();
        }
    }
}
