//! Provenance: which program wrote a document, and in which of its formats.

/// Which program wrote a document, and in which format. The numbers are part of the stored bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Provenance {
    /// OpenCode, as files or rows: the document is as OpenCode keeps it.
    #[default]
    Opencode = 0,
    /// OpenCode's second transcript store (`session_message`), in the shape of the first. `opencode export` and
    /// `opencode stats` do not see such messages.
    OpencodeSecondStore = 1,
    /// Claude Code: made from a line of a transcript.
    ClaudeCode = 2,
    /// Codex: made from lines of a rollout.
    Codex = 3,
    /// Another program: made from a record of its own.
    Other = 4,
}

impl Provenance {
    /// Every provenance.
    pub const ALL: [Provenance; 5] = [
        Provenance::Opencode,
        Provenance::OpencodeSecondStore,
        Provenance::ClaudeCode,
        Provenance::Codex,
        Provenance::Other,
    ];

    /// The number under which stores keep the provenance.
    pub const fn number(self) -> i64 {
        self as i64
    }

    /// The provenance with a number. An unknown number, from a later version, is [`Provenance::Other`].
    pub fn from_number(number: i64) -> Provenance {
        Provenance::ALL.into_iter().find(|known| known.number() == number).unwrap_or(Provenance::Other)
    }

    /// Name of the program.
    pub const fn agent(self) -> &'static str {
        match self {
            Provenance::Opencode | Provenance::OpencodeSecondStore => "opencode",
            Provenance::ClaudeCode => "claude-code",
            Provenance::Codex => "codex",
            Provenance::Other => "other",
        }
    }

    /// Whether the document is the program's own, byte for byte, and not made from a record of another shape.
    pub const fn is_verbatim(self) -> bool {
        matches!(self, Provenance::Opencode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_provenances_are_one_to_one() {
        for (number, provenance) in Provenance::ALL.into_iter().enumerate() {
            assert_eq!(provenance.number(), number as i64);
            assert_eq!(Provenance::from_number(number as i64), provenance);
        }
        assert_eq!(Provenance::from_number(99), Provenance::Other);
    }
}
