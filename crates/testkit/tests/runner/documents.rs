//! The documents name what there is.

use annals_testkit::workspace;

fn read(path: &str) -> String {
    std::fs::read_to_string(workspace().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn the_map_names_every_crate() {
    let map = read("ARCHITECTURE.md");
    for entry in std::fs::read_dir(workspace().join("crates")).unwrap() {
        let name = format!("crates/{}", entry.unwrap().file_name().to_str().unwrap());
        assert!(map.contains(&format!("`{name}`")), "ARCHITECTURE.md does not name {name}");
    }
    for name in ["bench", "fuzz", "fixtures"] {
        assert!(map.contains(&format!("`{name}/`")), "ARCHITECTURE.md does not name {name}/");
    }
}

#[test]
fn links_between_documents_lead_somewhere() {
    for document in ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "fixtures/README.md"] {
        let text = read(document);
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if !target.contains("://") {
                let path = workspace().join(document).parent().unwrap().join(target);
                assert!(path.exists(), "{document} links to {target}");
            }
        }
    }
}

#[test]
fn ci_runs_what_the_readme_says() {
    let readme = read("README.md");
    assert!(readme.contains("\nscripts/test\n"));
    assert!(read(".ci/run").contains("/scripts/test"));
}
