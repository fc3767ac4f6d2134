//! How safe bytes are.

/// A level; each includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// In the memory of an engine or a server.
    Received,
    /// On the node: it survives the process.
    Node,
    /// On a partner: it survives the node.
    Partner,
    /// In the container's home store.
    Home,
    /// In the home store, and synced there: it survives a power cut.
    Stable,
}

impl Level {
    /// All of them, in order.
    pub const ALL: [Level; 5] = [Level::Received, Level::Node, Level::Partner, Level::Home, Level::Stable];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Level::Received => "received",
            Level::Node => "node",
            Level::Partner => "partner",
            Level::Home => "home",
            Level::Stable => "stable",
        }
    }

    /// The level of this name.
    pub fn named(name: &str) -> Option<Level> {
        Self::ALL.into_iter().find(|level| level.name() == name)
    }

    /// Its number in messages.
    pub fn code(self) -> u64 {
        self as u64
    }

    /// The level of this number.
    pub fn of_code(code: u64) -> Option<Level> {
        Self::ALL.into_iter().find(|level| level.code() == code)
    }
}
