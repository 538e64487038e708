//! New ids: the one generator of this process, with its clock and its randomness.

use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use annals_core::id::{Entropy, IdGenerator, MessageId, Millis, PartId, SessionId};

static GENERATOR: Mutex<IdGenerator> = Mutex::new(IdGenerator::new());

/// A new session id.
pub fn new_session() -> SessionId {
    next(IdGenerator::session)
}

/// A new message id, later than all earlier ones of this process.
pub fn new_message() -> MessageId {
    next(IdGenerator::message)
}

/// A new part id, later than all earlier ones of this process.
pub fn new_part() -> PartId {
    next(IdGenerator::part)
}

/// A new session id that carries a given time.
pub(crate) fn session_at(now: Millis) -> SessionId {
    next_at(now, IdGenerator::session)
}

/// A new message id that carries a given time, later than all earlier ones of this process that carry it.
pub(crate) fn message_at(now: Millis) -> MessageId {
    next_at(now, IdGenerator::message)
}

/// A new part id that carries a given time, later than all earlier ones of this process that carry it.
pub(crate) fn part_at(now: Millis) -> PartId {
    next_at(now, IdGenerator::part)
}

/// A unique random name: 32 hexadecimal digits.
pub(crate) fn random_name() -> String {
    let mut random = [0; 16];
    getrandom::fill(&mut random).expect("the operating system provides randomness");
    hex(&random)
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digit = |number: u8| char::from(b"0123456789abcdef"[usize::from(number)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// The time as documents hold it.
pub fn now() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX)
}

fn next<T>(make: impl FnOnce(&mut IdGenerator, Millis, Entropy) -> T) -> T {
    next_at(now(), make)
}

fn next_at<T>(now: Millis, make: impl FnOnce(&mut IdGenerator, Millis, Entropy) -> T) -> T {
    let mut entropy = Entropy::default();
    getrandom::fill(&mut entropy).expect("the operating system provides randomness");
    let mut generator = GENERATOR.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    make(&mut generator, now, entropy)
}
