//! Part documents: the pieces a message is made of.

use super::{Json, Lens, MessageError, ModelRef, Tokens, early, lens};
use crate::id::Millis;
use crate::json::{JsWriter, Node, Text, ToJs};

/// Declares the known part types, and one variant for all others.
macro_rules! parts {
    ($( $(#[$meta:meta])* $variant:ident($lens:ident) = $type:literal, )*) => {
        /// A part, by its `type`.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Part<'a> {
            $( $(#[$meta])* $variant(Box<$lens<'a>>), )*
            /// An unknown type; the document holds all of the part.
            Other(Box<OtherPart<'a>>),
        }

        impl<'a> Lens<'a> for Part<'a> {
            fn look(node: Node<'a>) -> Option<Self> {
                let kind = node.get("type").and_then(Node::as_text);
                $( if kind.as_ref().is_some_and(|kind| kind == $type) {
                    return Some(Part::$variant(Box::new($lens::look(node)?)));
                } )*
                if let Some(part) = kind.as_ref().and_then(|kind| early::look(kind, node)) {
                    return Some(part);
                }
                Some(Part::Other(Box::new(OtherPart::look(node)?)))
            }
        }

        impl ToJs for Part<'_> {
            fn write_js(&self, writer: &mut JsWriter) {
                match self {
                    $( Part::$variant(part) => part.write_js(writer), )*
                    Part::Other(part) => part.write_js(writer),
                }
            }
        }

        $( impl<'a> From<$lens<'a>> for Part<'a> {
            fn from(part: $lens<'a>) -> Part<'a> {
                Part::$variant(Box::new(part))
            }
        } )*
    };
}

parts! {
    /// Text of the user or the model.
    Text(TextPart) = "text",
    /// The model's reasoning.
    Reasoning(ReasoningPart) = "reasoning",
    /// An attached file.
    File(FilePart) = "file",
    /// A tool call and its result.
    Tool(ToolPart) = "tool",
    /// A model call begins.
    StepStart(StepStartPart) = "step-start",
    /// A model call ended.
    StepFinish(StepFinishPart) = "step-finish",
    /// State of the files, in documents of 0.3.7 to 0.3.64.
    Snapshot(SnapshotPart) = "snapshot",
    /// Files changed during a step.
    Patch(PatchPart) = "patch",
    /// An agent mentioned in a prompt.
    Agent(AgentPart) = "agent",
    /// A failed try, in documents of 0.15.14 to 1.0.68.
    Retry(RetryPart) = "retry",
    /// A request to compact the conversation.
    Compaction(CompactionPart) = "compaction",
    /// Work given to a subagent by a command.
    Subtask(SubtaskPart) = "subtask",
}

impl Default for Part<'_> {
    fn default() -> Self {
        Part::Other(Box::default())
    }
}

lens! {
    /// Text of the user or the model.
    pub struct TextPart<'a> {
        /// Its id.
        id "id": Text<'a>,
        /// Its session.
        session_id "sessionID": Text<'a>,
        /// Its message.
        message_id "messageID": Text<'a>, ["type" = "text"]
        /// The text.
        text "text": Text<'a>,
        /// Not typed by the user and not shown, but sent to the model.
        synthetic "synthetic": bool,
        /// Shown, but not sent to the model.
        ignored "ignored": bool,
        /// When it was written; not on user text.
        time "time": Span,
        /// The provider's own data.
        metadata "metadata": Json<'a>,
    }
}

lens! {
    /// The model's reasoning.
    pub struct ReasoningPart<'a> {
        /// Its id.
        id "id": Text<'a>,
        /// Its session.
        session_id "sessionID": Text<'a>,
        /// Its message.
        message_id "messageID": Text<'a>, ["type" = "reasoning"]
        /// The text.
        text "text": Text<'a>,
        /// The provider's own data, such as a signature.
        metadata "metadata": Json<'a>,
        /// When.
        time "time": Span,
    }
}

lens! {
    /// An attached file.
    pub struct FilePart<'a> {
        /// Its id.
        id "id": Text<'a>,
        /// Its session.
        session_id "sessionID": Text<'a>,
        /// Its message.
        message_id "messageID": Text<'a>, ["type" = "file"]
        /// Media type.
        mime "mime": Text<'a>,
        /// Name to show.
        filename "filename": Text<'a>,
        /// `file:`, `data:` or remote address.
        url "url": Text<'a>,
        /// Where the prompt mentions it.
        source "source": FileSource<'a>,
    }
}

lens! {
    /// Where a prompt mentions a file, a symbol or an MCP resource.
    pub struct FileSource<'a> {
        /// The mention.
        text "text": SourceText<'a>,
        /// `file`, `symbol` or `resource`.
        kind "type": Text<'a>,
        /// Path of the file.
        path "path": Text<'a>,
        /// Place of the symbol.
        range "range": SourceRange,
        /// Name of the symbol.
        name "name": Text<'a>,
        /// Kind of the symbol, as language servers number them.
        symbol_kind "kind": f64,
        /// MCP server.
        client_name "clientName": Text<'a>,
        /// MCP resource.
        uri "uri": Text<'a>,
    }
}

lens! {
    /// A piece of a prompt.
    pub struct SourceText<'a> {
        /// The piece.
        value "value": Text<'a>,
        /// Where it begins, in UTF-16 units.
        start "start": f64,
        /// Where it ends.
        end "end": f64,
    }
}

lens! {
    /// A range in a file.
    pub struct SourceRange {
        /// Begin.
        start "start": SourcePosition,
        /// End.
        end "end": SourcePosition,
    }
}

lens! {
    /// A position in a file.
    pub struct SourcePosition {
        /// Line, from 0.
        line "line": f64,
        /// Character in the line, from 0.
        character "character": f64,
    }
}

lens! {
    /// A tool call and its result.
    pub struct ToolPart<'a> {
        /// Its id.
        id "id": Text<'a>,
        /// Its session.
        session_id "sessionID": Text<'a>,
        /// Its message.
        message_id "messageID": Text<'a>, ["type" = "tool"]
        /// The model's name for the call.
        call_id "callID": Text<'a>,
        /// Name of the tool.
        tool "tool": Text<'a>,
        /// How far it got.
        state "state": ToolState<'a>,
        /// The provider's own data.
        metadata "metadata": Json<'a>,
    }
}

lens! {
    /// How far a tool call got. Which fields are there depends on [`ToolState::status`].
    pub struct ToolState<'a> {
        /// `pending`, `running`, `completed` or `error`.
        status "status": Text<'a>,
        /// Arguments.
        input "input": Json<'a>,
        /// Arguments as text while pending; never filled.
        raw "raw": Text<'a>,
        /// Result text.
        output "output": Text<'a>,
        /// Why it failed.
        error "error": Text<'a>,
        /// One line to show.
        title "title": Text<'a>,
        /// What the tool says about the call.
        metadata "metadata": Json<'a>,
        /// When it ran.
        time "time": ToolTime,
        /// Files in the result.
        attachments "attachments": Vec<FilePart<'a>>,
    }
}

/// The four states of a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ToolStatus {
    /// The model is still writing the arguments.
    Pending,
    /// It runs.
    Running,
    /// It gave a result.
    Completed,
    /// It failed.
    Error,
}

impl ToolState<'_> {
    /// The state, if it is one of the four.
    pub fn status(&self) -> Option<ToolStatus> {
        let status = self.status.as_ref()?;
        [
            ("pending", ToolStatus::Pending),
            ("running", ToolStatus::Running),
            ("completed", ToolStatus::Completed),
            ("error", ToolStatus::Error),
        ]
        .into_iter()
        .find_map(|(name, state)| (status == name).then_some(state))
    }
}

lens! {
    /// When a tool ran.
    pub struct ToolTime {
        /// Began.
        start "start": Millis,
        /// Ended.
        end "end": Millis,
        /// Result cleared from the model's view, since 0.7.6.
        compacted "compacted": Millis,
    }
}

lens! {
    /// When something was written.
    pub struct Span {
        /// Began.
        start "start": Millis,
        /// Ended.
        end "end": Millis,
    }
}

lens! {
    /// A model call begins.
    pub struct StepStartPart<'a> {
        /// Its id.
        id "id": Text<'a>,
        /// Its session.
        session_id "sessionID": Text<'a>,
        /// Its message.
        message_id "messageID": Text<'a>, ["type" = "step-start"]
        /// State of the files: a tree of the shadow repository.
        snapshot "snapshot": Text<'a>,
    }
}

lens! {
    /// A model call ended.
    pub struct StepFinishPart<'a> {
        /// Its id.
        id "id": Text<'a>,
        /// Its session.
        session_id "sessionID": Text<'a>,
        /// Its message.
        message_id "messageID": Text<'a>, ["type" = "step-finish"]
        /// Why, since 0.15.17.
        reason "reason": Text<'a>,
        /// State of the files.
        snapshot "snapshot": Text<'a>,
        /// US dollars.
        cost "cost": f64,
        /// Tokens.
        tokens "tokens": Tokens,
    }
}

lens! {
    /// State of the files.
    pub struct SnapshotPart<'a> {
        /// Its id.
        id "id": Text<'a>,
        /// Its session.
        session_id "sessionID": Text<'a>,
        /// Its message.
        message_id "messageID": Text<'a>, ["type" = "snapshot"]
        /// A tree of the shadow repository.
        snapshot "snapshot": Text<'a>,
    }
}

lens! {
    /// Files changed during a step.
    pub struct PatchPart<'a> {
        /// Its id.
        id "id": Text<'a>,
        /// Its session.
        session_id "sessionID": Text<'a>,
        /// Its message.
        message_id "messageID": Text<'a>, ["type" = "patch"]
        /// State of the files before the step.
        hash "hash": Text<'a>,
        /// Absolute paths.
        files "files": Vec<Text<'a>>,
    }
}

lens! {
    /// An agent mentioned in a prompt.
    pub struct AgentPart<'a> {
        /// Its id.
        id "id": Text<'a>,
        /// Its session.
        session_id "sessionID": Text<'a>,
        /// Its message.
        message_id "messageID": Text<'a>, ["type" = "agent"]
        /// The agent.
        name "name": Text<'a>,
        /// The mention.
        source "source": SourceText<'a>,
    }
}

lens! {
    /// A failed try.
    pub struct RetryPart<'a> {
        /// Its id.
        id "id": Text<'a>,
        /// Its session.
        session_id "sessionID": Text<'a>,
        /// Its message.
        message_id "messageID": Text<'a>, ["type" = "retry"]
        /// Which try.
        attempt "attempt": f64,
        /// Why it failed.
        error "error": MessageError<'a>,
        /// When.
        time "time": RetryTime,
    }
}

lens! {
    /// When a try failed.
    pub struct RetryTime {
        /// Failed.
        created "created": Millis,
    }
}

lens! {
    /// A request to compact the conversation.
    pub struct CompactionPart<'a> {
        /// Its id.
        id "id": Text<'a>,
        /// Its session.
        session_id "sessionID": Text<'a>,
        /// Its message.
        message_id "messageID": Text<'a>, ["type" = "compaction"]
        /// Whether the size of the conversation asked for it, since 1.0.111.
        auto "auto": bool,
        /// Whether the provider had refused, in SQLite-era documents.
        overflow "overflow": bool,
        /// First message kept verbatim, since 1.14.19.
        tail_start_id "tail_start_id": Text<'a>,
    }
}

lens! {
    /// Work given to a subagent by a command.
    pub struct SubtaskPart<'a> {
        /// Its id.
        id "id": Text<'a>,
        /// Its session.
        session_id "sessionID": Text<'a>,
        /// Its message.
        message_id "messageID": Text<'a>, ["type" = "subtask"]
        /// What to do.
        prompt "prompt": Text<'a>,
        /// In a few words.
        description "description": Text<'a>,
        /// Who.
        agent "agent": Text<'a>,
        /// With which model, since 1.1.24.
        model "model": ModelRef<'a>,
        /// The command, since 1.0.165.
        command "command": Text<'a>,
    }
}

lens! {
    /// A part of an unknown type, or a `tool_result`, which only documentation older than OpenCode's own describes.
    pub struct OtherPart<'a> {
        /// Its id.
        id "id": Text<'a>,
        /// Its session.
        session_id "sessionID": Text<'a>,
        /// Its message.
        message_id "messageID": Text<'a>,
        /// Its type.
        kind "type": Text<'a>,
        /// Text, of whatever kind.
        text "text": Text<'a>,
        /// A name, of whatever.
        name "name": Text<'a>,
        /// Result of a `tool_result` part.
        content "content": Json<'a>,
    }
}
