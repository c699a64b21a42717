//! Decodes record sets ahead, on threads of this crate, which need no interpreter.
//!
//! There is a thread for each processor but one, started with the first record set. The process decodes at most one
//! record set per thread ahead, and one more, which a thread that waits for another can decode meanwhile. This bounds
//! the memory. A forked child starts threads of its own.
//!
//! The exception to "no unsafe code": a thread reads bytes that a Python object lends. `Decoding` keeps that object
//! until the thread is done, or if it never began.

#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread;

use pyo3::prelude::*;

use super::bytes_in::Bytes;
use super::Columns;
use crate::records::{self, Fault, Request};

/// As `records::Request`, with data of its own.
pub struct Wish {
    pub position: i64,
    pub aborted: Option<Vec<(i64, i64)>>,
    pub max_records: usize,
    pub max_batch_bytes: usize,
    pub max_decompressed_bytes: usize,
    pub check_crcs: bool,
}

impl Wish {
    pub fn decode(&self, set: &[u8]) -> Result<Arc<records::Columns>, Fault> {
        let request = Request {
            position: self.position,
            aborted: self.aborted.as_deref(),
            max_records: self.max_records,
            max_batch_bytes: self.max_batch_bytes,
            max_decompressed_bytes: self.max_decompressed_bytes,
            check_crcs: self.check_crcs,
        };
        // a defect of the decoder counts as damage of this record set alone
        let decoded = catch_unwind(AssertUnwindSafe(|| records::decode(set, &request)));
        decoded.unwrap_or_else(|_| Err(Fault::Damaged("the decoder failed".into()))).map(Arc::new)
    }
}

type Outcome = Result<Arc<records::Columns>, Fault>;

/// Bytes of a Python object that `Decoding` keeps alive.
struct Lent {
    start: *const u8,
    length: usize,
}

// SAFETY: the bytes are only read
unsafe impl Send for Lent {}
unsafe impl Sync for Lent {}

struct Job {
    set: Lent,
    wish: Wish,
    is_begun: AtomicBool,
    outcome: OnceLock<Outcome>,
}

impl Job {
    /// Return true for exactly one caller, which then decodes the job or prevents its decoding.
    fn claim(&self) -> bool {
        !self.is_begun.swap(true, Ordering::AcqRel)
    }

    /// Decode. Only for the caller that has the claim; in a forked child, for the owner of the `Decoding`.
    fn decode(&self) -> Outcome {
        // SAFETY: the bytes are kept until the outcome is there, or until a claim that prevents decoding
        self.wish.decode(unsafe { std::slice::from_raw_parts(self.set.start, self.set.length) })
    }

    fn run(&self) {
        let _ = self.outcome.set(self.decode());
    }
}

#[derive(Default)]
struct Pool {
    process: u32,
    threads: AtomicUsize,
    ahead: AtomicUsize,
    queue: Mutex<VecDeque<Arc<Job>>>,
    more: Condvar,
}

/// A thread locks this only for a moment and while it has the interpreter's lock, so no other thread has it during a
/// fork.
static POOL: Mutex<Option<Arc<Pool>>> = Mutex::new(None);

impl Pool {
    fn of_this_process() -> Arc<Pool> {
        let mut current = POOL.lock().unwrap_or_else(PoisonError::into_inner);
        match &*current {
            Some(pool) if pool.process == std::process::id() => pool.clone(),
            _ => {
                let pool = Pool::begin();
                // the parent's pool is not freed: a thread that does not exist in this child may hold its lock
                std::mem::forget(current.replace(pool.clone()));
                pool
            }
        }
    }

    fn begin() -> Arc<Pool> {
        let threads = thread::available_parallelism().map_or(1, |count| (count.get() - 1).max(1));
        let pool = Arc::new(Pool { process: std::process::id(), ..Pool::default() });
        for number in 0..threads {
            let its = pool.clone();
            if thread::Builder::new().name(format!("decoder-{number}")).spawn(move || its.work()).is_ok() {
                pool.threads.fetch_add(1, Ordering::AcqRel);
            }
        }
        pool
    }

    fn work(&self) {
        loop {
            let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
            let job = loop {
                if let Some(job) = queue.pop_front() {
                    break job;
                }
                queue = self.more.wait(queue).unwrap_or_else(PoisonError::into_inner);
            };
            drop(queue);
            if job.claim() {
                job.run();
            }
        }
    }
}

/// A record set that a thread decodes, or has decoded. If no thread has begun it, the first caller decodes it.
#[pyclass(frozen, module = "legacy_consumer_native")]
pub struct Decoding {
    pool: Arc<Pool>,
    job: Arc<Job>,
    _lent: Bytes,
}

impl Decoding {
    /// Give the record set to the threads; None at the limit of record sets ahead.
    pub fn begin(lent: Bytes, wish: Wish) -> Option<Decoding> {
        let pool = Pool::of_this_process();
        if pool.ahead.fetch_add(1, Ordering::AcqRel) > pool.threads.load(Ordering::Acquire) {
            pool.ahead.fetch_sub(1, Ordering::AcqRel);
            return None;
        }
        let set = Lent { start: lent.as_slice().as_ptr(), length: lent.len() };
        let job = Arc::new(Job { set, wish, is_begun: AtomicBool::new(false), outcome: OnceLock::new() });
        pool.queue.lock().unwrap_or_else(PoisonError::into_inner).push_back(job.clone());
        pool.more.notify_one();
        Some(Decoding { pool, job, _lent: lent })
    }

    fn is_of_this_process(&self) -> bool {
        self.pool.process == std::process::id()
    }
}

#[pymethods]
impl Decoding {
    /// Return the columns, the same each time. `meanwhile`: decoded here before waiting, unless a thread has begun it.
    #[pyo3(signature = (meanwhile = None, /))]
    fn result(&self, py: Python<'_>, meanwhile: Option<&Decoding>) -> PyResult<Columns> {
        let job = &self.job;
        let outcome = if !self.is_of_this_process() && job.outcome.get().is_none() {
            py.detach(|| job.decode()) // the decoding thread exists only in the parent
        } else {
            py.detach(|| {
                if job.claim() {
                    job.run();
                } else if let (None, Some(other)) = (job.outcome.get(), meanwhile) {
                    if other.job.claim() {
                        other.job.run();
                    }
                }
                job.outcome.wait().clone()
            })
        };
        Ok(Columns::of_all(outcome?))
    }
}

impl Drop for Decoding {
    /// Release the bytes once no thread reads them or will read them.
    fn drop(&mut self) {
        if self.is_of_this_process() {
            if !self.job.claim() {
                self.job.outcome.wait();
            }
            self.pool.ahead.fetch_sub(1, Ordering::AcqRel);
        }
    }
}
