//! The version 1 B-tree of chunks: the address of each chunk, by its first cell.

use crate::error::{Error, Result};
use crate::{Chunk, UNDEFINED};

/// Most children of a node: the default of HDF5.
const MOST: usize = 64;
const CHUNKS: u8 = 1;
const HEAD: usize = 24;

/// The key of a child's first chunk, and the child's address.
struct Child<'a> {
    first: &'a Chunk,
    address: u64,
}

/// All nodes for an address; the root comes first. Chunks may be in any order.
pub(super) fn encode(extents: &[u64], chunks: &[Chunk], address: u64) -> Result<Vec<u8>> {
    let too_large = |n: &u64| u32::try_from(*n).is_err();
    if extents.iter().any(too_large) || chunks.iter().any(|c| too_large(&c.len)) {
        return Err(Error::ChunkTooLarge);
    }
    let mut sorted: Vec<&Chunk> = chunks.iter().collect();
    sorted.sort_by(|a, b| a.offset.cmp(&b.offset));
    let Some(last) = sorted.last() else { return Ok(Vec::new()) };
    // The key after the last chunk.
    let mut end = last.offset.clone();
    if let (Some(first), Some(extent)) = (end.first_mut(), extents.first()) {
        *first = first.saturating_add(*extent);
    }
    let end = Chunk { offset: end, address: 0, len: 0 };
    let size = HEAD + MOST * 8 + (MOST + 1) * (8 + 8 * (extents.len() + 1));

    // Nodes are counted level by level from the leaves; levels are written from the root, so addresses follow from the
    // counts.
    let mut counts = vec![sorted.len().div_ceil(MOST)];
    while let Some(&many) = counts.last().filter(|many| **many > 1) {
        counts.push(many.div_ceil(MOST));
    }
    let total: usize = counts.iter().sum();
    let mut begins = Vec::with_capacity(counts.len());
    let mut before = total;
    for many in &counts {
        before -= many;
        begins.push(before);
    }
    let place = |level: usize, number: usize| address + ((begins[level] + number) * size) as u64;
    let mut nodes = vec![Vec::new(); total];
    let mut children: Vec<Child<'_>> =
        sorted.iter().map(|chunk| Child { first: chunk, address: chunk.address }).collect();
    for (level, &many) in counts.iter().enumerate() {
        let mut above = Vec::with_capacity(many);
        for (number, group) in children.chunks(MOST).enumerate() {
            let sibling = |there: bool, other: usize| if there { place(level, other) } else { UNDEFINED };
            let left = sibling(number > 0, number.wrapping_sub(1));
            let right = sibling(number + 1 < many, number + 1);
            let behind = children.get((number + 1) * MOST).map_or(&end, |child| child.first);
            nodes[begins[level] + number] = node(level, group, behind, [left, right], size);
            above.push(Child { first: group[0].first, address: place(level, number) });
        }
        children = above;
    }
    Ok(nodes.concat())
}

fn node(level: usize, children: &[Child<'_>], behind: &Chunk, siblings: [u64; 2], size: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(size);
    out.extend_from_slice(b"TREE");
    out.extend_from_slice(&[CHUNKS, level as u8]);
    out.extend_from_slice(&(children.len() as u16).to_le_bytes());
    siblings.iter().for_each(|address| out.extend_from_slice(&address.to_le_bytes()));
    for child in children {
        key(child.first, &mut out);
        out.extend_from_slice(&child.address.to_le_bytes());
    }
    key(behind, &mut out);
    out.resize(size, 0);
    out
}

fn key(chunk: &Chunk, out: &mut Vec<u8>) {
    out.extend_from_slice(&(chunk.len as u32).to_le_bytes());
    out.extend_from_slice(&0u32.to_le_bytes());
    chunk.offset.iter().chain([&0]).for_each(|n| out.extend_from_slice(&n.to_le_bytes()));
}
