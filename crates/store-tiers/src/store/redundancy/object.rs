//! Writes and reads parity objects in folders of tiers. An object has a temporary name until it is complete, and is
//! checked when it is opened.

use std::collections::hash_map::RandomState;
use std::fs::File;
use std::hash::{BuildHasher, Hasher};
use std::io::{BufWriter, Error, ErrorKind, Read, Result, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crc_fast::{CrcAlgorithm, Digest};
use drystone_format::redundancy::{Group, HEAD, ObjectHead, TAIL, object_head};

/// The end of the name of an object that is being written.
const UNFINISHED: &str = ".part";

/// The age at which an unfinished object was certainly left by a killed process. If it was not, its writer fails, and
/// the group is not formed.
const LEFT_BEHIND: Duration = Duration::from_secs(3600);

/// Removes what killed processes left unfinished in a folder.
pub(super) fn sweep(folder: &Path) {
    let Ok(listed) = std::fs::read_dir(folder) else { return };
    for entry in listed.flatten() {
        let is_old = || {
            let written = entry.metadata().and_then(|found| found.modified());
            written.is_ok_and(|written| written.elapsed().is_ok_and(|age| age > LEFT_BEHIND))
        };
        if entry.file_name().to_str().is_some_and(|name| name.ends_with(UNFINISHED)) && is_old() {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// An object that is being written. It is removed unless it is finished.
pub(super) struct Writing {
    file: Option<BufWriter<File>>,
    path: PathBuf,
    sum: Digest,
}

impl Writing {
    /// Begins the object of a member. `group` is the encoded group.
    pub(super) fn begin(
        folder: &Path,
        name: &str,
        group: &[u8],
        member: usize,
        payload: u64,
    ) -> Result<Self> {
        std::fs::create_dir_all(folder)?;
        // Threads, processes and nodes may encode the same group at once, and each writes files of its own.
        let own = RandomState::new().build_hasher().finish();
        let path = folder.join(format!("{name}.{own:016x}{UNFINISHED}"));
        let mut file = BufWriter::with_capacity(1 << 20, File::create(&path)?);
        let member = u32::try_from(member).map_err(|_| ErrorKind::InvalidInput)?;
        file.write_all(&object_head(group, member, payload))?;
        Ok(Writing { file: Some(file), path, sum: Digest::new(CrcAlgorithm::Crc32Iscsi) })
    }

    pub(super) fn add(&mut self, bytes: &[u8]) -> Result<()> {
        self.sum.update(bytes);
        self.file.as_mut().map_or(Ok(()), |file| file.write_all(bytes))
    }

    /// Renames it to its final name.
    pub(super) fn finish(mut self, name: &str) -> Result<()> {
        let crc = self.sum.finalize() as u32;
        if let Some(mut file) = self.file.take() {
            file.write_all(&crc.to_le_bytes())?;
            file.into_inner().map_err(std::io::IntoInnerError::into_error)?;
        }
        std::fs::rename(&self.path, self.path.with_file_name(name))?;
        self.path = PathBuf::new();
        Ok(())
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        if !self.path.as_os_str().is_empty() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// An object that was found complete and undamaged.
pub(super) struct Object {
    file: File,
    begin: u64,
}

fn damaged(what: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::InvalidData, what.to_string())
}

/// The head and the group of an object, and the length of the file.
fn open(path: &Path) -> Result<(File, ObjectHead, Vec<u8>)> {
    let file = File::open(path)?;
    let mut head = [0; HEAD];
    file.read_exact_at(&mut head, 0)?;
    let head = ObjectHead::decode(&head).map_err(damaged)?;
    if file.metadata()?.len() != head.payload_range().end + TAIL as u64 {
        return Err(damaged("the parity object is not as long as it says"));
    }
    let mut group = vec![0; usize::try_from(head.group).map_err(damaged)?];
    file.read_exact_at(&mut group, HEAD as u64)?;
    Ok((file, head, group))
}

/// The group that an object belongs to.
pub(super) fn group_in(path: &Path) -> Result<Group> {
    let (_, _, group) = open(path)?;
    Group::decode(&group).map_err(damaged)
}

impl Object {
    /// Opens the object of a member and reads it once to check it. `InvalidData` if it is damaged, or belongs to
    /// another group.
    pub(super) fn open(path: &Path, group: &[u8], member: usize, payload: u64) -> Result<Object> {
        let (mut file, head, found) = open(path)?;
        if found != group || head.member as usize != member || head.payload != payload {
            return Err(damaged("the parity object is of another group"));
        }
        let begin = head.payload_range().start;
        let mut sum = Digest::new(CrcAlgorithm::Crc32Iscsi);
        let mut rest = head.payload;
        let mut buffer = vec![0; 1 << 20];
        std::io::Seek::seek(&mut file, std::io::SeekFrom::Start(begin))?;
        while rest > 0 {
            let most = usize::try_from(rest).map_or(buffer.len(), |rest| rest.min(buffer.len()));
            file.read_exact(&mut buffer[..most])?;
            sum.update(&buffer[..most]);
            rest -= most as u64;
        }
        let mut tail = [0; TAIL];
        file.read_exact(&mut tail)?;
        match u32::from_le_bytes(tail) == sum.finalize() as u32 {
            true => Ok(Object { file, begin }),
            false => Err(damaged("the parity object fails its CRC")),
        }
    }

    /// Reads from the payload.
    pub(super) fn read(&self, at: u64, out: &mut [u8]) -> Result<()> {
        self.file.read_exact_at(out, self.begin + at)
    }
}
