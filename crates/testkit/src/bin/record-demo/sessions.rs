//! The sessions, in the order in which they begin. A later one finds the files as an earlier one left them.

mod accents;
mod checkout_path;
mod contacts;
mod coupon_rules;
mod coupon_totals;
mod currencies;
mod release_notes;
mod soak_test;
mod storage_choice;

use crate::story::Session;

pub(crate) fn all() -> Vec<Session> {
    vec![
        coupon_totals::session(),
        checkout_path::session(),
        coupon_rules::session(),
        accents::session(),
        storage_choice::session(),
        currencies::session(),
        contacts::session(),
        soak_test::session(),
        release_notes::session(),
    ]
}
