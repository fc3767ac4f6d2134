//! Selections, the index tree, block resolution, byte ranges, read plans, layouts: values to printable plans. No I/O.
//!
//! The steps of a read: [`selection::index`] turns an indexing expression into cells, [`tree::find`] finds
//! the blocks that may hold them, [`resolve::resolve`] settles which block shows where, [`parts::parts`] cuts
//! that to subchunks, and [`read_plan::plan`] says which bytes are read, in which requests, and what is done
//! with each. Cells that form no strided box are a [`listing::Listing`] and take the same steps;
//! [`tiles::Tiles`] cuts a large selection to pieces.
//!
//! [`layout::choose`] decides the layout of a published array, from the cost of reads on a device.
//!
//! Everything here is a pure function: no I/O, no clock, no randomness. Values from disk (entries, subchunk
//! tables) are checked before they are used; a number that does not fit is an error, never a panic.

#![forbid(unsafe_code)]
#![allow(clippy::single_range_in_vec_init, reason = "lists of one byte range are what this crate is about")]

pub mod aggregation;
pub mod ahead;
pub mod clip;
pub mod coalesce;
pub mod counted;
pub mod following;
pub mod form;
pub mod in_order;
pub mod joining;
pub mod joint_read;
pub mod layout;
pub mod linear;
pub mod listing;
pub mod local_read;
pub mod packs;
pub mod parts;
pub mod programs;
pub mod ranges;
pub mod read_plan;
pub mod resolve;
pub mod selection;
pub mod selection_text;
pub mod tier;
pub mod tiles;
pub mod tree;
pub mod window;

#[cfg(test)]
mod random;
