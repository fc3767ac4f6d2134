//! The values of a release: bytes of this process, or memory that another process may still write to.
//!
//! Invariants
//! - of shared memory each byte is read once, by a copy; checksums, codecs and results in transit see only the copy;
//! - copies have bounded length, however long the release is.

use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use drystone::Result;

use super::error::invalid;
use super::pass::{From, Pass};
use super::slab::{Lent, Slab, slabs};

/// The most bytes of such memory that are copied at once.
const SLAB: usize = 32 << 20;
/// Copies of slabs: one is written while the next is made.
const COPIES: usize = 2;
/// Values of this many bytes are written while another thread computes with them.
const LONG: usize = 1 << 20;

/// Elements of the variable's type, dense, in C order.
#[derive(Clone)]
pub enum Values {
    /// Bytes that do not change.
    Owned(Vec<u8>),
    /// Memory of another process. It is held until the values have been written.
    Lent(Arc<dyn Lent>),
}

impl std::fmt::Debug for Values {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = if matches!(self, Values::Owned(_)) { "owned" } else { "shared" };
        write!(f, "{} bytes, {kind}", self.len())
    }
}

/// The results of a slab that have a cell for each of its cells, by number of the operation.
type OfCells = Vec<(usize, Vec<u8>)>;

impl Values {
    /// The number of bytes.
    pub fn len(&self) -> usize {
        match self {
            Values::Owned(bytes) => bytes.len(),
            Values::Lent(memory) => memory.len(),
        }
    }

    /// Whether the length is 0.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of bytes of this process that it occupies.
    pub(super) fn held(&self) -> usize {
        match self {
            Values::Owned(bytes) => bytes.len(),
            Values::Lent(_) => 0,
        }
    }

    /// A copy of values in memory of another process, each byte of which is read once. `None`: they are in memory of
    /// this process.
    pub(super) fn copied(&self) -> Result<Option<Values>> {
        let Values::Lent(memory) = self else { return Ok(None) };
        let mut bytes = Vec::new();
        if bytes.try_reserve_exact(memory.len()).is_err() {
            return Err(invalid(format!("a release of {} bytes does not fit into memory", memory.len())));
        }
        bytes.resize(memory.len(), 0);
        memory.copy_out(0, &mut bytes);
        Ok(Some(Values::Owned(bytes)))
    }

    /// Passes on a box of `count` elements of `item` bytes, part by part if it has to be copied: offset and extents
    /// within the box, and bytes. `pass` computes with it at the same time; `with` also gets its results for the cells
    /// of a part, once the part was passed on.
    pub(super) fn each(
        &self,
        count: &[u64],
        item: usize,
        pass: &mut Pass<'_>,
        mut with: impl FnMut(&[u64], &[u64], Passed<'_>) -> Result<()>,
    ) -> Result<()> {
        match self {
            Values::Owned(bytes) => {
                let whole =
                    Slab { offset: vec![0; count.len()], count: count.to_vec(), at: 0, len: bytes.len() };
                let mut put = |what: Passed<'_>| with(&whole.offset, &whole.count, what);
                let done = if pass.is_empty() || bytes.len() < LONG {
                    put(Passed::Values(bytes))?;
                    pass.take(&whole, From::Here(bytes))
                } else {
                    std::thread::scope(|scope| {
                        let computed = scope.spawn(|| pass.take(&whole, From::Here(bytes)));
                        put(Passed::Values(bytes))?;
                        Ok::<_, drystone::Error>(
                            computed.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                        )
                    })?
                };
                done.into_iter().try_for_each(|(n, bytes)| put(Passed::Result(n, &bytes)))
            }
            Values::Lent(memory) => {
                let slabs = slabs(count, item, SLAB);
                let mut put = |slab: &Slab, bytes: &[u8], done: OfCells| {
                    with(&slab.offset, &slab.count, Passed::Values(bytes))?;
                    done.iter()
                        .try_for_each(|(n, bytes)| with(&slab.offset, &slab.count, Passed::Result(*n, bytes)))
                };
                let mut copied = |slab: &Slab, mut copy: Vec<u8>| {
                    copy.resize(slab.len, 0);
                    let done = pass.take(slab, From::Lent(&**memory, &mut copy));
                    (copy, done)
                };
                if let [one] = slabs.as_slice() {
                    let (copy, done) = copied(one, Vec::new());
                    return put(one, &copy, done);
                }
                std::thread::scope(|scope| {
                    let (send, filled) = sync_channel(COPIES);
                    let (free, empty) = sync_channel(COPIES);
                    (0..COPIES).for_each(|_| drop(free.send(Vec::new())));
                    let slabs = &slabs;
                    scope.spawn(move || {
                        for slab in slabs {
                            // The other thread has met an error and is gone.
                            let Ok(copy) = empty.recv() else { return };
                            let (copy, done) = copied(slab, copy);
                            if send.send((copy, done)).is_err() {
                                return;
                            }
                        }
                    });
                    for slab in slabs {
                        // It fails only if the other thread panics, which the scope passes on.
                        let Ok((copy, done)) = filled.recv() else { break };
                        put(slab, &copy, done)?;
                        drop(free.send(copy));
                    }
                    Ok(())
                })
            }
        }
    }
}

/// What [`Values::each`] passes on.
pub(super) enum Passed<'a> {
    /// The values of a part.
    Values(&'a [u8]),
    /// The cells of a part as the operation with this number computes them.
    Result(usize, &'a [u8]),
}

#[cfg(test)]
mod tests {
    use drystone::format::dtype::{DType, Scalar};

    use super::*;
    use crate::lease::Cells;
    use crate::operation::Operation;
    use crate::pass::{Outcome, merged};

    struct Memory(Vec<u8>);

    impl Lent for Memory {
        fn len(&self) -> usize {
            self.0.len()
        }
        fn copy_out(&self, at: usize, out: &mut [u8]) {
            out.copy_from_slice(&self.0[at..at + out.len()]);
        }
    }

    #[test]
    fn lent_memory_takes_no_room_of_the_queue_and_comes_as_it_is() {
        let bytes: Vec<u8> = (0..=255).collect();
        let lent = Values::Lent(Arc::new(Memory(bytes.clone())));
        assert_eq!((lent.len(), lent.held()), (256, 0));
        assert_eq!(Values::Owned(bytes.clone()).held(), 256);
        for values in [lent, Values::Owned(bytes.clone())] {
            let mut seen = Vec::new();
            let put = |_: &[u64], _: &[u64], what: Passed<'_>| {
                if let Passed::Values(part) = what {
                    seen.extend_from_slice(part);
                }
                Ok(())
            };
            values.each(&[16, 8], 2, &mut Pass::default(), put).unwrap();
            assert_eq!(seen, bytes);
        }
    }

    #[test]
    fn slabs_are_written_while_others_are_copied_and_an_error_ends_both() {
        let count = [5, SLAB as u64 / 2];
        let bytes: Vec<u8> = (0..5 * SLAB / 2).map(|n| (n >> 12) as u8).collect();
        let lent = Values::Lent(Arc::new(Memory(bytes.clone())));
        let operations = [Operation::Above { value: 7.0 }, Operation::Sum];
        let cells = Cells { variable: "T".into(), step: Some(0), offset: vec![0, 0], count: count.to_vec() };
        let pass = || Pass::new(&operations, &cells, &count, &DType::Scalar(Scalar::U8)).unwrap();
        let (mut seen, mut above, mut parts) = (Vec::new(), Vec::new(), 0);
        let mut computed = pass();
        let done = lent.each(&count, 1, &mut computed, |_, _, what| {
            match what {
                Passed::Values(part) => {
                    seen.extend_from_slice(part);
                    parts += 1;
                }
                Passed::Result(n, part) => {
                    assert_eq!(n, 0);
                    above.extend_from_slice(part);
                }
            }
            Ok(())
        });
        assert!(done.is_ok() && parts == 3 && seen == bytes);
        assert!(
            above.iter().zip(&bytes).all(|(above, x)| *above == u8::from(*x > 7))
                && above.len() == bytes.len()
        );
        let sum: f64 = bytes.iter().map(|x| f64::from(*x)).sum();
        let Outcome::Part(part) = computed.finish().remove(1) else { panic!("a sum has a part") };
        assert_eq!(merged(&operations[1], [&part], &DType::Scalar(Scalar::U8)), sum.to_le_bytes());
        let failed = lent.each(&count, 1, &mut pass(), |_, _, _| Err(super::super::error::invalid("enough")));
        assert!(failed.unwrap_err().to_string().contains("enough"));
    }
}
