//! The bytes of a shard object: a stamp, the chunks, the index (docs/format/zarr.md).
//!
//! For Zarr the stamp is a gap before the first chunk. It states the fingerprint of the shard's content, so the first
//! 40 bytes show whether the shard is up to date.

use crate::base::checksum::crc32;
use crate::published::stamp::{STAMP, Stamp, user_block};
use crate::{Error, Result};
use drystone_hdf5_file::{self as hdf5, Chunk, File};
const MISSING: u64 = u64::MAX;

/// The whole object. `chunks` are numbered by the grid and stored in `order`. Chunks that are `None` read as fill.
pub(super) fn assemble(stamp: Stamp, mut chunks: Vec<Option<Vec<u8>>>, order: &[u32]) -> Vec<u8> {
    let bytes: usize = chunks.iter().flatten().map(Vec::len).sum();
    let mut out = Vec::with_capacity(STAMP + bytes + 16 * chunks.len() + 4);
    out.extend_from_slice(&stamp.encode());
    let mut index = vec![[MISSING; 2]; chunks.len()];
    for &number in order {
        let number = number as usize;
        // Each chunk is freed once it is copied, so that hardly any chunk is in memory twice.
        if let Some(chunk) = chunks.get_mut(number).and_then(Option::take) {
            index[number] = [out.len() as u64, chunk.len() as u64];
            out.extend_from_slice(&chunk);
        }
    }
    let from = out.len();
    for [offset, length] in index {
        out.extend_from_slice(&offset.to_le_bytes());
        out.extend_from_slice(&length.to_le_bytes());
    }
    let check = crc32(&out[from..]);
    out.extend_from_slice(&check.to_le_bytes());
    out
}

/// The whole object as Zarr shard and HDF5 file at once: the index, the stamp at the end of the user block, the file.
/// `places` has the offset of each chunk in the file's array, `file` the description of its chunks.
pub(super) fn assemble_dual(
    stamp: Stamp,
    mut chunks: Vec<Option<Vec<u8>>>,
    order: &[u32],
    place: &dyn Fn(u64) -> Vec<u64>,
    file: &dyn Fn(Vec<Chunk>) -> File,
) -> Result<Vec<u8>> {
    let base = user_block(chunks.len() as u64);
    let begin = (base + hdf5::SUPERBLOCK) as usize;
    let bytes: usize = chunks.iter().flatten().map(Vec::len).sum();
    let mut out = Vec::with_capacity(begin + bytes + (64 << 10));
    out.resize(begin, 0);
    let mut index = vec![[MISSING; 2]; chunks.len()];
    let mut laid = Vec::new();
    for &number in order {
        if let Some(chunk) = chunks.get_mut(number as usize).and_then(Option::take) {
            let at = out.len() as u64;
            index[number as usize] = [at, chunk.len() as u64];
            // The checksum at the end belongs to Zarr only.
            let len = (chunk.len() as u64)
                .checked_sub(4)
                .ok_or_else(|| Error::corrupt("a chunk without checksum"))?;
            laid.push(Chunk { offset: place(u64::from(number)), address: at - base, len });
            out.extend_from_slice(&chunk);
        }
    }
    out.resize(hdf5::padded(out.len() as u64) as usize, 0);
    let metadata = file(laid).metadata(out.len() as u64 - base)?;
    out.extend_from_slice(&metadata.bytes);
    let superblock = hdf5::superblock(base, metadata.root, out.len() as u64);
    out[base as usize..begin].copy_from_slice(&superblock);
    let mut head: Vec<u8> = index.iter().flatten().flat_map(|n| n.to_le_bytes()).collect();
    let check = crc32(&head);
    head.extend_from_slice(&check.to_le_bytes());
    out[..head.len()].copy_from_slice(&head);
    out[base as usize - STAMP..base as usize].copy_from_slice(&stamp.encode());
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_read_back_and_no_flipped_bit_passes() {
        let stamp = Stamp { fingerprint: 0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10, version: 17 };
        let bytes = stamp.encode();
        assert_eq!(Stamp::decode(&bytes), Some(stamp));
        for bit in 0..STAMP * 8 {
            let mut other = bytes;
            other[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Stamp::decode(&other), None, "bit {bit}");
        }
        for len in 0..STAMP {
            assert_eq!(Stamp::decode(&bytes[..len]), None);
        }
    }

    #[test]
    fn chunks_are_stored_in_the_given_order_and_the_index_finds_them() {
        let stamp = Stamp { fingerprint: 1, version: 2 };
        let chunks = vec![Some(vec![1; 3]), None, Some(vec![2; 5]), Some(vec![3; 1])];
        let bytes = assemble(stamp, chunks, &[3, 2, 1, 0]);
        assert_eq!(bytes.len(), STAMP + 9 + 4 * 16 + 4);
        assert_eq!(&bytes[STAMP..STAMP + 9], [3, 2, 2, 2, 2, 2, 1, 1, 1]);
        let index = &bytes[STAMP + 9..];
        let number = |at: usize| u64::from_le_bytes(index[at * 8..at * 8 + 8].try_into().unwrap());
        let entries: Vec<(u64, u64)> = (0..4).map(|i| (number(2 * i), number(2 * i + 1))).collect();
        assert_eq!(entries, [(46, 3), (MISSING, MISSING), (41, 5), (40, 1)]);
        let (covered, check) = index.split_at(64);
        assert_eq!(check, crc32(covered).to_le_bytes());
    }
}
