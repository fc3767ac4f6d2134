//! Tests of the positions of pieces, and of the space reserved for them.

use super::held::SOON;
use super::*;
use drystone_format::log::FileKind;
use drystone_store::MemoryStore;

fn header() -> FileHeader {
    FileHeader {
        kind: FileKind::Segment,
        uuid: [7; 16],
        id: 1,
        part: 0,
        run: 0,
        rank: None,
        fence: 0,
        time: 0,
        origin: String::new(),
        process: String::new(),
        base: 0,
    }
}

#[test]
fn encoded_pieces_that_are_not_staged_lie_where_they_say_and_frames_follow_each_other() {
    let header = header();
    let store = MemoryStore::new();
    let mut segment = Segment::new(Arc::new(store.clone()), &header, None);
    let mut made = Vec::new();
    for (n, len) in [9, DIRECT, DIRECT + 1, 77, DIRECT - 1, 2 * PART + 3, PART + 2].into_iter().enumerate() {
        let payload: Vec<u8> = (0..len).map(|i| ((i * 5 + n) >> 2) as u8).collect();
        let (meta, histogram) = [(&[][..], &[][..]), (&[1; 30], &[2; 17]), (&[], &[3; 40])][n % 3];
        let piece = segment.push_coded(&payload, meta, histogram).unwrap();
        assert_eq!(piece.position % 8, 0);
        made.push((piece, payload, histogram));
    }
    segment.end().unwrap();
    let bytes = store.read_all(segment.key(), u64::MAX).unwrap();
    assert_eq!(bytes.len() as u64, segment.size());
    for (piece, payload, histogram) in &made {
        let at = piece.position as usize;
        assert!(bytes[at..at + payload.len()] == payload[..], "{} bytes at {at}", payload.len());
        let trailer = piece.trailer_position() as usize..piece.end() as usize;
        if piece.trailer == 0 {
            assert_eq!(piece.check, crc32(payload));
        } else {
            assert_eq!(Trailer::decode(piece, &bytes[trailer]).unwrap().histogram, *histogram);
        }
    }
    let mut at = 0;
    while let frame::Next::Frame { end, .. } = frame::next(&bytes, at, u64::MAX) {
        at = end;
    }
    assert_eq!(at, bytes.len() as u64, "the frames end where the log ends");
}

#[test]
fn pieces_lie_where_they_say_wherever_parts_end_and_a_long_log_ends_with_a_page() {
    let header = header();
    let store = MemoryStore::new();
    let mut segment = Segment::new(Arc::new(store.clone()), &header, None);
    let mut made = Vec::new();
    let lens = [10, 20_000, DIRECT - 1, DIRECT, DIRECT + 5, PART, PART + 3, 3 * PART + 77, 5 * PART - 9];
    for (n, len) in lens.into_iter().enumerate() {
        let payload: Vec<u8> = (0..len).map(|i| ((i * 7 + n) >> 3) as u8).collect();
        let mut seen = Vec::new();
        let piece = segment.push_raw(&payload, |bytes| seen.extend_from_slice(bytes)).unwrap();
        assert!(seen == payload, "a payload of {len} bytes is measured once, in order");
        made.push((piece, payload));
        if n % 3 == 1 {
            segment.end().unwrap();
        }
    }
    segment.end().unwrap();
    let bytes = store.read_all(segment.key(), u64::MAX).unwrap();
    assert_eq!((bytes.len() as u64, bytes.len() as u64 % PAGE), (segment.size(), 0));
    for (piece, payload) in made {
        let at = piece.position as usize;
        assert!(bytes[at..at + payload.len()] == payload[..], "{} bytes at {at}", payload.len());
        let trailer = at + payload.len().next_multiple_of(4);
        let sums: Vec<u32> = payload.chunks(1 << UNIT_LOG2).map(crc32).collect();
        if piece.trailer > 0 {
            assert_eq!(bytes[trailer..trailer + piece.trailer as usize], le_bytes(&sums));
        }
    }
}

#[test]
fn pieces_of_a_series_lie_in_runs_between_the_others_and_frames_follow_each_other() {
    let store = MemoryStore::new();
    let mut segment = Segment::new(Arc::new(store.clone()), &header(), Some(Runs::new(1 << 30)));
    let mut made = Vec::new();
    for step in 0..60usize {
        for series in 0..3usize {
            let payload: Vec<u8> =
                (0..[4096, 40, 3000][series]).map(|i| (i * 3 + step * 7 + series) as u8).collect();
            let histogram = if series == 2 { &[9; 21][..] } else { &[] };
            let put = |segment: &mut Segment| match series {
                0 => segment.push_raw(&payload, |_| ()).unwrap(),
                _ => segment.push_coded(&payload[..payload.len() - step % 3], &[], histogram).unwrap(),
            };
            let piece = segment.of_series((series > 0 || step % 5 > 0).then_some(series as u64), put);
            assert_eq!(piece.position % 8, 0);
            made.push((series, piece, payload));
        }
        segment.end().unwrap();
        let bytes = store.read_all(segment.key(), u64::MAX).unwrap();
        assert_eq!(bytes.len() as u64, segment.size());
        for (_, piece, payload) in &made {
            let at = piece.position as usize;
            assert_eq!(bytes[at..at + piece.length as usize], payload[..piece.length as usize]);
            if piece.trailer > 0 {
                let trailer = piece.trailer_position() as usize..piece.end() as usize;
                assert_eq!(Trailer::decode(piece, &bytes[trailer]).unwrap().histogram, [9; 21]);
            }
        }
        let mut at = 0;
        while let frame::Next::Frame { end, .. } = frame::next(&bytes, at, u64::MAX) {
            at = end;
        }
        assert_eq!(at, bytes.len() as u64, "the frames end where the log ends");
    }
    let places = |series| made.iter().filter(move |made| made.0 == series).map(|made| made.1.position);
    let together =
        |series| places(series).zip(places(series).skip(1)).filter(|(a, b)| a.abs_diff(*b) < 4100).count();
    assert!(together(1) > 50 && together(2) > 50, "{} {}", together(1), together(2));
    assert!(together(0) > 25, "pieces without a series lie in the log: {}", together(0));
}

#[test]
fn an_extent_of_runs_is_filled_with_zeros_if_it_is_used_soon() {
    use std::os::unix::fs::MetadataExt;
    let written = |soon: bool| {
        let dir = tempfile::tempdir().unwrap();
        let store = Arc::new(drystone_store::LocalStore::create(dir.path()).unwrap());
        let mut segment = Segment::new(store.clone(), &header(), Some(Runs::new(1 << 30)));
        let mut made = Vec::new();
        for step in 0..20u8 {
            if !soon {
                segment.kept = segment.kept.and_then(|at| at.checked_sub(SOON));
            }
            for series in 0..3u8 {
                let payload = [step * 3 + series + 1; 4096];
                let put = |segment: &mut Segment| segment.push_raw(&payload, |_| ()).unwrap();
                made.push((segment.of_series(Some(series.into()), put), payload));
            }
            segment.end().unwrap();
            for (piece, payload) in &made {
                assert!(store.read_vec(segment.key(), piece.position, 4096).unwrap() == payload);
            }
        }
        let found = dir.path().join(segment.key()).metadata().unwrap();
        assert_eq!(found.len(), segment.len);
        (found.len(), found.blocks() * 512)
    };
    let ((len, filled), (same, sparse)) = (written(true), written(false));
    assert_eq!(len, same);
    assert!(filled >= len || sparse >= len, "{filled} of {len} bytes, {sparse} of a slow writer");
    assert!(sparse >= len || sparse + (96 << 10) < filled, "{sparse} and {filled} bytes");
}

/// Preallocated blocks beyond the end of a file occupy space as long as the file exists.
#[test]
fn space_is_preallocated_only_for_bytes_that_are_written() {
    use std::os::unix::fs::MetadataExt;
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(drystone_store::LocalStore::create(dir.path()).unwrap());
    let mut segment = Segment::new(store, &header(), None);
    let payload = vec![7; 2 * AHEAD as usize + 3 * PART + 77];
    for len in [payload.len(), 10, WORTH_TELLING as usize, 20_000, payload.len() / 3] {
        let piece = segment.push_raw(&payload[..len], |_| ()).unwrap();
        segment.end().unwrap();
        assert_eq!(piece.length, len as u64);
        assert!(segment.told <= segment.len);
        let found = dir.path().join(segment.key()).metadata().unwrap();
        assert_eq!(found.len(), segment.len);
        let preallocates = rustix::fs::statfs(dir.path()).unwrap().f_type as u32 != 0xEF53;
        assert!(preallocates || found.blocks() * 512 <= found.len() + (64 << 10), "{found:?}");
    }
    assert!(segment.told > 0);
}
