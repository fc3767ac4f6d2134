#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| drystone_catalog::fuzz(data));
