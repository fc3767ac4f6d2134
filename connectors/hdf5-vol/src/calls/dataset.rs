//! Datasets: creation, transfer of values, extents.

use std::ffi::{c_char, c_void};

use crate::calls::{args, bytes, creation, done, loc, made, stored};
use crate::library::abi::{DatasetGet, DatasetSpecific, Herr, Hid, Loc, P_DEFAULT, Req, S_PLIST, Void};
use crate::library::failure::{Failure, Result};
use crate::library::host::{Host, quietly};
use crate::library::props::{self, List, fill_time};
use crate::library::space::{self, Cells};
use crate::library::types::{self, Type};
use crate::model::element;
use crate::model::encoded::class;
use crate::model::tree::{Body, Dataset, Object, Space, StoredType, Times};
use crate::object::handle::Handle;
use crate::object::kind::ObjectKind;
use crate::object::walk::{Walk, locate, text, walk};
use crate::ranks::mpi;

/// Large transfers from dense memory are cut into pieces of about this many bytes.
const PIECE: u64 = 8 << 20;

fn stored_type(h: &Handle) -> Result<StoredType> {
    let state = h.context.opening.shared.lock();
    let dataset = state.tree.dataset(h.id).ok_or_else(|| Failure::not_found("the dataset is gone"))?;
    Ok(dataset.dtype.clone())
}

pub(crate) fn types_of(h: &Handle) -> Result<&(Type, Type)> {
    if h.types.get().is_none() {
        let made = stored::both(h, &stored_type(h)?)?;
        let _ = h.types.set(made);
    }
    h.types.get().ok_or_else(|| Failure::library("no datatype"))
}

fn extent_of(h: &Handle) -> Result<Space> {
    let state = h.context.opening.shared.lock();
    let dataset = state.tree.dataset(h.id).ok_or_else(|| Failure::not_found("the dataset is gone"))?;
    Ok(dataset.space.clone())
}

pub(crate) unsafe extern "C" fn create(
    at: Void,
    loc_at: *const Loc,
    name: *const c_char,
    lcpl: Hid,
    type_id: Hid,
    space_id: Hid,
    dcpl: Hid,
    dapl: Hid,
    dxpl: Hid,
    _req: Req,
) -> Void {
    made(at, |h| {
        let host = h.context.host;
        // SAFETY: the library's arguments.
        let from = locate(h, unsafe { loc(loc_at) }?)?;
        from.context.writable()?;
        let space = space::extent(host, space_id)?;
        let properties = props::of_dataset(host, dcpl, &space)?;
        types::refuse_regions(host, type_id)?;
        let encoded = types::encode(host, type_id)?;
        let disk = types::disk(host, h.void(), h.context.connector, type_id, &encoded)?;
        let checked = properties.filters.iter().any(|filter| filter.id == 3); // H5Z_FILTER_FLETCHER32
        // HDF5 refuses such values themselves, and accepts them as members.
        let whole = matches!(disk.class(), class::VLEN | class::STRING);
        if checked && whole && disk.is_variable() {
            return Err(Failure::unsupported("checksums (fletcher32) of values of variable length"));
        }
        if properties.fill_time == fill_time::NEVER && disk.has_sequences() {
            return Err(Failure::unsupported(
                "values of variable length where no fill value is ever written",
            ));
        }
        let size = u32::try_from(disk.size()).map_err(|_| Failure::unsupported("elements of over 4 GiB"))?;
        let committed = stored::committed(host, type_id, &from.context.opening);
        let dtype = StoredType { encoded, size, committed };
        let elsewhere = !std::sync::Arc::ptr_eq(&from.context.opening.shared, &h.context.opening.shared);
        if elsewhere && disk.is_variable() && properties.fill_defined == 2 {
            return Err(Failure::unsupported("fill values of variable length behind an external link"));
        }
        let fill = match properties.fill_defined {
            2 => fill_value(host, dcpl, type_id, &disk, dxpl)?,
            _ => None,
        };
        let high = vec![0; space.dims().len()];
        let dataset = Dataset { dtype, space, properties, fill, variable: None, high };
        if dataset.space != Space::Null && element::variable(&dataset).is_none() {
            return Err(Failure::unsupported(
                "datasets of more than 8 dimensions are not supported by the drystone connector",
            ));
        }
        let (order, phase, times) = props::of_object(host, dcpl);
        let mut object = Object::new(Body::Dataset(Box::new(dataset)), Times::now(times));
        object.attribute_order = order;
        object.phase = phase;
        let place = creation::add(&from, text(name), lcpl, dapl, object)?;
        let (handle, _) = Handle::object(place)?;
        remember(handle, dapl)?;
        if dcpl != P_DEFAULT
            && let Some(list) = h.context.copy_of(dcpl)
        {
            let _ = Handle::from_void(handle)?.created.set(list);
        }
        Ok(handle)
    })
}

/// The fill value of a creation list in the disk type; `None` if it is zero.
fn fill_value(
    host: &'static Host,
    dcpl: Hid,
    type_id: Hid,
    disk: &Type,
    dxpl: Hid,
) -> Result<Option<Vec<u8>>> {
    let memory = Type::copy(host, type_id)?;
    let mut value = vec![0u8; memory.size().max(disk.size())];
    // SAFETY: room for one element.
    let rc = unsafe { (host.api.H5Pget_fill_value)(dcpl, memory.id, value.as_mut_ptr().cast()) };
    if rc < 0 {
        return Err(Failure::invalid("the fill value does not fit the datatype"));
    }
    value.truncate(memory.size());
    let mut original = value.clone();
    let plain = types::plain(host, type_id)?;
    let out = types::convert(host, &plain, disk, 1, value, None, dxpl)?;
    types::reclaim(host, &memory, 1, &mut original);
    Ok(Some(out).filter(|v| v.iter().any(|b| *b != 0)))
}

pub(crate) unsafe extern "C" fn open(
    at: Void,
    loc_at: *const Loc,
    name: *const c_char,
    dapl: Hid,
    _dxpl: Hid,
    _req: Req,
) -> Void {
    made(at, |h| {
        // SAFETY: the library's arguments.
        let from = locate(h, unsafe { loc(loc_at) }?)?;
        let place = walk(&from, text(name), &mut Walk::by(h.context.host, dapl)?)?;
        if place.kind()? != ObjectKind::Dataset {
            return Err(Failure::wrong_kind("not a dataset"));
        }
        let (handle, _) = Handle::object(place)?;
        remember(handle, dapl)?;
        Ok(handle)
    })
}

/// Keeps the access list with which a dataset is opened, for programs that ask for it.
fn remember(handle: Void, dapl: Hid) -> Result<()> {
    let handle = Handle::from_void(handle)?;
    // If the program passes none the library passes its default, which describes a new one.
    if dapl != P_DEFAULT
        && dapl != handle.context.host.global("H5P_LST_DATASET_ACCESS_ID_g\0")
        && let Ok(list) = List::copy(handle.context.host, dapl)
    {
        let _ = handle.accessed.set(list);
    }
    Ok(())
}

/// The array of one argument of a transfer.
///
/// # Safety
/// `at` has `n` elements.
unsafe fn list<'a, T>(at: *const T, n: usize) -> &'a [T] {
    if at.is_null() || n == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(at, n) }
}

/// The arguments of a transfer of one dataset: the type in memory, the selections there and in the file, the
/// buffer.
type One<B> = (Hid, Hid, Hid, B);

/// Transfers the cells of each of `count` datasets; the first failure ends it.
///
/// # Safety
/// The arrays have `count` elements.
unsafe fn each<B: Copy>(
    (count, datasets): (usize, *const Void),
    (types, memory, file, buffers): (*const Hid, *const Hid, *const Hid, *const B),
    mut one: impl FnMut(&Handle, One<B>) -> Result<()>,
) -> Herr {
    // SAFETY: the caller's promise.
    let (datasets, types, memory, file, buffers) = unsafe {
        (
            list(datasets, count),
            list(types, count),
            list(memory, count),
            list(file, count),
            list(buffers, count),
        )
    };
    for i in 0..datasets.len() {
        let rc = done(datasets[i], |h| one(h, (types[i], memory[i], file[i], buffers[i])));
        if rc < 0 {
            return rc;
        }
    }
    0
}

pub(crate) unsafe extern "C" fn read(
    count: usize,
    datasets: *mut Void,
    types: *const Hid,
    memory: *const Hid,
    file: *const Hid,
    dxpl: Hid,
    buffers: *const Void,
    _req: Req,
) -> Herr {
    // SAFETY: the library gives arrays of `count` elements.
    unsafe {
        for at in list(datasets.cast_const(), count) {
            let rc = done(*at, |h| show_what_all_wrote(h, dxpl));
            if rc < 0 {
                return rc;
            }
        }
        each((count, datasets), (types, memory, file, buffers), |h, (kind, memory, file, buffer)| {
            read_one(h, kind, memory, file, dxpl, buffer)
        })
    }
}

pub(crate) unsafe extern "C" fn write(
    count: usize,
    datasets: *mut Void,
    types: *const Hid,
    memory: *const Hid,
    file: *const Hid,
    dxpl: Hid,
    buffers: *const Void,
    _req: Req,
) -> Herr {
    // SAFETY: the library gives arrays of `count` elements.
    unsafe {
        each((count, datasets), (types, memory, file, buffers), |h, (kind, memory, file, buffer)| {
            write_one(h, kind, memory, file, dxpl, buffer.cast_const())
        })
    }
}

/// The parts of a transfer: cells of the file, runs in memory, the two types.
struct Transfer {
    cells: Cells,
    points: u64,
    runs: Vec<(u64, u64)>,
    program: Type,
}

impl Transfer {
    fn new(h: &Handle, type_id: Hid, memory: Hid, file: Hid) -> Result<Transfer> {
        let host = h.context.host;
        let whole = extent_of(h)?;
        if memory == S_PLIST || file == S_PLIST {
            return Err(Failure::unsupported("selections in transfer property lists are not supported"));
        }
        if file != 0 {
            let given = space::extent(host, file)?;
            let fits = given.dims().len() == whole.dims().len();
            if !fits && (whole != Space::Null || given != Space::Null) {
                return Err(Failure::invalid("the file's dataspace has another rank than the dataset"));
            }
        }
        let mut selected = space::selected(host, file, &whole)?;
        if let Cells::Runs(runs) = &mut selected.cells
            && file != 0
        {
            let given = space::extent(host, file)?;
            if given.dims() != whole.dims() && !runs.is_empty() {
                *runs = translate(runs, given.dims(), whole.dims())?;
            }
        }
        if whole == Space::Null {
            selected.points = 0;
            selected.cells = Cells::Runs(Vec::new());
        }
        let runs = space::memory(host, memory, file, &whole, selected.points)?;
        let program = types::plain(host, type_id)?;
        Ok(Transfer { cells: selected.cells, points: selected.points, runs, program })
    }

    /// The selection in memory, if it is one dense run: its first element.
    fn dense(&self) -> Option<u64> {
        match self.runs[..] {
            [(at, n)] if n == self.points => Some(at),
            _ => None,
        }
    }
}

/// Translates runs of one extent to another, for a dataspace that is not the dataset's own.
fn translate(runs: &[(u64, u64)], from: &[u64], to: &[u64]) -> Result<Vec<(u64, u64)>> {
    let mut out = Vec::new();
    for group in crate::model::boxes::groups(from, runs, 1) {
        for piece in group.pieces {
            let mut at = 0u64;
            for d in 0..to.len() {
                let n = if d + 1 == to.len() { piece.count } else { 1 };
                if piece.first[d] + n > to[d] {
                    return Err(Failure::range("the selection leaves the dataset"));
                }
                at = at * to[d] + piece.first[d];
            }
            out.push((at, piece.count));
        }
    }
    Ok(out)
}

/// Elements of memory, one after the other.
///
/// # Safety
/// `buffer` holds the selected elements.
unsafe fn gather(buffer: *const c_void, runs: &[(u64, u64)], item: usize, points: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(points as usize * item);
    for (at, n) in runs {
        // SAFETY: the program promises that its selection lies in its buffer.
        out.extend_from_slice(unsafe {
            bytes(buffer.cast::<u8>().add(*at as usize * item).cast(), *n as usize * item)
        });
    }
    out
}

/// The reverse of [`gather`].
///
/// # Safety
/// `buffer` has room for the selected elements.
unsafe fn scatter(data: &[u8], buffer: Void, runs: &[(u64, u64)], item: usize) {
    let mut from = 0;
    for (at, n) in runs {
        let n = *n as usize * item;
        // SAFETY: the program promises that its selection lies in its buffer.
        unsafe {
            std::ptr::copy_nonoverlapping(
                data[from..from + n].as_ptr(),
                buffer.cast::<u8>().add(*at as usize * item),
                n,
            );
        }
        from += n;
    }
}

/// Before a collective read, commits what every rank wrote: all ranks make the call, so they can. If nothing was
/// written since the last commit, that is one short message. It does not sync: `H5Fflush` and `H5Fclose` do.
fn show_what_all_wrote(h: &Handle, dxpl: Hid) -> Result<()> {
    let opening = &h.context.opening;
    match opening.team().is_some() && opening.writable() && mpi::is_collective(h.context.host, dxpl) {
        true => opening.show(),
        false => Ok(()),
    }
}

fn read_one(h: &Handle, type_id: Hid, memory: Hid, file: Hid, dxpl: Hid, buffer: Void) -> Result<()> {
    let host = h.context.host;
    let shared = &h.context.opening.shared;
    let transfer = Transfer::new(h, type_id, memory, file)?;
    if transfer.points == 0 {
        return Ok(());
    }
    if buffer.is_null() {
        return Err(Failure::invalid("no output buffer"));
    }
    let (_, disk) = types_of(h)?;
    let item = transfer.program.size();
    let same = types::same(host, disk.id, transfer.program.id);
    if let (Cells::Box(first, count), Some(at), true) = (&transfer.cells, transfer.dense(), same) {
        // SAFETY: the program promises room for the selection.
        let out = unsafe {
            std::slice::from_raw_parts_mut(
                buffer.cast::<u8>().add(at as usize * item),
                transfer.points as usize * item,
            )
        };
        return shared.read_into(h.id, first, count, out);
    }
    let data = shared.read(h.id, &transfer.cells)?;
    if same {
        // SAFETY: as above.
        unsafe { scatter(&data, buffer, &transfer.runs, item) };
        return Ok(());
    }
    let background = types::needs_background(disk, &transfer.program)
        // SAFETY: as above.
        .then(|| unsafe { gather(buffer.cast_const(), &transfer.runs, item, transfer.points) })
        .filter(|_| !transfer.program.is_variable());
    let data = types::convert(host, disk, &transfer.program, transfer.points, data, background, dxpl)?;
    // SAFETY: as above.
    unsafe { scatter(&data, buffer, &transfer.runs, item) };
    Ok(())
}

fn write_one(
    h: &Handle,
    type_id: Hid,
    memory: Hid,
    file: Hid,
    dxpl: Hid,
    buffer: *const c_void,
) -> Result<()> {
    h.context.writable()?;
    let host = h.context.host;
    let shared = &h.context.opening.shared;
    let transfer = Transfer::new(h, type_id, memory, file)?;
    if transfer.points == 0 {
        return Ok(());
    }
    if buffer.is_null() {
        return Err(Failure::invalid("no input buffer"));
    }
    let (_, disk) = types_of(h)?;
    let item = transfer.program.size();
    if disk.is_variable() && h.context.opening.team().is_some() {
        // As in native HDF5: the other ranks would have to know what one rank writes to its heap.
        return Err(Failure::unsupported(
            "values of variable length cannot be written by several ranks together",
        ));
    }
    let same = types::same(host, disk.id, transfer.program.id);
    let nested = types::needs_background(&transfer.program, disk);
    if let (Cells::Box(first, count), Some(at), false) = (&transfer.cells, transfer.dense(), nested && !same)
    {
        // Dense on both sides: piece by piece, so that the write buffer's limit bounds memory. SAFETY: the
        // program promises that its selection lies in its buffer.
        let all = unsafe {
            bytes(buffer.cast::<u8>().add(at as usize * item).cast(), transfer.points as usize * item)
        };
        for (first, count, range) in pieces(first, count, item.max(disk.size())) {
            let n = (range.end - range.start) as u64;
            let cells = &all[range.start * item..range.end * item];
            let mut data = shared.lock().spare.take(cells.len());
            drystone_copy::extend_past_caches(&mut data, cells); // read again when it is put, long after
            let data = types::convert(host, &transfer.program, disk, n, data, None, dxpl)?;
            shared.write(h.id, &Cells::Box(first, count), data)?;
        }
        return Ok(());
    }
    // SAFETY: as above.
    let data = unsafe { gather(buffer, &transfer.runs, item, transfer.points) };
    let background = match nested && !same && disk.has_members() {
        true => Some(shared.read(h.id, &transfer.cells)?),
        false => None,
    };
    let data = types::convert(host, &transfer.program, disk, transfer.points, data, background, dxpl)?;
    shared.write(h.id, &transfer.cells, data)
}

type BoxPiece = (Vec<u64>, Vec<u64>, std::ops::Range<usize>);

/// A box as pieces along its first axis, each with the elements of the whole that are in it.
fn pieces(first: &[u64], count: &[u64], item: usize) -> Vec<BoxPiece> {
    let all: u64 = count.iter().product();
    if count.is_empty() || all * item as u64 <= PIECE * 2 {
        return vec![(first.to_vec(), count.to_vec(), 0..all as usize)];
    }
    let row: u64 = count[1..].iter().product::<u64>().max(1);
    let step = (PIECE / (row * item as u64)).max(1);
    let mut out = Vec::new();
    let mut at = 0;
    while at < count[0] {
        let n = step.min(count[0] - at);
        let (mut f, mut c) = (first.to_vec(), count.to_vec());
        f[0] += at;
        c[0] = n;
        out.push((f, c, (at * row) as usize..((at + n) * row) as usize));
        at += n;
    }
    out
}

pub(crate) unsafe extern "C" fn get(at: Void, args_at: *mut DatasetGet, _dxpl: Hid, _req: Req) -> Herr {
    done(at, |h| {
        let host = h.context.host;
        // SAFETY: the library's arguments; `op` says which member of the union there is.
        unsafe {
            let args = args(args_at)?;
            match args.op {
                0 => {
                    let list = match h.accessed.get() {
                        Some(list) => List::copy(host, list.id)?,
                        None => List::new(host, "H5P_CLS_DATASET_ACCESS_ID_g\0")?,
                    };
                    args.args.id = list.give();
                }
                1 => args.args.id = dcpl(h)?.give(),
                2 => args.args.id = space::create(host, &extent_of(h)?)?,
                3 => *args.args.status = if stored_bytes(h)? > 0 { 2 } else { 0 },
                4 => *args.args.size = stored_bytes(h)?,
                5 => args.args.id = type_id(h)?,
                op => return Err(Failure::unsupported(format!("query {op} of a dataset"))),
            }
        }
        Ok(())
    })
}

/// Bytes of all cells, before any transform, once any were written.
fn stored_bytes(h: &Handle) -> Result<u64> {
    let state = h.context.opening.shared.lock();
    let dataset = state.tree.dataset(h.id).ok_or_else(|| Failure::not_found("the dataset is gone"))?;
    let early = dataset.properties.layout != 2 && dataset.properties.alloc_time == 1;
    let written = early
        || state.resident.get(&h.id).is_some_and(|r| r.dirty)
        || state.uncommitted.contains(&h.id)
        || state.pending.iter().any(|b| b.dataset == h.id)
        || state.patches.contains_key(&h.id)
        || dataset.variable.is_some();
    let all = dataset.space.points().unwrap_or(0).saturating_mul(u64::from(dataset.dtype.size));
    Ok(if written { all } else { 0 })
}

/// The type as programs see it: the committed one itself, if it is one.
fn type_id(h: &Handle) -> Result<Hid> {
    let host = h.context.host;
    let dtype = stored_type(h)?;
    if let Some(id) = dtype.committed {
        return stored::committed_id(h, id);
    }
    Ok(Type::copy(host, types_of(h)?.0.id)?.give())
}

fn dcpl(h: &Handle) -> Result<List> {
    let host = h.context.host;
    if let Some(list) = h.created.get() {
        return List::copy(host, list.id);
    }
    let (properties, fill, order, phase, times) = {
        let state = h.context.opening.shared.lock();
        let gone = || Failure::not_found("the dataset is gone");
        let object = state.tree.objects.get(&h.id).ok_or_else(gone)?;
        let Body::Dataset(d) = &object.body else { return Err(gone()) };
        (d.properties.clone(), d.fill.clone(), object.attribute_order, object.phase, object.times.tracked)
    };
    let list = props::dataset_list(host, &properties)?;
    props::set_object(host, &list, order, phase, times);
    if properties.fill_defined == 2 {
        let (seen, disk) = types_of(h)?;
        let value = fill.unwrap_or_else(|| vec![0; disk.size()]);
        let plain = types::plain(host, seen.id)?;
        let mut value = types::convert(host, disk, &plain, 1, value, None, P_DEFAULT)?;
        // SAFETY: one element; the library copies it.
        quietly(host, || unsafe { (host.api.H5Pset_fill_value)(list.id, seen.id, value.as_ptr().cast()) });
        types::reclaim(host, &plain, 1, &mut value);
    } else if properties.fill_defined == 0 {
        // SAFETY: no value: undefined.
        unsafe { (host.api.H5Pset_fill_value)(list.id, types_of(h)?.0.id, std::ptr::null()) };
    }
    Ok(list)
}

pub(crate) unsafe extern "C" fn specific(
    at: Void,
    args_at: *mut DatasetSpecific,
    _dxpl: Hid,
    _req: Req,
) -> Herr {
    done(at, |h| {
        // SAFETY: the library's arguments.
        let args = unsafe { args(args_at) }?;
        match args.op {
            0 => {
                h.context.writable()?;
                let rank = extent_of(h)?.dims().len();
                // SAFETY: one number per dimension.
                let to = unsafe { list(args.args.size, rank) };
                let state = h.context.opening.shared.lock();
                let chunked = state.tree.dataset(h.id).is_some_and(|d| d.properties.layout == 2);
                drop(state);
                if !chunked {
                    return Err(Failure::invalid(
                        "the dataset's extent cannot change: it has no chunked layout",
                    ));
                }
                h.context.opening.shared.set_extent(h.id, to)
            }
            1 => h.context.opening.flush(),
            _ => h.context.opening.shared.refresh(),
        }
    })
}

pub(crate) unsafe extern "C" fn close(at: Void, _dxpl: Hid, _req: Req) -> Herr {
    done(at, |_| Handle::close(at))
}
