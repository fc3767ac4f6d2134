//! Objects that are uploaded in pieces while they are made: visible completely or not at all. Nothing remains of an
//! upload that is given up.

use std::time::{Duration, Instant};

use drystone_s3_rig::{Action, Config, Rig, Rule, Script};
use drystone_store::{Pending, Reply, Store, StoreError, StoreExt};
use drystone_store_object::{FarStore, Options};

const PIECE: usize = 6 << 20;

fn store_at(rig: &Rig, more: &[(&str, &str)]) -> FarStore {
    let pairs =
        [("aws_endpoint", rig.endpoint()), ("skip_signature", "true".into()), ("timeout", "3s".into())];
    let pairs = pairs.into_iter().chain(more.iter().map(|&(name, value)| (name, value.to_owned())));
    let options = Options::new(pairs.map(|(name, value)| (name.to_owned(), value)));
    FarStore::open("s3://bucket/run.dry", &options).expect("the address is valid")
}

fn piece(number: usize, len: usize) -> Vec<u8> {
    let mut piece = vec![number as u8; len];
    piece.chunks_mut(1000).enumerate().for_each(|(n, line)| line[0] = n as u8);
    piece
}

/// Puts pieces of these lengths, four under way at once.
fn rise(store: &FarStore, key: &str, lens: &[usize]) -> Result<(), StoreError> {
    let mut upload = store.upload(key)?;
    let mut under_way = std::collections::VecDeque::new();
    for (number, len) in lens.iter().enumerate() {
        if under_way.len() == 4 {
            let oldest: Option<Pending> = under_way.pop_front();
            assert!(matches!(oldest.map(Pending::wait), Some(Ok(Reply::Append { .. }) | Err(_))));
        }
        under_way.push_back(upload.add(piece(number, *len)));
    }
    upload.finish().wait().map(drop)
}

fn whole(lens: &[usize]) -> Vec<u8> {
    lens.iter().enumerate().flat_map(|(number, len)| piece(number, *len)).collect()
}

fn settled(rig: &Rig) -> bool {
    let until = Instant::now() + Duration::from_secs(10);
    while rig.with_objects(|objects| objects.open_uploads()) > 0 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
    rig.with_objects(|objects| objects.open_uploads()) == 0
}

#[test]
fn pieces_make_one_object_and_few_of_them_one_request() {
    let rig = Rig::start(Config::default()).unwrap();
    let store = store_at(&rig, &[]);
    for (key, lens) in [("none", &[][..]), ("one", &[17]), ("two", &[PIECE, PIECE])] {
        rise(&store, key, lens).unwrap();
        assert!(store.read_all(key, 64 << 20).unwrap() == whole(lens));
    }
    let counts = rig.counts();
    assert_eq!((counts.of("PUT"), counts.of("CREATE_UPLOAD")), (3, 0), "{counts:?}");
    let lens = [PIECE, PIECE, PIECE, PIECE, PIECE, PIECE, 5];
    rise(&store, "many", &lens).unwrap();
    assert!(store.read_all("many", 64 << 20).unwrap() == whole(&lens));
    let counts = rig.counts();
    assert_eq!((counts.of("CREATE_UPLOAD"), counts.of("PUT_PART"), counts.of("COMPLETE_UPLOAD")), (1, 7, 1));
    for lens in [&[3][..], &lens] {
        let again = rise(&store, "many", lens);
        assert!(matches!(again, Err(StoreError::AlreadyExists { .. })), "{again:?}");
    }
    assert!(settled(&rig), "what was refused is aborted");
}

#[test]
fn uploads_that_are_given_up_or_fail_are_aborted_and_never_seen() {
    let rig = Rig::start(Config::default()).unwrap();
    let store = store_at(&rig, &[]);
    let mut upload = store.upload("dropped").unwrap();
    let pieces: Vec<_> = (0..4).map(|number| upload.add(piece(number, PIECE))).collect();
    pieces.into_iter().for_each(|piece| drop(piece.wait().unwrap()));
    assert_eq!(rig.with_objects(|objects| objects.open_uploads()), 1);
    drop(upload);
    assert!(settled(&rig));
    // One piece cannot be sent: the others do not make an object.
    rig.set_script(Script::new(1).rule(Rule::new(Action::Status(403)).of_kind("PUT_PART").skipping(2)));
    assert!(rise(&store, "refused", &[PIECE; 6]).is_err());
    assert!(settled(&rig));
    rig.set_script(Script::new(1).rule(Rule::new(Action::Status(403)).of_kind("CREATE_UPLOAD")));
    let begun = Instant::now();
    assert!(rise(&store, "not begun", &[PIECE; 6]).is_err());
    assert!(begun.elapsed() < Duration::from_secs(3), "one refusal is enough for all pieces");
    rig.set_script(Script::default());
    assert_eq!(store.list("").unwrap(), []);
}

#[test]
fn lost_replies_and_damaged_bodies_are_repeated_unseen() {
    let rig = Rig::start(Config::default()).unwrap();
    let store = store_at(&rig, &[]);
    let lens = [PIECE, PIECE, PIECE, 99];
    let kinds = ["CREATE_UPLOAD", "PUT_PART", "COMPLETE_UPLOAD"];
    let faults = [Action::Cut(None), Action::StatusAfterLanding(500)];
    for (n, (kind, fault)) in kinds.iter().flat_map(|kind| faults.iter().map(move |f| (kind, f))).enumerate()
    {
        rig.set_script(Script::new(1).rule(Rule::new(fault.clone()).of_kind(*kind).times(1)));
        rise(&store, &format!("k{n}"), &lens).unwrap_or_else(|error| panic!("{kind} {fault:?}: {error}"));
        assert!(store.read_all(&format!("k{n}"), 64 << 20).unwrap() == whole(&lens), "{kind} {fault:?}");
    }
    // A bit is flipped in the first three bodies, of parts and of a whole object; their checksums detect it.
    for (key, lens) in [("parts", &lens[..]), ("whole", &[PIECE])] {
        let garbled = |kind: &str| Rule::new(Action::Garble).of_kind(kind).times(3);
        rig.set_script(Script::new(1).rule(garbled("PUT")).rule(garbled("PUT_PART")));
        rig.reset_counts();
        rise(&store, key, lens).unwrap();
        assert_eq!(rig.counts().answers.get(&400), Some(&3), "{:?}", rig.counts());
        assert!(store.read_all(key, 64 << 20).unwrap() == whole(lens));
    }
}
