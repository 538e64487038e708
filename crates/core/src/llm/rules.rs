//! The rules by which releases of OpenCode make a request of a history, and what each release does differently.

use std::fmt;

/// The rules of one release of OpenCode. Each method is a question to which releases give different answers; the numbers are
/// the first releases that answer as the later ones do.
///
/// Rules are known for 1.0.185, 1.1.65, 1.2.27 and 1.18.33, each checked against requests that the release sent. A release
/// between two of them gets the rules that its number is known to have; an earlier or later one gets those of the nearest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rules {
    release: [u32; 3],
}

/// A text that is not the version of a release.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a version of OpenCode")]
pub struct UnknownVersion(pub String);

/// The texts of media that a model cannot get inside a tool result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MediaCarrier {
    /// A message for each call, of all its attachments.
    ForEachCall,
    /// A message for all calls of an answer, of images and PDFs.
    Images,
    /// As `Images`, with the names of the files.
    Media,
}

/// The forms that the request for a summary has had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SummaryForm {
    /// The converted history and one sentence.
    Sentence,
    /// The converted history and a template.
    Template,
    /// The converted history without media, and a template.
    TemplateWithoutMedia,
    /// One text that holds the history as a transcript.
    Transcript,
}

impl Rules {
    /// The latest rules that are known.
    pub const LATEST: Rules = Rules::of(1, 18, 33);

    /// The rules of a release.
    pub const fn of(major: u32, minor: u32, patch: u32) -> Rules {
        Rules { release: [major, minor, patch] }
    }

    /// The rules of a version: `1.18.33`, `v1.2`, `1.1.65-beta.1`. A number that is left out stands for the latest release.
    pub fn of_version(version: &str) -> Result<Rules, UnknownVersion> {
        let unknown = || UnknownVersion(version.to_owned());
        let numbers = version.strip_prefix('v').unwrap_or(version);
        let numbers = numbers.split(['-', '+']).next().unwrap_or_default();
        let mut release = [u32::MAX; 3];
        let mut places = release.iter_mut();
        for number in numbers.split('.') {
            let place = places.next().ok_or_else(unknown)?;
            *place = number.parse().map_err(|_| unknown())?;
        }
        Ok(Rules { release })
    }

    /// The rules of the version that a session names as its maker. Builds of developers name none.
    pub fn of_session(version: Option<&str>) -> Rules {
        version.and_then(|version| Rules::of_version(version).ok()).unwrap_or(Rules::LATEST)
    }

    /// The checked release whose rules these are, or the one before.
    pub fn checked_release(self) -> &'static str {
        match self.release {
            [1, 0, _] | [0, ..] => "1.0.185",
            [1, 1, _] => "1.1.65",
            release if release < [1, 14, 0] => "1.2.27",
            _ => "1.18.33",
        }
    }

    const fn since(self, major: u32, minor: u32, patch: u32) -> bool {
        let [a, b, c] = self.release;
        a > major || (a == major && (b > minor || (b == minor && c >= patch)))
    }

    /// Whether a summary that failed leaves its compaction undone.
    pub(super) fn ignores_failed_summaries(self) -> bool {
        self.since(1, 2, 16)
    }

    /// Whether a compaction keeps the end of the history before it, and moves it behind the summary.
    pub(super) fn keeps_tail(self) -> bool {
        self.since(1, 14, 19)
    }

    /// Whether a prompt that came while the agent was working is wrapped in a reminder.
    pub(super) fn wraps_queued_prompts(self) -> bool {
        self.since(1, 1, 1) && !self.since(1, 17, 9)
    }

    /// Whether an empty text of the user is left out.
    pub(super) fn drops_empty_prompts(self) -> bool {
        self.since(1, 14, 42)
    }

    /// Whether an empty text next to signed reasoning becomes a space: Anthropic refuses the reasoning otherwise.
    pub(super) fn keeps_text_beside_signatures(self) -> bool {
        self.since(1, 14, 40)
    }

    /// Whether metadata is sent to the model that it came from, and to no other.
    pub(super) fn keeps_metadata_to_its_model(self) -> bool {
        self.since(1, 1, 29)
    }

    /// Whether another model's reasoning is sent as text.
    pub(super) fn sends_foreign_reasoning_as_text(self) -> bool {
        self.since(1, 14, 32)
    }

    /// Whether calls that were not finished are sent, as interrupted ones.
    pub(super) fn sends_unfinished_calls(self) -> bool {
        self.since(1, 1, 24)
    }

    /// Whether calls that the provider itself carried out are told apart.
    pub(super) fn knows_provider_calls(self) -> bool {
        self.since(1, 4, 1)
    }

    /// Whether an interrupted call is sent with the output it had.
    pub(super) fn sends_partial_output(self) -> bool {
        self.since(1, 4, 2)
    }

    /// Whether each attachment is asked about, and not only the SDK.
    pub(super) fn accepts_media_one_by_one(self) -> bool {
        self.since(1, 14, 42)
    }

    /// Whether a result that consists of attachments has no empty text.
    pub(super) fn drops_empty_result_text(self) -> bool {
        self.since(1, 14, 31)
    }

    pub(super) fn media_carrier(self) -> MediaCarrier {
        if self.since(1, 14, 42) {
            MediaCarrier::Media
        } else if self.since(1, 1, 29) {
            MediaCarrier::Images
        } else {
            MediaCarrier::ForEachCall
        }
    }

    /// Whether metadata of a call is also sent with its result.
    pub(super) fn sends_metadata_of_results(self) -> bool {
        self.since(1, 1, 29)
    }

    /// Whether version 6 of the AI SDK is used, with the providers of its time.
    pub(super) fn has_ai_sdk_6(self) -> bool {
        self.since(1, 3, 4)
    }

    /// Whether chat completions carry reasoning.
    pub(super) fn chat_has_reasoning(self) -> bool {
        self.since(1, 1, 29)
    }

    /// Whether a text of Anthropic's own compaction is told from others.
    pub(super) fn knows_anthropics_compaction(self) -> bool {
        self.since(1, 2, 0)
    }

    /// Whether an answer of which only steps are left is no UI message.
    pub(super) fn drops_bare_steps(self) -> bool {
        self.since(1, 1, 0)
    }

    /// Whether half surrogate pairs are replaced.
    pub(super) fn repairs_surrogates(self) -> bool {
        self.since(1, 14, 40)
    }

    /// Whether empty texts and thoughts are kept from Anthropic's SDK.
    pub(super) fn drops_empty_parts_for_anthropic(self) -> bool {
        self.since(1, 1, 0)
    }

    /// Whether the same goes for Bedrock's.
    pub(super) fn drops_empty_parts_for_bedrock(self) -> bool {
        self.since(1, 2, 0)
    }

    /// Whether a thought is dropped if it is blank and nothing vouches for it. Before, if it was empty.
    pub(super) fn keeps_signed_thoughts(self) -> bool {
        self.since(1, 14, 42)
    }

    /// Whether ids of calls are all that is changed for Claude.
    pub(super) fn ends_tweaks_for_claude(self) -> bool {
        !self.since(1, 14, 19)
    }

    /// What ids of Mistral's models contain.
    pub(super) fn mistral_names(self) -> &'static [&'static str] {
        if self.since(1, 3, 14) {
            &["mistral", "devstral", "codestral", "pixtral", "mixtral"]
        } else if self.since(1, 1, 0) {
            &["mistral", "devstral"]
        } else {
            &["mistral"]
        }
    }

    /// Whether DeepSeek's models get a thought with every answer.
    pub(super) fn adds_thoughts_for_deepseek(self) -> bool {
        self.since(1, 14, 24)
    }

    /// Whether only reasoning under the name `reasoning_content` is put beside an answer's text.
    pub(super) fn interleaves_reasoning_content_only(self) -> bool {
        !self.since(1, 1, 0)
    }

    /// Whether reasoning beside an answer's text is there even if it is empty.
    pub(super) fn always_interleaves(self) -> bool {
        self.since(1, 14, 23)
    }

    /// Whether marks for the provider's cache are merged into metadata, also for models that are only called after Anthropic's.
    pub(super) fn merges_cache_marks(self) -> bool {
        self.since(1, 1, 0)
    }

    /// Whether Vercel's gateway sets such marks itself.
    pub(super) fn leaves_marks_to_gateway(self) -> bool {
        self.since(1, 2, 0)
    }

    /// Whether Vertex's and Alibaba's providers get such marks.
    pub(super) fn marks_other_providers(self) -> bool {
        self.since(1, 14, 19)
    }

    /// Whether metadata under the provider's name is renamed to the name that the SDK looks for.
    pub(super) fn renames_metadata(self) -> bool {
        self.since(1, 1, 0)
    }

    /// Whether each SDK has a name of its own for metadata.
    pub(super) fn has_metadata_names_of_its_own(self) -> bool {
        self.since(1, 14, 19)
    }

    /// Whether ids of items are taken out of the metadata before the request is made. Before, out of the request.
    pub(super) fn drops_item_ids_early(self) -> bool {
        self.since(1, 17, 0)
    }

    /// Whether OpenAI is asked to store its responses, except for Codex. Requests then refer to items instead of repeating
    /// them.
    pub(super) fn has_responses_stored(self) -> bool {
        !self.since(1, 1, 0)
    }

    /// Whether the reminder of the agent `plan` still has two words spelt another way.
    pub(super) fn has_misspelt_plan(self) -> bool {
        !self.since(1, 1, 0)
    }

    pub(super) fn summary_form(self) -> SummaryForm {
        if self.since(1, 18, 15) {
            SummaryForm::Transcript
        } else if self.since(1, 2, 0) {
            SummaryForm::TemplateWithoutMedia
        } else if self.since(1, 1, 0) {
            SummaryForm::Template
        } else {
            SummaryForm::Sentence
        }
    }
}

impl fmt::Display for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<String> =
            self.release.iter().take_while(|&&number| number != u32::MAX).map(u32::to_string).collect();
        f.pad(&numbers.join("."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_people_write_them() {
        assert_eq!(Rules::of_version("1.18.33"), Ok(Rules::LATEST));
        assert_eq!(Rules::of_version("v1.2.27-beta.1"), Ok(Rules::of(1, 2, 27)));
        assert_eq!(Rules::of_version("1.2").unwrap().to_string(), "1.2");
        assert!(Rules::of_version("1.2").unwrap().ignores_failed_summaries());
        for text in ["", "local", "1.x", "1.2.3.4", "-1"] {
            assert_eq!(Rules::of_version(text), Err(UnknownVersion(text.to_owned())), "{text}");
        }
        assert_eq!(Rules::of_session(Some("local")), Rules::LATEST);
        assert_eq!(Rules::of_session(None), Rules::LATEST);
        assert_eq!(Rules::of_session(Some("0.5.29")).checked_release(), "1.0.185");
    }

    #[test]
    fn releases_between_the_checked_ones_have_the_rules_of_their_number() {
        let rules = Rules::of(1, 14, 45);
        assert!(rules.keeps_tail() && rules.wraps_queued_prompts() && rules.drops_empty_prompts());
        assert!(!rules.drops_item_ids_early());
        assert_eq!(rules.summary_form(), SummaryForm::TemplateWithoutMedia);
        assert!(!Rules::of(1, 1, 65).keeps_tail());
        assert!(Rules::of(2, 0, 0).keeps_tail() && !Rules::of(0, 5, 29).wraps_queued_prompts());
    }
}
