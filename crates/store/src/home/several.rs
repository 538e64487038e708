//! Several homes read as one.
