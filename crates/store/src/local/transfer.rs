//! Positioned transfers that end when every byte is transferred.
//!
//! The kernel may transfer fewer bytes than requested, or be interrupted; code that ignores this loses data silently.
//! Writes are divided into pieces of at most [`PIECE`]: longer ones were several times slower on some systems and
//! faster on none that was measured, and a long write cannot be interrupted.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::unix::fs::FileExt;

/// The most bytes in one write.
pub(crate) const PIECE: usize = 1 << 20;
/// The most buffers in one write; systems allow 1024, and at least 16.
const MAX_SLICES: usize = 64;

/// Writes all parts, one after the other, from `offset`.
pub(crate) fn write_all(file: &File, offset: u64, parts: &[&[u8]]) -> io::Result<()> {
    write_all_with(|slices, offset| Ok(rustix::io::pwritev(file, slices, offset)?), offset, parts)
}

fn write_all_with(
    mut write: impl FnMut(&[IoSlice<'_>], u64) -> io::Result<usize>,
    mut offset: u64,
    parts: &[&[u8]],
) -> io::Result<()> {
    let (mut part, mut within) = (0, 0);
    loop {
        let mut slices = Vec::with_capacity(parts.len().saturating_sub(part).min(MAX_SLICES));
        let (mut room, mut skip) = (PIECE, within);
        for bytes in parts.iter().skip(part) {
            let bytes = bytes.get(skip..).unwrap_or_default();
            let bytes = &bytes[..bytes.len().min(room)];
            skip = 0;
            room -= bytes.len();
            if !bytes.is_empty() {
                slices.push(IoSlice::new(bytes));
            }
            if room == 0 || slices.len() == MAX_SLICES {
                break;
            }
        }
        if slices.is_empty() {
            return Ok(());
        }
        let mut written = match write(&slices, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => written,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        offset += written as u64;
        while let Some(bytes) = parts.get(part) {
            let rest = bytes.len() - within;
            if written < rest {
                within += written;
                break;
            }
            written -= rest;
            part += 1;
            within = 0;
        }
    }
}

/// Fills `out` from `offset` up to the end of the file; returns the number of bytes.
pub(crate) fn read_full(file: &File, offset: u64, out: &mut [u8]) -> io::Result<usize> {
    read_full_with(|out, offset| file.read_at(out, offset), offset, out)
}

fn read_full_with(
    mut read: impl FnMut(&mut [u8], u64) -> io::Result<usize>,
    offset: u64,
    out: &mut [u8],
) -> io::Result<usize> {
    // No file reaches that far, and systems refuse such requests.
    if offset.checked_add(out.len() as u64).is_none_or(|end| i64::try_from(end).is_err()) {
        return Ok(0);
    }
    let mut done = 0;
    while done < out.len() {
        match read(&mut out[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(got) => done += got,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Fills `parts`, one after the other, from `offset` up to the end of the file; returns the number of bytes.
pub(crate) fn read_parts(file: &File, offset: u64, parts: &mut [&mut [u8]]) -> io::Result<u64> {
    read_parts_with(|slices, offset| Ok(rustix::io::preadv(file, slices, offset)?), offset, parts)
}

fn read_parts_with(
    mut read: impl FnMut(&mut [IoSliceMut<'_>], u64) -> io::Result<usize>,
    offset: u64,
    parts: &mut [&mut [u8]],
) -> io::Result<u64> {
    let wanted = parts.iter().fold(0u64, |sum, part| sum.saturating_add(part.len() as u64));
    // As in `read_full_with`.
    if offset.checked_add(wanted).is_none_or(|end| i64::try_from(end).is_err()) {
        return Ok(0);
    }
    let (mut done, mut part, mut within) = (0, 0, 0);
    while done < wanted {
        let mut skip = within;
        let mut slices: Vec<IoSliceMut<'_>> = Vec::with_capacity(MAX_SLICES.min(parts.len()));
        for bytes in parts.iter_mut().skip(part).take(MAX_SLICES) {
            slices.push(IoSliceMut::new(bytes.get_mut(skip..).unwrap_or_default()));
            skip = 0;
        }
        // If all remaining slices are empty, a read of 0 bytes would look like the end of the file.
        let empty = slices.iter().all(|slice| slice.is_empty());
        let mut got = match if empty { Ok(0) } else { read(&mut slices, offset + done) } {
            Ok(0) if !empty => break,
            Ok(got) => got,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let last = part + slices.len();
        done += got as u64;
        while part < last {
            let rest = parts.get(part).map_or(0, |bytes| bytes.len()) - within;
            if got < rest {
                within += got;
                break;
            }
            got -= rest;
            part += 1;
            within = 0;
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A system that interrupts every third call and never transfers more than a few bytes.
    struct Stingy {
        calls: usize,
        bytes: Vec<u8>,
    }

    impl Stingy {
        fn portion(&mut self, wanted: usize) -> io::Result<usize> {
            self.calls += 1;
            if self.calls.is_multiple_of(3) {
                Err(io::ErrorKind::Interrupted.into())
            } else {
                Ok(wanted.min(self.calls % 7 + 1))
            }
        }

        fn write(&mut self, slices: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
            let all: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
            let portion = self.portion(all.len())?;
            assert_eq!(offset, self.bytes.len() as u64);
            self.bytes.extend_from_slice(&all[..portion]);
            Ok(portion)
        }

        fn read(&mut self, out: &mut [u8], offset: u64) -> io::Result<usize> {
            let rest = self.bytes[offset as usize..].to_vec();
            let portion = self.portion(out.len().min(rest.len()))?.min(rest.len());
            out[..portion].copy_from_slice(&rest[..portion]);
            Ok(portion)
        }
    }

    #[test]
    fn short_and_interrupted_writes_go_on_where_they_stopped() {
        let text: Vec<u8> = (0..=255).collect();
        let parts = [&text[..0], &text[..100], &[], &text[100..101], &text[101..], &[]];
        let mut system = Stingy { calls: 0, bytes: Vec::new() };
        write_all_with(|slices, offset| system.write(slices, offset), 0, &parts).unwrap();
        assert_eq!(system.bytes, text);
    }

    #[test]
    fn short_and_interrupted_reads_go_on_where_they_stopped() {
        let mut system = Stingy { calls: 0, bytes: (0..=255).collect() };
        let mut out = [0; 200];
        assert_eq!(read_full_with(|out, offset| system.read(out, offset), 50, &mut out).unwrap(), 200);
        assert!(out.iter().zip(50..).all(|(&byte, expected)| byte == expected));
        assert_eq!(read_full_with(|out, offset| system.read(out, offset), 250, &mut out).unwrap(), 6);
    }

    #[test]
    fn reads_into_parts_go_on_inside_of_a_part_and_end_with_the_file() {
        for end in [170, 256] {
            let mut system = Stingy { calls: 0, bytes: (0..=255).take(end).collect() };
            let read = |slices: &mut [IoSliceMut<'_>], offset: u64| {
                let mut out = vec![0; slices.iter().map(|slice| slice.len()).sum()];
                let got = system.read(&mut out, offset)?;
                let mut from = &out[..got];
                for slice in slices {
                    let (now, later) = from.split_at(from.len().min(slice.len()));
                    slice[..now.len()].copy_from_slice(now);
                    from = later;
                }
                Ok(got)
            };
            let mut bytes = [0; 200];
            let (mut first, rest) = bytes.split_at_mut(3);
            let (mut second, third) = rest.split_at_mut(90);
            let (mut third, mut fourth) = third.split_at_mut(100);
            let mut parts = [&mut first, &mut [][..], &mut second, &mut third, &mut fourth, &mut [][..]];
            let got = read_parts_with(read, 50, &mut parts).unwrap();
            assert_eq!(got as usize, 200.min(end - 50));
            assert!(bytes[..got as usize].iter().zip(50..).all(|(&byte, expected)| byte == expected));
        }
        let many = &mut (0..200).map(|_| [0u8; 1]).collect::<Vec<_>>();
        let mut parts: Vec<&mut [u8]> = many.iter_mut().map(|part| &mut part[..]).collect();
        let mut calls = 0;
        let count = |slices: &mut [IoSliceMut<'_>], _: u64| {
            calls += 1;
            Ok(slices.len())
        };
        assert_eq!((read_parts_with(count, 0, &mut parts).unwrap(), calls), (200, 4));
    }

    #[test]
    fn no_write_is_longer_than_a_piece() {
        let (big, small) = (vec![1; PIECE * 2 + 5], vec![2; 10]);
        let mut longest = 0;
        let mut total = 0;
        let record = |slices: &[IoSlice<'_>], offset: u64| {
            assert_eq!(offset, total as u64);
            let len = slices.iter().map(|slice| slice.len()).sum();
            longest = longest.max(len);
            total += len;
            Ok(len)
        };
        write_all_with(record, 0, &[&small, &big, &small]).unwrap();
        assert_eq!((longest, total), (PIECE, PIECE * 2 + 25));
    }

    #[test]
    fn a_write_that_makes_no_progress_is_an_error() {
        let error = write_all_with(|_, _| Ok(0), 0, &[b"x"]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WriteZero);
    }
}
