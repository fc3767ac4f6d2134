//! Selections, the index tree, block resolution, byte ranges, read plans, layouts: values to printable plans. No I/O.
//!
//! The way of a read: [`selection::index`] turns what a caller asks for into cells, [`tree::find`] names the blocks that may
//! hold them, [`resolve::resolve`] settles which block shows where, [`parts::parts`] cuts that to subchunks, and
//! [`read_plan::plan`] says which bytes are read, in which requests, and what is done with each. Cells that are no strided box
//! are a [`listing::Listing`] and go the same way; [`tiles::Tiles`] cuts a large selection to pieces.
//!
//! What a published array looks like is decided by [`layout::choose`], from what reads cost on a device.
//!
//! Everything here is a pure function: no I/O, no clock, no randomness. What comes from disk (entries, subchunk tables) is
//! checked before it is believed; a number that does not fit is an error, never a panic.

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
