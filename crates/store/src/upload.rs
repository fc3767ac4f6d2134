//! An object that goes up in pieces, for what is longer than its writer wants to hold in memory.

use std::fmt::Debug;

use crate::Pending;

/// An object on its way, begun by [`Store::upload`](crate::Store::upload). Nothing of it is seen before [`finish`](Upload::finish) has
/// succeeded, and then all of it. Dropped before that, nothing of it stays: pieces that were sent are cleared away in the background.
///
/// The pieces lie one behind the other in the order of `add`. All but the last have one length, from [`PIECE`] on. How many are under way
/// is the caller's to limit. A store may answer for the first [`HELD`] bytes only when more is added or the upload ends: a caller that waits
/// for room has more under way than that.
pub trait Upload: Send + Debug {
    /// The next piece. The reply is [`Reply::Append`](crate::Reply::Append) with memory to use again, which may be empty.
    fn add(&mut self, data: Vec<u8>) -> Pending;

    /// Ends the object after what was added. The reply is [`Reply::Put`](crate::Reply::Put), of no data; `AlreadyExists` where an object of
    /// that name was there, unless the store cannot tell. It fails where a piece has failed.
    fn finish(self: Box<Self>) -> Pending;
}

/// The least length of each piece but the last, in bytes.
pub const PIECE: usize = 5 << 20;

/// A store may wait with the first pieces, of up to so many bytes together, to see whether one request will do.
pub const HELD: u64 = 16 << 20;
