//! Which copies a tier evicts: drained and unpinned ones, those first that are cheapest to fetch again.

/// A copy in a tier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copy {
    /// Its key.
    pub key: String,
    /// Its length in bytes.
    pub bytes: u64,
    /// Whether the home store has it on stable storage.
    pub drained: bool,
    /// Whether a user wants it kept.
    pub pinned: bool,
    /// How often it was read.
    pub uses: u32,
    /// Number of the event at which it was written or read last.
    pub used: u64,
}

/// Copies to evict, in order, so that at least `need` bytes become free; fewer if no more may be evicted.
///
/// A copy that was read less often is evicted first; of equal ones, the one that was used longer ago. Fetching again
/// costs about the same for each byte, since parts are of similar length.
pub fn evict(copies: &[Copy], need: u64) -> Vec<&Copy> {
    let mut may_go: Vec<&Copy> = copies.iter().filter(|copy| copy.drained && !copy.pinned).collect();
    may_go.sort_by(|a, b| (a.uses, a.used, &a.key).cmp(&(b.uses, b.used, &b.key)));
    let mut freed = 0u64;
    let enough = |copy: &&Copy| {
        let wanted = freed < need;
        freed = freed.saturating_add(copy.bytes);
        wanted
    };
    may_go.into_iter().take_while(enough).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use std::collections::BTreeMap;

    fn copy(key: &str, bytes: u64, drained: bool, pinned: bool, uses: u32) -> Copy {
        Copy { key: key.into(), bytes, drained, pinned, uses, used: 0 }
    }

    #[test]
    fn undrained_and_pinned_copies_are_never_evicted() {
        let all = [copy("a", 5, false, false, 0), copy("b", 5, true, true, 0), copy("c", 5, true, false, 9)];
        let gone: Vec<&str> = evict(&all, 100).iter().map(|copy| copy.key.as_str()).collect();
        assert_eq!(gone, ["c"]);
        assert!(evict(&all, 0).is_empty());
    }

    /// Runs a model of one tier with random writes, drains, reads, pins and evictions. No undrained or pinned copy is
    /// evicted, and the budget is kept to within one part wherever enough copies may be evicted.
    #[test]
    fn random_operations_never_lose_what_is_needed() {
        let operations = if std::env::var_os("DRYSTONE_LONG").is_some() { 10_000_000 } else { 200_000 };
        let (budget, part) = (400u64, 10u64);
        let mut random = Random(7);
        let mut tier: BTreeMap<String, Copy> = BTreeMap::new();
        let mut undrained: Vec<String> = Vec::new();
        for now in 0..operations {
            let key = format!("p{}", random.below(200));
            match random.below(6) {
                0 | 1 => {
                    let held: u64 = tier.values().map(|copy| copy.bytes).sum();
                    let bytes = 1 + random.below(part);
                    let over = (held + bytes).saturating_sub(budget);
                    let copies: Vec<Copy> = tier.values().cloned().collect();
                    let gone: Vec<String> =
                        evict(&copies, over).iter().map(|copy| copy.key.clone()).collect();
                    for key in &gone {
                        let copy = tier.remove(key).expect("only what is there goes");
                        assert!(copy.drained && !copy.pinned, "{copy:?}");
                    }
                    let held: u64 = tier.values().map(|copy| copy.bytes).sum();
                    let stuck = !tier.values().any(|copy| copy.drained && !copy.pinned);
                    assert!(held + bytes <= budget || stuck, "room was there to be made");
                    if held + bytes <= budget && !tier.contains_key(&key) {
                        undrained.push(key.clone());
                        let new = Copy {
                            key: key.clone(),
                            bytes,
                            drained: false,
                            pinned: false,
                            uses: 0,
                            used: now,
                        };
                        tier.insert(key, new);
                    }
                }
                2 => {
                    if let Some(copy) = undrained.pop().and_then(|key| tier.get_mut(&key)) {
                        copy.drained = true;
                    }
                }
                3 => {
                    if let Some(copy) = tier.get_mut(&key) {
                        copy.uses += 1;
                        copy.used = now;
                    }
                }
                4 => {
                    let pinned = tier.values().filter(|copy| copy.pinned).count();
                    if let Some(copy) = tier.get_mut(&key).filter(|_| pinned < 10) {
                        copy.pinned = true;
                    }
                }
                _ => {
                    if let Some(copy) = tier.get_mut(&key) {
                        copy.pinned = false;
                    }
                }
            }
        }
    }
}
