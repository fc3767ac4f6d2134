//! The bodies of the fuzz targets, kept here so that tests run them too.

use std::ops::Range;

use crate::stats::ScalarKind;
use crate::stats::histogram::Histogram;
use crate::{
    Chain, Fetched, Limit, Logical, Precision, Scratch, SearchHits, StoredSubchunk, Want, key_of,
    keys_between,
};

const CHAINS: [&str; 15] = [
    "identity",
    "zstd:1",
    "shuffle",
    "shuffle,zstd:1",
    "zstd:1,shuffle:3",
    "zstd,shuffle,zstd",
    "aplod",
    "aplod:1,1,1,1",
    "isobar",
    "alacrity",
    "alacrity:data=1",
    "sorted",
    "multilevel",
    "mloc",
    "mloc:order=\"P:1.1,S:4,V:3\"",
];

/// Elements with the size of some kind of number are treated as such numbers.
fn numbers(item: usize, count: u64) -> Logical {
    let kind = match item {
        2 => ScalarKind::I16,
        4 => ScalarKind::F32,
        8 => ScalarKind::F64,
        _ => ScalarKind::Other,
    };
    Logical { kind, ..Logical::scalars(item, count) }
}

/// Passes arbitrary bytes to every decoder of this crate; none may panic, and accepted bytes must survive
/// encoding again.
#[doc(hidden)]
pub fn fuzz_decode(data: &[u8]) {
    let Some((&[pick, item, low, high], body)) = data.split_first_chunk::<4>() else { return };
    let len = usize::from(u16::from_le_bytes([low, high]));
    let logical = numbers(usize::from(item), 1);
    let mut scratch = Scratch::new();
    if let Some(Ok(chain)) = CHAINS.get(usize::from(pick) % CHAINS.len()).map(|text| Chain::parse(text)) {
        let mut out = vec![0; len];
        let whole = chain.decode(body, &logical, &mut out, &mut scratch);
        let stored = StoredSubchunk { len: body.len() as u64, meta: chain.meta(body), decoded_len: len };
        let wanted = [len as u64 / 3..len as u64 / 2, len as u64 / 2..len as u64 * 3 / 4];
        for precision in [Precision::Exact, Precision::Level(1), Precision::Absolute(0.5)] {
            let want = Want { ranges: &wanted, precision };
            let mut cut = vec![0; len];
            let in_part = chain.plan_read(&stored, &logical, &want).and_then(|plan| {
                let bytes = |r: &Range<u64>| {
                    (r.start, body.get(r.start as usize..r.end as usize).unwrap_or_default())
                };
                let fetched = Fetched::new(plan.ranges.iter().map(bytes).collect());
                chain.decode_part(&stored, &fetched, &logical, &want, &mut cut, &mut scratch)
            });
            if whole.is_ok() && precision == Precision::Exact {
                assert_eq!(in_part, Ok(()));
                for range in &wanted {
                    let range = range.start as usize..range.end as usize;
                    assert_eq!(out.get(range.clone()), cut.get(range));
                }
            }
        }
    }
    search(data);
    stages(data);
    if let Ok(histogram) = Histogram::decode(body) {
        let mut again = Vec::new();
        histogram.encode(&mut again);
        assert_eq!(again, body);
        let mut doubled = histogram.clone();
        assert_eq!(doubled.merge(&histogram), Ok(()));
    }
    if let Some(chain) = std::str::from_utf8(body).ok().and_then(|text| Chain::parse(text).ok()) {
        let canonical = chain.canonical();
        assert_eq!(Chain::parse(&canonical).map(|again| again.canonical()), Ok(canonical));
    }
}

/// Reads a part with arbitrary metadata of several codecs. The requested bytes must lie in the stored ones.
fn stages(data: &[u8]) {
    let Some((&[pick, item, low, high], body)) = data.split_first_chunk::<4>() else { return };
    let text =
        ["shuffle,isobar", "bitround:4,dtype=f4,alacrity", "bitshuffle,blosc,shuffle"][usize::from(pick) % 3];
    let (Ok(chain), len) = (Chain::parse(text), usize::from(u16::from_le_bytes([low, high]))) else { return };
    let logical = numbers(usize::from(item), 1);
    let (meta, payload) = body.split_at(body.len() / 2);
    let meta = [&[0x1F], meta].concat();
    let stored = StoredSubchunk { len: payload.len() as u64, meta: &meta, decoded_len: len };
    let wanted = [len as u64 / 3..len as u64 / 2; 1];
    let want = Want { ranges: &wanted, precision: Precision::Exact };
    let Ok(plan) = chain.plan_read(&stored, &logical, &want) else { return };
    let bytes = |r: &Range<u64>| (r.start, payload.get(r.start as usize..r.end as usize).unwrap_or_default());
    let fetched = Fetched::new(plan.ranges.iter().map(bytes).collect());
    drop(chain.decode_part(&stored, &fetched, &logical, &want, &mut vec![0; len], &mut Scratch::new()));
}

/// Searches arbitrary bytes as an index. Hits must lie in the subchunk and in the range.
fn search(data: &[u8]) {
    let Some((&[pick, item, low, high], body)) = data.split_first_chunk::<4>() else { return };
    let len = usize::from(u16::from_le_bytes([low, high]));
    let logical = numbers(usize::from(item), 1);
    let Ok(chain) = Chain::parse(["alacrity", "sorted"][usize::from(pick) % 2]) else { return };
    let stored = StoredSubchunk { len: body.len() as u64, meta: chain.meta(body), decoded_len: len };
    let keys = keys_between(logical.kind, Limit::Float(-3.0), Limit::Float(40.0));
    if let Ok(Some(whole)) = chain.whole_bins(&stored, &logical, &keys) {
        assert!(whole.count as usize <= len / logical.scalar);
    }
    let Ok(Some(plan)) = chain.plan_search(&stored, &logical, &keys) else { return };
    let bytes = |r: &Range<u64>| (r.start, body.get(r.start as usize..r.end as usize).unwrap_or_default());
    let fetched = Fetched::new(plan.iter().map(bytes).collect());
    let mut found = SearchHits::default();
    if chain.search(&stored, &fetched, &logical, &keys, &mut found).is_ok() {
        assert_eq!(found.values.len(), found.positions.len() * logical.scalar);
        assert!(found.positions.iter().all(|&p| (p as usize) < len / logical.scalar));
        let values = found.values.chunks_exact(logical.scalar);
        assert!(values.map(|v| key_of(logical.kind, v)).all(|key| keys.contains(&key)));
    }
}

/// The chains from which [`fuzz_codec`] chooses by its first byte.
#[doc(hidden)]
pub const FUZZED_CODECS: &[&str] = &[
    "lz4",
    "shuffle",
    "zstd:1",
    "zlib:6",
    "gzip:6",
    "bzip2:1",
    "szip:32",
    "szip:8:ec",
    "bitshuffle",
    "delta",
    "bytedelta",
    "lorenzo",
    "bitround:3,dtype=f4",
    "pcodec:8,dtype=f4",
    "pcodec:4,dtype=i2",
    "pcodec:8,dtype=u8",
    "blosc:lz4:5:shuffle,blocksize=512",
    "blosc:zstd:3:bitshuffle,blocksize=1024",
    "blosc:zlib:6:noshuffle,blocksize=256",
    "bitshuffle,lz4",
    "aplod",
    "isobar:1",
    "alacrity",
    "alacrity:bits=7,data=1",
    "multilevel",
    "mloc",
    "mloc:order=\"S:4,V:5\"",
    "isobar:6,solver=\"zlib\",order=\"row\"",
    #[cfg(feature = "zfp")]
    "zfp:dtype=\"f4\"",
    #[cfg(feature = "zfp")]
    "zfp:dtype=\"f8\"",
];

/// Passes arbitrary bytes to the decoder of one codec, which must not panic. Decoded data must survive a round trip.
/// Returns whether it decoded anything.
#[doc(hidden)]
pub fn fuzz_codec(data: &[u8]) -> bool {
    let Some((&[pick, item, low, high], body)) = data.split_first_chunk::<4>() else { return false };
    let len = usize::from(u16::from_le_bytes([low, high]));
    let text = FUZZED_CODECS.get(usize::from(pick) % FUZZED_CODECS.len());
    let Some(Ok(chain)) = text.map(|text| Chain::parse(text)) else { return false };
    let item = usize::from(item).max(1);
    let logical = numbers(item, (len / item) as u64);
    let mut scratch = Scratch::new();
    let mut out = vec![0; len];
    let taken = chain.decode(body, &logical, &mut out, &mut scratch).is_ok();
    if taken {
        let (mut again, mut back) = (Vec::new(), vec![0; len]);
        assert_eq!(chain.encode(&out, &logical, &mut again, &mut scratch), Ok(()));
        assert_eq!(chain.decode(&again, &logical, &mut back, &mut scratch), Ok(()));
        assert!(back == out || text.is_some_and(|text| text.contains("round")));
    }
    taken
}

/// Encodes arbitrary bytes as an LZ4 block, with an arbitrary acceleration and an arbitrary limit that it must not
/// exceed, and decodes it. Returns whether the limit sufficed.
#[doc(hidden)]
pub fn fuzz_lz4(data: &[u8]) -> bool {
    let Some((&[low, high, room], body)) = data.split_first_chunk::<3>() else { return false };
    let acceleration = u32::from(u16::from_le_bytes([low, high]));
    // The data is repeated, so that distant copies occur.
    let data = body.repeat(1 + usize::from(room) % 8);
    let most = data.len() * (1 + usize::from(room) / 8) / 16 + 16;
    let mut out = vec![room];
    let taken = crate::codecs::lz4::encode_block(&data, acceleration, most, &mut out);
    assert_eq!(out.first(), Some(&room));
    assert!(if taken { out.len() <= 1 + most } else { out.len() == 1 });
    if taken {
        let mut back = vec![0; data.len()];
        let block = out.get(1..).unwrap_or_default();
        assert_eq!(crate::codecs::lz4::decode_block(block, &mut back, 0), Ok(()));
        assert!(back == data);
    }
    taken
}
