//! Decodes the record sets of Kafka's Fetch responses into columns in Arrow's layout.
//!
//! `records` is the decoder: no I/O, no Python, no unsafe code. `python` is the module `legacy_consumer_native`,
//! whose interface is in `legacy_consumer_native.pyi`.

pub mod records;

#[cfg(feature = "python")]
mod python;
