#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| drystone_hdf5_vol::fuzzing::fuzz_catalogue(data));
