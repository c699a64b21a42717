use std::collections::TryReserveError;
use std::fmt;

/// The reason why a record set cannot be read from a position on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The bytes do not follow the format.
    Damaged(String),
    /// A batch would decompress to more bytes than this limit.
    TooLarge(usize),
    /// The system gave no memory for decoding.
    NoMemory,
}

impl Fault {
    pub(super) fn at(reason: &str, at: usize) -> Fault {
        Fault::Damaged(format!("{reason}, {at} bytes into the record set"))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Damaged(reason) => f.write_str(reason),
            Fault::TooLarge(limit) => write!(f, "a compressed batch that holds more than {limit} bytes"),
            Fault::NoMemory => f.write_str("there is no memory for it"),
        }
    }
}

impl std::error::Error for Fault {}

impl From<TryReserveError> for Fault {
    fn from(_: TryReserveError) -> Fault {
        Fault::NoMemory
    }
}
