//! A store whose objects run read programs and can fail in several ways, for tests of reads at the store.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use drystone_plan::selection::Axis;
use drystone_program::{Budget, Program, ProgramError, Refusal, Source, SourceError, Why, run};
use drystone_store::{
    Far, Features, LocalFiles, MemoryStore, Pending, Request, Result as StoreResult, Store, StoreError,
};

/// A memory store, far away, whose objects run read programs.
#[derive(Debug)]
pub struct Keeper {
    inner: Arc<MemoryStore>,
    name: String,
    /// The failure that it simulates.
    fails: AtomicU8,
    pub calls: AtomicU64,
    read: AtomicU64,
    pub programs: Mutex<Vec<Vec<u8>>>,
    /// The milliseconds that a program takes in addition, and those that a MiB takes on the link.
    pub slow: AtomicU64,
    pub link: AtomicU64,
}

pub const SOUND: u8 = 0;
pub const UNSUPPORTED: u8 = 1;
pub const OLD: u8 = 2;
pub const BROKEN: u8 = 3;
pub const GARBAGE: u8 = 4;
pub const NO_TIME: u8 = 5;
pub const CUT: u8 = 6;
pub const FLIPPED: u8 = 7;
pub const WAYS: u8 = 8;
/// Runs only programs of version 1, which is not a failure.
pub const EARLIER: u8 = 9;

struct Object<'a>(&'a Keeper, &'a str);

impl Source for Object<'_> {
    fn read(&mut self, offset: u64, out: &mut [u8]) -> Result<(), SourceError> {
        self.0.read.fetch_add(out.len() as u64, Ordering::Relaxed);
        self.0.inner.read(self.1, offset, out).map_err(|e| SourceError::Failed(e.to_string()))
    }
}

impl Keeper {
    pub fn new(inner: &Arc<MemoryStore>, fails: u8) -> Arc<Keeper> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let name = format!("keeper {}", NUMBER.fetch_add(1, Ordering::Relaxed));
        Arc::new(Keeper {
            inner: inner.clone(),
            name,
            fails: fails.into(),
            calls: AtomicU64::new(0),
            read: AtomicU64::new(0),
            programs: Mutex::default(),
            slow: AtomicU64::new(0),
            link: AtomicU64::new(0),
        })
    }

    fn failed(&self, operation: &'static str) -> StoreError {
        let source = std::io::Error::from_raw_os_error(5);
        StoreError::Io { key: "k".into(), store: self.name.clone(), operation, source }
    }
}

impl Store for Keeper {
    drystone_store::forward! {
        inner =>
        watch, unchanged, len, read_whole, append, write_at, put, upload, list, delete, sweep, sync
    }

    fn features(&self) -> Features {
        let far = Some(Far { latency: Duration::from_millis(1), requests: 16, seen: None, unsettled: None });
        Features { exec: true, far, ..self.inner.features() }
    }
    fn describe(&self) -> String {
        self.name.clone()
    }
    fn device(&self) -> Option<String> {
        Some(self.name.clone())
    }
    fn local(&self) -> Option<&dyn LocalFiles> {
        None
    }
    fn read(&self, key: &str, offset: u64, out: &mut [u8]) -> StoreResult<()> {
        let time = (self.link.load(Ordering::Relaxed) * 1000 * out.len() as u64) >> 20;
        std::thread::sleep(Duration::from_micros(time));
        self.inner.read(key, offset, out)
    }
    fn exec(&self, key: &str, method: &str, input: &[u8]) -> StoreResult<Vec<u8>> {
        let fails = self.fails.load(Ordering::Relaxed);
        let unsupported =
            || StoreError::Unsupported { operation: format!("exec of {method}"), store: self.name.clone() };
        match (fails, method) {
            (UNSUPPORTED, _) => Err(unsupported()),
            (OLD, "dry.version") => Ok(b"dry.read.0".to_vec()),
            (EARLIER, "dry.version") => Ok(b"dry.version dry.read.1".to_vec()),
            (_, "dry.version") => Ok(b"dry.version dry.read.1 dry.read.2".to_vec()),
            (BROKEN, _) => Err(self.failed("exec")),
            (GARBAGE, _) => Ok(vec![7; 100]),
            (EARLIER, "dry.read.2") => Err(unsupported()),
            (_, "dry.read.1" | "dry.read.2") => {
                let mut budget = Budget::OBJECT_CLASS;
                let call = self.calls.fetch_add(1, Ordering::Relaxed);
                self.programs.lock().unwrap().push(input.to_vec());
                std::thread::sleep(Duration::from_millis(self.slow.load(Ordering::Relaxed)));
                let program = match Program::decode(input) {
                    Ok(program) => program,
                    Err(ProgramError::Version(_)) => return Ok(Refusal::new(Why::Version, "v").reply()),
                    Err(error) => panic!("{error}"),
                };
                if fails == NO_TIME && call.is_multiple_of(2) {
                    budget.steps = 1;
                }
                let mut left = if fails == NO_TIME { 2 } else { 1 << 20 };
                let mut reply = run(&program, &mut Object(self, key), &budget, &mut || {
                    left -= 1;
                    left > 0
                });
                match fails {
                    CUT => reply.truncate(reply.len() / 2),
                    FLIPPED => {
                        let middle = reply.len() / 2;
                        reply[middle] ^= 4;
                    }
                    _ => {}
                }
                Ok(reply)
            }
            _ => Err(unsupported()),
        }
    }
    fn submit(&self, request: Request) -> Pending {
        Pending::completed(request.execute_on(self))
    }
}

pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n.max(1)
    }

    pub fn axis(&mut self, n: u64) -> Axis {
        let step = 1 + self.below(4) * self.below(2);
        let count = 1 + self.below(n.div_ceil(step));
        let start = self.below(n - (count - 1) * step);
        if self.below(4) == 0 {
            Axis { start: start + (count - 1) * step, step: -(step as i64), count }
        } else {
            Axis { start, step: step as i64, count }
        }
    }
}
