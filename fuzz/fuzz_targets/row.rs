//! The data of a row: what it becomes, what OpenCode's server would require of it, and the way back.
#![no_main]

use annals_core::id::{MessageId, PartId, SessionId};
use annals_core::json::same_value;
use annals_core::{Document, Key};
use libfuzzer_sys::fuzz_target;
use opencode::complete::{self, Completed, Surroundings};
use opencode::{arrange, second_store};

/// These files need nothing of their crate, and to build all of it for a fuzzer would take minutes.
#[allow(dead_code)]
#[path = "../../crates/store/src/homes/opencode"]
mod opencode {
    pub mod arrange;
    pub mod complete;
    pub mod second_store;
}

fuzz_target!(|data: &[u8]| {
    let session = SessionId::parse("ses_1").expect("an id");
    let message = MessageId::parse("msg_1").expect("an id");
    let part = PartId::parse("prt_1").expect("an id");
    let key = Key::Part(session.clone(), message.clone(), part.clone());
    let alone = Document::parse(data.to_vec());
    // A row is JSON if its data is, and not by what is added to it.
    let row = match arrange::from_row(&key, data) {
        Ok(row) => row,
        Err(_) => return assert!(alone.is_err()),
    };
    let alone = alone.expect("the row is JSON");
    let again = arrange::from_row(&key, arrange::row_data(&key, &row).as_bytes()).expect("written by us");
    assert!(same_value(again.root(), row.root()));
    assert!(arrange::is_same(&key, &row, &arrange::for_file(&key, &row).expect("not too deep")));
    let around = Surroundings { created: 1, ..Surroundings::default() };
    for completed in [complete::part(&row, &part, &around), complete::message(&row, &around)] {
        if let Completed::Edited { document, .. } = completed {
            assert!(complete::covers(&document, &row));
        }
    }
    for kind in ["user", "assistant", "shell", "compaction", "?"] {
        let rows = [second_store::SecondStoreRow { id: message.clone(), kind: kind.to_owned(), data: alone.clone() }];
        assert_eq!(second_store::convert(&session, "/d", &rows).len(), 1);
    }
});
