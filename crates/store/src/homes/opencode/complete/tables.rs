//! The tables of what OpenCode's server accepts: the members of messages and parts, and their shapes.
//!
//! They were read out of the executable of 1.18.33 and tried field by field on its server. Keys they do not name are not
//! looked at, by the server neither.

use annals_core::id::{MessageId, PartId, SessionId};

use super::shape::{API_ERROR, Absence, Field, Fill, Kinds, Shape};

const fn may(key: &'static str, shape: Shape) -> Field {
    Field { key, shape, absence: Absence::Allowed }
}

const fn must(key: &'static str, shape: Shape, fill: Fill) -> Field {
    Field { key, shape, absence: Absence::Filled(fill) }
}

const fn text(key: &'static str, json: &'static str) -> Field {
    must(key, Shape::Text, Fill::Json(json))
}

const fn count(key: &'static str, shape: Shape) -> Field {
    must(key, shape, Fill::Json("0"))
}

const fn time(key: &'static str) -> Field {
    must(key, Shape::Whole, Fill::Created)
}

const fn object(key: &'static str, fields: &'static [Field]) -> Field {
    must(key, Shape::Object(fields), Fill::Members)
}

const fn map(key: &'static str) -> Field {
    must(key, Shape::Map, Fill::Json("{}"))
}

pub(super) const MESSAGE_ID: Shape = Shape::Prefixed(MessageId::PREFIX);
const PART_ID: Shape = Shape::Prefixed(PartId::PREFIX);
pub(super) const SESSION_ID: Shape = Shape::Prefixed(SessionId::PREFIX);
const EMPTY: &str = "\"\"";
const UNKNOWN: &str = "\"unknown\"";

pub(super) const MESSAGE: Kinds = Kinds { tag: "role", kinds: &[("user", USER), ("assistant", ASSISTANT)] };

const USER: &[Field] = &[
    object("time", &[must("created", Shape::Time, Fill::Created)]),
    may("summary", Shape::Object(SUMMARY)),
    must("agent", Shape::Text, Fill::Agent),
    object("model", MODEL),
    may("system", Shape::Text),
    may("tools", Shape::MapOf(&Shape::Flag)),
];

const SUMMARY: &[Field] = &[
    may("title", Shape::Text),
    may("body", Shape::Text),
    must("diffs", Shape::List(&Shape::Object(DIFF)), Fill::Json("[]")),
];

const DIFF: &[Field] = &[
    may("file", Shape::Text),
    may("patch", Shape::Text),
    count("additions", Shape::Number),
    count("deletions", Shape::Number),
    may("status", Shape::Word(&["added", "deleted", "modified"])),
];

const MODEL: &[Field] = &[
    must("providerID", Shape::Text, Fill::Provider),
    must("modelID", Shape::Text, Fill::Model),
    may("variant", Shape::Text),
];

const ASSISTANT: &[Field] = &[
    object("time", &[time("created"), may("completed", Shape::Whole)]),
    may("error", Shape::Error(ERROR, "UnknownError")),
    must("parentID", MESSAGE_ID, Fill::Parent),
    must("modelID", Shape::Text, Fill::Model),
    must("providerID", Shape::Text, Fill::Provider),
    must("mode", Shape::Text, Fill::Agent),
    must("agent", Shape::Text, Fill::Agent),
    object("path", &[must("cwd", Shape::Text, Fill::Directory), must("root", Shape::Text, Fill::Worktree)]),
    may("summary", Shape::Flag),
    count("cost", Shape::Number),
    object("tokens", TOKENS),
    may("variant", Shape::Text),
    may("finish", Shape::Text),
];

const TOKENS: &[Field] = &[
    may("total", Shape::Number),
    count("input", Shape::Number),
    count("output", Shape::Number),
    count("reasoning", Shape::Number),
    object("cache", &[count("read", Shape::Number), count("write", Shape::Number)]),
];

/// What is filled in here never shows, because a refused error is replaced as a whole.
const ERROR: Kinds = Kinds {
    tag: "name",
    kinds: &[
        ("ProviderAuthError", &[object("data", &[text("providerID", UNKNOWN), text("message", EMPTY)])]),
        ("UnknownError", &[object("data", &[text("message", EMPTY), may("ref", Shape::Text)])]),
        ("MessageOutputLengthError", &[map("data")]),
        ("MessageAbortedError", &[object("data", &[text("message", EMPTY)])]),
        (
            "StructuredOutputError",
            &[object("data", &[text("message", EMPTY), count("retries", Shape::Whole)])],
        ),
        (
            "ContextOverflowError",
            &[object("data", &[text("message", EMPTY), may("responseBody", Shape::Text)])],
        ),
        ("ContentFilterError", &[object("data", &[text("message", EMPTY)])]),
        (API_ERROR, API_ERROR_FIELDS),
    ],
};

const API_ERROR_FIELDS: &[Field] = &[object(
    "data",
    &[
        text("message", EMPTY),
        may("statusCode", Shape::Whole),
        must("isRetryable", Shape::Flag, Fill::Json("true")),
        may("responseHeaders", Shape::MapOf(&Shape::Text)),
        may("responseBody", Shape::Text),
        may("metadata", Shape::MapOf(&Shape::Text)),
    ],
)];

pub(super) const PART: Kinds = Kinds {
    tag: "type",
    kinds: &[
        (
            "text",
            &[
                text("text", EMPTY),
                may("synthetic", Shape::Flag),
                may("ignored", Shape::Flag),
                may("time", Shape::Object(SPAN)),
                may("metadata", Shape::Map),
            ],
        ),
        ("reasoning", &[text("text", EMPTY), may("metadata", Shape::Map), object("time", SPAN)]),
        ("tool", TOOL),
        ("step-start", &[may("snapshot", Shape::Text)]),
        (
            "step-finish",
            &[
                text("reason", UNKNOWN),
                may("snapshot", Shape::Text),
                count("cost", Shape::Number),
                object("tokens", TOKENS),
            ],
        ),
        ("patch", &[text("hash", EMPTY), must("files", Shape::List(&Shape::Text), Fill::Json("[]"))]),
        ("file", FILE),
        ("snapshot", &[text("snapshot", EMPTY)]),
        ("agent", &[text("name", UNKNOWN), may("source", Shape::Object(AGENT_SOURCE))]),
        ("retry", RETRY),
        (
            "compaction",
            &[
                // Before 1.0.111 it was not said who asked for it.
                must("auto", Shape::Flag, Fill::Json("false")),
                may("overflow", Shape::Flag),
                may("tail_start_id", MESSAGE_ID),
            ],
        ),
        (
            "subtask",
            &[
                text("prompt", EMPTY),
                text("description", EMPTY),
                must("agent", Shape::Text, Fill::Agent),
                may("model", Shape::Object(SUBTASK_MODEL)),
                may("command", Shape::Text),
            ],
        ),
    ],
};

const SPAN: &[Field] = &[time("start"), may("end", Shape::Whole)];

const FILE: &[Field] = &[
    text("mime", "\"application/octet-stream\""),
    may("filename", Shape::Text),
    text("url", EMPTY),
    may("source", Shape::Kinds(FILE_SOURCE)),
];

const FILE_SOURCE: Kinds = Kinds {
    tag: "type",
    kinds: &[
        ("file", &[SOURCE_TEXT, text("path", EMPTY)]),
        (
            "symbol",
            &[
                SOURCE_TEXT,
                text("path", EMPTY),
                object("range", &[object("start", POSITION), object("end", POSITION)]),
                text("name", EMPTY),
                count("kind", Shape::Whole),
            ],
        ),
        ("resource", &[SOURCE_TEXT, text("clientName", EMPTY), text("uri", EMPTY)]),
    ],
};

const SOURCE_TEXT: Field =
    object("text", &[text("value", EMPTY), count("start", Shape::Number), count("end", Shape::Number)]);

const POSITION: &[Field] = &[count("line", Shape::Whole), count("character", Shape::Whole)];

const AGENT_SOURCE: &[Field] =
    &[text("value", EMPTY), count("start", Shape::Whole), count("end", Shape::Whole)];

const SUBTASK_MODEL: &[Field] =
    &[must("providerID", Shape::Text, Fill::Provider), must("modelID", Shape::Text, Fill::Model)];

const RETRY: &[Field] = &[
    must("attempt", Shape::Whole, Fill::Json("1")),
    must(
        "error",
        Shape::Error(Kinds { tag: "name", kinds: &[(API_ERROR, API_ERROR_FIELDS)] }, API_ERROR),
        Fill::Json(r#"{"name":"APIError","data":{"message":"","isRetryable":true}}"#),
    ),
    object("time", &[time("created")]),
];

const TOOL: &[Field] = &[
    must("callID", Shape::Text, Fill::Id),
    text("tool", UNKNOWN),
    // Whether a call succeeded is not for us to make up.
    Field { key: "state", shape: Shape::Kinds(STATE), absence: Absence::Fatal },
    may("metadata", Shape::Map),
];

const STATE: Kinds = Kinds {
    tag: "status",
    kinds: &[
        ("pending", &[map("input"), text("raw", EMPTY)]),
        (
            "running",
            &[
                map("input"),
                may("title", Shape::Text),
                may("metadata", Shape::Map),
                object("time", &[time("start")]),
            ],
        ),
        (
            "completed",
            &[
                map("input"),
                text("output", EMPTY),
                text("title", EMPTY),
                map("metadata"),
                object("time", &[time("start"), time("end"), may("compacted", Shape::Whole)]),
                may("attachments", Shape::List(&Shape::Object(ATTACHMENT))),
            ],
        ),
        (
            "error",
            &[
                map("input"),
                text("error", EMPTY),
                may("metadata", Shape::Map),
                object("time", &[time("start"), time("end")]),
            ],
        ),
    ],
};

/// A file part inside a tool's state, which the server checks like any other: with its ids.
const ATTACHMENT: &[Field] = &[
    must("id", PART_ID, Fill::Id),
    must("sessionID", SESSION_ID, Fill::Session),
    must("messageID", MESSAGE_ID, Fill::Message),
    must("type", Shape::Word(&["file"]), Fill::Json("\"file\"")),
    FILE[0],
    FILE[1],
    FILE[2],
    FILE[3],
];
