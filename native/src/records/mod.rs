//! From the bytes of one partition to columns.
//!
//! A record set is a row of entries: messages of formats 0 and 1, wrappers (messages whose value is a compressed set of
//! messages) and batches of format 2. One pass takes each entry while it is in the processor's cache: checksum,
//! decompression into memory that is used again, fields into the columns.
//!
//! Whatever is wrong ends the columns before the entry; decoding from there raises it. All lengths are checked
//! against the bytes that are there, memory is only taken for what these can hold and within the limits of the request,
//! and refused memory is an error like others.
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
mod transactions;

pub use columns::{Binary, Columns};
pub use fault::Fault;
pub use glance::glance;
pub use headers::{parse_headers, Header};
pub use scan::{decode, Request};
