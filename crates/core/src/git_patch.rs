//! The patch of a file as git writes and applies it: the lines that changed, with a few around each.

use crate::file_patch::{self, RunKind};

/// Unchanged lines around a change.
const AROUND: usize = 3;

/// The patch that makes `after` of `before`; `None` where there is no file. Empty if nothing changes.
pub fn git_patch(file: &str, before: Option<&str>, after: Option<&str>) -> String {
    if before == after {
        return String::new();
    }
    let (a, b) = (quoted("a/", file), quoted("b/", file));
    let mut patch = format!("diff --git {a} {b}\n");
    match (before, after) {
        (None, Some(_)) => patch.push_str("new file mode 100644\n"),
        (Some(_), None) => patch.push_str("deleted file mode 100644\n"),
        _ => {}
    }
    let (old, new) = (before.unwrap_or_default(), after.unwrap_or_default());
    let hunks = hunks(old, new);
    if !hunks.is_empty() {
        // A name with spaces is told from the time that may follow it by a tab.
        let end = if file.contains(' ') { "\t" } else { "" };
        let named = |name: &str, text: Option<&str>| match text {
            Some(_) => format!("{name}{end}"),
            None => "/dev/null".to_owned(),
        };
        patch.push_str(&format!("--- {}\n+++ {}\n{hunks}", named(&a, before), named(&b, after)));
    }
    patch
}

/// A line of an edit.
struct Line<'t> {
    kind: RunKind,
    text: &'t str,
}

fn hunks(old: &str, new: &str) -> String {
    let (old, new) = (file_patch::lines(old), file_patch::lines(new));
    let mut lines: Vec<Line<'_>> = Vec::new();
    let (mut from, mut to) = (old.iter(), new.iter());
    for run in file_patch::runs(&old, &new) {
        for _ in 0..run.count {
            let text = match run.kind {
                RunKind::Removed => from.next(),
                RunKind::Added => to.next(),
                RunKind::Common => {
                    from.next();
                    to.next()
                }
            };
            lines.push(Line { kind: run.kind, text: text.copied().unwrap_or_default() });
        }
    }
    let mut text = String::new();
    // Lines of either file that are behind.
    let (mut n_old, mut n_new, mut begin) = (0, 0, 0);
    while let Some(first) = (begin..lines.len()).find(|at| lines[*at].kind != RunKind::Common) {
        let end = end_of_hunk(&lines, first);
        let start = first.saturating_sub(AROUND).max(begin);
        let skipped = start - begin;
        (n_old, n_new) = (n_old + skipped, n_new + skipped);
        let hunk = &lines[start..end];
        let count = |skip: RunKind| hunk.iter().filter(|line| line.kind != skip).count();
        let (of_old, of_new) = (count(RunKind::Added), count(RunKind::Removed));
        // An empty range stands after the line it names.
        let at = |behind: usize, count: usize| if count == 0 { behind } else { behind + 1 };
        text.push_str(&format!("@@ -{},{of_old} +{},{of_new} @@\n", at(n_old, of_old), at(n_new, of_new)));
        for line in hunk {
            text.push(line.kind.sign());
            text.push_str(line.text);
            if !line.text.ends_with('\n') {
                text.push_str("\n\\ No newline at end of file\n");
            }
        }
        (n_old, n_new, begin) = (n_old + of_old, n_new + of_new, end);
    }
    text
}

/// The end of the hunk that begins with the change at `first`: changes with few lines between them share one.
fn end_of_hunk(lines: &[Line<'_>], first: usize) -> usize {
    let mut last = first;
    for (at, line) in lines.iter().enumerate().skip(first) {
        if line.kind != RunKind::Common {
            last = at;
        } else if at - last > 2 * AROUND {
            break;
        }
    }
    (last + 1 + AROUND).min(lines.len())
}

/// A name as git writes it in a patch: between quotes if it has characters that could end it.
fn quoted(prefix: &str, name: &str) -> String {
    let is_plain = |c: char| !c.is_control() && c != '"' && c != '\\';
    if name.chars().all(is_plain) {
        return format!("{prefix}{name}");
    }
    let mut text = format!("\"{prefix}");
    for c in name.chars() {
        match c {
            '"' | '\\' => text.extend(['\\', c]),
            '\n' => text.push_str("\\n"),
            '\t' => text.push_str("\\t"),
            c if is_plain(c) => text.push(c),
            c => {
                let mut bytes = [0; 4];
                c.encode_utf8(&mut bytes).bytes().for_each(|byte| text.push_str(&format!("\\{byte:03o}")));
            }
        }
    }
    text + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_changed_is_shown_with_lines_around() {
        let numbers = |skip: usize| -> String {
            (1..=20).map(|n| if n == skip { "changed\n".to_owned() } else { format!("{n}\n") }).collect()
        };
        assert_eq!(
            git_patch("a.txt", Some(&numbers(0)), Some(&numbers(10))),
            "diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -7,7 +7,7 @@\n 7\n 8\n 9\n-10\n+changed\n 11\n 12\n 13\n"
        );
        assert_eq!(
            git_patch("new file", None, Some("one")),
            "diff --git a/new file b/new file\nnew file mode 100644\n--- /dev/null\n+++ b/new file\t\n@@ -0,0 +1,1 @@\n+one\n\\ No newline at end of file\n"
        );
        assert_eq!(
            git_patch("gone", Some("x\n"), None),
            "diff --git a/gone b/gone\ndeleted file mode 100644\n--- a/gone\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-x\n"
        );
        assert_eq!(git_patch("same", Some("x"), Some("x")), "");
        assert_eq!(git_patch("empty", None, Some("")), "diff --git a/empty b/empty\nnew file mode 100644\n");
        let odd = git_patch("a\"b\n", Some(""), Some("x\n"));
        assert!(odd.starts_with("diff --git \"a/a\\\"b\\n\" \"b/a\\\"b\\n\"\n"), "{odd}");
    }
}
