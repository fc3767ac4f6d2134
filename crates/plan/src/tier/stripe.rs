//! Which storage targets a drainer uses. Each drainer gets as many as keep all of them busy, adjacent drainers get
//! different ones, and faster targets get more parts.

use std::fmt;

/// The targets that each drainer uses in turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Striping {
    /// Targets by drainer; a target may occur several times.
    pub targets: Vec<Vec<usize>>,
}

/// Assigns parts to targets. `parts[d]` are the lengths of the parts that drainer `d` will move; `bandwidth[t]` is the
/// bytes per second of target `t`.
///
/// Longest part first, each to the target that would be done with it earliest (Graham's rule for unequal machines); of
/// equal targets, those near the drainer's own come first, so that drainers use disjoint targets as long as there are
/// enough.
pub fn stripe(parts: &[Vec<u64>], bandwidth: &[f64]) -> Striping {
    let mut targets: Vec<Vec<usize>> = parts.iter().map(|own| vec![0; own.len()]).collect();
    if bandwidth.is_empty() {
        return Striping { targets: Vec::new() };
    }
    let speed: Vec<f64> =
        bandwidth.iter().map(|b| if b.is_finite() && *b > 0.0 { *b } else { 1.0 }).collect();
    let mut order: Vec<(u64, usize, usize)> = Vec::new();
    for (drainer, own) in parts.iter().enumerate() {
        order.extend(own.iter().enumerate().map(|(number, bytes)| (*bytes, drainer, number)));
    }
    order.sort_by(|a, b| b.0.cmp(&a.0).then((a.2, a.1).cmp(&(b.2, b.1))));
    let mut load = vec![0f64; speed.len()];
    let each = speed.len().div_ceil(parts.len().max(1));
    for (bytes, drainer, number) in order {
        let first = drainer * each % speed.len();
        let done = |target: usize| (load[target] + bytes as f64) / speed[target];
        let nearness = |target: usize| (target + speed.len() - first) % speed.len();
        let best = (0..speed.len())
            .min_by(|a, b| done(*a).total_cmp(&done(*b)).then(nearness(*a).cmp(&nearness(*b))))
            .unwrap_or(0);
        load[best] += bytes as f64;
        targets[drainer][number] = best;
    }
    Striping { targets }
}

/// The time of the busiest target over the mean; 1 is perfect.
pub fn imbalance(parts: &[Vec<u64>], bandwidth: &[f64], striping: &Striping) -> f64 {
    let mut load = vec![0f64; bandwidth.len()];
    for (own, chosen) in parts.iter().zip(&striping.targets) {
        for (bytes, target) in own.iter().zip(chosen) {
            if let Some(load) = load.get_mut(*target) {
                *load += *bytes as f64;
            }
        }
    }
    let total: f64 = load.iter().sum();
    let mean = total / bandwidth.iter().sum::<f64>();
    let most = load.iter().zip(bandwidth).map(|(load, speed)| load / speed).fold(0f64, f64::max);
    if mean > 0.0 { most / mean } else { 1.0 }
}

impl fmt::Display for Striping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (drainer, targets) in self.targets.iter().enumerate() {
            let mut used: Vec<usize> = targets.clone();
            used.sort_unstable();
            used.dedup();
            writeln!(f, "drainer {drainer}: targets {used:?}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn equal_drainers_use_disjoint_targets() {
        let parts = vec![vec![8; 4]; 4];
        let striping = stripe(&parts, &[1.0; 8]);
        assert_eq!(imbalance(&parts, &[1.0; 8], &striping), 1.0, "{striping}");
    }

    /// B-10: any number of drainers and targets from 1 to 64, with unequal sizes; each target has at least a few parts,
    /// since one part cannot be divided.
    #[test]
    fn the_busiest_target_has_at_most_a_tenth_more_than_the_mean() {
        let mut random = Random(3);
        let mut worst = 0f64;
        for drainers in [1usize, 2, 3, 5, 8, 13, 31, 32, 64] {
            for targets in [1usize, 2, 3, 7, 8, 16, 33, 64] {
                let each = (targets * 12).div_ceil(drainers).max(1);
                let parts: Vec<Vec<u64>> = (0..drainers)
                    .map(|_| (0..each).map(|_| (8 << 20) + random.below(24 << 20)).collect())
                    .collect();
                for fast in [false, true] {
                    let bandwidth: Vec<f64> =
                        (0..targets).map(|t| if fast && t % 3 == 0 { 2.0 } else { 1.0 }).collect();
                    let striping = stripe(&parts, &bandwidth);
                    worst = worst.max(imbalance(&parts, &bandwidth, &striping));
                }
            }
        }
        assert!(worst <= 1.1, "{worst}");
    }
}
