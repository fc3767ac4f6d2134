//! Encodes parity: decides which process forms a group, and writes the group's objects to the folders of its members.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use drystone_format::keys;
use drystone_format::redundancy::{self, Group, Member, ROW};
use drystone_plan::tier::redundancy::{Scheme, kept_by, parity_of as parity_chunks, sets, stripes};
use drystone_store::{PutMode, Result, Store, StoreError};

use super::Candidate;
use super::object::Writing;
use crate::registry::{Registered, guard};
use crate::store::TieredStore;
use crate::tier::parity_of;

/// The bytes of a member: its parts in order, followed by zeros without end.
pub(super) struct Bytes(pub(super) Vec<(Arc<dyn Store>, String, u64)>);

impl Bytes {
    /// Fills `out` with the bytes from `at` on.
    pub(super) fn read(&self, at: u64, out: &mut [u8]) -> Result<()> {
        let (mut at, mut rest) = (at, out);
        for (store, key, length) in &self.0 {
            if at >= *length {
                at -= length;
                continue;
            }
            let here = usize::try_from(length - at).map_or(rest.len(), |here| here.min(rest.len()));
            let (now, later) = rest.split_at_mut(here);
            store.read(key, at, now)?;
            (at, rest) = (0, later);
            if rest.is_empty() {
                return Ok(());
            }
        }
        rest.fill(0);
        Ok(())
    }
}

/// A possible member: its bytes, and the folders in which its parity object may lie.
struct Found {
    candidate: Candidate,
    bytes: Bytes,
    folders: Vec<PathBuf>,
}

/// Which process encodes the parity of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// The process that has the first of the step's writers.
    First,
    /// Any process, now.
    Any,
}

/// The result of [`TieredStore::protect`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// Other nodes protect all registered parts of the step, or the parts are at home.
    Yes,
    /// Not all writers have registered their parts, or it is another process's turn.
    NotYet,
    /// Some parts cannot be protected: no node of another failure group has parts, or its folders are not visible here.
    Cannot,
}

impl TieredStore {
    /// Encodes the parity of a step's registered parts that have none yet, if this process sees the folders of the
    /// other nodes. `writers`, if given, is the number of writers that must have registered parts of the step.
    pub fn protect(&self, step: u64, writers: Option<u32>, turn: Turn) -> Result<Kept> {
        let scheme = self.redundancy.scheme;
        if scheme == Scheme::None || !self.has_tiers() {
            return Ok(Kept::Cannot);
        }
        let (candidates, others) = self.candidates(step)?;
        let Some(first) = candidates.first() else { return Ok(Kept::Yes) };
        let is_ours = guard(&self.owners).contains_key(&first.writer);
        if writers.is_some_and(|writers| candidates.len() < writers as usize)
            || (turn == Turn::First && !is_ours)
        {
            return Ok(Kept::NotYet);
        }
        let wanted = candidates.len();
        let mut found: Vec<Found> = candidates.into_iter().filter_map(|one| self.find_member(one)).collect();
        let with_bytes = found.len();
        found.extend(others.into_iter().filter_map(|one| self.find_member(one)));
        let groups = failure_groups(&found);
        let mut kept = 0;
        for set in sets(scheme, &groups.iter().map(String::as_str).collect::<Vec<_>>(), with_bytes) {
            let members: Vec<&Found> =
                set.members.iter().chain(&set.keepers).filter_map(|number| found.get(*number)).collect();
            if self.keep(step, &members, set.members.len())? {
                kept += set.members.len();
            }
        }
        Ok(if kept == wanted { Kept::Yes } else { Kept::Cannot })
    }

    /// Finds a writer's parts; `None` if this process does not see them.
    fn find_member(&self, candidate: Candidate) -> Option<Found> {
        let folders = candidate.own_folders();
        let place = |(key, said): (&String, &Registered)| {
            let length = said.part.length;
            Some((self.part_at(&folders, key, length)?, key.clone(), length))
        };
        let bytes: Option<Vec<_>> = candidate.parts.iter().map(place).collect();
        let bytes = bytes.filter(|_| !folders.is_empty())?;
        Some(Found { bytes: Bytes(bytes), folders, candidate })
    }

    /// Writes the parity objects of one group and puts the group; returns whether that was possible. The first
    /// `with_bytes` members have bytes.
    fn keep(&self, step: u64, members: &[&Found], with_bytes: usize) -> Result<bool> {
        let Some(registry) = &self.registry else { return Ok(false) };
        let scheme = self.redundancy.scheme;
        let parity = parity_chunks(scheme, members.len());
        if !drystone_parity::is_supported(parity) {
            return Err(StoreError::Unsupported {
                operation: format!("redundancy {scheme} (this build has no Reed-Solomon code)"),
                store: self.describe(),
            });
        }
        let mut choice = vec![0; members.len()];
        loop {
            let member = |(number, found): (usize, &&Found)| {
                let folder = found.folders.get(choice[number])?.to_string_lossy().into_owned();
                let (writer, node) = (found.candidate.writer, found.candidate.node.clone());
                let parts = found.candidate.parts.values().map(|said| said.part);
                Some(Member { writer, node, folder, parts: parts.filter(|_| number < with_bytes).collect() })
            };
            let made: Option<Vec<Member>> = members.iter().enumerate().map(member).collect();
            // If every folder of a member failed, the group cannot be formed.
            let Some(made) = made else { return Ok(false) };
            let copies = scheme == Scheme::Partner;
            let group = Group { uuid: registry.uuid, step, copies, parity, members: made };
            let encoded = group.encode();
            match self.write_objects(&group, &encoded, members)? {
                None => return self.put_group(group).map(|()| true),
                // The folder of this member failed, so its next one is tried.
                Some(failed) => choice[failed] += 1,
            }
        }
    }

    /// Writes the parity objects of a group, row by row. Returns the member whose folder failed, if one did.
    fn write_objects(&self, group: &Group, encoded: &[u8], members: &[&Found]) -> Result<Option<usize>> {
        let name = redundancy::name(group.step, encoded);
        let mut objects = Vec::with_capacity(members.len());
        for (number, member) in group.members.iter().enumerate() {
            let folder = parity_of(Path::new(&member.folder));
            let file = keys::parity_object(&name, number);
            match Writing::begin(&folder, &file, encoded, number, group.payload(number)) {
                Ok(object) => objects.push(object),
                Err(_) => return Ok(Some(number)),
            }
        }
        let all = stripes(members.len(), group.parity, group.copies);
        let longest = (0..members.len()).map(|stripe| group.chunk(stripe)).max().unwrap_or(0);
        let mut buffers: Vec<Vec<u8>> = Vec::new();
        for at in (0..longest).step_by(ROW as usize) {
            let mut coded: BTreeMap<usize, Vec<Vec<u8>>> = BTreeMap::new();
            for (number, stripe) in all.iter().enumerate() {
                let chunk = group.chunk(number);
                let len = usize::try_from(chunk.saturating_sub(at).min(ROW)).unwrap_or_default();
                if len == 0 {
                    continue;
                }
                buffers.resize(stripe.data.len(), Vec::new());
                for (buffer, (member, part)) in buffers.iter_mut().zip(&stripe.data) {
                    buffer.resize(len, 0);
                    // A writer that only keeps parity may have bytes that another group protects.
                    let has_bytes = group.members.get(*member).is_some_and(|member| !member.parts.is_empty());
                    match members.get(*member).filter(|_| has_bytes) {
                        Some(found) => found.bytes.read(*part as u64 * chunk + at, buffer)?,
                        None => buffer.fill(0),
                    }
                }
                let data: Vec<&[u8]> = buffers.iter().map(Vec::as_slice).collect();
                let parity =
                    drystone_parity::encode(&data, group.parity).map_err(|e| self.not_coded(&name, e))?;
                coded.insert(number, parity);
            }
            for (member, object) in objects.iter_mut().enumerate() {
                for number in 0..group.parity {
                    let stripe = kept_by(member, number, members.len(), group.copies);
                    let bytes = coded.get(&stripe).and_then(|parity| parity.get(number));
                    if bytes.is_some_and(|bytes| object.add(bytes).is_err()) {
                        return Ok(Some(member));
                    }
                }
            }
        }
        for (number, object) in objects.into_iter().enumerate() {
            if object.finish().is_err() {
                return Ok(Some(number));
            }
        }
        Ok(None)
    }

    /// Puts the group at home, which states that its parity objects are complete.
    pub fn put_group(&self, group: Group) -> Result<()> {
        let encoded = group.encode();
        let key = keys::group(&redundancy::name(group.step, &encoded));
        self.home.put(&key, &[&encoded], PutMode::Replace, false)?;
        guard(&self.redundancy.groups).insert(key, Arc::new(group));
        Ok(())
    }

    pub(super) fn not_coded(&self, key: &str, why: drystone_parity::Refused) -> StoreError {
        StoreError::Io {
            key: key.to_owned(),
            store: self.describe(),
            operation: "code parity",
            source: std::io::Error::other(why),
        }
    }
}

/// The failure group of each member. Members that share a folder count as one group, since they are lost together.
fn failure_groups(found: &[Found]) -> Vec<String> {
    let mut by_folder: BTreeMap<&Path, String> = BTreeMap::new();
    let mut groups = Vec::with_capacity(found.len());
    for one in found {
        let known = one.folders.iter().find_map(|folder| by_folder.get(folder.as_path()).cloned());
        let group = known.unwrap_or_else(|| one.candidate.group.clone());
        one.folders.iter().for_each(|folder| _ = by_folder.insert(folder, group.clone()));
        groups.push(group);
    }
    groups
}
