//! Which faults happen when. A script can be printed with a failing test and replayed.

use std::collections::BTreeMap;

use super::random::Xorshift;

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The process dies during the request: a prefix of an append remains, all or nothing of a put or delete,
    /// and a sync has synced some of its keys. This request and all later ones fail with `Closed`.
    Crash,
    /// The request is not done and fails with `Io`.
    Fail,
    /// The request is done but fails with `Io`.
    LostReply,
    /// The request fails with `NoSpace`; the bytes of an append that still fit remain.
    NoSpace,
    /// A read fails with `ShortRead` though the object is long enough; changes are not affected.
    ShortRead,
}

/// The faults of a [`FaultStore`](super::FaultStore). By default there are none.
#[derive(Clone, Debug, Default)]
pub struct Script {
    pub(crate) seed: u64,
    changes: BTreeMap<u64, Fault>,
    reads: BTreeMap<u64, Fault>,
    /// One in this many changes or reads is hit, at random.
    random_changes: Option<(u64, Fault)>,
    random_reads: Option<(u64, Fault)>,
    pub(crate) space: Option<u64>,
    pub(crate) list_delay: u64,
}

impl Script {
    /// A script without faults. `seed` determines all random choices.
    pub fn seeded(seed: u64) -> Self {
        Script { seed, ..Self::default() }
    }

    /// Hits the change (append, write inside, put, delete or sync) with this number, counted from 0.
    #[must_use]
    pub fn at(mut self, change: u64, fault: Fault) -> Self {
        self.changes.insert(change, fault);
        self
    }

    /// Hits the read with this number, counted from 0.
    #[must_use]
    pub fn at_nth_read(mut self, read: u64, fault: Fault) -> Self {
        self.reads.insert(read, fault);
        self
    }

    /// Hits one change in `n`, at random.
    #[must_use]
    pub fn one_in(mut self, n: u64, fault: Fault) -> Self {
        self.random_changes = Some((n, fault));
        self
    }

    /// Hits one read in `n`, at random.
    #[must_use]
    pub fn one_read_in(mut self, n: u64, fault: Fault) -> Self {
        self.random_reads = Some((n, fault));
        self
    }

    /// Leaves space for `bytes` more bytes. Deleting and replacing free no space.
    #[must_use]
    pub fn with_space(mut self, bytes: u64) -> Self {
        self.space = Some(bytes);
        self
    }

    /// A new object is listed only after this many further requests of any kind.
    #[must_use]
    pub fn with_list_delay(mut self, requests: u64) -> Self {
        self.list_delay = requests;
        self
    }

    pub(crate) fn at_change(&self, number: u64, random: &mut Xorshift) -> Option<Fault> {
        pick(&self.changes, self.random_changes, number, random)
    }

    pub(crate) fn at_read(&self, number: u64, random: &mut Xorshift) -> Option<Fault> {
        pick(&self.reads, self.random_reads, number, random)
    }
}

fn pick(
    planned: &BTreeMap<u64, Fault>,
    random_fault: Option<(u64, Fault)>,
    number: u64,
    random: &mut Xorshift,
) -> Option<Fault> {
    planned
        .get(&number)
        .copied()
        .or_else(|| random_fault.filter(|(n, _)| random.one_in(*n)).map(|(_, fault)| fault))
}
