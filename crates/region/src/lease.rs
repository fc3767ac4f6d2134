//! Leases on boxes: leases expire, and fencing numbers order them. Pure: the caller supplies the time.
//!
//! Invariants
//! - boxes of two live leases never overlap;
//! - a request gets all of its boxes or none, so two requests never wait for each other's boxes;
//! - fencing numbers ascend in the order in which leases were granted, also from one table to the next.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A box of cells of one variable and step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cells {
    /// Path of the variable.
    pub variable: String,
    /// The step; `None` for variables without steps.
    pub step: Option<u64>,
    /// Its first cell.
    pub offset: Vec<u64>,
    /// Its extents.
    pub count: Vec<u64>,
}

impl Cells {
    /// Whether the boxes have a cell in common.
    pub(crate) fn meets(&self, other: &Cells) -> bool {
        let axis =
            |(a, n): (u64, u64), (b, m): (u64, u64)| a < b.saturating_add(m) && b < a.saturating_add(n);
        let mine = self.offset.iter().copied().zip(self.count.iter().copied());
        let theirs = other.offset.iter().copied().zip(other.count.iter().copied());
        self.variable == other.variable
            && self.step == other.step
            && self.offset.len() == other.offset.len()
            && mine.zip(theirs).all(|(mine, theirs)| axis(mine, theirs))
    }
}

/// A lease that was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Its number, which is also its fencing number.
    pub fence: u64,
    /// The time after which it expires, counted from the grant or the last renewal.
    pub life: Duration,
}

#[derive(Debug)]
struct Held {
    cells: Vec<Cells>,
    life: Duration,
    until: Instant,
    /// The number of the request that granted it. The request may be repeated.
    once: u64,
}

/// The leases of a container.
#[derive(Debug)]
pub(crate) struct Leases {
    held: BTreeMap<u64, Held>,
    next: u64,
}

impl Leases {
    /// No leases. New fencing numbers are above `from`.
    pub(crate) fn new(from: u64) -> Self {
        Leases { held: BTreeMap::new(), next: from + 1 }
    }

    /// Grants all of these boxes. Otherwise returns when the first conflicting lease expires, unless it is renewed. A
    /// repeated request, identified by its number `once`, gets the lease that it has.
    pub(crate) fn acquire(
        &mut self,
        now: Instant,
        cells: &[Cells],
        life: Duration,
        once: u64,
    ) -> Result<Lease, Instant> {
        self.held.retain(|_, held| held.until > now);
        if let Some((fence, held)) = self.held.iter().find(|(_, held)| held.once == once) {
            return Ok(Lease { fence: *fence, life: held.life });
        }
        let in_the_way =
            self.held.values().filter(|held| held.cells.iter().any(|a| cells.iter().any(|b| a.meets(b))));
        if let Some(first) = in_the_way.map(|held| held.until).min() {
            return Err(first);
        }
        let fence = self.next;
        self.next += 1;
        self.held.insert(fence, Held { cells: cells.to_vec(), life, until: now + life, once });
        Ok(Lease { fence, life })
    }

    /// Restarts the lease's time. Returns whether the lease was live.
    pub(crate) fn renew(&mut self, now: Instant, fence: u64) -> bool {
        match self.held.get_mut(&fence) {
            Some(held) if held.until > now => {
                held.until = now + held.life;
                true
            }
            _ => false,
        }
    }

    /// Whether the lease is live and covers all cells of this box.
    pub(crate) fn covers(&self, now: Instant, fence: u64, cells: &Cells) -> bool {
        let within = |held: &Cells| {
            let axis = |((a, n), (b, m)): ((u64, u64), (u64, u64))| {
                a <= b && b.saturating_add(m) <= a.saturating_add(n)
            };
            let outer = held.offset.iter().copied().zip(held.count.iter().copied());
            let inner = cells.offset.iter().copied().zip(cells.count.iter().copied());
            held.variable == cells.variable
                && held.step == cells.step
                && held.offset.len() == cells.offset.len()
                && outer.zip(inner).all(axis)
        };
        self.held.get(&fence).is_some_and(|held| held.until > now && held.cells.iter().any(within))
    }

    /// Ends the lease. Returns whether it was live.
    pub(crate) fn end(&mut self, now: Instant, fence: u64) -> bool {
        self.held.remove(&fence).is_some_and(|held| held.until > now)
    }

    /// The number of live leases.
    pub(crate) fn alive(&self, now: Instant) -> usize {
        self.held.values().filter(|held| held.until > now).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(offset: &[u64], count: &[u64]) -> Cells {
        Cells { variable: "T".into(), step: Some(1), offset: offset.into(), count: count.into() }
    }

    const LIFE: Duration = Duration::from_secs(10);

    #[test]
    fn boxes_that_meet_are_held_by_one_lease_and_others_by_any() {
        let (mut leases, now) = (Leases::new(7), Instant::now());
        let first = leases.acquire(now, &[cells(&[0, 0], &[4, 4])], LIFE, 1).unwrap();
        assert_eq!(first.fence, 8);
        assert_eq!(leases.acquire(now, &[cells(&[3, 3], &[1, 1])], LIFE, 2), Err(now + LIFE));
        let beside = leases.acquire(now, &[cells(&[4, 0], &[4, 4])], LIFE, 3).unwrap();
        let other_step = Cells { step: Some(2), ..cells(&[0, 0], &[9, 9]) };
        let third = leases.acquire(now, &[other_step], LIFE, 4).unwrap();
        assert!(first.fence < beside.fence && beside.fence < third.fence);
        let all_or_none = [cells(&[20, 0], &[1, 1]), cells(&[0, 0], &[1, 1])];
        assert!(leases.acquire(now, &all_or_none, LIFE, 5).is_err());
        assert!(
            leases.acquire(now, &[cells(&[20, 0], &[1, 1])], LIFE, 6).is_ok(),
            "nothing of it was granted"
        );
        assert!(leases.end(now, first.fence) && !leases.end(now, first.fence));
        assert!(leases.acquire(now, &[cells(&[3, 3], &[1, 1])], LIFE, 2).is_ok());
    }

    #[test]
    fn a_lease_that_is_not_renewed_ends_and_one_that_ended_is_never_renewed() {
        let (mut leases, now) = (Leases::new(0), Instant::now());
        let first = leases.acquire(now, &[cells(&[0], &[4])], LIFE, 1).unwrap();
        assert!(leases.renew(now + LIFE / 2, first.fence));
        assert!(leases.acquire(now + LIFE, &[cells(&[0], &[4])], LIFE, 2).is_err(), "it was renewed");
        let later = now + LIFE + LIFE;
        let second = leases.acquire(later, &[cells(&[0], &[4])], LIFE, 2).unwrap();
        assert!(second.fence > first.fence);
        assert!(!leases.renew(later, first.fence) && !leases.covers(later, first.fence, &cells(&[0], &[4])));
    }

    #[test]
    fn the_same_request_gets_the_same_lease_and_a_lease_covers_its_boxes() {
        let (mut leases, now) = (Leases::new(0), Instant::now());
        let first = leases.acquire(now, &[cells(&[2, 2], &[4, 4])], LIFE, 9).unwrap();
        assert_eq!(leases.acquire(now, &[cells(&[2, 2], &[4, 4])], LIFE, 9), Ok(first));
        assert!(leases.covers(now, first.fence, &cells(&[3, 2], &[2, 4])));
        for outside in [cells(&[1, 2], &[2, 2]), cells(&[5, 2], &[2, 4]), cells(&[2], &[4])] {
            assert!(!leases.covers(now, first.fence, &outside), "{outside:?}");
        }
        assert_eq!(leases.alive(now), 1);
    }

    /// A model: a list of boxes per lease, on random requests, renewals and waits.
    #[test]
    fn random_requests_never_hold_one_cell_twice() {
        let mut state = 0x1234_5678_9abc_def0_u64;
        let mut random = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        };
        let (mut leases, mut now) = (Leases::new(0), Instant::now());
        let mut alive: Vec<(u64, Instant, Cells)> = Vec::new();
        for once in 0..20_000 {
            now += Duration::from_millis(random(2000));
            alive.retain(|(_, until, _)| *until > now);
            let wanted = cells(&[random(20), random(20)], &[1 + random(6), 1 + random(6)]);
            let is_free = alive.iter().all(|(_, _, held)| !held.meets(&wanted));
            match leases.acquire(now, std::slice::from_ref(&wanted), LIFE, once) {
                Ok(lease) => {
                    assert!(is_free);
                    alive.push((lease.fence, now + LIFE, wanted));
                }
                Err(until) => assert!(!is_free && until > now),
            }
            if random(3) == 0 && !alive.is_empty() {
                let one = random(alive.len() as u64) as usize;
                assert!(leases.end(now, alive.swap_remove(one).0));
            }
        }
    }
}
