//! Columns to which the decoder appends records. After a damaged batch, `back_to` removes all its records.

use std::mem::take;

use super::fault::Fault;
use super::spare::{Spare, KEPT_BYTES};

/// The bytes of all rows, one after the other, as in Arrow's type `binary`.
///
/// While all rows are null, they are only counted; while none is null, no bits are written. Most topics have no keys,
/// and few have null values.
#[derive(Debug, Clone)]
pub struct Binary {
    /// Where each row begins, and where the last one ends.
    pub offsets: Vec<i32>,
    /// The bytes.
    pub data: Vec<u8>,
    /// A bit for each row, the lowest first: 0 for null. Empty if no row is null.
    pub validity: Vec<u8>,
    /// The number of rows if all are null; they are not written yet.
    first_nulls: usize,
}

impl Default for Binary {
    fn default() -> Binary {
        Binary { offsets: vec![0], data: Vec::new(), validity: Vec::new(), first_nulls: 0 }
    }
}

impl Binary {
    /// Return a row's bytes, None for null and for a row that does not exist.
    #[must_use]
    pub fn get(&self, row: usize) -> Option<&[u8]> {
        if !self.validity.is_empty() && self.validity.get(row / 8)? >> (row % 8) & 1 == 0 {
            return None;
        }
        let begin = usize::try_from(*self.offsets.get(row)?).ok()?;
        let end = usize::try_from(*self.offsets.get(row + 1)?).ok()?;
        self.data.get(begin..end)
    }

    /// Return how many of these rows are null.
    #[must_use]
    pub fn nulls(&self, rows: std::ops::Range<usize>) -> usize {
        if self.validity.is_empty() {
            return 0;
        }
        let valid_before = |row: usize| {
            let (whole, rest) = self.validity.split_at(row / 8);
            let last = rest.first().map_or(0, |bits| bits & ((1 << (row % 8)) - 1));
            whole.iter().map(|bits| bits.count_ones() as usize).sum::<usize>() + last.count_ones() as usize
        };
        rows.len() - (valid_before(rows.end) - valid_before(rows.start))
    }

    fn len(&self) -> usize {
        self.first_nulls + self.offsets.len() - 1
    }

    /// Reserve memory for this many more rows.
    fn expect(&mut self, rows: usize) -> Result<(), Fault> {
        let rows = self.first_nulls + rows;
        self.offsets.try_reserve(rows)?;
        Ok(self.validity.try_reserve((self.len() + rows).div_ceil(8))?)
    }

    /// Append a row; `expect` has reserved memory for it.
    #[inline(always)]
    fn push(&mut self, field: Option<&[u8]>) -> Result<(), Fault> {
        match field {
            Some(bytes) => self.push_bytes(bytes),
            None if self.offsets.len() == 1 => {
                self.first_nulls += 1;
                Ok(())
            }
            None => {
                self.push_null();
                Ok(())
            }
        }
    }

    #[inline(always)]
    fn push_bytes(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        if self.first_nulls > 0 {
            self.write_first_nulls();
        }
        self.data.try_reserve(bytes.len())?;
        let end = i32::try_from(self.data.len() + bytes.len()).map_err(|_| Fault::TooLarge(i32::MAX as usize))?;
        self.data.extend_from_slice(bytes);
        self.offsets.push(end);
        if !self.validity.is_empty() {
            self.push_bit(true);
        }
        Ok(())
    }

    fn push_null(&mut self) {
        let rows = self.len();
        if self.validity.is_empty() {
            self.validity.resize(rows.div_ceil(8), u8::MAX);
            self.clear_bits_behind(rows);
        }
        self.offsets.push(self.offsets[rows]);
        self.push_bit(false);
    }

    /// Append the bit of the row whose offset was pushed last.
    fn push_bit(&mut self, is_valid: bool) {
        let row = self.offsets.len() - 2;
        let bit = u8::from(is_valid) << (row % 8);
        match self.validity.last_mut() {
            Some(last) if !row.is_multiple_of(8) => *last |= bit,
            _ => self.validity.push(bit),
        }
    }

    fn clear_bits_behind(&mut self, rows: usize) {
        self.validity.truncate(rows.div_ceil(8));
        if let (false, Some(last)) = (rows.is_multiple_of(8), self.validity.last_mut()) {
            *last &= (1 << (rows % 8)) - 1;
        }
    }

    #[cold]
    fn write_first_nulls(&mut self) {
        self.offsets.resize(1 + self.first_nulls, 0);
        self.validity.resize(self.first_nulls.div_ceil(8), 0);
        self.first_nulls = 0;
    }

    fn clear(&mut self) {
        self.first_nulls = 0;
        self.offsets.truncate(1);
        self.data.clear();
        self.validity.clear();
    }

    fn capacity(&self) -> usize {
        self.offsets.capacity() * 4 + self.data.capacity() + self.validity.capacity()
    }

    fn truncate(&mut self, rows: usize) {
        self.first_nulls = self.first_nulls.min(rows);
        self.offsets.truncate(rows + 1);
        let end = self.offsets.last().map_or(0, |end| usize::try_from(*end).unwrap_or(0));
        self.data.truncate(end);
        self.clear_bits_behind(rows);
    }
}

/// The records of one partition, in ascending order of their offsets.
#[derive(Debug, Clone)]
pub struct Columns {
    /// Kafka's offsets.
    pub offsets: Vec<i64>,
    /// Milliseconds since 1970; -1 where there is none.
    pub timestamps: Vec<i64>,
    /// 0 none, 1 create time, 2 log append time.
    pub timestamp_types: Vec<i8>,
    /// Keys.
    pub keys: Binary,
    /// Values.
    pub values: Binary,
    /// Headers as the producer wrote them, from their count on; null for none.
    pub headers: Binary,
    /// The position after all decoded entries, including gaps, control records and aborted transactions.
    pub next_offset: i64,
    /// Whether the record set holds more from there on: a limit was reached, or the next entry is damaged.
    pub has_more: bool,
    /// If the set ends inside the first wanted entry: the bytes of a set up to that entry's end.
    pub incomplete_size: Option<usize>,
}

/// One record to append.
pub(super) struct Record<'a> {
    pub offset: i64,
    pub timestamp: i64,
    pub timestamp_type: i8,
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
    pub headers: Option<&'a [u8]>,
}

/// A state of the columns, for `back_to`.
#[derive(Clone, Copy)]
pub(super) struct Mark {
    rows: usize,
    next_offset: i64,
}

/// The result of appending records.
#[derive(PartialEq, Eq)]
pub(super) enum Pushed {
    Yes,
    /// The columns have the most rows that the request allows.
    Full,
}

type Memory = (Vec<i64>, Vec<i64>, Vec<i8>, [Binary; 3]);

static SPARE: Spare<Memory> = Spare::new();

impl Drop for Columns {
    fn drop(&mut self) {
        let bytes = self.capacity();
        let fields = [&mut self.keys, &mut self.values, &mut self.headers].map(take);
        let memory = (take(&mut self.offsets), take(&mut self.timestamps), take(&mut self.timestamp_types), fields);
        SPARE.give(memory, bytes);
    }
}

impl Columns {
    /// Return columns without records, in the memory of earlier columns if there is any.
    #[must_use]
    pub(super) fn new(next_offset: i64) -> Columns {
        let (mut offsets, mut timestamps, mut timestamp_types, mut fields) = SPARE.take().unwrap_or_default();
        offsets.clear();
        timestamps.clear();
        timestamp_types.clear();
        fields.iter_mut().for_each(Binary::clear);
        let [keys, values, headers] = fields;
        Columns {
            offsets,
            timestamps,
            timestamp_types,
            keys,
            values,
            headers,
            next_offset,
            has_more: false,
            incomplete_size: None,
        }
    }

    /// Return the number of records.
    #[must_use]
    pub fn len(&self) -> usize {
        self.offsets.len()
    }

    /// Return whether there are no records.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }

    /// Return the bytes of memory that the records take.
    #[must_use]
    pub fn nbytes(&self) -> usize {
        let fields = [&self.keys, &self.values, &self.headers];
        self.len() * 17 + fields.iter().map(|f| f.data.len() + f.validity.len() + 4 * f.offsets.len()).sum::<usize>()
    }

    fn capacity(&self) -> usize {
        let fields = [&self.keys, &self.values, &self.headers].map(Binary::capacity);
        self.offsets.capacity() * 17 + fields.iter().sum::<usize>()
    }

    /// Return the same records, copied if they fill less than a quarter of memory that `Spare` would keep: the user's
    /// code may hold them for long.
    #[must_use]
    pub(super) fn fitted(self) -> Columns {
        let bytes = self.capacity();
        if KEPT_BYTES.contains(&bytes) && self.nbytes() < bytes / 4 {
            self.clone()
        } else {
            self
        }
    }

    pub(super) fn data_bytes(&self) -> usize {
        self.keys.data.len() + self.values.data.len() + self.headers.data.len()
    }

    pub(super) fn mark(&self) -> Mark {
        Mark { rows: self.len(), next_offset: self.next_offset }
    }

    pub(super) fn back_to(&mut self, mark: Mark) {
        self.offsets.truncate(mark.rows);
        self.timestamps.truncate(mark.rows);
        self.timestamp_types.truncate(mark.rows);
        for fields in [&mut self.keys, &mut self.values, &mut self.headers] {
            fields.truncate(mark.rows);
        }
        self.next_offset = mark.next_offset;
    }

    /// Reserve memory for this many more records and their possible values.
    pub(super) fn expect(&mut self, records: usize, bytes: usize) -> Result<(), Fault> {
        self.offsets.try_reserve(records)?;
        self.timestamps.try_reserve(records)?;
        self.timestamp_types.try_reserve(records)?;
        for fields in [&mut self.keys, &mut self.values, &mut self.headers] {
            fields.expect(records)?;
        }
        Ok(self.values.data.try_reserve(bytes)?)
    }

    /// Note that no more records follow: write rows that were only counted.
    pub(super) fn finish(&mut self) {
        for fields in [&mut self.keys, &mut self.values, &mut self.headers] {
            if fields.first_nulls > 0 {
                fields.write_first_nulls();
            }
        }
    }

    /// Append a record, unless it lies before the position, and move the position behind it. See `expect`.
    #[inline(always)]
    pub(super) fn push(&mut self, record: &Record, most: usize) -> Result<Pushed, Fault> {
        if record.offset < self.next_offset {
            return Ok(Pushed::Yes);
        }
        if self.len() >= most {
            return Ok(Pushed::Full);
        }
        self.keys.push(record.key)?;
        self.values.push(record.value)?;
        self.headers.push(record.headers)?;
        self.offsets.push(record.offset);
        self.timestamps.push(record.timestamp);
        self.timestamp_types.push(record.timestamp_type);
        self.next_offset = record.offset + 1;
        Ok(Pushed::Yes)
    }
}
