//! `auto`: chooses a chain for some data by trying several on samples of it.
//!
//! The choice is made for a block before it is encoded, and the chosen chain is recorded like any other: a reader needs
//! no configuration, and automatic choice makes no difference to it. This module has no clock: the caller passes one.
//!
//! Invariants
//! - no data is stored larger than raw by more than the one byte that every chain may add;
//! - the trials are bounded: a fixed list of chains, and samples of bounded size. Only chains that may still win are
//!   tried on more than one sample;
//! - only lossless chains are tried.

use std::fmt;
use std::time::Duration;

use crate::params::{Params, named_int};
use crate::stats::ScalarKind;
use crate::text::CodecSpec;
use crate::{Chain, ListItem, Logical, Param, Scratch, TransformError};

const GOALS: [&str; 4] = ["store", "size", "speed", "read"];
/// The default bandwidth of a store, in MB/s, if it was neither declared nor measured: one process's share of a
/// parallel file system.
const DEFAULT_BANDWIDTH: u64 = 200;
/// Up to this bandwidth of the store, slow codecs may still save time.
const SLOW_STORE: f64 = 60.0e6;
/// `auto:speed` accepts a codec only if at most this share of the bytes remains.
const WORTH_HAVING: f64 = 0.95;
/// A chain whose cost for the first sample exceeds the best one's by more than this factor is not tried again. The
/// first factor is for goals of time, the second for `size`.
const OUT_OF_REACH: (f64, f64) = (1.2, 1.1);
/// A sample's extent along the fastest axis is a multiple of this many elements.
const GROUP: u64 = 8;
/// A chain is not timed again if it would lose to the best so far even with this part of its time for the first sample.
const WARM: f64 = 0.4;
/// Where time counts, at most this many chains are tried on the other samples. If more are within reach, storing takes
/// so long that they differ little.
const MOST_COMPARED: usize = 6;
/// Positions of samples along the axes, in 16ths. None is at an edge or in the middle, where fields often differ from
/// the rest (boundaries, symmetry, initial conditions).
const PLACES: [[u64; 4]; 3] = [[3, 13, 6, 10], [10, 5, 12, 3], [13, 9, 3, 6]];
/// The most that is hoped for from an untried chain: this part of its usual time, and of the smallest size so far.
const AT_BEST: f64 = 0.65;
/// If some chain compresses a sample below this part of its size, the sample says nothing about the chains that lost on
/// it.
const TELLS_NOTHING: f64 = 0.02;

/// The quantity that `auto` minimises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// The time to encode and to store.
    Store,
    /// The stored bytes.
    Size,
    /// The time to encode and decode, among chains that save at least a twentieth of the bytes.
    Speed,
    /// The time to fetch and decode; the time to encode does not count.
    Read,
}

/// The transform `auto`, with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Auto {
    /// The quantity to minimise.
    pub goal: Goal,
    /// Bandwidth of the store in MB/s; if not given, the measured one or a default.
    pub bandwidth: Option<u64>,
}

/// A requested transform: a chain, or `auto`.
#[derive(Clone, Debug)]
pub enum Transform {
    /// A given chain of codecs.
    Chain(Chain),
    /// The chain that suits the data best.
    Auto(Auto),
}

/// One tried chain and its results.
#[derive(Clone, Debug)]
pub struct Trial {
    /// The chain.
    pub chain: Chain,
    /// Bytes of the samples it was tried on.
    pub sampled: usize,
    /// Bytes of their encoded form.
    pub bytes: usize,
    /// Time to encode them.
    pub encode: Duration,
    /// Time to decode them; zero if it does not count for the goal.
    pub decode: Duration,
}

/// The trials, and the winner. Prints as a table.
#[derive(Clone, Debug)]
pub struct Choice {
    auto: Auto,
    trials: Vec<Trial>,
    best: usize,
}

/// A part of the data, dense in row-major order, with a logical description of its own.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The bytes.
    pub data: Vec<u8>,
    /// The sample's logical description, with the sample's shape.
    pub logical: Logical,
}

impl Auto {
    fn from_params(params: &[Param]) -> Result<Auto, TransformError> {
        let params = Params::read("auto", &["goal", "bandwidth"], params)?;
        let goal = match params.word("goal", &GOALS)? {
            Some("size") => Goal::Size,
            Some("speed") => Goal::Speed,
            Some("read") => Goal::Read,
            _ => Goal::Store,
        };
        Ok(Auto { goal, bandwidth: params.int("bandwidth", 1..=1_000_000)?.map(|mb| mb as u64) })
    }

    fn spec(&self) -> CodecSpec {
        let mut params = match self.goal {
            Goal::Store => Vec::new(),
            Goal::Size => vec![Param::Text("size".into())],
            Goal::Speed => vec![Param::Text("speed".into())],
            Goal::Read => vec![Param::Text("read".into())],
        };
        params.extend(self.bandwidth.map(|mb| named_int("bandwidth", mb as i64)));
        CodecSpec { name: "auto".into(), params }
    }

    /// The assumed bytes per second of storing. `measured` is used if the text gives no bandwidth.
    fn bandwidth(&self, measured: Option<u64>) -> f64 {
        self.bandwidth.or(measured).unwrap_or(DEFAULT_BANDWIDTH) as f64 * 1e6
    }

    /// The chains that are worth trying on data of this kind. Codecs that are neither built in nor registered are left
    /// out.
    pub fn candidates(&self, logical: &Logical) -> Vec<Chain> {
        self.listed(logical).into_iter().map(|(chain, _)| chain).collect()
    }

    /// The candidates, fastest first, each with its usual nanoseconds per byte for encoding.
    fn listed(&self, logical: &Logical) -> Vec<(Chain, f64)> {
        let number = logical.kind.size() > 1 && logical.kind != ScalarKind::Other;
        let fast: &[(&str, f64)] = match (number, logical.scalar) {
            (true, _) => &[
                ("identity", 0.0),
                ("blosc:lz4:5:shuffle", 0.6),
                ("blosc:lz4:3:bitshuffle", 0.6),
                ("shuffle,zstd:-5", 0.8),
                ("shuffle,zstd:1", 1.0),
            ],
            (false, 1) => {
                &[("identity", 0.0), ("lz4", 1.0), ("zstd:1", 2.0), ("blosc:lz4:5:bitshuffle", 1.0)]
            }
            (false, _) => &[("identity", 0.0), ("lz4", 1.0), ("blosc:lz4:5:shuffle", 0.6), ("zstd:1", 2.0)],
        };
        let strong: &[(&str, f64)] = match (number, logical.scalar) {
            (true, _) => &[
                ("lorenzo,blosc:lz4:5:bitshuffle", 0.9),
                ("lorenzo,blosc:lz4:5:shuffle", 0.9),
                ("lorenzo,shuffle,zstd:-5", 1.1),
                ("shuffle,bytedelta,zstd:1", 1.2),
                ("lorenzo,shuffle,zstd:1", 1.5),
                ("lorenzo:1,shuffle,zstd:1", 1.5),
                ("shuffle,zstd:3", 1.8),
                ("zstd:1", 2.5),
            ],
            (false, 1) => &[("zstd:3", 4.0), ("blosc:zstd:1:bitshuffle", 2.0), ("delta,zstd:1", 2.0)],
            (false, _) => &[("blosc:zstd:1:shuffle", 2.0), ("zstd:3", 4.0)],
        };
        let small: &[(&str, f64)] = match (number, logical.scalar) {
            (true, 2) => &[
                ("isobar", 3.0),
                ("zstd:9", 15.0),
                ("shuffle,zstd:9", 10.0),
                ("pcodec:8", 8.0),
                ("lorenzo,pcodec:8,dtype=u2,delta=0", 8.0),
            ],
            (true, 4) => &[
                ("isobar", 3.0),
                ("zstd:9", 15.0),
                ("shuffle,zstd:9", 10.0),
                ("shuffle,bytedelta,zstd:9", 12.0),
                ("lorenzo,shuffle,zstd:9", 10.0),
                ("pcodec:4", 6.0),
                ("pcodec:8", 8.0),
                ("lorenzo:1,pcodec:8,dtype=u4,delta=0", 8.0),
                ("lorenzo:2,pcodec:8,dtype=u4,delta=0", 8.0),
                ("lorenzo,pcodec:8,dtype=u4,delta=0", 8.0),
            ],
            (true, _) => &[
                ("isobar", 3.0),
                ("zstd:9", 15.0),
                ("shuffle,zstd:9", 10.0),
                ("shuffle,bytedelta,zstd:9", 12.0),
                ("lorenzo,shuffle,zstd:9", 10.0),
                ("pcodec:4", 6.0),
                ("pcodec:8", 8.0),
                ("lorenzo:1,pcodec:8,dtype=u8,delta=0", 8.0),
                ("lorenzo:2,pcodec:8,dtype=u8,delta=0", 8.0),
                ("lorenzo,pcodec:8,dtype=u8,delta=0", 8.0),
            ],
            (false, 1) => &[("zstd:9", 15.0), ("zstd:19", 300.0), ("blosc:zstd:5:bitshuffle", 15.0)],
            (false, _) => &[("zstd:9", 15.0), ("zstd:19", 300.0), ("shuffle,zstd:9", 10.0)],
        };
        let strong = if self.goal == Goal::Speed { &[] } else { strong };
        let small = if self.takes_its_time() { small } else { &[] };
        // With only one axis these are the same.
        let axes = logical.shape.iter().filter(|extent| **extent > 1).count();
        let fits = |text: &str| match text.strip_prefix("lorenzo:") {
            Some(rest) => axes > rest.bytes().next().map_or(0, |digit| usize::from(digit - b'0')),
            None => true,
        };
        let listed = fast.iter().chain(strong).chain(small).filter(|(text, _)| fits(text));
        let known = listed.filter_map(|(text, cost)| Chain::parse(text).ok().map(|chain| (chain, *cost)));
        known.filter(|(chain, _)| chain.check_takes(logical).is_ok()).collect()
    }

    /// Whether codecs that are slower than most stores may win.
    fn takes_its_time(&self) -> bool {
        match self.goal {
            Goal::Size | Goal::Read => true,
            Goal::Store => self.bandwidth(None) <= SLOW_STORE,
            Goal::Speed => false,
        }
    }

    /// Number of elements of each of three samples. It is larger where slow codecs are tried, which show their ratio
    /// only on more data, and largest where writing may take long: codecs that search for repetitions find fewer in a
    /// small box, and start with empty tables.
    pub fn sample_count(&self) -> u64 {
        match self.goal {
            Goal::Size | Goal::Read => 64 << 10,
            Goal::Store | Goal::Speed if self.takes_its_time() => 16 << 10,
            Goal::Store | Goal::Speed => 8 << 10,
        }
    }

    /// Tries every candidate on one sample, and those that may still win on the others. `now` is a clock. `measured` is
    /// the store's bandwidth in MB/s, if known.
    pub fn choose(
        &self,
        samples: &[Sample],
        measured: Option<u64>,
        now: &mut dyn FnMut() -> Duration,
        scratch: &mut Scratch,
    ) -> Result<Choice, TransformError> {
        let mut resolved = *self;
        resolved.bandwidth = self.bandwidth.or(measured);
        let candidates =
            samples.first().map_or(vec![(Chain::identity(), 0.0)], |s| resolved.listed(&s.logical));
        let usual: Vec<f64> = candidates.iter().map(|(_, cost)| *cost).collect();
        let mut choice = Choice::of(resolved, candidates.into_iter().map(|(chain, _)| chain).collect());
        let mut buffers = (Vec::new(), Vec::new());
        let first = samples.len() / 2;
        if let Some(sample) = samples.get(first) {
            for (at, usual) in usual.into_iter().enumerate() {
                if choice.cannot_win(usual) {
                    continue;
                }
                if let Some(trial) = choice.trials.get_mut(at) {
                    trial.see(sample, resolved.decodes(), now, &mut buffers, scratch)?;
                }
                // At its first use a codec allocates its tables, which the kernel zeroes, so its first time is too
                // long.
                if choice.may_win_warm(at)
                    && let Some(trial) = choice.trials.get_mut(at)
                {
                    trial.see_again(sample, &resolved, now, &mut buffers, scratch)?;
                }
                choice.settle([choice.best, at]);
            }
        }
        let within = choice.within_reach();
        let others = samples.iter().enumerate().filter(|(i, _)| *i != first);
        for (_, sample) in others {
            for &at in &within {
                if let Some(trial) = choice.trials.get_mut(at) {
                    trial.see(sample, resolved.decodes(), now, &mut buffers, scratch)?;
                }
            }
        }
        choice.settle(within);
        Ok(choice)
    }

    /// Whether the time to decode counts for the goal.
    fn decodes(&self) -> bool {
        matches!(self.goal, Goal::Speed | Goal::Read)
    }

    /// Whether the time to encode counts for the goal.
    fn encodes(&self) -> bool {
        matches!(self.goal, Goal::Speed | Goal::Store)
    }

    /// Offsets and extents of the samples of a block of this shape: up to three boxes of about `count`
    /// elements, long along the fastest axis. Together they are about a sixteenth of the block at most,
    /// unless it is tiny.
    pub fn boxes(shape: &[u64], count: u64) -> Vec<(Vec<u64>, Vec<u64>)> {
        let total = shape.iter().fold(1u64, |n, extent| n.saturating_mul(*extent));
        if total == 0 {
            return Vec::new();
        }
        let count = count.min((total / 48).max(1024));
        let mut extent = shape.to_vec();
        let mut left = count.max(1);
        // Each axis takes its share of the remaining elements; the fastest takes four shares.
        for (done, axis) in (0..shape.len()).rev().enumerate() {
            let others = (shape.len() - done) as f64;
            let share =
                (left as f64).powf(1.0 / others) * if done == 0 && shape.len() > 1 { 4.0 } else { 1.0 };
            extent[axis] = extent[axis].min((share as u64).max(1));
            left = (left / extent[axis]).max(1);
        }
        // Bit shuffling works on groups of eight elements.
        if let (Some(fastest), Some(whole)) = (extent.last_mut(), shape.last())
            && (GROUP..*whole).contains(fastest)
        {
            *fastest -= *fastest % GROUP;
        }
        let volume: u64 = extent.iter().product();
        let places = if volume == total { 1 } else { PLACES.len() };
        (0..places)
            .map(|i| {
                let first = shape.iter().zip(&extent).enumerate().map(|(axis, (n, e))| {
                    // In 16ths of the axis.
                    (n - e) / 16 * PLACES[i][axis % 4] + (n - e) % 16 * PLACES[i][axis % 4] / 16
                });
                (first.collect(), extent.clone())
            })
            .collect()
    }
}

impl Transform {
    /// Parses transform text: `auto` alone with its parameters, or a chain.
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

    /// Parses a transform given as a list of texts and Zarr codec objects.
    pub fn parse_list(items: &[ListItem]) -> Result<Transform, TransformError> {
        match items {
            [ListItem::Text(text)] => Transform::parse(text),
            _ => Ok(Transform::Chain(Chain::parse_list(items)?)),
        }
    }

    /// The text to record with the variable; [`Transform::parse`] makes the same transform from it.
    pub fn canonical(&self) -> String {
        match self {
            Transform::Chain(chain) => chain.canonical(),
            Transform::Auto(auto) => auto.spec().to_string(),
        }
    }

    /// Whether the data is stored unchanged.
    pub fn is_identity(&self) -> bool {
        matches!(self, Transform::Chain(chain) if chain.is_identity())
    }

    /// Checks that the transform accepts data of this kind; see [`Chain::check_takes`].
    pub fn check_takes(&self, logical: &Logical) -> Result<(), TransformError> {
        match self {
            Transform::Chain(chain) => chain.check_takes(logical),
            Transform::Auto(_) => Ok(()),
        }
    }
}

impl Trial {
    fn untried(chain: Chain) -> Trial {
        Trial { chain, sampled: 0, bytes: 0, encode: Duration::ZERO, decode: Duration::ZERO }
    }

    /// Stored bytes per byte of the samples.
    fn share(&self) -> f64 {
        self.bytes as f64 / self.sampled.max(1) as f64
    }

    /// Repeats the timed steps that count for the goal, with the only sample so far, and keeps the shorter times.
    fn see_again(
        &mut self,
        sample: &Sample,
        auto: &Auto,
        now: &mut dyn FnMut() -> Duration,
        (stored, decoded): &mut (Vec<u8>, Vec<u8>),
        scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        if auto.encodes() {
            stored.clear();
            let begin = now();
            self.chain.encode(&sample.data, &sample.logical, stored, scratch)?;
            self.encode = self.encode.min(now().saturating_sub(begin));
        }
        if auto.decodes() {
            let begin = now();
            self.chain.decode(stored, &sample.logical, decoded, scratch)?;
            self.decode = self.decode.min(now().saturating_sub(begin));
        }
        Ok(())
    }

    fn see(
        &mut self,
        sample: &Sample,
        decode: bool,
        now: &mut dyn FnMut() -> Duration,
        (stored, decoded): &mut (Vec<u8>, Vec<u8>),
        scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        stored.clear();
        let begin = now();
        self.chain.encode(&sample.data, &sample.logical, stored, scratch)?;
        let encoded = now();
        self.encode += encoded.saturating_sub(begin);
        self.bytes += stored.len();
        self.sampled += sample.data.len();
        if decode {
            decoded.resize(sample.data.len(), 0);
            let begin = now();
            self.chain.decode(stored, &sample.logical, decoded, scratch)?;
            self.decode += now().saturating_sub(begin);
        }
        Ok(())
    }
}

impl Choice {
    fn of(auto: Auto, chains: Vec<Chain>) -> Choice {
        Choice { auto, trials: chains.into_iter().map(Trial::untried).collect(), best: 0 }
    }

    /// Whether a chain with this usual time per byte is not worth a trial after the previous ones: it would lose even
    /// if it took much less than its usual time here, and left much fewer bytes than the smallest.
    fn cannot_win(&self, usual: f64) -> bool {
        if self.auto.goal != Goal::Store {
            return false;
        }
        let tried = self.trials.iter().filter(|trial| trial.sampled > 0);
        let least = tried.map(Trial::share).fold(1.0, f64::min);
        let hoped = AT_BEST * (usual * 1e-9 + least / self.auto.bandwidth(None));
        hoped > self.cost(self.best)
    }

    /// Makes the best of some trials the winner; of equal ones, the first.
    fn settle(&mut self, among: impl IntoIterator<Item = usize>) {
        let mut best: Option<usize> = None;
        for at in among {
            if best.is_none_or(|best| self.cost(at) < self.cost(best)) {
                best = Some(at);
            }
        }
        self.best = best.unwrap_or(0);
    }

    /// The trials that may still win.
    fn within_reach(&self) -> Vec<usize> {
        let seen = |at: &usize| self.trials.get(*at).is_some_and(|trial| trial.sampled > 0);
        let all = (0..self.trials.len()).filter(seen);
        let tiny = |trial: &Trial| (trial.bytes as f64) < TELLS_NOTHING * trial.sampled as f64;
        if self.trials.iter().any(tiny) {
            return all.collect();
        }
        let margin = if self.auto.goal == Goal::Size { OUT_OF_REACH.1 } else { OUT_OF_REACH.0 };
        let most = self.cost(self.best) * margin;
        let mut within: Vec<usize> = all.filter(|&at| at == self.best || self.cost(at) <= most).collect();
        if self.auto.goal != Goal::Size && within.len() > MOST_COMPARED {
            within.sort_by(|&a, &b| self.cost(a).total_cmp(&self.cost(b)));
            within.truncate(MOST_COMPARED);
            within.sort_unstable();
        }
        within
    }

    /// Whether a chain may turn out to be the best if its sample is timed once more.
    fn may_win_warm(&self, trial: usize) -> bool {
        self.cost_if(trial, WARM) < self.cost(self.best)
    }

    /// The chain that won.
    pub fn chain(&self) -> Chain {
        self.trials.get(self.best).map_or(Chain::identity(), |trial| trial.chain.clone())
    }

    /// All trials, in order.
    pub fn trials(&self) -> &[Trial] {
        &self.trials
    }

    /// Expected stored bytes per decoded byte of the winner.
    pub fn expected_share(&self) -> f64 {
        self.trials.get(self.best).map_or(1.0, Trial::share)
    }

    /// The cost of a trial under the goal, per sampled byte: bytes or seconds.
    fn cost(&self, trial: usize) -> f64 {
        self.cost_if(trial, 1.0)
    }

    /// The same cost if the trial took this part of its measured time.
    fn cost_if(&self, trial: usize, part: f64) -> f64 {
        let Some(trial) = self.trials.get(trial).filter(|trial| trial.sampled > 0) else {
            return f64::INFINITY;
        };
        let transfer = trial.bytes as f64 / self.auto.bandwidth(None);
        let (encode, decode) = (part * trial.encode.as_secs_f64(), part * trial.decode.as_secs_f64());
        let all = match self.auto.goal {
            Goal::Size => trial.bytes as f64,
            Goal::Store => encode + transfer,
            Goal::Read => transfer + decode,
            Goal::Speed if trial.share() > WORTH_HAVING => return f64::MAX,
            Goal::Speed => encode + decode,
        };
        all / trial.sampled.max(1) as f64
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let goal = match self.auto.goal {
            Goal::Store => "least time to encode and store",
            Goal::Size => "fewest bytes",
            Goal::Speed => "least time to encode and decode of what saves a twentieth",
            Goal::Read => "least time to fetch and decode",
        };
        writeln!(
            f,
            "{}: {goal}, store {:.0} MB/s, samples of {} bytes",
            self.auto.spec(),
            self.auto.bandwidth(None) / 1e6,
            self.trials.iter().map(|trial| trial.sampled).max().unwrap_or(0)
        )?;
        writeln!(f, "  {:<40} {:>7} {:>12} {:>12}", "chain", "ratio", "encode MB/s", "decode MB/s")?;
        let rate = |sampled: usize, time: Duration| match time {
            Duration::ZERO => "-".to_owned(),
            time => format!("{:.0}", sampled as f64 / 1e6 / time.as_secs_f64()),
        };
        for (i, trial) in self.trials.iter().enumerate() {
            let chain = trial.chain.canonical();
            if trial.sampled == 0 {
                writeln!(f, "  {chain:<40} not tried, as it is too slow to win")?;
                continue;
            }
            let mark = if i == self.best { '*' } else { ' ' };
            let ratio = trial.sampled as f64 / trial.bytes.max(1) as f64;
            let (encode, decode) = (rate(trial.sampled, trial.encode), rate(trial.sampled, trial.decode));
            writeln!(f, "{mark} {chain:<40} {ratio:>7.2} {encode:>12} {decode:>12}")?;
        }
        Ok(())
    }
}
