//! Check.
/// x
#[derive(Debug)]
pub struct Problem;
/// x
#[derive(Debug)]
pub enum ProblemKind {}
