//! Adds and removes containers, and merges pages.

use std::collections::{BTreeMap, BTreeSet};

use drystone::{Error, ErrorKind, Result};
use drystone_store::PutMode;

use super::pages::{Page, is_missing, number, page_of, text};
use super::{Catalog, random};
use crate::expand;
use crate::facts::Facts;
use crate::glance;
use crate::identity::Identity;
use crate::look::look;
use crate::manifest::Manifest;
use crate::merge;
use crate::page::PageBuilder;
use crate::workers::each;

/// The result of adding containers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AddReport {
    /// Number of containers that were new or had changed.
    pub added: u64,
    /// Number of containers that were known and unchanged.
    pub unchanged: u64,
    /// Containers that could not be read: their locations, and the errors.
    pub failed: Vec<(String, Error)>,
}

/// A container that the catalogue shows.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Listed {
    pub(super) path: String,
    pub(super) seen: Identity,
}

impl Listed {
    pub(super) fn moved_on(&self, options: &[(String, String)]) -> Result<bool> {
        glance::moved_on(&self.path, options, &self.seen)
    }
}

impl Catalog {
    /// Adds the containers at these paths or URLs, and in these folders. Known containers are examined again if they
    /// have changed.
    ///
    /// It is an error if nothing could be added; otherwise the report names the failures.
    pub fn add(&self, locations: &[String]) -> Result<AddReport> {
        let mut report = AddReport::default();
        let mut paths = BTreeSet::new();
        for location in locations {
            match expand::containers(location, &self.options) {
                Ok((found, failed)) => {
                    paths.extend(found);
                    report.failed.extend(failed);
                }
                Err(e) => report.failed.push((location.clone(), e)),
            }
        }
        self.refresh()?;
        let paths: Vec<String> = paths.into_iter().collect();
        let known = self.of_newest(|_| self.known(&paths))?;
        let wanted: Vec<(String, Option<Identity>)> = paths.into_iter().zip(known).collect();
        let before = wanted.iter().filter_map(|(path, seen)| Some((path.clone(), (*seen)?))).collect();
        let threads = wanted.first().map_or(1, |(path, _)| self.threads(path));
        let looked = each(&wanted, threads, |(path, seen)| {
            if let Some(seen) = seen {
                let listed = Listed { path: path.clone(), seen: *seen };
                if listed.moved_on(&self.options) == Ok(false) {
                    return Ok(None);
                }
            }
            look(path, &self.options).map(Some)
        });
        let mut facts = Vec::new();
        for ((path, _), looked) in wanted.into_iter().zip(looked) {
            match looked {
                Ok(Some(found)) => facts.push(found),
                Ok(None) => report.unchanged += 1,
                Err(e) => report.failed.push((path, e)),
            }
        }
        report.added = facts.len() as u64;
        if report.added + report.unchanged == 0
            && let Some((_, error)) = report.failed.first()
        {
            return Err(error.clone());
        }
        self.change(facts, &[], &before, true)?;
        Ok(report)
    }

    /// Removes containers from the catalogue; returns how many there were.
    pub fn forget(&self, locations: &[String]) -> Result<u64> {
        self.refresh()?;
        let paths: Vec<String> = locations.iter().map(|l| expand::normal(l)).collect::<Result<_>>()?;
        let there = self.of_newest(|_| self.known(&paths))?.into_iter().flatten().count();
        self.change(Vec::new(), &paths, &BTreeMap::new(), true)?;
        Ok(there as u64)
    }

    /// The entry of each path.
    fn known(&self, paths: &[String]) -> Result<Vec<Option<Identity>>> {
        self.known_in(&self.pages(), paths)
    }

    fn known_in(&self, pages: &[Page], paths: &[String]) -> Result<Vec<Option<Identity>>> {
        let mut out = vec![None; paths.len()];
        for page in pages {
            let (in_page, mut identities) = (self.paths(page)?, None);
            for (path, out) in paths.iter().zip(&mut out) {
                let Some(n) = number(&in_page, path) else { continue };
                if page.at.hidden.binary_search(&n).is_ok() {
                    continue;
                }
                if identities.is_none() {
                    identities = Some(self.identities(page)?);
                }
                *out = identities.as_ref().and_then(|all| all.get(n as usize)).copied();
            }
        }
        Ok(out)
    }

    /// All containers that are not hidden.
    pub(super) fn listed(&self, pages: &[Page]) -> Result<Vec<Listed>> {
        let mut out = Vec::new();
        for page in pages {
            let (paths, identities) = (self.paths(page)?, self.identities(page)?);
            for (n, seen) in identities.iter().enumerate() {
                if page.at.hidden.binary_search(&(n as u32)).is_err() {
                    out.push(Listed { path: text(&paths, n), seen: *seen });
                }
            }
        }
        Ok(out)
    }

    /// The paths that sound pages show.
    fn paths_of(&self, pages: &[Page]) -> Result<BTreeSet<String>> {
        let mut out = BTreeSet::new();
        for page in pages {
            match self.listed(std::slice::from_ref(page)) {
                Ok(found) => out.extend(found.into_iter().map(|one| one.path)),
                Err(e) if e.kind() == ErrorKind::Corrupt => {}
                Err(e) => return Err(e),
            }
        }
        Ok(out)
    }

    /// The same pages with these paths hidden.
    pub(super) fn hide<'p>(
        &self,
        pages: Vec<Page>,
        paths: impl Iterator<Item = &'p str> + Clone,
    ) -> Result<Vec<Page>> {
        let mut out = Vec::with_capacity(pages.len());
        for mut page in pages {
            let in_page = self.paths(&page)?;
            page.at.hidden.extend(paths.clone().filter_map(|path| number(&in_page, path)));
            page.at.hidden.sort_unstable();
            page.at.hidden.dedup();
            out.push(page);
        }
        Ok(out)
    }

    /// In one commit, makes facts visible in place of earlier ones for their paths, and removes other paths. Facts that
    /// another process added meanwhile stay if they are newer. `before`: the entries when the containers were examined.
    /// Unless `add`, entries that another process removed meanwhile stay removed.
    pub(super) fn change(
        &self,
        facts: Vec<Facts>,
        gone: &[String],
        before: &BTreeMap<String, Identity>,
        add: bool,
    ) -> Result<()> {
        if facts.is_empty() && gone.is_empty() {
            return Ok(());
        }
        let ours: Vec<Identity> =
            facts.iter().map(|f| Identity { uuid: f.uuid, version: f.version, time: f.time }).collect();
        let paths: Vec<String> = facts.iter().map(|f| f.path.clone()).collect();
        let new: Vec<Page> = PageBuilder::pages(facts).into_iter().map(|b| page_of(b, random())).collect();
        self.store_pages(&new)?;
        self.commit(|newest| {
            let pages: Vec<Page> =
                newest.pages.iter().map(|at| Page { at: at.clone(), bytes: None }).collect();
            let theirs = self.known_in(&pages, &paths)?;
            let superseded = |(n, path): (usize, &String)| match theirs[n] {
                Some(theirs) => before.get(path) != Some(&theirs) && theirs.is_newer(&ours[n]),
                None => !add && before.contains_key(path),
            };
            let (old, ours): (Vec<&str>, Vec<&str>) = {
                let is_old: Vec<bool> = paths.iter().enumerate().map(superseded).collect();
                let of = |wanted: bool| {
                    let some = paths.iter().zip(&is_old).filter(move |(_, old)| **old == wanted);
                    some.map(|(path, _)| path.as_str()).collect()
                };
                (of(true), of(false))
            };
            let new = self.hide(new.clone(), old.iter().copied())?;
            let hidden = ours.into_iter().chain(gone.iter().map(String::as_str));
            Ok(self.next(newest, self.hide(pages, hidden)?, &new))
        })?;
        self.merge()
    }

    fn next(&self, newest: &Manifest, old: Vec<Page>, new: &[Page]) -> Manifest {
        let pages = old.into_iter().chain(new.iter().cloned()).map(|page| page.at).collect();
        Manifest { number: newest.number + 1, uuid: self.uuid, pages }
    }

    fn store_pages(&self, pages: &[Page]) -> Result<()> {
        for page in pages {
            if let Some(bytes) = &page.bytes {
                self.store.put(&page.at.key(), &[bytes], PutMode::IfAbsent, true)?;
            }
        }
        Ok(())
    }

    /// Merges small pages if there are many. If another process changes the catalogue meanwhile, nothing is merged.
    fn merge(&self) -> Result<()> {
        let newest = self.manifest();
        let places = merge::plan(&newest.pages);
        if places.is_empty() {
            return Ok(());
        }
        let mut facts = Vec::new();
        for &n in &places {
            let Some(at) = newest.pages.get(n) else { continue };
            match self.facts(&Page { at: at.clone(), bytes: None }) {
                Ok(found) => facts.extend(found),
                Err(e) if is_missing(&e) || e.kind() == ErrorKind::Corrupt => return Ok(()),
                Err(e) => return Err(e),
            }
        }
        let merged: Vec<Page> = PageBuilder::pages(facts).into_iter().map(|b| page_of(b, random())).collect();
        self.store_pages(&merged)?;
        let kept =
            newest.pages.iter().enumerate().filter(|(n, _)| !places.contains(n)).map(|(_, at)| at.clone());
        let pages = kept.chain(merged.iter().map(|page| page.at.clone())).collect();
        let won = self.put(Manifest { number: newest.number + 1, uuid: self.uuid, pages })?;
        let unused: Vec<String> = if won {
            places.iter().filter_map(|&n| newest.pages.get(n)).map(|at| at.key()).collect()
        } else {
            merged.iter().map(|page| page.at.key()).collect()
        };
        unused.iter().for_each(|key| drop(self.store.delete(key)));
        if !won {
            self.refresh()?;
        }
        Ok(())
    }

    /// Rebuilds the catalogue from the present state of its containers. Damaged pages are dropped together with their
    /// paths; add those again.
    pub fn rebuild(&self) -> Result<AddReport> {
        self.refresh()?;
        let mut report = AddReport::default();
        let (newest, listed) = loop {
            let (newest, mut listed) = (self.manifest(), Vec::new());
            for page in self.pages() {
                match self.listed(std::slice::from_ref(&page)) {
                    Ok(found) => listed.extend(found),
                    Err(e) => {
                        let lost = match page.at.live() {
                            1 => "1 container is listed no more: add it again".to_owned(),
                            n => format!("{n} containers are listed no more: add them again"),
                        };
                        report.failed.push((page.at.key(), Error::new(e.kind(), format!("{lost}: {e}"))));
                    }
                }
            }
            let is_merged = report.failed.iter().any(|(_, e)| is_missing(e));
            if is_merged {
                self.refresh()?;
            }
            if !is_merged || self.manifest().number == newest.number {
                break (newest, listed);
            }
            report.failed.clear();
        };
        let threads = listed.first().map_or(1, |one| self.threads(&one.path));
        let looked = each(&listed, threads, |one| look(&one.path, &self.options));
        let mut facts = Vec::new();
        for (one, looked) in listed.into_iter().zip(looked) {
            match looked {
                Ok(found) => facts.push(found),
                Err(e) => report.failed.push((one.path, e)),
            }
        }
        report.added = facts.len() as u64;
        let facts_paths: Vec<String> = facts.iter().map(|found| found.path.clone()).collect();
        let new: Vec<Page> = PageBuilder::pages(facts).into_iter().map(|b| page_of(b, random())).collect();
        self.store_pages(&new)?;
        let was: BTreeSet<[u8; 16]> = newest.pages.iter().map(|at| at.id).collect();
        let paths: Vec<&str> = facts_paths.iter().map(String::as_str).collect();
        self.commit(|newest| {
            // Entries that other processes have added meanwhile are kept, and count instead of those found here. What
            // they have removed stays removed.
            let pages = newest.pages.iter().map(|at| Page { at: at.clone(), bytes: None });
            let (old, others): (Vec<Page>, Vec<Page>) = pages.partition(|page| was.contains(&page.at.id));
            let (old, added) = (self.paths_of(&old)?, self.paths_of(&others)?);
            let superseded = |path: &&str| added.contains(*path) || !old.contains(*path);
            let new = self.hide(new.clone(), paths.iter().copied().filter(superseded))?;
            Ok(self.next(newest, others, &new))
        })?;
        newest.pages.iter().for_each(|at| drop(self.store.delete(&at.key())));
        self.forget_decoded();
        Ok(report)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crate::catalog::Catalog;
    use crate::facts::Facts;
    use crate::identity::Identity;

    /// Symptom: a process that had looked at a container before it changed put its older facts over the newer ones that
    /// another process had added meanwhile, and restored what that one had forgotten.
    #[test]
    fn facts_that_another_process_changed_meanwhile_stay() {
        let dir = tempfile::tempdir().expect("a folder");
        let open = |make| Catalog::open(&dir.path().to_string_lossy(), &[], make).expect("a catalogue");
        let (slow, other) = (open(true), open(false));
        let facts =
            |version| Facts { path: "/a".into(), uuid: [1; 16], version, time: version, values: Vec::new() };
        let before =
            |version| BTreeMap::from([("/a".to_owned(), Identity { uuid: [1; 16], version, time: version })]);
        let none = BTreeMap::new();
        let shown = |catalog: &Catalog| -> Option<u64> {
            catalog.refresh().expect("refreshed");
            let known: Vec<Option<Identity>> = catalog.known(&["/a".to_owned()]).expect("read");
            known[0].map(|one| one.version)
        };
        slow.change(vec![facts(1)], &[], &none, true).expect("added");
        slow.change(vec![facts(2)], &[], &before(1), false).expect("added");
        assert_eq!(shown(&other), Some(2), "newer facts replace older ones");
        other.change(vec![facts(4)], &[], &before(2), true).expect("added");
        slow.change(vec![facts(3)], &[], &before(2), false).expect("nothing to add");
        assert_eq!((shown(&slow), shown(&other)), (Some(4), Some(4)), "older facts do not");
        other.change(Vec::new(), &["/a".to_owned()], &none, true).expect("forgotten");
        slow.change(vec![facts(5)], &[], &before(4), false).expect("nothing to add");
        assert_eq!((shown(&slow), shown(&other)), (None, None), "what was forgotten meanwhile stays so");
        slow.change(vec![facts(5)], &[], &before(4), true).expect("added");
        assert_eq!(shown(&other), Some(5), "unless it is added");
        let replaced = Facts { uuid: [2; 16], version: 0, time: 0, ..facts(0) };
        slow.change(vec![replaced], &[], &before(5), false).expect("replaced");
        assert_eq!(shown(&other), Some(0), "a container that was replaced by an older one");
    }
}
