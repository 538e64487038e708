//! What a conversation is.
