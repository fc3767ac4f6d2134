//! Which tier a new part goes to: the first that works and has space above its reserve, else the home store.

use std::fmt;

/// A folder leaves one in this many bytes of its device to other users, but at most [`MOST_RESERVE`].
const RESERVE: u64 = 20;
/// The most bytes of a device that a folder leaves to other users.
const MOST_RESERVE: u64 = 1 << 30;

/// Bytes that tiers and caches leave to other users, on a device of `size` bytes.
pub fn reserve(size: u64) -> u64 {
    (size / RESERVE).min(MOST_RESERVE)
}

/// The space of a tier when a part is to be placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Free bytes of its device; `None` if unknown or unlimited.
    pub free: Option<u64>,
    /// Bytes of `free` that are left to other users.
    pub reserve: u64,
    /// The most bytes that it may hold of this container, if that is limited.
    pub budget: Option<u64>,
    /// Bytes that it holds of this container.
    pub held: u64,
    /// Bytes of `held` that may be evicted.
    pub evictable: u64,
    /// Whether it failed or did not answer, and is not used for now.
    pub aside: bool,
}

impl Room {
    /// Bytes to evict before `need` more fit; `None` if they do not fit.
    pub fn to_free(&self, need: u64) -> Option<u64> {
        if self.aside {
            return None;
        }
        let over_budget =
            self.budget.map_or(0, |budget| self.held.saturating_add(need).saturating_sub(budget));
        let wanted = need.saturating_add(self.reserve);
        let over_device = self.free.map_or(0, |free| wanted.saturating_sub(free));
        let over = over_budget.max(over_device);
        (over <= self.evictable).then_some(over)
    }
}

/// The destination of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placed {
    /// The tier with this number, after this many bytes are evicted there.
    Tier(usize, u64),
    /// The home store, since no tier has space.
    Home,
}

impl fmt::Display for Placed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Placed::Tier(tier, 0) => write!(f, "tier {tier}"),
            Placed::Tier(tier, bytes) => write!(f, "tier {tier} after evicting {bytes} bytes"),
            Placed::Home => f.write_str("home"),
        }
    }
}

/// The first tier from `from` on in which `need` bytes fit.
pub fn place(need: u64, tiers: &[Room], from: usize) -> Placed {
    let fits = |(number, room): (usize, &Room)| room.to_free(need).map(|bytes| Placed::Tier(number, bytes));
    tiers.iter().enumerate().skip(from).find_map(fits).unwrap_or(Placed::Home)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: Room = Room { free: None, reserve: 0, budget: None, held: 0, evictable: 0, aside: false };

    #[test]
    fn a_part_spills_downwards_when_a_tier_is_full_or_set_aside() {
        let full = Room { free: Some(100), reserve: 50, ..EMPTY };
        assert_eq!(place(60, &[full, EMPTY], 0).to_string(), "tier 1");
        assert_eq!(place(50, &[full, EMPTY], 0).to_string(), "tier 0");
        let aside = Room { aside: true, ..EMPTY };
        assert_eq!(place(1, &[aside, full], 0).to_string(), "tier 1");
        assert_eq!(place(60, &[aside, full], 0).to_string(), "home");
        assert_eq!(place(1, &[EMPTY, EMPTY], 1).to_string(), "tier 1");
    }

    #[test]
    fn drained_copies_make_room_before_a_part_spills() {
        let held = Room { budget: Some(100), held: 90, evictable: 30, ..EMPTY };
        assert_eq!(place(40, &[held, EMPTY], 0).to_string(), "tier 0 after evicting 30 bytes");
        assert_eq!(place(41, &[held, EMPTY], 0).to_string(), "tier 1");
        assert_eq!(place(u64::MAX, &[held], 0), Placed::Home, "and no size overflows");
    }
}
