//! A plan made by the plan agent and carried out in part: the todo list is left half done.

use crate::places::CART_SERVICE;
use crate::story::{Model, Prompt, Session, at};
use crate::turns::{TurnExt, say, silently};

pub(super) fn session() -> Session {
    let prompts = vec![plan(), first_steps()];
    Session { place: CART_SERVICE, model: Model::Sonnet, prompts, changes: vec![] }
}

fn plan() -> Prompt {
    let prompt = Prompt::new(
        at(11, 13, 30),
        "From April we sell to Switzerland and Sweden. Plan what it takes to have carts in CHF and SEK, \
         smallest useful step first.",
        "Carts in CHF and SEK",
        [
            say("Let me see where the euro is assumed today.").grep("€|format\\(|createCart\\(", "."),
            silently().read("src/money.js").read("src/coupons.js").read("src/server.js"),
            silently()
                .thinking(
                    "
                    Amounts are bare integers everywhere, so the currency can live on the cart. All three
                    currencies have two decimals, so `percentOf` stays as it is. What is tied to the euro:
                    `format`, the fixed amount of WELCOME5, and implicitly every price a client sends.

                    Cash rounding in Switzerland (0.05) and Sweden (1 kr) does not concern card payments.
                    ",
                )
                .todos(
                    "
                    - `format(amount, currency)` in money.js
                    - A currency on every cart, EUR by default
                    - Refuse lines in another currency than the cart's
                    - Fixed coupons: an amount per currency
                    - `currency` in the HTTP API, documented in the README
                    ",
                ),
            say("
                Less than I feared: amounts are integers in minor units, and all three currencies have two
                decimals, so the arithmetic stays. Five steps, each shippable on its own:

                1. **`format(amount, currency)`** in `src/money.js`, the only place that writes `€`.
                2. **A currency on every cart**, `EUR` unless given. Nothing changes for clients.
                3. **Refuse foreign lines.** `addLine` must not add SEK to a CHF cart.
                4. **Fixed coupons per currency.** `WELCOME5` takes off 500 minor units, which would be 5 kr
                   in Sweden, about €0.45. Percentages are fine.
                5. **The API**: `POST /carts {\"currency\": \"CHF\"}`, and a paragraph in the README.

                Two questions before step 4: is WELCOME5 worth CHF 5 and SEK 50, and who decides? Cash
                rounding (CHF 0.05, SEK 1) only matters if we ever take cash.
                "),
        ],
    );
    Prompt { agent: "plan", ..prompt }
}

fn first_steps() -> Prompt {
    Prompt::new(
        at(11, 14, 2),
        "Good plan. Do steps 1 and 2 now. Jonas will ask marketing about WELCOME5, so the rest has to wait \
         until Monday.",
        "Currencies, steps 1 and 2",
        [
            silently().todos(
                "
                > `format(amount, currency)` in money.js
                - A currency on every cart, EUR by default
                - Refuse lines in another currency than the cart's
                - Fixed coupons: an amount per currency
                - `currency` in the HTTP API, documented in the README
                ",
            ),
            say("`Intl.NumberFormat` knows symbols and decimals.").edit(
                "src/money.js",
                "
                |export function format(amount) {
                |  return \"€\" + (amount / 100).toFixed(2)
                ",
                "
                |export function format(amount, currency = \"EUR\") {
                |  const numbers = new Intl.NumberFormat(\"en-IE\", { style: \"currency\", currency })
                |  return numbers.format(amount / 100)
                ",
            ),
            silently()
                .edit(
                    "src/cart.js",
                    "
                    |export function createCart(id) {
                    |  return { id, lines: [], coupon: null }
                    ",
                    "
                    |export function createCart(id, currency = \"EUR\") {
                    |  return { id, currency, lines: [], coupon: null }
                    ",
                )
                .edit("src/server.js", "format(total(cart))", "format(total(cart), cart.currency)"),
            silently().bash(
                "
                node --test --test-reporter=spec && node -e '
                import(\"./src/money.js\").then(({ format }) => {
                  for (const currency of [\"EUR\", \"CHF\", \"SEK\"]) console.log(format(5097, currency))
                })'
                ",
                "Run the tests and show all three currencies",
            ),
            silently().todos(
                "
                x `format(amount, currency)` in money.js
                x A currency on every cart, EUR by default
                > Refuse lines in another currency than the cart's
                - Fixed coupons: an amount per currency
                - `currency` in the HTTP API, documented in the README
                ",
            ),
            say("
                Steps 1 and 2 are done, uncommitted, with all tests green:

                - `format` writes €50.97, CHF 50.97 and SEK 50.97
                - carts have a `currency`, `EUR` unless given

                Step 3 is next and marked as in progress, though nothing of it is written yet. One thing to
                settle there: lines carry no currency today, so clients would have to send it, or we trust the
                cart's.
                "),
        ],
    )
}
