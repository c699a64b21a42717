//! From the bytes of one partition to columns.
//!
//! A record set is a row of entries: messages of formats 0 and 1, wrappers (messages whose value is a compressed set of
//! messages) and batches of format 2. One pass takes each entry while it is in the processor's cache: checksum,
//! decompression into memory that is used again, fields into the columns.
//!
//! An error ends the columns before the bad entry; decoding from there raises it. All lengths are checked against the
//! available bytes. Memory is allocated only up to what these bytes can hold and within the limits of the request; a
//! failed allocation is an error like any other.

#![forbid(unsafe_code)]

mod batch;
mod codec;
mod columns;
mod fault;
mod glance;
mod headers;
mod message;
mod numbers;
mod scan;
mod spare;
mod transactions;

pub use columns::{Binary, Columns};
pub use fault::Fault;
pub use glance::glance;
pub use headers::{parse_headers, Header};
pub use scan::{decode, Request};
