//! The guarantees of the format crate, one module each; in one binary, which is linked once.

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
