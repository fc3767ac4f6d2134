//! Which existing packs of manifests, or of log parts, a new pack includes.
//!
//! A new pack includes the last packs as long as each is no larger than the content so far. So sizes at least halve
//! from pack to pack: n members lie in about log2(n) packs, and each member is rewritten about log2(n) times. Packs
//! that are small together become one in any case, because writing some bytes again costs less than another file.

/// How many of the last packs are merged with new members, so that the result has at most `most` bytes; up to `small`
/// bytes, packs are merged whatever their numbers of members. `packs` (oldest first) and `new` are pairs: number of
/// members, and bytes.
pub fn merged(packs: &[(u64, u64)], new: (u64, u64), (small, most): (u64, u64)) -> usize {
    let (mut members, mut bytes) = new;
    let mut taken = 0;
    for &(more, length) in packs.iter().rev() {
        let Some(sum) = bytes.checked_add(length).filter(|sum| *sum <= most) else { break };
        if more > members && sum > small {
            break;
        }
        (members, bytes) = (members.saturating_add(more), sum);
        taken += 1;
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::merged;

    #[test]
    fn packs_are_few_and_each_member_is_written_seldom() {
        let (mut packs, mut written) = (Vec::<(u64, u64)>::new(), 0);
        for _ in 0..1000 {
            let taken = merged(&packs, (8, 800), (0, u64::MAX));
            let rest = packs.split_off(packs.len() - taken);
            let pack = rest.iter().fold((8, 800), |(m, b), more| (m + more.0, b + more.1));
            written += pack.0;
            packs.push(pack);
        }
        assert_eq!(packs.iter().map(|pack| pack.0).sum::<u64>(), 8000);
        assert!(packs.len() <= 10, "{packs:?}");
        assert!(written <= 8000 * 10, "{written}");
    }

    #[test]
    fn large_packs_are_left_alone() {
        assert_eq!(merged(&[(8, 900), (8, 100)], (8, 100), (0, 1000)), 1);
        assert_eq!(merged(&[(9, 1), (8, 1)], (8, 1), (0, 1000)), 2);
        assert_eq!(merged(&[(9, 1)], (8, 1), (0, 1000)), 0);
        assert_eq!(merged(&[(u64::MAX, 1)], (u64::MAX, u64::MAX), (0, u64::MAX)), 0);
    }

    #[test]
    fn small_packs_become_one() {
        assert_eq!(merged(&[(100, 500), (90, 300)], (8, 100), (1000, 5000)), 2);
        assert_eq!(merged(&[(100, 700), (90, 300)], (8, 100), (1000, 5000)), 1);
        assert_eq!(merged(&[(90, 300)], (8, 100), (1000, 350)), 0);
    }
}
