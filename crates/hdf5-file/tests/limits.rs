//! Content that does not fit in an HDF5 file is refused, and lengths are those that were announced.

use drystone_hdf5_file::{
    Attribute, Chunk, Dataset, Datatype, Error, File, Number, SUPERBLOCK, Storage, superblock,
};

fn chunked(chunk: Vec<u64>, chunks: Vec<Chunk>) -> Dataset {
    let storage = Storage::Chunked { chunk, filters: Vec::new(), chunks };
    Dataset { datatype: Datatype::Number(Number::F32), shape: vec![8], fill: None, storage }
}

#[test]
fn an_attribute_larger_than_a_message_is_refused() {
    let mut file = File::new();
    let root = file.root();
    file.attribute(root, "notes", Attribute::Text("x".repeat(65_000)));
    let error = file.metadata(SUPERBLOCK).unwrap_err();
    assert!(matches!(&error, Error::AttributeTooLarge { name, len } if name == "notes" && *len > 65_000));
    assert!(error.to_string().contains("more than an HDF5 file takes"));
}

#[test]
fn a_chunk_of_4_gib_is_refused() {
    for (extent, len) in [(1 << 32, 16), (4, 1 << 32)] {
        let mut file = File::new();
        let root = file.root();
        file.dataset(root, "x", chunked(vec![extent], vec![Chunk { offset: vec![0], address: 48, len }]));
        assert_eq!(file.metadata(SUPERBLOCK), Err(Error::ChunkTooLarge));
    }
}

#[test]
fn the_length_of_metadata_does_not_depend_on_its_address() {
    let mut file = File::new();
    let root = file.root();
    let chunks = (0..200).map(|n| Chunk { offset: vec![4 * n], address: 48 + 16 * n, len: 16 }).collect();
    let x = file.dataset(root, "x", chunked(vec![4], chunks));
    file.attribute(x, "units", Attribute::Text("K".into()));
    let near = file.metadata(SUPERBLOCK).unwrap();
    let far = file.metadata(1 << 40).unwrap();
    assert_eq!(near.bytes.len(), far.bytes.len());
    assert_eq!(near.root - SUPERBLOCK, far.root - (1 << 40));
    let header = &near.bytes[(near.root - SUPERBLOCK) as usize..];
    assert_eq!(&header[..4], b"OHDR");
    assert_eq!(&superblock(0, near.root, 1 << 20)[..8], b"\x89HDF\r\n\x1a\n");
}
