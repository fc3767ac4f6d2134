//! Are blocks that the log stores in published form copied byte for byte, without decoding, and only those?
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::collections::BTreeMap;
use std::sync::Arc;

use drystone::{Compressor, Container, CreateOptions, Format, PublishOptions, PublishedArray, WriterOptions};
use drystone_plan::read_plan::PUBLISHED;
use drystone_plan::selection::Selection;
use drystone_store::{CountingStore, MemoryStore, Store, StoreExt};

use crate::common::{create, dense, f4, read_all};

const SHAPE: [u64; 3] = [64, 64, 96];
const CHUNK: [u64; 4] = [1, 32, 32, 32];
const CHUNKS: u64 = 2 * 2 * 3;

/// Values that zstd makes shorter, but not empty.
fn values(seed: u32, n: u64) -> Vec<u8> {
    (0..n as u32)
        .flat_map(|i| ((i.wrapping_add(seed).wrapping_mul(2_654_435_761) >> 22) as f32).to_le_bytes())
        .collect()
}

fn container(transform: &str) -> (Arc<CountingStore<MemoryStore>>, Container) {
    let store = Arc::new(CountingStore::new(MemoryStore::new()));
    let c = Container::create(store.clone(), CreateOptions::default()).unwrap();
    let new = create("t", f4(), &SHAPE, |v| {
        v.steps = true;
        v.transform = transform.into();
        v.chunks = Some(CHUNK[1..].to_vec());
    });
    c.apply(vec![new]).unwrap();
    (store, c)
}

fn put(c: &Container, step: u64, offset: &[u64], count: &[u64], seed: u32) {
    let w = c.writer(WriterOptions::default()).unwrap();
    w.begin_step(Some(step), false).unwrap();
    let data = values(seed, count.iter().product());
    w.put("t", &f4(), &dense(&data, count, 4), Some(offset), None).unwrap();
    w.end_step().unwrap();
    w.close().unwrap();
    c.commit().unwrap();
}

fn publish(c: &Container, options: PublishOptions) -> PublishedArray {
    c.publish(&options, &mut |_, _| true).unwrap().arrays.remove(0)
}

fn asking_for_chunks() -> PublishOptions {
    PublishOptions { chunks: BTreeMap::from([("t".into(), CHUNK.to_vec())]), ..PublishOptions::default() }
}

fn files(store: &dyn Store, prefix: &str) -> Vec<Vec<u8>> {
    let keys = store.list(prefix).unwrap().into_iter().map(|entry| entry.key);
    let wanted = keys.filter(|key| !key.ends_with(".json") && !key.ends_with(".idx"));
    wanted.map(|key| store.read_all(&key, 1 << 30).unwrap()).collect()
}

/// The chunks of shards with the index at their end, each without its checksum.
fn chunks_of(shards: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    for shard in shards {
        let index = &shard[shard.len() - 4 - 16 * CHUNKS as usize..shard.len() - 4];
        for entry in index.chunks_exact(16) {
            let number = |at: usize| u64::from_le_bytes(entry[at..at + 8].try_into().unwrap()) as usize;
            if number(0) != usize::MAX {
                out.push(shard[number(0)..number(0) + number(8) - 4].to_vec());
            }
        }
    }
    out
}

fn holds(haystack: &[Vec<u8>], needle: &[u8]) -> bool {
    haystack.iter().any(|all| {
        all.windows(16).enumerate().any(|(at, w)| w == &needle[..16] && all[at..].starts_with(needle))
    })
}

/// Reads all values from the publication and from the log.
fn check_values(c: &Container) {
    let reading = c.reading("t", None).unwrap();
    let all = Selection::all(&reading.shape());
    let mut out = vec![0; read_all(c, "t").len()];
    let target = drystone::array::Target::dense(&mut out, &reading.shape(), 4).unwrap();
    reading.by_way_of(Some(PUBLISHED)).read(&all, &target).unwrap();
    drop(target);
    let mut log = vec![1; out.len()];
    let reading = c.reading("t", None).unwrap().from_log();
    let target = drystone::array::Target::dense(&mut log, &reading.shape(), 4).unwrap();
    reading.read(&all, &target).unwrap();
    drop(target);
    assert!(out == log);
    // If a published chunk could not be read, the log would have been read, with a warning.
    assert_eq!(c.take_warnings(), Vec::<String>::new());
}

#[test]
fn blocks_that_the_codec_made_longer_are_encoded_and_not_copied() {
    let (_, c) = container("zstd:7");
    let mut state = 1u64;
    let noise: Vec<u8> = (0..SHAPE.iter().product::<u64>() / 2)
        .flat_map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()
        })
        .collect();
    let w = c.writer(WriterOptions::default()).unwrap();
    w.begin_step(Some(0), false).unwrap();
    w.put("t", &f4(), &dense(&noise, &SHAPE, 4), Some(&[0, 0, 0]), None).unwrap();
    w.end_step().unwrap();
    w.close().unwrap();
    c.commit().unwrap();
    assert_eq!(publish(&c, asking_for_chunks()).copied, 0);
    check_values(&c);
}

#[test]
fn blocks_that_are_chunks_are_copied_byte_for_byte_and_read_once() {
    for transform in ["", "zstd:7"] {
        let (store, c) = container(transform);
        put(&c, 0, &[0, 0, 0], &SHAPE, 1);
        put(&c, 1, &[0, 0, 0], &SHAPE, 2);
        let stored: u64 = files(&*store, "log/").iter().map(|file| file.len() as u64).sum();
        let before = store.counters();
        let array = publish(&c, asking_for_chunks());
        let read = (store.counters() - before).bytes_read;
        assert_eq!((array.copied, array.written), (2 * CHUNKS, 1), "{transform}");
        assert!(read < stored + stored / 10 + (128 << 10), "{transform}: {read} bytes read of {stored}");
        let (log, chunks) = (files(&*store, "log/"), chunks_of(&files(&*store, "zarr/t/c")));
        for chunk in chunks.iter().step_by(5) {
            assert!(holds(&log, chunk), "{transform}: a chunk is not what the log holds");
        }
        check_values(&c);
    }
}

#[test]
fn only_completely_visible_blocks_with_the_same_encoding_are_copied() {
    let (_, c) = container("zstd:7");
    put(&c, 0, &[0, 0, 0], &SHAPE, 1);
    put(&c, 0, &[30, 30, 30], &[4, 4, 4], 2); // in eight chunks
    let array = publish(&c, asking_for_chunks());
    assert_eq!(array.copied, CHUNKS - 8);
    check_values(&c);
    // Another level is another encoding, and other chunks are other chunks.
    let other = PublishOptions { compressor: Compressor::parse("zstd:2").unwrap(), ..asking_for_chunks() };
    assert_eq!(publish(&c, other).copied, 0);
    check_values(&c);
    let chunks = BTreeMap::from([("t".into(), vec![1, 32, 32, 96])]);
    assert_eq!(publish(&c, PublishOptions { chunks, ..PublishOptions::default() }).copied, 0);
    check_values(&c);
    // So is an encoding that HDF5 reads.
    let dual = PublishOptions { format: Some(Format::ZarrHdf5), ..asking_for_chunks() };
    assert_eq!(publish(&c, dual).copied, 0);
}

#[test]
fn a_file_that_is_hdf5_too_takes_what_hdf5_reads_as_it_is() {
    let (store, c) = container("shuffle,zlib:5");
    put(&c, 0, &[0, 0, 0], &SHAPE, 1);
    let dual = PublishOptions { format: Some(Format::ZarrHdf5), ..asking_for_chunks() };
    assert_eq!(publish(&c, dual).copied, CHUNKS);
    let (log, shard) = (files(&*store, "log/"), files(&*store, "zarr/t/c").remove(0));
    let number = |at: usize| u64::from_le_bytes(shard[at..at + 8].try_into().unwrap()) as usize;
    for chunk in 0..CHUNKS as usize {
        let (at, len) = (number(16 * chunk), number(16 * chunk + 8));
        assert!(holds(&log, &shard[at..at + len - 4]));
    }
}

#[test]
fn chunks_are_cut_as_the_log_is_where_that_costs_hardly_more() {
    let (_, c) = container("zstd:7");
    // The model's choice, within a tenth; and a cut that the model would not choose.
    for (name, chunk, taken) in [("near", [64, 64, 48], true), ("far", [2, 64, 96], false)] {
        let new = create(name, f4(), &SHAPE, |v| {
            v.transform = "zstd:7".into();
            v.chunks = Some(chunk.to_vec());
        });
        c.apply(vec![new]).unwrap();
        let w = c.writer(WriterOptions::default()).unwrap();
        let data = values(3, SHAPE.iter().product());
        w.put(name, &f4(), &dense(&data, &SHAPE, 4), Some(&[0, 0, 0]), None).unwrap();
        w.close().unwrap();
        let only = PublishOptions { variables: Some(vec![name.into()]), ..PublishOptions::default() };
        let array = publish(&c, only);
        assert_eq!((array.chunk == chunk, array.copied > 0), (taken, taken), "{name}: {array:?}");
        assert_eq!(array.layout.unwrap().to_string().contains("as the log is cut"), taken);
    }
}

#[test]
fn a_damaged_block_is_not_copied() {
    let (store, c) = container("zstd:7");
    put(&c, 0, &[0, 0, 0], &SHAPE, 1);
    let key = store.list("log/").unwrap().into_iter().find(|e| e.key.ends_with(".seg")).unwrap().key;
    let mut bytes = store.read_all(&key, 1 << 30).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    store.put(&key, &[&bytes], drystone_store::PutMode::Replace, false).unwrap();
    let error = c.publish(&asking_for_chunks(), &mut |_, _| true).unwrap_err();
    assert_eq!(error.kind(), drystone::ErrorKind::Corrupt);
    assert!(error.to_string().contains(&key), "{error}");
}
