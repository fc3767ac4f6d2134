//! The guarantees of codecs and chains: every bit or a stated bound, reads of parts, and refusal of hostile bytes.

#[path = "../random/mod.rs"]
mod random;

mod alacrity;
mod aplod;
mod auto;
mod blosc_parts;
mod codecs;
mod corruption;
mod hostile_codecs;
mod isobar;
mod loss;
mod mloc;
mod round_trip;
mod sorted;
mod statistics;
mod text;
mod vectors;
mod zfp;
