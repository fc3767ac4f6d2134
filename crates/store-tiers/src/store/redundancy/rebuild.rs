//! Rebuilds lost parts at home from the parity that other nodes keep.
//!
//! Invariants
//! - a rebuilt part counts only if its CRC is the registered one; otherwise the home store keeps nothing of it;
//! - the tiers of a lost node are not used, even if this process still sees them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crc_fast::{CrcAlgorithm, Digest};
use drystone_format::keys;
use drystone_format::redundancy::{Group, ROW};
use drystone_format::staged::StagedPart;
use drystone_plan::tier::redundancy::{Stripe, stripe_of, stripes};
use drystone_store::{BoundedUpload, PutMode, Result, Store, StoreError, StoreExt};

use super::encode::Bytes;
use super::object::Object;
use crate::store::drain_part::{self, PIECES_UNDER_WAY};
use crate::store::{Away, TieredStore};
use crate::tier::parity_of;

/// A part is read and written to the home store in pieces of this length, in bytes.
const PIECE: usize = drain_part::PIECE as usize;

/// The result of a recovery.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rebuilt {
    /// Parts that are at home now.
    pub parts: Vec<Away>,
    /// Damage found on the way, as messages.
    pub notes: Vec<String>,
}

/// The bytes and parity objects of a group that still exist.
struct Left {
    /// Bytes by member; `None` if lost.
    bytes: Vec<Option<Bytes>>,
    objects: Vec<Option<Object>>,
}

impl TieredStore {
    /// Rebuilds lost parts at home if the scheme permits, syncs them there, and removes them from the registrations.
    /// Groups with a lost member are then removed, and parity for their other members is encoded again.
    pub fn rebuild(&self, lost: &[Away], lost_nodes: &[String]) -> Result<Rebuilt> {
        let mut done = Rebuilt::default();
        let mut missing: BTreeMap<(u64, u32), Away> =
            lost.iter().map(|away| (away.part, away.clone())).collect();
        let lost_nodes: BTreeSet<&str> = lost_nodes.iter().map(String::as_str).collect();
        let mut broken = Vec::new();
        for (key, group) in self.groups(keys::PARITY)? {
            let has_lost = super::parts_of(&group).any(|part| missing.contains_key(&part));
            if has_lost {
                for part in self.rebuild_group(&key, &group, &missing, &lost_nodes, &mut done.notes)? {
                    done.parts.extend(missing.remove(&part));
                }
            }
            if has_lost || group.members.iter().any(|member| lost_nodes.contains(member.node.as_str())) {
                broken.push((key, group));
            }
        }
        let homes: Vec<String> =
            done.parts.iter().map(|away| keys::segment(away.part.0, away.part.1)).collect();
        if !homes.is_empty() {
            self.home.sync(&homes.iter().map(String::as_str).collect::<Vec<_>>())?;
            self.unregister(done.parts.iter().map(|away| (away.node.clone(), away.part)))?;
        }
        for (key, group) in broken {
            self.remove_group(&key, &group)?;
        }
        Ok(done)
    }

    /// Rebuilds the lost parts of one group; returns those that are at home now.
    fn rebuild_group(
        &self,
        key: &str,
        group: &Group,
        missing: &BTreeMap<(u64, u32), Away>,
        lost_nodes: &BTreeSet<&str>,
        notes: &mut Vec<String>,
    ) -> Result<Vec<(u64, u32)>> {
        let mut left = self.remaining_members(key, group, missing, lost_nodes, notes);
        let mut home = Vec::new();
        for (number, member) in group.members.iter().enumerate() {
            let lost: Vec<&StagedPart> = member
                .parts
                .iter()
                .filter(|part| missing.contains_key(&(member.writer, part.part)))
                .collect();
            if lost.is_empty() {
                continue;
            }
            let mut rebuilt = self.rebuild_member(group, number, missing, &left)?;
            if rebuilt.is_none() && self.drop_damaged(group, &mut left, notes) {
                // Without the damaged objects, the rest may suffice.
                rebuilt = self.rebuild_member(group, number, missing, &left)?;
            }
            match rebuilt {
                Some(()) => home.extend(lost.iter().map(|part| (member.writer, part.part))),
                None => notes.push(format!(
                    "step {}: the parts of node \"{}\" cannot be rebuilt: a group of {} nodes survives the loss of {}",
                    group.step,
                    member.node,
                    group.members.len(),
                    group.parity
                )),
            }
        }
        Ok(home)
    }

    fn remaining_members(
        &self,
        key: &str,
        group: &Group,
        missing: &BTreeMap<(u64, u32), Away>,
        lost_nodes: &BTreeSet<&str>,
        notes: &mut Vec<String>,
    ) -> Left {
        let encoded = group.encode();
        let name = keys::parse_group(key).map_or("", |(name, _)| name);
        let folders: BTreeMap<(u64, u32), Vec<PathBuf>> = self.folders_of(group);
        let mut left = Left { bytes: Vec::new(), objects: Vec::new() };
        for (number, member) in group.members.iter().enumerate() {
            let is_lost = lost_nodes.contains(member.node.as_str());
            let place = |part: &StagedPart| {
                let id = (member.writer, part.part);
                let known = folders.get(&id).map_or(&[][..], Vec::as_slice);
                let key = keys::segment(id.0, id.1);
                let seen = if is_lost { &[] } else { known };
                let store = self.part_at(seen, &key, part.length).filter(|_| !missing.contains_key(&id))?;
                Some((store, key, part.length))
            };
            left.bytes.push(member.parts.iter().map(place).collect::<Option<Vec<_>>>().map(Bytes));
            let path = parity_of(Path::new(&member.folder)).join(keys::parity_object(name, number));
            let object = match is_lost {
                true => None,
                false => match Object::open(&path, &encoded, number, group.payload(number)) {
                    Ok(object) => Some(object),
                    Err(e) => {
                        if e.kind() == std::io::ErrorKind::InvalidData {
                            let (step, node) = (group.step, &member.node);
                            notes.push(format!(
                                "step {step}: parity on node \"{node}\" is not used: {e} ({})",
                                path.display()
                            ));
                        }
                        None
                    }
                },
            };
            left.objects.push(object);
        }
        left
    }

    /// The folders in which the parts of a group lie, according to the registrations.
    fn folders_of(&self, group: &Group) -> BTreeMap<(u64, u32), Vec<PathBuf>> {
        let of = |id: (u64, u32)| {
            let said = self.registered(&keys::segment(id.0, id.1)).ok().flatten()?;
            Some((id, said.folders.iter().map(PathBuf::from).collect()))
        };
        super::parts_of(group).filter_map(of).collect()
    }

    /// Rebuilds the lost parts of a member at home; `None` if too much is lost, or the bytes are wrong.
    fn rebuild_member(
        &self,
        group: &Group,
        number: usize,
        missing: &BTreeMap<(u64, u32), Away>,
        left: &Left,
    ) -> Result<Option<()>> {
        let Some(member) = group.members.get(number) else { return Ok(None) };
        let all = stripes(group.members.len(), group.parity, group.copies);
        let mut parts = member.parts.iter();
        // The part that is being written, and the number of bytes that it still needs.
        let mut open: Option<(Option<ToHome<'_>>, u64)> = None;
        for chunk in 0..group.chunks() {
            let stripe = stripe_of(number, chunk, group.members.len(), group.parity, group.copies);
            let (Some(members), length) = (all.get(stripe), group.chunk(stripe)) else { return Ok(None) };
            for at in (0..length).step_by(ROW as usize) {
                let len = usize::try_from((length - at).min(ROW)).unwrap_or_default();
                let Some(row) = self.rebuild_row(group, members, (number, chunk), (at, len), left)? else {
                    return Ok(None);
                };
                let mut row = row.as_slice();
                while !row.is_empty() {
                    if open.is_none() {
                        let Some(part) = parts.next() else { return Ok(Some(())) };
                        let id = (member.writer, part.part);
                        let home =
                            missing.contains_key(&id).then(|| ToHome::begin(self.home.as_ref(), id, part));
                        open = Some((home.transpose()?, part.length));
                    }
                    let Some((home, rest)) = &mut open else { break };
                    let now = usize::try_from(*rest).map_or(row.len(), |rest| rest.min(row.len()));
                    let (bytes, behind) = row.split_at(now);
                    if let Some(home) = home {
                        home.add(bytes)?;
                    }
                    (*rest, row) = (*rest - now as u64, behind);
                    if *rest == 0
                        && let Some((Some(home), _)) = open.take()
                        && !home.finish()?
                    {
                        return Ok(None);
                    }
                }
            }
        }
        Ok(Some(()))
    }

    /// Rebuilds one row of a member's chunk; `None` if too much is lost.
    fn rebuild_row(
        &self,
        group: &Group,
        stripe: &Stripe,
        (member, chunk): (usize, usize),
        (at, len): (u64, usize),
        left: &Left,
    ) -> Result<Option<Vec<u8>>> {
        let length =
            stripe.data.first().map_or(0, |(first, _)| group.chunk(if group.copies { *first } else { 0 }));
        let mut data: Vec<Option<Vec<u8>>> = Vec::with_capacity(stripe.data.len());
        for (other, part) in &stripe.data {
            // The wanted member is rebuilt even if some of its parts exist.
            let bytes = left.bytes.get(*other).and_then(Option::as_ref).filter(|_| *other != member);
            data.push(match bytes {
                Some(bytes) => {
                    let mut row = vec![0; len];
                    bytes.read(*part as u64 * length + at, &mut row)?;
                    Some(row)
                }
                None => None,
            });
        }
        let mut parity: Vec<Option<Vec<u8>>> = Vec::with_capacity(stripe.parity.len());
        for (number, keeper) in stripe.parity.iter().enumerate() {
            let mut row = vec![0; len];
            let place = at * group.parity as u64 + (number * len) as u64;
            let object = left.objects.get(*keeper).and_then(Option::as_ref);
            parity.push(object.filter(|object| object.read(place, &mut row).is_ok()).map(|_| row));
        }
        let lost = stripe.data.iter().zip(&data).filter(|(_, row)| row.is_none()).map(|(place, _)| *place);
        let Some(place) = lost.into_iter().position(|place| place == (member, chunk)) else {
            return Ok(None);
        };
        let data: Vec<Option<&[u8]>> = data.iter().map(Option::as_deref).collect();
        let parity: Vec<Option<&[u8]>> = parity.iter().map(Option::as_deref).collect();
        match drystone_parity::rebuild(&data, &parity) {
            Ok(rows) => Ok(rows.into_iter().nth(place)),
            Err(drystone_parity::Refused::TooManyLost) => Ok(None),
            Err(why) => Err(self.not_coded(keys::PARITY, why)),
        }
    }

    /// Reads the remaining members of a group, and drops those that differ from their registration; returns whether
    /// there were any.
    fn drop_damaged(&self, group: &Group, left: &mut Left, notes: &mut Vec<String>) -> bool {
        let mut found = false;
        for (member, bytes) in group.members.iter().zip(&mut left.bytes) {
            let Some(Bytes(parts)) = bytes.as_ref() else { continue };
            let sound = |((store, key, length), said): (&(Arc<dyn Store>, String, u64), &StagedPart)| {
                let mut sum = Digest::new(CrcAlgorithm::Crc32Iscsi);
                let read = (0..*length).step_by(PIECE).try_for_each(|at| {
                    let len = usize::try_from(length - at).map_or(PIECE, |len| len.min(PIECE));
                    store.read_vec(key, at, len).map(|bytes| sum.update(&bytes))
                });
                read.is_ok() && sum.finalize() as u32 == said.crc
            };
            if parts.iter().zip(&member.parts).all(sound) {
                continue;
            }
            notes.push(format!(
                "step {}: parts on node \"{}\" are damaged and not used",
                group.step, member.node
            ));
            (*bytes, found) = (None, true);
        }
        found
    }
}

/// A part that is being written to the home store.
struct ToHome<'a> {
    home: &'a dyn Store,
    key: String,
    upload: Option<BoundedUpload>,
    /// Number of bytes that the home store has; `bytes` follow them.
    there: u64,
    bytes: Vec<u8>,
    sum: Digest,
    wanted: u32,
}

impl<'a> ToHome<'a> {
    /// Begins a part. Removes a prefix that a drain may have written.
    fn begin(home: &'a dyn Store, (writer, number): (u64, u32), part: &StagedPart) -> Result<Self> {
        let key = keys::segment(writer, number);
        home.delete(&key)?;
        let long = part.length > PIECE as u64;
        let upload = match long && home.features().uploads {
            true => Some(BoundedUpload::begin(home, &key, PIECES_UNDER_WAY)?),
            false => None,
        };
        let sum = Digest::new(CrcAlgorithm::Crc32Iscsi);
        Ok(ToHome { home, key, upload, there: 0, bytes: Vec::new(), sum, wanted: part.crc })
    }

    fn add(&mut self, bytes: &[u8]) -> Result<()> {
        self.sum.update(bytes);
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() >= PIECE && (self.upload.is_some() || self.home.features().append) {
            self.send()?;
        }
        Ok(())
    }

    fn send(&mut self) -> Result<()> {
        let piece = std::mem::take(&mut self.bytes);
        match &mut self.upload {
            Some(upload) => {
                upload.add(piece)?;
            }
            None => {
                self.home.append(&self.key, self.there, &[&piece])?;
                self.there += piece.len() as u64;
            }
        }
        Ok(())
    }

    /// Returns whether the bytes were right. If not, the home store keeps nothing of the part.
    fn finish(mut self) -> Result<bool> {
        if self.sum.finalize() as u32 != self.wanted {
            if self.there > 0 {
                self.home.delete(&self.key)?;
            }
            return Ok(false);
        }
        if self.upload.is_none() && self.there == 0 {
            match self.home.put(&self.key, &[&self.bytes], PutMode::IfAbsent, false) {
                Err(StoreError::AlreadyExists { .. }) | Ok(()) => return Ok(true),
                Err(other) => return Err(other),
            }
        }
        if !self.bytes.is_empty() {
            self.send()?;
        }
        match self.upload.take() {
            Some(upload) => upload.finish().0.wait().map(|_| true),
            None => Ok(true),
        }
    }
}
