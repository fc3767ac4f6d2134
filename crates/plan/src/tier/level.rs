//! How safe bytes are: one vocabulary for writers, waits, tables and servers.

use std::fmt;

/// How safe a step is, from least to most. Each level includes the ones before it, except that what is lost has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Its tiers do not have it any more, and no other node keeps it. No caller can ask for this.
    Lost = -1,
    /// In the memory of an engine or a server.
    Received,
    /// In a tier of its node: it survives the process.
    Node,
    /// Rebuilt from other nodes if its node is lost.
    Partner,
    /// In the home store of the container.
    Home,
    /// On stable storage in the home store.
    Stable,
}

impl Level {
    /// All levels that a step can be brought to, ascending.
    pub const ALL: [Level; 5] = [Level::Received, Level::Node, Level::Partner, Level::Home, Level::Stable];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Level::Lost => "lost",
            Level::Received => "received",
            Level::Node => "node",
            Level::Partner => "partner",
            Level::Home => "home",
            Level::Stable => "stable",
        }
    }

    /// The level of that name.
    pub fn parse(name: &str) -> Option<Level> {
        Level::ALL.into_iter().find(|level| level.name() == name)
    }

    /// Its number in messages (docs/format/wire.md). A lost step is in no message.
    pub const fn code(self) -> u64 {
        match self {
            Level::Lost => u64::MAX,
            level => level as u64,
        }
    }

    /// Its number in C: -1 if lost.
    pub const fn number(self) -> i32 {
        self as i32
    }

    /// The level of that number.
    pub fn of_code(code: u64) -> Option<Level> {
        Level::ALL.into_iter().find(|level| level.code() == code)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::Level;

    #[test]
    fn levels_are_ordered_and_named() {
        assert!(Level::ALL.is_sorted());
        for level in Level::ALL {
            assert_eq!(Level::parse(level.name()), Some(level));
        }
        assert_eq!(Level::parse("safe"), None);
        assert_eq!((Level::parse("lost"), Level::of_code(Level::Lost.code())), (None, None));
        assert!(Level::Lost < Level::Received && Level::Lost.number() == -1);
    }
}
