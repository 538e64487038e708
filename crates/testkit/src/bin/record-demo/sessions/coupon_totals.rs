//! A bug hunt with a happy end: a failing test, two causes, a regression test, a commit.

use crate::places::CART_SERVICE;
use crate::story::{Model, Prompt, Session, at};
use crate::turns::{TurnExt, say, silently};

const RUN_TESTS: &str = "node --test --test-reporter=spec";
const TEST_VERDICTS: &str = "node --test --test-reporter=spec | grep -E '^(✔|✖|ℹ (pass|fail))|!=='";

pub(super) fn session() -> Session {
    let prompts = vec![fix(), test(), why()];
    Session { place: CART_SERVICE, model: Model::Sonnet, prompts, changes: vec![] }
}

fn fix() -> Prompt {
    Prompt::new(
        at(9, 9, 12),
        "Since the coupons were merged, our totals don't match the invoices. Order 10482 is three throws at \
         €19.99 with SPRING15: we charge €51.00, accounting says €50.97. Zoë added it as a test, so CI is \
         red now. Can you find out why and fix it?",
        "Coupon totals differ from invoices",
        [
            say("I'll reproduce it with Zoë's test first, then look at how the discount is computed.")
                .thinking(
                    "
                    Three cents on three items smells of rounding per item instead of once per order. But I
                    should see it fail and read the code before I believe that.
                    ",
                )
                .todos(
                    "
                    > Reproduce the difference with the failing test
                    - Find where the discount is computed
                    - Fix the cause
                    - Run all tests
                    ",
                ),
            silently().bash(RUN_TESTS, "Run the test suite"),
            say("Reproduced: 5100 cents instead of 5097. Now for the code that computes percentages.")
                .grep("percent", "src"),
            silently().read("src/cart.js").read("src/money.js"),
            say(
                "The discount is taken per item. The invoice takes it off the subtotal, so I'll do the same.",
            )
            .thinking(
                "
                    discount() takes 15 % of the price of one item: 299.85, and Math.floor makes that 299.
                    Times three: 897, so the total is 5100.

                    The invoice takes 15 % of 5997: 899.55, rounded to 900. Total 5097.

                    So there may be two causes: the percentage is taken per item, and it is rounded down. One
                    step at a time.
                    ",
            )
            .todos(
                "
                    x Reproduce the difference with the failing test
                    x Find where the discount is computed
                    > Fix the cause
                    - Run all tests
                    ",
            )
            .edit(
                "src/cart.js",
                "
                    |  const off = (line) => percentOf(line.price, coupon.percent) * line.quantity
                    |  return cart.lines.reduce((sum, line) => sum + off(line), 0)
                    ",
                "
                    |  return percentOf(subtotal(cart), coupon.percent)
                    ",
            ),
            silently().bash(TEST_VERDICTS, "Run the tests, verdicts only"),
            say("Down to one cent: 5098 → 5097. What is left is `Math.floor` in `percentOf`.")
                .thinking(
                    "
                    899.55 is floored to 899. Invoices round half up, and so does Math.round for positive
                    amounts.
                    ",
                )
                .edit(
                    "src/money.js",
                    "
                    |export function percentOf(amount, percent) {
                    |  return Math.floor((amount * percent) / 100)
                    ",
                    "
                    |// Rounds half up, as invoices do.
                    |export function percentOf(amount, percent) {
                    |  return Math.round((amount * percent) / 100)
                    ",
                ),
            silently().bash(RUN_TESTS, "Run the test suite"),
            silently().todos(
                "
                x Reproduce the difference with the failing test
                x Find where the discount is computed
                x Fix the cause
                x Run all tests
                ",
            ),
            say("
                Fixed: order 10482 comes to **€50.97**, and all five tests pass.

                Two mistakes added up:

                1. `discount()` in `src/cart.js` took the percentage off *each item* and multiplied
                   afterwards, so the rounding error was multiplied too.
                2. `percentOf()` in `src/money.js` always rounded down. Invoices round half up.

                The discount is now taken once, off the subtotal:

                ```js
                if (coupon.amount) return Math.min(coupon.amount, subtotal(cart))
                return percentOf(subtotal(cart), coupon.percent)
                ```

                | | discount | total |
                |---|---|---|
                | before | 3 × €2.99 | €51.00 |
                | off the subtotal | €8.99 | €50.98 |
                | and rounded half up | €9.00 | €50.97 |

                Carts without a coupon, or with a fixed one such as `WELCOME5`, come out as before.
                "),
        ],
    )
}

fn test() -> Prompt {
    Prompt::new(
        at(9, 9, 31),
        "Great, thanks! Please add a regression test with different articles in one cart, then commit \
         everything.",
        "Regression test for mixed carts",
        [
            say("One cart, three prices that do not divide evenly.")
                .thinking(
                    "
                    Subtotal 3 × 1999 + 1250 + 2 × 480 = 8207. 15 % is 1231.05, so 1231, and the total is
                    6976. The old code would have taken 897 + 187 + 144 = 1228 off and said 6979: different,
                    good.
                    ",
                )
                .edit(
                    "test/cart.test.js",
                    "
                    |  assert.equal(total(cart), 5097)
                    |})
                    ",
                    "
                    |  assert.equal(total(cart), 5097)
                    |})
                    |
                    |test(\"rounds a percentage once per order\", () => {
                    |  const cart = createCart(\"c6\")
                    |  addLine(cart, \"throw\", 1999, 3)
                    |  addLine(cart, \"mug\", 1250)
                    |  addLine(cart, \"tea\", 480, 2)
                    |  applyCoupon(cart, \"SPRING15\")
                    |  assert.equal(total(cart), 6976) // 8207 - 1231.05
                    |})
                    ",
                ),
            say("A regression test should fail without the fix, so I'll run it both ways.").bash(
                &format!(
                    "git stash push -q src\n{TEST_VERDICTS}\ngit stash pop -q\n\
                     echo '--- with the fix'\n{TEST_VERDICTS}"
                ),
                "Run the tests without and with the fix",
            ),
            silently().bash(
                "git commit -qam '🐛 Take percentage coupons off the subtotal' && git log --oneline -3 --stat",
                "Commit the fix and the test",
            ),
            say(
                "
                Committed as “🐛 Take percentage coupons off the subtotal”: the fix in `src/` and the test
                together.

                The new test puts throws, a mug and tea into one cart. On the old code it fails with 6979
                instead of 6976, so it would have caught this.
                ",
            ),
        ],
    )
}

fn why() -> Prompt {
    Prompt::new(
        at(9, 9, 44),
        "One more thing I want to understand: why didn't the percentage test we already had catch this?",
        "Why the old test passed",
        [say("
            Because its numbers are too round. It puts two lamps at €20.00 in the cart, and 15 % of €20.00 is
            exactly €3.00. Nothing is rounded, so per item or per order makes no difference.

            Prices that end in .99 are the interesting ones: 15 % of €19.99 is €2.9985, and the direction and
            the number of roundings begin to matter.
            ")],
    )
}
