#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| drystone_expression::fuzz(data));
