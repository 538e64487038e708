//! `annals search`

use std::collections::HashMap;

use annals::home::SessionRecord;
use annals::model::id::SessionId;
use annals::model::search::query::{Filter, FilterField, Query, QueryWords, parse};
use annals::model::search::snippet::Snippet;
use annals::model::search::{ContextLine, context_of};
use annals::query::SessionQuery;
use annals::search::{Hit, Hits, LineFinder, SearchError, SearchRequest, Wanted};
use annals::store::Store;
use annals::sync::Stage;
use annals::wire;

use crate::context::Context;
use crate::error::{CliError, CommandResult, Outcome};
use crate::filters::Filters;
use crate::homes::Freshness;
use crate::output::{Output, Painter};
use crate::project_names::ProjectNames;
use crate::short_id::ShortIds;
use crate::text::{count, cut, grouped, harmless, one_line, width, wrap};
use crate::time_arg::parse_time;

/// Find what was said: words, phrases, or any text
///
/// Answers from the text index, the best hits first. Words match in any case, also as pieces of names such as
/// `getUserName` or `src/main.rs`. With `--substring` or `--regex` every document is read instead, and the latest hits come
/// first. `--since` and `--until` refer to the time of a message.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Queries:
  parse error            both words, anywhere in the text, also as `parsed` and `errors`
  \"error\"                this form of the word only
  \"parse error\"          side by side
  pars*                  words that begin with `pars`
  parse OR lex           either word; AND binds closer and may be left out
  parse -test            the first word without the second; also NOT test
  (parse OR lex) error   grouped
  tool:bash -role:user   in calls of bash, not in prompts; also type:, agent:, model:
  since:7d project:.     narrow the whole search; also until:, dir:

Examples:
  annals search empty cart
  annals search '\"empty cart\" -test since:7d'
  annals search timeout --tool bash --project . -C 3
  annals search --regex 'TODO\\(\\w+\\)' --role assistant
  annals search --substring '0x1f' --json | jq -r '.[].snippet'")]
pub(crate) struct SearchArgs {
    /// What to search for; quote it for the shell if it has quotation marks, `*`, `(` or a word that begins with `-`
    #[arg(required = true, value_name = "QUERY")]
    query: Vec<String>,
    #[command(flatten)]
    filters: Filters,
    /// Only messages of this role: `user` or `assistant`
    #[arg(long, value_name = "ROLE")]
    role: Option<String>,
    /// Only calls of this tool
    #[arg(long, value_name = "TOOL")]
    tool: Option<String>,
    /// Only parts of this type: text, reasoning, tool, file, …; `title` for titles of sessions
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,
    /// Take the query as a regular expression
    #[arg(long, conflicts_with = "substring")]
    regex: bool,
    /// Take the query as literal text
    #[arg(long)]
    substring: bool,
    /// Ignore case with `--regex` and `--substring`; a search for words always does
    #[arg(short, long)]
    ignore_case: bool,
    /// Show N lines around the line that was found
    #[arg(short = 'C', long, value_name = "N", num_args = 0..=1, default_missing_value = "2")]
    context: Option<usize>,
    /// Show at most N hits
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    limit: usize,
    /// Skip the first N hits
    #[arg(long, value_name = "N", default_value_t = 0)]
    offset: usize,
}

/// Characters of a snippet on the screen, in lines of 76.
const SNIPPET: usize = 150;
const SNIPPET_JSON: usize = 240;

pub(crate) fn run(context: &Context, args: &SearchArgs) -> CommandResult {
    let text = args.query.join(" ");
    // A query that cannot be parsed is refused before anything is opened.
    let query = match args.regex || args.substring {
        true => None,
        false => Some(parse(&text).map_err(|error| at_place(&text, error.at, &error.to_string()))?),
    };
    let stage = if query.is_some() { Stage::Text } else { Stage::Parts };
    let (store, _temporary) = context.open_searchable(stage)?;
    let is_synced = matches!(store.freshness, Freshness::Synced);
    let store = &*store.annals;
    // A store that was not synced is indexed all the same.
    if query.is_some() && !is_synced && !store.is_read_only() {
        let progress = context.progress(0, "indexing documents");
        store.update_index(&|done, total| progress.reach(done, total))?;
    }
    let request = request(context, args, store, query, text)?;
    let mut hits = match store.search(&request) {
        // The index holds nothing that is not in the store.
        Err(SearchError::Index { .. }) if context.is_syncing && !store.is_read_only() => {
            context.warn("the text index is damaged and is being rebuilt");
            let progress = context.progress(0, "indexing documents");
            store.rebuild_index(&|done, total| progress.reach(done, total))?;
            drop(progress);
            store.search(&request)?
        }
        hits => hits?,
    };
    // Another process may have committed since the index was brought up to date.
    if hits.unindexed > 0 && !store.is_read_only() {
        let progress = context.progress(0, "indexing documents");
        store.update_index(&|done, total| progress.reach(done, total))?;
        drop(progress);
        hits = store.search(&request)?;
    }
    if context.json {
        let mut output = context.plain_output();
        output.json_array(hits.hits.iter().map(wire::SearchHit::from))?;
        output.finish()?;
    } else {
        print(context, args, store, &request, &hits)?;
    }
    if hits.unindexed == 0 {
        return Ok(Outcome::Done);
    }
    context.warn(&format!(
        "the text index lacks {}; hits in them are missing",
        count(hits.unindexed, "document")
    ));
    Ok(Outcome::WithProblems)
}

fn request(
    context: &Context,
    args: &SearchArgs,
    store: &dyn Store,
    query: Option<Query>,
    text: String,
) -> Result<SearchRequest, CliError> {
    let time =
        |text: &Option<String>| text.as_deref().map(|text| parse_time(text, &context.clock)).transpose();
    let named = [
        (FilterField::Role, &args.role),
        (FilterField::Tool, &args.tool),
        (FilterField::Type, &args.kind),
        (FilterField::Agent, &args.filters.agent),
        (FilterField::Model, &args.filters.model),
    ];
    let filters = named
        .into_iter()
        .filter_map(|(field, value)| Some(Filter { field, value: value.clone()? }))
        .collect();
    // Times refer to the message, not to when its session was last used.
    let mut narrowed = Filters {
        project: args.filters.project.clone(),
        dir: args.filters.dir.clone(),
        roots: args.filters.roots,
        archived: args.filters.archived,
        ..Filters::default()
    };
    let (mut since, mut until) = (time(&args.filters.since)?, time(&args.filters.until)?);
    let wanted = match query {
        Some(query) => {
            let (query, places) = split(query)?;
            for Filter { field, value } in places {
                let twice = || CliError::usage(format!("{} is given more than once", field.name()));
                match field {
                    FilterField::Project if narrowed.project.is_some() => return Err(twice()),
                    FilterField::Project => narrowed.project = Some(value),
                    FilterField::Directory if narrowed.dir.is_some() => return Err(twice()),
                    FilterField::Directory => narrowed.dir = Some(value),
                    FilterField::Since => since = since.max(Some(parse_time(&value, &context.clock)?)),
                    _ => {
                        let value = parse_time(&value, &context.clock)?;
                        until = Some(until.map_or(value, |until| until.min(value)));
                    }
                }
            }
            Wanted::Words(query)
        }
        None if args.regex => Wanted::Regex { pattern: text, ignore_case: args.ignore_case },
        None => Wanted::Substring { text, ignore_case: args.ignore_case },
    };
    let sessions: SessionQuery = context.query(store, &narrowed)?;
    Ok(SearchRequest {
        wanted,
        sessions,
        since,
        until,
        filters,
        offset: args.offset,
        limit: args.limit,
        now: context.clock.now,
        snippet_width: if context.json { SNIPPET_JSON } else { SNIPPET },
    })
}

/// Takes the filters by session and time out of a query: the index does not know them.
fn split(query: Query) -> Result<(Query, Vec<Filter>), CliError> {
    let items = match query {
        Query::All(items) => items,
        other => vec![other],
    };
    let mut rest = Vec::new();
    let mut places = Vec::new();
    for item in items {
        match item {
            Query::Filter(filter) if is_place(filter.field) => places.push(filter),
            other => {
                if let Some(filter) = nested(&other) {
                    let name = filter.field.name();
                    return Err(CliError::usage(format!(
                        "`{name}:` cannot be used inside OR, NOT or parentheses"
                    ))
                    .hint(format!(
                        "put `{name}:{}` beside them: it narrows the whole search",
                        filter.value
                    )));
                }
                rest.push(other);
            }
        }
    }
    let is_negative = |item: &Query| matches!(item, Query::Not(_));
    match rest.len() {
        0 => Err(CliError::usage("nothing to search for: add a word")
            .hint("`annals list` shows sessions by project, directory and time")),
        _ if rest.iter().all(is_negative) => {
            Err(CliError::usage("only exclusions: add a word that must occur"))
        }
        1 => Ok((rest.remove(0), places)),
        _ => Ok((Query::All(rest), places)),
    }
}

fn is_place(field: FilterField) -> bool {
    matches!(field, FilterField::Project | FilterField::Directory | FilterField::Since | FilterField::Until)
}

fn nested(query: &Query) -> Option<&Filter> {
    match query {
        Query::All(items) | Query::Any(items) => items.iter().find_map(nested),
        Query::Not(item) => nested(item),
        Query::Filter(filter) if is_place(filter.field) => Some(filter),
        Query::Filter(_) | Query::Words(_) => None,
    }
}

/// The error for a query, with a caret under the place.
fn at_place(query: &str, at: usize, what: &str) -> CliError {
    let mut error = CliError::usage(what);
    let (before, after) = query.split_at(query.floor_char_boundary(at));
    let (mut before, after) = (one_column(before), one_column(after));
    // Of a long query only the surroundings of the place are shown.
    while width(&before) > 40 {
        before = format!("…{}", before.chars().skip(8).collect::<String>());
    }
    error.details.push(cut(&format!("{before}{after}"), 76).into_owned());
    error.details.push(format!("{}^", " ".repeat(width(&before))));
    error.hint("`annals search --help` shows what a query can be")
}

/// A text in one line, with the same number of characters.
fn one_column(text: &str) -> String {
    harmless(text).replace('\n', " ")
}

fn print(
    context: &Context,
    args: &SearchArgs,
    store: &dyn Store,
    request: &SearchRequest,
    hits: &Hits,
) -> Result<(), CliError> {
    if hits.hits.is_empty() {
        match hits.total {
            0 => suggest(context, store, request)?,
            total => context.note(&format!("only {}", count(total, "hit"))),
        }
        return Ok(());
    }
    let sessions = context.sessions(store, &SessionQuery::default())?.value;
    let screen = HitScreen {
        context,
        store,
        short_ids: ShortIds::of(&sessions),
        names: ProjectNames::of(store),
        sessions: sessions.iter().map(|record| (record.id.clone(), record)).collect(),
        lines: match args.context {
            Some(n) => Some((n, request.wanted.in_lines()?)),
            None => None,
        },
    };
    let mut output = context.paged_output();
    // Hits of one session stand together, where the best of them is.
    let mut groups: Vec<(&Hit, Vec<&Hit>)> = Vec::new();
    for hit in &hits.hits {
        match groups.iter_mut().find(|(first, _)| first.session == hit.session) {
            Some((_, group)) => group.push(hit),
            None => groups.push((hit, vec![hit])),
        }
    }
    for (n, (first, group)) in groups.iter().enumerate() {
        if n > 0 {
            output.line("")?;
        }
        screen.print_group(&mut output, first, group)?;
    }
    let from = if args.offset > 0 { format!("from {}, ", grouped(args.offset + 1)) } else { String::new() };
    let tally = format!(
        "{from}{} of {}; `annals show SESSION --message MESSAGE` reads one",
        grouped(hits.hits.len()),
        count(hits.total, "hit")
    );
    let is_terminal = output.is_terminal;
    if is_terminal {
        output.line("")?;
        output.line(output.paint.dim(&tally))?;
    }
    output.finish()?;
    if !is_terminal {
        context.note(&tally);
    }
    Ok(())
}

/// Says what to try where nothing was found.
fn suggest(context: &Context, store: &dyn Store, request: &SearchRequest) -> Result<(), CliError> {
    context.note("no hits");
    let Wanted::Words(query) = &request.wanted else { return Ok(()) };
    let hint = context.stderr_paint().id("hint:");
    let alone = |wanted: Query| SearchRequest {
        wanted: Wanted::Words(wanted),
        limit: 1,
        offset: 0,
        ..request.clone()
    };
    let mut words: Vec<QueryWords> = Vec::new();
    query.words(&mut words);
    for word in &words {
        let shown = one_line(word.source());
        let n_alone = match words.len() {
            1 => 0,
            _ => store.search(&alone(Query::Words(word.clone())))?.total,
        };
        if n_alone > 0 {
            context.note(&format!("{hint} {shown:?} alone has {}", count(n_alone, "hit")));
            continue;
        }
        let begin = format!("{}*", word.source());
        let n_begin = match parse(&begin) {
            Ok(begin) => store.search(&alone(begin))?.total,
            Err(_) => 0,
        };
        let similar = store.similar(&word.source().to_lowercase(), 3)?;
        if n_begin > 0 {
            let n = count(n_begin, "hit");
            context.note(&format!("{hint} `{shown}*`, words that begin with it, has {n}"));
        }
        if !similar.is_empty() {
            let similar: Vec<String> = similar.iter().map(|word| one_line(word)).collect();
            context.note(&format!("{hint} {shown:?} does not occur; did you mean {}?", similar.join(", ")));
        }
    }
    let is_narrowed = request.since.is_some()
        || request.until.is_some()
        || !request.filters.is_empty()
        || !request.sessions.admits_all();
    if is_narrowed {
        context.note(&format!("{hint} the search was narrowed; without filters there may be hits"));
    }
    context.note(&format!("{hint} `--substring` also finds text inside of words"));
    Ok(())
}

/// Hits on the screen.
struct HitScreen<'s> {
    context: &'s Context,
    store: &'s dyn Store,
    short_ids: ShortIds,
    names: ProjectNames,
    sessions: HashMap<SessionId, &'s SessionRecord>,
    /// How many lines around the one that was found are shown, and what finds it.
    lines: Option<(usize, LineFinder)>,
}

impl HitScreen<'_> {
    fn print_group(&self, output: &mut Output, first: &Hit, group: &[&Hit]) -> Result<(), CliError> {
        let paint = output.paint;
        let id = self.short_ids.shorten(first.session.as_str());
        let record = self.sessions.get(&first.session);
        let project = record
            .map(|record| self.names.short(&record.project, record.info.directory()))
            .unwrap_or_default();
        let when = record.map(|record| self.context.clock.when(record.info.last_used())).unwrap_or_default();
        let mut facts: Vec<String> = [project, when].into_iter().filter(|fact| !fact.is_empty()).collect();
        let room = |facts: &[String]| output.width.saturating_sub(width(id) + 4 + width(&facts.join(" · ")));
        // The title is what a session is recognised by: the rest gives way to it.
        while !facts.is_empty() && room(&facts) < 20 {
            facts.remove(0);
        }
        let columns = room(&facts);
        let facts = facts.join(" · ");
        // A hit in the title is shown in the title.
        let (titles, others): (Vec<&Hit>, Vec<&Hit>) = group.iter().partition(|hit| hit.message.is_none());
        let title = match titles.first() {
            Some(hit) => marked(&hit.snippet, columns, paint).into_iter().next().unwrap_or_default(),
            None => paint.bold(cut(&one_line(&first.title), columns)),
        };
        output.line(format!("{}  {title}  {}", paint.id(id), paint.dim(facts)))?;
        for hit in others {
            self.print_hit(output, hit)?;
        }
        Ok(())
    }

    fn print_hit(&self, output: &mut Output, hit: &Hit) -> Result<(), CliError> {
        let paint = output.paint;
        let mut facts = Vec::new();
        facts.extend(
            hit.role.as_deref().map(|role| if role == "user" { "you".to_owned() } else { one_line(role) }),
        );
        facts.extend(match &hit.tool {
            Some(tool) => Some(one_line(tool)),
            None if hit.kind == "text" => None,
            None => Some(one_line(&hit.kind)),
        });
        facts.extend(hit.time.map(|time| self.context.clock.date_time(time)));
        // Time and counter of an id tell it from all others of a session.
        let message = hit.message.as_ref().map(|message| message.as_str()).unwrap_or_default();
        facts.push(message.get(..16).unwrap_or(message).to_owned());
        // The id is what `show --message` takes: the rest gives way to it.
        let room = output.width.saturating_sub(2);
        while facts.len() > 1 && width(&facts.join(" · ")) > room {
            facts.remove(facts.len() - 2);
        }
        output.line(format!("  {}", paint.dim(facts.join(" · "))))?;
        let columns = output.width.saturating_sub(4);
        let around = match &self.lines {
            Some((n, finder)) => self.lines_around(hit, *n, finder)?,
            None => Vec::new(),
        };
        if around.is_empty() {
            for line in marked(&hit.snippet, columns, paint) {
                output.line(format!("    {line}"))?;
            }
            return Ok(());
        }
        for line in around {
            let shown = Snippet { text: line.text, highlights: line.highlights, ..Snippet::default() };
            let bar = if shown.highlights.is_empty() { paint.dim("│") } else { paint.found("│") };
            let columns = columns.saturating_sub(2);
            if shown.highlights.is_empty() {
                output.line(format!("    {bar} {}", cut(&one_column(&shown.text), columns)))?;
                continue;
            }
            for line in marked(&shown, columns, paint) {
                output.line(format!("    {bar} {line}"))?;
            }
        }
        Ok(())
    }

    /// The line of a hit's document that was found, with the lines around it.
    fn lines_around(&self, hit: &Hit, n: usize, finder: &LineFinder) -> Result<Vec<ContextLine>, CliError> {
        let Some(key) = hit.key() else { return Ok(Vec::new()) };
        let stored = self.store.document(&key)?;
        Ok(stored.map(|stored| context_of(&key, &stored.document, n, &**finder)).unwrap_or_default())
    }
}

/// The lines of a snippet, with the matches set off by colour.
fn marked(snippet: &Snippet, columns: usize, paint: Painter) -> Vec<String> {
    // The marks travel through wrapping as characters that take no room, and that no harmless text has.
    const OPEN: char = '\u{200e}';
    const CLOSE: char = '\u{200f}';
    let mut text = String::new();
    let mut at = 0;
    if snippet.is_cut_before {
        text.push('…');
    }
    for range in &snippet.highlights {
        let (Some(before), Some(found)) =
            (snippet.text.get(at..range.start), snippet.text.get(range.clone()))
        else {
            continue;
        };
        text.push_str(&one_column(before));
        text.push(OPEN);
        text.push_str(&one_column(found));
        text.push(CLOSE);
        at = range.end;
    }
    text.push_str(&one_column(snippet.text.get(at..).unwrap_or_default()));
    if snippet.is_cut_after {
        text.push('…');
    }
    let mut is_open = false;
    wrap(&text, columns)
        .into_iter()
        .map(|line| {
            let mut shown = String::new();
            for piece in line.split_inclusive([OPEN, CLOSE]) {
                let plain = piece.trim_end_matches([OPEN, CLOSE]);
                shown.push_str(&if is_open { paint.found(plain) } else { plain.to_owned() });
                is_open = match piece.chars().next_back() {
                    Some(OPEN) => true,
                    Some(CLOSE) => false,
                    _ => is_open,
                };
            }
            shown
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_is_marked_across_lines() {
        let text = "one two three four five six".to_owned();
        let snippet = Snippet {
            highlights: vec![4..7, 14..23],
            is_cut_before: true,
            is_cut_after: false,
            text,
            ..Snippet::default()
        };
        let plain = marked(&snippet, 20, Painter { color: false });
        assert_eq!(plain, ["…one two three four", "five six"]);
        let paint = Painter { color: true };
        assert_eq!(
            marked(&snippet, 20, paint),
            [
                format!("…one {} three {}", paint.found("two"), paint.found("four")),
                format!("{} six", paint.found("five"))
            ]
        );
    }

    #[test]
    fn a_caret_is_under_the_place() {
        let error = at_place("日本 \"open", 7, "a quotation mark is not closed");
        assert_eq!(error.details, ["日本 \"open", "     ^"]);
        let long = format!("{} (", "word ".repeat(40));
        let error = at_place(&long, long.len() - 1, "unbalanced");
        assert_eq!(error.details[0].find('('), error.details[1].find('^').map(|at| at + '…'.len_utf8() - 1));
    }

    #[test]
    fn places_and_times_are_taken_out_of_a_query() {
        let check = |text: &str| {
            let split = split(parse(text).unwrap());
            split.map(|(query, places)| (query.to_string(), places.len())).map_err(|error| error.message)
        };
        assert_eq!(check("cart since:7d project:shop"), Ok(("cart".to_owned(), 2)));
        assert_eq!(check("role:user until:1d"), Ok(("role:user".to_owned(), 1)));
        assert_eq!(check("a b -c dir:/x"), Ok(("a b -c".to_owned(), 1)));
        assert_eq!(check("since:7d").unwrap_err(), "nothing to search for: add a word");
        assert_eq!(check("since:7d -c").unwrap_err(), "only exclusions: add a word that must occur");
        for nested in ["cart OR since:7d", "cart -project:x", "a (b OR (c dir:/x))"] {
            assert!(check(nested).unwrap_err().contains("cannot be used inside OR, NOT"), "{nested}");
        }
    }
}
