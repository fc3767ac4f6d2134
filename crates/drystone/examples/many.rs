//! What do many small blocks cost? Runs 2,000 steps of 10 variables, and 20,000 blocks of 16^3. Prints times, files
//! and bytes.
//!
//! `cargo run --release -p drystone --example many [DIRECTORY] [durable]`

use std::path::Path;
use std::time::Instant;

use drystone::array::{Source, Target};
use drystone::{Container, CreateOptions, Durability, Mode, NewVariable, SchemaOp, WriterOptions};
use drystone_format::dtype::{DType, Scalar};
use drystone_plan::selection::{Axis, Selection};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn variable(shape: &[u64], steps: bool) -> Box<NewVariable> {
    Box::new(NewVariable {
        dtype: DType::Scalar(Scalar::F32),
        shape: shape.iter().map(|n| Some(*n)).collect(),
        dims: Vec::new(),
        steps,
        local: false,
        transform: String::new(),
        chunks: None,
        access: String::new(),
        meaning: None,
        fill: None,
        attrs: Default::default(),
    })
}

fn lap(what: &str, begin: Instant) {
    println!("{what:44} {:10.2} ms", begin.elapsed().as_secs_f64() * 1e3);
}

fn read(c: &Container, path: &str, selection: &Selection) -> Outcome<Vec<u8>> {
    let r = c.reading(path, None)?;
    let shape = selection.shape();
    let mut out = vec![0; (shape.iter().product::<u64>() * 4) as usize];
    let target = Target::dense(&mut out, &shape, 4)?;
    let report = r.read(selection, &target)?;
    println!("    {report:?}");
    Ok(out)
}

fn sizes(path: &Path) -> Outcome<()> {
    for part in ["log", "index", "manifest"] {
        let (mut files, mut bytes) = (0, 0);
        for entry in std::fs::read_dir(path.join(part)).into_iter().flatten() {
            files += 1;
            bytes += entry?.metadata()?.len();
        }
        println!("    {part:10} {files:6} files {bytes:12} bytes");
    }
    Ok(())
}

fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().collect();
    let dir = Path::new(args.get(1).map_or("/tmp", String::as_str)).join("drystone-many");
    let durable = args.get(2).is_some_and(|a| a == "durable");
    let durability = if durable { Durability::Durable } else { Durability::Async };
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir)?;
    let f4 = DType::Scalar(Scalar::F32);

    let path = dir.join("steps.dry");
    let c = Container::create(&path, CreateOptions { durability, ..CreateOptions::default() })?;
    c.apply((0..10).map(|i| SchemaOp::CreateVariable(format!("v{i}"), variable(&[32, 32], true))).collect())?;
    let block = vec![1u8; 4096];
    let w = c.writer(WriterOptions { rank: Some((0, 1)), ..Default::default() })?;
    let begin = Instant::now();
    for _ in 0..2000 {
        w.begin_step(None, false)?;
        for i in 0..10 {
            w.put(&format!("v{i}"), &f4, &Source::dense(&block, &[32, 32], 4)?, None, None)?;
        }
        w.end_step()?;
    }
    w.close()?;
    lap("2,000 steps of 10 variables, committed each", begin);
    sizes(&path)?;
    let begin = Instant::now();
    let c = Container::open(&path, Mode::Read)?;
    lap("open", begin);
    let begin = Instant::now();
    let series = Selection {
        axes: vec![
            Axis::full(2000),
            Axis { start: 5, step: 1, count: 1 },
            Axis { start: 7, step: 1, count: 1 },
        ],
    };
    read(&c, "v3", &series)?;
    lap("one point over 2,000 steps", begin);

    let path = dir.join("blocks.dry");
    let c = Container::create(&path, CreateOptions { durability, ..CreateOptions::default() })?;
    c.apply(vec![SchemaOp::CreateVariable("t".into(), variable(&[512, 400, 400], false))])?;
    let w = c.writer(WriterOptions::default())?;
    let block = vec![1u8; 4 * 16 * 16 * 16];
    let begin = Instant::now();
    for i in 0..20_000u64 {
        let offset = [i / 625 * 16, i / 25 % 25 * 16, i % 25 * 16];
        w.put("t", &f4, &Source::dense(&block, &[16, 16, 16], 4)?, Some(&offset), None)?;
    }
    lap("20,000 puts of 16^3", begin);
    w.close()?;
    lap("  with close and commit", begin);
    sizes(&path)?;
    let begin = Instant::now();
    let c = Container::open(&path, Mode::Read)?;
    lap("open", begin);
    let begin = Instant::now();
    let all = read(&c, "t", &Selection::all(&[512, 400, 400]))?;
    lap("read all (328 MB)", begin);
    if all.iter().any(|b| *b != 1) {
        return Err("read back something else".into());
    }
    for axis in 0..3 {
        let mut axes = vec![Axis::full(512), Axis::full(400), Axis::full(400)];
        axes[axis] = Axis { start: 200, step: 1, count: 1 };
        let begin = Instant::now();
        read(&c, "t", &Selection { axes })?;
        lap(&format!("plane across axis {axis}"), begin);
    }
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}
