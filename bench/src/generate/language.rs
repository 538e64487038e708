//! The four languages the projects are written in, as templates of their commonest lines.

use super::words::Form;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    Rust,
    TypeScript,
    Python,
    Go,
}

impl Language {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Language::Rust => "rust",
            Language::TypeScript => "ts",
            Language::Python => "python",
            Language::Go => "go",
        }
    }

    pub(crate) fn ending(self) -> &'static str {
        match self {
            Language::Rust => "rs",
            Language::TypeScript => "ts",
            Language::Python => "py",
            Language::Go => "go",
        }
    }

    /// How names are written in it.
    pub(crate) fn names(self) -> Form {
        match self {
            Language::Rust | Language::Python => Form::Snake,
            Language::TypeScript | Language::Go => Form::Camel,
        }
    }

    pub(crate) fn idioms(self) -> &'static Idioms {
        match self {
            Language::Rust => &RUST,
            Language::TypeScript => &TYPESCRIPT,
            Language::Python => &PYTHON,
            Language::Go => &GO,
        }
    }
}

/// How the language looks: templates for [`Scope`](super::code::Scope) to fill.
#[derive(Debug)]
pub(crate) struct Idioms {
    pub(crate) indent: &'static str,
    pub(crate) close: Option<&'static str>,
    pub(crate) comments: &'static [&'static str],
    pub(crate) functions: &'static [&'static str],
    pub(crate) blocks: &'static [&'static str],
    pub(crate) statements: &'static [&'static str],
}

const RUST: Idioms = Idioms {
    indent: "    ",
    close: Some("}"),
    comments: &["// $s $s", "/// $s $s $s.", "// TODO: $s"],
    functions: &[
        "pub fn $n($n: &$T, $n: usize) -> Result<$T, $T> {",
        "fn $n(&mut self, $n: &str) -> Option<$T> {",
        "pub(crate) fn $n<$T: $T>($n: $T) -> impl Iterator<Item = $T> {",
        "impl $T for $T {",
        "pub struct $T {",
    ],
    blocks: &[
        "if $e == $e {",
        "for $n in $e {",
        "match $e {",
        "while let Some($n) = $n.next() {",
        "if let Some($n) = self.$n.get(&$e) {",
    ],
    statements: &[
        "let $n = $e?;",
        "let mut $n: Vec<$T> = $T::new($e);",
        "$n.$n($e, $e);",
        "self.$n.push($T { $n, $n: $e });",
        "return Err($T::$T($e));",
        "tracing::debug!($n, \"$s\");",
        "assert_eq!($e, $e, \"$s\");",
        "let $n = $e.iter().map(|$n| $e).collect::<Vec<_>>();",
        "$n += $e;",
        "pub $n: Option<$T>,",
        "$T::$T { $n, .. } => $e,",
        "use crate::$n::{$T, $n};",
    ],
};

const TYPESCRIPT: Idioms = Idioms {
    indent: "  ",
    close: Some("}"),
    comments: &["// $s $s", "/** $s $s $s */", "// TODO: $s"],
    functions: &[
        "export function $n($n: $T, $n: string): $T {",
        "export async function $n($n: $T) {",
        "const $n = ($n: $T): $T[] => {",
        "export interface $T {",
        "describe(\"$s\", () => {",
    ],
    blocks: &["if (!$e) {", "for (const $n of $e) {", "try {", "switch ($e) {", "while ($e < $e) {"],
    statements: &[
        "const $n = await $e",
        "const { $n, $n } = $e",
        "$n.$n = $e ?? $e",
        "return $n.map(($n) => $e)",
        "throw new $T(\"$s: \" + $e)",
        "expect($e).toBe($e)",
        "import { $T, $n } from \"./$w/$w\"",
        "log.info(\"$s\", { $n, $n: $e })",
        "$n: $T[]",
        "case $e: return $e",
    ],
};

const PYTHON: Idioms = Idioms {
    indent: "    ",
    close: None,
    comments: &["# $s $s", "\"\"\"$s $s $s.\"\"\"", "# TODO: $s"],
    functions: &[
        "def $n($n, $n=None):",
        "class $T($T):",
        "async def $n(self, $n: $T) -> $T:",
        "def test_$n($n):",
    ],
    blocks: &["if $e is None:", "for $n in $e:", "with $n($e) as $n:", "try:", "while $n < $e:"],
    statements: &[
        "$n = $e",
        "self.$n = $n[\"$w\"]",
        "raise $T(f\"$s {$n}\")",
        "logger.info(\"$s %s\", $e)",
        "return {\"$w\": $e, \"$w\": $e}",
        "assert $e == $e",
        "$n.append($T($n, $n=$e))",
        "from $w.$w import $T",
        "yield $e",
        "$n = [$e for $n in $e]",
    ],
};

const GO: Idioms = Idioms {
    indent: "\t",
    close: Some("}"),
    comments: &["// $s $s", "// TODO: $s"],
    functions: &[
        "func $n($n *$T, $n string) (*$T, error) {",
        "func ($n *$T) $T($n int) error {",
        "type $T struct {",
    ],
    blocks: &["if err != nil {", "for _, $n := range $e {", "switch $e {", "if $n, ok := $n[$e]; ok {"],
    statements: &[
        "$n, err := $e",
        "return nil, fmt.Errorf(\"$s: %w\", err)",
        "$n.$T = append($n.$T, $e)",
        "log.Printf(\"$s %v\", $e)",
        "$n := make(map[string]$T, $d)",
        "defer $n.$T()",
        "t.Fatalf(\"$s: got %d, want $d\", $e)",
        "$T []$T `json:\"$n\"`",
        "case $e: return $e, nil",
    ],
};
