//! What the format crate promises, one module per promise; one binary, so that it links once.

mod blocks;
mod corruption;
#[path = "../../examples/make_vectors/describe.rs"]
mod describe;
#[path = "../../examples/make_vectors/json.rs"]
mod json;
mod order;
mod round_trips;
mod samples;
mod types;
mod values;
mod vectors;
