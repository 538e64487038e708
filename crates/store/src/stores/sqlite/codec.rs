//! The bytes of documents as the store keeps them: short ones as text, longer ones compressed, all with a hash.

use std::cell::RefCell;
use std::sync::{Mutex, OnceLock, PoisonError};

use rayon::prelude::*;
use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use zstd::bulk::{Compressor, Decompressor};
use zstd::dict::{DecoderDictionary, EncoderDictionary};

use super::numbers::DocumentRow;
use crate::home::UnreadableReason;
use crate::state_hash::StateHash;

/// The number of the dictionary in use. A released dictionary never changes.
pub(super) const DICTIONARY: i64 = 1;
/// The dictionary. Every store has a copy, so that other programs can read the store.
pub(crate) const DICTIONARY_BYTES: &[u8] = include_bytes!("dictionary-1.zdict");

/// Added to the form of a document that is open: a string of it is in `tail`.
pub(super) const OPEN: i64 = 2;

/// The form of a document whose text is in `shared`, but for its ids.
pub(super) const SHARED: i64 = 4;

/// The form of an earlier state whose text was pruned: only its existence is still known.
pub(super) const PRUNED: i64 = -1;

/// Higher levels save 3 % of the bytes and take half as long again.
const LEVEL: i32 = 1;
/// Shorter texts stay as they are: there is little to gain, and people can read them in the SQLite shell.
const SHORT: usize = 192;
/// Upper bound on the bytes of text in one compressed frame.
const FRAME: usize = 4 << 20;
/// Upper bound on a buffer that is kept for the next document.
const MAX_BUFFER: usize = 1 << 20;
/// Upper bound on the length of a document. Bytes that claim a longer text are not unpacked.
const LONGEST: usize = annals_core::json::Tape::MAX_BYTES;

/// A document as it is stored.
#[derive(Debug, Clone)]
pub(crate) struct Packed {
    pub(super) hash: StateHash,
    pub(super) form: i64,
    pub(super) size: usize,
    pub(super) bytes: Vec<u8>,
}

impl StateHash {
    /// The hash of an earlier state as a column holds it, and the way back. Only this binds the state to its document, its revision and the
    /// project that its session was filed under: the columns with those numbers have no checksum of their own.
    pub(super) fn bound(self, document: DocumentRow, since: i64, project: Option<&str>) -> StateHash {
        let mut bytes = *self.as_bytes();
        let numbers = document.0.to_le_bytes().into_iter().chain(since.to_le_bytes());
        bytes.iter_mut().zip(numbers).for_each(|(byte, number)| *byte ^= number);
        if let Some(project) = project {
            let project = StateHash::of(project.as_bytes());
            bytes.iter_mut().zip(project.as_bytes()).for_each(|(byte, other)| *byte ^= other);
        }
        StateHash::from_bytes(bytes)
    }

    /// The hash in a column, if there is one.
    pub(super) fn read(column: &[u8]) -> Option<StateHash> {
        column.try_into().ok().map(StateHash::from_bytes)
    }
}

impl ToSql for StateHash {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(ValueRef::Blob(self.as_bytes())))
    }
}

/// Why stored bytes are not a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Damage {
    #[error("its compressed bytes cannot be unpacked")]
    Compressed,
    #[error("it is in an unknown form")]
    Form,
    #[error("its text is not what its hash says")]
    Hash,
    #[error("it was pruned")]
    Pruned,
    #[error("text that was appended to it is damaged or missing")]
    Tail,
    #[error("the text that it shares with other documents is damaged or missing")]
    Shared,
}

impl From<Damage> for UnreadableReason {
    fn from(damage: Damage) -> UnreadableReason {
        match damage {
            Damage::Pruned => UnreadableReason::Noted(damage.to_string()),
            damage => UnreadableReason::Damaged(damage.to_string()),
        }
    }
}

pub(super) fn pack(text: &[u8]) -> Packed {
    let hash = StateHash::of(text);
    if text.len() >= SHORT
        && let Some(bytes) = compress(text)
        && bytes.len() < text.len()
    {
        return Packed { hash, form: DICTIONARY, size: text.len(), bytes };
    }
    Packed { hash, form: 0, size: text.len(), bytes: text.to_vec() }
}

/// Whether a document in this form is open.
pub(super) fn is_open(form: i64) -> bool {
    form == OPEN || form == OPEN + DICTIONARY
}

/// The text of stored bytes, checked against its hash. Of an open document, the part that its row has. A shared text is not here.
pub(super) fn unpack(form: i64, size: i64, bytes: &[u8], hash: StateHash) -> Result<Vec<u8>, Damage> {
    let text = match if is_open(form) { form - OPEN } else { form } {
        0 => bytes.to_vec(),
        DICTIONARY => {
            let size =
                usize::try_from(size).ok().filter(|size| *size <= LONGEST).ok_or(Damage::Compressed)?;
            decompress(bytes, size).ok_or(Damage::Compressed)?
        }
        PRUNED => return Err(Damage::Pruned),
        _ => return Err(Damage::Form),
    };
    if StateHash::of(&text) != hash {
        return Err(Damage::Hash);
    }
    Ok(text)
}

/// The bytes of a document as a column: TEXT if they are not compressed.
pub(super) struct Column<'p>(pub(super) &'p Packed);

impl ToSql for Column<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self.0.form {
            0 | SHARED => ValueRef::Text(&self.0.bytes),
            _ => ValueRef::Blob(&self.0.bytes),
        }))
    }
}

/// A compressor, with a buffer for its output.
struct Press {
    compressor: Compressor<'static>,
    buffer: Vec<u8>,
}

/// The compressors that are not in use at the moment, the last used on top. One for each thread would be more than one for each
/// core, and their tables would push each other out of the processor's caches.
static PRESSES: Mutex<Vec<Press>> = Mutex::new(Vec::new());

/// A long text is several frames one after the other, so that all cores can work on it.
fn compress(text: &[u8]) -> Option<Vec<u8>> {
    if text.len() <= FRAME {
        return compress_frame(text);
    }
    // On rayon's own threads: those of `parallel` may be waiting for the thread that stores this.
    let frames: Option<Vec<Vec<u8>>> = text.par_chunks(FRAME).map(compress_frame).collect();
    Some(frames?.concat())
}

fn compress_frame(text: &[u8]) -> Option<Vec<u8>> {
    static PREPARED: OnceLock<EncoderDictionary<'static>> = OnceLock::new();
    let idle = PRESSES.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let mut press = match idle {
        Some(press) => press,
        None => {
            let prepared = PREPARED.get_or_init(|| EncoderDictionary::copy(DICTIONARY_BYTES, LEVEL));
            Press { compressor: Compressor::with_prepared_dictionary(prepared).ok()?, buffer: Vec::new() }
        }
    };
    // A copy drops the unused room of the worst case, so that documents that wait to be stored do not hold it.
    press.buffer.clear();
    press.buffer.reserve(zstd::zstd_safe::compress_bound(text.len()));
    let compressed = press.compressor.compress_to_buffer(text, &mut press.buffer);
    let compressed = compressed.ok().map(|_| press.buffer.as_slice().to_vec());
    if press.buffer.capacity() > MAX_BUFFER {
        press.buffer = Vec::new();
    }
    PRESSES.lock().unwrap_or_else(PoisonError::into_inner).push(press);
    compressed
}

fn decompress(bytes: &[u8], size: usize) -> Option<Vec<u8>> {
    let frames = frames(bytes)?;
    // Frames that claim no size, or another sum than the row, are damaged. This is checked before memory is allocated.
    if frames.iter().try_fold(0_usize, |sum, frame| sum.checked_add(frame.size)) != Some(size) {
        return None;
    }
    let mut text = vec![0; size];
    let mut rest = text.as_mut_slice();
    let mut pieces = Vec::with_capacity(frames.len());
    for frame in frames {
        let (piece, after) = rest.split_at_mut(frame.size);
        pieces.push((frame, piece));
        rest = after;
    }
    let decompress = |(frame, piece): (Frame<'_>, &mut [u8])| decompress_frame(frame.bytes, piece);
    match pieces.len() {
        0 | 1 => pieces.into_iter().try_for_each(decompress),
        _ => pieces.into_par_iter().try_for_each(decompress),
    }?;
    Some(text)
}

/// A frame of compressed bytes, and how long it says its text is.
struct Frame<'b> {
    bytes: &'b [u8],
    size: usize,
}

fn frames(mut bytes: &[u8]) -> Option<Vec<Frame<'_>>> {
    let mut frames = Vec::new();
    while !bytes.is_empty() {
        let n_bytes = zstd::zstd_safe::find_frame_compressed_size(bytes).ok()?;
        let size = zstd::zstd_safe::get_frame_content_size(bytes).ok()??;
        let (frame, rest) = bytes.split_at_checked(n_bytes)?;
        frames.push(Frame { bytes: frame, size: usize::try_from(size).ok()? });
        bytes = rest;
    }
    Some(frames)
}

fn decompress_frame(bytes: &[u8], text: &mut [u8]) -> Option<()> {
    static PREPARED: OnceLock<DecoderDictionary<'static>> = OnceLock::new();
    thread_local! {
        static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
    }
    DECOMPRESSOR.with_borrow_mut(|decompressor| {
        if decompressor.is_none() {
            let prepared = PREPARED.get_or_init(|| DecoderDictionary::copy(DICTIONARY_BYTES));
            *decompressor = Decompressor::with_prepared_dictionary(prepared).ok();
        }
        let n_bytes = decompressor.as_mut()?.decompress_to_buffer(bytes, text).ok()?;
        (n_bytes == text.len()).then_some(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_in_comes_out() {
        for text in [
            "",
            "{}",
            &"x".repeat(191),
            &"{\"id\": \"prt_1\"}".repeat(50),
            &"é".repeat(100_000),
            &"{\"a\": 1}".repeat(FRAME),
        ] {
            let packed = pack(text.as_bytes());
            let unpacked = unpack(packed.form, packed.size as i64, &packed.bytes, packed.hash);
            assert_eq!(unpacked.as_deref(), Ok(text.as_bytes()));
        }
    }

    #[test]
    fn any_flipped_bit_is_noticed() {
        let packed = pack("{\"type\": \"text\", \"text\": \"a few words\"}".repeat(20).as_bytes());
        for bit in 0..packed.bytes.len() * 8 {
            let mut bytes = packed.bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let unpacked = unpack(packed.form, packed.size as i64, &bytes, packed.hash);
            // Some bits of a frame mean nothing; then the text is still right.
            assert!(unpacked.is_err() || StateHash::of(&unpacked.unwrap()) == packed.hash, "bit {bit}");
        }
        for bound in [
            packed.hash.bound(DocumentRow(7), 8, None),
            packed.hash.bound(DocumentRow(1), 0, None),
            packed.hash.bound(DocumentRow(0), 1 << 40, None),
            packed.hash.bound(DocumentRow(0), 0, Some("global")),
        ] {
            let unpacked = unpack(packed.form, packed.size as i64, &packed.bytes, bound);
            assert_eq!(unpacked, Err(Damage::Hash));
        }
        assert_eq!(
            packed.hash.bound(DocumentRow(7), 8, Some("x")).bound(DocumentRow(7), 8, Some("x")),
            packed.hash
        );
        assert_eq!(unpack(9, 1, b"x", packed.hash), Err(Damage::Form));
        assert_eq!(unpack(DICTIONARY, i64::MAX, &packed.bytes, packed.hash), Err(Damage::Compressed));
    }
}
