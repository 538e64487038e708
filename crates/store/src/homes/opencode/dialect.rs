//! What the generations of OpenCode do differently when they write a conversation.

use annals_core::json::{Text, is_js_space};
use annals_core::lens::{ErrorData, MessageError};

/// The error of a call that was running when its turn was aborted.
pub(crate) const CALL_ABORTED: &str = "Tool execution aborted";

/// The generation of OpenCode whose documents are written. Ordered by age.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Dialect {
    /// Files, until 1.1.65. An annals store takes documents in any form, and gets these.
    V1_1,
    /// The first databases: 1.2 to 1.15.
    V1_2,
    /// Databases since 1.16.
    V1_18,
}

impl Dialect {
    /// The generation that a version of OpenCode belongs to. A session that names no version is an early one.
    pub(crate) fn of_version(version: Option<&str>) -> Dialect {
        let mut numbers =
            version.unwrap_or_default().split(['.', '-']).map(|number| number.parse::<u32>().ok());
        match (numbers.next().flatten(), numbers.next().flatten()) {
            (Some(major), Some(minor)) if (major, minor) >= (1, 16) => Dialect::V1_18,
            (Some(major), Some(minor)) if (major, minor) >= (1, 2) => Dialect::V1_2,
            _ => Dialect::V1_1,
        }
    }

    /// The version that a new session names as its maker.
    pub(crate) fn version(self) -> &'static str {
        match self {
            Dialect::V1_1 => "1.1.65",
            Dialect::V1_2 => "1.2.27",
            Dialect::V1_18 => "1.18.33",
        }
    }

    /// Whether a session records the agent and the model of its last prompt.
    pub(crate) fn keeps_last_prompt(self) -> bool {
        self >= Dialect::V1_18
    }

    /// The text that is stored when a text or a thought ends.
    pub(crate) fn ended_text(self, text: &str) -> &str {
        match self >= Dialect::V1_18 {
            true => text,
            false => text.trim_end_matches(is_js_space),
        }
    }

    /// Whether the end of a text overwrites its start.
    pub(crate) fn forgets_start(self) -> bool {
        self < Dialect::V1_18
    }

    /// Whether an abort gives an end to texts that are open, and marks open calls as interrupted.
    pub(crate) fn marks_what_it_aborts(self) -> bool {
        self >= Dialect::V1_18
    }

    /// Whether the variant of a prompt stands beside its model, and not in it.
    pub(crate) fn has_variant_beside_model(self) -> bool {
        self < Dialect::V1_18
    }

    /// Whether the tokens of an answer's reasoning are among those of its output.
    pub(crate) fn counts_reasoning_as_output(self) -> bool {
        self < Dialect::V1_18
    }

    /// The tools that a subagent may not use, unless its agent allows them.
    pub(crate) fn tools_denied_to_subagents(self) -> &'static [&'static str] {
        match self >= Dialect::V1_18 {
            true => &["todowrite", "task"],
            false => &["todowrite", "todoread", "task"],
        }
    }

    /// Whether a call that starts a subagent names its own session beside the subagent's.
    pub(crate) fn calls_name_their_session(self) -> bool {
        self >= Dialect::V1_18
    }

    /// Whether the files that were changed are noted with each prompt, and the session's own summary is empty.
    pub(crate) fn sums_up_turns(self) -> bool {
        self >= Dialect::V1_18
    }

    /// Whether a compaction keeps the last turns beside the summary.
    pub(crate) fn keeps_tail(self) -> bool {
        self >= Dialect::V1_18
    }

    /// Whether the prompt that goes on after a compaction is marked as such.
    pub(crate) fn marks_continuation(self) -> bool {
        self >= Dialect::V1_18
    }

    /// Whether the working trees of a project have snapshot repositories of their own.
    pub(crate) fn has_repository_of_worktree(self) -> bool {
        self >= Dialect::V1_18
    }

    /// Whether a difference of files is written as a patch, and not as both texts.
    pub(crate) fn writes_patches(self) -> bool {
        self >= Dialect::V1_18
    }

    /// The error of an answer that was aborted.
    pub(crate) fn aborted(self) -> MessageError<'static> {
        let message: Text<'static> = match self >= Dialect::V1_18 {
            true => "Aborted".into(),
            false => "The operation was aborted.".into(),
        };
        MessageError {
            name: Some("MessageAbortedError".into()),
            data: Some(ErrorData { message: Some(message), ..Default::default() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_has_a_generation() {
        for (version, expected) in [
            (None, Dialect::V1_1),
            (Some("0.5.29"), Dialect::V1_1),
            (Some("1.1.65"), Dialect::V1_1),
            (Some("1.2.0"), Dialect::V1_2),
            (Some("1.15.13"), Dialect::V1_2),
            (Some("1.18.33"), Dialect::V1_18),
            (Some("2.0.0-beta"), Dialect::V1_18),
            (Some("local"), Dialect::V1_1),
        ] {
            assert_eq!(Dialect::of_version(version), expected, "{version:?}");
        }
    }

    #[test]
    fn the_end_of_a_text_is_trimmed_as_javascript_does() {
        for (text, expected) in
            [("a b \n\t", "a b"), ("a\u{feff}\u{3000}", "a"), ("a\u{85}", "a\u{85}"), (" \n", "")]
        {
            assert_eq!(Dialect::V1_1.ended_text(text), expected);
            assert_eq!(Dialect::V1_18.ended_text(text), text);
        }
    }
}
