//! Aggregation: how many of a program's ranks write a step, and for which others, when each has only little
//! data.
//!
//! Every rank that writes costs a log, a step record and, under `durable`, its syncs; sending blocks to
//! another rank costs a copy. The cheapest number of writers is found by trying the powers of two per node.
//!
//! Groups work at the same time, but no more of them than a node has processors; a sender and a receiver take
//! one each. Where ranks outnumber processors, waiting ranks poll and so take processor time from the
//! writers. Writers then get no more of the processors than their share of the ranks, so having few writers
//! gains less than it seems.
//!
//! Invariant: the groups are ranges of ranks, in order, so blocks of a later rank still overlay those of an
//! earlier one.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// What it costs to write on this machine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs {
    /// Seconds that each writer adds to a step, whatever it writes.
    pub per_writer: f64,
    /// Seconds that a commit takes longer if more than one rank has written: a single writer commits without the
    /// others.
    pub together: f64,
    /// Bytes per second from a rank into the memory of its writer.
    pub copy: f64,
    /// Bytes per second that one writer writes.
    pub write: f64,
    /// Ranks that run at once on a node.
    pub processors: usize,
}

/// The bytes of a node's groups.
#[derive(Debug, Clone, Copy, Default)]
struct Bytes {
    /// Bytes of the largest group.
    largest: u64,
    all: u64,
}

impl Bytes {
    fn add(&mut self, bytes: u64) {
        self.largest = self.largest.max(bytes);
        self.all = self.all.saturating_add(bytes);
    }

    /// Seconds that the groups take, this many at once.
    fn seconds(&self, at_once: f64, rate: f64) -> f64 {
        (self.largest as f64).max(self.all as f64 / at_once.max(1.0)) / rate
    }
}

/// The work of a node.
#[derive(Debug, Clone, Copy, Default)]
struct Node {
    ranks: usize,
    writers: usize,
    moved: Bytes,
    written: Bytes,
}

impl Node {
    fn seconds(&self, costs: &Costs) -> f64 {
        let (processors, ranks) = (costs.processors as f64, self.ranks as f64);
        let writing = if ranks > processors { processors * self.writers as f64 / ranks } else { processors };
        self.moved.seconds(processors / 2.0, costs.copy) + self.written.seconds(writing, costs.write)
    }
}

/// Ranges of ranks. The first rank of each range writes for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Aggregation {
    /// One range per writer; together they are all ranks.
    pub groups: Vec<Range<usize>>,
}

impl Aggregation {
    /// Each rank writes for itself.
    pub fn none(ranks: usize) -> Self {
        Aggregation { groups: (0..ranks).map(|rank| rank..rank + 1).collect() }
    }

    /// The cheapest way to write `loads` bytes per rank. Ranks with equal numbers in `nodes` share a node.
    pub fn cheapest(loads: &[u64], nodes: &[u64], costs: &Costs) -> Self {
        let mut best = Aggregation::none(loads.len());
        let mut least = best.cost(loads, nodes, costs);
        let mut per_node = 1;
        while per_node < loads.len() {
            let tried = Aggregation::grouped(nodes, per_node);
            let cost = tried.cost(loads, nodes, costs);
            if cost < least {
                (best, least) = (tried, cost);
            }
            per_node *= 2;
        }
        best
    }

    /// At most this many writers, with ranges of nearly equal length.
    pub fn of_writers(ranks: usize, writers: usize) -> Self {
        let writers = writers.clamp(1, ranks.max(1));
        Aggregation { groups: parts(0..ranks, writers) }
    }

    /// `per_node` writers on each node. If the ranks of a node are not consecutive, nodes are ignored.
    pub(crate) fn grouped(nodes: &[u64], per_node: usize) -> Self {
        let mut runs: Vec<Range<usize>> = Vec::new();
        for (rank, node) in nodes.iter().enumerate() {
            match runs.last_mut() {
                Some(run) if nodes.get(run.start) == Some(node) => run.end = rank + 1,
                _ => runs.push(rank..rank + 1),
            }
        }
        let distinct: BTreeSet<u64> = nodes.iter().copied().collect();
        if runs.len() > distinct.len() {
            return Aggregation::of_writers(nodes.len(), per_node.saturating_mul(distinct.len()));
        }
        let groups = runs.into_iter().flat_map(|run| {
            let writers = per_node.min(run.len());
            parts(run, writers)
        });
        Aggregation { groups: groups.collect() }
    }

    /// Seconds that a step takes. A group counts for the node of its writer.
    pub fn cost(&self, loads: &[u64], nodes: &[u64], costs: &Costs) -> f64 {
        let mut by_node: BTreeMap<u64, Node> = BTreeMap::new();
        nodes.iter().for_each(|node| by_node.entry(*node).or_default().ranks += 1);
        for group in &self.groups {
            let bytes = |range: Range<usize>| {
                loads.get(range).map_or(0, |loads| loads.iter().fold(0u64, |sum, n| sum.saturating_add(*n)))
            };
            let node = by_node.entry(nodes.get(group.start).copied().unwrap_or_default()).or_default();
            node.writers += 1;
            node.moved.add(bytes(group.start + 1..group.end));
            node.written.add(bytes(group.clone()));
        }
        let slowest = by_node.values().map(|node| node.seconds(costs));
        let together = if self.groups.len() > 1 { costs.together } else { 0.0 };
        self.groups.len() as f64 * costs.per_writer + together + slowest.fold(0.0, f64::max)
    }

    /// Whether every rank writes for itself.
    pub fn is_none(&self) -> bool {
        self.groups.iter().all(|group| group.len() == 1)
    }

    /// The number of the group that a rank is in.
    pub fn group_of(&self, rank: usize) -> usize {
        self.groups.partition_point(|group| group.end <= rank)
    }
}

/// A range in this many parts whose lengths differ by one at most.
fn parts(range: Range<usize>, count: usize) -> Vec<Range<usize>> {
    let at = |i: usize| range.start + range.len() * i / count;
    (0..count).map(|i| at(i)..at(i + 1)).filter(|part| !part.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: Costs = Costs { per_writer: 1e-3, together: 0.0, copy: 1e9, write: 1e9, processors: 16 };

    fn writers(loads: &[u64]) -> usize {
        Aggregation::cheapest(loads, &vec![0; loads.len()], &COSTS).groups.len()
    }

    #[test]
    fn small_blocks_are_written_by_few_and_large_ones_by_all() {
        assert_eq!(writers(&[1000; 16]), 1);
        assert_eq!(writers(&[100_000_000; 16]), 16);
        let between = writers(&[1_000_000; 16]);
        assert!(between > 1 && between < 16, "{between}");
        assert_eq!(writers(&[7]), 1);
        assert_eq!(writers(&[]), 0);
    }

    #[test]
    fn where_ranks_outnumber_processors_few_writers_gain_less() {
        let costs =
            |processors| Costs { per_writer: 6e-5, together: 2e-4, copy: 1e9, write: 1e9, processors };
        let writers = |load: u64, processors| {
            Aggregation::cheapest(&[load; 8], &[0; 8], &costs(processors)).groups.len()
        };
        assert_eq!((writers(64 << 10, 8), writers(64 << 10, 2)), (4, 8));
        assert_eq!((writers(1 << 10, 8), writers(1 << 10, 2)), (1, 1));
        let cost = |writers, processors| {
            let only_written = Costs { per_writer: 0.0, together: 0.0, copy: 1e30, ..costs(processors) };
            Aggregation::of_writers(8, writers).cost(&[1 << 20; 8], &[0; 8], &only_written) * 1e9
                / f64::from(1 << 20)
        };
        assert_eq!([1, 2, 4, 8].map(|writers| cost(writers, 8).round()), [8.0, 4.0, 2.0, 1.0]);
        assert_eq!([1, 2, 4, 8].map(|writers| cost(writers, 2).round()), [8.0, 8.0, 8.0, 4.0]);
        let two_nodes = [0, 0, 0, 0, 1, 1, 1, 1];
        let alone = Aggregation::none(8).cost(&[1 << 20; 8], &[0; 8], &costs(2));
        assert!(Aggregation::none(8).cost(&[1 << 20; 8], &two_nodes, &costs(2)) < alone);
    }

    #[test]
    fn groups_keep_to_their_nodes_where_these_hold_neighbours() {
        let nodes = [5, 5, 5, 5, 9, 9, 9];
        let groups = Aggregation::grouped(&nodes, 2).groups;
        assert_eq!(groups, [0..2, 2..4, 4..5, 5..7]);
        assert_eq!(Aggregation::grouped(&nodes, 8).groups.len(), 7);
        let scattered = [1, 2, 1, 2, 1, 2];
        assert_eq!(Aggregation::grouped(&scattered, 1).groups, [0..3, 3..6]);
    }

    #[test]
    fn every_rank_is_in_one_group() {
        for ranks in 1..20 {
            for writers in 1..24 {
                let found = Aggregation::of_writers(ranks, writers);
                let flat: Vec<usize> = found.groups.iter().cloned().flatten().collect();
                assert_eq!(flat, (0..ranks).collect::<Vec<_>>());
                assert!((0..ranks).all(|rank| found.groups[found.group_of(rank)].contains(&rank)));
            }
        }
    }
}
