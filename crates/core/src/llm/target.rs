//! The model that a request is made for: whose it is, through which SDK it is asked, what it can read.

use std::fmt;
use std::str::FromStr;

use super::rules::Rules;

/// The model that a request is made for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The provider's id in OpenCode.
    pub provider: String,
    /// The model's id in OpenCode.
    pub model: String,
    /// The SDK through which OpenCode asks the provider.
    pub sdk: Sdk,
    /// What the model can read besides text.
    pub input: Modalities,
    /// The member beside an answer's text under which the model wants its reasoning back, if it does
    /// (`interleaved.field` in OpenCode's configuration).
    pub interleaved: Option<String>,
}

impl Target {
    /// A model that reads everything.
    pub fn new(provider: impl Into<String>, model: impl Into<String>, sdk: Sdk) -> Target {
        let (provider, model) = (provider.into(), model.into());
        Target { provider, model, sdk, input: Modalities::ALL, interleaved: None }
    }

    /// Whether the model's id contains a name. Case counts.
    pub(super) fn is_called(&self, name: &str) -> bool {
        self.model.contains(name)
    }

    /// Whether attachments of a kind may stand inside a tool result.
    pub(super) fn accepts_in_results(&self, media_type: &str, rules: Rules) -> bool {
        let model = self.model.to_lowercase();
        let has = |names: &[&str]| names.iter().any(|name| model.contains(name));
        match self.sdk {
            Sdk::Anthropic | Sdk::OpenAi | Sdk::VertexAnthropic => true,
            Sdk::BedrockMantle => rules.accepts_media_one_by_one(),
            Sdk::Bedrock if rules.accepts_media_one_by_one() => {
                media_type.starts_with("image/") && has(&["anthropic.", "nova", "llama4", "llama-4"])
            }
            Sdk::Bedrock => true,
            Sdk::Xai => rules.accepts_media_one_by_one() && media_type.starts_with("image/"),
            Sdk::Google => has(&["gemini-3"]) && !has(&["gemini-2"]),
            _ => false,
        }
    }
}

/// What a model can read besides text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Modalities {
    /// Images.
    pub image: bool,
    /// PDF documents.
    pub pdf: bool,
    /// Sound.
    pub audio: bool,
    /// Films.
    pub video: bool,
}

/// A text that names no kind of input.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a kind of input: use text, image, pdf, audio, video")]
pub struct UnknownModality(pub String);

impl Modalities {
    /// Everything.
    pub const ALL: Modalities = Modalities { image: true, pdf: true, audio: true, video: true };

    /// Text alone.
    pub const TEXT: Modalities = Modalities { image: false, pdf: false, audio: false, video: false };

    /// The kind of input that a file is, in OpenCode's words, and whether it can be read. `None` for files that no kind is
    /// known of: they are sent in any case.
    pub(super) fn reads(self, media_type: &str) -> Option<(&'static str, bool)> {
        if media_type.starts_with("image/") {
            Some(("image", self.image))
        } else if media_type.starts_with("audio/") {
            Some(("audio", self.audio))
        } else if media_type.starts_with("video/") {
            Some(("video", self.video))
        } else if media_type == "application/pdf" {
            Some(("pdf", self.pdf))
        } else {
            None
        }
    }
}

impl FromStr for Modalities {
    type Err = UnknownModality;

    /// Reads a list such as `text,image`.
    fn from_str(list: &str) -> Result<Modalities, UnknownModality> {
        let mut input = Modalities::TEXT;
        for name in list.split(',').map(str::trim) {
            match name {
                "text" => {}
                "image" => input.image = true,
                "pdf" => input.pdf = true,
                "audio" => input.audio = true,
                "video" => input.video = true,
                _ => return Err(UnknownModality(name.to_owned())),
            }
        }
        Ok(input)
    }
}

/// Declares the SDKs.
macro_rules! sdks {
    ($( $(#[$meta:meta])* $variant:ident = $name:literal, $package:literal, [$($provider:literal),*]; )*) => {
        /// The SDK through which OpenCode asks a provider.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Sdk {
            $( $(#[$meta])* $variant, )*
        }

        impl Sdk {
            /// Every SDK.
            pub const ALL: &'static [Sdk] = &[$( Sdk::$variant, )*];

            /// Its short name.
            pub fn name(self) -> &'static str {
                match self { $( Sdk::$variant => $name, )* }
            }

            /// The package that OpenCode's configuration names.
            pub fn package(self) -> &'static str {
                match self { $( Sdk::$variant => $package, )* }
            }

            /// The SDK of a well-known provider.
            pub fn of_provider(provider: &str) -> Option<Sdk> {
                match provider {
                    $( $( $provider => Some(Sdk::$variant), )* )*
                    _ => None,
                }
            }
        }
    };
}

sdks! {
    /// Servers that speak OpenAI's chat completions.
    OpenAiCompatible = "openai-compatible", "@ai-sdk/openai-compatible", ["openai-compatible"];
    /// Anthropic.
    Anthropic = "anthropic", "@ai-sdk/anthropic", ["anthropic"];
    /// OpenAI.
    OpenAi = "openai", "@ai-sdk/openai", ["openai"];
    /// Azure.
    Azure = "azure", "@ai-sdk/azure", ["azure", "azure-cognitive-services"];
    /// Google's Gemini.
    Google = "google", "@ai-sdk/google", ["google"];
    /// Google's Vertex.
    Vertex = "google-vertex", "@ai-sdk/google-vertex", ["google-vertex"];
    /// Anthropic's models on Google's Vertex.
    VertexAnthropic = "google-vertex/anthropic", "@ai-sdk/google-vertex/anthropic", ["google-vertex-anthropic"];
    /// Amazon's Bedrock.
    Bedrock = "amazon-bedrock", "@ai-sdk/amazon-bedrock", ["amazon-bedrock"];
    /// OpenAI's models on Amazon's Bedrock.
    BedrockMantle = "amazon-bedrock/mantle", "@ai-sdk/amazon-bedrock/mantle", ["amazon-bedrock-mantle"];
    /// GitHub's Copilot.
    Copilot = "github-copilot", "@ai-sdk/github-copilot", ["github-copilot", "github-copilot-enterprise"];
    /// OpenRouter.
    OpenRouter = "openrouter", "@openrouter/ai-sdk-provider", ["openrouter"];
    /// Vercel's gateway.
    Gateway = "gateway", "@ai-sdk/gateway", ["vercel"];
    /// xAI.
    Xai = "xai", "@ai-sdk/xai", ["xai"];
    /// Mistral.
    Mistral = "mistral", "@ai-sdk/mistral", ["mistral"];
    /// Alibaba.
    Alibaba = "alibaba", "@ai-sdk/alibaba", [];
    /// Groq.
    Groq = "groq", "@ai-sdk/groq", ["groq"];
    /// Cerebras.
    Cerebras = "cerebras", "@ai-sdk/cerebras", ["cerebras"];
    /// Cohere.
    Cohere = "cohere", "@ai-sdk/cohere", ["cohere"];
    /// DeepInfra.
    DeepInfra = "deepinfra", "@ai-sdk/deepinfra", ["deepinfra"];
    /// Together.
    Together = "togetherai", "@ai-sdk/togetherai", ["togetherai"];
    /// Perplexity.
    Perplexity = "perplexity", "@ai-sdk/perplexity", ["perplexity"];
    /// Vercel's own models.
    Vercel = "vercel", "@ai-sdk/vercel", ["v0"];
    /// Venice.
    Venice = "venice", "venice-ai-sdk-provider", ["venice"];
}

/// A text that names no SDK.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an SDK of OpenCode")]
pub struct UnknownSdk(pub String);

impl Sdk {
    /// The SDK that a provider is most likely asked through.
    pub fn guess(provider: &str) -> Sdk {
        Sdk::of_provider(provider).unwrap_or(Sdk::OpenAiCompatible)
    }

    /// The name under which the SDK looks for metadata, and under which OpenCode puts metadata that has the provider's name.
    pub(super) fn metadata_name(self, rules: Rules) -> Option<&'static str> {
        let has_own = rules.has_metadata_names_of_its_own();
        Some(match self {
            Sdk::Copilot => "copilot",
            Sdk::OpenAi | Sdk::BedrockMantle => "openai",
            Sdk::Azure if has_own => "azure",
            Sdk::Bedrock => "bedrock",
            Sdk::Anthropic | Sdk::VertexAnthropic => "anthropic",
            Sdk::Vertex if has_own => "vertex",
            Sdk::Vertex | Sdk::Google => "google",
            Sdk::Gateway => "gateway",
            Sdk::OpenRouter => "openrouter",
            Sdk::Alibaba
            | Sdk::Cerebras
            | Sdk::Cohere
            | Sdk::DeepInfra
            | Sdk::Groq
            | Sdk::Mistral
            | Sdk::Perplexity
            | Sdk::Together
            | Sdk::Vercel
            | Sdk::Xai
            | Sdk::Venice
                if has_own =>
            {
                self.name()
            }
            _ => return None,
        })
    }
}

impl fmt::Display for Sdk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Sdk {
    type Err = UnknownSdk;

    /// Reads a short name or the name of a package.
    fn from_str(name: &str) -> Result<Sdk, UnknownSdk> {
        let known = Sdk::ALL.iter().copied().find(|sdk| sdk.name() == name || sdk.package() == name);
        known.ok_or_else(|| UnknownSdk(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_inputs_and_sdks_are_read() {
        assert_eq!("text, image".parse(), Ok(Modalities { image: true, ..Modalities::TEXT }));
        assert_eq!("text,smell".parse::<Modalities>(), Err(UnknownModality("smell".to_owned())));
        for &sdk in Sdk::ALL {
            assert_eq!(sdk.name().parse(), Ok(sdk));
            assert_eq!(sdk.package().parse(), Ok(sdk));
        }
        assert_eq!("x".parse::<Sdk>(), Err(UnknownSdk("x".to_owned())));
        assert_eq!(Sdk::guess("anthropic"), Sdk::Anthropic);
        assert_eq!(Sdk::guess("my-server"), Sdk::OpenAiCompatible);
    }

    #[test]
    fn what_may_stand_in_a_result_depends_on_sdk_model_and_release() {
        let target = |sdk, model: &str| Target::new("p", model, sdk);
        let accepts = |target: Target, media: &str, rules| target.accepts_in_results(media, rules);
        let (new, old) = (Rules::LATEST, Rules::of(1, 2, 27));
        assert!(accepts(target(Sdk::Anthropic, "m"), "application/pdf", new));
        assert!(!accepts(target(Sdk::Bedrock, "us.anthropic.claude"), "application/pdf", new));
        assert!(accepts(target(Sdk::Bedrock, "us.anthropic.claude"), "image/png", new));
        assert!(!accepts(target(Sdk::Bedrock, "titan"), "image/png", new));
        assert!(accepts(target(Sdk::Bedrock, "titan"), "application/pdf", old));
        assert!(accepts(target(Sdk::Xai, "grok"), "image/png", new));
        assert!(!accepts(target(Sdk::Xai, "grok"), "image/png", old));
        assert!(accepts(target(Sdk::Google, "Gemini-3-pro"), "application/pdf", old));
        assert!(!accepts(target(Sdk::Google, "gemini-2.5"), "image/png", new));
        assert!(!accepts(target(Sdk::OpenAiCompatible, "m"), "image/png", new));
    }
}
