//! The text of models on a terminal: Markdown, lightly dressed.

use crate::output::Painter;
use crate::text::wrap;

/// Lines of at most `columns`, with code, headings and emphasis set off by colour. They are made one by one, because a text can be
/// too long to hold twice. The text must be `harmless`.
pub(crate) fn lines(text: &str, columns: usize, paint: Painter) -> impl Iterator<Item = String> {
    let mut in_code = false;
    text.trim_end().lines().flat_map(move |line| {
        let dressed = |dress: &dyn Fn(String) -> String| wrap(line, columns).into_iter().map(dress).collect();
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
            vec![paint.dim(line)]
        } else if line.is_empty() {
            vec![String::new()]
        } else if in_code {
            dressed(&|line| paint.code(line))
        } else if line.starts_with('#') {
            dressed(&|line| paint.bold(line))
        } else {
            dressed(&|line| emphasised(&line, paint))
        }
    })
}

/// Paints `code` and **strong** words of one line; without colour the marks say it.
fn emphasised(line: &str, paint: Painter) -> String {
    if !paint.color {
        return line.to_owned();
    }
    let mut out = String::new();
    let mut rest = line;
    while let Some(at) = rest.find(['`', '*']) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let mark = if rest.starts_with('`') { "`" } else { "**" };
        let inner = rest.strip_prefix(mark).and_then(|inner| inner.split_once(mark));
        match inner {
            Some((inner, after)) if !inner.trim().is_empty() => {
                out.push_str(&if mark == "`" { paint.code(inner) } else { paint.bold(inner) });
                rest = after;
            }
            _ => {
                let length = rest.chars().next().map_or(0, char::len_utf8);
                out.push_str(&rest[..length]);
                rest = &rest[length..];
            }
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_become_colours() {
        let paint = Painter { color: true };
        assert_eq!(
            emphasised("use `ls` **now**", paint),
            format!("use {} {}", paint.code("ls"), paint.bold("now"))
        );
        assert_eq!(emphasised("2 * 3 ` open", paint), "2 * 3 ` open");
        assert_eq!(emphasised("use `ls`", Painter { color: false }), "use `ls`");
    }
}
