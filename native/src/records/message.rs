//! Messages of formats 0 and 1.
//!
//! offset 8, size 4, CRC 4, magic 1, attributes 1, timestamp 8 (format 1 only), key length 4, key, value length 4,
//! value. Lengths are -1 for null. Inside a wrapper of format 1 offsets count from the wrapper's first message. The
//! wrapper's attributes have the type of the timestamps; append time is the wrapper's own timestamp for all messages.

use super::columns::{Columns, Pushed, Record};
use super::fault::Fault;
use super::numbers::{int32, int64};
use super::scan::{APPEND_TIME_FLAG, BAD_CRC, CODEC_MASK, ENTRY_HEAD, MESSAGE_MINIMUM};

const CUT: &str = "a message that does not end inside what holds it";
const BAD_KEY: &str = "a key that does not end inside its message";
const BAD_VALUE: &str = "a value that does not end where its message does";
const OFFSET_BEYOND: &str = "an offset beyond that of the compressed message around it";

type KeyAndValue<'a> = (Option<&'a [u8]>, Option<&'a [u8]>);

/// A whole message, from its offset on; the caller has checked its size and its magic.
#[derive(Clone, Copy)]
pub struct Message<'a> {
    entry: &'a [u8],
}

impl<'a> Message<'a> {
    pub fn new(entry: &'a [u8]) -> Message<'a> {
        Message { entry }
    }

    pub fn magic(self) -> u8 {
        self.entry.get(16).copied().unwrap_or(0)
    }

    pub fn attributes(self) -> u8 {
        self.entry.get(17).copied().unwrap_or(0)
    }

    pub fn offset(self) -> i64 {
        int64(self.entry, 0).unwrap_or(-1)
    }

    /// Milliseconds since 1970; -1 in format 0, which has none.
    pub fn timestamp(self) -> i64 {
        if self.magic() == 0 {
            -1
        } else {
            int64(self.entry, 18).unwrap_or(-1)
        }
    }

    pub fn has_append_time(self) -> bool {
        self.attributes() & APPEND_TIME_FLAG != 0
    }

    pub fn is_sound(self) -> bool {
        let crc = int32(self.entry, 12).unwrap_or(0);
        self.entry.get(16..).is_some_and(|covered| crc32fast::hash(covered) == crc.cast_unsigned())
    }

    /// Return the key and the value.
    pub fn fields(self) -> Result<KeyAndValue<'a>, &'static str> {
        let begin = ENTRY_HEAD + MESSAGE_MINIMUM[usize::from(self.magic() & 1)] - 8;
        let (key, value_at) = field(self.entry, begin).ok_or(BAD_KEY)?;
        let (value, end) = field(self.entry, value_at).ok_or(BAD_VALUE)?;
        if end != self.entry.len() {
            return Err(BAD_VALUE);
        }
        Ok((key, value))
    }

    /// Append the message to the columns.
    pub fn push(self, columns: &mut Columns, most: usize) -> Result<Pushed, Fault> {
        let (key, value) = self.fields().map_err(|reason| Fault::Damaged(reason.into()))?;
        let timestamp_type = if self.magic() == 0 { 0 } else { 1 + i8::from(self.has_append_time()) };
        let timestamp = self.timestamp();
        columns.push(&Record { offset: self.offset(), timestamp, timestamp_type, key, value, headers: None }, most)
    }
}

fn field(entry: &[u8], at: usize) -> Option<(Option<&[u8]>, usize)> {
    let length = int32(entry, at)?;
    if length == -1 {
        return Some((None, at + 4));
    }
    let end = (at + 4).checked_add(usize::try_from(length).ok()?)?;
    Some((Some(entry.get(at + 4..end)?), end))
}

/// Append the decompressed messages of a wrapper to the columns, and move the position behind the wrapper. After a
/// fault the columns hold a part of them: the caller calls `back_to`.
pub fn push_inner(
    inside: &[u8],
    wrapper: Message,
    columns: &mut Columns,
    most: usize,
    check_crcs: bool,
) -> Result<Pushed, Fault> {
    let (count, last_inner) = survey(inside)?;
    let highest = wrapper.offset();
    let base = if wrapper.magic() == 1 { highest.saturating_sub(last_inner) } else { 0 };
    if count == 0 {
        return Err(Fault::Damaged("a compressed message that holds no messages".into()));
    }
    if base < 0 || base > highest {
        return Err(Fault::Damaged("a compressed message that holds offsets beyond its own".into()));
    }
    columns.expect(count.min(most.saturating_sub(columns.len())), 0)?;
    for (at, message) in Entries::new(inside) {
        let fault = |reason: &str| Fault::Damaged(format!("{reason}, {at} bytes into what was compressed"));
        if check_crcs && !message.is_sound() {
            return Err(fault(BAD_CRC));
        }
        let relative = message.offset();
        if relative < 0 || relative > highest - base {
            return Err(fault(OFFSET_BEYOND));
        }
        let (key, value) = message.fields().map_err(fault)?;
        let (timestamp, timestamp_type) = match (message.magic(), wrapper.magic()) {
            (0, _) => (-1, 0),
            (_, 1) if wrapper.has_append_time() => (wrapper.timestamp(), 2),
            (_, 1) => (message.timestamp(), 1),
            _ => (message.timestamp(), 1 + i8::from(message.has_append_time())),
        };
        let record = Record { offset: base + relative, timestamp, timestamp_type, key, value, headers: None };
        if columns.push(&record, most)? == Pushed::Full {
            return Ok(Pushed::Full);
        }
    }
    columns.next_offset = columns.next_offset.max(highest + 1);
    Ok(Pushed::Yes)
}

/// Check the sizes and formats of all messages; return their number and the last offset.
fn survey(inside: &[u8]) -> Result<(usize, i64), Fault> {
    let (mut at, mut count, mut last) = (0, 0, -1);
    while at < inside.len() {
        let fault = |reason: &str| Err(Fault::Damaged(format!("{reason}, {at} bytes into what was compressed")));
        let left = &inside[at..];
        if left.len() < ENTRY_HEAD + MESSAGE_MINIMUM[0] {
            return fault(CUT);
        }
        let magic = left[16];
        if magic > 1 {
            return fault("a message inside a compressed one that has another format than 0 or 1");
        }
        let size = usize::try_from(int32(left, 8).unwrap_or(-1)).unwrap_or(0);
        if size > left.len() - ENTRY_HEAD || size < MESSAGE_MINIMUM[usize::from(magic)] {
            return fault(CUT);
        }
        if left[17] & CODEC_MASK != 0 {
            return fault("a compressed message inside a compressed one");
        }
        last = int64(left, 0).unwrap_or(-1);
        count += 1;
        at += ENTRY_HEAD + size;
    }
    Ok((count, last))
}

/// The messages after `survey`: (where each begins, the message).
struct Entries<'a> {
    data: &'a [u8],
    at: usize,
}

impl<'a> Entries<'a> {
    fn new(data: &'a [u8]) -> Entries<'a> {
        Entries { data, at: 0 }
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = (usize, Message<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let begin = self.at;
        let size = usize::try_from(int32(self.data, begin + 8)?).ok()?;
        let entry = self.data.get(begin..begin + ENTRY_HEAD + size)?;
        self.at = begin + entry.len();
        Some((begin, Message::new(entry)))
    }
}
