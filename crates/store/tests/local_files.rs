//! Guarantees of the local store beyond the contract: other processes, forks, kills, and unusual file systems.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic like tests")]

use std::fs;
use std::io::Write;

use drystone_store::{LocalFiles, LocalStore, MapPolicy, PutMode, Request, Store, StoreError, StoreExt};

fn put(store: &impl Store, key: &str, data: &[u8]) {
    store.put(key, &[data], PutMode::Replace, false).unwrap();
}

#[test]
fn one_handle_reads_what_another_wrote_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("a/b/run.dry");
    {
        let store = LocalStore::create(&root).unwrap();
        store.append("log/w.seg", 0, &[b"bytes"]).unwrap();
        store.sync(&["log/w.seg"]).unwrap();
    }
    let store = LocalStore::open(&root, true).unwrap();
    assert_eq!(store.read_all("log/w.seg", 10).unwrap(), b"bytes");
    assert_eq!(fs::read(root.join("log/w.seg")).unwrap(), b"bytes", "an object is a plain file");
}

#[test]
fn a_store_that_is_not_there_is_not_found_and_a_file_is_no_store() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing");
    let error = LocalStore::open(&missing, false).unwrap_err();
    assert!(error.is_not_found() && error.to_string().contains(missing.to_str().unwrap()), "{error}");
    let file = dir.path().join("file");
    fs::write(&file, "x").unwrap();
    assert!(matches!(LocalStore::open(&file, false), Err(StoreError::Io { .. })));
    assert!(LocalStore::create(&file).is_err());
}

#[test]
fn a_store_opened_for_reading_refuses_every_change_and_names_the_path() {
    let dir = tempfile::tempdir().unwrap();
    put(&LocalStore::create(dir.path()).unwrap(), "k", b"v");
    let store = LocalStore::open(dir.path(), true).unwrap();
    let outcomes = [
        store.put("k", &[b"x"], PutMode::Replace, false),
        store.put("n", &[b"x"], PutMode::IfAbsent, true),
        store.append("n", 0, &[b"x"]),
        store.append("k", 1, &[b"x"]),
        store.delete("k"),
        store.submit(Request::Append { key: "k".into(), at: 1, data: vec![] }).wait().map(drop),
    ];
    for outcome in outcomes {
        let error = outcome.unwrap_err();
        assert!(matches!(error, StoreError::ReadOnly { .. }), "{error:?}");
        assert!(error.to_string().contains(dir.path().to_str().unwrap()), "{error}");
    }
    assert_eq!(store.read_all("k", 9).unwrap(), b"v");
    store.sync(&["k"]).unwrap();
}

#[test]
fn changes_by_another_handle_are_seen() {
    // Open files are kept. An object that another process replaced must not be read from the old file.
    let dir = tempfile::tempdir().unwrap();
    let theirs = LocalStore::create(dir.path()).unwrap();
    for read_only in [false, true] {
        let ours = LocalStore::open(dir.path(), read_only).unwrap();
        put(&theirs, "k", b"one");
        assert_eq!(ours.read_all("k", 9).unwrap(), b"one");
        put(&theirs, "k", b"second");
        assert_eq!(ours.read_all("k", 9).unwrap(), b"second");
        theirs.append("k", 6, &[b"!"]).unwrap();
        assert_eq!(ours.read_all("k", 9).unwrap(), b"second!");
        // A hard link keeps the old file alive under a name that is not the key.
        let link = format!("backup-{read_only}");
        fs::hard_link(dir.path().join("k"), dir.path().join(link)).unwrap();
        put(&theirs, "k", b"third");
        assert_eq!(ours.read_all("k", 9).unwrap(), b"third");
        theirs.delete("k").unwrap();
        assert!(!ours.exists("k").unwrap());
    }
}

#[test]
fn a_store_for_reading_looks_names_up_in_the_folder_that_it_found() {
    // If another folder gets the name, the store must not show that folder's objects: objects of two containers would
    // be mixed.
    let dir = tempfile::tempdir().unwrap();
    let (here, moved) = (dir.path().join("here"), dir.path().join("moved"));
    put(&LocalStore::create(&here).unwrap(), "log/a", b"first");
    let reader = LocalStore::open(&here, true).unwrap();
    assert_eq!(reader.read_all("log/a", 9).unwrap(), b"first");
    fs::rename(&here, &moved).unwrap();
    let other = LocalStore::create(&here).unwrap();
    put(&other, "log/a", b"other");
    put(&other, "log/b", b"other");
    assert_eq!(reader.read_all("log/a", 9).unwrap(), b"first");
    assert!(!reader.exists("log/b").unwrap());
    put(&LocalStore::create(&moved).unwrap(), "log/b", b"late");
    assert_eq!(reader.read_all("log/b", 9).unwrap(), b"late");
    fs::remove_dir_all(&moved).unwrap();
    assert!(matches!(reader.read_all("log/a", 9), Err(StoreError::NotFound { .. })));
}

#[test]
fn files_whose_names_are_no_keys_are_not_listed() {
    let dir = tempfile::tempdir().unwrap();
    let store = LocalStore::create(dir.path()).unwrap();
    put(&store, "log/a", b"1");
    for foreign in ["log/~99-0-abc", "log/with space", "log/ünicode", "~x"] {
        fs::write(dir.path().join(foreign), "left over").unwrap();
    }
    fs::create_dir(dir.path().join("log/empty")).unwrap();
    std::os::unix::fs::symlink("nowhere", dir.path().join("log/dangling")).unwrap();
    std::os::unix::fs::symlink("..", dir.path().join("log/circle")).unwrap();
    let listed: Vec<_> = store.list("log/a").unwrap().into_iter().map(|entry| entry.key).collect();
    assert_eq!(listed, ["log/a"]);
    let all = store.list("").unwrap();
    assert!(all.iter().all(|entry| entry.key.ends_with("log/a")), "{all:?}");
}

#[test]
fn a_part_of_the_tree_may_be_a_link_to_another_disk() {
    let dir = tempfile::tempdir().unwrap();
    let burst_buffer = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(burst_buffer.path(), dir.path().join("log")).unwrap();
    let store = LocalStore::create(dir.path()).unwrap();
    store.append("log/w/1.seg", 0, &[b"12345"]).unwrap();
    store.sync(&["log/w/1.seg"]).unwrap();
    assert_eq!(store.list("log/w").unwrap()[0].len, 5);
    assert!(burst_buffer.path().join("w/1.seg").exists());
}

#[test]
fn an_object_is_no_folder_and_a_folder_no_object() {
    let dir = tempfile::tempdir().unwrap();
    let store = LocalStore::create(dir.path()).unwrap();
    put(&store, "a/b", b"v");
    for key in ["a", "a/b/c"] {
        for mode in [PutMode::IfAbsent, PutMode::Replace] {
            let outcome = store.put(key, &[b"x"], mode, false);
            assert!(matches!(outcome, Err(StoreError::InvalidKey { .. })), "{key} {mode:?}: {outcome:?}");
        }
        assert!(matches!(store.append(key, 0, &[b"x"]), Err(StoreError::InvalidKey { .. })), "{key}");
        assert!(store.append(key, 4, &[b"x"]).is_err(), "{key}");
        assert!(store.read_all(key, 9).unwrap_err().is_not_found(), "{key}");
    }
    assert_eq!(
        fs::read_dir(dir.path().join("a")).unwrap().count(),
        1,
        "refused puts leave no temporary files"
    );
}

#[test]
fn a_container_that_was_removed_is_not_begun_anew() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("run.dry");
    let store = LocalStore::create(&root).unwrap();
    fs::remove_dir(&root).unwrap();
    for outcome in [store.put("a/k", &[b"x"], PutMode::Replace, false), store.append("k", 0, &[b"x"])] {
        let error = outcome.unwrap_err();
        assert!(error.to_string().contains("removed or renamed"), "{error}");
    }
    assert!(!root.exists());
    assert!(store.list("").is_err(), "a missing root is not an empty one");
}

#[test]
fn a_pipe_or_device_instead_of_an_object_is_no_object_and_blocks_no_caller() {
    let dir = tempfile::tempdir().unwrap();
    let store = LocalStore::create(dir.path()).unwrap();
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, dir.path().join("pipe"), rustix::fs::FileType::Fifo, mode, 0)
        .unwrap();
    std::os::unix::fs::symlink("/dev/zero", dir.path().join("device")).unwrap();
    for key in ["pipe", "device"] {
        assert!(store.read_all(key, 10).unwrap_err().is_not_found(), "{key}");
        assert!(store.append(key, 4, &[b"x"]).unwrap_err().is_not_found(), "{key}");
    }
    assert_eq!(store.list("").unwrap(), []);
}

const LIMITED: &str = "DRYSTONE_STORE_TEST_LIMITED";

/// Not a test by itself: runs in a process in which no file may grow beyond a limit of 1 or 2 MiB.
#[test]
fn writer_under_a_limit_of_file_size() {
    let Some(root) = std::env::var_os(LIMITED) else { return };
    let store = LocalStore::create(root).unwrap();
    let (small, big) = (vec![1; 300_000], vec![2; 3 << 20]);
    store.append("log/a", 0, &[&small]).unwrap();
    assert!(matches!(store.append("log/a", 300_000, &[&small, &big]), Err(StoreError::Io { .. })));
    assert_eq!(store.len("log/a").unwrap(), 300_000, "the failed append was taken back");
    store.append("log/a", 300_000, &[&small]).unwrap();
    assert!(store.append("log/b", 0, &[&big]).is_err());
    assert!(store.put("log/c", &[&big], PutMode::IfAbsent, false).is_err());
    assert!(store.put("log/a", &[&big], PutMode::Replace, false).is_err());
    println!("finished");
}

#[test]
fn a_write_that_fails_midway_is_taken_back_and_can_be_tried_again() {
    let dir = tempfile::tempdir().unwrap();
    let run = std::process::Command::new("sh")
        .args(["-c", r#"trap "" XFSZ; ulimit -f 2048; exec "$0" --exact writer_under_a_limit_of_file_size --nocapture"#])
        .arg(std::env::current_exe().unwrap())
        .env(LIMITED, dir.path())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&run.stdout);
    assert!(
        run.status.success() && told.contains("finished"),
        "{told}{}",
        String::from_utf8_lossy(&run.stderr)
    );
    let store = LocalStore::open(dir.path(), true).unwrap();
    assert_eq!(store.read_all("log/a", 1 << 20).unwrap(), vec![1; 600_000]);
    let files: Vec<_> =
        fs::read_dir(dir.path().join("log")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(files, ["a"], "nothing is left of what failed");
}

const VICTIM: &str = "DRYSTONE_STORE_TEST_VICTIM";

/// Not a test by itself: the process that the next test kills.
#[test]
fn victim_that_puts_until_it_is_killed() {
    let Some(root) = std::env::var_os(VICTIM) else { return };
    let store = LocalStore::open(root, false).unwrap();
    for n in 0_u64.. {
        let object: Vec<u8> = n.to_le_bytes().repeat(40_000);
        store.put("replaced", &[&object], PutMode::Replace, false).unwrap();
        store.put(&format!("once/{n}"), &[&object[..80_000]], PutMode::IfAbsent, false).unwrap();
        println!("{n}");
        std::io::stdout().flush().unwrap();
    }
}

#[test]
fn killing_a_writer_leaves_only_whole_objects() {
    use std::io::{BufRead, BufReader};
    for after in [0, 3, 17] {
        let dir = tempfile::tempdir().unwrap();
        let store = LocalStore::create(dir.path()).unwrap();
        let mut victim = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "victim_that_puts_until_it_is_killed", "--nocapture"])
            .env(VICTIM, dir.path())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(victim.stdout.take().unwrap()).lines().map(Result::unwrap);
        // The test harness prints lines too; only the victim's numbers count.
        let last = lines.filter_map(|line| line.trim().parse::<u64>().ok()).nth(after).unwrap();
        victim.kill().unwrap();
        victim.wait().unwrap();

        let is_whole = |bytes: &[u8], len: usize| {
            bytes.len() == len && bytes.chunks_exact(8).all(|chunk| chunk == &bytes[..8])
        };
        let replaced = store.read_all("replaced", 1 << 20).unwrap();
        assert!(is_whole(&replaced, 320_000));
        assert!(u64::from_le_bytes(replaced[..8].try_into().unwrap()) >= last, "what had returned stays");
        let once = store.list("once/").unwrap();
        assert!(once.len() as u64 > last, "what had returned stays");
        for entry in once {
            assert!(is_whole(&store.read_all(&entry.key, 1 << 20).unwrap(), 80_000), "{}", entry.key);
        }
    }
}

#[test]
#[allow(clippy::single_range_in_vec_init, reason = "lists of ranges, some of one")]
fn mapped_bytes_are_those_read_and_only_ranges_within_the_object_are_mapped() {
    let dir = tempfile::tempdir().unwrap();
    let bytes: Vec<u8> = (0..300_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    put(&LocalStore::create(dir.path()).unwrap(), "k", &bytes);
    let store = LocalStore::open(dir.path(), true).unwrap().with_map_policy(MapPolicy::Always);
    let lent = store.map("k", &[5..6, 4000..9000, 9000..9001, 250_000..300_000]).unwrap();
    // SAFETY: no process writes to the file.
    let shown = |range: std::ops::Range<u64>| unsafe { lent.bytes(&range) }.map(<[u8]>::to_vec);
    for range in
        [5..6, 4000..9000, 4500..4501, 9000..9001, 250_000..300_000, 299_999..300_000, 300_000..300_000]
    {
        assert_eq!(shown(range.clone()).unwrap(), bytes[range.start as usize..range.end as usize]);
    }
    for range in [4..6, 5..7, 3999..4001, 8999..9001, 249_999..250_001, 299_999..300_001, 100_000..100_001] {
        assert_eq!(shown(range), None);
    }
    let many: [&[std::ops::Range<u64>]; 6] =
        [&[], &[299_999..300_001], &[5..5], &[10..20, 15..30], &[50..60, 10..20], &[u64::MAX - 1..u64::MAX]];
    for ranges in many {
        assert!(store.map("k", ranges).is_none(), "{ranges:?}");
    }
    assert!(store.map("no", &[0..1]).is_none() && store.map("../k", &[0..1]).is_none());
    // Another file in its place is another object; the existing mapping stays as it is.
    fs::remove_file(dir.path().join("k")).unwrap();
    put(&LocalStore::create(dir.path()).unwrap(), "k", &bytes[1..]);
    assert_eq!(shown(4000..9000).unwrap(), bytes[4000..9000]);
    let other = store.map("k", &[4000..9000]).unwrap();
    // SAFETY: as above.
    assert_eq!(unsafe { other.bytes(&(4000..9000)) }.unwrap(), &bytes[4001..9001]);
}

#[test]
#[allow(clippy::single_range_in_vec_init, reason = "lists of ranges of one")]
fn a_store_that_maps_nothing_says_so_and_a_truncated_file_is_read_as_short() {
    let dir = tempfile::tempdir().unwrap();
    let store = LocalStore::create(dir.path()).unwrap();
    put(&store, "k", &[7; 20_000]);
    let never = LocalStore::open(dir.path(), true).unwrap().with_map_policy(MapPolicy::Never);
    assert!(never.maps_from().is_none() && never.map("k", &[0..20_000]).is_none());
    let always = LocalStore::open(dir.path(), true).unwrap().with_map_policy(MapPolicy::Always);
    assert!(always.maps_from() == Some(0) && always.map("k", &[0..20_000]).is_some());
    fs::OpenOptions::new().write(true).open(dir.path().join("k")).unwrap().set_len(10_000).unwrap();
    assert!(always.map("k", &[0..20_000]).is_none() && always.map("k", &[0..10_000]).is_some());
    assert!(matches!(always.read("k", 0, &mut [0; 20_000]), Err(StoreError::ShortRead { got: 10_000, .. })));
}
