//! What the format crate promises, one module per promise; one binary, so that it links once.

mod corruption;
mod order;
mod round_trips;
mod samples;
mod types;
mod values;
