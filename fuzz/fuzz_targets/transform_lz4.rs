#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| drop(drystone_transform::fuzz_lz4(data)));
