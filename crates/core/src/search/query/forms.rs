//! Other forms of an English word: `refund` also finds `refunds`, `refunded` and `refunding`.
//!
//! Forms are made from the query and looked up as words, so the index holds words as they are written, and a quoted word is found only as it is.
//! By hand, because a stemmer (`rust-stemmers`) maps words to stems that are no words: the index would have to hold those, and phrases and
//! exact words would need a second one. What is made here and does not exist is not found, which costs a look-up.

/// Shorter words have too many neighbours: `is`, `as`, `ring`.
const SHORTEST: usize = 4;
/// Longer ones are no words.
const LONGEST: usize = 30;
/// Shorter stems are no words: the `ed` of `seed` is no ending.
const SHORTEST_STEM: usize = 3;

/// Whether a term as it was typed is a word that may have other forms: nothing but letters, so that it is one token.
pub(super) fn may_vary(source: &str) -> bool {
    (SHORTEST..=LONGEST).contains(&source.len()) && source.bytes().all(|b| b.is_ascii_alphabetic())
}

/// Other forms of a word in lower case. Nothing for what is not an English word by its letters.
pub(super) fn forms(word: &str) -> Vec<String> {
    if word.len() < SHORTEST || !word.bytes().all(|b| b.is_ascii_lowercase()) {
        return Vec::new();
    }
    let mut forms: Vec<String> = Vec::new();
    for base in bases(word) {
        add_forms(&base, &mut forms);
    }
    forms.sort_unstable();
    forms.dedup();
    forms.retain(|form| form != word);
    forms
}

/// The words that this may be a form of, itself included.
fn bases(word: &str) -> Vec<String> {
    let mut bases = vec![word.to_owned()];
    let stem = |ending: &str| word.strip_suffix(ending).filter(|stem| stem.len() >= SHORTEST_STEM);
    if let Some(stem) = stem("ies") {
        bases.push(format!("{stem}y"));
    }
    if let Some(stem) = stem("es").filter(|stem| takes_es(stem)) {
        bases.push(stem.to_owned());
    }
    if let Some(stem) = stem("s").filter(|stem| !stem.ends_with('s')) {
        bases.push(stem.to_owned());
    }
    for ending in ["ed", "ing"] {
        if let Some(stem) = stem(ending).filter(|stem| stem.contains(is_vowel)) {
            bases.push(stem.to_owned());
            bases.push(format!("{stem}e"));
            if let Some(single) = without_double(stem) {
                bases.push(single.to_owned());
            }
        }
    }
    if let Some(stem) = stem("ied") {
        bases.push(format!("{stem}y"));
    }
    bases
}

fn add_forms(base: &str, forms: &mut Vec<String>) {
    forms.push(base.to_owned());
    let before_last = base.bytes().rev().nth(1).map(char::from);
    let ends_in_y = base.ends_with('y') && before_last.is_some_and(|c| !is_vowel(c));
    match ends_in_y {
        true => {
            let stem = &base[..base.len() - 1];
            forms.extend([format!("{stem}ies"), format!("{stem}ied"), format!("{base}ing")]);
        }
        false if base.ends_with('e') => {
            let stem = &base[..base.len() - 1];
            forms.extend([format!("{base}s"), format!("{base}d"), format!("{stem}ing")]);
        }
        false => {
            let plural = if takes_es(base) { "es" } else { "s" };
            forms.extend([format!("{base}{plural}"), format!("{base}ed"), format!("{base}ing")]);
            if let Some(last) = doubled(base) {
                forms.extend([format!("{base}{last}ed"), format!("{base}{last}ing")]);
            }
        }
    }
}

fn is_vowel(c: char) -> bool {
    matches!(c, 'a' | 'e' | 'i' | 'o' | 'u' | 'y')
}

/// Whether the plural of a word ends in `es`.
fn takes_es(word: &str) -> bool {
    ["s", "x", "z", "ch", "sh"].iter().any(|ending| word.ends_with(ending))
}

/// The last letter of a word, if it is doubled before an ending: the `p` of `stop`.
fn doubled(word: &str) -> Option<char> {
    let letters: Vec<char> = word.chars().rev().take(3).collect();
    match letters[..] {
        [last, vowel, before]
            if !is_vowel(last) && is_vowel(vowel) && !is_vowel(before) && !matches!(last, 'w' | 'x') =>
        {
            Some(last)
        }
        _ => None,
    }
}

/// A stem whose last letter was doubled before an ending: `stopp` is `stop`.
fn without_double(stem: &str) -> Option<&str> {
    let mut letters = stem.chars().rev();
    let (last, before) = (letters.next()?, letters.next()?);
    (last == before && !is_vowel(last)).then(|| &stem[..stem.len() - 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words that are forms of each other, each found by each.
    #[test]
    fn each_form_finds_the_others() {
        for family in [
            &["refund", "refunds", "refunded", "refunding"][..],
            &["parse", "parses", "parsed", "parsing"],
            &["stop", "stops", "stopped", "stopping"],
            &["crash", "crashes", "crashed", "crashing"],
            &["query", "queries", "queried", "querying"],
            &["index", "indexes", "indexed", "indexing"],
            &["commit", "commits", "committed", "committing"],
            &["delay", "delays", "delayed", "delaying"],
        ] {
            for word in family {
                let found = forms(word);
                for other in family.iter().filter(|other| *other != word) {
                    assert!(
                        found.iter().any(|form| form == other),
                        "{word} does not find {other}: {found:?}"
                    );
                }
                assert!(!found.iter().any(|form| form == word), "{word}");
            }
        }
    }

    #[test]
    fn what_is_no_word_has_no_forms() {
        for word in ["is", "as", "ab1", "größe", "日本語", "x", "main.rs", "ring_buffer"] {
            assert!(forms(word).is_empty(), "{word}: {:?}", forms(word));
        }
        assert!(!forms("class").contains(&"clas".to_owned()));
        assert!(!forms("seed").contains(&"se".to_owned()));
        assert!(forms("test").len() < 10);
    }
}
