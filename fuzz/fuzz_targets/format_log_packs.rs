#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| drystone_format::fuzzing::fuzz_log_packs(data));
