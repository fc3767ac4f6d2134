//! A small container with one of everything, and all its content, cell by cell.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]
#![allow(dead_code, unreachable_pub)]

use std::collections::BTreeMap;
use std::sync::Arc;

use drystone::array::Target;
use drystone::{Container, CreateOptions, Durability, Mode, Result, SchemaOp, Writer, WriterOptions};
use drystone_format::dtype::{DType, Member, Record, Scalar};
use drystone_format::value::Value;
use drystone_plan::selection::{Axis, Selection};
use drystone_store::{MemoryStore, Store};

use crate::common::{create, dense, f4, ramp_f32};

/// The content of one variable in one step, cell by cell, or block by block for a local variable.
pub type Cells = Vec<Vec<u8>>;
/// Content by path and step. A path that ends in `#` stands for another way to read the variable.
pub type Content = BTreeMap<(String, Option<u64>), Result<Cells>>;

pub struct Sample {
    pub store: Arc<MemoryStore>,
    /// Content by version.
    pub versions: Vec<Content>,
    /// The version that was flushed, and the length of every object at that time.
    pub flushed: u64,
    pub lengths: BTreeMap<String, u64>,
}

fn record() -> DType {
    let m = |name: &str, scalar, offset| Member {
        name: name.into(),
        dtype: DType::Scalar(scalar),
        shape: vec![],
        offset,
    };
    DType::Record(Record { itemsize: 16, members: vec![m("a", Scalar::U16, 0), m("b", Scalar::F64, 8)] })
}

fn int(values: impl IntoIterator<Item = i32>) -> Vec<u8> {
    values.into_iter().flat_map(i32::to_le_bytes).collect()
}

pub fn variables() -> Vec<SchemaOp> {
    vec![
        create("large", f4(), &[4200], |v| v.fill = Some((-1.0f32).to_le_bytes().to_vec())),
        create("coded", DType::Scalar(Scalar::I32), &[20, 20], |v| {
            v.steps = true;
            v.transform = "shuffle,zstd:1".into();
            v.chunks = Some(vec![8, 8]);
        }),
        create("pair", record(), &[6], |v| v.steps = true),
        create("text", DType::String, &[4], |v| v.steps = true),
        create("own", f4(), &[], |v| {
            v.local = true;
            v.steps = true;
        }),
        create("fields/small", f4(), &[3, 4], |v| v.steps = true),
    ]
}

fn step(w: &Writer, number: u64, seed: i32) -> Result<()> {
    w.begin_step(Some(number), false)?;
    let coded = int((0..20 * 14).map(|i| i / 7 * seed));
    w.put("coded", &DType::Scalar(Scalar::I32), &dense(&coded, &[20, 14], 4), Some(&[0, 3]), None)?;
    let pairs: Vec<u8> = (0..5u8)
        .flat_map(|i| [[i + seed as u8; 2].as_slice(), &[0; 6], &f64::from(i).to_le_bytes()].concat())
        .collect();
    w.put("pair", &record(), &dense(&pairs, &[5], 16), Some(&[1]), None)?;
    let words = [format!("step {number}"), "x".repeat(40 + seed as usize), String::new()];
    let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
    w.put_strings("text", &[3], &words, Some(&[1]), None)?;
    let own = ramp_f32(seed as usize + 1);
    w.put("own", &f4(), &dense(&own, &[seed as u64 + 1], 4), None, None)?;
    for row in 0..3 {
        let values: Vec<u8> =
            (0..4).flat_map(|i| ((seed * 100 + row * 10 + i) as f32).to_le_bytes()).collect();
        w.put("fields/small", &f4(), &dense(&values, &[1, 4], 4), Some(&[row as u64, 0]), None)?;
    }
    Ok(())
}

impl Sample {
    /// Several commits of ranked and other writers, flushed after commit number `flush` if that is given. The last
    /// step is closed and not committed.
    pub fn new(durability: Durability, flush: Option<u64>) -> Sample {
        let store = Arc::new(MemoryStore::new());
        let c = Container::create(store.clone(), CreateOptions { durability, ..CreateOptions::default() })
            .unwrap();
        let mut sample =
            Sample { store, versions: vec![Content::new()], flushed: 0, lengths: BTreeMap::new() };
        c.apply(variables()).unwrap();
        sample.committed(&c, flush);
        let w = c.writer(WriterOptions { rank: Some((0, 1)), ..WriterOptions::default() }).unwrap();
        for number in 0..3 {
            step(&w, number, number as i32 + 1).unwrap();
            w.end_step().unwrap();
            sample.committed(&c, flush);
        }
        w.close().unwrap();
        let attrs = [("title".to_string(), Some(Value::Text("a sample".into())))].into();
        c.apply(vec![SchemaOp::SetAttrs(String::new(), attrs)]).unwrap();
        sample.committed(&c, flush);
        let w = c.writer(WriterOptions::default()).unwrap();
        let data = ramp_f32(4150);
        w.put("large", &f4(), &dense(&data, &[4150], 4), Some(&[20]), None).unwrap();
        w.close().unwrap();
        sample.committed(&c, flush);
        let w = c.writer(WriterOptions::default()).unwrap();
        for number in [1, 4] {
            step(&w, number, 7).unwrap();
            w.end_step().unwrap();
            c.commit().unwrap();
            sample.committed(&c, flush);
        }
        step(&w, 5, 9).unwrap();
        w.end_step().unwrap();
        sample
    }

    fn committed(&mut self, c: &Container, flush: Option<u64>) {
        let version = c.snapshot().version();
        assert_eq!(version as usize, self.versions.len());
        let content = content(c);
        assert!(content.values().all(Result::is_ok));
        self.versions.push(content);
        if flush == Some(version) {
            c.flush().unwrap();
        }
        if flush == Some(version) || c.identity().durability == Durability::Durable {
            self.flushed = version;
            self.lengths = self.store.list("").unwrap().into_iter().map(|i| (i.key, i.len)).collect();
        }
    }

    pub fn newest(&self) -> &Content {
        self.versions.last().unwrap()
    }

    /// Another store with the same objects.
    pub fn copy(&self) -> Arc<MemoryStore> {
        let out = MemoryStore::new();
        for (key, bytes) in self.objects() {
            out.put(&key, &[&bytes], drystone_store::PutMode::Replace, false).unwrap();
        }
        Arc::new(out)
    }

    pub fn objects(&self) -> Vec<(String, Vec<u8>)> {
        use drystone_store::StoreExt;
        let items = self.store.list("").unwrap();
        items.into_iter().map(|i| (i.key.clone(), self.store.read_all(&i.key, u64::MAX).unwrap())).collect()
    }

    pub fn open(&self, mode: Mode) -> Result<Container> {
        Container::open(self.store.clone(), mode)
    }
}

/// Everything that a container shows.
pub fn content(c: &Container) -> Content {
    let mut out = Content::new();
    let steps: Vec<u64> = c.snapshot().steps.iter().collect();
    for path in c.schema().names.keys() {
        let variable = c.variable(path).unwrap();
        let steps: Vec<Option<u64>> =
            if variable.steps { steps.iter().copied().map(Some).collect() } else { vec![None] };
        for step in steps {
            let cells = if variable.local { blocks(c, path, step) } else { whole(c, path, step) };
            out.insert((path.clone(), step), cells);
            if path == "large" {
                out.insert(("large#".into(), None), part(c, path));
            }
        }
    }
    out
}

fn whole(c: &Container, path: &str, step: Option<u64>) -> Result<Cells> {
    let reading = c.reading(path, None)?;
    let mut selection = Selection::all(&reading.variable().shape);
    selection.axes.splice(0..0, step.map(|s| Axis { start: s, step: 1, count: 1 }));
    if reading.variable().dtype == DType::String {
        return Ok(reading.read_strings(&selection)?.0);
    }
    let item = reading.item() as usize;
    Ok(crate::common::read(c, path, &selection)?.chunks(item).map(<[u8]>::to_vec).collect())
}

/// A few cells near both ends of the large variable, which are read by check units.
fn part(c: &Container, path: &str) -> Result<Cells> {
    let selection = Selection { axes: vec![Axis { start: 30, step: 4100, count: 2 }] };
    Ok(crate::common::read(c, path, &selection)?.chunks(4).map(<[u8]>::to_vec).collect())
}

fn blocks(c: &Container, path: &str, step: Option<u64>) -> Result<Cells> {
    let reading = c.reading(path, None)?;
    let mut out = Vec::new();
    for number in 0..reading.blocks(step)?.len() {
        let block = reading.block(step, number)?;
        let shape = block.shape();
        let item = reading.item() as usize;
        let mut bytes = vec![0; shape.iter().product::<u64>() as usize * item];
        let target = Target::dense(&mut bytes, shape, item)?;
        reading.read(&block, &target)?;
        drop(target);
        out.push(bytes);
    }
    Ok(out)
}
