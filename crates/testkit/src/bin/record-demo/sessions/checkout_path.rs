//! A question that is handed to a subagent, which has a session of its own.

use crate::places::CART_SERVICE;
use crate::story::{Mention, Model, Prompt, Session, Subagent, at};
use crate::turns::{TurnExt, say, silently};

const TASK: &str = "Trace `POST /carts/:id/checkout` from src/server.js to the place where the order is \
                    stored. Read every file on the way. Report the steps in order, each with file and \
                    function, and whatever looks wrong. Do not change anything.";

pub(super) fn session() -> Session {
    let prompt = Prompt::new(
        at(9, 14, 5),
        "@explore How does a checkout travel through the service, from the request to the stored order? I'm \
         new to this code, so please name files and functions.",
        "From request to stored order",
        [
            say("I'll have the explore agent trace it.").task("explore", "Trace the checkout path", TASK),
            say("
                A checkout passes through four files:

                ```
                POST /carts/:id/checkout
                  → server.js    routes       id from the URL, key from the header
                  → checkout.js  checkout()   known key? return the earlier order
                  → store.js     getCart()    unknown cart? error
                  → cart.js      total()      subtotal() − discount()
                  → store.js     saveOrder()  keeps the order under its key
                ```

                Start reading at `checkout()` in `src/checkout.js`: it is ten lines and calls all the others.

                The agent noticed two things worth an issue:

                - **A key is not tied to its cart.** The same `Idempotency-Key` with another cart returns the
                  order of the *first* one.
                - **Carts are never removed**, not even after checkout, so `carts` in `src/store.js` only
                  grows.
                ")
            .thinking(
                "
                The report is complete. For a newcomer the order of calls matters most, so a small diagram,
                then the two findings that can hurt. The status codes are a matter of taste; leave them out.
                ",
            ),
        ],
    );
    let prompt = Prompt { mentions: vec![Mention::Agent("explore")], subagents: vec![subagent()], ..prompt };
    Session { place: CART_SERVICE, model: Model::Sonnet, prompts: vec![prompt], changes: vec![] }
}

fn subagent() -> Subagent {
    Subagent {
        prompt: TASK,
        title: "Trace the checkout route",
        turns: vec![
            silently().glob("src/**/*.js").grep("checkout|saveOrder", "src"),
            silently().read("src/server.js").read("src/checkout.js"),
            silently()
                .thinking("checkout() uses total() of cart.js and three functions of store.js. Read both.")
                .read("src/cart.js")
                .read("src/store.js"),
            say("
                ## Steps

                1. `src/server.js`, `routes`: takes the cart id from the URL and the key from the header
                   `Idempotency-Key`; without the header, a random key
                2. `src/checkout.js`, `checkout(cartId, key)`: returns the earlier order if the key is known
                3. `src/store.js`, `getCart(id)`: throws if there is no such cart
                4. `src/checkout.js`: throws if the cart is empty
                5. `src/cart.js`, `total(cart)`: `subtotal` minus `discount`
                6. `src/store.js`, `saveOrder(key, order)`: stores the order in a map, under the key

                ## Looks wrong

                - Keys are not tied to a cart: the same key with another cart returns the order of the first.
                - `carts` in `src/store.js` only grows; nothing removes a cart after checkout.
                - Every error becomes HTTP 400, an unknown cart too (404 would fit).
                "),
        ],
    }
}
