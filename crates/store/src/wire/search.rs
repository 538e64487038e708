//! Hits of a search.

use annals_core::id::{MessageId, Millis, PartId};
use serde::Serialize;

use crate::search::Hit;

/// A hit of a search.
#[derive(Debug, Clone, Serialize)]
pub struct SearchHit<'a> {
    /// The session that was hit.
    #[serde(rename = "sessionID")]
    pub session_id: &'a str,
    /// The message that was hit; `null` for a hit in the title of the session.
    #[serde(rename = "messageID")]
    pub message_id: Option<&'a str>,
    /// The part that was hit; `null` for a hit in the message document itself.
    #[serde(rename = "partID")]
    pub part_id: Option<&'a str>,
    /// Title of the session.
    pub title: &'a str,
    /// Role of the message: `user` or `assistant`.
    pub role: Option<&'a str>,
    /// Type of the part; `message` for a hit in the message document itself, `title` for a hit in the title of the session.
    #[serde(rename = "type")]
    pub kind: &'a str,
    /// The tool, if the part is a tool call.
    pub tool: Option<&'a str>,
    /// When the message was made.
    pub time: Option<Millis>,
    /// Score of the hit: higher is better. The number has no meaning by itself.
    pub score: f32,
    /// The piece of text around the hit, in one line.
    pub snippet: &'a str,
    /// Places of the matched words in the snippet, each as `[from, to]` in characters (Unicode code points).
    pub highlights: Vec<[usize; 2]>,
}

impl<'a> From<&'a Hit> for SearchHit<'a> {
    fn from(hit: &'a Hit) -> SearchHit<'a> {
        let characters = |at: usize| hit.snippet.text.get(..at).map_or(0, |before| before.chars().count());
        let highlights = hit.snippet.highlights.iter();
        SearchHit {
            session_id: hit.session.as_str(),
            message_id: hit.message.as_ref().map(MessageId::as_str),
            part_id: hit.part.as_ref().map(PartId::as_str),
            title: &hit.title,
            role: hit.role.as_deref(),
            kind: &hit.kind,
            tool: hit.tool.as_deref(),
            time: hit.time,
            score: hit.score,
            snippet: &hit.snippet.text,
            highlights: highlights.map(|at| [characters(at.start), characters(at.end)]).collect(),
        }
    }
}
