//! The module `legacy_consumer_native`: see `legacy_consumer_native.pyi`.

mod ahead;
mod arrow;
mod arrow_c;
mod bytes_in;
mod messages;

use std::ops::{Range, RangeInclusive};
use std::sync::{Arc, Mutex};

use pyo3::create_exception;
use pyo3::exceptions::{PyIndexError, PyMemoryError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyMemoryView, PySlice};

use crate::records::{self, Fault};
use ahead::{Decoding, Wish};
use arrow::ArrowBatch;
use bytes_in::Bytes;
use messages::{Message, MessageIterator};

create_exception!(legacy_consumer_native, DamagedRecordsError, PyValueError, "The bytes are not what the format says.");
create_exception!(legacy_consumer_native, TooLargeError, PyValueError, "More would come out than is allowed.");

impl From<Fault> for PyErr {
    fn from(fault: Fault) -> PyErr {
        match fault {
            Fault::Damaged(_) => DamagedRecordsError::new_err(fault.to_string()),
            Fault::TooLarge(_) => TooLargeError::new_err(fault.to_string()),
            Fault::NoMemory => PyMemoryError::new_err(fault.to_string()),
        }
    }
}

/// The records of one partition, or some of them, in shared memory that never changes.
#[pyclass(frozen, module = "legacy_consumer_native")]
pub struct Columns {
    of: Arc<records::Columns>,
    rows: Range<usize>,
}

impl Columns {
    fn of_all(of: Arc<records::Columns>) -> Columns {
        let rows = 0..of.len();
        Columns { of, rows }
    }
}

#[pymethods]
impl Columns {
    fn __len__(&self) -> usize {
        self.rows.len()
    }

    #[getter]
    fn next_offset(&self) -> i64 {
        let Range { start, end } = self.rows;
        if end == self.of.len() {
            self.of.next_offset
        } else if end > start {
            self.of.offsets[end - 1] + 1
        } else {
            self.of.offsets[start]
        }
    }

    #[getter]
    fn has_more(&self) -> bool {
        self.of.has_more || self.rows.end < self.of.len()
    }

    #[getter]
    fn incomplete_size(&self) -> Option<usize> {
        self.of.incomplete_size
    }

    #[getter]
    fn nbytes(&self) -> usize {
        self.of.nbytes()
    }

    #[pyo3(signature = (start, stop, /))]
    fn slice(&self, start: usize, stop: usize) -> Columns {
        let start = start.min(self.rows.len());
        let stop = stop.clamp(start, self.rows.len());
        Columns { of: self.of.clone(), rows: self.rows.start + start..self.rows.start + stop }
    }

    #[pyo3(signature = (row, /))]
    fn offset(&self, row: usize) -> PyResult<i64> {
        if row < self.rows.len() {
            return Ok(self.of.offsets[self.rows.start + row]);
        }
        Err(PyIndexError::new_err(format!("no record {row} of {}", self.rows.len())))
    }

    #[pyo3(signature = (names, topic, partition, /))]
    fn arrow(&self, names: Vec<String>, topic: String, partition: i32) -> PyResult<ArrowBatch> {
        ArrowBatch::new(self.of.clone(), self.rows.clone(), names, topic, partition)
    }
}

#[pyfunction]
#[pyo3(signature = (record_set, position, /, *, aborted = None, max_records = 1 << 20, max_batch_bytes = 128 << 20,
                    max_decompressed_bytes = 32 << 20, check_crcs = true))]
#[allow(clippy::too_many_arguments)]
fn decode(
    py: Python<'_>,
    record_set: Bytes,
    position: i64,
    aborted: Option<Vec<(i64, i64)>>,
    max_records: usize,
    max_batch_bytes: usize,
    max_decompressed_bytes: usize,
    check_crcs: bool,
) -> PyResult<Columns> {
    check_size(&record_set)?;
    let wish = Wish { position, aborted, max_records, max_batch_bytes, max_decompressed_bytes, check_crcs };
    Ok(Columns::of_all(py.detach(|| wish.decode(record_set.as_slice()))?))
}

#[pyfunction]
#[pyo3(signature = (record_set, position, /, *, aborted = None, max_records = 1 << 20, max_batch_bytes = 128 << 20,
                    max_decompressed_bytes = 32 << 20, check_crcs = true))]
#[allow(clippy::too_many_arguments)]
fn decode_ahead(
    record_set: Bytes,
    position: i64,
    aborted: Option<Vec<(i64, i64)>>,
    max_records: usize,
    max_batch_bytes: usize,
    max_decompressed_bytes: usize,
    check_crcs: bool,
) -> PyResult<Option<Decoding>> {
    check_size(&record_set)?;
    let wish = Wish { position, aborted, max_records, max_batch_bytes, max_decompressed_bytes, check_crcs };
    Ok(Decoding::begin(record_set, wish))
}

fn check_size(record_set: &Bytes) -> PyResult<()> {
    if record_set.len() > i32::MAX as usize {
        return Err(PyValueError::new_err(format!("a record set of {} bytes: 2 GiB - 1 at most", record_set.len())));
    }
    Ok(())
}

#[pyfunction]
#[pyo3(signature = (record_set, position, /))]
fn glance(record_set: Bytes, position: i64) -> (i64, i64) {
    records::glance(record_set.as_slice(), position)
}

/// Memory of earlier responses. A thread uses it only while it has the interpreter's lock, so none waits for it.
static RESPONSES: Mutex<Vec<Py<PyByteArray>>> = Mutex::new(Vec::new());
const MOST_RESPONSES: usize = 2;
const RESPONSE_BYTES: RangeInclusive<usize> = 1 << 16..=16 << 20;

/// Return memory for a response: that of an earlier response if no view of it exists any more. The system fills new
/// memory with zeros, which takes as long as decoding.
#[pyfunction]
#[pyo3(signature = (size, /))]
fn buffer(py: Python<'_>, size: usize) -> PyResult<Bound<'_, PyAny>> {
    let mut kept = match RESPONSES.try_lock() {
        Ok(kept) if RESPONSE_BYTES.contains(&size) => kept,
        _ => return first_bytes(&uninitialised(py, size)?, size),
    };
    for known in kept.iter().map(|known| known.bind(py)) {
        // While a view of it exists, a bytearray refuses to get another size. It never becomes smaller: the system would
        // take pages back, and fill them with zeros for the next large response.
        let bytes = known.len();
        if known.resize(bytes + 1).and_then(|()| known.resize(bytes.max(size))).is_ok() {
            return first_bytes(known, size);
        }
    }
    let made = uninitialised(py, size)?;
    kept.truncate(MOST_RESPONSES - 1);
    kept.insert(0, made.clone().unbind());
    first_bytes(&made, size)
}

fn first_bytes<'py>(memory: &Bound<'py, PyByteArray>, size: usize) -> PyResult<Bound<'py, PyAny>> {
    let slice = PySlice::new(memory.py(), 0, isize::try_from(size)?, 1);
    PyMemoryView::from(memory.as_any())?.get_item(slice)
}

/// Return a bytearray of this size. It is made with size 0 and then resized: if there is no memory for a new large one,
/// CPython destroys an object that it has not set up, and reports an error.
fn uninitialised(py: Python<'_>, size: usize) -> PyResult<Bound<'_, PyByteArray>> {
    isize::try_from(size)?;
    let made = PyByteArray::new(py, &[]);
    made.resize(size)?;
    Ok(made)
}

#[pyfunction]
#[pyo3(name = "crc32c", signature = (data, /))]
fn crc32c_of(py: Python<'_>, data: Bytes) -> u32 {
    let bytes = data.as_slice();
    py.detach(|| ::crc32c::crc32c(bytes))
}

#[pymodule]
fn legacy_consumer_native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("DamagedRecordsError", module.py().get_type::<DamagedRecordsError>())?;
    module.add("TooLargeError", module.py().get_type::<TooLargeError>())?;
    module.add_class::<Columns>()?;
    module.add_class::<ArrowBatch>()?;
    module.add_class::<Message>()?;
    module.add_class::<MessageIterator>()?;
    module.add_class::<Decoding>()?;
    module.add_function(wrap_pyfunction!(decode, module)?)?;
    module.add_function(wrap_pyfunction!(decode_ahead, module)?)?;
    module.add_function(wrap_pyfunction!(glance, module)?)?;
    module.add_function(wrap_pyfunction!(buffer, module)?)?;
    module.add_function(wrap_pyfunction!(crc32c_of, module)?)
}
