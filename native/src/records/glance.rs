//! Finds where a partition continues after a record set, from the heads of its entries alone.

use super::numbers::{int32, int64};

const HEAD: usize = 17;
const BATCH_MINIMUM: i32 = 49;
const LARGEST: i64 = i32::MAX as i64;

/// Return (the position after the last complete entry, the bytes of the first one if it is incomplete, else 0).
///
/// The heads are not checked: if one is wrong, decoding returns the fault.
#[must_use]
pub fn glance(set: &[u8], position: i64) -> (i64, i64) {
    let mut at = 0;
    let mut next = position;
    while let (Some(offset), Some(size), Some(magic)) = (int64(set, at), int32(set, at + 8), set.get(at + 16)) {
        let Ok(length) = usize::try_from(size) else { break };
        if size < 14 {
            break; // no entry is so small: decoding returns the fault
        }
        if length > set.len() - at - 12 {
            if at == 0 {
                return (next, (i64::from(size) + 12).min(LARGEST));
            }
            break;
        }
        let mut last = offset;
        if *magic >= 2 {
            if size < BATCH_MINIMUM {
                break;
            }
            last = last.wrapping_add(i64::from(int32(set, at + 23).unwrap_or(0)));
        }
        if last >= next {
            next = last.wrapping_add(1);
        }
        at += 12 + length;
    }
    let is_cut_head = at == 0 && !set.is_empty() && set.len() < HEAD;
    (next, if is_cut_head { HEAD as i64 } else { 0 })
}
