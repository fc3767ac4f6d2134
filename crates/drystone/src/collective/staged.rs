//! Blocks that wait for the end of a step. They are kept in the form in which they are sent to the rank that writes
//! them; that rank joins adjacent blocks and writes them.

use std::collections::BTreeMap;

use drystone_copy::{Dim, StridedCopy};
use drystone_format::MAX_NDIM;
use drystone_format::dtype::Leaf;
use drystone_plan::joining::{self, Joined};

use crate::base::array::{Source, dense_strides};
use crate::container::Container;
use crate::schema::member::Column;
use crate::write::{BlockSink, Writer};
use crate::{Error, Result};

/// The most bytes of a joined block.
const MAX_JOINED: u64 = 16 << 20;

/// A dense row-major block of some columns of a variable. For texts the element size is 0, and each text is its
/// length (4 bytes) followed by its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Staged<'a> {
    pub(super) path: String,
    /// See [`Column::numbers`]; empty for texts.
    pub(super) columns: Vec<[u32; 4]>,
    pub(super) offset: Vec<u64>,
    pub(super) count: Vec<u64>,
    pub(super) item: u32,
    pub(super) data: &'a [u8],
}

fn broken() -> Error {
    Error::corrupt("malformed block from a rank; check the communicator")
}

/// Appends the elements of an array in row-major order.
pub(super) fn append(data: &Source<'_>, out: &mut Vec<u8>) -> Result<()> {
    let item = data.item();
    let strides = dense_strides(data.shape(), item as u64)?;
    let len = data.shape().iter().product::<u64>() as usize * item; // as many as are in memory
    if strides == data.strides() {
        let elements = data.bytes().get(data.start()..).and_then(|bytes| bytes.get(..len));
        out.extend_from_slice(elements.ok_or_else(|| Error::invalid("the array reaches beyond its memory"))?);
        return Ok(());
    }
    let start = out.len();
    out.resize(start + len, 0);
    copy(
        data.bytes(),
        data.start() as u64,
        data.strides(),
        &mut out[start..],
        0,
        &strides,
        data.shape(),
        item,
    )
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
    /// Appends the block as bytes; `data` appends its content. If `data` fails, nothing is appended.
    pub(super) fn keep(
        (path, columns, item): Array<'_>,
        (offset, count): (&[u64], &[u64]),
        data: impl FnOnce(&mut Vec<u8>) -> Result<()>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let from = out.len();
        for n in [path.len() as u32, columns.len() as u32, offset.len() as u32, item] {
            out.extend_from_slice(&n.to_le_bytes());
        }
        out.extend_from_slice(path.as_bytes());
        for n in columns.iter().flatten() {
            out.extend_from_slice(&n.to_le_bytes());
        }
        for n in offset.iter().chain(count) {
            out.extend_from_slice(&n.to_le_bytes());
        }
        let head = out.len();
        out.extend_from_slice(&[0; 8]);
        if let Err(e) = data(out) {
            out.truncate(from);
            return Err(e);
        }
        let len = (out.len() - head - 8) as u64;
        out[head..head + 8].copy_from_slice(&len.to_le_bytes());
        Ok(())
    }

    /// Splits bytes into blocks.
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
            out.push(Staged { path, columns, offset: places, count, item, data });
        }
        Ok(out)
    }

    fn strides(&self) -> Result<Vec<i64>> {
        dense_strides(&self.count, u64::from(self.item))
    }
}

/// Appends texts as the data of a block.
pub(super) fn together(texts: &[&[u8]], out: &mut Vec<u8>) -> Result<()> {
    for text in texts {
        let len = u32::try_from(text.len())
            .map_err(|_| Error::unsupported("a string of more than 4 GiB; at most 4 GiB are supported"))?;
        out.extend_from_slice(&len.to_le_bytes());
        out.extend_from_slice(text);
    }
    Ok(())
}

/// Separates texts that [`together`](Self::together) joined.
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

/// Blocks can be joined only if they have these in common: path, columns, bytes per element.
type Array<'a> = (&'a str, &'a [[u32; 4]], u32);

/// Puts the blocks of one or several ranks. They are given in the order of ranks and puts. `buffer` is reused memory.
pub(super) fn put_all(
    container: &Container,
    writer: &Writer,
    blocks: &[Staged<'_>],
    buffer: &mut Vec<u8>,
) -> Result<()> {
    let mut arrays: BTreeMap<Array<'_>, Vec<usize>> = BTreeMap::new();
    for (i, block) in blocks.iter().enumerate() {
        arrays.entry((&block.path, &block.columns, block.item)).or_default().push(i);
    }
    // If members of a record were put separately, the order of puts matters, so none of its blocks is joined.
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
    for (first, joined, parts) in jobs {
        let block = &blocks[first];
        if block.item == 0 {
            writer.put_strings(
                &block.path,
                &block.count,
                &separate(block.data)?,
                Some(&block.offset),
                None,
            )?;
            continue;
        }
        let columns = columns(container, block)?;
        let item = block.item as usize;
        let data = if parts.len() == 1 { block.data } else { gather(blocks, &joined, &parts, item, buffer)? };
        let source = Source::dense(data, &joined.count, item)?;
        writer.put_columns(&block.path, &columns, &source, Some(&joined.offset))?;
    }
    Ok(())
}

/// Copies the parts of a joined box to their places; together they cover the box.
fn gather<'b>(
    blocks: &[Staged<'_>],
    joined: &Joined,
    parts: &[usize],
    item: usize,
    buffer: &'b mut Vec<u8>,
) -> Result<&'b [u8]> {
    let strides = dense_strides(&joined.count, item as u64)?;
    let out = room(buffer, joined.count.iter().product::<u64>() as usize * item); // all of them are in memory
    for part in parts {
        let block = &blocks[*part];
        let mut start = 0u64;
        for ((at, from), stride) in block.offset.iter().zip(&joined.offset).zip(&strides) {
            start += (at - from) * stride.unsigned_abs();
        }
        copy(block.data, 0, &block.strides()?, out, start, &strides, &block.count, item)?;
    }
    Ok(out)
}

/// A slice of reused memory of this length, with any content.
pub(super) fn room(kept: &mut Vec<u8>, len: usize) -> &mut [u8] {
    if kept.len() < len {
        kept.resize(len, 0);
    }
    &mut kept[..len]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strided_elements_are_kept_side_by_side() {
        let memory: Vec<u8> = (0..24).collect();
        let (mut dense, mut apart) = (vec![9], vec![9]);
        append(&Source::dense(&memory, &[2, 6], 2).unwrap(), &mut dense).unwrap();
        assert_eq!(dense[1..], memory);
        // SAFETY: the elements lie in `memory`.
        let every_second = unsafe { Source::new(memory[2..].as_ptr(), &[2, 2], &[12, 4], 2) };
        append(&every_second.unwrap(), &mut apart).unwrap();
        assert_eq!(apart, [9, 2, 3, 6, 7, 14, 15, 18, 19]);
    }

    #[test]
    fn blocks_survive_encoding_and_other_bytes_are_refused() {
        let (columns, place) = ([[1, 0, 2, 0]], ([7, 0], [1, 3]));
        let values = [1u8, 2, 3, 4, 5, 6];
        let keep = |columns: &[[u32; 4]], item, count: &[u64], data: &[u8], out: &mut Vec<u8>| {
            let data = |out: &mut Vec<u8>| {
                out.extend_from_slice(data);
                Ok(())
            };
            Staged::keep(("a/b", columns, item), (&place.0, count), data, out).unwrap();
        };
        let mut sent = Vec::new();
        keep(&columns, 2, &place.1, &values, &mut sent);
        let first = sent.len();
        let failing = |_: &mut Vec<u8>| Err(Error::invalid("no"));
        assert!(Staged::keep(("a/b", &columns, 2), (&place.0, &place.1), failing, &mut sent).is_err());
        assert_eq!(sent.len(), first);
        keep(&[], 2, &place.1, &values, &mut sent);
        let texts: [&[u8]; 3] = [b"a", b"", b"longer"];
        let mut data = Vec::new();
        together(&texts, &mut data).unwrap();
        keep(&[], 0, &place.1, &data, &mut sent);
        let received = Staged::receive(&sent).unwrap();
        let block = Staged {
            path: "a/b".into(),
            columns: columns.to_vec(),
            offset: place.0.to_vec(),
            count: place.1.to_vec(),
            item: 2,
            data: &values,
        };
        assert_eq!(received[0], block);
        assert!(received[1].columns.is_empty());
        assert_eq!(separate(received[2].data).unwrap(), texts);
        let mut one_less = Vec::new();
        keep(&[], 0, &[1, 2], &data, &mut one_less);
        assert!(Staged::receive(&one_less).is_err());
        for len in 1..sent.len() {
            let cut = Staged::receive(&sent[..len]);
            assert!(cut.is_err() || [first, 2 * first - 16].contains(&len), "{len}");
        }
        for bit in 0..sent.len() * 8 {
            let mut bent = sent.clone();
            bent[bit / 8] ^= 1 << (bit % 8);
            let _ = Staged::receive(&bent); // an error or other blocks, but no panic
        }
    }
}
