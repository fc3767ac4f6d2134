//! Redundancy of staged steps: schemes, sets of writers, and which node keeps which parity, so that the loss of some
//! nodes loses no bytes.
//!
//! A *set* has one writer from each of several failure groups; these writers are the set's *members*. Each member keeps
//! its own bytes, and parity over the bytes of others, so all members keep the same amount. With P parity chunks a
//! member's bytes are cut into N - P chunks for a set of N; each *stripe* takes one chunk from each of N - P members,
//! and the other P members keep its parity. Any P members may be lost.

use std::collections::BTreeMap;
use std::fmt;

/// The most members of a set.
pub const MAX_MEMBERS: usize = 64;
/// The most parity chunks of a scheme.
pub const MAX_PARITY: usize = 8;

/// How the staged steps of a container survive the loss of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scheme {
    /// They do not survive it.
    #[default]
    None,
    /// Another node keeps a second copy of each writer's bytes.
    Partner,
    /// Sets of this many writers keep the XOR of each other's bytes; one writer may be lost.
    Xor(u8),
    /// Sets of `data + parity` writers; `parity` of them may be lost.
    ReedSolomon {
        /// Members whose bytes one stripe holds.
        data: u8,
        /// Members that keep its parity.
        parity: u8,
    },
}

impl Scheme {
    /// Parses `none`, `partner`, `xor:N` or `rs:D+P`. The error says what is allowed.
    pub fn parse(text: &str) -> Result<Scheme, String> {
        let number = |text: &str| text.parse::<u8>().ok().filter(|_| !text.starts_with(['+', '0']));
        let found = match text.split_once(':') {
            None if text == "none" => Some(Scheme::None),
            None if text == "partner" => Some(Scheme::Partner),
            Some(("xor", size)) => number(size).map(Scheme::Xor),
            Some(("rs", sizes)) => sizes.split_once('+').and_then(|(data, parity)| {
                Some(Scheme::ReedSolomon { data: number(data)?, parity: number(parity)? })
            }),
            _ => None,
        };
        let fits = |scheme: &Scheme| match scheme {
            Scheme::None | Scheme::Partner => true,
            Scheme::Xor(size) => (2..=MAX_MEMBERS).contains(&usize::from(*size)),
            Scheme::ReedSolomon { parity, .. } => {
                usize::from(*parity) <= MAX_PARITY && scheme.size() <= MAX_MEMBERS
            }
        };
        found.filter(fits).ok_or_else(|| {
            format!(
                "redundancy is \"none\", \"partner\", \"xor:N\" with N from 2 to {MAX_MEMBERS}, or \"rs:D+P\" with P \
                 up to {MAX_PARITY} and D+P up to {MAX_MEMBERS}, not {text:?}"
            )
        })
    }

    /// The most members of a set.
    pub fn size(self) -> usize {
        match self {
            Scheme::None => 0,
            Scheme::Partner => MAX_MEMBERS,
            Scheme::Xor(size) => usize::from(size),
            Scheme::ReedSolomon { data, parity } => usize::from(data) + usize::from(parity),
        }
    }

    /// Parity chunks of a stripe, if the set is large enough.
    pub fn parity(self) -> usize {
        match self {
            Scheme::None => 0,
            Scheme::Partner | Scheme::Xor(_) => 1,
            Scheme::ReedSolomon { parity, .. } => usize::from(parity),
        }
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scheme::None => f.write_str("none"),
            Scheme::Partner => f.write_str("partner"),
            Scheme::Xor(size) => write!(f, "xor:{size}"),
            Scheme::ReedSolomon { data, parity } => write!(f, "rs:{data}+{parity}"),
        }
    }
}

/// A set: indices of writers, some of which may only keep parity.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Set {
    /// Writers whose bytes the set protects.
    pub members: Vec<usize>,
    /// Writers of other failure groups that only keep parity, where the set has too few members.
    pub keepers: Vec<usize>,
}

impl fmt::Display for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let members: Vec<String> = self.members.iter().map(usize::to_string).collect();
        write!(f, "{}", members.join(" "))?;
        self.keepers.iter().try_for_each(|keeper| write!(f, " ({keeper})"))
    }
}

/// Sets of writers of different failure groups, as equal in size as possible, none larger than the scheme says.
/// `writers[i]` is the failure group of writer `i`. Writers from `with_bytes` on have no bytes of their own and may
/// only keep parity. A writer is in no set if no other group exists.
pub fn sets(scheme: Scheme, writers: &[&str], with_bytes: usize) -> Vec<Set> {
    let mut buckets: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (number, group) in writers.iter().enumerate().take(with_bytes) {
        buckets.entry(group).or_default().push(number);
    }
    let mut buckets: Vec<Vec<usize>> = buckets.into_values().collect();
    // The sort is stable: groups of equal size stay in the order of their names.
    buckets.sort_by_key(|bucket| std::cmp::Reverse(bucket.len()));
    let total: usize = buckets.iter().map(Vec::len).sum();
    let largest = buckets.first().map_or(0, Vec::len);
    let count = total.div_ceil(scheme.size().max(1)).max(largest);
    if scheme == Scheme::None || count == 0 {
        return Vec::new();
    }
    let mut sets = vec![Set::default(); count];
    // Writers are dealt in turn. A group has no more writers than there are sets, so no set gets two of one group.
    for (turn, number) in buckets.into_iter().flatten().enumerate() {
        sets[turn % count].members.push(number);
    }
    let least = scheme.parity() + 1;
    for (turn, set) in sets.iter_mut().enumerate() {
        // Sets begin their search at different writers, so that they choose different keepers.
        for step in 0..writers.len() {
            let candidate = (turn + step) % writers.len();
            if set.members.len() + set.keepers.len() >= least {
                break;
            }
            let group = writers[candidate];
            if set.members.iter().chain(&set.keepers).all(|member| writers[*member] != group) {
                set.keepers.push(candidate);
            }
        }
    }
    sets.retain(|set| set.members.len() + set.keepers.len() >= 2);
    sets
}

/// The number of parity chunks of a stripe in a set of this many members: fewer than the scheme says if the set is too
/// small.
pub fn parity_of(scheme: Scheme, members: usize) -> usize {
    scheme.parity().min(members.saturating_sub(1))
}

/// One stripe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stripe {
    /// Pairs of a member and the number of its chunk, in coding order.
    pub data: Vec<(usize, usize)>,
    /// Members that keep the parity chunks, in their order.
    pub parity: Vec<usize>,
}

/// The stripes of a set of `members`, with `parity` chunks each, which is less than `members`. With `copies`, each
/// stripe holds all bytes of one member, and the next member keeps a copy.
pub fn stripes(members: usize, parity: usize, copies: bool) -> Vec<Stripe> {
    let stripe = |first: usize| {
        if copies {
            return Stripe { data: vec![(first, 0)], parity: vec![(first + 1) % members] };
        }
        let data =
            (0..members.saturating_sub(parity)).map(|chunk| ((first + parity + chunk) % members, chunk));
        Stripe {
            data: data.collect(),
            parity: (0..parity).map(|number| (first + number) % members).collect(),
        }
    };
    (0..members).map(stripe).collect()
}

/// The number of the stripe that holds a member's chunk.
pub fn stripe_of(member: usize, chunk: usize, members: usize, parity: usize, copies: bool) -> usize {
    if copies { member } else { (member + 2 * members - parity - chunk) % members }
}

/// The stripe whose parity chunk `number` a member keeps.
pub fn kept_by(member: usize, number: usize, members: usize, copies: bool) -> usize {
    (member + members - if copies { 1 } else { number }) % members
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes_are_read_as_they_are_printed_and_others_are_refused() {
        for text in ["none", "partner", "xor:8", "rs:8+2", "rs:1+1"] {
            assert_eq!(Scheme::parse(text).map(|scheme| scheme.to_string()), Ok(text.into()));
        }
        for text in [
            "", "xor", "xor:1", "xor:65", "xor:08", "rs:8", "rs:0+2", "rs:8+0", "rs:8+9", "rs:60+8", "xor:+8",
        ] {
            assert!(Scheme::parse(text).is_err_and(|e| e.contains("partner")), "{text}");
        }
    }

    fn shown(scheme: &str, writers: &[&str]) -> Vec<String> {
        let scheme = Scheme::parse(scheme).expect("a scheme");
        sets(scheme, writers, writers.len()).iter().map(Set::to_string).collect()
    }

    #[test]
    fn writers_of_one_failure_group_never_share_a_set() {
        assert_eq!(shown("xor:8", &["a", "b", "c", "d"]), ["0 1 2 3"]);
        assert_eq!(shown("xor:2", &["a", "b", "c", "d"]), ["0 2", "1 3"]);
        assert_eq!(shown("xor:8", &["a", "a", "b", "b"]), ["0 2", "1 3"]);
        assert_eq!(shown("partner", &["a", "a"]), Vec::<String>::new());
        assert_eq!(shown("none", &["a", "b"]), Vec::<String>::new());
        assert_eq!(shown("partner", &["a", "a", "b"]), ["0 2", "1 (2)"], "a keeper where no writer is left");
        assert_eq!(shown("rs:4+2", &["a", "b", "c"]), ["0 1 2"]);
        for nodes in 1..20usize {
            for each in 1..5usize {
                let names: Vec<String> = (0..nodes * each).map(|n| format!("n{}", n % nodes)).collect();
                let writers: Vec<&str> = names.iter().map(String::as_str).collect();
                let found = sets(Scheme::Xor(8), &writers, writers.len());
                let mut seen: Vec<usize> = found.iter().flat_map(|set| set.members.clone()).collect();
                seen.sort_unstable();
                assert_eq!(seen.len(), if nodes > 1 { writers.len() } else { 0 });
                for set in &found {
                    let mut groups: Vec<&str> = set.members.iter().map(|n| writers[*n]).collect();
                    groups.sort_unstable();
                    groups.dedup();
                    assert_eq!(groups.len(), set.members.len());
                    assert!(set.members.len() <= 8);
                }
            }
        }
    }

    #[test]
    fn every_chunk_is_in_one_stripe_and_no_member_twice_in_one() {
        for members in 2..12 {
            for parity in 1..members.min(4) {
                let all = stripes(members, parity, false);
                for member in 0..members {
                    for chunk in 0..members - parity {
                        let stripe = &all[stripe_of(member, chunk, members, parity, false)];
                        assert_eq!(stripe.data[chunk], (member, chunk));
                    }
                    for number in 0..parity {
                        let stripe = &all[kept_by(member, number, members, false)];
                        assert_eq!(stripe.parity[number], member);
                    }
                }
                for stripe in &all {
                    let mut seen: Vec<usize> = stripe.data.iter().map(|(member, _)| *member).collect();
                    seen.extend(&stripe.parity);
                    seen.sort_unstable();
                    assert_eq!(seen, (0..members).collect::<Vec<_>>(), "each member once");
                }
            }
            let copies = stripes(members, 1, true);
            for member in 0..members {
                assert_eq!(copies[stripe_of(member, 0, members, 1, true)].data, [(member, 0)]);
                assert_eq!(copies[kept_by(member, 0, members, true)].parity, [member]);
            }
        }
    }
}
