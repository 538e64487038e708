//! Calls that Anthropic itself carried out, on their way back to it: web search, web fetch, code execution.
//!
//! OpenCode stores their results as text, and the SDK takes only structured results back. So calls are sent, results are not, except
//! that a call has failed. Anthropic's other tools (its tool search, the advisor, MCP connectors) are left out.

use crate::json::{Node, Object, Tape, Text, Value};
use crate::lens::Json;
use crate::llm::model::ResultOutput;

/// A call. `None` if the SDK does not know the tool.
pub(super) fn call<'a>(call_id: Text<'a>, tool: &Text<'a>, input: Option<Json<'a>>) -> Option<Object<'a>> {
    let input = input.and_then(|input| input.node());
    let (mut name, mut input): (Text<'a>, Option<Value<'a>>) = (tool.clone(), input.map(Value::Node));
    match &*tool.to_str() {
        "web_search" | "web_fetch" => {}
        "code_execution" => {
            // The kind of code is in the input, and the name on the wire.
            let mut members = input.as_ref().and_then(Value::to_object).unwrap_or_default();
            let kind = members.text("type").map(|kind| kind.to_str().into_owned());
            match kind.as_deref() {
                Some("bash_code_execution" | "text_editor_code_execution") => {
                    name = kind.unwrap_or_default().into();
                    members.remove("type");
                    input = Some(members.into());
                }
                Some("programmatic-tool-call") => {
                    members.remove("type");
                    input = Some(members.into());
                }
                _ => {}
            }
        }
        _ => return None,
    }
    let block = Object::new().with("type", "server_tool_use").with("id", call_id).with("name", name);
    Some(block.with_some("input", input))
}

/// The result of a call that failed.
pub(super) fn result<'a>(
    call_id: Text<'a>,
    tool: &Text<'a>,
    output: &ResultOutput<'a>,
    control: Option<Value<'a>>,
) -> Option<Object<'a>> {
    let ResultOutput::ErrorJson(error) = output else { return None };
    let block = |kind: &'static str| Object::new().with("type", kind).with("tool_use_id", call_id);
    let failure =
        |kind: &'static str, code: Text<'a>| Object::new().with("type", kind).with("error_code", code);
    let (kind, code) = (told(error, "type"), told(error, "errorCode"));
    let unavailable = || code.clone().unwrap_or("unavailable".into());
    let unknown = || code.clone().unwrap_or("unknown".into());
    Some(match &*tool.to_str() {
        "web_search" => block("web_search_tool_result")
            .with("content", failure("web_search_tool_result_error", unavailable()))
            .with_some("cache_control", control),
        "web_fetch" => block("web_fetch_tool_result")
            .with("content", failure("web_fetch_tool_result_error", unavailable()))
            .with_some("cache_control", control),
        "code_execution" if kind.is_some_and(|kind| kind == "code_execution_tool_result_error") => {
            block("code_execution_tool_result")
                .with("content", failure("code_execution_tool_result_error", unknown()))
                .with_some("cache_control", control)
        }
        "code_execution" => block("bash_code_execution_tool_result")
            .with_some("cache_control", control)
            .with("content", failure("bash_code_execution_tool_result_error", unknown())),
        _ => return None,
    })
}

/// A member of an error that is JSON itself.
fn told(error: &Text<'_>, key: &str) -> Option<Text<'static>> {
    let text = error.to_str();
    let tape = Tape::scan(&text).ok()?;
    let value = Node::root(&text, &tape).get(key)?.as_text()?;
    Some(Text::from_utf16(&value.to_utf16()))
}
