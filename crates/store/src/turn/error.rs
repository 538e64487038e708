//! The errors that end an answer, as OpenCode names them.

use annals_core::lens::{ErrorData, Json, MessageError};

use crate::homes::opencode::dialect::Dialect;

/// Why an answer failed.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum AnswerError {
    /// The provider refused the request, or its reply was an error.
    Api {
        /// What it said.
        message: String,
        /// The HTTP status.
        status: Option<u16>,
        /// Whether trying again may help.
        is_retryable: bool,
        /// The headers of the response: an object of strings.
        response_headers: Option<Json<'static>>,
        /// The body of the response.
        response_body: Option<String>,
        /// More about the request or the failure, an object of strings: its `url`, or `code` and `syscall` of a broken connection.
        metadata: Option<Json<'static>>,
    },
    /// The provider does not accept the credentials.
    Auth {
        /// The provider.
        provider: String,
        /// What it said.
        message: String,
    },
    /// The model reached the limit on its output.
    OutputLength,
    /// The history is too long for the model.
    ContextOverflow {
        /// What the provider said.
        message: String,
        /// The body of the response.
        response_body: Option<String>,
    },
    /// The provider's filter stopped the answer.
    ContentFilter {
        /// What the provider said.
        message: String,
    },
    /// The model did not give the output in the requested form.
    StructuredOutput {
        /// What is wrong.
        message: String,
        /// The tries made.
        retries: u32,
    },
    /// The user aborted.
    Aborted,
    /// Anything else.
    Other {
        /// What happened.
        message: String,
    },
}

impl AnswerError {
    /// The error as a message holds it.
    pub(super) fn lens(&self, dialect: Dialect) -> MessageError<'_> {
        let message =
            |text: &'_ String| ErrorData { message: Some(text.clone().into()), ..Default::default() };
        let (name, data) = match self {
            AnswerError::Api {
                message: text,
                status,
                is_retryable,
                response_headers,
                response_body,
                metadata,
            } => (
                "APIError",
                ErrorData {
                    status_code: status.map(f64::from),
                    is_retryable: Some(*is_retryable),
                    response_headers: response_headers.clone(),
                    response_body: response_body.as_deref().map(Into::into),
                    metadata: metadata.clone(),
                    ..message(text)
                },
            ),
            AnswerError::Auth { provider, message: text } => {
                let provider_id = Some(provider.as_str().into());
                ("ProviderAuthError", ErrorData { provider_id, ..message(text) })
            }
            AnswerError::OutputLength => ("MessageOutputLengthError", ErrorData::default()),
            AnswerError::ContextOverflow { message: text, response_body } => {
                let response_body = response_body.as_deref().map(Into::into);
                ("ContextOverflowError", ErrorData { response_body, ..message(text) })
            }
            AnswerError::ContentFilter { message: text } => ("ContentFilterError", message(text)),
            AnswerError::StructuredOutput { message: text, retries } => {
                ("StructuredOutputError", ErrorData { retries: Some(f64::from(*retries)), ..message(text) })
            }
            AnswerError::Aborted => return dialect.aborted(),
            AnswerError::Other { message: text } => ("UnknownError", message(text)),
        };
        MessageError { name: Some(name.into()), data: Some(data) }
    }
}
