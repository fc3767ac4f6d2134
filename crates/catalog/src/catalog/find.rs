//! Finds containers: columns determine which containers answer, and a check of each container whether it may be shown
//! and has changed.

use std::collections::BTreeSet;

use drystone::{Error, ErrorKind, Result};
use drystone_suggest::did_you_mean;

use super::Catalog;
use super::add::Listed;
use super::pages::{Page, is_missing, page_of, text};
use crate::answer::answer;
use crate::look::look;
use crate::page::PageBuilder;
use crate::question::Question;
use crate::value::Class;
use crate::workers::each;

/// Most attempts while other processes merge pages.
const TRIES: usize = 20;
/// Number of answers that one thread checks.
const ALONE: usize = 128;

/// A container that answers a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundContainer {
    /// Its location.
    pub path: String,
    /// Its identity.
    pub uuid: [u8; 16],
    /// The snapshot that the answer is about.
    pub version: u64,
    /// Time of its commit, in nanoseconds since 1970.
    pub time: u64,
    /// Whether the container has another snapshot by now.
    pub stale: bool,
}

/// The result of a search.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FoundReport {
    /// Containers, by path.
    pub found: Vec<FoundContainer>,
    /// Number of containers that answer and no longer exist.
    pub gone: u64,
    /// Number of containers that answer and cannot be opened from here, because that is not permitted or they are not
    /// reachable.
    pub closed: u64,
}

impl Catalog {
    /// The containers that answer a question. With `fresh`, every changed container is examined first, and the result
    /// is stored if the catalogue is writable.
    pub fn find(&self, text: &str, fresh: bool) -> Result<FoundReport> {
        let question = Question::parse(text)?;
        for _ in 0..TRIES {
            self.refresh()?;
            match self.asked(&question, fresh) {
                Err(e) if is_missing(&e) && self.merged_meanwhile()? => {}
                found => return found,
            }
        }
        Err(Error::new(ErrorKind::Conflict, format!("{} is changed faster than it is read", self.location())))
    }

    fn merged_meanwhile(&self) -> Result<bool> {
        let before = self.version();
        self.refresh()?;
        Ok(self.version() != before)
    }

    fn asked(&self, question: &Question, fresh: bool) -> Result<FoundReport> {
        let pages = if fresh { self.fresh_pages()? } else { self.pages() };
        self.require_names(question, &pages)?;
        self.require_truths(question, &pages)?;
        let mut hits = Vec::new();
        for page in &pages {
            let found = answer(question, page.at.containers, |key| self.column(page, key))?;
            let mut found = found.iter().filter(|n| page.at.hidden.binary_search(n).is_err()).peekable();
            if found.peek().is_none() {
                continue;
            }
            let (paths, identities) = (self.paths(page)?, self.identities(page)?);
            for n in found {
                if let Some(seen) = identities.get(n as usize) {
                    hits.push(Listed { path: text(&paths, n as usize), seen: *seen });
                }
            }
        }
        Ok(self.checked(hits))
    }

    /// The answers that may be shown, and whether they have changed.
    fn checked(&self, mut hits: Vec<Listed>) -> FoundReport {
        hits.sort_by(|a, b| a.path.cmp(&b.path));
        let far = hits.iter().find(|hit| drystone::is_url(&hit.path));
        let threads = match far.or(hits.first()) {
            Some(hit) if far.is_some() || hits.len() > ALONE => self.threads(&hit.path),
            _ => 1,
        };
        let looked = each(&hits, threads, |hit| hit.moved_on(&self.options));
        let mut report = FoundReport::default();
        for (hit, looked) in hits.into_iter().zip(looked) {
            let stale = match looked {
                Ok(stale) => stale,
                Err(e) if e.kind() == ErrorKind::NotFound => {
                    report.gone += 1;
                    continue;
                }
                Err(_) => {
                    report.closed += 1;
                    continue;
                }
            };
            let Listed { path, seen } = hit;
            report.found.push(FoundContainer {
                path,
                uuid: seen.uuid,
                version: seen.version,
                time: seen.time,
                stale,
            });
        }
        report
    }

    /// The pages after every changed container has been examined again.
    fn fresh_pages(&self) -> Result<Vec<Page>> {
        let pages = self.pages();
        let listed = self.listed(&pages)?;
        let before = listed.iter().map(|one| (one.path.clone(), one.seen)).collect();
        let threads = listed.first().map_or(1, |one| self.threads(&one.path));
        let looked = each(&listed, threads, |one| match one.moved_on(&self.options) {
            Ok(true) => look(&one.path, &self.options).map(Some),
            Ok(false) => Ok(None),
            Err(e) => Err(e),
        });
        let (mut facts, mut gone) = (Vec::new(), Vec::new());
        for (one, looked) in listed.into_iter().zip(looked) {
            match looked {
                Ok(Some(found)) => facts.push(found),
                Err(e) if e.kind() == ErrorKind::NotFound => gone.push(one.path),
                // A container that cannot be opened from here may be accessible to other users, so it is kept.
                Ok(None) | Err(_) => {}
            }
        }
        if facts.is_empty() && gone.is_empty() {
            return Ok(pages);
        }
        if self.change(facts.clone(), &gone, &before, false).is_ok() {
            return Ok(self.pages());
        }
        // The catalogue is not writable, but the answer is still fresh.
        let paths: Vec<String> = gone.into_iter().chain(facts.iter().map(|f| f.path.clone())).collect();
        let mut pages = self.hide(pages, paths.iter().map(String::as_str))?;
        let new = PageBuilder::pages(facts).into_iter();
        pages.extend(new.map(|builder| page_of(builder, super::random())));
        Ok(pages)
    }

    /// Refuses a name that no container has, with the nearest name as a suggestion.
    fn require_names(&self, question: &Question, pages: &[Page]) -> Result<()> {
        for asked in question.asked() {
            let mut known = asked.own.is_some() || pages.is_empty();
            for page in pages {
                let directory = self.directory(page)?;
                known = known || asked.keys.iter().any(|key| directory.find(key).is_some());
            }
            if known {
                continue;
            }
            let mut names = BTreeSet::new();
            for page in pages {
                let directory = self.directory(page)?;
                names.extend(directory.columns.iter().map(|(key, _)| key.text()));
            }
            let near = did_you_mean(&asked.text, names.iter().map(String::as_str));
            let near = near.map_or_else(String::new, |near| format!("; {near}"));
            return Err(Error::new(
                ErrorKind::NotFound,
                format!("no container in {} has `{}`{near}", self.location(), asked.text),
            ));
        }
        Ok(())
    }

    /// Refuses a name as a condition by itself if no container has a truth value of that name.
    fn require_truths(&self, question: &Question, pages: &[Page]) -> Result<()> {
        for asked in question.truths() {
            let mut known = pages.is_empty();
            for page in pages {
                for key in asked.keys.iter().chain(&asked.own) {
                    let column = if known { None } else { self.column(page, key)? };
                    known = known || column.is_some_and(|column| !column.class(Class::Bool).is_empty());
                }
            }
            if !known {
                let found = format!("`{0}` is no truth value: compare it, as `{0} == value`", asked.text);
                return Err(Error::new(ErrorKind::InvalidArgument, found));
            }
        }
        Ok(())
    }

    /// The paths of all containers, including those that cannot be opened.
    pub fn all_paths(&self) -> Result<Vec<String>> {
        let mut paths: Vec<String> = self.listed(&self.pages())?.into_iter().map(|one| one.path).collect();
        paths.sort();
        Ok(paths)
    }

    /// The names that questions may use.
    pub fn names(&self) -> Result<Vec<String>> {
        let mut names = BTreeSet::new();
        for page in self.pages() {
            names.extend(self.directory(&page)?.columns.iter().map(|(key, _)| key.text()));
        }
        Ok(names.into_iter().collect())
    }
}
