#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| drystone::fuzzing::fuzz_plugin(data));
