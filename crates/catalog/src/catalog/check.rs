//! Checks whether a catalogue is undamaged, and the state of its containers.

use drystone::{ErrorKind, Result};

use super::Catalog;
use crate::workers::each;

/// The result of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Number of listed containers.
    pub containers: u64,
    /// Number of pages.
    pub pages: u64,
    /// Bytes of all pages.
    pub bytes: u64,
    /// Errors in pages; a rebuild repairs them.
    pub damage: Vec<String>,
    /// Containers that have changed since they were added.
    pub stale: Vec<String>,
    /// Containers that no longer exist.
    pub gone: Vec<String>,
    /// Number of containers that cannot be opened from here.
    pub closed: u64,
}

impl Catalog {
    /// Reads every page and checks every container. Changes nothing.
    pub fn check(&self) -> Result<CheckReport> {
        self.refresh()?;
        let mut report = CheckReport::default();
        let mut listed = Vec::new();
        for page in self.pages() {
            report.pages += 1;
            report.bytes += page.at.len;
            match self.facts(&page).and_then(|_| self.listed(std::slice::from_ref(&page))) {
                Ok(found) => listed.extend(found),
                Err(e) => report.damage.push(e.to_string()),
            }
        }
        report.containers = self.len();
        let threads = listed.first().map_or(1, |one| self.threads(&one.path));
        let looked = each(&listed, threads, |one| one.moved_on(&self.options));
        for (one, looked) in listed.into_iter().zip(looked) {
            match looked {
                Ok(false) => {}
                Ok(true) => report.stale.push(one.path),
                Err(e) if e.kind() == ErrorKind::NotFound => report.gone.push(one.path),
                Err(_) => report.closed += 1,
            }
        }
        report.stale.sort();
        report.gone.sort();
        Ok(report)
    }

    /// Examines changed containers again, and removes those that no longer exist.
    pub fn update(&self) -> Result<CheckReport> {
        let report = self.check()?;
        if !report.stale.is_empty() {
            self.add(&report.stale)?;
        }
        if !report.gone.is_empty() {
            self.forget(&report.gone)?;
        }
        Ok(report)
    }
}
