//! A file attached to the prompt, an edit that fails and is made good, a follow-up.

use crate::places::NOTES;
use crate::story::{Mention, Model, Prompt, Session, at};
use crate::turns::{TurnExt, say, silently};

pub(super) fn session() -> Session {
    Session { place: NOTES, model: Model::Sonnet, prompts: vec![accents(), sharp_s()], changes: vec![] }
}

fn accents() -> Prompt {
    Prompt {
        mentions: vec![Mention::File("notes.py")],
        ..Prompt::new(
            at(10, 15, 8),
            "`notes search cafe` does not find “Table at Café Zoë, Friday 19:30”. Please make the search in \
             @notes.py ignore accents, with a test.",
            "Search that ignores accents",
            [
                say("I'll compare folded texts: decomposed, without the combining marks, in lower case.")
                    .thinking(
                        "NFKD splits é into e and U+0301. Dropping the characters of category Mn leaves cafe. \
                         Both sides have to go through the same function.",
                    )
                    .edit(
                        "notes.py",
                        "        if all(word in line.lower() for word in words):\n",
                        "        if all(fold(word) in fold(line) for word in words):\n",
                    ),
                say("That line reads a little differently. Let me get it exactly.").grep("if all", "."),
                silently().edit(
                    "notes.py",
                    "        if all(word.lower() in line.lower() for word in words):\n",
                    "        if all(fold(word) in fold(line) for word in words):\n",
                ),
                silently()
                    .edit(
                        "notes.py",
                        "def search(path, words):\n",
                        "def fold(text):\n    \"\"\"Return the text without accents, in lower case.\"\"\"\n    \
                         decomposed = unicodedata.normalize(\"NFKD\", text)\n    return \"\".join(c for c in \
                         decomposed if not unicodedata.combining(c)).lower()\n\n\ndef search(path, words):\n",
                    )
                    .edit("notes.py", "import argparse\n", "import argparse\nimport unicodedata\n")
                    .read("test_notes.py"),
                silently().edit(
                    "test_notes.py",
                    "\n\nif __name__ == \"__main__\":\n",
                    "\n    def test_search_ignores_accents(self):\n        notes.add(self.path, \"Table at Café Zoë\", \
                     \"2026-02-10\")\n        for word in [\"cafe\", \"CAFÉ\", \"zoe\"]:\n            with \
                     self.subTest(word):\n                self.assertEqual(len(self.found(word)), 1)\n\n\nif __name__ == \
                     \"__main__\":\n",
                ),
                silently().bash("python3 -m unittest -v", "Run the tests"),
                say(
                    "
                    `notes search cafe` finds the table at Café Zoë now, and so do `CAFÉ` and `zoe`.

                    Words and notes both go through a new function before they are compared:

                    ```python
                    def fold(text):
                        decomposed = unicodedata.normalize(\"NFKD\", text)
                        return \"\".join(c for c in decomposed if not unicodedata.combining(c)).lower()
                    ```

                    Notes are stored as they were typed; only the comparison changed.
                    ",
                ),
            ],
        )
    }
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
            say("Not yet: `ß` has no accent to remove. `casefold` is made for this, and does all that `lower` does.")
                .edit(
                    "notes.py",
                    "if not unicodedata.combining(c)).lower()",
                    "if not unicodedata.combining(c)).casefold()",
                ),
            silently().edit("test_notes.py", "\"Table at Café Zoë\"", "\"Table at Café Zoë, Lange Straße\"").edit(
                "test_notes.py",
                "[\"cafe\", \"CAFÉ\", \"zoe\"]",
                "[\"cafe\", \"CAFÉ\", \"zoe\", \"strasse\"]",
            ),
            silently().bash("python3 -m unittest && git diff --stat", "Run the tests, show what changed"),
            say("It does now. `fold` ends with `casefold()` instead of `lower()`, which turns `ß` into `ss`; the test \
                 covers it."),
        ],
    )
}
