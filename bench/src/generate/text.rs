//! Text by people and models: prompts, answers in Markdown, thoughts, titles.

use super::code::{self, Scope};
use super::language::Language;
use super::rng::Rng;
use super::words::{Form, Words, capital};

/// Number of words that a session keeps coming back to.
const THEME_WORDS: usize = 48;

/// How often the next word is one of them.
const THEME_SHARE: f64 = 0.22;

/// One session's way of talking: the common vocabulary plus a few words of its own, so that a rare
/// word occurs many times in one session instead of once in many, as in real transcripts.
#[derive(Debug)]
pub(crate) struct Author<'w> {
    pub(crate) words: &'w Words,
    pub(crate) language: Language,
    theme: Vec<(Form, &'w str)>,
    scope: Scope<'w>,
}

impl<'w> Author<'w> {
    pub(crate) fn new(words: &'w Words, language: Language, rng: &mut Rng) -> Self {
        let theme = (0..THEME_WORDS).map(|_| words.theme(rng)).collect();
        Self { words, language, theme, scope: Scope::new(words, language, rng) }
    }

    fn word(&self, rng: &mut Rng) -> (Form, &'w str) {
        if rng.chance(THEME_SHARE) { rng.pick(&self.theme) } else { self.words.any(rng) }
    }

    /// Appends one sentence of running text, identifiers in backticks as models and programmers write them.
    pub(crate) fn sentence(&self, rng: &mut Rng, out: &mut String) {
        let n_words = rng.size(11.0, 0.5, 3, 40);
        for nth in 0..n_words {
            if nth > 0 {
                out.push_str(if rng.chance(0.07) { ", " } else { " " });
            }
            if rng.chance(0.02) {
                out.push_str(&odd_token(rng));
                continue;
            }
            let (form, word) = self.word(rng);
            match form {
                Form::Plain | Form::Foreign if nth == 0 => out.push_str(&capital(word)),
                Form::Plain | Form::Foreign => out.push_str(word),
                _ if rng.chance(0.75) => {
                    out.push('`');
                    out.push_str(word);
                    out.push('`');
                }
                _ => out.push_str(word),
            }
        }
        out.push_str(rng.weighted(&[(86, "."), (6, "?"), (3, "!"), (5, ":")]));
    }

    pub(crate) fn paragraph(&self, rng: &mut Rng, n_sentences: usize) -> String {
        let mut out = String::new();
        for nth in 0..n_sentences {
            if nth > 0 {
                out.push(' ');
            }
            self.sentence(rng, &mut out);
        }
        out
    }

    pub(crate) fn phrase(&self, rng: &mut Rng, n_words: u64) -> String {
        let words: Vec<&str> = (0..n_words).map(|_| self.word(rng).1).collect();
        words.join(" ")
    }

    /// A title or a one-line description: a verb and what it is about.
    pub(crate) fn title(&self, rng: &mut Rng) -> String {
        let n_words = rng.between(2, 6);
        format!("{} {}", rng.pick(&VERBS), self.phrase(rng, n_words))
    }

    pub(crate) fn prompt(&self, rng: &mut Rng) -> String {
        let mut out = self.title(rng);
        out.push_str(rng.weighted(&[(3, "."), (2, ", please."), (1, "?"), (1, "!")]));
        for _ in 0..rng.size(2.0, 0.9, 0, 25) {
            out.push(' ');
            self.sentence(rng, &mut out);
        }
        // People paste what went wrong.
        if rng.chance(0.12) {
            out.push_str("\n\n");
            out.push_str(&self.code_block(rng));
        }
        if rng.chance(0.03) {
            out.push(' ');
            out.push_str(rng.pick(&EMOJI));
        }
        out
    }

    /// A model's answer of about `n_blocks` paragraphs, lists, headings and blocks of code.
    pub(crate) fn answer(&self, rng: &mut Rng, n_blocks: usize) -> String {
        let mut blocks = Vec::with_capacity(n_blocks + 1);
        for nth in 0..n_blocks {
            blocks.push(match rng.below(20) {
                0..9 => {
                    let n_sentences = rng.size(2.0, 0.5, 1, 8);
                    self.paragraph(rng, n_sentences)
                }
                9..12 if nth > 0 => self.code_block(rng),
                12..14 if n_blocks > 2 => format!("## {}", self.title(rng)),
                14..18 => self.bullets(rng),
                18 => format!("**{}**: {}", capital(self.words.plain(rng)), self.paragraph(rng, 1)),
                _ => self.paragraph(rng, 1),
            });
        }
        if rng.chance(0.02) {
            blocks.push(rng.pick(&EMOJI).to_owned());
        }
        blocks.join("\n\n")
    }

    /// Thinking aloud: no Markdown, no code.
    pub(crate) fn thought(&self, rng: &mut Rng) -> String {
        let n_paragraphs = rng.size(1.8, 0.6, 1, 12);
        let paragraphs: Vec<String> = (0..n_paragraphs)
            .map(|_| {
                let n_sentences = rng.size(3.0, 0.5, 1, 9);
                self.paragraph(rng, n_sentences)
            })
            .collect();
        paragraphs.join("\n\n")
    }

    fn bullets(&self, rng: &mut Rng) -> String {
        let numbered = rng.chance(0.35);
        let mut out = String::new();
        for nth in 1..=rng.between(2, 6) {
            if nth > 1 {
                out.push('\n');
            }
            if numbered {
                out.push_str(&format!("{nth}. "));
            } else {
                out.push_str("- ");
            }
            self.sentence(rng, &mut out);
        }
        out
    }

    fn code_block(&self, rng: &mut Rng) -> String {
        let n_lines = rng.size(7.0, 0.6, 2, 60);
        let lines = code::source(rng, &self.scope, n_lines);
        format!("```{}\n{}\n```", self.language.name(), lines.join("\n"))
    }
}

/// Numbers, hashes and the like, which are in no vocabulary.
pub(crate) fn odd_token(rng: &mut Rng) -> String {
    match rng.below(10) {
        0..5 => rng.below(100).to_string(),
        5..7 => rng.below(100_000).to_string(),
        7 => format!("{}.{}.{}", rng.below(10), rng.below(30), rng.below(30)),
        8 => rng.hex(7),
        _ => format!("0x{}", rng.hex(4)),
    }
}

const VERBS: [&str; 24] = [
    "Fix",
    "Add",
    "Remove",
    "Explain",
    "Refactor",
    "Rename",
    "Check",
    "Find",
    "Review",
    "Update",
    "Move",
    "Test",
    "Document",
    "Split",
    "Merge",
    "Port",
    "Trace",
    "Speed up",
    "Clean up",
    "Look into",
    "Implement",
    "Replace",
    "Investigate",
    "Simplify",
];

const EMOJI: [&str; 12] = ["🚀", "✅", "🎉", "🔥", "🐛", "⚠️", "👍", "🤔", "💡", "📦", "🧪", "✨"];
