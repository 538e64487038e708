//! The hash with which a store tells states of a document apart.

use annals_core::ContentHash;

use crate::ids::hex;

/// The first half of a document's content hash.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct StateHash([u8; 16]);

impl StateHash {
    pub(crate) fn of(bytes: &[u8]) -> StateHash {
        StateHash::from(&ContentHash::of(bytes))
    }

    pub(crate) fn from_bytes(bytes: [u8; 16]) -> StateHash {
        StateHash(bytes)
    }

    pub(crate) fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl From<&ContentHash> for StateHash {
    fn from(hash: &ContentHash) -> StateHash {
        let mut half = [0; 16];
        half.copy_from_slice(&hash.as_bytes()[..16]);
        StateHash(half)
    }
}

impl serde::Serialize for StateHash {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{self:?}"))
    }
}

impl<'de> serde::Deserialize<'de> for StateHash {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<StateHash, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        let number = u128::from_str_radix(&text, 16).map_err(serde::de::Error::custom)?;
        Ok(StateHash(number.to_be_bytes()))
    }
}

impl std::fmt::Debug for StateHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&hex(&self.0))
    }
}
