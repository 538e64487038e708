//! Forgetting.
#[derive(Debug)]
pub struct Forgotten;
#[derive(Debug)]
pub struct ForgetError;
