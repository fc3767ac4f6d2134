#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| drystone_program::fuzz(data, &drystone_program::sample(7).1));
