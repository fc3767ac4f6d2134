//! What the format crate promises, one module per promise; one binary, so that it links once.

mod round_trips;
mod values;
