//! One arena, mapped into this process.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// The seals that fix the length.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// Memory that other processes may share.
#[derive(Debug)]
pub struct Arena {
    first: NonNull<u8>,
    len: usize,
    fd: OwnedFd,
}

// SAFETY: the mapping belongs to this value until it is dropped, and is used through raw pointers alone.
unsafe impl Send for Arena {}
// SAFETY: as above; `copy_out` only reads, and callers of `pointer` are responsible for its use.
unsafe impl Sync for Arena {}

impl Arena {
    /// Creates an arena of this many bytes, all zero, which this process only reads. The system allocates memory as
    /// bytes are written.
    pub fn create(len: usize) -> io::Result<Arena> {
        let fd = memfd_create("drystone-arena", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&fd, len as u64)?;
        fcntl_add_seals(&fd, SEALS)?;
        Self::mapped(fd, len, ProtFlags::READ)
    }

    /// Maps an arena that another process has created, for writing. Fails with `InvalidData` if its seals or its length
    /// are not those agreed.
    pub fn received(fd: OwnedFd, len: usize) -> io::Result<Arena> {
        let wrong = |what| Err(io::Error::new(io::ErrorKind::InvalidData, what));
        if !fcntl_get_seals(&fd)?.contains(SEALS) {
            return wrong("the shared memory is not sealed");
        }
        if u64::try_from(fstat(&fd)?.st_size).ok() != Some(len as u64) {
            return wrong("the shared memory has another length than was said");
        }
        Self::mapped(fd, len, ProtFlags::READ | ProtFlags::WRITE)
    }

    fn mapped(fd: OwnedFd, len: usize, rights: ProtFlags) -> io::Result<Arena> {
        // SAFETY: a new mapping at an address that the kernel chooses, so no memory of this process changes its
        // meaning.
        let first = unsafe { mmap(std::ptr::null_mut(), len, rights, MapFlags::SHARED, &fd, 0)? };
        let first = NonNull::new(first.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Arena { first, len, fd })
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether its length is 0.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Its descriptor, to be passed on.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Whether these bytes lie within it.
    pub fn holds(&self, at: u64, len: u64) -> bool {
        at.checked_add(len).is_some_and(|end| end <= self.len as u64)
    }

    /// Copies the bytes from `at` on. Returns whether they lie in the arena. If another process writes meanwhile, each
    /// copied byte has its value at some moment.
    pub fn copy_out(&self, at: usize, out: &mut [u8]) -> bool {
        let is_within = self.holds(at as u64, out.len() as u64);
        if is_within {
            // SAFETY: the range lies in the mapping, whose length is sealed; `out` is memory of this process alone.
            // Only raw pointers are used, so nothing is assumed of bytes that another process changes.
            unsafe {
                std::ptr::copy_nonoverlapping(self.first.as_ptr().add(at), out.as_mut_ptr(), out.len())
            };
        }
        is_within
    }

    /// The address of byte `at` in this process; `None` beyond the end. It is valid as long as the arena lives.
    pub fn pointer(&self, at: usize) -> Option<*mut u8> {
        (at < self.len).then(|| self.first.as_ptr().wrapping_add(at))
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: `mapped` created the mapping with this length, and nothing else unmaps it.
        let _ = unsafe { munmap(self.first.as_ptr().cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_holder_copies_out_what_one_writes() {
        let server = Arena::create(1 << 20).unwrap();
        let client = Arena::received(server.fd().try_clone_to_owned().unwrap(), 1 << 20).unwrap();
        // SAFETY: the byte lies in the mapping, and this thread alone writes to it.
        unsafe { client.pointer(4097).unwrap().write(7) };
        let mut out = [1; 3];
        assert!(server.copy_out(4096, &mut out));
        assert_eq!(out, [0, 7, 0]);
        assert!(!server.copy_out((1 << 20) - 2, &mut out) && !server.copy_out(usize::MAX, &mut out));
        assert!(client.pointer(1 << 20).is_none());
    }

    #[test]
    fn an_arena_keeps_its_length_and_one_that_could_change_it_is_refused() {
        let arena = Arena::create(4096).unwrap();
        assert!(ftruncate(arena.fd(), 0).is_err() && ftruncate(arena.fd(), 8192).is_err());
        let open = memfd_create("open", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&open, 4096).unwrap();
        assert!(Arena::received(open, 4096).unwrap_err().to_string().contains("sealed"));
        let other = Arena::received(arena.fd().try_clone_to_owned().unwrap(), 8192);
        assert!(other.unwrap_err().to_string().contains("length"));
    }
}
