//! A file attached to the prompt, an edit that fails and is made good, a follow-up.

use crate::places::NOTES;
use crate::story::{Mention, Model, Prompt, Session, at};
use crate::turns::{TurnExt, say, silently};

const COMPARISON: &str = "if all(fold(word) in fold(line) for word in words):";

pub(super) fn session() -> Session {
    Session { place: NOTES, model: Model::Sonnet, prompts: vec![accents(), sharp_s()], changes: vec![] }
}

fn accents() -> Prompt {
    let prompt = Prompt::new(
        at(10, 15, 8),
        "`notes search cafe` does not find “Table at Café Zoë, Friday 19:30”. Please make the search in \
         @notes.py ignore accents, with a test.",
        "Search that ignores accents",
        [
            say("I'll compare folded texts: decomposed, without the combining marks, in lower case.")
                .thinking(
                    "
                    NFKD splits é into e and U+0301. Dropping the combining characters leaves cafe. Both sides
                    have to go through the same function.
                    ",
                )
                .edit("notes.py", "if all(word in line.lower() for word in words):", COMPARISON),
            say("That line reads a little differently. Let me get it exactly.").grep("if all", "."),
            silently().edit(
                "notes.py",
                "if all(word.lower() in line.lower() for word in words):",
                COMPARISON,
            ),
            silently()
                .edit(
                    "notes.py",
                    "
                    |def search(path, words):
                    ",
                    "
                    |def fold(text):
                    |    \"\"\"Return the text without accents, in lower case.\"\"\"
                    |    text = unicodedata.normalize(\"NFKD\", text)
                    |    return \"\".join(c for c in text if not unicodedata.combining(c)).lower()
                    |
                    |
                    |def search(path, words):
                    ",
                )
                .edit("notes.py", "import argparse", "import argparse\nimport unicodedata")
                .read("test_notes.py"),
            silently().edit(
                "test_notes.py",
                "
                |        self.assertEqual(self.found(\"buy\", \"mug\"), [\"2026-02-03 Buy a mug\"])
                ",
                "
                |        self.assertEqual(self.found(\"buy\", \"mug\"), [\"2026-02-03 Buy a mug\"])
                |
                |    def test_search_ignores_accents(self):
                |        notes.add(self.path, \"Table at Café Zoë\", \"2026-02-10\")
                |        for word in [\"cafe\", \"CAFÉ\", \"zoe\"]:
                |            with self.subTest(word):
                |                self.assertEqual(len(self.found(word)), 1)
                ",
            ),
            silently().bash("python3 -m unittest -v", "Run the tests"),
            say("
                `notes search cafe` finds the table at Café Zoë now, and so do `CAFÉ` and `zoe`.

                Words and notes both go through a new function before they are compared:

                ```python
                def fold(text):
                    text = unicodedata.normalize(\"NFKD\", text)
                    return \"\".join(c for c in text if not unicodedata.combining(c)).lower()
                ```

                Notes are stored as they were typed; only the comparison changed.
                "),
        ],
    );
    Prompt { mentions: vec![Mention::File("notes.py")], n_failed_calls: 1, ..prompt }
}

fn sharp_s() -> Prompt {
    Prompt::new(
        at(10, 15, 21),
        "Does it find Straße when I type strasse?",
        "Searching for ß",
        [
            silently().bash(
                r#"python3 -c 'import notes; print(notes.fold("Straße"), notes.fold("strasse"))'"#,
                "Fold both spellings",
            ),
            say("Not yet: `ß` has no accent to remove. `casefold` is made for this, and replaces `lower`.")
                .edit("notes.py", "combining(c)).lower()", "combining(c)).casefold()"),
            silently().edit("test_notes.py", "Table at Café Zoë", "Table at Café Zoë, Lange Straße").edit(
                "test_notes.py",
                "\"zoe\"]",
                "\"zoe\", \"strasse\"]",
            ),
            silently().bash("python3 -m unittest && git diff --stat", "Run the tests, show what changed"),
            say("
                It does now. `fold` ends with `casefold()` instead of `lower()`, which turns `ß` into `ss`;
                the test covers it.
                "),
        ],
    )
}
