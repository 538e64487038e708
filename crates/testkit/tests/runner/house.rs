//! The order of the house: ARCHITECTURE.md names every file, and no two modules import each other.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

const CRATES: [&str; 4] = ["core", "store", "cli", "testkit"];
const BEGIN: &str = "<!-- map -->\n";
const END: &str = "<!-- end of map -->\n";

/// The source files of a crate, parents before what is in them.
fn sources(krate: &str) -> Vec<PathBuf> {
    let root = annals_testkit::workspace().join("crates").join(krate).join("src");
    let mut files = annals_testkit::files_below(&root);
    files.retain(|file| file.extension().is_some_and(|extension| extension == "rs"));
    files.sort_by_key(|file| file.with_extension(""));
    files
}

/// What the first paragraph of a file's header says.
fn purpose(text: &str) -> String {
    let lines = text.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim);
    let paragraph: Vec<&str> = lines.take_while(|line| !line.is_empty()).collect();
    let paragraph = paragraph.join(" ");
    let end = paragraph.find(". ").map_or(paragraph.len(), |end| end + 1);
    paragraph[..end].trim_end_matches('.').to_owned()
}

/// One line for each file: where it stands, and what it owns.
fn map() -> String {
    let mut map = String::new();
    for krate in CRATES {
        let _ = writeln!(map, "\n**`crates/{krate}/src`**\n\n```text");
        let root = annals_testkit::workspace().join("crates").join(krate).join("src");
        let mut named = BTreeSet::new();
        for file in sources(krate) {
            let path = file.strip_prefix(&root).unwrap();
            if path.file_name().is_some_and(|name| name == "tests.rs") {
                continue;
            }
            // A folder without a file of its name gets a line as well.
            let mut folders: Vec<&Path> =
                path.ancestors().skip(1).filter(|folder| folder.components().count() > 0).collect();
            folders.reverse();
            for folder in folders {
                if !root.join(folder).with_extension("rs").is_file() && named.insert(folder.to_owned()) {
                    let indent = "  ".repeat(folder.components().count() - 1);
                    let _ = writeln!(map, "{indent}{} +", folder.file_name().unwrap().display());
                }
            }
            let depth = path.components().count() - 1;
            let name = path.file_name().unwrap().to_string_lossy();
            let is_folder = file.with_extension("").is_dir();
            let name =
                if is_folder { format!("{} +", name.trim_end_matches(".rs")) } else { name.into_owned() };
            let purpose = purpose(&std::fs::read_to_string(&file).unwrap());
            assert!(!purpose.is_empty(), "{} does not say what it owns", file.display());
            let _ = writeln!(map, "{:<28}{purpose}", format!("{}{name}", "  ".repeat(depth)));
        }
        map.push_str("```\n");
    }
    map
}

#[test]
fn the_map_names_every_file() {
    let path = annals_testkit::workspace().join("ARCHITECTURE.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("ARCHITECTURE.md has a map");
    let (written, after) = rest.split_once(END).expect("the map has an end");
    let map = map();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{map}{END}{after}")).unwrap();
    } else {
        assert!(written == map, "run UPDATE_DOCS=1 cargo test -p annals-testkit house");
    }
}

/// The module that a file is.
fn module_of(root: &Path, file: &Path) -> Vec<String> {
    let path = file.strip_prefix(root).unwrap().with_extension("");
    let names: Vec<String> = path.iter().map(|name| name.to_string_lossy().into_owned()).collect();
    match names.last().map(String::as_str) {
        Some("lib" | "main") => Vec::new(),
        _ => names,
    }
}

/// The text without comments and tests.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// Every path in a file that begins with `crate::` or `super::`, as names from the root of the crate.
fn paths(code: &str, module: &[String]) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("crate::").chain(code.match_indices("super::")) {
        let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
        // The middle of a longer path was found at its beginning.
        if code[..at].ends_with(is_word) {
            continue;
        }
        let end = code[at..].find(|c| !is_word(c)).map_or(code.len(), |end| at + end);
        let mut names = Vec::new();
        let mut base = module.to_vec();
        for name in code[at..end].split("::").filter(|name| !name.is_empty()) {
            match name {
                "crate" => base.clear(),
                "super" => drop(base.pop()),
                name => names.push(name.to_owned()),
            }
        }
        let prefix: Vec<String> = base.into_iter().chain(names).collect();
        // The names of a list; what is below them does not matter.
        let list = code[end..].strip_prefix('{').and_then(|list| list.split(';').next()).unwrap_or_default();
        let names = list.split(|c: char| !is_word(c)).filter_map(|path| path.split("::").next());
        for name in names.filter(|name| !name.is_empty()) {
            found.push(prefix.iter().cloned().chain([name.to_owned()]).collect());
        }
        found.push(prefix);
    }
    found
}

/// Which files of a crate each file imports. A module and what is in it belong together: that is no import.
fn imports(krate: &str) -> BTreeMap<String, BTreeSet<String>> {
    let root = annals_testkit::workspace().join("crates").join(krate).join("src");
    let files = sources(krate);
    let modules: BTreeSet<Vec<String>> = files.iter().map(|file| module_of(&root, file)).collect();
    let mut graph = BTreeMap::new();
    for file in &files {
        let module = module_of(&root, file);
        let mut imported = BTreeSet::new();
        for mut path in paths(&code(&std::fs::read_to_string(file).unwrap()), &module) {
            while !path.is_empty() && !modules.contains(&path) {
                path.pop();
            }
            if !path.is_empty() && !path.starts_with(&module) && !module.starts_with(&path) {
                imported.insert(path.join("/"));
            }
        }
        graph.insert(module.join("/"), imported);
    }
    graph
}

#[test]
fn modules_form_no_cycle() {
    for krate in CRATES {
        let mut graph = imports(krate);
        // What imports nothing is read first; what imports only that, next. A cycle is what is left.
        loop {
            let free: Vec<String> = graph
                .iter()
                .filter(|(_, imported)| imported.is_empty())
                .map(|(module, _)| module.clone())
                .collect();
            if free.is_empty() {
                break;
            }
            for module in free {
                graph.remove(&module);
                for imported in graph.values_mut() {
                    imported.remove(&module);
                }
            }
        }
        assert!(graph.is_empty(), "crates/{krate}: {graph:#?}");
    }
}
