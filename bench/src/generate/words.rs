//! The vocabulary: sixty thousand distinct words and identifiers in order of frequency.
//!
//! It is the same for every seed, so a search term means the same in every home. The first ranks are
//! the commonest English words; all others are made of syllables, so that they look and compress like words
//! without being anybody's text.

use std::collections::HashSet;

use super::rng::{Rng, Stream};
use super::zipf::Zipf;

pub(crate) const VOCABULARY: usize = 60_000;

/// Below this rank everything is ASCII: words in other scripts should be rare in the text, not only few.
const FIRST_FOREIGN_RANK: usize = 1500;

/// The form of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Plain,
    /// `read_timeout`
    Snake,
    /// `readTimeout`
    Camel,
    /// `ReadTimeout`
    Pascal,
    /// `net.read_timeout`
    Dotted,
    /// `src/net/read_timeout.rs`
    Path,
    /// Cyrillic, CJK, or Latin with accents.
    Foreign,
}

const FORMS: [(u64, Form); 7] = [
    (65, Form::Plain),
    (11, Form::Snake),
    (8, Form::Camel),
    (4, Form::Pascal),
    (3, Form::Dotted),
    (4, Form::Path),
    (5, Form::Foreign),
];

#[derive(Debug)]
pub(crate) struct Words {
    ranked: Vec<(Form, String)>,
    any: Zipf,
    plain: Bag,
    snake: Bag,
    camel: Bag,
    pascal: Bag,
    path: Bag,
}

/// The words of one form, again by rank.
#[derive(Debug)]
struct Bag {
    ranks: Vec<usize>,
    zipf: Zipf,
}

impl Words {
    pub(crate) fn new() -> Self {
        let ranked = rank_words();
        let bag = |form| {
            let ranks: Vec<usize> = (0..ranked.len()).filter(|&rank| ranked[rank].0 == form).collect();
            let zipf = Zipf::new(ranks.len());
            Bag { ranks, zipf }
        };
        Self {
            any: Zipf::new(ranked.len()),
            plain: bag(Form::Plain),
            snake: bag(Form::Snake),
            camel: bag(Form::Camel),
            pascal: bag(Form::Pascal),
            path: bag(Form::Path),
            ranked,
        }
    }

    /// All words, the most frequent first.
    pub(crate) fn into_ranked(self) -> impl Iterator<Item = String> {
        self.ranked.into_iter().map(|(_, word)| word)
    }

    /// A word as running text has it.
    pub(crate) fn any(&self, rng: &mut Rng) -> (Form, &str) {
        self.at(self.any.rank(rng))
    }

    /// A word for a session to dwell on: any rank past the commonest is as likely as any other.
    pub(crate) fn theme(&self, rng: &mut Rng) -> (Form, &str) {
        self.at(rng.between(200, VOCABULARY as u64 - 1) as usize)
    }

    pub(crate) fn plain(&self, rng: &mut Rng) -> &str {
        self.from(&self.plain, rng)
    }

    pub(crate) fn snake(&self, rng: &mut Rng) -> &str {
        self.from(&self.snake, rng)
    }

    pub(crate) fn camel(&self, rng: &mut Rng) -> &str {
        self.from(&self.camel, rng)
    }

    pub(crate) fn pascal(&self, rng: &mut Rng) -> &str {
        self.from(&self.pascal, rng)
    }

    pub(crate) fn path(&self, rng: &mut Rng) -> &str {
        self.from(&self.path, rng)
    }

    /// Any word of the form, the rare ones as likely as the others: for names of files and tests.
    pub(crate) fn rare(&self, form: Form, rng: &mut Rng) -> &str {
        let bag = match form {
            Form::Snake => &self.snake,
            Form::Camel => &self.camel,
            Form::Pascal => &self.pascal,
            Form::Path => &self.path,
            Form::Plain | Form::Dotted | Form::Foreign => &self.plain,
        };
        &self.ranked[rng.pick(&bag.ranks)].1
    }

    fn at(&self, rank: usize) -> (Form, &str) {
        let (form, word) = &self.ranked[rank];
        (*form, word)
    }

    fn from(&self, bag: &Bag, rng: &mut Rng) -> &str {
        &self.ranked[bag.ranks[bag.zipf.rank(rng)]].1
    }
}

fn rank_words() -> Vec<(Form, String)> {
    let mut rng = Rng::new(0, Stream::Vocabulary, 0);
    let mut seen: HashSet<String> = HashSet::with_capacity(VOCABULARY);
    let mut plain: Vec<String> = Vec::new();
    let mut ranked: Vec<(Form, String)> = Vec::with_capacity(VOCABULARY);
    for word in COMMON.split_whitespace() {
        if seen.insert(word.to_owned()) {
            ranked.push((Form::Plain, word.to_owned()));
        }
    }
    while ranked.len() < VOCABULARY {
        let form = match rng.weighted(&FORMS) {
            Form::Foreign if ranked.len() < FIRST_FOREIGN_RANK => Form::Plain,
            // Identifiers are put together from words, so there have to be some first.
            _ if plain.len() < 50 => Form::Plain,
            form => form,
        };
        let word = match form {
            Form::Plain => syllables(&mut rng, ranked.len()),
            Form::Foreign => foreign(&mut rng),
            _ => identifier(&mut rng, form, &plain),
        };
        if seen.insert(word.clone()) {
            if form == Form::Plain {
                plain.push(word.clone());
            }
            ranked.push((form, word));
        }
    }
    ranked
}

/// Frequent words are short ones.
fn syllables(rng: &mut Rng, rank: usize) -> String {
    let count = match rank {
        0..1_000 => rng.between(1, 2),
        1_000..10_000 => rng.between(1, 3),
        _ => rng.between(2, 4),
    };
    let mut word = String::new();
    for nth in 0..count {
        word.push_str(rng.pick(&ONSETS));
        word.push_str(rng.pick(&VOWELS));
        if nth + 1 == count || rng.chance(0.3) {
            word.push_str(rng.pick(&CODAS));
        }
    }
    if rng.chance(0.25) {
        word.push_str(rng.pick(&ENDINGS));
    }
    word
}

fn identifier(rng: &mut Rng, form: Form, plain: &[String]) -> String {
    // Early words are met again and again inside identifiers, as in a real code base.
    let mut part = || {
        let bound = if rng.chance(0.7) { plain.len().min(400) } else { plain.len() };
        plain[rng.index(bound)].as_str()
    };
    let (first, second, third) = (part(), part(), part());
    match form {
        Form::Snake if rng.chance(0.4) => format!("{first}_{second}_{third}"),
        Form::Snake => format!("{first}_{second}"),
        Form::Camel if rng.chance(0.4) => format!("{first}{}{}", capital(second), capital(third)),
        Form::Camel => format!("{first}{}", capital(second)),
        Form::Pascal => format!("{}{}", capital(first), capital(second)),
        Form::Dotted => format!("{first}.{second}_{third}"),
        _ => {
            let folder = rng.pick(&FOLDERS);
            let ending = rng.pick(&["rs", "ts", "py", "go", "md", "json", "toml"]);
            format!("{folder}/{first}/{second}_{third}.{ending}")
        }
    }
}

pub(crate) fn capital(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

fn foreign(rng: &mut Rng) -> String {
    let mut word = String::new();
    match rng.below(3) {
        0 => {
            for _ in 0..rng.between(2, 4) {
                word.push_str(rng.pick(&CYRILLIC));
            }
        }
        1 => {
            let signs: Vec<char> = CJK.chars().collect();
            for _ in 0..rng.between(2, 3) {
                word.push(rng.pick(&signs));
            }
        }
        _ => {
            for _ in 0..rng.between(2, 3) {
                word.push_str(rng.pick(&ONSETS));
                word.push_str(rng.pick(&ACCENTED));
            }
            word.push_str(rng.pick(&CODAS));
        }
    }
    word
}

const COMMON: &str = "the to a of and is in it that for this with on be as are not you we can if an or by \
    from at file which but have was when so will all has no code there use test error one should function now \
    do need let i only line then into more because also where value same set out up first other than type new \
    before after how does each any change call they what some make its read name works here would add run \
    data still over return list check just like two path both default already key without see";

const ONSETS: [&str; 40] = [
    "b", "br", "c", "ch", "cl", "cr", "d", "dr", "f", "fl", "fr", "g", "gl", "gr", "h", "j", "k", "l", "m",
    "n", "p", "pl", "pr", "qu", "r", "s", "sc", "sh", "sk", "sl", "sp", "st", "str", "t", "th", "tr", "v",
    "w", "y", "z",
];
const VOWELS: [&str; 12] = ["a", "e", "i", "o", "u", "a", "e", "i", "o", "ea", "ou", "ai"];
const CODAS: [&str; 18] =
    ["", "", "", "ck", "d", "g", "l", "m", "n", "nd", "nt", "p", "r", "rk", "s", "st", "t", "x"];
const ENDINGS: [&str; 10] = ["ing", "ed", "er", "ly", "tion", "able", "ment", "ness", "al", "s"];
const FOLDERS: [&str; 10] =
    ["src", "lib", "crates", "packages", "internal", "tests", "cmd", "app", "docs", "scripts"];
const CYRILLIC: [&str; 24] = [
    "ба", "ве", "го", "да", "жи", "за", "ка", "ко", "ле", "ми", "на", "но", "по", "пре", "ра", "ро", "са",
    "сто", "та", "ти", "фа", "хо", "ча", "ся",
];
const CJK: &str = "的一是不了人我在有他这中大来上个国到说们为子和你地出道也时年得就那要下以生会自着去之过家学对可里\
    后小么心多天而能好都然没日于起还发成事只作当想看文无开手十用主行方又如前所本见经头面公同三已老从\
    动两长知民样现分将外但身些与高意进把法此实回二理";
const ACCENTED: [&str; 12] = ["é", "è", "ü", "ö", "ä", "ñ", "å", "ø", "ê", "ç", "š", "ó"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_distinct_and_a_third_are_code() {
        let words = Words::new();
        let code = words.ranked.iter().filter(|(form, _)| !matches!(form, Form::Plain | Form::Foreign));
        let share = code.count() as f64 / VOCABULARY as f64;
        assert!((0.28..0.32).contains(&share), "{share}");
        let distinct: HashSet<String> = words.into_ranked().collect();
        assert_eq!(distinct.len(), VOCABULARY);
    }
}
