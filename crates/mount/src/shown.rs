//! A snapshot as files: its arrays in their folders, its fragments, their lengths, and their bytes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use drystone::{Container, Error, ErrorKind, FlatArray, FragmentHandle, Frame, Precision, Result};

use crate::tree::{Form, Tree};
use crate::zarr::ZarrTree;

/// The most snapshots that are kept open. The one used longest ago is dropped first.
const KEPT: usize = 16;

/// How arrays are cut into chunks of Zarr, by variable and member. All snapshots of a mount use the same cuts.
type Cuts = Arc<Mutex<BTreeMap<(u64, u32), Vec<u64>>>>;

/// One snapshot.
pub(crate) struct Shown {
    pub(crate) container: Container,
    pub(crate) tree: Tree,
    pub(crate) fragments: BTreeMap<String, Fragment>,
    arrays: Vec<Array>,
    zarr: OnceLock<std::result::Result<ZarrTree, Error>>,
    cuts: Cuts,
    /// Time of its commit, in nanoseconds since 1970.
    pub(crate) time: u64,
}

struct Array {
    flat: FlatArray,
    npy: Frame,
    hdf5: OnceLock<std::result::Result<Frame, Error>>,
}

/// A declared fragment, with its steps in order.
pub(crate) struct Fragment {
    handle: FragmentHandle,
    /// Bytes of one step.
    step: u64,
    /// Number of steps; `None` if no variable of it has steps.
    steps: Option<u64>,
    /// The step that was read last.
    last: Mutex<Option<(u64, Arc<Vec<u8>>)>>,
}

impl Shown {
    fn new(container: Container, cuts: Cuts) -> Result<Self> {
        let arrays: Vec<Array> = container
            .flat_arrays()?
            .into_iter()
            .map(|flat| Array { npy: flat.npy(), flat, hdf5: OnceLock::new() })
            .collect();
        let schema = container.schema();
        let groups = schema.groups.keys().map(String::as_str).filter(|path| !path.starts_with('.'));
        let tree = Tree::new(arrays.iter().map(|a| (a.flat.path(), forms(&a.flat))), groups);
        let mut fragments = BTreeMap::new();
        for name in container.whole_fragments()? {
            let handle = container.fragment(&name, &[])?;
            let step = handle.layout().size;
            let steps = handle.has_steps().then(|| container.snapshot().step_axis());
            fragments.insert(name, Fragment { handle, step, steps, last: Mutex::new(None) });
        }
        let time = container.snapshot().time();
        Ok(Shown { container, tree, fragments, arrays, zarr: OnceLock::new(), cuts, time })
    }

    /// The Zarr hierarchy, made at its first use.
    pub(crate) fn zarr(&self) -> Result<&ZarrTree> {
        let made = self.zarr.get_or_init(|| {
            let mut cuts = self.cuts.lock().unwrap_or_else(PoisonError::into_inner);
            self.container.zarr_files(&mut cuts).map(ZarrTree::new)
        });
        made.as_ref().map_err(Error::clone)
    }

    /// The array of a file.
    pub(crate) fn array(&self, number: usize) -> Result<&FlatArray> {
        self.arrays
            .get(number)
            .map(|array| &array.flat)
            .ok_or_else(|| Error::new(ErrorKind::NotFound, "no such array"))
    }

    fn frame(&self, number: usize, form: Form) -> Result<(&FlatArray, Option<&Frame>)> {
        let array =
            self.arrays.get(number).ok_or_else(|| Error::new(ErrorKind::NotFound, "no such array"))?;
        let frame = match form {
            Form::Bin => None,
            Form::Npy => Some(&array.npy),
            Form::Hdf5 | Form::NetCdf => match array.hdf5.get_or_init(|| array.flat.hdf5()) {
                Ok(frame) => Some(frame),
                Err(error) => return Err(error.clone()),
            },
        };
        Ok((&array.flat, frame))
    }

    /// The size of a file in bytes.
    pub(crate) fn size(&self, number: usize, form: Form) -> Result<u64> {
        let (flat, frame) = self.frame(number, form)?;
        let around = frame.map_or(0, |f| (f.head.len() + f.tail.len()) as u64);
        Ok(flat.size()?.saturating_add(around))
    }

    /// Reads bytes of a file from `offset` on, which must lie in the file.
    pub(crate) fn read(&self, number: usize, form: Form, offset: u64, mut out: &mut [u8]) -> Result<()> {
        let (flat, frame) = self.frame(number, form)?;
        let size = flat.size()?;
        let (head, tail): (&[u8], &[u8]) = frame.map_or((&[], &[]), |f| (&f.head, &f.tail));
        let mut at = offset;
        if at < head.len() as u64 {
            let now = out.len().min(head.len() - at as usize);
            let (here, rest) = out.split_at_mut(now);
            here.copy_from_slice(&head[at as usize..at as usize + now]);
            at += now as u64;
            out = rest;
        }
        let cell = at - (head.len() as u64).min(at);
        if !out.is_empty() && cell < size {
            let now = (out.len() as u64).min(size - cell) as usize;
            let (here, rest) = out.split_at_mut(now);
            if flat.is_record() {
                // No read fills the bytes between members, and they may hold bytes of an earlier read.
                here.fill(0);
            }
            flat.read_at(cell, here)?;
            at += now as u64;
            out = rest;
        }
        if !out.is_empty() {
            let from = (at - head.len() as u64 - size) as usize;
            let rest = tail
                .get(from..from + out.len())
                .ok_or_else(|| Error::new(ErrorKind::InvalidArgument, "a range beyond the file"))?;
            out.copy_from_slice(rest);
        }
        Ok(())
    }
}

/// The forms in which an array is shown.
fn forms(array: &FlatArray) -> Vec<Form> {
    let may = |form: &Form| match form {
        Form::Npy | Form::Bin => true,
        Form::Hdf5 => !array.is_record(),
        Form::NetCdf => array.is_netcdf(),
    };
    Form::ALL.into_iter().filter(may).collect()
}

impl Fragment {
    /// Bytes of all steps.
    pub(crate) fn size(&self) -> u64 {
        self.step.saturating_mul(self.steps.unwrap_or(1))
    }

    /// Reads bytes from `offset` on, which must lie in the fragment.
    pub(crate) fn read(&self, mut offset: u64, mut out: &mut [u8]) -> Result<()> {
        while !out.is_empty() && self.step > 0 {
            let (step, from) = (offset / self.step, (offset % self.step) as usize);
            let bytes = self.step(step)?;
            let now = out.len().min(bytes.len() - from);
            let (here, rest) = out.split_at_mut(now);
            here.copy_from_slice(&bytes[from..from + now]);
            offset += now as u64;
            out = rest;
        }
        Ok(())
    }

    fn step(&self, step: u64) -> Result<Arc<Vec<u8>>> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, bytes)) = last.as_ref().filter(|(known, _)| *known == step) {
            return Ok(bytes.clone());
        }
        let len = usize::try_from(self.step)
            .map_err(|_| Error::new(ErrorKind::Unsupported, "the fragment is larger than memory"))?;
        let mut bytes = Vec::new();
        bytes
            .try_reserve_exact(len)
            .map_err(|_| Error::new(ErrorKind::Unsupported, "the fragment is larger than memory"))?;
        bytes.resize(len, 0);
        self.handle.read(self.steps.map(|_| step), &mut bytes, Precision::Exact)?;
        let bytes = Arc::new(bytes);
        *last = Some((step, bytes.clone()));
        Ok(bytes)
    }
}

/// The snapshots of a container that were opened.
pub(crate) struct Snapshots {
    container: Container,
    /// Snapshots in the order of their last use, the newest use at the end.
    kept: Mutex<Vec<Arc<Shown>>>,
    cuts: Cuts,
}

impl Snapshots {
    pub(crate) fn new(container: Container) -> Self {
        Snapshots { container, kept: Mutex::default(), cuts: Cuts::default() }
    }

    /// Numbers of the existing snapshots.
    pub(crate) fn numbers(&self) -> Result<Vec<u64>> {
        self.container.refresh()?;
        self.container.snapshots()
    }

    /// Number of the newest snapshot.
    pub(crate) fn newest(&self) -> Result<u64> {
        self.container.refresh()?;
        Ok(self.container.snapshot().version())
    }

    /// The newest snapshot.
    pub(crate) fn latest(&self) -> Result<Arc<Shown>> {
        self.container.refresh()?;
        self.at(self.container.snapshot().version())
    }

    /// The snapshot with this number.
    pub(crate) fn at(&self, version: u64) -> Result<Arc<Shown>> {
        let known = |kept: &mut Vec<Arc<Shown>>| {
            let place = kept.iter().position(|shown| shown.container.snapshot().version() == version)?;
            let shown = kept.remove(place);
            kept.push(shown.clone());
            Some(shown)
        };
        if let Some(shown) = known(&mut self.kept.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(shown);
        }
        let made = Arc::new(Shown::new(self.container.at(version)?, self.cuts.clone())?);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shown) = known(&mut kept) {
            return Ok(shown);
        }
        if kept.len() >= KEPT {
            kept.remove(0);
        }
        kept.push(made.clone());
        Ok(made)
    }
}
