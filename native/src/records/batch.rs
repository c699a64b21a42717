//! Batches of format 2.
//!
//! A record: its length, attributes 1 byte, time since the batch's first, offset since the batch's first, key length,
//! key, value length, value, count of headers, headers. All numbers are varints.

use super::columns::{Columns, Pushed, Record};
use super::fault::Fault;
use super::headers::are_headers;
use super::numbers::{byte, nullable, take, varint, varlong};

/// Bytes, one each: length, attributes, time, offset, key length, value length, count of headers.
pub const SMALLEST_RECORD: usize = 7;
pub const BAD_COUNT: &str = "a batch that counts more records than its bytes can hold";

/// The fields of a batch that concern all its records.
#[derive(Clone, Copy)]
pub struct Frame {
    pub base_offset: i64,
    pub last_offset: i64,
    /// The time of the first record; with append time, of all records.
    pub time: i64,
    pub is_append_time: bool,
    pub count: usize,
}

/// Append the records of a batch to the columns, and move the position behind the batch. After a fault the columns hold
/// a part of the batch: the caller calls `back_to`.
pub fn push_records(data: &[u8], frame: &Frame, columns: &mut Columns, most: usize) -> Result<Pushed, Fault> {
    let mut left = data;
    for _ in 0..frame.count {
        let at = data.len() - left.len();
        let record = next_record(&mut left, frame)
            .map_err(|reason| Fault::Damaged(format!("{reason}, {at} bytes into the records of a batch")))?;
        if columns.push(&record, most)? == Pushed::Full {
            return Ok(Pushed::Full);
        }
    }
    if !left.is_empty() {
        return Err(Fault::Damaged("a batch with more bytes than its records".into()));
    }
    columns.next_offset = columns.next_offset.max(frame.last_offset + 1);
    Ok(Pushed::Yes)
}

#[inline(always)]
fn next_record<'a>(data: &mut &'a [u8], frame: &Frame) -> Result<Record<'a>, &'static str> {
    const BAD_LENGTH: &str = "a record that does not end inside its batch";
    const BAD_TIME: &str = "a timestamp of more than 64 bits";
    const BAD_OFFSET: &str = "a record whose offset lies outside its batch";
    const BAD_KEY: &str = "a key that does not end inside its record";
    const BAD_VALUE: &str = "a value that does not end inside its record";
    const BAD_HEADERS: &str = "headers that do not end where their record does";
    let length = varint(data).ok_or(BAD_LENGTH)?;
    let mut record = take(data, length).ok_or(BAD_LENGTH)?;
    byte(&mut record).ok_or(BAD_LENGTH)?; // the record's attributes, which are not used
    let time_delta = varlong(&mut record).ok_or(BAD_TIME)?;
    let offset_delta = varint(&mut record).ok_or(BAD_OFFSET)?;
    if offset_delta < 0 || offset_delta > frame.last_offset - frame.base_offset {
        return Err(BAD_OFFSET);
    }
    let key = nullable(&mut record).ok_or(BAD_KEY)?;
    let value = nullable(&mut record).ok_or(BAD_VALUE)?;
    let headers = record;
    let count = varint(&mut record).ok_or(BAD_HEADERS)?;
    if (count != 0 || !record.is_empty()) && !are_headers(record, count) {
        return Err(BAD_HEADERS);
    }
    Ok(Record {
        offset: frame.base_offset + offset_delta,
        timestamp: if frame.is_append_time { frame.time } else { frame.time.wrapping_add(time_delta) },
        timestamp_type: if frame.is_append_time { 2 } else { 1 },
        key,
        value,
        headers: (count > 0).then_some(headers),
    })
}

/// Return whether a control batch aborts its transaction; None if it cannot be read. The key of its record is a version
/// and a type, 16 bits each; type 0 = abort.
pub fn is_abort_marker(mut data: &[u8], frame: &Frame) -> Option<bool> {
    let record = next_record(&mut data, frame).ok()?;
    let is_whole = data.is_empty() == (frame.count == 1);
    if is_whole {
        Some(super::numbers::int16(record.key?, 2)? == 0)
    } else {
        None
    }
}
