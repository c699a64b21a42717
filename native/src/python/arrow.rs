//! Columns as an Arrow record batch, with the names, types and order of Spark's Kafka source.
//!
//! | column        | type                                                   | made how                 |
//! |---------------|--------------------------------------------------------|--------------------------|
//! | key, value    | binary                                                 | as they are              |
//! | topic         | dictionary<int8, string>                               | zeros, and the one name  |
//! | partition     | int32                                                  | filled                   |
//! | offset        | int64                                                  | as it is                 |
//! | timestamp     | timestamp[ms, UTC], null for none                      | as it is, and a bitmap   |
//! | timestampType | int32: 0 none, 1 create, 2 append                      | widened                  |
//! | headers       | list<struct<key string, value binary>>, null for none  | parsed record by record  |

use std::ffi::CString;
use std::ops::Range;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use super::arrow_c::{Array, ArrowArray, ArrowSchema, Buffer, Field};
use crate::records::{parse_headers, Binary, Columns};

/// Columns of some records, for any library with Arrow's `PyCapsule` interface.
#[pyclass(frozen, module = "legacy_consumer_native")]
pub struct ArrowBatch {
    of: Arc<Columns>,
    rows: Range<usize>,
    names: Vec<String>,
    topic: String,
    partition: i32,
}

#[pymethods]
impl ArrowBatch {
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        drop(requested_schema); // the interface lets us ignore it
        let children = py.detach(|| self.names.iter().map(|name| self.column(name)).collect::<PyResult<Vec<_>>>())?;
        let batch = Array { length: self.rows.len(), buffers: vec![None], children, ..Array::default() };
        let array = PyCapsule::new_with_value(py, ArrowArray::from(batch), c"arrow_array")?;
        Ok((self.__arrow_c_schema__(py)?, array))
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let children = self.names.iter().map(|name| field_of(name)).collect::<PyResult<Vec<_>>>()?;
        let batch = field("", "+s", children);
        PyCapsule::new_with_value(py, ArrowSchema::from(Field { is_nullable: false, ..batch }), c"arrow_schema")
    }
}

impl ArrowBatch {
    pub fn new(
        of: Arc<Columns>,
        rows: Range<usize>,
        names: Vec<String>,
        topic: String,
        partition: i32,
    ) -> PyResult<ArrowBatch> {
        for name in &names {
            field_of(name)?;
        }
        Ok(ArrowBatch { of, rows, names, topic, partition })
    }

    fn column(&self, name: &str) -> PyResult<Array> {
        let (of, length, offset) = (&self.of, self.rows.len(), self.rows.start);
        let array = |buffers| Array { length, buffers, ..Array::default() };
        Ok(match name {
            "key" => self.binary(|columns| &columns.keys),
            "value" => self.binary(|columns| &columns.values),
            "topic" => {
                let end = i32::try_from(self.topic.len()).map_err(|_| PyValueError::new_err("a topic so long"))?;
                let ends = Buffer::new(vec![0, end]);
                let name = Buffer::new(self.topic.clone().into_bytes());
                let values = Array { length: 1, buffers: vec![None, Some(ends), Some(name)], ..Array::default() };
                let numbers = array(vec![None, Some(Buffer::new(vec![0i8; length]))]);
                Array { dictionary: Some(Box::new(values)), ..numbers }
            }
            "partition" => array(vec![None, Some(Buffer::new(vec![self.partition; length]))]),
            "offset" => {
                let offsets = Buffer::of(of, |columns| columns.offsets.as_slice());
                Array { offset, ..array(vec![None, Some(offsets)]) }
            }
            "timestamp" => {
                let times = Buffer::of(of, |columns| &columns.timestamps[self.rows.clone()]);
                let types = &of.timestamp_types[self.rows.clone()];
                let (nulls, valid) =
                    if types.contains(&0) { bitmap(types.iter().map(|kind| *kind != 0)) } else { (0, Vec::new()) };
                Array { nulls, ..array(vec![(nulls > 0).then(|| Buffer::new(valid)), Some(times)]) }
            }
            "timestampType" => {
                let types = of.timestamp_types[self.rows.clone()].iter().map(|kind| i32::from(*kind)).collect();
                array(vec![None, Some(Buffer::new::<i32>(types))])
            }
            _ => self.headers()?,
        })
    }

    fn binary(&self, fields: fn(&Columns) -> &Binary) -> Array {
        let of = &self.of;
        let nulls = fields(of).nulls(self.rows.clone());
        Array {
            length: self.rows.len(),
            nulls,
            offset: self.rows.start,
            buffers: vec![
                (nulls > 0).then(|| Buffer::of(of, |columns| fields(columns).validity.as_slice())),
                Some(Buffer::of(of, |columns| fields(columns).offsets.as_slice())),
                Some(Buffer::of(of, |columns| fields(columns).data.as_slice())),
            ],
            ..Array::default()
        }
    }

    fn headers(&self) -> PyResult<Array> {
        let mut ends = vec![0i32];
        let (mut keys, mut values) = (Text::default(), Text::default());
        for row in self.rows.clone() {
            let found = self.of.headers.get(row).and_then(parse_headers).unwrap_or_default();
            for (key, value) in found {
                keys.push(Some(String::from_utf8_lossy(key).as_bytes()))?;
                values.push(value)?;
            }
            ends.push(i32::try_from(keys.valid.len()).map_err(|_| too_many())?);
        }
        let (nulls, valid) = bitmap(self.rows.clone().map(|row| self.of.headers.get(row).is_some()));
        let pairs = Array {
            length: keys.valid.len(),
            buffers: vec![None],
            children: vec![keys.into_array(), values.into_array()],
            ..Array::default()
        };
        Ok(Array {
            length: self.rows.len(),
            nulls,
            buffers: vec![(nulls > 0).then(|| Buffer::new(valid)), Some(Buffer::new(ends))],
            children: vec![pairs],
            ..Array::default()
        })
    }
}

/// Collects the bytes of rows for Arrow.
#[derive(Default)]
struct Text {
    ends: Vec<i32>,
    data: Vec<u8>,
    valid: Vec<bool>,
}

impl Text {
    fn push(&mut self, text: Option<&[u8]>) -> PyResult<()> {
        self.data.extend_from_slice(text.unwrap_or_default());
        self.valid.push(text.is_some());
        self.ends.push(i32::try_from(self.data.len()).map_err(|_| too_many())?);
        Ok(())
    }

    fn into_array(mut self) -> Array {
        self.ends.insert(0, 0);
        let (nulls, valid) = bitmap(self.valid.iter().copied());
        Array {
            length: self.valid.len(),
            nulls,
            buffers: vec![
                (nulls > 0).then(|| Buffer::new(valid)),
                Some(Buffer::new(self.ends)),
                Some(Buffer::new(self.data)),
            ],
            ..Array::default()
        }
    }
}

fn too_many() -> PyErr {
    PyValueError::new_err("more than 2 GiB in one column: slice the columns")
}

/// Return (the number of nulls, a bit for each row).
fn bitmap(valid: impl ExactSizeIterator<Item = bool>) -> (usize, Vec<u8>) {
    let mut bits = vec![0u8; valid.len().div_ceil(8)];
    let mut nulls = 0;
    for (row, is_valid) in valid.enumerate() {
        bits[row / 8] |= u8::from(is_valid) << (row % 8);
        nulls += usize::from(!is_valid);
    }
    (nulls, bits)
}

fn field(name: &str, format: &str, children: Vec<Field>) -> Field {
    let text = |text: &str| CString::new(text).unwrap_or_default();
    Field { name: text(name), format: text(format), is_nullable: true, children, dictionary: None }
}

fn field_of(name: &str) -> PyResult<Field> {
    Ok(match name {
        "key" | "value" => field(name, "z", vec![]),
        "topic" => Field { dictionary: Some(Box::new(field("", "u", vec![]))), ..field(name, "c", vec![]) },
        "partition" | "timestampType" => field(name, "i", vec![]),
        "offset" => field(name, "l", vec![]),
        "timestamp" => field(name, "tsm:UTC", vec![]),
        "headers" => {
            let pair = field("item", "+s", vec![field("key", "u", vec![]), field("value", "z", vec![])]);
            field(name, "+l", vec![pair])
        }
        _ => return Err(PyValueError::new_err(format!("no column {name:?}"))),
    })
}
