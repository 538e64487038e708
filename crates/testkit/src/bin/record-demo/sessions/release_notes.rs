//! A small errand, given another title by the user.

use crate::places::CART_SERVICE;
use crate::story::{Change, Model, Prompt, Session, at};
use crate::turns::{TurnExt, say, silently};

pub(super) fn session() -> Session {
    let prompt = Prompt::new(
        at(13, 9, 6),
        "Draft release notes for 0.4.0 from the commits since v0.3.2. For users, not for developers.",
        "Draft release notes from git log",
        [
            silently().bash("git log --format='%h %an: %s' v0.3.2..", "List the commits since v0.3.2"),
            say("
                ```markdown
                ## 0.4.0

                **Fixed**
                - Totals with a percentage coupon match the invoice to the cent.

                **New**
                - Checkout can be retried safely: send an `Idempotency-Key`.
                - [Coupons explained](docs/coupons.md), for everyone who gets asked about them.
                ```

                I left out the commit that only adds a test. The currencies are not committed yet, so they are
                not in either.
                "),
        ],
    );
    let changes = vec![(at(13, 9, 20), Change::Title("Release 0.4.0 🎉"))];
    Session { place: CART_SERVICE, model: Model::Haiku, prompts: vec![prompt], changes }
}
