//! Keeps memory of earlier record sets for later ones.
//!
//! The system fills a new page with zeros at its first use, which takes longer than decoding into it. And allocating
//! and freeing large blocks in turn leaves holes, so the process grows.

use std::sync::Mutex;

/// The most pieces that are kept: a consumer on two processors reads one, and has two decoded ahead.
const MOST: usize = 3;
/// Bytes of a piece that is kept: keeping less saves too little, and more would hold too much memory.
pub const KEPT_BYTES: std::ops::RangeInclusive<usize> = 1 << 16..=8 << 20;

/// Memory that is not in use. No caller waits for the lock: in a forked child its holder may be a thread that exists
/// only in the parent.
pub struct Spare<T>(Mutex<Vec<T>>);

impl<T> Spare<T> {
    pub const fn new() -> Spare<T> {
        Spare(Mutex::new(Vec::new()))
    }

    pub fn take(&self) -> Option<T> {
        self.0.try_lock().ok()?.pop()
    }

    /// Keep this memory if its size is in `KEPT_BYTES` and there is room. `bytes`: the size.
    pub fn give(&self, memory: T, bytes: usize) {
        if !KEPT_BYTES.contains(&bytes) {
            return;
        }
        if let Ok(mut kept) = self.0.try_lock() {
            if kept.len() < MOST {
                kept.push(memory);
            }
        }
    }
}
