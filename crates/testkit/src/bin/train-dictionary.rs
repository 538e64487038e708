//! Trains the dictionary that annals.db compresses documents with, on the documents of the fixtures.
//!
//! `cargo run -p annals-testkit --bin train-dictionary -- crates/store/src/stores/sqlite/dictionary-1.zdict`. A dictionary
//! that has been released is never trained again: documents in people's stores need it. A new one gets a new number.

use annals_testkit::Fixture;

/// Size of the dictionary. A larger one makes documents hardly smaller, and every process that opens a store has to load it.
const DICTIONARY_BYTES: usize = 24 << 10;
/// Limit on a sample. A dictionary helps short documents, and a long text says nothing about them.
const SAMPLE_BYTES: usize = 4 << 10;

fn main() -> std::io::Result<()> {
    let path = std::env::args().nth(1).ok_or_else(|| std::io::Error::other("where to?"))?;
    let mut samples = Vec::new();
    for name in Fixture::FLAT {
        let fixture = Fixture::unpack(name);
        let mut files = fixture.stored_files();
        files.sort();
        for file in files {
            let bytes = std::fs::read(&file)?;
            let Ok(value) = serde_json::from_slice::<serde_json::Value>(&bytes) else { continue };
            // Databases hold the same documents without white space.
            for mut sample in [bytes, serde_json::to_vec(&value)?] {
                sample.truncate(SAMPLE_BYTES);
                samples.push(sample);
            }
        }
    }
    let dictionary = zstd::dict::from_samples(&samples, DICTIONARY_BYTES)?;
    std::fs::write(path, dictionary)
}
