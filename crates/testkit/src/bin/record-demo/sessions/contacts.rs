//! Work in a directory that is not a repository.

use serde_json::json;

use crate::places::SCRATCH;
use crate::story::{Model, Prompt, Session, at};
use crate::turns::{TurnExt, code, say, silently};

const PATCH: &str = "
    |*** Begin Patch
    |*** Add File: dedupe.py
    |+\"\"\"Drop contacts whose address came earlier: dedupe.py IN OUT\"\"\"
    |+
    |+import csv
    |+import sys
    |+
    |+source, target = sys.argv[1:]
    |+seen = set()
    |+with open(source, encoding=\"utf-8\") as rows, open(target, \"w\", encoding=\"utf-8\") as out:
    |+    reader = csv.DictReader(rows)
    |+    writer = csv.DictWriter(out, reader.fieldnames, lineterminator=\"\\n\")
    |+    writer.writeheader()
    |+    for row in reader:
    |+        row = {field: value.strip() for field, value in row.items()}
    |+        address = row[\"email\"].casefold()
    |+        if address in seen:
    |+            print(f\"dropped line {reader.line_num}: {row['name']} <{row['email']}>\")
    |+            continue
    |+        seen.add(address)
    |+        writer.writerow(row)
    |+print(f\"kept {len(seen)} contacts\")
    |*** End Patch
    ";

pub(super) fn session() -> Session {
    let prompt = Prompt::new(
        at(12, 11, 15),
        "contacts.csv has the same people twice. Please make a contacts-clean.csv without the duplicates, \
         and keep the first of each.",
        "Duplicates in contacts.csv",
        [
            silently()
                .thinking("I need to see what the duplicates look like before choosing a key.")
                .bash("wc -l contacts.csv && cat contacts.csv", "Show the contacts"),
            say("The addresses repeat with other case and stray blanks, so I'll compare them without those.")
                .thinking(
                    "
                    Names differ in spelling (Østergaard, Ostergaard) and are no key. The e-mail address is.
                    Jonas Berg has two different addresses and stays twice; I should mention that.
                    ",
                )
                .and("apply_patch", json!({"patchText": code(PATCH)})),
            silently().bash("python3 dedupe.py contacts.csv contacts-clean.csv", "Remove the duplicates"),
            say("
                `contacts-clean.csv` has 19 contacts; five duplicates are gone, the first of each is kept. Two
                contacts are the same if their e-mail addresses are, regardless of case and blanks.

                Have a look at **Jonas Berg**: he is in there twice, with `jonas@example.no` and
                `jonas.berg@example.no`. Probably one person, but I did not want to guess.
                "),
        ],
    );
    Session { place: SCRATCH, model: Model::GptMini, prompts: vec![prompt], changes: vec![] }
}
