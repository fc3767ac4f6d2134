#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| drystone_wire::fuzzing::upload(bytes));
