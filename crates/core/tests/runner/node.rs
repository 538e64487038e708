//! The same texts through Node's own `JSON.parse` and `JSON.stringify`.

use std::process::Command;

use annals_core::Document;
use annals_core::json::{JsWriter, Style};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use super::any_json::{any_json, any_object};

const SCRIPT: &str = "
const texts = JSON.parse(require('fs').readFileSync(0, 'utf8'))
const out = texts.map(t => { const v = JSON.parse(t); return [JSON.stringify(v), JSON.stringify(v, null, 2)] })
process.stdout.write(JSON.stringify(out))";

#[test]
fn texts_are_written_as_node_writes_them() {
    let mut runner = TestRunner::deterministic();
    let strategies = [any_json(), any_object()];
    let texts: Vec<String> =
        (0..4000).map(|n| strategies[n % 2].new_tree(&mut runner).expect("a text").current()).collect();
    let input = serde_json::to_vec(&texts).unwrap();
    let dir = std::env::temp_dir().join(format!("annals-node-{}", std::process::id()));
    std::fs::write(&dir, input).unwrap();
    let output = Command::new("node")
        .args(["-e", SCRIPT])
        .stdin(std::fs::File::open(&dir).unwrap())
        .output()
        .expect("node is installed: the tests need npm as well");
    std::fs::remove_file(&dir).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // Node's answer holds lone surrogates, so our own parser reads it, not serde's.
    let answer = Document::parse(output.stdout).unwrap();
    assert_eq!(answer.root().items().count(), texts.len());
    for (text, answer) in texts.iter().zip(answer.root().items()) {
        let document = Document::parse(text.clone().into_bytes()).unwrap();
        for (style, expected) in [Style::Compact, Style::Pretty].into_iter().zip(answer.items()) {
            let expected = expected.as_text().unwrap();
            let written = JsWriter::document(style, &document);
            assert_eq!(String::from_utf8_lossy(&written), expected.to_str(), "{text}");
        }
    }
}
