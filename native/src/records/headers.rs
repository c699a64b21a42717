//! Headers of a record: varint count, then each one's key length, key, value length, value.

use super::numbers::{nullable, take, varint};

/// A key, and a value or null.
pub type Header<'a> = (&'a [u8], Option<&'a [u8]>);

/// Return the headers; a key may occur twice. None if the bytes are anything but headers.
#[must_use]
pub fn parse_headers(mut data: &[u8]) -> Option<Vec<Header<'_>>> {
    let count = varint(&mut data)?;
    let mut found = Vec::new();
    walk(data, count, |header| found.push(header))?;
    Some(found)
}

/// Return whether this many headers fill the bytes exactly.
pub(super) fn are_headers(data: &[u8], count: i64) -> bool {
    walk(data, count, |_| ()).is_some()
}

fn walk<'a>(mut data: &'a [u8], count: i64, mut with: impl FnMut(Header<'a>)) -> Option<()> {
    // a header has two bytes at least
    if usize::try_from(count).ok()? > data.len() / 2 {
        return None;
    }
    for _ in 0..count {
        let length = varint(&mut data)?;
        let key = take(&mut data, length)?;
        with((key, nullable(&mut data)?));
    }
    data.is_empty().then_some(())
}
