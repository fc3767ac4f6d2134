//! Writes and reads parity objects in folders of tiers. An object appears only when it is complete, and is checked when
//! it is opened.

use std::fs::File;
use std::io::{BufWriter, Error, ErrorKind, Read, Result, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use crc_fast::{CrcAlgorithm, Digest};
use drystone_format::redundancy::{Group, HEAD, ObjectHead, TAIL, object_head};
use drystone_store::WholeFile;

/// An object that is being written. Nothing remains of it unless it is finished. Threads, processes and nodes that
/// encode the same group at once write files of their own.
pub(super) struct Writing {
    file: BufWriter<WholeFile>,
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
        let mut file = BufWriter::with_capacity(1 << 20, WholeFile::create(&folder.join(name))?);
        let member = u32::try_from(member).map_err(|_| ErrorKind::InvalidInput)?;
        file.write_all(&object_head(group, member, payload))?;
        Ok(Writing { file, sum: Digest::new(CrcAlgorithm::Crc32Iscsi) })
    }

    pub(super) fn add(&mut self, bytes: &[u8]) -> Result<()> {
        self.sum.update(bytes);
        self.file.write_all(bytes)
    }

    /// Gives it its name.
    pub(super) fn finish(mut self) -> Result<()> {
        let crc = self.sum.finalize() as u32;
        self.file.write_all(&crc.to_le_bytes())?;
        let file = self.file.into_inner().map_err(std::io::IntoInnerError::into_error)?;
        file.finish(false)
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
