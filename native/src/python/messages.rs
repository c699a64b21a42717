//! Messages, made on demand from columns, and an iterator over them that another thread can shut.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use pyo3::basic::CompareOp;
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};

use super::Columns;
use crate::records;

/// The common data of the messages of one partition.
struct Partition {
    columns: Arc<records::Columns>,
    topic: Py<PyString>,
    number: i32,
}

/// One record. It keeps the columns of which it is a row.
#[pyclass(frozen, freelist = 16384, module = "legacy_consumer_native")]
pub struct Message {
    of: Arc<Partition>,
    row: usize,
}

impl Message {
    fn columns(&self) -> &records::Columns {
        &self.of.columns
    }

    fn fields<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let (key, value, headers) = (self.key(py), self.value(py), self.headers(py)?);
        (self.topic(py), self.partition(), self.offset(), key, value, self.timestamp(), headers).into_pyobject(py)
    }
}

#[pymethods]
impl Message {
    /// The topic's name.
    fn topic(&self, py: Python<'_>) -> Py<PyString> {
        self.of.topic.clone_ref(py)
    }

    /// The partition's number.
    fn partition(&self) -> i32 {
        self.of.number
    }

    /// The message's offset; the next to read is one more.
    fn offset(&self) -> i64 {
        self.columns().offsets[self.row]
    }

    /// The key, None if it has none.
    fn key<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.columns().keys.get(self.row).map(|bytes| PyBytes::new(py, bytes))
    }

    /// The value, None for a deletion in a compacted topic; a new object at each call.
    fn value<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.columns().values.get(self.row).map(|bytes| PyBytes::new(py, bytes))
    }

    /// (type, ms since 1970); (0, -1) = not available.
    fn timestamp(&self) -> (i8, i64) {
        (self.columns().timestamp_types[self.row], self.columns().timestamps[self.row])
    }

    /// The headers, None if there are none.
    fn headers<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyList>>> {
        let Some(written) = self.columns().headers.get(self.row) else { return Ok(None) };
        let found = records::parse_headers(written).unwrap_or_default();
        let pairs = found.into_iter().map(|(key, value)| {
            let key = PyString::new(py, &String::from_utf8_lossy(key)).into_any();
            let value = value.map(|bytes| PyBytes::new(py, bytes)).into_pyobject(py)?.into_any();
            PyTuple::new(py, [key, value])
        });
        Ok(Some(PyList::new(py, pairs.collect::<PyResult<Vec<_>>>()?)?))
    }

    /// None: a message is no error.
    fn error(&self) {}

    fn __len__(&self) -> usize {
        self.columns().values.get(self.row).map_or(0, <[u8]>::len)
    }

    fn __bool__(&self) -> bool {
        true
    }

    fn __richcmp__(&self, py: Python<'_>, other: &Bound<'_, PyAny>, op: CompareOp) -> PyResult<Py<PyAny>> {
        let (CompareOp::Eq | CompareOp::Ne, Ok(other)) = (op, other.cast::<Message>()) else {
            return Ok(py.NotImplemented());
        };
        let (mine, theirs) = (self.fields(py)?, other.get().fields(py)?);
        Ok(mine.rich_compare(theirs, op)?.unbind())
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        (self.topic(py), self.partition(), self.offset()).into_pyobject(py)?.hash()
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        format!("<message {}/{} at offset {}>", self.of.topic.bind(py), self.of.number, self.offset())
    }
}

/// Some rows of one partition. `end`: the number of messages of this run and all runs before it.
struct Run {
    of: Arc<Partition>,
    rows: Range<usize>,
    end: usize,
}

/// The bit of `taken` that means that the iterator is shut.
const SHUT: usize = 1 << (usize::BITS - 1);

/// Makes the messages of some runs of columns on demand.
///
/// The progress is one number, `taken`, which changes only when a message is made and nothing can fail any more.
#[pyclass(frozen, module = "legacy_consumer_native")]
pub struct MessageIterator {
    runs: Vec<Run>,
    /// The number of messages handed out, and the bit `SHUT`.
    taken: AtomicUsize,
    /// The most messages to hand out until the next call of `allow`.
    allowed: AtomicUsize,
    /// The run of the last message made; the search for the next one begins there.
    current: AtomicUsize,
}

impl MessageIterator {
    fn len(&self) -> usize {
        self.runs.last().map_or(0, |run| run.end)
    }

    fn message(&self, number: usize) -> Option<Message> {
        let last = self.current.load(Ordering::Relaxed);
        let first = match self.runs.get(last) {
            Some(run) if number + run.rows.len() >= run.end => last,
            _ => 0,
        };
        let (skipped, run) = self.runs[first..].iter().enumerate().find(|(_, run)| number < run.end)?;
        if skipped > 0 || first != last {
            self.current.store(first + skipped, Ordering::Relaxed);
        }
        Some(Message { of: run.of.clone(), row: run.rows.end + number - run.end })
    }
}

#[pymethods]
impl MessageIterator {
    #[new]
    #[pyo3(signature = (runs, /))]
    fn new(runs: Vec<(Bound<'_, Columns>, Py<PyString>, i32)>) -> MessageIterator {
        let mut end = 0;
        let parts = runs.into_iter().map(|(columns, topic, number)| {
            let Columns { of, rows } = columns.get();
            end += rows.len();
            Run { of: Arc::new(Partition { columns: of.clone(), topic, number }), rows: rows.clone(), end }
        });
        let runs: Vec<Run> = parts.filter(|run| !run.rows.is_empty()).collect();
        let (taken, allowed, current) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        MessageIterator { runs, taken, allowed, current }
    }

    fn __iter__(iterator: Py<MessageIterator>) -> Py<MessageIterator> {
        iterator
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Py<Message>>> {
        loop {
            let taken = self.taken.load(Ordering::Acquire);
            if taken >= self.allowed.load(Ordering::Acquire) {
                return Ok(None); // SHUT is larger than any number
            }
            let Some(message) = self.message(taken) else { return Ok(None) };
            let made = Py::new(py, message)?;
            if self.taken.compare_exchange(taken, taken + 1, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return Ok(Some(made));
            }
        }
    }

    fn __getitem__(&self, number: usize) -> PyResult<Message> {
        let no_such = || PyIndexError::new_err(format!("no message {number} of {}", self.len()));
        self.message(number).ok_or_else(no_such)
    }

    #[pyo3(signature = (most, /))]
    fn allow(&self, most: usize) -> bool {
        let taken = self.taken.load(Ordering::Acquire);
        if taken & SHUT != 0 {
            return false;
        }
        let allowed = taken.saturating_add(most).min(self.len());
        self.allowed.store(allowed, Ordering::Release);
        taken < allowed
    }

    fn shut(&self) -> usize {
        self.taken.fetch_or(SHUT, Ordering::AcqRel) & !SHUT
    }

    #[getter]
    fn handed_out(&self) -> usize {
        self.taken.load(Ordering::Acquire) & !SHUT
    }
}
