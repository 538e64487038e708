//! The configuration that points OpenCode to a scripted model.

use std::fs;

use serde_json::{Value, json};

use super::Lab;
use crate::model::ModelServer;

impl Lab {
    /// Writes the [standard configuration](standard_config) for a model.
    pub fn configure(&self, model: &ModelServer) {
        self.write_config(&standard_config(model));
    }

    /// Writes OpenCode's configuration file.
    pub fn write_config(&self, config: &Value) {
        let path = self.root.join("config/opencode/opencode.json");
        fs::write(&path, format!("{config:#}\n"))
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}

/// A configuration with three providers, one per wire protocol, and all permissions granted.
///
/// `lab` speaks chat completions and has the models `lab-large` (the default), `lab-think` (reasoning comes
/// interleaved), `lab-small` (for titles) and `lab-tight` (a small context, to be filled up);
/// `labthropic/claude-lab-4` speaks Anthropic's messages and `labai/gpt-5-lab` OpenAI's responses. Sessions are
/// shared with the model server too.
pub fn standard_config(model: &ModelServer) -> Value {
    let provider = |package: &str, name: &str, models: Value| {
        json!({
            "npm": package,
            "name": name,
            "options": {"baseURL": model.base_url(), "apiKey": "none"},
            "models": models,
        })
    };
    let mut lab = provider("@ai-sdk/openai-compatible", "Lab", lab_models());
    // Has requests name their session.
    lab["options"]["setCacheKey"] = json!(true);
    json!({
        "$schema": "https://opencode.ai/config.json",
        "autoupdate": false,
        "model": "lab/lab-large",
        "small_model": "lab/lab-small",
        "username": "dev",
        "lsp": false,
        "formatter": false,
        "enabled_providers": ["lab", "labthropic", "labai"],
        "enterprise": {"url": model.url()},
        "provider": {
            "lab": lab,
            "labthropic": provider("@ai-sdk/anthropic", "Labthropic", json!({
                "claude-lab-4": large_model(
                    "Claude Lab 4",
                    &json!({"input": 3, "output": 15, "cache_read": 0.3, "cache_write": 3.75}),
                ),
            })),
            "labai": provider("@ai-sdk/openai", "LabAI", json!({
                "gpt-5-lab": large_model("GPT 5 Lab", &json!({"input": 1.25, "output": 10, "cache_read": 0.125})),
            })),
        },
        "permission": {
            "edit": "allow",
            "bash": "allow",
            "webfetch": "allow",
            "doom_loop": "allow",
            "external_directory": "allow",
        },
    })
}

fn lab_models() -> Value {
    let mut think = large_model("Lab Think", &json!({"input": 1.1, "output": 4.4, "cache_read": 0.275}));
    think["temperature"] = json!(false);
    think["interleaved"] = json!({"field": "reasoning_content"});
    let text_model = |name: &str, cost: &Value, context: u32, output: u32| {
        json!({
            "name": name,
            "tool_call": true,
            "modalities": {"input": ["text"], "output": ["text"]},
            "cost": cost,
            "limit": {"context": context, "output": output},
        })
    };
    json!({
        "lab-large": large_model(
            "Lab Large",
            &json!({"input": 3, "output": 15, "cache_read": 0.3, "cache_write": 3.75}),
        ),
        "lab-think": think,
        "lab-small": text_model("Lab Small", &json!({"input": 0.25, "output": 1.25}), 100_000, 8_000),
        "lab-tight": text_model("Lab Tight", &json!({"input": 0.1, "output": 0.2}), 32_000, 4_000),
    })
}

fn large_model(name: &str, cost: &Value) -> Value {
    json!({
        "name": name,
        "attachment": true,
        "reasoning": true,
        "temperature": true,
        "tool_call": true,
        "modalities": {"input": ["text", "image"], "output": ["text"]},
        "cost": cost,
        "limit": {"context": 200_000, "output": 32_000},
    })
}
