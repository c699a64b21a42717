//! Decompresses the content of a batch or a wrapper within a limit.
//!
//! gzip is read piece by piece up to the limit. The other formats state the largest possible output: snappy in its
//! preamble, which cannot promise more than 64 bytes for 3; lz4 and zstd in the sizes of their blocks. That size is
//! checked against the limit before memory is allocated, and the library may not write beyond it.
//!
//! Source: `KafkaLZ4BlockInputStream` and `SnappyInputStream` (xerial framing) as Kafka uses them, RFC 8878 for zstd,
//! the LZ4 frame format 1.6.

use std::io::{ErrorKind, Read};
use std::mem::take;

use super::fault::Fault;
use super::spare::Spare;

const XERIAL_MAGIC: &[u8] = b"\x82SNAPPY\x00";
const XERIAL_HEAD: usize = 16;
const GZIP_MAGIC: &[u8] = b"\x1f\x8b";
const GZIP_PIECE: usize = 1 << 16;
const LZ4_MAGIC: &[u8] = b"\x04\x22\x4d\x18";
const LZ4_MOST: usize = 255;
const LZ4_WINDOW: usize = 1 << 16;
const ZSTD_MAGIC: &[u8] = b"\x28\xb5\x2f\xfd";
const ZSTD_BLOCK_BYTES: usize = 1 << 17;

/// The memory into which batches are decompressed, one after the other.
pub struct Decompressor {
    memory: Vec<u8>,
    zstd: Option<zstd_safe::DCtx<'static>>,
}

enum Trouble {
    Cut,
    Other(String),
    Fault(Fault),
}

impl From<Fault> for Trouble {
    fn from(fault: Fault) -> Trouble {
        Trouble::Fault(fault)
    }
}

fn other(reason: impl ToString) -> Trouble {
    Trouble::Other(reason.to_string())
}

static SPARE: Spare<(Vec<u8>, Option<zstd_safe::DCtx<'static>>)> = Spare::new();

impl Drop for Decompressor {
    fn drop(&mut self) {
        let bytes = self.memory.capacity();
        SPARE.give((take(&mut self.memory), self.zstd.take()), bytes);
    }
}

impl Decompressor {
    /// Take the memory of an earlier decompressor, if there is any.
    pub fn new() -> Decompressor {
        let (memory, zstd) = SPARE.take().unwrap_or_default();
        Decompressor { memory, zstd }
    }

    /// Return the decompressed bytes. `codec`: the number in the attributes. `magic`: the format of the entry; before 2
    /// lz4 frames of old clients have a wrong checksum in their head, and zstd does not exist.
    pub fn decompress(&mut self, codec: u8, magic: u8, source: &[u8], limit: usize) -> Result<&[u8], Fault> {
        let limit = limit.min(i32::MAX as usize);
        let (name, size) = match codec {
            1 => ("gzip", self.gunzip(source, limit)),
            2 => ("snappy", self.unsnap(source, limit)),
            3 => ("lz4", self.unlz4(source, limit, magic >= 2)),
            4 if magic >= 2 => ("zstd", self.unzstd(source, limit)),
            _ => {
                let name = if codec == 4 { "zstd".to_string() } else { codec.to_string() };
                let reason = format!("compression {name}, which message format {magic} does not have");
                return Err(Fault::Damaged(reason));
            }
        };
        match size {
            Ok(size) => Ok(&self.memory[..size]),
            Err(Trouble::Cut) => Err(Fault::Damaged(format!("{name}: cut"))),
            Err(Trouble::Other(reason)) => Err(Fault::Damaged(format!("{name}: {reason}"))),
            Err(Trouble::Fault(fault)) => Err(fault),
        }
    }

    /// Reserve memory for this many bytes; existing content stays.
    fn room(&mut self, size: usize, limit: usize) -> Result<(), Fault> {
        if size > limit {
            return Err(Fault::TooLarge(limit));
        }
        if size > self.memory.len() {
            self.memory.try_reserve(size - self.memory.len())?;
            self.memory.resize(size, 0);
        }
        Ok(())
    }

    fn gunzip(&mut self, mut source: &[u8], limit: usize) -> Result<usize, Trouble> {
        let mut size = 0;
        while !source.is_empty() {
            let mut member = flate2::bufread::GzDecoder::new(source);
            loop {
                if size == self.memory.len() {
                    // a byte beyond the limit shows that there are more
                    let wanted = (2 * size).max(GZIP_PIECE).min(limit + 1);
                    self.room(wanted, limit + 1)?;
                }
                let end = self.memory.len().min(limit + 1);
                match member.read(&mut self.memory[size..end]) {
                    Ok(0) => break,
                    Ok(count) => size += count,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Err(Trouble::Cut),
                    Err(error) => return Err(other(error)),
                }
                if size > limit {
                    return Err(Fault::TooLarge(limit).into());
                }
            }
            source = member.into_inner();
            if !source.starts_with(GZIP_MAGIC) {
                break; // ignore other bytes after the last member, as Java does
            }
        }
        Ok(size)
    }

    fn unsnap(&mut self, source: &[u8], limit: usize) -> Result<usize, Trouble> {
        if !source.starts_with(XERIAL_MAGIC) {
            return self.unsnap_block(source, 0, limit);
        }
        let mut size = 0;
        let mut left = source.get(XERIAL_HEAD..).unwrap_or_default();
        while !left.is_empty() {
            let (head, rest) = left.split_first_chunk::<4>().ok_or(Trouble::Cut)?;
            let (block, rest) = rest.split_at_checked(u32::from_be_bytes(*head) as usize).ok_or(Trouble::Cut)?;
            size = self.unsnap_block(block, size, limit)?;
            left = rest;
        }
        Ok(size)
    }

    fn unsnap_block(&mut self, block: &[u8], at: usize, limit: usize) -> Result<usize, Trouble> {
        let size = snap::raw::decompress_len(block).map_err(other)?;
        if size > block.len() * 64 / 3 {
            return Err(other(format!("{size} bytes cannot come out of {}", block.len())));
        }
        self.room(at + size, limit)?;
        snap::raw::Decoder::new().decompress(block, &mut self.memory[at..at + size]).map_err(other)?;
        Ok(at + size)
    }

    fn unlz4(&mut self, source: &[u8], limit: usize, check_head: bool) -> Result<usize, Trouble> {
        let frame = Lz4Frame::read(source, check_head)?;
        self.room(frame.bound, limit)?;
        let (mut at, mut left) = (0, frame.blocks);
        loop {
            let size = take_u32(&mut left)?;
            if size == 0 {
                break;
            }
            let (block, rest) = left.split_at_checked((size & 0x7FFF_FFFF) as usize).ok_or(Trouble::Cut)?;
            left = rest;
            if frame.has_block_checksums && take_u32(&mut left)? != twox_hash::XxHash32::oneshot(0, block) {
                return Err(other("a block's checksum does not match"));
            }
            let (before, after) = self.memory.split_at_mut(at);
            at += if size >> 31 == 1 {
                after.get_mut(..block.len()).ok_or(Trouble::Cut)?.copy_from_slice(block);
                block.len()
            } else {
                let room = after.len().min(frame.block_bytes);
                let window = if frame.is_linked { &before[at.saturating_sub(LZ4_WINDOW)..] } else { &[] };
                lz4_flex::block::decompress_into_with_dict(block, &mut after[..room], window).map_err(other)?
            };
        }
        if frame.has_checksum && take_u32(&mut left)? != twox_hash::XxHash32::oneshot(0, &self.memory[..at]) {
            return Err(other("the checksum of its content does not match"));
        }
        if frame.content.is_some_and(|size| size != at as u64) {
            return Err(other("its content has another size than it says"));
        }
        Ok(at)
    }

    fn unzstd(&mut self, source: &[u8], limit: usize) -> Result<usize, Trouble> {
        let bound = zstd_bound(source)?;
        self.room(bound, limit)?;
        if self.zstd.is_none() {
            self.zstd = Some(zstd_safe::DCtx::try_create().ok_or(Fault::NoMemory)?);
        }
        let Some(context) = &mut self.zstd else { return Err(Fault::NoMemory.into()) };
        let wrong = |code| other(zstd_safe::get_error_name(code));
        context.decompress(&mut self.memory[..bound], source).map_err(wrong)
    }
}

fn take_u32(left: &mut &[u8]) -> Result<u32, Trouble> {
    let (number, rest) = left.split_first_chunk::<4>().ok_or(Trouble::Cut)?;
    *left = rest;
    Ok(u32::from_le_bytes(*number))
}

/// The header of an lz4 frame. `read` has checked that its blocks are complete.
struct Lz4Frame<'a> {
    blocks: &'a [u8],
    block_bytes: usize,
    is_linked: bool,
    has_block_checksums: bool,
    has_checksum: bool,
    content: Option<u64>,
    /// The most bytes that all blocks can decompress to.
    bound: usize,
}

impl<'a> Lz4Frame<'a> {
    fn read(source: &'a [u8], check_head: bool) -> Result<Lz4Frame<'a>, Trouble> {
        // from byte 4 on: flags 1, size of blocks 1, content size 8 and dictionary 4 if flagged, checksum 1
        if !source.starts_with(LZ4_MAGIC) {
            return Err(other("not a frame"));
        }
        let (Some(&flags), Some(&sizes)) = (source.get(4), source.get(5)) else { return Err(Trouble::Cut) };
        let block_bytes = match sizes >> 4 & 7 {
            code @ 4..=7 => 1usize << (8 + 2 * code),
            _ => return Err(other("blocks of an unknown size")),
        };
        if flags >> 6 != 1 || flags & 2 != 0 || sizes & 0x8F != 0 {
            return Err(other("a version or flags that are unknown"));
        }
        let head_end = 6 + if flags & 8 != 0 { 8 } else { 0 } + if flags & 1 != 0 { 4 } else { 0 };
        let descriptor = source.get(4..head_end).ok_or(Trouble::Cut)?;
        let checksum = *source.get(head_end).ok_or(Trouble::Cut)?;
        if check_head && (twox_hash::XxHash32::oneshot(0, descriptor) >> 8) as u8 != checksum {
            return Err(other("the checksum of its head does not match"));
        }
        let content = match descriptor.get(2..10) {
            Some(size) if flags & 8 != 0 => Some(u64::from_le_bytes(size.try_into().map_err(|_| Trouble::Cut)?)),
            _ => None,
        };
        let blocks = &source[head_end + 1..];
        let has_block_checksums = flags & 16 != 0;
        let mut bound = 0usize;
        let mut left = blocks;
        loop {
            let size = take_u32(&mut left)?;
            if size == 0 {
                break;
            }
            let stored = (size & 0x7FFF_FFFF) as usize;
            if stored > block_bytes {
                return Err(other("a block that is larger than the frame allows"));
            }
            bound += block_bytes.min(if size >> 31 == 1 { stored } else { stored * LZ4_MOST });
            left = left.get(stored + if has_block_checksums { 4 } else { 0 }..).ok_or(Trouble::Cut)?;
        }
        let (has_checksum, is_linked) = (flags & 4 != 0, flags & 32 == 0);
        Ok(Lz4Frame { blocks, block_bytes, is_linked, has_block_checksums, has_checksum, content, bound })
    }
}

/// Return the most bytes that all frames can decompress to.
fn zstd_bound(source: &[u8]) -> Result<usize, Trouble> {
    let mut bound = 0usize;
    let mut left = source;
    while !left.is_empty() {
        left = left.strip_prefix(ZSTD_MAGIC).ok_or_else(|| other("not a frame"))?;
        let head = take_bytes(&mut left, 1)? as u8;
        let is_single = head >> 5 & 1 == 1;
        let content_bytes = match head >> 6 {
            0 => usize::from(is_single),
            code => 1 << code,
        };
        let dictionary_bytes = [0, 1, 2, 4][usize::from(head & 3)];
        take_bytes(&mut left, usize::from(!is_single))?;
        take_bytes(&mut left, dictionary_bytes)?;
        let content = take_bytes(&mut left, content_bytes)? + if content_bytes == 2 { 256 } else { 0 };
        let mut frame_bound = 0usize;
        loop {
            let block = take_bytes(&mut left, 3)? as usize;
            let (is_last, kind, size) = (block & 1 == 1, block >> 1 & 3, block >> 3);
            if kind == 3 || size > ZSTD_BLOCK_BYTES {
                return Err(other("a block of an unknown kind or too large"));
            }
            frame_bound += if kind < 2 { size } else { ZSTD_BLOCK_BYTES };
            left = left.get(if kind == 1 { 1 } else { size }..).ok_or(Trouble::Cut)?;
            if is_last {
                break;
            }
        }
        take_bytes(&mut left, if head & 4 != 0 { 4 } else { 0 })?;
        if content_bytes > 0 {
            if content > frame_bound as u64 {
                let reason = format!("{content} bytes cannot come out of blocks that hold {frame_bound}");
                return Err(other(reason));
            }
            frame_bound = content as usize;
        }
        bound += frame_bound;
    }
    Ok(bound)
}

/// Read a number of this many bytes, lowest first.
fn take_bytes(left: &mut &[u8], count: usize) -> Result<u64, Trouble> {
    let (bytes, rest) = left.split_at_checked(count).ok_or(Trouble::Cut)?;
    *left = rest;
    Ok(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}
