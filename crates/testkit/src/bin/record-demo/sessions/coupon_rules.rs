//! An answer that fails at the provider, and a second try that works.

use annals_testkit::model::{Failure, Turn};
use serde_json::json;

use crate::places::CART_SERVICE;
use crate::story::{Ending, Model, Prompt, Session, at};
use crate::turns::{TurnExt, say, silently};

pub(super) fn session() -> Session {
    let prompts = vec![refused(), written()];
    Session { place: CART_SERVICE, model: Model::Sonnet, prompts, changes: vec![] }
}

fn refused() -> Prompt {
    let failure = Failure {
        status: 400,
        body: json!({
            "type": "error",
            "error": {
                "type": "invalid_request_error",
                "message": "Your credit balance is too low to access the Anthropic API. Please go to Plans & \
                            Billing to upgrade or purchase credits.",
            },
        }),
        ..Failure::default()
    };
    let prompt = Prompt::new(
        at(10, 10, 20),
        "Support keeps asking how coupons are rounded. Write it down for them in docs/coupons.md: half a \
         page, plain words, no code.",
        "Coupon rules for support",
        [Turn::failing(failure)],
    );
    Prompt { ending: Ending::Failure, ..prompt }
}

fn written() -> Prompt {
    Prompt::new(
        at(10, 10, 34),
        "I've topped up the account. Try again, and commit it when you're done.",
        "Second try at the coupon rules",
        [
            silently().read("src/coupons.js").read("src/cart.js"),
            say("Clear enough. Order 10482 makes a good example, since support has seen it.")
                .write("docs/coupons.md", include_str!("../places/coupons.md")),
            silently().bash(
                "git add docs && git commit -qm '📚 Explain coupons to support' && git log --oneline -2",
                "Commit the page",
            ),
            say("
                `docs/coupons.md` is written and committed. It covers three questions:

                - what each kind of coupon does
                - when and how a percentage is rounded, with order 10482 as the example
                - why a fixed coupon never pays money out

                Codes are matched regardless of case (`spring15` works); I mention that too, as it is not
                obvious.
                "),
        ],
    )
}
