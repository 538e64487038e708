//! A coding agent with one tool, for any chat-completions endpoint: `AGENT_URL=http://localhost:8080/v1 cargo run -p annals --example agent -- PROMPT [PATH]`.
//!
//! Its turns go to the store or home at PATH, `annals.db` unless it is given. In a home of OpenCode's, OpenCode can continue the session.
//! `curl` speaks HTTP, so that there is nothing here but the agent.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use annals::turn::{Answer, StepEnd, ToolOutput, Turn};
use annals::{Session, Store};
use serde_json::{Value, json};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let prompt = arguments.next().ok_or("give a prompt")?;
    let store = Store::open(arguments.next().unwrap_or_else(|| "annals.db".to_owned()))?;
    let model = std::env::var("AGENT_MODEL").unwrap_or_else(|_| "lab/lab-large".to_owned());
    let session = converse(&store, &std::env::var("AGENT_URL")?, &model, &prompt)?;
    println!("{}", session.messages().last().ok_or("no answer")??.text());
    Ok(())
}

/// Has the model answer a prompt in a new session, with as many calls of the tool as it wants.
pub fn converse(store: &Store, url: &str, model: &str, prompt: &str) -> Result<Session, Box<dyn Error>> {
    let session = store.create_session(std::env::current_dir()?).title(prompt).save()?;
    let mut turn = Turn::begin(&session.prompt(prompt).model(model))?;
    let mut messages = vec![json!({ "role": "user", "content": prompt })];
    loop {
        let answer = turn.answer()?;
        let is_last = step(&answer, url, model, &mut messages)?;
        answer.finish()?;
        if is_last {
            break;
        }
    }
    turn.finish()?;
    Ok(session)
}

/// One call of the model, written while it comes. True if the model wants no tool any more.
fn step(answer: &Answer, url: &str, model: &str, messages: &mut Vec<Value>) -> Result<bool, Box<dyn Error>> {
    answer.step_start(None)?;
    let mut text = None;
    let (mut said, mut calls, mut usage) = (String::new(), Vec::<Value>::new(), Value::Null);
    for piece in stream(url, model, messages)? {
        let piece = piece?;
        if piece["usage"].is_object() {
            usage = piece["usage"].clone();
        }
        let delta = &piece["choices"][0]["delta"];
        if let Some(content) = delta["content"].as_str().filter(|content| !content.is_empty()) {
            let stream = match &mut text {
                Some(stream) => stream,
                none => none.insert(answer.text()?),
            };
            stream.push(content)?; // On the disk within 100 ms.
            said.push_str(content);
        }
        for part in delta["tool_calls"].as_array().into_iter().flatten() {
            let index = part["index"].as_u64().unwrap_or(0) as usize;
            calls.resize(calls.len().max(index + 1), json!({ "id": "", "name": "", "arguments": "" }));
            let pieces = [
                ("id", &part["id"]),
                ("name", &part["function"]["name"]),
                ("arguments", &part["function"]["arguments"]),
            ];
            for (name, value) in pieces {
                calls[index][name] = json!(
                    [calls[index][name].as_str(), value.as_str()].into_iter().flatten().collect::<String>()
                );
            }
        }
    }
    if let Some(stream) = text {
        stream.finish()?;
    }
    let functions =
        calls.iter().map(|call| json!({ "id": call["id"], "type": "function", "function": call }));
    messages
        .push(json!({ "role": "assistant", "content": said, "tool_calls": functions.collect::<Vec<_>>() }));
    for call in &calls {
        let [id, name, arguments] =
            ["id", "name", "arguments"].map(|field| call[field].as_str().unwrap_or_default());
        let input: Value = serde_json::from_str(arguments)?;
        let command = input["command"].as_str().unwrap_or_default().to_owned();
        let running = answer.call(name, id)?.run(input)?; // Written down before anything is done.
        let output = Command::new("sh").arg("-c").arg(&command).output()?;
        let output = String::from_utf8_lossy(&output.stdout).into_owned();
        running.complete(ToolOutput::new(&output).title(command))?;
        messages.push(json!({ "role": "tool", "tool_call_id": id, "content": output }));
    }
    let tokens = |name: &str| usage[name].as_f64().unwrap_or(0.0);
    let reason = if calls.is_empty() { "stop" } else { "tool-calls" };
    answer.step_finish(&StepEnd::new(reason).tokens(tokens("prompt_tokens"), tokens("completion_tokens")))?;
    Ok(calls.is_empty())
}

/// The pieces of an answer, as the model sends them.
fn stream(
    url: &str,
    model: &str,
    messages: &[Value],
) -> Result<impl Iterator<Item = Result<Value, Box<dyn Error>>>, Box<dyn Error>> {
    let parameters = json!({ "type": "object", "properties": { "command": { "type": "string" } } });
    let tool = json!({ "name": "bash", "description": "Runs a shell command.", "parameters": parameters });
    let body = json!({
        "model": model.split_once('/').map_or(model, |(_, name)| name),
        "messages": messages,
        "tools": [{ "type": "function", "function": tool }],
        "stream": true,
        "stream_options": { "include_usage": true },
    });
    let mut curl = Command::new("curl")
        .args(["--silent", "--no-buffer", "--fail", "--header", "content-type: application/json", "--data"])
        .arg(body.to_string())
        .arg(format!("{url}/chat/completions"))
        .stdout(Stdio::piped())
        .spawn()?;
    let lines = BufReader::new(curl.stdout.take().ok_or("no output")?).lines();
    Ok(lines.filter_map(|line| match line {
        Ok(line) => {
            Some(Ok(serde_json::from_str(line.strip_prefix("data: ").filter(|data| data.starts_with('{'))?)
                .ok()?))
        }
        Err(error) => Some(Err(error.into())),
    }))
}
