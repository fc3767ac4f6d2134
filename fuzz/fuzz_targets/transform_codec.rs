#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    drystone_transform::fuzz_codec(data);
});
