//! The reads of [`LocalFiles`](crate::LocalFiles) by requests of [`Store`], for objects that are not local files.

use crate::{Request, Result, Store};

/// A read that shows all bytes at once when they are there.
pub fn read_seen<S: Store + ?Sized>(
    store: &S,
    key: &str,
    offset: u64,
    out: &mut [u8],
    seen: &mut dyn FnMut(&[u8]),
) -> Result<()> {
    store.read(key, offset, out)?;
    seen(out);
    Ok(())
}

/// Several ranges, offset and length, one after the other into `out`, whose length is their sum. A far store has all
/// requests under way at once.
pub fn read_ranges<S: Store + ?Sized>(
    store: &S,
    key: &str,
    ranges: &[(u64, usize)],
    out: &mut [u8],
) -> Result<()> {
    let mut rest = out;
    if store.features().far.is_some() && ranges.len() > 1 {
        let reply = store.submit(Request::read_many(key, ranges.to_vec())).wait()?;
        for (bytes, &(_, len)) in reply.into_buffers().iter().zip(ranges) {
            let (part, behind) = rest.split_at_mut(len.min(rest.len()));
            part.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
            rest = behind;
        }
        return Ok(());
    }
    for &(offset, len) in ranges {
        let (part, behind) = rest.split_at_mut(len.min(rest.len()));
        store.read(key, offset, part)?;
        rest = behind;
    }
    Ok(())
}

/// One read whose bytes are copied to `parts`.
pub fn read_parts<S: Store + ?Sized>(
    store: &S,
    key: &str,
    offset: u64,
    parts: &mut [&mut [u8]],
) -> Result<()> {
    if let [part] = parts {
        return store.read(key, offset, part);
    }
    let mut bytes = vec![0; parts.iter().map(|part| part.len()).sum()];
    store.read(key, offset, &mut bytes)?;
    let mut rest = bytes.as_slice();
    for part in parts {
        let (first, behind) = rest.split_at(part.len());
        part.copy_from_slice(first);
        rest = behind;
    }
    Ok(())
}
