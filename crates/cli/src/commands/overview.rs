//! `annals` without a command: an overview of homes, store and latest sessions.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use annals::history::LogQuery;
use annals::home::{Extent, Quarantined, Read, SessionRecord};
use annals::model::id::{ProjectId, SessionId};
use annals::model::lens::Project;
use annals::ops;
use annals::query::SessionQuery;
use annals::stats::{Counting, DAY, collect};
use annals::summarize::summarize;
use annals::summary::{SessionState, SessionSummary};
use annals::sync::Stage;
use annals::wire;

use crate::context::Context;
use crate::damage::{report_damage, tell_rescue};
use crate::error::{CliError, CommandResult, Outcome, report_quarantine};
use crate::homes::{Freshness, Homes, OpenedStore};
use crate::output::{Output, Painter};
use crate::project_names::ProjectNames;
use crate::short_id::ShortIds;
use crate::sign::Sign;
use crate::table::{Table, left};
use crate::text::{bytes, count, cut, dollars, grouped, one_line, shell_word, shown_title, width, wrap};
use crate::time_arg::parse_time;

/// Whether the overview ends with what to do next.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hints {
    Shown,
    Omitted,
}

/// Sessions that are shown of the project here, and of all others.
const HERE: usize = 5;
const ELSEWHERE: usize = 3;

pub(crate) fn run(context: &Context, hints: Hints) -> CommandResult {
    let homes = context.open(Stage::Calls)?;
    let home = homes.read();
    let described = describe_homes(context, &homes)?;
    let found = context.sessions(&home, &SessionQuery::default())?;
    let store = homes.store().map(|store| describe_store(store, &found.value)).transpose()?;
    let rescue = left_behind(&described.held);
    let mut overview = wire::Overview::of(described.rows, store, &found.value, rescue);
    let here = context.here();
    let of_here = |record: &&SessionRecord| here.as_ref().is_some_and(|here| here.admits(record));
    let here_sessions: Vec<SessionRecord> = found.value.iter().filter(of_here).cloned().collect();
    overview.here =
        here_sessions.first().and_then(|first| wire::HereProject::of(&first.project, &here_sessions));
    overview.moved = moved_here(context, &home)?;
    let is_here: HashSet<SessionId> = here_sessions.into_iter().map(|record| record.id).collect();
    let mut quarantined = found.quarantined;
    quarantined.extend(count_lately(context, &home, &found.value, &mut overview)?);
    let mut output = context.plain_output();
    if context.json {
        output.json(&overview)?;
    } else {
        let screen = Screen {
            context,
            names: &ProjectNames::of(&home),
            short_ids: &ShortIds::of(&found.value),
            summaries: summarize_shown(&home, &found.value, &is_here)?,
        };
        screen.print_sessions(&mut output, &overview, &is_here)?;
        screen.print_attention(&mut output, &overview)?;
        output.line("")?;
        output.line(output.paint.dim("Kept in"))?;
        for (home, readable) in overview.homes.iter().zip(&described.extents) {
            print_home(&mut output, home, readable)?;
        }
        if let Some(store) = &overview.store {
            print_store(&mut output, store)?;
        }
        if let (false, Hints::Shown) = (overview.latest.is_empty(), hints) {
            print_hints(&mut output)?;
        }
    }
    output.finish()?;
    let outcome = report_quarantine(&quarantined, context.stderr_paint());
    // The damage that the store noted tells more; without a note the counts have told.
    let mut damage = report_damage(context, &homes)?;
    for home in overview.homes.iter().filter(|home| home.damaged && damage == Outcome::Done) {
        context.warn(&format!("{} is damaged, so counts are too low", home.url));
        tell_rescue(context, &home.url);
    }
    if overview.homes.iter().any(|home| home.damaged) {
        damage = Outcome::WithProblems;
    }
    Ok(outcome.and(damage))
}

/// Counts what was used this week, and which sessions of the last days did not end well. Returns what could not be read.
fn count_lately(
    context: &Context,
    home: &dyn Read,
    sessions: &[SessionRecord],
    overview: &mut wire::Overview,
) -> Result<Vec<Quarantined>, CliError> {
    let clock = &context.clock;
    let monday = parse_time("this week", clock)?;
    let week_ago = clock.now - 7 * DAY;
    // A turn may go on for long after the prompt, which is what counts as the last use of a session.
    let lately = |record: &&SessionRecord| record.info.last_used() >= monday.min(week_ago) - 2 * DAY;
    let lately: Vec<SessionRecord> = sessions.iter().filter(lately).cloned().collect();
    let window = monday..i64::MAX;
    let counting = Counting { window: Some(&window), ..Counting::ALL };
    let summaries = summarize(home, &lately, &|| {})?;
    for session in &summaries.value {
        let is_late = session.updated.is_some_and(|updated| updated >= week_ago) && session.gone.is_none();
        overview.failed += usize::from(is_late && session.state == SessionState::Failed);
        overview.open += usize::from(is_late && session.state == SessionState::Open);
    }
    let counted = collect(home, lately, counting)?;
    let stats = counted.value;
    overview.week = wire::UsedSince { since: monday, sessions: stats.sessions, cost: stats.usage.cost };
    // Both have met the same documents.
    Ok(counted.quarantined)
}

/// Sessions of the repository here that are attached to another working tree, which is gone: the repository was moved.
fn moved_here(context: &Context, home: &dyn Read) -> Result<Option<wire::MovedHere>, CliError> {
    let Ok(identity) = annals::project::identify(&context.current_dir, Path::new("git")) else {
        return Ok(None);
    };
    // All directories outside of repositories share one project, so none of them was moved here.
    if identity.id == ProjectId::global() {
        return Ok(None);
    }
    for (record, sessions) in ops::missing_projects(home)? {
        if record.key.project() != Some(&identity.id) {
            continue;
        }
        let worktree = record.document.lens::<Project<'_>>().worktree;
        return Ok(worktree.map(|worktree| wire::MovedHere {
            from: worktree.to_string(),
            to: identity.worktree.display().to_string(),
            sessions,
        }));
    }
    Ok(None)
}

/// Summaries of the sessions that are shown, by their ids.
fn summarize_shown(
    home: &dyn Read,
    sessions: &[SessionRecord],
    is_here: &HashSet<SessionId>,
) -> Result<HashMap<SessionId, SessionSummary>, CliError> {
    let roots = || sessions.iter().filter(|record| record.info.is_root());
    let of_here = roots().filter(|record| is_here.contains(&record.id)).take(HERE);
    let others = roots().filter(|record| !is_here.contains(&record.id)).take(HERE + ELSEWHERE);
    let shown: Vec<SessionRecord> = of_here.chain(others).cloned().collect();
    let summaries = summarize(home, &shown, &|| {})?.value;
    Ok(summaries.into_iter().map(|summary| (summary.id.clone(), summary)).collect())
}

/// The overview for people: their work first, then what needs attention.
struct Screen<'s> {
    context: &'s Context,
    names: &'s ProjectNames,
    short_ids: &'s ShortIds,
    summaries: HashMap<SessionId, SessionSummary>,
}

impl Screen<'_> {
    fn print_sessions(
        &self,
        output: &mut Output,
        overview: &wire::Overview,
        is_here: &HashSet<SessionId>,
    ) -> std::io::Result<()> {
        let mut shown: Vec<&SessionSummary> = self.summaries.values().collect();
        shown.sort_by_key(|session| (std::cmp::Reverse(session.updated), session.id.as_str().to_owned()));
        let (of_here, others): (Vec<_>, Vec<_>) =
            shown.into_iter().partition(|session| is_here.contains(&session.id));
        let week = match overview.week.sessions {
            0 => String::new(),
            n => format!(" · this week {}, {}", count(n, "session"), dollars(overview.week.cost)),
        };
        if let (Some(project), Some(first)) = (&overview.here, of_here.first()) {
            let name = self.names.short(&first.project, first.directory.as_deref());
            let heading = format!("Here in {name}: {}{week}", count(project.sessions, "session"));
            print_heading(output, &heading)?;
            self.print_rows(output, &of_here, false)?;
            let n_others = overview.sessions.saturating_sub(project.sessions);
            if !others.is_empty() && n_others > 0 {
                output.line("")?;
                output.line(output.paint.dim("Elsewhere"))?;
                self.print_rows(output, &others[..others.len().min(ELSEWHERE)], true)?;
            }
            return Ok(());
        }
        let in_projects = format!(
            "{} in {}{week}",
            count(overview.sessions, "session"),
            count(overview.projects, "project")
        );
        print_heading(output, &in_projects)?;
        self.print_rows(output, &others, true)
    }

    fn print_rows(
        &self,
        output: &mut Output,
        sessions: &[&SessionSummary],
        with_project: bool,
    ) -> std::io::Result<()> {
        let paint = output.paint;
        let project =
            |session: &&SessionSummary| self.names.short(&session.project, session.directory.as_deref());
        let ids = self.short_ids.width(sessions.iter().map(|session| session.id.as_str()));
        let when = |session: &SessionSummary| {
            session.updated.map_or_else(String::new, |time| self.context.clock.when(time))
        };
        let widest = sessions.iter().map(|session| width(&project(session))).max().unwrap_or(0);
        let times = sessions.iter().map(|session| width(&when(session))).max().unwrap_or(0);
        let projects = left("", widest.clamp(4, 14)).style(Painter::agent).gives_way(2);
        let columns = [
            left("", ids).style(Painter::id),
            left("", times).style(Painter::dim).gives_way(1),
            if with_project { projects } else { projects.hidden() },
        ];
        let width = output.width.saturating_sub(2);
        let table = Table::new(paint, columns).fitting(width, 16);
        for session in sessions {
            let sign = match Sign::of(session, self.context.clock.now) {
                Sign::Done | Sign::Empty => String::new(),
                sign => format!("{} ", sign.painted(paint)),
            };
            let room = table.room(width).saturating_sub(if sign.is_empty() { 0 } else { 2 });
            let title = shown_title(&session.title);
            let title = format!("{sign}{}", cut(&title, room));
            let id = self.short_ids.shorten(session.id.as_str()).to_owned();
            output.line(format!("  {}", table.row([id, when(session), project(session)], title)))?;
        }
        Ok(())
    }

    /// What did not end well, and what OpenCode does not show.
    fn print_attention(&self, output: &mut Output, overview: &wire::Overview) -> std::io::Result<()> {
        let paint = output.paint;
        let mut rows: Vec<(String, String)> = Vec::new();
        let state = |n: usize, what: &str| (n > 0).then(|| format!("{} {what}", grouped(n)));
        let states = [(overview.failed, "failed", "failed"), (overview.open, "not ended", "open")];
        for (n, what, status) in states {
            let what = state(n, what).map(|state| format!("{state} in 7 days"));
            rows.extend(what.map(|what| (what, format!("annals list --since 7d --status {status}"))));
        }
        for rescue in &overview.rescue {
            let n = count(rescue.sessions, "session");
            rows.push((
                format!("{n} in files that OpenCode 1.2 and later does not read"),
                "annals rescue".to_owned(),
            ));
        }
        if let Some(moved) = &overview.moved {
            let n = count(moved.sessions, "session");
            let (from, to) = (shell_word(&moved.from), shell_word(&moved.to));
            rows.push((
                format!("{n} of this repository in {}, which is gone", one_line(&moved.from)),
                format!("annals move-project {from} {to}"),
            ));
        }
        for home in &overview.homes {
            rows.extend(home.remarks.iter().map(|remark| (one_line(remark), String::new())));
        }
        if rows.is_empty() {
            return Ok(());
        }
        output.line("")?;
        output.line(paint.dim("Needs attention"))?;
        for (what, command) in rows {
            let lines = wrap(&what, output.width.saturating_sub(2));
            let last = lines.last().map_or(0, |line| width(line));
            let is_beside = 4 + last + width(&command) <= output.width;
            let command = paint.code(command);
            for (n, line) in lines.iter().enumerate() {
                let behind =
                    if is_beside && n + 1 == lines.len() { format!("  {command}") } else { String::new() };
                output.line(format!("  {}{behind}", paint.warn(line)))?;
            }
            if !is_beside {
                output.line(format!("    {command}"))?;
            }
        }
        Ok(())
    }
}

/// OpenCode's homes, as the overview describes them.
#[derive(Default)]
struct DescribedHomes {
    rows: Vec<wire::Home>,
    /// Counts of readable documents, a value for each row, also of damaged homes.
    extents: Vec<Extent>,
    /// The sessions of each home that has a path.
    held: Vec<(PathBuf, HashSet<SessionId>)>,
}

fn describe_homes(context: &Context, homes: &Homes) -> Result<DescribedHomes, CliError> {
    let found;
    let homes = match homes {
        Homes::Direct(homes) => homes,
        Homes::Store(store) => {
            found = if store.is_named { Vec::new() } else { context.open_found().unwrap_or_default() };
            &found
        }
    };
    let mut described = DescribedHomes::default();
    for home in homes {
        let sessions = home.sessions(&SessionQuery::default())?;
        let Some(inspected) = home.inspect() else { continue };
        let readable = inspected.extent()?;
        let row = wire::Home::of(home.url().to_string(), &sessions, &readable, inspected.remarks());
        described.rows.push(row);
        described.extents.push(readable);
        if let Some(path) = home.url().path() {
            let ids = sessions.value.into_iter().map(|record| record.id).collect();
            described.held.push((path.to_owned(), ids));
        }
    }
    Ok(described)
}

fn describe_store(store: &OpenedStore, sessions: &[SessionRecord]) -> Result<wire::Store, CliError> {
    let last = store.annals.log(&LogQuery { limit: Some(1), ..LogQuery::default() })?;
    Ok(wire::Store {
        path: store.annals.url().to_string(),
        bytes: store.annals.bytes(),
        sessions: sessions.len(),
        gone: sessions.iter().filter(|session| session.gone.is_some()).count(),
        revision: store.annals.head()?,
        revised: last.first().map(|revision| revision.time),
        synced: matches!(store.freshness, Freshness::Synced),
        index: store.annals.index_bytes().map(|bytes| wire::TextIndex { bytes }),
    })
}

fn print_home(output: &mut Output, home: &wire::Home, readable: &Extent) -> std::io::Result<()> {
    let (messages, parts) = (count(readable.messages, "message"), count(readable.parts, "part"));
    let facts = match home.damaged {
        false => format!("{}, {}", count(home.sessions, "session"), bytes(home.bytes)),
        true => format!(
            "{}, messages and parts unknown: the database is damaged ({messages} and {parts} can be read)",
            count(home.sessions, "session")
        ),
    };
    print_place(output, &home.url, &facts)
}

fn print_store(output: &mut Output, store: &wire::Store) -> std::io::Result<()> {
    let mut facts = vec![format!("your store, {}", count(store.sessions, "session"))];
    if store.gone > 0 {
        facts.push(format!("{} of them gone from OpenCode", grouped(store.gone)));
    }
    facts.push(bytes(store.bytes + store.index.as_ref().map_or(0, |index| index.bytes)));
    if !store.synced {
        facts.push("not synced now".to_owned());
    }
    print_place(output, &store.path, &facts.join(", "))
}

/// A place and what is in it, in one line if they fit.
fn print_place(output: &mut Output, place: &str, facts: &str) -> std::io::Result<()> {
    let paint = output.paint;
    let place = one_line(place);
    if 2 + width(&place) + 2 + width(facts) <= output.width {
        return output.line(format!("  {place}  {}", paint.dim(facts)));
    }
    output.line(format!("  {place}"))?;
    for line in wrap(facts, output.width.saturating_sub(4)) {
        output.line(format!("    {}", paint.dim(line)))?;
    }
    Ok(())
}

fn print_hints(output: &mut Output) -> std::io::Result<()> {
    let paint = output.paint;
    output.line("")?;
    let words = "annals list · show last · search WORDS · stats · --help";
    for line in wrap(words, output.width) {
        output.line(paint.code(line))?;
    }
    Ok(())
}

fn print_heading(output: &mut Output, heading: &str) -> std::io::Result<()> {
    for line in wrap(heading, output.width) {
        output.line(output.paint.bold(line))?;
    }
    Ok(())
}

/// The sessions of the user's directories that the databases beside them lack.
pub(crate) fn find_left_behind(context: &Context, homes: &Homes) -> Result<Vec<wire::Rescue>, CliError> {
    Ok(left_behind(&describe_homes(context, homes)?.held))
}

/// Counts the sessions of directories that no database beside them has: OpenCode since 1.16 does not take them over, and
/// earlier versions leave some behind.
fn left_behind(held: &[(PathBuf, HashSet<SessionId>)]) -> Vec<wire::Rescue> {
    let is_beside =
        |directory: &Path, database: &Path| database.is_file() && database.parent() == Some(directory);
    let rescue = |(directory, sessions): &(PathBuf, HashSet<SessionId>)| {
        let absolute = std::path::absolute(directory).ok()?;
        let databases: Vec<_> = held.iter().filter(|(path, _)| is_beside(&absolute, path)).collect();
        let (database, _) = databases.first()?;
        let is_missing = |session: &&SessionId| !databases.iter().any(|(_, known)| known.contains(*session));
        let n_missing = sessions.iter().filter(is_missing).count();
        let storage = directory.join("storage");
        let from = if storage.is_dir() { &storage } else { directory };
        (n_missing > 0).then(|| wire::Rescue {
            sessions: n_missing,
            from: from.display().to_string(),
            to: database.display().to_string(),
        })
    };
    held.iter().filter_map(rescue).collect()
}
