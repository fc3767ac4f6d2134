//! Functions that the engine's tests share.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::sync::Arc;

use drystone::array::{Source, Target};
use drystone::{Container, CreateOptions, NewVariable, SchemaOp};
use drystone_format::dtype::{DType, Scalar};
use drystone_plan::selection::Selection;
use drystone_store::MemoryStore;

pub fn f4() -> DType {
    DType::Scalar(Scalar::F32)
}

pub fn create(path: &str, dtype: DType, shape: &[u64], set: impl FnOnce(&mut NewVariable)) -> SchemaOp {
    let mut new = NewVariable {
        dtype,
        shape: shape.iter().map(|n| Some(*n)).collect(),
        dims: Vec::new(),
        steps: false,
        local: false,
        transform: String::new(),
        chunks: None,
        access: String::new(),
        meaning: None,
        fill: None,
        attrs: Default::default(),
    };
    set(&mut new);
    SchemaOp::CreateVariable(path.into(), Box::new(new))
}

pub fn memory() -> Container {
    Container::create(Arc::new(MemoryStore::new()), CreateOptions::default()).unwrap()
}

pub fn dense<'a>(bytes: &'a [u8], shape: &[u64], item: usize) -> Source<'a> {
    Source::dense(bytes, shape, item).unwrap()
}

pub fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

pub fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}

pub fn ramp_f32(n: usize) -> Vec<u8> {
    (0..n).flat_map(|i| (i as f32).to_le_bytes()).collect()
}

pub fn read(c: &Container, path: &str, selection: &Selection) -> drystone::Result<Vec<u8>> {
    let reading = c.reading(path, None)?;
    let shape = selection.shape();
    let mut out = vec![0xA5; (shape.iter().product::<u64>() * u64::from(reading.item())) as usize];
    let target = Target::dense(&mut out, &shape, reading.item() as usize)?;
    reading.read(selection, &target)?;
    drop(target);
    Ok(out)
}

pub fn read_all(c: &Container, path: &str) -> Vec<u8> {
    let shape = c.reading(path, None).unwrap().shape();
    read(c, path, &Selection::all(&shape)).unwrap()
}

pub fn read_box(c: &Container, path: &str, offset: &[u64], count: &[u64]) -> Vec<u8> {
    read(c, path, &Selection::boxed(offset, count)).unwrap()
}
