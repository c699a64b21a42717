//! Memory that is used again, one record set after the other.
//!
//! The system fills each page with zeros when it is first touched, which takes longer than decoding into it. And large
//! blocks that are allocated and freed by turns leave holes, so the process grows.

use std::sync::Mutex;

/// At most this many are kept: a consumer on two processors reads one, and has two decoded ahead.
const MOST: usize = 3;
/// Bytes of what is kept. Less is not worth it, more is given back to the system.
pub const KEPT_BYTES: std::ops::RangeInclusive<usize> = 1 << 16..=8 << 20;

/// What is not in use. No caller waits for the lock: in a forked child a thread may hold it that is not there.
pub struct Spare<T>(Mutex<Vec<T>>);

impl<T> Spare<T> {
    pub const fn new() -> Spare<T> {
        Spare(Mutex::new(Vec::new()))
    }

    pub fn take(&self) -> Option<T> {
        self.0.try_lock().ok()?.pop()
    }

    /// Keep it, if it has a size worth keeping and there is room. `bytes`: how much memory it holds.
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
