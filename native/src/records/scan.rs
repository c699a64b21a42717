//! The walk over the entries of a record set.
//!
//! Entries of all formats begin alike: offset 8 bytes, size of the rest 4, four bytes, magic 1. No CRC covers offsets;
//! the walk only checks that sums with them cannot overflow.

use super::batch::{is_abort_marker, push_records, Frame, BAD_COUNT, SMALLEST_RECORD};
use super::codec::Decompressor;
use super::columns::{Columns, Pushed};
use super::fault::Fault;
use super::message::{push_inner, Message};
use super::numbers::{int32, int64};
use super::transactions::AbortedProducers;

pub const CODEC_MASK: u8 = 7;
pub const APPEND_TIME_FLAG: u8 = 8;
const TRANSACTIONAL_FLAG: u8 = 16;
const CONTROL_FLAG: u8 = 32;
pub const ENTRY_HEAD: usize = 12;
/// Bytes after the size in an empty message of formats 0 and 1: CRC, magic, attributes, (timestamp,) two lengths.
pub const MESSAGE_MINIMUM: [usize; 2] = [14, 22];
const BATCH_HEAD: usize = 61;
const HIGHEST_OFFSET: i64 = i64::MAX - (1 << 32) + 1;
const CRC_COVERS_FROM: usize = 21;
pub const BAD_CRC: &str = "a CRC that does not match";

/// The requested part of a record set, and the limits of its decoding.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// The first wanted offset.
    pub position: i64,
    /// (producer id, first offset) of aborted transactions to leave out; None = read uncommitted records, too.
    pub aborted: Option<&'a [(i64, i64)]>,
    /// The most records.
    pub max_records: usize,
    /// The most bytes to which one batch may decompress.
    pub max_batch_bytes: usize,
    /// The columns end with the batch that reaches this many decompressed bytes.
    pub max_decompressed_bytes: usize,
    /// Whether to check the checksums.
    pub check_crcs: bool,
}

impl Default for Request<'_> {
    fn default() -> Self {
        Request {
            position: 0,
            aborted: None,
            max_records: 1 << 20,
            max_batch_bytes: 128 << 20,
            max_decompressed_bytes: 32 << 20,
            check_crcs: true,
        }
    }
}

/// Decode the complete records from the position on, within the limits.
///
/// # Errors
/// The first entry at the position cannot be read.
pub fn decode(set: &[u8], request: &Request) -> Result<Columns, Fault> {
    let mut walk = Walk {
        set,
        request,
        columns: Columns::new(request.position),
        aborted: request.aborted.map(AbortedProducers::new),
        decompressor: Decompressor::new(),
        decompressed: 0,
    };
    let mut at = 0;
    let end = loop {
        match walk.entry(at) {
            Ok(Step::To(next)) => at = next,
            Ok(end) => break Ok(end),
            Err(fault) => break Err(fault),
        }
    };
    let mut columns = walk.columns;
    columns.finish();
    let has_moved = columns.next_offset > request.position;
    match end {
        Err(fault) if !has_moved || fault == Fault::NoMemory => return Err(fault),
        Err(_) | Ok(Step::Limit) => columns.has_more = true,
        Ok(Step::Cut(size)) if !has_moved => columns.incomplete_size = Some(size),
        Ok(_) => {}
    }
    Ok(columns.fitted())
}

enum Step {
    /// Continue with the entry at this place.
    To(usize),
    /// The set ends inside an entry; a set up to the end of that entry has this many bytes.
    Cut(usize),
    End,
    /// The set holds more, but the columns have reached a limit.
    Limit,
}

struct Walk<'a> {
    set: &'a [u8],
    request: &'a Request<'a>,
    columns: Columns,
    aborted: Option<AbortedProducers>,
    decompressor: Decompressor,
    decompressed: usize,
}

/// The head of a batch.
struct Batch<'a> {
    entry: &'a [u8],
    attributes: u8,
    producer_id: i64,
    frame: Frame,
}

impl Walk<'_> {
    fn entry(&mut self, at: usize) -> Result<Step, Fault> {
        let left = &self.set[at..];
        if left.is_empty() {
            return Ok(Step::End);
        }
        let (Some(offset), Some(size)) = (int64(left, 0), int32(left, 8)) else {
            return Ok(Step::Cut(at + ENTRY_HEAD));
        };
        let length = usize::try_from(size).unwrap_or(0);
        if length < MESSAGE_MINIMUM[0] {
            return Err(Fault::at("a size smaller than what the format begins with", at));
        }
        let Some(entry) = left.get(..ENTRY_HEAD + length) else {
            return Ok(Step::Cut(at + (ENTRY_HEAD + length).min(i32::MAX as usize)));
        };
        let magic = entry[16];
        if magic > 2 {
            return Err(Fault::at("a message format that does not exist", at));
        }
        if !(0..=HIGHEST_OFFSET).contains(&offset) {
            return Err(Fault::at("an offset that cannot be", at));
        }
        let smallest = if magic == 2 { BATCH_HEAD - ENTRY_HEAD } else { MESSAGE_MINIMUM[usize::from(magic)] };
        if length < smallest {
            return Err(Fault::at("a size smaller than what the format begins with", at));
        }
        let batch = if magic == 2 { Some(batch(entry, offset, at)?) } else { None };
        let last_offset = batch.as_ref().map_or(offset, |batch| batch.frame.last_offset);
        let is_needed = last_offset >= self.request.position;
        if !is_needed && self.aborted.is_none() {
            return Ok(Step::To(at + entry.len()));
        }
        if is_needed && self.has_enough(entry.len()) {
            return Ok(Step::Limit);
        }
        let mark = self.columns.mark();
        let pushed = match batch {
            Some(batch) => self.batch(&batch, at, is_needed),
            None if is_needed => self.message(Message::new(entry), at),
            None => Ok(Pushed::Yes),
        };
        match pushed {
            Ok(Pushed::Yes) => Ok(Step::To(at + entry.len())),
            Ok(Pushed::Full) => Ok(Step::Limit),
            Err(fault) => {
                self.columns.back_to(mark);
                Err(fault)
            }
        }
    }

    fn has_enough(&self, more: usize) -> bool {
        self.columns.len() >= self.request.max_records
            || self.decompressed >= self.request.max_decompressed_bytes
            || (!self.columns.is_empty() && self.columns.data_bytes() + more > i32::MAX as usize)
    }

    fn message(&mut self, message: Message, at: usize) -> Result<Pushed, Fault> {
        if self.request.check_crcs && !message.is_sound() {
            return Err(Fault::at(BAD_CRC, at));
        }
        let most = self.request.max_records;
        let codec = message.attributes() & CODEC_MASK;
        if codec == 0 {
            self.columns.expect(1, 0)?;
            return message.push(&mut self.columns, most).map_err(|fault| with_place(fault, at));
        }
        let (_, value) = message.fields().map_err(|reason| Fault::at(reason, at))?;
        let value = value.ok_or_else(|| Fault::at("a compressed message without a value", at))?;
        let inside = self
            .decompressor
            .decompress(codec, message.magic(), value, self.request.max_batch_bytes)
            .map_err(|fault| with_place(fault, at))?;
        self.decompressed += inside.len();
        if self.columns.data_bytes() + inside.len() > i32::MAX as usize {
            return Ok(Pushed::Full);
        }
        push_inner(inside, message, &mut self.columns, most, self.request.check_crcs)
    }

    fn batch(&mut self, batch: &Batch, at: usize, is_needed: bool) -> Result<Pushed, Fault> {
        let is_control = batch.attributes & CONTROL_FLAG != 0;
        if self.request.check_crcs && is_needed {
            let crc = int32(batch.entry, 17).unwrap_or(0);
            if crc32c::crc32c(&batch.entry[CRC_COVERS_FROM..]) != crc.cast_unsigned() {
                return Err(Fault::at(BAD_CRC, at));
            }
        }
        let mut is_left_out = is_control || (batch.frame.count == 0 && batch.entry.len() == BATCH_HEAD);
        if let (Some(aborted), 0..) = (&mut self.aborted, batch.producer_id) {
            aborted.come_to(batch.frame.last_offset);
            if aborted.has(batch.producer_id) {
                if !is_control {
                    is_left_out |= batch.attributes & TRANSACTIONAL_FLAG != 0;
                } else if self.is_abort_marker(batch, at)? {
                    if let Some(aborted) = &mut self.aborted {
                        aborted.end(batch.producer_id);
                    }
                }
            }
        }
        if !is_needed {
            return Ok(Pushed::Yes);
        }
        if is_left_out {
            self.columns.next_offset = self.columns.next_offset.max(batch.frame.last_offset + 1);
            return Ok(Pushed::Yes);
        }
        let most = self.request.max_records;
        let expected = batch.frame.count.min(most.saturating_sub(self.columns.len()));
        if batch.attributes & CODEC_MASK == 0 {
            let rest = if self.columns.is_empty() { self.set.len() - at } else { 0 };
            self.columns.expect(expected, rest)?;
            return push_records(&batch.entry[BATCH_HEAD..], &batch.frame, &mut self.columns, most)
                .map_err(|fault| with_place(fault, at));
        }
        let records = inside(&mut self.decompressor, batch, at, self.request.max_batch_bytes)?;
        self.decompressed += records.len();
        if self.columns.data_bytes() + records.len() > i32::MAX as usize {
            return Ok(Pushed::Full);
        }
        self.columns.expect(expected, records.len())?;
        push_records(records, &batch.frame, &mut self.columns, most).map_err(|fault| with_place(fault, at))
    }

    fn is_abort_marker(&mut self, batch: &Batch, at: usize) -> Result<bool, Fault> {
        let records = inside(&mut self.decompressor, batch, at, self.request.max_batch_bytes)?;
        is_abort_marker(records, &batch.frame).ok_or_else(|| Fault::at("a control batch that cannot be read", at))
    }
}

/// Return the decompressed records of a batch.
fn inside<'a>(
    decompressor: &'a mut Decompressor,
    batch: &Batch<'a>,
    at: usize,
    limit: usize,
) -> Result<&'a [u8], Fault> {
    let payload = &batch.entry[BATCH_HEAD..];
    let codec = batch.attributes & CODEC_MASK;
    if codec == 0 {
        return Ok(payload);
    }
    let records = decompressor.decompress(codec, 2, payload, limit).map_err(|fault| with_place(fault, at))?;
    if batch.frame.count > records.len() / SMALLEST_RECORD {
        return Err(Fault::at(BAD_COUNT, at));
    }
    Ok(records)
}

fn batch(entry: &[u8], base_offset: i64, at: usize) -> Result<Batch<'_>, Fault> {
    // the caller has checked that the entry has BATCH_HEAD bytes
    let long = |place| int64(entry, place).unwrap_or(-1);
    let last_delta = int32(entry, 23).unwrap_or(-1);
    let attributes = entry[22];
    if last_delta < 0 {
        return Err(Fault::at("a batch whose last offset lies before its first", at));
    }
    let count = usize::try_from(int32(entry, 57).unwrap_or(-1)).map_err(|_| Fault::at(BAD_COUNT, at))?;
    if attributes & CODEC_MASK == 0 && count > (entry.len() - BATCH_HEAD) / SMALLEST_RECORD {
        return Err(Fault::at(BAD_COUNT, at));
    }
    let is_append_time = attributes & APPEND_TIME_FLAG != 0;
    let frame = Frame {
        base_offset,
        last_offset: base_offset + i64::from(last_delta),
        time: long(if is_append_time { 35 } else { 27 }),
        is_append_time,
        count,
    };
    Ok(Batch { entry, attributes, producer_id: long(43), frame })
}

fn with_place(fault: Fault, at: usize) -> Fault {
    match fault {
        Fault::Damaged(reason) => Fault::at(&reason, at),
        other => other,
    }
}
