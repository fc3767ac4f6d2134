//! How close are the engine's writes and reads to raw files? Prints medians of alternated rounds.
//!
//! `cargo run --release -p drystone --example blocks [DIRECTORY] [MIB]`

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::time::Instant;

use drystone::array::{Source, Target};
use drystone::{Container, CreateOptions, Durability, Mode, NewVariable, SchemaOp, WriterOptions};
use drystone_format::dtype::{DType, Scalar};
use drystone_plan::selection::Selection;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const VARIABLES: usize = 8;

fn new_variable(shape: &[u64]) -> NewVariable {
    NewVariable {
        dtype: DType::Scalar(Scalar::F64),
        shape: shape.iter().map(|n| Some(*n)).collect(),
        dims: Vec::new(),
        steps: true,
        local: false,
        transform: String::new(),
        chunks: None,
        access: String::new(),
        meaning: None,
        fill: None,
        attrs: Default::default(),
    }
}

fn timed<T>(act: impl FnOnce() -> Outcome<T>) -> Outcome<(f64, T)> {
    let begin = Instant::now();
    let out = act()?;
    Ok((begin.elapsed().as_secs_f64(), out))
}

fn raw_write(path: &Path, data: &[u8], sync: bool) -> Outcome<()> {
    let mut file = File::create(path)?;
    for _ in 0..VARIABLES {
        for part in data.chunks(1 << 20) {
            file.write_all(part)?;
        }
    }
    if sync {
        file.sync_all()?;
    }
    Ok(())
}

fn raw_read(path: &Path, out: &mut [u8]) -> Outcome<()> {
    let mut file = File::open(path)?;
    for _ in 0..VARIABLES {
        file.read_exact(out)?;
    }
    Ok(())
}

fn write(path: &Path, data: &[u8], shape: &[u64], durability: Durability) -> Outcome<()> {
    let c = Container::create(path, CreateOptions { durability, ..CreateOptions::default() })?;
    let f8 = DType::Scalar(Scalar::F64);
    c.begin_batch()?;
    for i in 0..VARIABLES {
        c.apply(vec![SchemaOp::CreateVariable(format!("v{i}"), Box::new(new_variable(shape)))])?;
    }
    c.end_batch(true)?;
    let w = c.writer(WriterOptions { rank: Some((0, 1)), ..Default::default() })?;
    w.begin_step(None, false)?;
    for i in 0..VARIABLES {
        w.put(&format!("v{i}"), &f8, &Source::dense(data, shape, 8)?, None, None)?;
    }
    w.end_step()?;
    w.close()?;
    Ok(())
}

fn read(path: &Path, out: &mut [u8], shape: &[u64], expected: &[u8]) -> Outcome<()> {
    let c = Container::open(path, Mode::Read)?;
    let mut full = vec![1];
    full.extend(shape);
    for i in 0..VARIABLES {
        let r = c.reading(&format!("v{i}"), None)?;
        let target = Target::dense(out, &full, 8)?;
        r.read(&Selection::all(&full), &target)?;
    }
    if out != expected {
        return Err("read back something else".into());
    }
    Ok(())
}

fn drop_cache(path: &Path) {
    let _ = std::process::Command::new("sync").status();
    let _ = std::fs::write("/proc/sys/vm/drop_caches", "1");
    let _ = path;
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().collect();
    let dir = Path::new(args.get(1).map_or("/tmp", String::as_str)).join("drystone-speed");
    let mib: u64 = args.get(2).map_or(Ok(64), |m| m.parse())?;
    let shape = [mib * 2, 256, 256];
    let bytes = (mib << 20) as usize;
    let data: Vec<u8> = (0..bytes / 8).flat_map(|i| ((i as f64) * 0.7).sin().to_le_bytes()).collect();
    let mut out = vec![1u8; bytes];
    let total = (bytes * VARIABLES) as f64 / 1e9;
    let (raw, dry) = (dir.join("raw"), dir.join("dry"));
    let mut rows: Vec<(&str, Vec<f64>, Vec<f64>)> = Vec::new();
    for (name, sync) in [("write, async", false), ("write, durable", true)] {
        let (mut a, mut b) = (Vec::new(), Vec::new());
        for _ in 0..5 {
            let _ = std::fs::remove_dir_all(&dir);
            std::fs::create_dir_all(&dir)?;
            a.push(timed(|| raw_write(&raw, &data, sync))?.0);
            let durability = if sync { Durability::Durable } else { Durability::Async };
            b.push(timed(|| write(&dry, &data, &shape, durability))?.0);
        }
        rows.push((name, a, b));
    }
    for (name, cold) in [("read, warm", false), ("read, cold", true)] {
        let (mut a, mut b) = (Vec::new(), Vec::new());
        for _ in 0..5 {
            if cold {
                drop_cache(&dir);
            }
            a.push(timed(|| raw_read(&raw, &mut out))?.0);
            if cold {
                drop_cache(&dir);
            }
            b.push(timed(|| read(&dry, &mut out, &shape, &data))?.0);
        }
        rows.push((name, a, b));
    }
    println!("{VARIABLES} variables of {mib} MiB, GB/s (median of 5 alternated rounds)");
    println!("{:16} {:>8} {:>9} {:>14}", "", "raw", "drystone", "time ratio");
    for (name, mut a, mut b) in rows {
        let (a, b) = (median(&mut a), median(&mut b));
        println!("{name:16} {:8.2} {:9.2} {:14.2}", total / a, total / b, b / a);
    }
    let mut copy = vec![1u8; bytes];
    let mut times: Vec<f64> = Vec::new();
    for _ in 0..5 {
        let copied = timed(|| {
            copy.copy_from_slice(&data);
            Ok(())
        });
        times.push(copied?.0);
    }
    println!("{:16} {:8.2}", "memcpy", bytes as f64 / 1e9 / median(&mut times));
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}
