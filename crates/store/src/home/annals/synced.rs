//! What sync notes in the store.
