//! The body of the fuzz target of plug-ins: a codec that does whatever the stored bytes say, within the header's
//! interface.
//!
//! The codec requests ranges, places pieces and returns statuses that the bytes contain. The engine must refuse wrong
//! ones and never panic. Ranges that it accepts must lie within the subchunk.

use std::ffi::{c_char, c_void};
use std::ops::Range;
use std::sync::{Arc, Once};

use drystone_transform::{Chain, Fetched, Logical, Precision, Scratch, StoredSubchunk, Want, register};

use super::{Plugin, abi};

/// The bytes that a pointer and a length denote.
///
/// # Safety
/// The engine must have passed them for the call in progress.
unsafe fn bytes<'a>(start: *const u8, len: u64) -> &'a [u8] {
    // SAFETY: by the contract above; an empty slice has a pointer that is not null.
    unsafe { std::slice::from_raw_parts(start, len as usize) }
}

/// Pairs of numbers from the bytes, some of them far too large.
fn pairs(script: &[u8]) -> impl Iterator<Item = (u64, u64)> {
    let number = |bytes: &[u8; 3]| {
        let n = u64::from(bytes[0]) | u64::from(bytes[1]) << 8;
        if bytes[2] > 250 { u64::MAX - n } else { n }
    };
    script.as_chunks::<6>().0.iter().map(move |pair| {
        let [a, b, c, d, e, f] = *pair;
        (number(&[a, b, c]), number(&[d, e, f]))
    })
}

fn status(script: &[u8]) -> i32 {
    script.first().map_or(abi::OK, |byte| if *byte < 240 { abi::OK } else { i32::from(*byte) - 240 })
}

extern "C" fn most(_: *const c_void, len: u64) -> u64 {
    len + 1
}

extern "C" fn encode(
    _: *const c_void,
    _: *const abi::Subchunk,
    data: *const u8,
    len: u64,
    out: *mut u8,
    capacity: u64,
    written: *mut u64,
    _: *const abi::Host,
) -> i32 {
    let len = len.min(capacity);
    // SAFETY: these are the data and the buffer that the engine passed; they do not overlap.
    unsafe {
        std::ptr::copy_nonoverlapping(data, out, len as usize);
        *written = len;
    }
    abi::OK
}

extern "C" fn decode(
    _: *const c_void,
    _: *const abi::Subchunk,
    encoded: *const u8,
    encoded_len: u64,
    out: *mut u8,
    len: u64,
    _: *const abi::Host,
) -> i32 {
    // SAFETY: these are the bytes and the buffer that the engine passed.
    let script = unsafe {
        out.write_bytes(7, len as usize);
        bytes(encoded, encoded_len)
    };
    status(script)
}

extern "C" fn meta_length(_: *const c_void, encoded: *const u8, len: u64) -> u64 {
    // SAFETY: these are the bytes that the engine passed.
    let first = unsafe { bytes(encoded, len) }.first().copied().unwrap_or(0);
    if first > 250 { u64::MAX } else { u64::from(first) }
}

extern "C" fn plan_read(
    _: *const c_void,
    _: *const abi::Subchunk,
    stored: *const abi::Stored,
    _: *const abi::Want,
    plan: *const abi::Plan,
    _: *const abi::Host,
) -> i32 {
    // SAFETY: the engine passed these pointers for this call.
    unsafe {
        let script = bytes((*stored).meta, (*stored).meta_length);
        for (start, end) in pairs(script) {
            ((*plan).read)((*plan).context, start, end);
            ((*plan).bound)((*plan).context, end as f64 - 9.0, f64::NAN);
        }
        status(script)
    }
}

extern "C" fn decode_part(
    _: *const c_void,
    _: *const abi::Subchunk,
    stored: *const abi::Stored,
    _: *const abi::Want,
    parts: *const abi::Parts,
    _: *const abi::Host,
) -> i32 {
    // SAFETY: the engine passed these pointers for this call; those that are not null point to as many bytes as were
    // requested.
    unsafe {
        let script = bytes((*stored).meta, (*stored).meta_length);
        for (start, end) in pairs(script) {
            let from = ((*parts).fetched)((*parts).context, start, end);
            let to = ((*parts).place)((*parts).context, start, end);
            if !to.is_null() && start < end {
                to.write_bytes(if from.is_null() { 1 } else { *from }, (end - start) as usize);
            }
        }
        status(script.get(1..).unwrap_or_default())
    }
}

fn known() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let table = abi::Codec {
            struct_size: size_of::<abi::Codec>() as u32,
            abi: abi::ABI,
            name: c"fuzz.scripted".as_ptr().cast::<c_char>(),
            flags: 0,
            open: None,
            close: None,
            max_encoded_length: Some(most),
            encode: Some(encode),
            decode: Some(decode),
            meta_length: Some(meta_length),
            plan_read: Some(plan_read),
            decode_part: Some(decode_part),
        };
        // SAFETY: the table is complete.
        if let Ok(plugin) = unsafe { Plugin::of(&table) } {
            drop(register("fuzz.scripted", Arc::new(plugin)));
        }
    });
}

/// Decodes the codec's output whole and in part. Accepted ranges must ascend and lie within the stored form.
pub(crate) fn fuzz_plugin(data: &[u8]) {
    let Some((&[pick, item, low, high], body)) = data.split_first_chunk::<4>() else { return };
    known();
    let text = ["fuzz.scripted", "shuffle,fuzz.scripted", "fuzz.scripted,bitshuffle"][usize::from(pick) % 3];
    let Ok(chain) = Chain::parse(text) else { return };
    let len = usize::from(u16::from_le_bytes([low, high])) % 5000;
    let logical = Logical::scalars(usize::from(item).max(1), 1);
    let (mut out, mut scratch) = (vec![0; len], Scratch::new());
    drop(chain.decode(body, &logical, &mut out, &mut scratch));
    let (meta, payload) = body.split_at(body.len() / 2);
    let meta = [&[0x1F], meta].concat();
    let stored = StoredSubchunk { len: payload.len() as u64, meta: &meta, decoded_len: len };
    let wanted = [len as u64 / 3..len as u64 / 2; 1];
    let want = Want { ranges: &wanted, precision: Precision::Absolute(0.5) };
    let Ok(plan) = chain.plan_read(&stored, &logical, &want) else { return };
    let mut last = 0;
    for range in &plan.ranges {
        assert!(last <= range.start && range.start <= range.end && range.end <= stored.len);
        last = range.end;
    }
    assert!(plan.bound.absolute >= 0.0 && plan.bound.relative >= 0.0);
    let held = |r: &Range<u64>| (r.start, payload.get(r.start as usize..r.end as usize).unwrap_or_default());
    let fetched = Fetched::new(plan.ranges.iter().map(held).collect());
    drop(chain.decode_part(&stored, &fetched, &logical, &want, &mut out, &mut scratch));
}
