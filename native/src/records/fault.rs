use std::collections::TryReserveError;
use std::fmt;

/// Why a record set cannot be read from a position on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The bytes are not what the format says.
    Damaged(String),
    /// Nothing but that more would come out of it than is allowed.
    TooLarge(usize),
    /// The system gave no memory for it.
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
