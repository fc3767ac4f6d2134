//! `auto`: which chain serves some data best, found by trying a few on samples of it.
//!
//! The choice is made for a block before it is encoded, and the chain that won
//! is recorded like any other: a reader needs no configuration and cannot tell
//! that nobody chose it by hand. There is no clock here: the caller brings one.
//!
//! Invariants
//! - no data is stored larger than raw by more than the byte that every chain may cost;
//! - what is tried is bounded: a fixed list of chains on samples of bounded size;
//! - only chains that give back every bit are tried.

use std::fmt;
use std::time::Duration;

use crate::params::{Params, named_int};
use crate::stats::ScalarKind;
use crate::text::CodecSpec;
use crate::{Chain, ListItem, Logical, Param, Scratch, TransformError};

const GOALS: [&str; 3] = ["store", "size", "speed"];
/// What a store is taken for when nobody said or measured, in MB/s: one process's share of a parallel file system.
const DEFAULT_BANDWIDTH: u64 = 200;
/// Stores up to this, in MB/s, are worth codecs that are slower than they.
const SLOW_STORE: f64 = 100.0e6;
/// What `auto:speed` demands of a codec: the share of the bytes that may remain.
const WORTH_HAVING: f64 = 0.95;

/// What `auto` minimises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// The time to encode and to store.
    Store,
    /// The stored bytes.
    Size,
    /// The time to encode and decode, of what saves a twentieth or more.
    Speed,
}

/// The transform `auto`, with what it is to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Auto {
    /// What is minimised.
    pub goal: Goal,
    /// Bandwidth of the store in MB/s; taken as measured or as a default if none.
    pub bandwidth: Option<u64>,
}

/// A transform as it is asked for: a chain, or the wish to have one chosen.
#[derive(Clone, Debug)]
pub enum Transform {
    /// These codecs.
    Chain(Chain),
    /// What suits the data.
    Auto(Auto),
}

/// One chain that was tried.
#[derive(Clone, Debug)]
pub struct Trial {
    /// The chain.
    pub chain: Chain,
    /// Bytes that the samples took.
    pub bytes: usize,
    /// Time to encode the samples.
    pub encode: Duration,
    /// Time to decode the samples; zero where the goal does not ask for it.
    pub decode: Duration,
}

/// What was tried, and what won. Prints as a table.
#[derive(Clone, Debug)]
pub struct Choice {
    auto: Auto,
    sampled: usize,
    trials: Vec<Trial>,
    best: usize,
}

/// A part of the data, dense in row-major order, with its own logical description.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The bytes.
    pub data: Vec<u8>,
    /// What they are; the shape is the sample's.
    pub logical: Logical,
}

impl Auto {
    fn from_params(params: &[Param]) -> Result<Auto, TransformError> {
        let params = Params::read("auto", &["goal", "bandwidth"], params)?;
        let goal = match params.word("goal", &GOALS)? {
            Some("size") => Goal::Size,
            Some("speed") => Goal::Speed,
            _ => Goal::Store,
        };
        Ok(Auto { goal, bandwidth: params.int("bandwidth", 1..=1_000_000)?.map(|mb| mb as u64) })
    }

    fn spec(&self) -> CodecSpec {
        let mut params = match self.goal {
            Goal::Store => Vec::new(),
            Goal::Size => vec![Param::Text("size".into())],
            Goal::Speed => vec![Param::Text("speed".into())],
        };
        params.extend(self.bandwidth.map(|mb| named_int("bandwidth", mb as i64)));
        CodecSpec { name: "auto".into(), params }
    }

    /// Bytes per second that storing is reckoned with; `measured` counts where the text does not say.
    fn bandwidth(&self, measured: Option<u64>) -> f64 {
        self.bandwidth.or(measured).unwrap_or(DEFAULT_BANDWIDTH) as f64 * 1e6
    }

    /// The chains that are worth trying on data of this kind. What this program does not know is left out.
    pub fn candidates(&self, logical: &Logical) -> Vec<Chain> {
        let number = logical.kind.size() > 1 && logical.kind != ScalarKind::Other;
        let fast: &[&str] = match (number, logical.scalar) {
            (true, _) => &["identity", "blosc:lz4:5:shuffle", "blosc:zstd:1:shuffle", "zstd:1"],
            (false, 1) => &["identity", "lz4", "zstd:1", "blosc:lz4:5:bitshuffle"],
            (false, _) => &["identity", "lz4", "blosc:lz4:5:shuffle", "zstd:1"],
        };
        let strong: &[&str] = match (number, logical.scalar) {
            (true, _) => &[
                "shuffle,bytedelta,zstd:1",
                "lorenzo:1,shuffle,zstd:1",
                "lorenzo,shuffle,zstd:1",
                "lorenzo,blosc:lz4:5:bitshuffle",
                "isobar",
            ],
            (false, 1) => &["zstd:3", "blosc:zstd:1:bitshuffle", "delta,zstd:1"],
            (false, _) => &["blosc:zstd:1:shuffle", "zstd:3"],
        };
        let small: &[&str] = match (number, logical.scalar) {
            (true, 2) => &["zstd:9", "shuffle,zstd:9", "pcodec:8", "lorenzo,pcodec:8,dtype=u2,delta=0"],
            (true, 4) => &[
                "zstd:9",
                "shuffle,zstd:9",
                "shuffle,bytedelta,zstd:9",
                "lorenzo,shuffle,zstd:9",
                "pcodec:4",
                "pcodec:8",
                "lorenzo:1,pcodec:8,dtype=u4,delta=0",
                "lorenzo:2,pcodec:8,dtype=u4,delta=0",
                "lorenzo,pcodec:8,dtype=u4,delta=0",
            ],
            (true, _) => &[
                "zstd:9",
                "shuffle,zstd:9",
                "shuffle,bytedelta,zstd:9",
                "lorenzo,shuffle,zstd:9",
                "pcodec:4",
                "pcodec:8",
                "lorenzo:1,pcodec:8,dtype=u8,delta=0",
                "lorenzo:2,pcodec:8,dtype=u8,delta=0",
                "lorenzo,pcodec:8,dtype=u8,delta=0",
            ],
            (false, 1) => &["zstd:9", "zstd:19", "blosc:zstd:5:bitshuffle"],
            (false, _) => &["zstd:9", "zstd:19", "shuffle,zstd:9"],
        };
        let strong = if self.goal == Goal::Speed { &[] } else { strong };
        let small = if self.takes_its_time() { small } else { &[] };
        let texts = fast.iter().chain(strong).chain(small);
        let known = texts.filter_map(|text| Chain::parse(text).ok());
        known.filter(|chain| chain.check_takes(logical).is_ok()).collect()
    }

    /// Whether codecs that are slower than most stores may win.
    fn takes_its_time(&self) -> bool {
        self.goal == Goal::Size || self.goal == Goal::Store && self.bandwidth(None) <= SLOW_STORE
    }

    /// Elements of one of three samples: more where slow codecs are tried, which need them to show what they can.
    pub fn sample_count(&self) -> u64 {
        if self.takes_its_time() { 16 << 10 } else { 8 << 10 }
    }

    /// Tries every candidate on the samples. `now` is a clock; `measured` is the store's bandwidth in MB/s, if it is known.
    pub fn choose(
        &self,
        samples: &[Sample],
        measured: Option<u64>,
        now: &mut dyn FnMut() -> Duration,
        scratch: &mut Scratch,
    ) -> Result<Choice, TransformError> {
        let mut resolved = *self;
        resolved.bandwidth = self.bandwidth.or(measured);
        let sampled = samples.iter().map(|sample| sample.data.len()).sum();
        let mut choice = Choice { auto: resolved, sampled, trials: Vec::new(), best: 0 };
        let candidates = samples.first().map_or(vec![Chain::identity()], |s| resolved.candidates(&s.logical));
        let mut stored = Vec::new();
        let mut decoded = Vec::new();
        for chain in candidates {
            let mut trial = Trial { chain, bytes: 0, encode: Duration::ZERO, decode: Duration::ZERO };
            for sample in samples {
                stored.clear();
                let begin = now();
                trial.chain.encode(&sample.data, &sample.logical, &mut stored, scratch)?;
                let encoded = now();
                trial.encode += encoded.saturating_sub(begin);
                trial.bytes += stored.len();
                if self.goal == Goal::Speed {
                    decoded.resize(sample.data.len(), 0);
                    trial.chain.decode(&stored, &sample.logical, &mut decoded, scratch)?;
                    trial.decode += now().saturating_sub(encoded);
                }
            }
            choice.trials.push(trial);
            let last = choice.trials.len() - 1;
            if choice.cost(last) < choice.cost(choice.best) {
                choice.best = last;
            }
        }
        Ok(choice)
    }

    /// Places and extents of the samples of a block of this shape: up to three boxes of about `count` elements, long along
    /// the fastest axis, at the beginning, in the middle and at the end. Together they are about a sixteenth of the block at most,
    /// if it is not tiny.
    pub fn boxes(shape: &[u64], count: u64) -> Vec<(Vec<u64>, Vec<u64>)> {
        let total = shape.iter().fold(1u64, |n, extent| n.saturating_mul(*extent));
        if total == 0 {
            return Vec::new();
        }
        let count = count.min((total / 48).max(1024));
        let mut extent = shape.to_vec();
        let mut left = count.max(1);
        // Each axis takes its share of what is left, the fastest four shares.
        for (done, axis) in (0..shape.len()).rev().enumerate() {
            let others = (shape.len() - done) as f64;
            let share =
                (left as f64).powf(1.0 / others) * if done == 0 && shape.len() > 1 { 4.0 } else { 1.0 };
            extent[axis] = extent[axis].min((share as u64).max(1));
            left = (left / extent[axis]).max(1);
        }
        let volume: u64 = extent.iter().product();
        let places = if volume == total { 1 } else { 3 };
        (0..places)
            .map(|i| (shape.iter().zip(&extent).map(|(n, e)| (n - e) * i / 2).collect(), extent.clone()))
            .collect()
    }
}

impl Transform {
    /// Reads transform text: `auto` with its parameters alone, or a chain.
    pub fn parse(text: &str) -> Result<Transform, TransformError> {
        match CodecSpec::parse_all(text)?.as_slice() {
            [only] if only.name == "auto" => Ok(Transform::Auto(Auto::from_params(&only.params)?)),
            specs if specs.iter().any(|spec| spec.name == "auto") => Err(TransformError::bad_parameter(
                "auto",
                "chooses whole chains, so it stands alone; leave the other codecs out",
            )),
            _ => Ok(Transform::Chain(Chain::parse(text)?)),
        }
    }

    /// Reads a transform given as a list of texts and Zarr codec objects.
    pub fn parse_list(items: &[ListItem]) -> Result<Transform, TransformError> {
        match items {
            [ListItem::Text(text)] => Transform::parse(text),
            _ => Ok(Transform::Chain(Chain::parse_list(items)?)),
        }
    }

    /// The text to record with the variable: [`Transform::parse`] makes the same of it.
    pub fn canonical(&self) -> String {
        match self {
            Transform::Chain(chain) => chain.canonical(),
            Transform::Auto(auto) => auto.spec().to_string(),
        }
    }

    /// Whether nothing is to be done to the data.
    pub fn is_identity(&self) -> bool {
        matches!(self, Transform::Chain(chain) if chain.is_identity())
    }

    /// Whether data of this kind can be taken; see [`Chain::check_takes`].
    pub fn check_takes(&self, logical: &Logical) -> Result<(), TransformError> {
        match self {
            Transform::Chain(chain) => chain.check_takes(logical),
            Transform::Auto(_) => Ok(()),
        }
    }
}

impl Choice {
    /// The chain that won.
    pub fn chain(&self) -> Chain {
        self.trials.get(self.best).map_or(Chain::identity(), |trial| trial.chain.clone())
    }

    /// Everything that was tried, in the order of trying.
    pub fn trials(&self) -> &[Trial] {
        &self.trials
    }

    /// Stored bytes per decoded byte that the winner is expected to need.
    pub fn expected_share(&self) -> f64 {
        let bytes = self.trials.get(self.best).map_or(self.sampled, |trial| trial.bytes);
        bytes as f64 / self.sampled.max(1) as f64
    }

    /// What the goal makes of a trial: bytes, or nanoseconds.
    fn cost(&self, trial: usize) -> f64 {
        let Some(trial) = self.trials.get(trial) else { return f64::INFINITY };
        let transfer = trial.bytes as f64 / self.auto.bandwidth(None);
        let (encode, decode) = (trial.encode.as_secs_f64(), trial.decode.as_secs_f64());
        match self.auto.goal {
            Goal::Size => trial.bytes as f64,
            Goal::Store => encode + transfer,
            Goal::Speed if trial.bytes as f64 > WORTH_HAVING * self.sampled as f64 => f64::MAX,
            Goal::Speed => encode + decode,
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let goal = match self.auto.goal {
            Goal::Store => "least time to encode and store",
            Goal::Size => "fewest bytes",
            Goal::Speed => "least time to encode and decode of what saves a twentieth",
        };
        writeln!(
            f,
            "{}: {goal}, store {:.0} MB/s, samples of {} bytes",
            self.auto.spec(),
            self.auto.bandwidth(None) / 1e6,
            self.sampled
        )?;
        writeln!(f, "  {:<40} {:>7} {:>12} {:>12}", "chain", "ratio", "encode MB/s", "decode MB/s")?;
        let rate = |time: Duration| match time {
            Duration::ZERO => "-".to_owned(),
            time => format!("{:.0}", self.sampled as f64 / 1e6 / time.as_secs_f64()),
        };
        for (i, trial) in self.trials.iter().enumerate() {
            let mark = if i == self.best { '*' } else { ' ' };
            let ratio = self.sampled as f64 / trial.bytes.max(1) as f64;
            let (encode, decode) = (rate(trial.encode), rate(trial.decode));
            writeln!(f, "{mark} {:<40} {ratio:>7.2} {encode:>12} {decode:>12}", trial.chain.canonical())?;
        }
        Ok(())
    }
}
