//! Writes the vectors of the codecs: `cargo run -p drystone-transform --example make_codec_vectors --
//! tests/vectors/codecs`.
//!
//! Each vector is one stored subchunk (`.bin`) and its description (`.json`): chain, element, shape, decoded bytes. A
//! vector is written once: an existing file is left unchanged, and if its bytes would differ today, a line reports
//! that.

use std::fmt::Write;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use drystone_transform::stats::ScalarKind;
use drystone_transform::{Chain, Logical, Scratch};

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// Name, chain, type of scalars, scalars in an element, shape.
const CASES: [(&str, &str, Number, usize, &[u64]); 35] = [
    ("zlib_f4", "zlib:6", Number::F4, 1, &[200]),
    ("shuffle_zlib_zstd_f4", "shuffle,zlib:9,zstd:1", Number::F4, 1, &[200]),
    ("gzip_f8", "gzip:9", Number::F8, 1, &[10, 20]),
    ("bzip2_i4", "bzip2:1", Number::I4, 1, &[300]),
    ("lz4_i4", "lz4", Number::I4, 1, &[300]),
    ("szip_i2", "szip:32", Number::I2, 1, &[8, 64]),
    ("szip_i2_padded_lines", "szip:16,\"ec\"", Number::I2, 1, &[20, 30]),
    ("szip_f4_short_lines", "szip:8", Number::F4, 1, &[60, 5]),
    ("szip_f8", "szip:32", Number::F8, 1, &[3, 100]),
    ("szip_u1_long_line", "szip:32", Number::U1, 1, &[4200]),
    ("bitshuffle_f4", "bitshuffle", Number::F4, 1, &[67]),
    ("bitshuffle_lz4_i2", "bitshuffle,lz4", Number::I2, 1, &[333]),
    ("delta_i4", "delta", Number::I4, 1, &[50]),
    ("delta_f4_pairs", "delta", Number::F4, 2, &[25]),
    ("bytedelta_f4", "bytedelta", Number::F4, 1, &[51]),
    ("shuffle_bytedelta_zlib_f8", "shuffle,bytedelta,zlib:6", Number::F8, 1, &[200]),
    ("delta_shuffle_zstd_i8", "delta,shuffle,zstd:3", Number::I8, 1, &[200]),
    ("bitround_f4", "bitround:7,dtype=f4", Number::F4, 1, &[50]),
    ("bitround_zlib_f8", "bitround:12,dtype=f8,shuffle,zlib:6", Number::F8, 1, &[100]),
    ("pcodec_f4", "pcodec:8,dtype=f4", Number::F4, 1, &[600]),
    ("pcodec_f8", "pcodec:8,dtype=f8", Number::F8, 1, &[300]),
    ("pcodec_i8", "pcodec:4,dtype=i8", Number::I8, 1, &[400]),
    ("pcodec_f4_pairs", "pcodec:8,dtype=f4", Number::F4, 2, &[300]),
    ("blosc_lz4_f4", "blosc:lz4:5:shuffle,blocksize=512", Number::F4, 1, &[333]),
    ("blosc_zstd_bits_f8", "blosc:zstd:3:bitshuffle,blocksize=1024", Number::F8, 1, &[300]),
    ("blosc_zlib_i4", "blosc:zlib:6:noshuffle", Number::I4, 1, &[300]),
    ("aplod_f8", "aplod", Number::F8, 1, &[300]),
    ("aplod_i4", "aplod:1,3", Number::I4, 1, &[300]),
    ("aplod_f4_pairs", "aplod", Number::F4, 2, &[300]),
    ("isobar_f8", "isobar", Number::F8, 1, &[300]),
    ("multilevel_f4", "multilevel", Number::F4, 1, &[17, 20]),
    ("multilevel_f8_pairs", "multilevel", Number::F8, 2, &[5, 6, 7]),
    ("alacrity_f4", "alacrity", Number::F4, 1, &[1500]),
    ("sorted_f4", "sorted", Number::F4, 1, &[1500]),
    ("alacrity_i4_data", "alacrity:bits=9,data=1", Number::I4, 1, &[1500]),
];

#[derive(Clone, Copy)]
enum Number {
    U1,
    I2,
    I4,
    I8,
    F4,
    F8,
}

impl Number {
    fn size(self) -> usize {
        match self {
            Number::U1 => 1,
            Number::I2 => 2,
            Number::I4 | Number::F4 => 4,
            Number::I8 | Number::F8 => 8,
        }
    }

    fn kind(self) -> ScalarKind {
        match self {
            Number::U1 => ScalarKind::U8,
            Number::I2 => ScalarKind::I16,
            Number::I4 => ScalarKind::I32,
            Number::I8 => ScalarKind::I64,
            Number::F4 => ScalarKind::F32,
            Number::F8 => ScalarKind::F64,
        }
    }

    /// A slow wave of few digits, which every codec here compresses.
    fn bytes(self, i: usize) -> Vec<u8> {
        let wave = ((i as f64 / 17.0).sin() * 40.0).round();
        match self {
            Number::U1 => vec![(wave + 100.0) as u8],
            Number::I2 => (wave as i16 * 3).to_le_bytes().into(),
            Number::I4 => (wave as i32 * 1000 - 7).to_le_bytes().into(),
            Number::I8 => (wave as i64 * 1_000_000 + i as i64).to_le_bytes().into(),
            Number::F4 => (wave as f32 / 8.0 + 20.0).to_le_bytes().into(),
            Number::F8 => (wave / 64.0 - 5.0).to_le_bytes().into(),
        }
    }
}

fn main() -> Outcome {
    let folder = std::env::args().nth(1).unwrap_or_else(|| "tests/vectors/codecs".into());
    fs::create_dir_all(&folder)?;
    let mut scratch = Scratch::new();
    for (name, text, number, components, shape) in CASES {
        let count = shape.iter().product::<u64>() as usize * components;
        let data: Vec<u8> = (0..count).flat_map(|i| number.bytes(i)).collect();
        let item = number.size() * components;
        let kind = number.kind();
        let logical = Logical { item, scalar: number.size(), kind, shape: shape.into() };
        let chain = Chain::parse(text)?;
        let (mut stored, mut decoded) = (Vec::new(), vec![0; data.len()]);
        chain.encode(&data, &logical, &mut stored, &mut scratch)?;
        chain.decode(&stored, &logical, &mut decoded, &mut scratch)?;
        let mut hex = String::new();
        for byte in &decoded {
            write!(hex, "{byte:02x}")?;
        }
        let quoted = chain.canonical().replace('"', "\\\"");
        let json = format!(
            "{{\n  \"chain\": \"{quoted}\",\n  \"item\": {item},\n  \"scalar\": {},\n  \"shape\": {shape:?},\n  \"decoded\": \"{hex}\"\n}}\n",
            number.size()
        );
        put(&Path::new(&folder).join(format!("v1_{name}.bin")), &stored)?;
        put(&Path::new(&folder).join(format!("v1_{name}.json")), json.as_bytes())?;
    }
    Ok(())
}

fn put(path: &Path, bytes: &[u8]) -> Outcome {
    match fs::File::create_new(path) {
        Ok(mut file) => std::io::Write::write_all(&mut file, bytes)?,
        Err(e) if e.kind() == ErrorKind::AlreadyExists && fs::read(path)? == bytes => {}
        Err(e) if e.kind() == ErrorKind::AlreadyExists => {
            println!("{}: there, and kept, though today's bytes would differ", path.display());
        }
        Err(e) => return Err(e.into()),
    }
    Ok(())
}
