//! A file of several ranks, here threads: the ranks' separate writes become one file, and disagreeing ranks get
//! errors.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::path::Path;
use std::sync::{Arc, Barrier, Mutex};

use drystone_format::keys;
use drystone_hdf5_vol::file::config::Config;
use drystone_hdf5_vol::file::opening::Opening;
use drystone_hdf5_vol::library::abi::access::{RDWR, TRUNC};
use drystone_hdf5_vol::library::failure::Result;
use drystone_hdf5_vol::library::space::Cells;
use drystone_hdf5_vol::model::tree::{
    Attribute, Body, Dataset, Id, Object, Properties, ROOT, Space, StoredType, Target, Times, Tree,
};
use drystone_hdf5_vol::ranks::team::Ranks;

/// Threads that exchange messages through a shared board.
struct Threads {
    rank: u32,
    board: Arc<(Mutex<Vec<Vec<u8>>>, Barrier)>,
}

impl Ranks for Threads {
    fn rank(&self) -> u32 {
        self.rank
    }
    fn size(&self) -> u32 {
        self.board.0.lock().unwrap().len() as u32
    }
    fn all_gather(&self, send: &[u8]) -> Result<Vec<u8>> {
        let (board, barrier) = &*self.board;
        board.lock().unwrap()[self.rank as usize] = send.to_vec();
        barrier.wait();
        let heard = board.lock().unwrap().concat();
        barrier.wait();
        Ok(heard)
    }
    fn lane(&self) -> u32 {
        self.rank + 1
    }
}

/// Runs one rank per thread; returns their results in order.
fn on_ranks<T: Send>(size: u32, body: impl Fn(u32, Arc<dyn Ranks>) -> T + Sync) -> Vec<T> {
    let board = Arc::new((Mutex::new(vec![Vec::new(); size as usize]), Barrier::new(size as usize)));
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..size)
            .map(|rank| {
                let (body, ranks) = (&body, Arc::new(Threads { rank, board: board.clone() }));
                scope.spawn(move || body(rank, ranks))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn create(path: &Path, ranks: Option<Arc<dyn Ranks>>) -> Result<Arc<Opening>> {
    let name = path.to_str().unwrap().as_bytes();
    Opening::create(name, TRUNC, Config { sync: false, ..Config::default() }, Tree::new(0, 0), ranks)
}

fn open(path: &Path, flags: u32, ranks: Option<Arc<dyn Ranks>>) -> Result<Arc<Opening>> {
    Opening::open(
        path.to_str().unwrap().as_bytes(),
        flags,
        Config { sync: false, ..Config::default() },
        ranks,
    )
}

fn integer() -> StoredType {
    StoredType { encoded: vec![3, 0, 0x10, 8, 0, 0, 4, 0, 0, 0, 0, 0, 32, 0], size: 4, committed: None }
}

/// Does the work of H5Dcreate on one rank.
fn dataset(file: &Opening, name: &str, dims: &[u64], most: &[u64]) -> Id {
    let dataset = Dataset {
        dtype: integer(),
        space: Space::Simple(dims.to_vec(), most.to_vec()),
        properties: Properties { layout: 2, chunk: vec![2; dims.len()], ..Properties::default() },
        fill: None,
        variable: None,
        high: vec![0; dims.len()],
    };
    let mut state = file.shared.lock();
    let id = state.tree.add(Object::new(Body::Dataset(Box::new(dataset)), Times::now(true)));
    assert!(state.tree.link(ROOT, name.as_bytes(), 0, Target::Hard(id)));
    state.named.insert(id, format!("/{name}"));
    state.dirty = true;
    id
}

fn bytes(values: impl IntoIterator<Item = i32>) -> Vec<u8> {
    values.into_iter().flat_map(i32::to_le_bytes).collect()
}

fn id_of(file: &Opening, name: &str) -> Id {
    file.shared.lock().tree.plain(name.as_bytes()).unwrap()
}

fn whole(file: &Opening, name: &str, count: &[u64]) -> Vec<i32> {
    let data =
        file.shared.read(id_of(file, name), &Cells::Box(vec![0; count.len()], count.to_vec())).unwrap();
    data.chunks_exact(4).map(|b| i32::from_le_bytes(b.try_into().unwrap())).collect()
}

#[test]
fn separate_writes_of_ranks_are_one_file_visible_to_all_after_a_flush() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.h5");
    on_ranks(4, |rank, ranks| {
        let file = create(&path, Some(ranks)).unwrap();
        let x = dataset(&file, "x", &[4, 6], &[4, 6]);
        let row = bytes((0..6).map(|i| rank as i32 * 10 + i));
        file.shared.write(x, &Cells::Box(vec![u64::from(rank), 0], vec![1, 6]), row).unwrap();
        // A rank reads its own writes at once.
        assert_eq!(whole(&file, "x", &[4, 6])[rank as usize * 6 + 5], rank as i32 * 10 + 5);
        file.flush().unwrap();
        let expected: Vec<i32> = (0..4).flat_map(|r| (0..6).map(move |i| r * 10 + i)).collect();
        assert_eq!(whole(&file, "x", &[4, 6]), expected);
        // Cells of a dataset, each rank every fourth: cells of others stay unchanged.
        let y = dataset(&file, "y", &[100_000], &[100_000]);
        let mine: Vec<(u64, u64)> = (0..1000).map(|i| (i * 100 + u64::from(rank), 1)).collect();
        file.shared.write(y, &Cells::Runs(mine), bytes((0..1000).map(|i| i * 4 + rank as i32))).unwrap();
        file.flush().unwrap();
    });
    let file = open(&path, 0, None).unwrap();
    let y = whole(&file, "y", &[100_000]);
    for (at, value) in y.into_iter().enumerate() {
        let expected = if at % 100 < 4 { (at / 100 * 4 + at % 100) as i32 } else { 0 };
        assert_eq!(value, expected, "cell {at}");
    }
}

/// Blocks that the container has of a variable.
fn blocks(path: &Path, variable: &str) -> usize {
    container(path).reading(variable, None).unwrap().blocks(None).unwrap().len()
}

/// The cells of one rank: every `size`-th, starting at `rank`.
fn turns(rank: u32, size: u64, cells: u64) -> Vec<(u64, u64)> {
    (0..cells / size).map(|i| (i * size + u64::from(rank), 1)).collect()
}

#[test]
fn cells_that_ranks_write_in_turns_are_few_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.h5");
    const CELLS: u64 = 3 * 40_000;
    on_ranks(3, |rank, ranks| {
        let file = create(&path, Some(ranks)).unwrap();
        let line = dataset(&file, "line", &[CELLS], &[CELLS]);
        let plane = dataset(&file, "plane", &[40, 3000], &[40, 3000]);
        let gaps = dataset(&file, "gaps", &[CELLS], &[CELLS]);
        let values = |step: i32| bytes((0..CELLS / 3).map(|i| i as i32 * 3 + rank as i32 + step));
        for set in [line, plane] {
            file.shared.write(set, &Cells::Runs(turns(rank, 3, CELLS)), values(0)).unwrap();
        }
        // Visible at once to the rank that wrote them.
        let seen = whole(&file, "line", &[CELLS]);
        assert!((0..3).all(|r| seen[300 + r] == if r == rank as usize { 300 + r as i32 } else { 0 }));
        // Every third cell is not written and keeps its value.
        file.shared
            .write(gaps, &Cells::Box(vec![u64::from(rank)], vec![1]), bytes([-1 - rank as i32]))
            .unwrap();
        file.flush().unwrap();
        if rank < 2 {
            file.shared.write(gaps, &Cells::Runs(turns(rank, 3, CELLS)), values(0)).unwrap();
        }
        file.flush().unwrap();
        // Overwrites flushed cells; of two writes of the same cells, the later one is newer.
        file.shared.write(line, &Cells::Runs(turns(rank, 3, CELLS)), values(1)).unwrap();
        file.shared.write(line, &Cells::Runs(turns(rank, 3, CELLS)), values(2)).unwrap();
        file.flush().unwrap();
    });
    let file = open(&path, 0, None).unwrap();
    let counted = |plus: i32| (0..CELLS as i32).map(|i| i + plus).collect::<Vec<_>>();
    assert!(whole(&file, "line", &[CELLS]) == counted(2));
    assert!(whole(&file, "plane", &[40, 3000]) == counted(0));
    let gaps = whole(&file, "gaps", &[CELLS]);
    let expected = |i: i32| match i {
        2 => -3,
        i if i % 3 == 2 => 0,
        i => i,
    };
    assert!((0..CELLS as i32).all(|i| gaps[i as usize] == expected(i)));
    assert_eq!((blocks(&path, "line"), blocks(&path, "plane")), (6, 3));
}

#[test]
fn cells_in_turns_keep_their_order_among_other_writes_and_are_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.h5");
    const CELLS: u64 = 2 * 400;
    on_ranks(2, |rank, ranks| {
        let name = path.to_str().unwrap().as_bytes();
        let config = Config { sync: false, buffer: 1 << 10, ..Config::default() };
        let file = Opening::create(name, TRUNC, config, Tree::new(0, 0), Some(ranks)).unwrap();
        let mine = || Cells::Runs(turns(rank, 2, CELLS));
        let values = |from: i32| bytes((0..CELLS / 2).map(|i| from + i as i32 * 2 + rank as i32));
        let half = |value: i32| {
            let first = vec![u64::from(rank) * 400];
            (Cells::Box(first, vec![400]), bytes(vec![value; 400]))
        };
        // Small writes, then a block of this rank over its own and others' cells: the block is kept, whatever
        // other ranks write.
        let after = dataset(&file, "after", &[CELLS], &[CELLS]);
        file.shared.write(after, &mine(), values(0)).unwrap();
        file.flush().unwrap();
        let (cells, data) = half(7);
        file.shared.write(after, &Cells::Runs(turns(rank, 2, 100)), bytes(vec![5; 50])).unwrap();
        if rank == 0 {
            file.shared.write(after, &cells, data).unwrap();
        }
        file.flush().unwrap();
        // A block, then small writes.
        let before = dataset(&file, "before", &[CELLS], &[CELLS]);
        if rank == 0 {
            let (cells, data) = half(7);
            file.shared.write(before, &cells, data).unwrap();
            file.shared.write(before, &mine(), values(0)).unwrap(); // also more than fits the buffer
        }
        file.flush().unwrap();
        // Not flushed: closing keeps them.
        file.shared.write(before, &Cells::Runs(turns(rank, 2, 80)), bytes(vec![-1; 40])).unwrap();
    });
    let file = open(&path, 0, None).unwrap();
    let after = whole(&file, "after", &[CELLS]);
    assert!((0..400).all(|i| after[i] == 7 || (i < 100 && i % 2 == 1 && after[i] == 5)), "{after:?}");
    assert!((400..CELLS as usize).all(|i| after[i] == i as i32));
    let before = whole(&file, "before", &[CELLS]);
    let expected = |i: usize| match i {
        0..80 => -1,
        i if i % 2 == 0 => i as i32,
        i if i < 400 => 7,
        _ => 0,
    };
    assert!((0..CELLS as usize).all(|i| before[i] == expected(i)), "{before:?}");
}

#[test]
fn ranks_that_open_a_file_together_extend_its_content() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.h5");
    on_ranks(2, |rank, ranks| {
        let file = create(&path, Some(ranks)).unwrap();
        let x = dataset(&file, "x", &[2], &[u64::MAX]);
        file.shared.write(x, &Cells::Box(vec![u64::from(rank)], vec![1]), bytes([rank as i32])).unwrap();
        file.flush().unwrap();
    });
    on_ranks(3, |rank, ranks| {
        let file = open(&path, RDWR, Some(ranks)).unwrap();
        assert_eq!(whole(&file, "x", &[2]), [0, 1]);
        let x = id_of(&file, "x");
        file.shared.set_extent(x, &[5]).unwrap();
        file.shared
            .write(x, &Cells::Box(vec![2 + u64::from(rank)], vec![1]), bytes([7 + rank as i32]))
            .unwrap();
        file.flush().unwrap();
        assert_eq!(whole(&file, "x", &[5]), [0, 1, 7, 8, 9]);
        // Cells that are cut off and added again read as fill, on every rank and whichever rank wrote them.
        file.shared.set_extent(x, &[1]).unwrap();
        file.shared.set_extent(x, &[4]).unwrap();
        if rank == 2 {
            file.shared.write(x, &Cells::Box(vec![3], vec![1]), bytes([33])).unwrap();
        }
        file.flush().unwrap();
        assert_eq!(whole(&file, "x", &[4]), [0, 0, 0, 33]);
    });
}

/// The container of a file, as another program opens it.
fn container(path: &Path) -> drystone::Container {
    let folder = path.with_file_name(format!("{}.drystone", path.file_name().unwrap().to_str().unwrap()));
    drystone::Container::open(folder, drystone::Mode::Read).unwrap()
}

#[test]
fn many_datasets_and_their_values_are_one_commit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.h5");
    const SETS: usize = 40;
    on_ranks(3, |rank, ranks| {
        let file = create(&path, Some(ranks)).unwrap();
        let make = |from: usize| -> Vec<Id> {
            (from..from + SETS).map(|i| dataset(&file, &format!("set{i:03}"), &[3], &[3])).collect()
        };
        let write = |sets: &[Id], plus: i32| {
            for (i, set) in sets.iter().enumerate().filter(|(i, _)| i % 3 == rank as usize) {
                let all = Cells::Box(vec![0], vec![3]);
                file.shared.write(*set, &all, bytes([i as i32, rank as i32, plus])).unwrap();
            }
        };
        let first = make(0);
        write(&first, 0);
        file.flush().unwrap();
        // Another rank's values are visible and can be overwritten without further communication.
        assert_eq!(whole(&file, "set007", &[3]), [7, 1, 0]);
        let second = make(SETS);
        write(&second, 5);
        write(&first[..3], 9);
        file.flush().unwrap();
        assert_eq!(whole(&file, "set001", &[3]), [1, 1, 9]);
        assert_eq!(whole(&file, "set079", &[3]), [39, 0, 5]);
    });
    let container = container(&path);
    assert_eq!(container.snapshot().version(), 2, "a commit for each flush");
    assert_eq!(container.schema().variables.len(), 2 * SETS + 2);
    assert!(container.schema().resolve("set079").is_some(), "datasets are under their names");
}

#[test]
fn blocks_beyond_a_ranks_buffer_are_found_by_the_flush_of_all() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.h5");
    const CELLS: u64 = 100_000;
    on_ranks(2, |rank, ranks| {
        let name = path.to_str().unwrap().as_bytes();
        let config = Config { sync: false, buffer: 500_000, ..Config::default() };
        let file = Opening::create(name, TRUNC, config, Tree::new(0, 0), Some(ranks)).unwrap();
        let before = dataset(&file, "before", &[CELLS], &[CELLS]);
        // A second write waits until one rank alone has put the first, and has created the variables for it.
        if rank == 1 {
            for value in [1, 2] {
                let all = Cells::Box(vec![0], vec![CELLS]);
                file.shared.write(before, &all, bytes(vec![value; CELLS as usize])).unwrap();
            }
        }
        let after = dataset(&file, "after", &[CELLS], &[CELLS]);
        if rank == 0 {
            let all = Cells::Box(vec![0], vec![CELLS]);
            file.shared.write(after, &all, bytes(vec![3; CELLS as usize])).unwrap();
        }
        file.flush().unwrap();
        assert!(whole(&file, "before", &[CELLS]).iter().all(|v| *v == 2));
        assert!(whole(&file, "after", &[CELLS]).iter().all(|v| *v == 3));
    });
    let file = open(&path, 0, None).unwrap();
    assert!(whole(&file, "before", &[CELLS]).iter().all(|v| *v == 2));
    assert!(whole(&file, "after", &[CELLS]).iter().all(|v| *v == 3));
    assert_eq!(container(&path).schema().variables.len(), 4);
}

#[test]
fn a_flush_and_a_concurrent_commit_of_another_program_both_stay() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.h5");
    on_ranks(2, |rank, ranks| {
        let file = create(&path, Some(ranks)).unwrap();
        let x = dataset(&file, "x", &[2], &[2]);
        let mine = Cells::Box(vec![u64::from(rank)], vec![1]);
        file.shared.write(x, &mine, bytes([rank as i32])).unwrap();
        if rank == 1 {
            let folder = path.with_file_name("x.h5.drystone");
            let other = drystone::Container::open(folder, drystone::Mode::ReadWrite).unwrap();
            other.apply(vec![drystone::SchemaOp::CreateGroup("theirs".into(), Default::default())]).unwrap();
        }
        file.flush().unwrap();
        assert_eq!(whole(&file, "x", &[2]), [0, 1]);
    });
    assert!(container(&path).schema().groups.contains_key("theirs"));
}

#[test]
fn a_rank_that_creates_something_else_is_an_error_of_all() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.h5");
    let said = on_ranks(3, |rank, ranks| {
        let file = create(&path, Some(ranks)).unwrap();
        dataset(&file, "x", &[2], &[2]);
        file.flush().unwrap();
        dataset(&file, if rank == 1 { "b" } else { "a" }, &[2], &[2]);
        file.flush().unwrap_err().message
    });
    for message in &said {
        assert!(message.contains("/b is not there on rank 0"), "{message}");
    }
    let file = open(&path, 0, None).unwrap(); // exactly what the ranks agreed on
    assert_eq!(file.shared.lock().tree.group(ROOT).unwrap().links.len(), 1);
}

#[test]
fn attributes_and_shapes_are_compared_and_times_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.h5");
    let attribute = |value: i32| Attribute {
        order: 0,
        cset: 0,
        dtype: integer(),
        space: Space::Scalar,
        data: bytes([value]),
    };
    let said = on_ranks(2, |rank, ranks| {
        let file = create(&path, Some(ranks)).unwrap();
        let x = dataset(&file, "x", &[2], &[2]);
        let put = |value: i32| {
            let mut state = file.shared.lock();
            let object = state.tree.objects.get_mut(&x).unwrap();
            object.put_attribute(b"a", attribute(value));
            object.times.changed += i64::from(rank);
            state.dirty = true;
        };
        put(5);
        file.flush().unwrap();
        put(rank as i32);
        file.flush().unwrap_err().message
    });
    assert!(said.iter().all(|m| m.contains("the attribute \"a\" of /x")), "{said:?}");
}

#[test]
fn a_failure_of_one_rank_is_an_error_of_all_and_none_waits() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.h5");
    create(&path, None).unwrap();
    let said = on_ranks(2, |rank, ranks| {
        // One rank passes different flags.
        let flags = if rank == 1 { 0 } else { RDWR };
        open(&path, flags, Some(ranks)).err().unwrap().message
    });
    assert!(said.iter().all(|m| m.contains("different flags")), "{said:?}");
    let missing = folder.path().join("none.h5");
    let said = on_ranks(2, |_, ranks| open(&missing, 0, Some(ranks)).err().unwrap().message);
    assert!(said[0].contains("errno = 2") && said[1].contains("rank 0"), "{said:?}");
}

#[test]
fn what_a_killed_program_left_is_not_taken_for_a_new_object() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.h5");
    on_ranks(2, |_, ranks| create(&path, Some(ranks)).unwrap().flush().unwrap());
    for round in 0..3 {
        // As if killed: values reach the container, but the tree that refers to them is never put.
        let file = open(&path, RDWR, None).unwrap();
        let x = dataset(&file, "x", &[50_000], &[50_000]);
        file.shared.write(x, &Cells::Box(vec![0], vec![50_000]), bytes(vec![9; 50_000])).unwrap();
        if round < 2 {
            file.shared.lock().tree.unlink(ROOT, b"x").unwrap();
            file.shared.lock().reap(x);
        }
    }
    on_ranks(2, |rank, ranks| {
        let file = open(&path, RDWR, Some(ranks)).unwrap();
        assert_eq!(whole(&file, "x", &[50_000])[49_999], 9);
        file.shared.lock().tree.unlink(ROOT, b"x").unwrap();
        let old = 104;
        file.shared.lock().reap(old);
        let x = dataset(&file, "x", &[50_000], &[50_000]);
        file.shared.write(x, &Cells::Box(vec![u64::from(rank)], vec![1]), bytes([5])).unwrap();
        file.flush().unwrap();
        assert_eq!(whole(&file, "x", &[50_000])[..3], [5, 5, 0]);
    });
}

/// Symptom: a collective read after a collective write synced on every rank. Cause: the ranks' writes were made
/// visible by a flush. Now a commit does that, and the next flush syncs it, even if nothing was written since.
#[test]
fn values_visible_to_all_ranks_are_synced_by_the_next_flush() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.h5");
    let marks = || {
        let all = std::fs::read_dir(folder.path().join("x.h5.drystone/manifest")).unwrap();
        let name =
            |item: std::io::Result<std::fs::DirEntry>| item.unwrap().file_name().into_string().unwrap();
        all.map(name).filter_map(|name| keys::parse_mark(&format!("manifest/{name}"))).max()
    };
    let committed = || container(&path).snapshot().version();
    on_ranks(3, |rank, ranks| {
        let name = path.to_str().unwrap().as_bytes();
        let config = Config { sync: true, ..Config::default() };
        let file = Opening::create(name, TRUNC, config, Tree::new(0, 0), Some(ranks.clone())).unwrap();
        let x = dataset(&file, "x", &[3], &[3]);
        file.flush().unwrap();
        let before = marks();
        assert!(before.is_some());
        ranks.all_gather(&[]).unwrap();
        for turn in 0..70 {
            let value = bytes([turn * 10 + rank as i32]);
            file.shared
                .write(x, &Cells::Box(vec![(u64::from(rank) + turn as u64) % 3], vec![1]), value)
                .unwrap();
            file.show().unwrap();
            let expected: Vec<i32> = (0..3).map(|i| turn * 10 + (i + 3 - turn % 3) % 3).collect();
            assert_eq!(whole(&file, "x", &[3]), expected);
            ranks.all_gather(&[]).unwrap();
        }
        assert_eq!(marks(), before, "nothing waited for the device");
        let version = committed();
        ranks.all_gather(&[]).unwrap();
        file.show().unwrap();
        file.flush().unwrap();
        assert_eq!((marks(), committed()), (Some(version), version), "rank {rank}");
        ranks.all_gather(&[]).unwrap();
        file.flush().unwrap();
        assert_eq!((marks(), committed()), (Some(version), version), "rank {rank}");
    });
}

/// Options of a store come from the environment, so the ranks run in a separate process with the server's environment.
#[test]
fn ranks_write_a_file_at_a_url_together() {
    const URL: &str = "s3://bucket/ranks/x.h5";
    if std::env::var_os("DRYSTONE_RANKS_AT_A_URL").is_none() {
        let rig = drystone_s3_rig::Rig::start(drystone_s3_rig::Config::default()).unwrap();
        let done = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "ranks_write_a_file_at_a_url_together", "--nocapture"])
            .env("DRYSTONE_RANKS_AT_A_URL", "1")
            .env("AWS_ENDPOINT_URL", rig.endpoint())
            .env("AWS_ACCESS_KEY_ID", "the-key-id")
            .env("AWS_SECRET_ACCESS_KEY", "the-secret")
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        return;
    }
    let path = Path::new(URL);
    for round in 0..2 {
        on_ranks(3, |rank, ranks| {
            let file = match round {
                0 => create(path, Some(ranks)).unwrap(),
                _ => open(path, RDWR, Some(ranks)).unwrap(),
            };
            let name = format!("x{round}");
            let x = dataset(&file, &name, &[3, 4], &[3, 4]);
            let row = bytes((0..4).map(|i| rank as i32 * 10 + i + round));
            file.shared.write(x, &Cells::Box(vec![u64::from(rank), 0], vec![1, 4]), row).unwrap();
            file.flush().unwrap();
            assert_eq!(whole(&file, &name, &[3, 4])[5], 11 + round);
        });
    }
    let file = open(path, 0, None).unwrap();
    assert_eq!(whole(&file, "x0", &[3, 4]), [0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23]);
    assert_eq!(whole(&file, "x1", &[3, 4])[11], 24);
    drop(file);
    let refused = on_ranks(2, |_, ranks| open(Path::new("s3://bucket/absent.h5"), RDWR, Some(ranks)).err());
    assert!(refused.iter().all(|e| e.as_ref().is_some_and(|e| e.message.contains("errno = 2"))));
    Opening::delete(URL.as_bytes(), None).unwrap();
    assert!(!Opening::accessible(URL.as_bytes()).is_ok_and(|there| there));
}
