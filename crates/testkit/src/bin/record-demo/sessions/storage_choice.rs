//! A short discussion without tools, archived afterwards.

use crate::places::NOTES;
use crate::story::{Change, Model, Prompt, Session, at};
use crate::turns::{TurnExt, say};

pub(super) fn session() -> Session {
    let prompts = vec![
        Prompt::new(
            at(11, 9, 17),
            "I'm thinking of moving the notes into SQLite. Is that overkill for 2,000 lines?",
            "Text file or SQLite for notes",
            [say("
                For 2,000 short lines I'd stay with the text file:

                - Reading all of it takes about a millisecond, so an index gains nothing.
                - You can grep it, diff it and mend it in any editor.
                - Appending one line is as safe as it gets without a database.

                I'd switch once you need one of these: edits to existing notes from two machines, structure
                such as tags with their own attributes, or ranking of search results (FTS5 is very good at
                that).
                ")
            .thinking(
                "
                The file is about 100 kB; a scan is instant. SQLite helps with updates in place, concurrency
                and full-text search. None of that is asked for.
                ",
            )],
        ),
        Prompt::new(
            at(11, 9, 25),
            "OK, convinced. Text it is.",
            "Staying with the text file",
            [say("
                Good choice. If it ever gets slow, the move is an afternoon's work: one table, one `INSERT`
                per line.
                ")],
        ),
    ];
    let changes = vec![(at(13, 17, 2), Change::Archive)];
    Session { place: NOTES, model: Model::GptMini, prompts, changes }
}
