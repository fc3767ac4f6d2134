//! Tests that codecs that describe themselves wrongly, or write out of bounds, are refused with the reason.

use std::ffi::{c_char, c_void};

use drystone_transform::{Chain, Logical, Scratch};

use super::*;

extern "C" fn most(_: *const c_void, len: u64) -> u64 {
    len.saturating_mul(1 << 40)
}

/// Writes one byte more than its buffer holds.
extern "C" fn encode(
    _: *const c_void,
    _: *const abi::Subchunk,
    _: *const u8,
    _: u64,
    out: *mut u8,
    capacity: u64,
    written: *mut u64,
    _: *const abi::Host,
) -> i32 {
    // SAFETY: the byte after the buffer belongs to the guard.
    unsafe {
        *out.add(capacity as usize) ^= 1;
        *written = 1;
    }
    abi::OK
}

/// Fills with 7, and requests any range.
extern "C" fn decode(
    _: *const c_void,
    _: *const abi::Subchunk,
    _: *const u8,
    _: u64,
    out: *mut u8,
    len: u64,
    _: *const abi::Host,
) -> i32 {
    // SAFETY: this is the buffer that was passed.
    unsafe { out.write_bytes(7, len as usize) };
    abi::OK
}

extern "C" fn meta(_: *const c_void, _: *const u8, _: u64) -> u64 {
    u64::MAX
}

extern "C" fn plan(
    _: *const c_void,
    _: *const abi::Subchunk,
    stored: *const abi::Stored,
    _: *const abi::Want,
    plan: *const abi::Plan,
    _: *const abi::Host,
) -> i32 {
    // SAFETY: the caller passed these pointers.
    unsafe { ((*plan).read)((*plan).context, 5, (*stored).length + 1) }
}

extern "C" fn part(
    _: *const c_void,
    _: *const abi::Subchunk,
    _: *const abi::Stored,
    _: *const abi::Want,
    parts: *const abi::Parts,
    _: *const abi::Host,
) -> i32 {
    // SAFETY: the caller passed these pointers.
    let (from, to) = unsafe {
        (
            ((*parts).fetched)((*parts).context, 9, 3),
            ((*parts).place)((*parts).context, u64::MAX - 1, u64::MAX),
        )
    };
    assert!(from.is_null() && to.is_null());
    abi::OK
}

fn table(name: &'static CStr) -> abi::Codec {
    abi::Codec {
        struct_size: size_of::<abi::Codec>() as u32,
        abi: abi::ABI,
        name: name.as_ptr().cast::<c_char>(),
        flags: 0,
        open: None,
        close: None,
        max_encoded_length: Some(most),
        encode: Some(encode),
        decode: Some(decode),
        meta_length: Some(meta),
        plan_read: Some(plan),
        decode_part: Some(part),
    }
}

fn refused(table: abi::Codec) -> String {
    // SAFETY: the table is complete.
    match unsafe { Plugin::of(&table) } {
        Ok(_) => "taken".into(),
        Err(problem) => problem,
    }
}

#[test]
fn a_table_of_another_version_or_size_or_with_holes_is_refused() {
    let good = table(c"good");
    assert_eq!(refused(good), "taken");
    assert!(refused(abi::Codec { abi: 2, ..good }).contains("version 2"));
    assert!(refused(abi::Codec { struct_size: 63, ..good }).contains("struct_size is 63"));
    assert!(refused(abi::Codec { name: std::ptr::null(), ..good }).contains("without a name"));
    assert!(
        refused(abi::Codec { decode: None, ..good }).contains("lacks max_encoded_length, encode or decode")
    );
    assert!(refused(abi::Codec { meta_length: None, ..good }).contains("go together"));
    // An older plug-in, whose table ends before the functions for parts, is opaque.
    let older = abi::Codec { struct_size: abi::LEAST as u32, ..good };
    // SAFETY: the table is complete, and states that it is shorter.
    let older = unsafe { Plugin::of(&older) }.unwrap();
    assert!(older.table.plan_read.is_none() && older.table.decode.is_some());
}

#[test]
fn taken_and_invalid_names_are_refused() {
    let made = |name: &'static CStr| {
        // SAFETY: the table is complete.
        let plugin = unsafe { Plugin::of(&table(name)) }.unwrap();
        register(&plugin.name.clone(), Arc::new(plugin)).map_err(|e| e.to_string())
    };
    assert!(made(c"zstd").unwrap_err().contains("built in"));
    assert!(made(c"auto").unwrap_err().contains("built in"));
    assert!(made(c"Big name").unwrap_err().contains("lower-case"));
    made(c"test.twice").unwrap();
    assert!(made(c"test.twice").unwrap_err().contains("there already"));
}

#[test]
fn a_codec_that_writes_or_reads_out_of_bounds_fails_and_does_no_harm() {
    // SAFETY: the table is complete.
    let plugin = unsafe { Plugin::of(&table(c"test.hostile")) }.unwrap();
    register("test.hostile", Arc::new(plugin)).unwrap();
    assert!(Chain::parse("test.hostile:3").unwrap_err().to_string().contains("takes no parameters"));
    let chain = Chain::parse("test.hostile").unwrap();
    assert_eq!(chain.max_encoded_len(1000), 1001);
    let logical = Logical::scalars(4, 250);
    let mut out = Vec::new();
    let error = chain.encode(&[1; 1000], &logical, &mut out, &mut Scratch::new()).unwrap_err();
    assert!(error.to_string().contains("wrote more than the"), "{error}");
    assert!(out.is_empty());
    let stored = drystone_transform::StoredSubchunk { len: 900, meta: &[0x1F], decoded_len: 1000 };
    let ranges = [3..30; 1];
    let want = drystone_transform::Want { ranges: &ranges, precision: drystone_transform::Precision::Exact };
    let error = chain.plan_read(&stored, &logical, &want).unwrap_err();
    assert!(error.to_string().contains("asks for bytes"), "{error}");
    let mut back = vec![0; 1000];
    chain.decode(&[0x1F, 1, 2], &logical, &mut back, &mut Scratch::new()).unwrap();
    assert_eq!(back, [7; 1000]);
}

#[test]
fn the_header_and_this_program_agree_about_sizes() {
    assert_eq!((size_of::<abi::Codec>(), abi::LEAST), (88, 64));
    assert_eq!((size_of::<abi::Subchunk>(), size_of::<abi::Stored>()), (40, 40));
    assert_eq!((size_of::<abi::Want>(), size_of::<abi::Plan>()), (40, 32));
    assert_eq!((size_of::<abi::Parts>(), size_of::<abi::Host>()), (32, 24));
}

#[test]
fn a_codec_with_random_requests_and_results_does_no_harm() {
    let mut state = 7u64;
    let mut random = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize
    };
    for _ in 0..20_000 {
        let mut data: Vec<u8> = (0..4 + random() % 90).map(|_| (random() % 7) as u8).collect();
        for _ in 0..random() % 6 {
            let at = random() % data.len();
            data[at] = random() as u8;
        }
        super::fuzz_plugin(&data);
    }
}
