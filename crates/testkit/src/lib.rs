//! Fixtures, the scripted model and the driver of the real OpenCode that tests share.
