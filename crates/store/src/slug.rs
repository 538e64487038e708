//! Slugs: the two words by which OpenCode names a session in the names of files. They are not unique.

use annals_core::ContentHash;
use annals_core::id::SessionId;

const ADJECTIVES: [&str; 29] = [
    "brave", "calm", "clever", "cosmic", "crisp", "curious", "eager", "gentle", "glowing", "happy", "hidden",
    "jolly", "kind", "lucky", "mighty", "misty", "neon", "nimble", "playful", "proud", "quick", "quiet",
    "shiny", "silent", "stellar", "sunny", "swift", "tidy", "witty",
];

const NOUNS: [&str; 31] = [
    "cabin", "cactus", "canyon", "circuit", "comet", "eagle", "engine", "falcon", "forest", "garden",
    "harbor", "island", "knight", "lagoon", "meadow", "moon", "mountain", "nebula", "orchid", "otter",
    "panda", "pixel", "planet", "river", "rocket", "sailor", "squid", "star", "tiger", "wizard", "wolf",
];

/// Two words from OpenCode's lists, chosen by the randomness in the id.
pub(crate) fn slug(id: &SessionId) -> String {
    let hash = ContentHash::of(id.as_str().as_bytes());
    let [a, b, c, d, ..] = *hash.as_bytes();
    let pick = |words: &'static [&'static str], bytes: [u8; 2]| {
        words[usize::from(u16::from_le_bytes(bytes)) % words.len()]
    };
    format!("{}-{}", pick(&ADJECTIVES, [a, b]), pick(&NOUNS, [c, d]))
}
