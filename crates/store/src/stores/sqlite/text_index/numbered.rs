//! Documents of the text index by their numbers.
//!
//! As terms of the index, the numbers would take a tenth of its size and of the time to build it, and are needed only when
//! documents have changed. So they are columns, and one pass finds all changed documents.

use std::collections::HashSet;
use std::sync::Arc;

use tantivy::query::{BitSetDocSet, ConstScorer, EnableScoring, Explanation, Query, Scorer, Weight};
use tantivy::{BitSet, DocId, Score, SegmentReader, TantivyError};

use super::super::numbers::DocumentRow;

/// The query for all documents that have one of these numbers.
#[derive(Debug, Clone)]
pub(super) struct Numbered {
    column: &'static str,
    wanted: Arc<HashSet<u64>>,
}

impl Numbered {
    pub(super) fn new(column: &'static str, wanted: impl IntoIterator<Item = DocumentRow>) -> Numbered {
        Numbered { column, wanted: Arc::new(wanted.into_iter().map(|row| row.0.unsigned_abs()).collect()) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.wanted.is_empty()
    }
}

impl Query for Numbered {
    fn weight(&self, _: EnableScoring<'_>) -> tantivy::Result<Box<dyn Weight>> {
        Ok(Box::new(self.clone()))
    }
}

impl Weight for Numbered {
    fn scorer(&self, segment: &SegmentReader, boost: Score) -> tantivy::Result<Box<dyn Scorer>> {
        let column = segment.fast_fields().u64(self.column)?;
        let mut found = BitSet::with_max_value(segment.max_doc());
        for document in 0..segment.max_doc() {
            if column.first(document).is_some_and(|n| self.wanted.contains(&n)) {
                found.insert(document);
            }
        }
        Ok(Box::new(ConstScorer::new(BitSetDocSet::from(found), boost)))
    }

    fn explain(&self, _: &SegmentReader, _: DocId) -> tantivy::Result<Explanation> {
        Err(TantivyError::InvalidArgument("a number has no score".to_owned()))
    }
}
