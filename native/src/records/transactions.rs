//! Finds the batches of aborted transactions.
//!
//! Source: Kafka's Java consumer, `Fetcher.PartitionRecords`: a transaction begins at its first offset and ends with its
//! producer's next control batch.

use std::collections::HashSet;

/// The producers whose aborted transactions are open at the current batch of a walk.
pub struct AbortedProducers {
    waiting: Vec<(i64, i64)>,
    open: HashSet<i64>,
}

impl AbortedProducers {
    /// `aborted`: (producer id, first offset), as a Fetch response lists them.
    pub fn new(aborted: &[(i64, i64)]) -> AbortedProducers {
        let mut waiting = aborted.to_vec();
        waiting.sort_by_key(|(_, first_offset)| std::cmp::Reverse(*first_offset));
        AbortedProducers { waiting, open: HashSet::new() }
    }

    /// Note that the walk has reached a batch with this last offset.
    pub fn come_to(&mut self, last_offset: i64) {
        while let Some((producer_id, _)) = self.waiting.pop_if(|(_, first_offset)| *first_offset <= last_offset) {
            self.open.insert(producer_id);
        }
    }

    /// Return whether this producer's transactional records are left out at this place.
    pub fn has(&self, producer_id: i64) -> bool {
        self.open.contains(&producer_id)
    }

    /// Note that the walk has reached the marker that aborts the producer's transaction.
    pub fn end(&mut self, producer_id: i64) {
        self.open.remove(&producer_id);
    }
}
