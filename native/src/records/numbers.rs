//! Reads numbers of the formats. Each function gets the bytes that it may read, and returns None if they are too few.

pub fn int16(data: &[u8], at: usize) -> Option<i16> {
    Some(i16::from_be_bytes(data.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

pub fn int32(data: &[u8], at: usize) -> Option<i32> {
    Some(i32::from_be_bytes(data.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

pub fn int64(data: &[u8], at: usize) -> Option<i64> {
    Some(i64::from_be_bytes(data.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

/// Read the next byte.
#[inline(always)]
pub fn byte(data: &mut &[u8]) -> Option<u8> {
    let (first, rest) = data.split_first()?;
    *data = rest;
    Some(*first)
}

/// Read 32 bits in at most 5 bytes: zigzag, 7 bits a byte, lowest first.
#[inline(always)]
pub fn varint(data: &mut &[u8]) -> Option<i64> {
    let first = byte(data)?;
    if first < 0x80 {
        return Some(unzigzag(u64::from(first)));
    }
    let mut bits = u64::from(first & 0x7F);
    for shift in [7, 14, 21, 28] {
        let next = byte(data)?;
        bits |= u64::from(next & 0x7F) << shift;
        if next < 0x80 {
            return (bits >> 32 == 0).then(|| unzigzag(bits));
        }
    }
    None
}

/// Read 64 bits in at most 10 bytes, like `varint`.
#[inline(always)]
pub fn varlong(data: &mut &[u8]) -> Option<i64> {
    let first = byte(data)?;
    if first < 0x80 {
        return Some(unzigzag(u64::from(first)));
    }
    let mut bits = u64::from(first & 0x7F);
    for shift in [7, 14, 21, 28, 35, 42, 49, 56, 63] {
        let next = byte(data)?;
        if shift == 63 && next > 1 {
            return None;
        }
        bits |= u64::from(next & 0x7F) << shift;
        if next < 0x80 {
            return Some(unzigzag(bits));
        }
    }
    None
}

/// Read this many bytes; None for a negative count.
#[inline]
pub fn take<'a>(data: &mut &'a [u8], count: i64) -> Option<&'a [u8]> {
    let (taken, rest) = data.split_at_checked(usize::try_from(count).ok()?)?;
    *data = rest;
    Some(taken)
}

/// Read a length, -1 for null, and that many bytes.
#[inline]
pub fn nullable<'a>(data: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    match varint(data)? {
        -1 => Some(None),
        length => take(data, length).map(Some),
    }
}

#[inline]
#[allow(clippy::cast_possible_wrap)]
fn unzigzag(bits: u64) -> i64 {
    (bits >> 1) as i64 ^ -((bits & 1) as i64)
}
