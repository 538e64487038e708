//! Changes to files, in the form in which each generation of OpenCode notes them.

use annals_core::file_patch::file_patch;
use annals_core::json::Text;
use annals_core::lens::FileDiff;

use crate::homes::opencode::dialect::Dialect;

/// The changes as the dialect has them: the texts before and after, or a patch.
pub(super) fn in_dialect(diffs: &[FileDiff<'_>], dialect: Dialect) -> Vec<FileDiff<'static>> {
    diffs.iter().map(|diff| one_in_dialect(diff, dialect)).collect()
}

fn one_in_dialect(diff: &FileDiff<'_>, dialect: Dialect) -> FileDiff<'static> {
    let own = |text: &Option<Text<'_>>| text.as_ref().map(|text| text.to_string().into());
    let given = FileDiff {
        file: own(&diff.file),
        before: own(&diff.before),
        after: own(&diff.after),
        patch: own(&diff.patch),
        additions: diff.additions,
        deletions: diff.deletions,
        status: own(&diff.status),
    };
    if !dialect.writes_patches() {
        return given;
    }
    let (Some(before), Some(after)) = (&diff.before, &diff.after) else { return given };
    let name = diff.file.as_ref().map(Text::to_str).unwrap_or_default();
    let patch = given.patch.unwrap_or_else(|| match before == after {
        true => "".into(),
        false => file_patch(&name, &before.to_str(), &after.to_str()).into(),
    });
    FileDiff { before: None, after: None, patch: Some(patch), ..given }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_texts_before_1_4_and_patches_since() {
        let diff = |before: &'static str, after: &'static str| FileDiff {
            file: Some("hello.txt".into()),
            before: Some(before.into()),
            after: Some(after.into()),
            ..Default::default()
        };
        let [kept] = &in_dialect(&[diff("", "hello\n")], Dialect::V1_2)[..] else { panic!("one") };
        assert!(kept.before.is_some() && kept.patch.is_none());
        let [patched] = &in_dialect(&[diff("", "hello\n")], Dialect::V1_18)[..] else { panic!("one") };
        assert!(patched.before.is_none());
        assert!(patched.patch.as_ref().unwrap().to_str().ends_with("@@ -0,0 +1,1 @@\n+hello\n"));
        // Two equal texts are those of a binary file.
        let [binary] = &in_dialect(&[diff("", "")], Dialect::V1_18)[..] else { panic!("one") };
        assert_eq!(binary.patch.as_ref().unwrap(), "");
    }
}
