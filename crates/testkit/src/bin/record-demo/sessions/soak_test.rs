//! A session the user interrupts while a command runs.

use serde_json::json;

use crate::places::CART_SERVICE;
use crate::story::{Ending, Model, Prompt, Session, at};
use crate::turns::{TurnExt, say, silently};

pub(super) fn session() -> Session {
    let command = json!({
        "command": "node scripts/soak.js 10",
        "description": "Watch the memory for ten minutes",
        "timeout": 660_000,
    });
    let prompt = Prompt::new(
        at(12, 16, 40),
        "Do abandoned carts pile up in memory? Run the soak script and tell me how much we gain in an hour.",
        "Memory of abandoned carts",
        [
            silently().read("scripts/soak.js"),
            say("It prints the memory in use once a minute. Ten minutes should be enough to see a trend.")
                .and("bash", command),
        ],
    );
    let prompt = Prompt { ending: Ending::Abort("minute 3"), n_failed_calls: 1, ..prompt };
    Session { place: CART_SERVICE, model: Model::Haiku, prompts: vec![prompt], changes: vec![] }
}
