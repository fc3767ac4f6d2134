//! Blocks that wait for the end of a step: kept, sent to the rank that writes them, joined where they lie side by side, written.

use std::borrow::Cow;
use std::collections::BTreeMap;

use drystone_format::MAX_NDIM;
use drystone_format::dtype::Leaf;
use drystone_plan::joining::{self, Joined};
use drystone_rules::{Dim, StridedCopy};

use crate::array::{Source, dense_strides};
use crate::container::Container;
use crate::member::Column;
use crate::writer::{BlockSink, Writer};
use crate::{Error, Result};

/// Joined blocks have at most this many bytes.
const MAX_JOINED: u64 = 16 << 20;

/// A block, dense and row-major, of some columns of a variable. Texts have elements of 0 bytes; each is its length (4 bytes) and
/// its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Staged<'a> {
    pub(super) path: String,
    /// See [`Column::numbers`]; none for texts.
    pub(super) columns: Vec<[u32; 4]>,
    pub(super) offset: Vec<u64>,
    pub(super) count: Vec<u64>,
    pub(super) item: u32,
    pub(super) data: Cow<'a, [u8]>,
}

fn broken() -> Error {
    Error::corrupt("a rank sent what is no block: is the communicator right?")
}

/// The elements of an array, one after the other.
pub(super) fn dense(data: &Source<'_>) -> Result<Vec<u8>> {
    let item = data.item();
    let strides = dense_strides(data.shape(), item as u64)?;
    let cells = data.shape().iter().product::<u64>() as usize; // as many as are in memory
    let mut out = vec![0; cells * item];
    copy(data.bytes(), data.start() as u64, data.strides(), &mut out, 0, &strides, data.shape(), item)?;
    Ok(out)
}

#[expect(clippy::too_many_arguments, reason = "two arrays, each with its memory, first element and strides")]
fn copy(
    from: &[u8],
    from_start: u64,
    from_strides: &[i64],
    to: &mut [u8],
    to_start: u64,
    to_strides: &[i64],
    shape: &[u64],
    item: usize,
) -> Result<()> {
    if item == 0 || shape.contains(&0) {
        return Ok(());
    }
    let dims = shape.iter().zip(from_strides).zip(to_strides).map(|((n, s), d)| Dim::new(*n, *s, *d));
    let copy = StridedCopy::new(from_start, to_start, item, dims.collect());
    copy.and_then(|copy| copy.run(from, to)).map_err(|e| Error::invalid(e.to_string()))
}

impl<'a> Staged<'a> {
    /// Bytes of it on the way.
    pub(super) fn sent_len(&self) -> u64 {
        let names = self.path.len() + 16 * self.columns.len();
        (16 + names + 16 * self.offset.len() + 8 + self.data.len()) as u64
    }

    /// Appends it as bytes.
    pub(super) fn send(&self, out: &mut Vec<u8>) {
        for n in [self.path.len() as u32, self.columns.len() as u32, self.offset.len() as u32, self.item] {
            out.extend_from_slice(&n.to_le_bytes());
        }
        out.extend_from_slice(self.path.as_bytes());
        for n in self.columns.iter().flatten() {
            out.extend_from_slice(&n.to_le_bytes());
        }
        for n in self.offset.iter().chain(&self.count) {
            out.extend_from_slice(&n.to_le_bytes());
        }
        out.extend_from_slice(&(self.data.len() as u64).to_le_bytes());
        out.extend_from_slice(&self.data);
    }

    /// Blocks from the bytes of several.
    pub(super) fn receive(mut bytes: &'a [u8]) -> Result<Vec<Self>> {
        let mut out = Vec::new();
        while !bytes.is_empty() {
            let (path_len, column_count, ndim, item) =
                (number(&mut bytes)?, number(&mut bytes)?, number(&mut bytes)?, number(&mut bytes)?);
            let path = text(&mut bytes, path_len)?;
            let mut columns = Vec::new();
            for _ in 0..column_count {
                let mut next = || number(&mut bytes);
                columns.push([next()?, next()?, next()?, next()?]);
            }
            let ndim = usize::try_from(ndim).ok().filter(|n| *n <= MAX_NDIM).ok_or_else(broken)?;
            let mut places = Vec::with_capacity(2 * ndim);
            for _ in 0..2 * ndim {
                places.push(long(&mut bytes)?);
            }
            let count = places.split_off(ndim);
            let len = long(&mut bytes)?;
            let cells = count.iter().try_fold(u64::from(item), |n, c| n.checked_mul(*c));
            let ends = places.iter().zip(&count).all(|(o, c)| o.checked_add(*c).is_some());
            if (item > 0 && cells != Some(len)) || !ends {
                return Err(broken());
            }
            let data = take(&mut bytes, usize::try_from(len).map_err(|_| broken())?)?;
            if item == 0 {
                let cells = count.iter().try_fold(1u64, |n, c| n.checked_mul(*c));
                let texts = separate(data)?;
                if cells != Some(texts.len() as u64) {
                    return Err(broken());
                }
            }
            out.push(Staged { path, columns, offset: places, count, item, data: data.into() });
        }
        Ok(out)
    }

    fn strides(&self) -> Result<Vec<i64>> {
        dense_strides(&self.count, u64::from(self.item))
    }
}

/// Texts as the data of a block.
pub(super) fn together(texts: &[&[u8]]) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(texts.iter().map(|text| 4 + text.len()).sum());
    for text in texts {
        let len = u32::try_from(text.len())
            .map_err(|_| Error::unsupported("a string of more than 4 GiB; at most 4 GiB are supported"))?;
        out.extend_from_slice(&len.to_le_bytes());
        out.extend_from_slice(text);
    }
    Ok(out)
}

/// The texts again.
fn separate(mut data: &[u8]) -> Result<Vec<&[u8]>> {
    let mut out = Vec::new();
    while !data.is_empty() {
        let len = number(&mut data)?;
        out.push(take(&mut data, len as usize)?);
    }
    Ok(out)
}

fn take<'a>(bytes: &mut &'a [u8], len: usize) -> Result<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(len).ok_or_else(broken)?;
    *bytes = rest;
    Ok(taken)
}

fn number(bytes: &mut &[u8]) -> Result<u32> {
    Ok(u32::from_le_bytes(take(bytes, 4)?.try_into().map_err(|_| broken())?))
}

fn long(bytes: &mut &[u8]) -> Result<u64> {
    Ok(u64::from_le_bytes(take(bytes, 8)?.try_into().map_err(|_| broken())?))
}

fn text(bytes: &mut &[u8], len: u32) -> Result<String> {
    String::from_utf8(take(bytes, len as usize)?.to_vec()).map_err(|_| broken())
}

/// The columns that a block holds.
fn columns(container: &Container, block: &Staged<'_>) -> Result<Vec<Column>> {
    let dtype = container.variable(&block.path)?.dtype;
    let end = |leaf: &Leaf| leaf.offset.checked_add(leaf.size);
    let inside = |column: &Column| end(&column.leaf).is_some_and(|end| end <= block.item);
    let column = |numbers| Column::numbered(&dtype, numbers).filter(inside).ok_or_else(broken);
    block.columns.iter().copied().map(column).collect()
}

/// What blocks have in common that may be joined: path, columns, bytes per element.
type Array<'a> = (&'a str, &'a [[u32; 4]], u32);

/// Puts the blocks of one or several ranks, given in the order of ranks and puts.
pub(super) fn put_all(container: &Container, writer: &Writer, blocks: &[Staged<'_>]) -> Result<()> {
    let mut arrays: BTreeMap<Array<'_>, Vec<usize>> = BTreeMap::new();
    for (i, block) in blocks.iter().enumerate() {
        arrays.entry((&block.path, &block.columns, block.item)).or_default().push(i);
    }
    // A record whose members come apart keeps the order of its puts: none of its blocks is joined.
    let apart = |path: &str| arrays.keys().filter(|(other, _, _)| *other == path).count() > 1;
    let mut jobs: Vec<(usize, Joined, Vec<usize>)> = Vec::new();
    for ((path, _, item), numbers) in &arrays {
        let boxes: Vec<_> =
            numbers.iter().map(|i| (blocks[*i].offset.clone(), blocks[*i].count.clone())).collect();
        let most = if apart(path) || *item == 0 { 0 } else { MAX_JOINED / u64::from(*item) };
        for one in joining::join(&boxes, most) {
            let parts: Vec<usize> = one.parts.iter().map(|part| numbers[*part]).collect();
            let first = parts.iter().copied().min().unwrap_or(0);
            jobs.push((first, one, parts));
        }
    }
    jobs.sort_by_key(|(first, _, _)| *first);
    let mut buffer = Vec::new();
    for (first, joined, parts) in jobs {
        let block = &blocks[first];
        if block.item == 0 {
            writer.put_strings(&block.path, &block.count, &separate(&block.data)?, Some(&block.offset))?;
            continue;
        }
        let columns = columns(container, block)?;
        let item = block.item as usize;
        let data = if parts.len() == 1 {
            &*block.data
        } else {
            gather(blocks, &joined, &parts, item, &mut buffer)?;
            &buffer[..]
        };
        let source = Source::dense(data, &joined.count, item)?;
        writer.put_columns(&block.path, &columns, &source, Some(&joined.offset))?;
    }
    Ok(())
}

/// Lays the parts of a joined box where they belong in it.
fn gather(
    blocks: &[Staged<'_>],
    joined: &Joined,
    parts: &[usize],
    item: usize,
    out: &mut Vec<u8>,
) -> Result<()> {
    let strides = dense_strides(&joined.count, item as u64)?;
    out.resize(joined.count.iter().product::<u64>() as usize * item, 0); // all of them are in memory
    for part in parts {
        let block = &blocks[*part];
        let mut start = 0u64;
        for ((at, from), stride) in block.offset.iter().zip(&joined.offset).zip(&strides) {
            start += (at - from) * stride.unsigned_abs();
        }
        copy(&block.data, 0, &block.strides()?, out, start, &strides, &block.count, item)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_survive_the_way_and_other_bytes_are_refused() {
        let block = Staged {
            path: "a/b".into(),
            columns: vec![[1, 0, 2, 0]],
            offset: vec![7, 0],
            count: vec![1, 3],
            item: 2,
            data: vec![1, 2, 3, 4, 5, 6].into(),
        };
        let mut sent = Vec::new();
        block.send(&mut sent);
        assert_eq!(sent.len() as u64, block.sent_len());
        Staged { columns: Vec::new(), ..block.clone() }.send(&mut sent);
        let texts: [&[u8]; 3] = [b"a", b"", b"longer"];
        let data = together(&texts).unwrap();
        Staged { columns: Vec::new(), item: 0, data: data.clone().into(), ..block.clone() }.send(&mut sent);
        let received = Staged::receive(&sent).unwrap();
        assert_eq!(received[0], block);
        assert!(received[1].columns.is_empty());
        assert_eq!(separate(&received[2].data).unwrap(), texts);
        let mut one_less = Vec::new();
        Staged { item: 0, count: vec![1, 2], data: data.into(), ..block.clone() }.send(&mut one_less);
        assert!(Staged::receive(&one_less).is_err());
        for len in 1..sent.len() {
            let cut = Staged::receive(&sent[..len]);
            let ends = [block.sent_len(), 2 * block.sent_len() - 16];
            assert!(cut.is_err() || ends.contains(&(len as u64)), "{len}");
        }
        for bit in 0..sent.len() * 8 {
            let mut bent = sent.clone();
            bent[bit / 8] ^= 1 << (bit % 8);
            let _ = Staged::receive(&bent); // an error or other blocks, but no panic
        }
    }
}
