//! The tables of what OpenCode's server accepts: the members of messages and parts, and their shapes.
//!
//! They were read out of the executable of 1.18.33 and tried field by field on its server. Neither annals nor the server
//! looks at keys that they do not name.

use annals_core::id::{MessageId, PartId, SessionId};

use super::shape::{API_ERROR, Absence, Fill, Kinds, MemberRule, ServedShape};

const fn may(key: &'static str, shape: ServedShape) -> MemberRule {
    MemberRule { key, shape, absence: Absence::Allowed }
}

const fn must(key: &'static str, shape: ServedShape, fill: Fill) -> MemberRule {
    MemberRule { key, shape, absence: Absence::Filled(fill) }
}

const fn text(key: &'static str, json: &'static str) -> MemberRule {
    must(key, ServedShape::Text, Fill::Json(json))
}

const fn count(key: &'static str, shape: ServedShape) -> MemberRule {
    must(key, shape, Fill::Json("0"))
}

const fn time(key: &'static str) -> MemberRule {
    must(key, ServedShape::Whole, Fill::Created)
}

const fn object(key: &'static str, fields: &'static [MemberRule]) -> MemberRule {
    must(key, ServedShape::Object(fields), Fill::Members)
}

const fn map(key: &'static str) -> MemberRule {
    must(key, ServedShape::Map, Fill::Json("{}"))
}

pub(super) const MESSAGE_ID: ServedShape = ServedShape::Prefixed(MessageId::PREFIX);
const PART_ID: ServedShape = ServedShape::Prefixed(PartId::PREFIX);
pub(super) const SESSION_ID: ServedShape = ServedShape::Prefixed(SessionId::PREFIX);
const EMPTY: &str = "\"\"";
const UNKNOWN: &str = "\"unknown\"";

pub(super) const MESSAGE: Kinds = Kinds { tag: "role", kinds: &[("user", USER), ("assistant", ASSISTANT)] };

const USER: &[MemberRule] = &[
    object("time", &[must("created", ServedShape::Time, Fill::Created)]),
    may("summary", ServedShape::Object(SUMMARY)),
    must("agent", ServedShape::Text, Fill::Agent),
    object("model", MODEL),
    may("system", ServedShape::Text),
    may("tools", ServedShape::MapOf(&ServedShape::Flag)),
];

const SUMMARY: &[MemberRule] = &[
    may("title", ServedShape::Text),
    may("body", ServedShape::Text),
    must("diffs", ServedShape::List(&ServedShape::Object(DIFF)), Fill::Json("[]")),
];

const DIFF: &[MemberRule] = &[
    may("file", ServedShape::Text),
    may("patch", ServedShape::Text),
    count("additions", ServedShape::Number),
    count("deletions", ServedShape::Number),
    may("status", ServedShape::Word(&["added", "deleted", "modified"])),
];

const MODEL: &[MemberRule] = &[
    must("providerID", ServedShape::Text, Fill::Provider),
    must("modelID", ServedShape::Text, Fill::Model),
    may("variant", ServedShape::Text),
];

const ASSISTANT: &[MemberRule] = &[
    object("time", &[time("created"), may("completed", ServedShape::Whole)]),
    may("error", ServedShape::Error(ERROR, "UnknownError")),
    must("parentID", MESSAGE_ID, Fill::Parent),
    must("modelID", ServedShape::Text, Fill::Model),
    must("providerID", ServedShape::Text, Fill::Provider),
    must("mode", ServedShape::Text, Fill::Agent),
    must("agent", ServedShape::Text, Fill::Agent),
    object(
        "path",
        &[must("cwd", ServedShape::Text, Fill::Directory), must("root", ServedShape::Text, Fill::Worktree)],
    ),
    may("summary", ServedShape::Flag),
    count("cost", ServedShape::Number),
    object("tokens", TOKENS),
    may("variant", ServedShape::Text),
    may("finish", ServedShape::Text),
];

const TOKENS: &[MemberRule] = &[
    may("total", ServedShape::Number),
    count("input", ServedShape::Number),
    count("output", ServedShape::Number),
    count("reasoning", ServedShape::Number),
    object("cache", &[count("read", ServedShape::Number), count("write", ServedShape::Number)]),
];

/// The values filled in here never show, because a refused error is replaced as a whole.
const ERROR: Kinds = Kinds {
    tag: "name",
    kinds: &[
        ("ProviderAuthError", &[object("data", &[text("providerID", UNKNOWN), text("message", EMPTY)])]),
        ("UnknownError", &[object("data", &[text("message", EMPTY), may("ref", ServedShape::Text)])]),
        ("MessageOutputLengthError", &[map("data")]),
        ("MessageAbortedError", &[object("data", &[text("message", EMPTY)])]),
        (
            "StructuredOutputError",
            &[object("data", &[text("message", EMPTY), count("retries", ServedShape::Whole)])],
        ),
        (
            "ContextOverflowError",
            &[object("data", &[text("message", EMPTY), may("responseBody", ServedShape::Text)])],
        ),
        ("ContentFilterError", &[object("data", &[text("message", EMPTY)])]),
        (API_ERROR, API_ERROR_FIELDS),
    ],
};

const API_ERROR_FIELDS: &[MemberRule] = &[object(
    "data",
    &[
        text("message", EMPTY),
        may("statusCode", ServedShape::Whole),
        must("isRetryable", ServedShape::Flag, Fill::Json("true")),
        may("responseHeaders", ServedShape::MapOf(&ServedShape::Text)),
        may("responseBody", ServedShape::Text),
        may("metadata", ServedShape::MapOf(&ServedShape::Text)),
    ],
)];

pub(super) const PART: Kinds = Kinds {
    tag: "type",
    kinds: &[
        (
            "text",
            &[
                text("text", EMPTY),
                may("synthetic", ServedShape::Flag),
                may("ignored", ServedShape::Flag),
                may("time", ServedShape::Object(SPAN)),
                may("metadata", ServedShape::Map),
            ],
        ),
        ("reasoning", &[text("text", EMPTY), may("metadata", ServedShape::Map), object("time", SPAN)]),
        ("tool", TOOL),
        ("step-start", &[may("snapshot", ServedShape::Text)]),
        (
            "step-finish",
            &[
                text("reason", UNKNOWN),
                may("snapshot", ServedShape::Text),
                count("cost", ServedShape::Number),
                object("tokens", TOKENS),
            ],
        ),
        (
            "patch",
            &[text("hash", EMPTY), must("files", ServedShape::List(&ServedShape::Text), Fill::Json("[]"))],
        ),
        ("file", FILE),
        ("snapshot", &[text("snapshot", EMPTY)]),
        ("agent", &[text("name", UNKNOWN), may("source", ServedShape::Object(AGENT_SOURCE))]),
        ("retry", RETRY),
        (
            "compaction",
            &[
                // Versions before 1.0.111 do not say who asked for a compaction.
                must("auto", ServedShape::Flag, Fill::Json("false")),
                may("overflow", ServedShape::Flag),
                may("tail_start_id", MESSAGE_ID),
            ],
        ),
        (
            "subtask",
            &[
                text("prompt", EMPTY),
                text("description", EMPTY),
                must("agent", ServedShape::Text, Fill::Agent),
                may("model", ServedShape::Object(SUBTASK_MODEL)),
                may("command", ServedShape::Text),
            ],
        ),
    ],
};

const SPAN: &[MemberRule] = &[time("start"), may("end", ServedShape::Whole)];

const FILE: &[MemberRule] = &[
    text("mime", "\"application/octet-stream\""),
    may("filename", ServedShape::Text),
    text("url", EMPTY),
    may("source", ServedShape::Kinds(FILE_SOURCE)),
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
                count("kind", ServedShape::Whole),
            ],
        ),
        ("resource", &[SOURCE_TEXT, text("clientName", EMPTY), text("uri", EMPTY)]),
    ],
};

const SOURCE_TEXT: MemberRule = object(
    "text",
    &[text("value", EMPTY), count("start", ServedShape::Number), count("end", ServedShape::Number)],
);

const POSITION: &[MemberRule] = &[count("line", ServedShape::Whole), count("character", ServedShape::Whole)];

const AGENT_SOURCE: &[MemberRule] =
    &[text("value", EMPTY), count("start", ServedShape::Whole), count("end", ServedShape::Whole)];

const SUBTASK_MODEL: &[MemberRule] =
    &[must("providerID", ServedShape::Text, Fill::Provider), must("modelID", ServedShape::Text, Fill::Model)];

const RETRY: &[MemberRule] = &[
    must("attempt", ServedShape::Whole, Fill::Json("1")),
    must(
        "error",
        ServedShape::Error(Kinds { tag: "name", kinds: &[(API_ERROR, API_ERROR_FIELDS)] }, API_ERROR),
        Fill::Json(r#"{"name":"APIError","data":{"message":"","isRetryable":true}}"#),
    ),
    object("time", &[time("created")]),
];

const TOOL: &[MemberRule] = &[
    must("callID", ServedShape::Text, Fill::Id),
    text("tool", UNKNOWN),
    // Whether a call succeeded must not be invented.
    MemberRule { key: "state", shape: ServedShape::Kinds(STATE), absence: Absence::Fatal },
    may("metadata", ServedShape::Map),
];

const STATE: Kinds = Kinds {
    tag: "status",
    kinds: &[
        ("pending", &[map("input"), text("raw", EMPTY)]),
        (
            "running",
            &[
                map("input"),
                may("title", ServedShape::Text),
                may("metadata", ServedShape::Map),
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
                object("time", &[time("start"), time("end"), may("compacted", ServedShape::Whole)]),
                may("attachments", ServedShape::List(&ServedShape::Object(ATTACHMENT))),
            ],
        ),
        (
            "error",
            &[
                map("input"),
                text("error", EMPTY),
                may("metadata", ServedShape::Map),
                object("time", &[time("start"), time("end")]),
            ],
        ),
    ],
};

/// A file part inside a tool's state, which the server checks like any other: with its ids.
const ATTACHMENT: &[MemberRule] = &[
    must("id", PART_ID, Fill::Id),
    must("sessionID", SESSION_ID, Fill::Session),
    must("messageID", MESSAGE_ID, Fill::Message),
    must("type", ServedShape::Word(&["file"]), Fill::Json("\"file\"")),
    FILE[0],
    FILE[1],
    FILE[2],
    FILE[3],
];
