//! Source code that no compiler would accept, but realistic for a compressor and a search index: indented
//! blocks, calls, strings and comments.

use super::language::{Idioms, Language};
use super::rng::Rng;
use super::text::odd_token;
use super::words::{Form, Words};

/// The names one file uses. Code repeats the same few names, which is why it compresses better than prose.
#[derive(Debug)]
pub(crate) struct Scope<'w> {
    words: &'w Words,
    language: Language,
    names: Vec<&'w str>,
    types: Vec<&'w str>,
}

impl<'w> Scope<'w> {
    pub(crate) fn new(words: &'w Words, language: Language, rng: &mut Rng) -> Self {
        let mut name = || words.rare(if rng.chance(0.4) { Form::Plain } else { language.names() }, rng);
        let names = (0..24).map(|_| name()).collect();
        let types = (0..6)
            .map(|nth| if nth < 2 { words.pascal(rng) } else { words.rare(Form::Pascal, rng) })
            .collect();
        Self { words, language, names, types }
    }

    /// Replaces `$n` by a name, `$T` by a type, `$e` by an expression, `$d` by a number, `$w` by a word and
    /// `$s` by a few of them.
    fn fill(&self, rng: &mut Rng, template: &str, out: &mut String) {
        let mut rest = template;
        while let Some(at) = rest.find('$') {
            out.push_str(&rest[..at]);
            match rest.as_bytes()[at + 1] {
                b'n' => out.push_str(self.name(rng)),
                b'T' => out.push_str(rng.pick(&self.types)),
                b'e' => {
                    let expression = rng.weighted(&EXPRESSIONS);
                    self.fill(rng, expression, out);
                }
                b'd' => out.push_str(&odd_number(rng)),
                b'w' => out.push_str(self.words.plain(rng)),
                _ => {
                    for nth in 0..rng.between(2, 6) {
                        if nth > 0 {
                            out.push(' ');
                        }
                        out.push_str(self.words.plain(rng));
                    }
                }
            }
            rest = &rest[at + 2..];
        }
        out.push_str(rest);
    }

    fn name(&self, rng: &mut Rng) -> &'w str {
        match rng.below(20) {
            0..3 => self.words.rare(self.language.names(), rng),
            3..5 => self.library_name(rng),
            _ => rng.pick(&self.names),
        }
    }

    /// What every file calls: names that are frequent throughout.
    fn library_name(&self, rng: &mut Rng) -> &'w str {
        match self.language.names() {
            Form::Snake => self.words.snake(rng),
            _ => self.words.camel(rng),
        }
    }
}

/// About `n_lines` lines of code: functions, each a block with blocks inside.
pub(crate) fn source(rng: &mut Rng, scope: &Scope<'_>, n_lines: usize) -> Vec<String> {
    let idioms = scope.language.idioms();
    let mut lines = Vec::with_capacity(n_lines + 4);
    let mut depth = 0;
    let mut left_in_function = 0;
    while lines.len() < n_lines {
        if depth == 0 {
            if !lines.is_empty() {
                lines.push(String::new());
            }
            if rng.chance(0.5) {
                push(rng, scope, idioms.comments, 0, &mut lines);
            }
            push(rng, scope, idioms.functions, 0, &mut lines);
            depth = 1;
            left_in_function = rng.size(9.0, 0.6, 2, 60);
        } else if left_in_function == 0 || (depth > 1 && rng.chance(0.3)) {
            depth -= 1;
            close_block(idioms, depth, &mut lines);
        } else {
            left_in_function -= 1;
            if depth < 4 && rng.chance(0.14) {
                push(rng, scope, idioms.blocks, depth, &mut lines);
                depth += 1;
            } else if rng.chance(0.06) {
                push(rng, scope, idioms.comments, depth, &mut lines);
            } else {
                push(rng, scope, idioms.statements, depth, &mut lines);
            }
        }
    }
    while depth > 0 {
        depth -= 1;
        close_block(idioms, depth, &mut lines);
    }
    lines
}

/// Lines to put in the place of others: statements at one depth.
pub(crate) fn statements(rng: &mut Rng, scope: &Scope<'_>, depth: usize, n_lines: usize) -> Vec<String> {
    let mut lines = Vec::with_capacity(n_lines);
    for _ in 0..n_lines {
        push(rng, scope, scope.language.idioms().statements, depth, &mut lines);
    }
    lines
}

fn push(rng: &mut Rng, scope: &Scope<'_>, templates: &[&str], depth: usize, lines: &mut Vec<String>) {
    let template = rng.pick(templates);
    let mut line = scope.language.idioms().indent.repeat(depth);
    scope.fill(rng, template, &mut line);
    lines.push(line);
}

fn close_block(idioms: &Idioms, depth: usize, lines: &mut Vec<String>) {
    if let Some(close) = idioms.close {
        lines.push(idioms.indent.repeat(depth) + close);
    }
}

fn odd_number(rng: &mut Rng) -> String {
    if rng.chance(0.6) { rng.below(10).to_string() } else { odd_token(rng) }
}

/// Most are leaves, so that what nests does not nest for long.
const EXPRESSIONS: [(u64, &str); 9] = [
    (30, "$n"),
    (18, "$n.$n"),
    (8, "$d"),
    (8, "\"$w\""),
    (4, "\"$s\""),
    (10, "$n($e)"),
    (6, "$n.$n($e, $e)"),
    (5, "$n[$e]"),
    (5, "$e + $e"),
];
