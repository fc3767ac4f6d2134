//! Sends a descriptor through a Unix socket, together with some bytes.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

/// Sends a few bytes and a descriptor with them.
pub fn send(stream: &UnixStream, bytes: &[u8], fd: BorrowedFd<'_>) -> io::Result<()> {
    let fds = [fd];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(&fds)) {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    let sent = sendmsg(stream, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?;
    if sent == bytes.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// Receives as many bytes as `out` has, and the descriptor that was sent with the first of them.
pub fn receive(stream: &UnixStream, out: &mut [u8]) -> io::Result<OwnedFd> {
    let (mut found, mut at) = (None, 0);
    while let Some(rest) = out.get_mut(at..).filter(|rest| !rest.is_empty()) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let taken = recvmsg(stream, &mut [IoSliceMut::new(rest)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
        if taken.bytes == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        at += taken.bytes;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                found = found.or(fds.last());
            }
        }
    }
    found.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no descriptor came with the bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn a_descriptor_comes_with_its_bytes_and_bytes_alone_are_refused() {
        let (here, there) = UnixStream::pair().unwrap();
        let file = std::fs::File::open("/dev/null").unwrap();
        send(&here, b"hello", file.as_fd()).unwrap();
        let mut out = [0; 5];
        receive(&there, &mut out).unwrap();
        assert_eq!(&out, b"hello");
        io::Write::write_all(&mut &here, b"alone").unwrap();
        assert_eq!(receive(&there, &mut out).unwrap_err().kind(), io::ErrorKind::InvalidData);
        drop(here);
        assert_eq!(receive(&there, &mut out).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
