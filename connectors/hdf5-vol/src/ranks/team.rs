//! The ranks of a parallel program that have one file open: how they meet, and how they detect disagreement.
//!
//! Why catalogues are not merged: HDF5 lets metadata change only in calls that all ranks make in one order,
//! so every rank builds the same tree independently, and values go to the container without messages. The
//! ranks meet where HDF5 makes calls collective: when a file is created, opened, flushed and closed. There
//! their trees must be equal.
//!
//! Invariants
//! - in a meeting each rank states its call and its success, so a failure of one is an error of all and no
//!   rank waits for one that has given up;
//! - after ranks were found in different calls, or could not reach each other, there are no more meetings.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::library::failure::{Failure, Result};
use crate::model::catalogue::Catalogue;
use crate::model::tree::{Body, Object, ROOT, Target, Tree};

/// How ranks exchange messages. All make the same calls in the same order.
pub trait Ranks: Send + Sync {
    /// This rank, below `size`.
    fn rank(&self) -> u32;
    /// Number of ranks, at least 2.
    fn size(&self) -> u32;
    /// Gathers the bytes of all ranks, in rank order; all send equally many bytes.
    fn all_gather(&self, send: &[u8]) -> Result<Vec<u8>>;
    /// Distinguishes ranks that are threads of one process; 0 if each is a process.
    fn lane(&self) -> u32;
}

/// The call that a rank is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Act {
    Create,
    Open,
    Join,
    Delete,
    Flush,
    Gather,
    Lay,
    Commit,
    Compare,
    Publish,
    Published,
}

const ACTS: [(Act, &str); 11] = [
    (Act::Create, "creates a file"),
    (Act::Open, "opens a file"),
    (Act::Join, "opens a file"),
    (Act::Delete, "deletes a file"),
    (Act::Flush, "flushes or closes a file"),
    (Act::Gather, "flushes or closes a file"),
    (Act::Lay, "flushes or closes a file"),
    (Act::Commit, "flushes or closes a file"),
    (Act::Compare, "compares a file"),
    (Act::Publish, "publishes a file"),
    (Act::Published, "publishes a file"),
];

/// Three numbers of a rank; the act defines their meaning.
pub type Numbers = [u64; 3];

/// Bytes of a rank's message: act, failed, length of the text (2), 4 unused, the numbers, the text.
const SAID: usize = 512;
const TEXT: usize = 32;

/// Runs code that must not leave between two meetings: a panic is held until the next one.
pub fn attempt<T>(body: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(body))
        .unwrap_or_else(|_| Err(Failure::library("a bug in the drystone connector: it panicked")))
}

/// The ranks that have a file open.
pub struct Team {
    ranks: Arc<dyn Ranks>,
    broken: AtomicBool,
    /// Distinguishes this opening from every other: variables of a killed program are not mistaken for ours.
    pub session: AtomicU64,
    /// Digest of the last tree on which all agreed.
    pub agreed: AtomicU64,
}

impl Team {
    /// The ranks of a communicator.
    pub fn new(ranks: Arc<dyn Ranks>) -> Team {
        Team { ranks, broken: AtomicBool::new(false), session: AtomicU64::new(0), agreed: AtomicU64::new(0) }
    }

    /// Whether this rank acts for all.
    pub fn is_first(&self) -> bool {
        self.ranks.rank() == 0
    }

    /// See [`Ranks::lane`].
    pub fn lane(&self) -> u32 {
        self.ranks.lane()
    }

    /// No more meetings: the ranks are no longer in one call.
    pub fn part(&self) {
        self.broken.store(true, Ordering::SeqCst);
    }

    /// Meets: returns the numbers of all ranks, in their order, or the failure of the first that failed.
    pub fn meet(&self, act: Act, numbers: Numbers, local: Result<()>) -> Result<Vec<Numbers>> {
        if self.broken.load(Ordering::SeqCst) {
            local?;
            return Err(Failure::library("the ranks of this program no longer act together on this file"));
        }
        let heard = self.ranks.all_gather(&encode(act, numbers, &local)).inspect_err(|_| self.part())?;
        let mut out = Vec::with_capacity(self.ranks.size() as usize);
        let mut failed = None;
        for (rank, said) in heard.chunks_exact(SAID).enumerate() {
            let (theirs, numbers, problem) = decode(said).ok_or_else(|| {
                self.part();
                Failure::library(format!("rank {rank} sent a malformed message; check the communicator"))
            })?;
            if theirs != act {
                self.part();
                return Err(Failure::invalid(format!(
                    "rank {rank} {}, while rank {} {}: all ranks make these calls together, in one order",
                    name(theirs),
                    self.ranks.rank(),
                    name(act)
                )));
            }
            if let (Some(problem), None) = (problem, &failed) {
                failed = Some(Failure::write(format!("on rank {rank}: {problem}")));
            }
            out.push(numbers);
        }
        match (failed, local) {
            (None, _) => Ok(out),
            (Some(_), Err(own)) => Err(own),
            (Some(failed), Ok(())) => Err(failed),
        }
    }

    /// This rank, and the number of ranks.
    pub fn place(&self) -> (u64, u64) {
        (self.ranks.rank().into(), self.ranks.size().into())
    }

    /// Exchanges data of any length; returns the data of each rank, and whether one has more.
    pub fn exchange(&self, bytes: &[u8], more: bool, local: Result<()>) -> Result<(Vec<Vec<u8>>, bool)> {
        let said = self.meet(Act::Gather, [bytes.len() as u64, more.into(), 0], local)?;
        let most = said.iter().map(|n| n[0]).max().unwrap_or(0) as usize;
        let more = said.iter().any(|n| n[1] != 0);
        if most == 0 {
            return Ok((Vec::new(), more));
        }
        let mut send = bytes.to_vec();
        send.resize(most, 0);
        let heard = self.ranks.all_gather(&send).inspect_err(|_| self.part())?;
        let each = heard.chunks_exact(most).zip(&said);
        Ok((each.map(|(all, n)| all[..(n[0] as usize).min(most)].to_vec()).collect(), more))
    }

    /// Broadcasts the data of rank 0.
    fn told(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        const MOST: u64 = 1 << 28;
        let length = if self.is_first() { bytes.len() as u64 } else { 0 };
        let said = self.meet(Act::Compare, [length, 0, 0], Ok(()))?;
        let length = said.first().map_or(0, |n| n[0]);
        if length.saturating_mul(u64::from(self.ranks.size())) > MOST {
            return Err(Failure::invalid("what the ranks have made is too large to be compared"));
        }
        let mut send = vec![0; length as usize];
        if self.is_first() {
            send.copy_from_slice(bytes);
        }
        let mut heard = self.ranks.all_gather(&send).inspect_err(|_| self.part())?;
        heard.truncate(length as usize);
        Ok(heard)
    }

    /// Why trees that must be equal are not: an error that names the difference, the same on all ranks.
    pub fn disagreement(&self, tree: &Tree) -> Failure {
        let compared = self.told(&Catalogue::definition(tree)).and_then(|first| {
            let first = Catalogue::decode(&first).map_err(|c| Failure::damaged(c.to_string()))?.tree;
            let local = match difference(&first, tree) {
                None => Ok(()),
                Some(what) => Err(Failure::invalid(format!(
                    "{what}; in a parallel program all ranks create, change and delete the same objects and attributes, in one order"
                ))),
            };
            self.meet(Act::Compare, [0; 3], local).map(drop)
        });
        match compared {
            Err(failure) => failure,
            Ok(()) => Failure::invalid("the ranks wrote different values of variable length to attributes"),
        }
    }
}

fn name(act: Act) -> &'static str {
    ACTS.iter().find(|(a, _)| *a == act).map_or("", |(_, name)| name)
}

fn encode(act: Act, numbers: Numbers, local: &Result<()>) -> Vec<u8> {
    let mut out = vec![0; SAID];
    out[0] = ACTS.iter().position(|(a, _)| *a == act).map_or(u8::MAX, |at| at as u8);
    for (to, number) in out[8..TEXT].chunks_exact_mut(8).zip(numbers) {
        to.copy_from_slice(&number.to_le_bytes());
    }
    if let Err(failure) = local {
        let text = &failure.message;
        let mut length = text.len().min(SAID - TEXT);
        while !text.is_char_boundary(length) {
            length -= 1;
        }
        out[1] = 1;
        out[2..4].copy_from_slice(&(length as u16).to_le_bytes());
        out[TEXT..TEXT + length].copy_from_slice(&text.as_bytes()[..length]);
    }
    out
}

fn decode(said: &[u8]) -> Option<(Act, Numbers, Option<String>)> {
    let (act, _) = ACTS.get(usize::from(*said.first()?))?;
    let number = |at: usize| Some(u64::from_le_bytes(said.get(at..at + 8)?.try_into().ok()?));
    let length = usize::from(u16::from_le_bytes(said.get(2..4)?.try_into().ok()?));
    let text = said.get(TEXT..TEXT.checked_add(length)?)?;
    let problem = (*said.get(1)? != 0).then(|| String::from_utf8_lossy(text).into_owned());
    Some((*act, [number(8)?, number(16)?, number(24)?], problem))
}

/// A digest of definitions (and of buffered values of variable length).
pub fn digest(tree: &Tree, heap: &[u8]) -> u64 {
    hash(&Catalogue::definition(tree)) ^ waiting(heap)
}

/// The digest after the buffered values were stored, with nothing buffered any more.
pub fn kept(digest: u64, heap: &[u8]) -> u64 {
    digest ^ waiting(heap) ^ waiting(&[])
}

fn waiting(heap: &[u8]) -> u64 {
    hash(heap).rotate_left(1)
}

/// The variables of all datasets, as a number.
pub fn places(tree: &Tree) -> u64 {
    let mut out = START;
    for (id, object) in &tree.objects {
        if let Body::Dataset(dataset) = &object.body
            && let Some((variable, uid)) = dataset.variable
        {
            out = [*id, u64::from(variable), uid].into_iter().fold(out, mixed);
        }
    }
    out
}

const START: u64 = 0xcbf2_9ce4_8422_2325;

fn mixed(sum: u64, word: u64) -> u64 {
    let sum = (sum ^ word).wrapping_mul(0x0000_0100_0000_01b3);
    sum ^ (sum >> 32)
}

/// FNV-1a over words of eight bytes: the ranks run one program and trust each other.
fn hash(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let out =
        words.iter().fold(START ^ bytes.len() as u64, |sum, word| mixed(sum, u64::from_le_bytes(*word)));
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    if rest.is_empty() { out } else { mixed(out, u64::from_le_bytes(last)) }
}

/// The first difference between this rank and rank 0.
fn difference(first: &Tree, mine: &Tree) -> Option<String> {
    let mut look = vec![(ROOT, ROOT, String::new())];
    let mut seen = std::collections::BTreeSet::new();
    while let Some((a, b, path)) = look.pop() {
        if !seen.insert((a, b)) {
            continue;
        }
        let shown = if path.is_empty() { "/" } else { &path };
        let (Some(a), Some(b)) = (first.objects.get(&a), mine.objects.get(&b)) else { continue };
        if let Some(what) = differs(a, b) {
            return Some(format!("{what} of {shown} is not the same as on rank 0"));
        }
        let (Body::Group(a), Body::Group(b)) = (&a.body, &b.body) else { continue };
        for (name, link) in &b.links {
            let child = format!("{path}/{}", String::from_utf8_lossy(name));
            match (a.links.get(name).map(|l| &l.target), &link.target) {
                (None, _) => return Some(format!("{child} is not there on rank 0")),
                (Some(Target::Hard(a)), Target::Hard(b)) => look.push((*a, *b, child)),
                (Some(a), b) if a != b => return Some(format!("the link {child} leads elsewhere on rank 0")),
                _ => {}
            }
        }
        if let Some(name) = a.links.keys().find(|name| !b.links.contains_key(*name)) {
            return Some(format!("{path}/{} is on rank 0 only", String::from_utf8_lossy(name)));
        }
    }
    (Catalogue::definition(first) != Catalogue::definition(mine))
        .then(|| "the order of what was created is not the same as on rank 0".into())
}

/// The difference between two objects.
fn differs(a: &Object, b: &Object) -> Option<String> {
    for (name, attribute) in &b.attributes {
        let shown = String::from_utf8_lossy(name);
        match a.attributes.get(name) {
            Some(other) if (&other.dtype, &other.space) != (&attribute.dtype, &attribute.space) => {
                return Some(format!("the type or shape of the attribute \"{shown}\""));
            }
            Some(other) if other.data != attribute.data => {
                return Some(format!("the value of the attribute \"{shown}\""));
            }
            Some(_) => {}
            None => return Some(format!("the attribute \"{shown}\"")),
        }
    }
    if a.attributes.len() != b.attributes.len() {
        return Some("the number of attributes".into());
    }
    match (&a.body, &b.body) {
        (Body::Group(_), Body::Group(_)) => None,
        (Body::Dataset(a), Body::Dataset(b)) => [
            (a.dtype == b.dtype, "the datatype"),
            (a.space == b.space, "the shape"),
            (a.properties == b.properties, "a creation property"),
            (a.fill == b.fill, "the fill value"),
        ]
        .iter()
        .find(|(same, _)| !same)
        .map(|(_, what)| (*what).to_string()),
        (Body::Type(a), Body::Type(b)) => (a != b).then(|| "the datatype".into()),
        _ => Some("the kind".into()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]
    use super::*;
    use crate::model::tree::{Group, Times};

    #[test]
    fn messages_round_trip() {
        let long = Failure::write("ä".repeat(400));
        for local in [Ok(()), Err(Failure::write("no room")), Err(long)] {
            let (act, numbers, problem) = decode(&encode(Act::Lay, [7, u64::MAX, 0], &local)).unwrap();
            assert_eq!((act, numbers), (Act::Lay, [7, u64::MAX, 0]));
            assert_eq!(problem.is_some(), local.is_err());
        }
        assert!(decode(&[0xff; SAID]).is_none());
        assert!(decode(&[]).is_none());
    }

    #[test]
    fn times_and_places_are_no_difference_but_names_are() {
        let make = |name: &[u8], born: i64| {
            let mut tree = Tree::new(0, 0);
            let times = Times { tracked: true, born, ..Times::default() };
            let id = tree.add(Object::new(Body::Group(Group::default()), times));
            tree.link(ROOT, name, 0, Target::Hard(id));
            tree
        };
        assert_eq!(digest(&make(b"a", 1), b""), digest(&make(b"a", 2), b""));
        assert_eq!(difference(&make(b"a", 1), &make(b"a", 2)), None);
        assert_ne!(digest(&make(b"a", 1), b""), digest(&make(b"b", 1), b""));
        assert!(difference(&make(b"a", 1), &make(b"b", 1)).unwrap().contains("/b"));
    }
}
