//! A filter over the parts of a message: by type, and for tool calls by status.

use crate::document::{Key, Stored};
use crate::json::Node;
use crate::lens::{Part, ToolStatus};

/// A filter over parts; the default admits all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PartFilter {
    /// Types to admit, as in the document (`text`, `tool`, …); empty admits all.
    pub kinds: Vec<String>,
    /// Statuses of tool calls to admit; empty admits all parts.
    pub statuses: Vec<ToolStatus>,
}

impl PartFilter {
    /// Whether a document is a part that the filter admits.
    pub fn admits(&self, stored: &Stored) -> bool {
        let Key::Part(..) = stored.key else { return false };
        self.admits_kind(stored) && self.admits_status(stored)
    }

    fn admits_kind(&self, stored: &Stored) -> bool {
        if self.kinds.is_empty() {
            return true;
        }
        let kind = stored.document.root().get("type").and_then(Node::as_text);
        kind.is_some_and(|kind| self.kinds.iter().any(|wanted| kind == wanted.as_str()))
    }

    fn admits_status(&self, stored: &Stored) -> bool {
        if self.statuses.is_empty() {
            return true;
        }
        match stored.document.lens() {
            Part::Tool(part) => {
                let status = part.state.as_ref().and_then(|state| state.status());
                status.is_some_and(|status| self.statuses.contains(&status))
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Document;
    use crate::id::{MessageId, PartId, SessionId};

    fn part(text: &str) -> Stored {
        let session = SessionId::parse("ses_1").unwrap();
        let key = Key::Part(session, MessageId::parse("msg_1").unwrap(), PartId::parse("prt_1").unwrap());
        Stored::new(key, Document::parse(text.as_bytes().to_vec()).unwrap(), "")
    }

    #[test]
    fn parts_are_told_by_type_and_status() {
        let check = |kinds: &[&str], statuses: &[ToolStatus], document: &str, expected: bool| {
            let kinds = kinds.iter().map(|kind| (*kind).to_owned()).collect();
            let filter = PartFilter { kinds, statuses: statuses.to_vec() };
            assert_eq!(filter.admits(&part(document)), expected, "{filter:?} {document}");
        };
        let text = r#"{"type":"text","text":"x"}"#;
        let failed = r#"{"type":"tool","state":{"status":"error"}}"#;
        let odd = r#"{"type":"tool","state":{"status":"lost"}}"#;
        check(&[], &[], text, true);
        check(&[], &[], "{}", true);
        check(&["text"], &[], text, true);
        check(&["tool", "file"], &[], text, false);
        check(&["text"], &[], "{}", false);
        check(&["later-kind"], &[], r#"{"type":"later-kind"}"#, true);
        check(&[], &[ToolStatus::Error], failed, true);
        check(&["tool"], &[ToolStatus::Pending, ToolStatus::Error], failed, true);
        check(&["text"], &[ToolStatus::Error], failed, false);
        check(&[], &[ToolStatus::Completed], failed, false);
        check(&[], &[ToolStatus::Error], text, false);
        check(&[], &[ToolStatus::Error], odd, false);
        check(&["tool"], &[], odd, true);
        check(&[], &[ToolStatus::Error], r#"{"type":"tool"}"#, false);
    }

    #[test]
    fn what_is_no_part_is_not_wanted() {
        let mut message = part(r#"{"type":"text"}"#);
        message.key = Key::Todo(SessionId::parse("ses_1").unwrap());
        assert!(!PartFilter::default().admits(&message));
    }
}
