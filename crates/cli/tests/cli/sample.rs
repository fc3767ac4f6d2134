//! A container with one of everything, and the command run on it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use drystone::array::Source;
use drystone::format::dtype::{DType, Member, Record, Scalar};
use drystone::format::value::Value;
use drystone::{Container, CreateOptions, NewVariable, SchemaOp, WriterOptions};
use tempfile::TempDir;

/// A folder with a container in it.
pub(crate) struct Sample {
    pub(crate) folder: TempDir,
}

pub(crate) fn variable(dtype: DType, shape: &[u64], steps: bool) -> Box<NewVariable> {
    Box::new(NewVariable {
        dtype,
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

pub(crate) fn pair() -> DType {
    let m = |name: &str, scalar, offset| Member {
        name: name.into(),
        dtype: DType::Scalar(scalar),
        shape: vec![],
        offset,
    };
    DType::Record(Record { itemsize: 8, members: vec![m("id", Scalar::I32, 0), m("weight", Scalar::F32, 4)] })
}

fn bytes<T, const N: usize>(values: impl IntoIterator<Item = T>, to: impl Fn(T) -> [u8; N]) -> Vec<u8> {
    values.into_iter().flat_map(to).collect()
}

impl Sample {
    /// Three steps of a 4 x 6 temperature (cell value: 100 step + 6 y + x), and one variable of many kinds.
    pub(crate) fn new() -> Self {
        let sample = Sample { folder: tempfile::tempdir().unwrap() };
        let c = Container::create(sample.path(), CreateOptions::default()).unwrap();
        let f4 = DType::Scalar(Scalar::F32);
        let mut temperature = variable(f4.clone(), &[4, 6], true);
        temperature.dims = vec!["y".into(), "x".into()];
        temperature.transform = "zstd:3".into();
        temperature.access = "plane:y".into();
        temperature.attrs.insert("units".into(), Value::Text("K\u{1b}[31m".into()));
        let mut local = variable(DType::Scalar(Scalar::I32), &[], false);
        local.local = true;
        let mut growing = variable(DType::Scalar(Scalar::U8), &[0, 2], false);
        growing.shape[0] = None;
        let title = Value::Text("a sample".into());
        c.apply(vec![
            SchemaOp::SetAttrs(String::new(), [("title".into(), Some(title))].into()),
            SchemaOp::CreateVariable("fields/temperature".into(), temperature),
            SchemaOp::CreateVariable(
                "fields/deep/flag".into(),
                variable(DType::Scalar(Scalar::Bool), &[2], false),
            ),
            SchemaOp::CreateVariable("wave".into(), variable(DType::Scalar(Scalar::C64), &[2], false)),
            SchemaOp::CreateVariable("brain".into(), variable(DType::Scalar(Scalar::BF16), &[2], false)),
            SchemaOp::CreateVariable("names".into(), variable(DType::String, &[3], false)),
            SchemaOp::CreateVariable("codes".into(), variable(DType::Bytes(4), &[2], false)),
            SchemaOp::CreateVariable("particles".into(), variable(pair(), &[3], false)),
            SchemaOp::CreateVariable("answer".into(), variable(DType::Scalar(Scalar::I64), &[], false)),
            SchemaOp::CreateVariable("big".into(), variable(DType::Scalar(Scalar::U16), &[300, 100], false)),
            SchemaOp::CreateVariable("mine".into(), local),
            SchemaOp::CreateVariable("growing".into(), growing),
            SchemaOp::Link("T".into(), "fields/temperature".into()),
        ])
        .unwrap();
        let w = c.writer(WriterOptions { rank: Some((0, 1)), ..WriterOptions::default() }).unwrap();
        let put = |name: &str, dtype: DType, shape: &[u64], data: Vec<u8>| {
            let item = dtype.item_size() as usize;
            w.put(name, &dtype, &Source::dense(&data, shape, item).unwrap(), None, None).unwrap();
        };
        for step in 0..3u32 {
            w.begin_step(None, false).unwrap();
            for half in 0..2u32 {
                let data = bytes((0..12).map(|i| (100 * step + 12 * half + i) as f32), f32::to_le_bytes);
                let block = Source::dense(&data, &[2, 6], 4).unwrap();
                w.put("fields/temperature", &f4, &block, Some(&[u64::from(2 * half), 0]), None).unwrap();
            }
            w.end_step().unwrap();
        }
        put("fields/deep/flag", DType::Scalar(Scalar::Bool), &[2], vec![1, 0]);
        put("wave", DType::Scalar(Scalar::C64), &[2], bytes([1.0, -2.5, 0.5, f32::NAN], f32::to_le_bytes));
        put("brain", DType::Scalar(Scalar::BF16), &[2], bytes([0x3F80, 0xBDCD], u16::to_le_bytes));
        put("codes", DType::Bytes(4), &[2], b"ab\0\0c\xffd\0".to_vec());
        let particles = bytes((0..3).map(|i: i32| (i, 0.5 * i as f32)), |(i, x)| {
            let (a, b) = (i.to_le_bytes(), x.to_le_bytes());
            [a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3]]
        });
        put("particles", pair(), &[3], particles);
        put("answer", DType::Scalar(Scalar::I64), &[], 42i64.to_le_bytes().to_vec());
        put("big", DType::Scalar(Scalar::U16), &[300, 100], bytes(0..30_000u16, u16::to_le_bytes));
        put("mine", DType::Scalar(Scalar::I32), &[2], bytes([7, 8], i32::to_le_bytes));
        let names: [&[u8]; 3] = ["plain".as_bytes(), "Größe \"x\"".as_bytes(), b""];
        w.put_strings("names", &[3], &names, None, None).unwrap();
        w.close().unwrap();
        let other = c.writer(WriterOptions::default()).unwrap();
        let nine = 9i32.to_le_bytes();
        let block = Source::dense(&nine, &[1], 4).unwrap();
        other.put("mine", &DType::Scalar(Scalar::I32), &block, None, None).unwrap();
        other.close().unwrap();
        c.commit().unwrap();
        sample
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("run.dry")
    }

    /// Leaves two closed, uncommitted steps (3 and 4) of two ranks, and step 5 that rank 1 has not closed.
    pub(crate) fn leave_uncommitted(&self) {
        let c = Container::open(self.path(), drystone::Mode::ReadWrite).unwrap();
        for rank in 0..2u32 {
            let w = c.writer(WriterOptions { rank: Some((rank, 2)), ..WriterOptions::default() }).unwrap();
            for step in 3..if rank == 0 { 6 } else { 5 } {
                w.begin_step(Some(step), false).unwrap();
                let data = bytes((0..12).map(|_| step as f32), f32::to_le_bytes);
                let block = Source::dense(&data, &[2, 6], 4).unwrap();
                let f4 = DType::Scalar(Scalar::F32);
                w.put("fields/temperature", &f4, &block, Some(&[u64::from(2 * rank), 0]), None).unwrap();
                w.end_step().unwrap();
            }
            w.close().unwrap();
        }
    }

    /// Flips a bit in the middle of the largest segment, which is in `big`.
    pub(crate) fn damage(&self) {
        let log = self.path().join("log");
        let segments = std::fs::read_dir(log).unwrap().map(|f| f.unwrap().path());
        let segments = segments.filter(|p| p.extension().is_some_and(|e| e == "seg"));
        let segment = segments.max_by_key(|p| std::fs::metadata(p).unwrap().len()).unwrap();
        let mut bytes = std::fs::read(&segment).unwrap();
        // Preallocated space is zeros.
        let meant: Vec<usize> = (0..bytes.len()).filter(|&i| bytes[i] != 0).collect();
        bytes[meant[meant.len() / 2]] ^= 1;
        std::fs::write(&segment, bytes).unwrap();
    }

    /// Every file with its bytes, to check that nothing was written.
    pub(crate) fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut out = Vec::new();
        let mut folders = vec![self.path()];
        while let Some(folder) = folders.pop() {
            for file in std::fs::read_dir(folder).unwrap() {
                let path = file.unwrap().path();
                if path.is_dir() {
                    folders.push(path)
                } else {
                    out.push((path.clone(), std::fs::read(&path).unwrap()))
                }
            }
        }
        out.sort();
        out
    }

    /// Runs `drystone COMMAND PATH ARGS…` on the sample.
    pub(crate) fn run(&self, command: &str, args: &[&str]) -> Ran {
        let path = self.path();
        let mut all = vec![command, path.to_str().unwrap()];
        all.extend(args);
        run(&all)
    }

    /// Runs the command with `--json`; its output must be JSON.
    pub(crate) fn json(&self, command: &str, args: &[&str]) -> serde_json::Value {
        let ran = self.run(command, &[args, &["--json"]].concat());
        assert_eq!(ran.err, "", "{command} {args:?}");
        serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{command} {args:?}: {e}:\n{}", ran.out))
    }
}

/// The result of a run of the command.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) bytes: Vec<u8>,
}

pub(crate) fn command() -> Command {
    let mut command = Command::new(Path::new(env!("CARGO_BIN_EXE_drystone")));
    command.stdin(Stdio::null());
    command
}

pub(crate) fn run(args: &[&str]) -> Ran {
    let Output { status, stdout, stderr } = command().args(args).output().unwrap();
    Ran {
        code: status.code().expect("ended by a signal"),
        out: String::from_utf8_lossy(&stdout).into_owned(),
        err: String::from_utf8_lossy(&stderr).into_owned(),
        bytes: stdout,
    }
}
