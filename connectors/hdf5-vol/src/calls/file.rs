//! Files: creation, opening, queries, flush, close.

use std::ffi::{c_char, c_uint, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::calls::{args, done, give_text, guard};
use crate::file::config::{Config, Info};
use crate::file::far;
use crate::file::opening::{New, Opening};
use crate::library::abi::{FileGet, FileSpecific, Herr, Hid, OptionalArgs, Req, Void, access, id};
use crate::library::driver::{self, FileMedium};
use crate::library::failure::{Failure, Result};
use crate::library::host::{Host, quietly};
use crate::library::props::{self, List};
use crate::model::tree::{ROOT, Tree};
use crate::object::context::Context;
use crate::object::handle::{Handle, behind};
use crate::object::kind::ObjectKind;
use crate::object::shadow;
use crate::object::walk::text;
use crate::ranks::mpi;

/// The settings for this connector in an access list.
fn config(host: &Host, fapl: Hid) -> Result<Config> {
    let mut info: Void = std::ptr::null_mut();
    // SAFETY: gives a copy of what `from_str` made, or null.
    quietly(host, || unsafe { (host.api.H5Pget_vol_info)(fapl, &mut info) });
    if info.is_null() {
        return Ok(Config::default());
    }
    // SAFETY: only our own class makes the values in the list.
    let config = unsafe { Box::from_raw(info.cast::<Info>()) };
    config.map_err(|why| Failure::invalid(format!("HDF5_VOL_CONNECTOR: {why}")))
}

fn handle(host: &'static Host, opening: Arc<Opening>, fapl: Hid) -> Void {
    let context = Context::new(host, opening, fapl);
    if context.mimic {
        shadow::prepare(host);
    }
    hold(context)
}

/// The handle of a file for a program.
fn hold(context: Arc<Context>) -> Void {
    let made = Handle::hold(context.clone(), ObjectKind::File, ROOT, b"/".to_vec());
    context.file.store(made as usize, Ordering::SeqCst);
    made
}

/// The alignment of objects in a file: the connector aligns nothing, but HDF5 applies the value to user
/// blocks too.
fn alignment(host: &Host, fcpl: Hid, fapl: Hid) -> u64 {
    const PAGED: i32 = 1; // H5F_FSPACE_STRATEGY_PAGE
    let (mut threshold, mut alignment) = (1u64, 1u64);
    let (mut strategy, mut persists, mut page) = (0, false, 1u64);
    let pages = host.api.H5Pget_file_space_strategy.zip(host.api.H5Pget_file_space_page_size);
    if let Some((ask, ask_size)) = pages {
        // SAFETY: writes numbers.
        quietly(host, || unsafe {
            ask(fcpl, &mut strategy, &mut persists, &mut threshold);
            ask_size(fcpl, &mut page);
        });
    }
    if strategy == PAGED {
        return page.max(1);
    }
    if let Some(ask) = host.api.H5Pget_alignment {
        // SAFETY: writes two numbers.
        quietly(host, || unsafe { ask(fapl, &mut threshold, &mut alignment) });
    }
    alignment.max(1)
}

/// Single writer, multiple readers (SWMR) always holds: a reader sees a whole flush. The flags are kept for
/// programs that ask for them.
fn check_flags(flags: c_uint, writes: bool) -> Result<()> {
    if flags & access::SWMR_WRITE != 0 && !writes {
        return Err(Failure::invalid("SWMR write access to a file that is opened for reading"));
    }
    if flags & access::SWMR_READ != 0 && writes {
        return Err(Failure::invalid("SWMR read access to a file that is opened for writing"));
    }
    Ok(())
}

pub(crate) unsafe extern "C" fn create<const H: usize>(
    name: *const c_char,
    flags: c_uint,
    fcpl: Hid,
    fapl: Hid,
    _dxpl: Hid,
    _req: Req,
) -> Void {
    let host = Host::of(H);
    guard(host, std::ptr::null_mut(), || {
        let host = host.ok_or_else(|| Failure::library("unknown library"))?;
        check_flags(flags, true)?;
        let place = driver::of(host, fapl)?;
        let ranks = mpi::ranks(host, fapl)?;
        let config = config(host, fapl)?;
        let mut userblock = 0u64;
        // SAFETY: writes one number.
        quietly(host, || unsafe { (host.api.H5Pget_userblock)(fcpl, &mut userblock) });
        if userblock > 0 && !userblock.is_multiple_of(alignment(host, fcpl, fapl)) {
            return Err(Failure::invalid("the user block is not a multiple of the file's alignment"));
        }
        let (links, attributes, _, _) = props::of_group(host, fcpl);
        let mut tree = Tree::new(links, attributes);
        tree.fcpl = props::encode(host, fcpl);
        let opening = match place {
            FileMedium::Memory => Opening::create_in_memory(text(name), flags, config, tree)?,
            FileMedium::Disk => Opening::create(text(name), flags, config, New { tree, userblock }, ranks)?,
        };
        Ok(handle(host, opening, fapl))
    })
}

pub(crate) unsafe extern "C" fn open<const H: usize>(
    name: *const c_char,
    flags: c_uint,
    fapl: Hid,
    _dxpl: Hid,
    _req: Req,
) -> Void {
    let host = Host::of(H);
    guard(host, std::ptr::null_mut(), || {
        let host = host.ok_or_else(|| Failure::library("unknown library"))?;
        check_flags(flags, flags & access::RDWR != 0)?;
        if driver::of(host, fapl)? == FileMedium::Memory && flags & access::RDWR != 0 {
            return Err(Failure::unsupported(
                "changing a file in memory only (the core driver without backing store) is not supported by the drystone connector",
            ));
        }
        let ranks = mpi::ranks(host, fapl)?;
        let opening = Opening::open(text(name), flags, config(host, fapl)?, ranks)?;
        Ok(handle(host, opening, fapl))
    })
}

pub(crate) unsafe extern "C" fn get(at: Void, args_at: *mut FileGet, _dxpl: Hid, _req: Req) -> Herr {
    done(at, |h| {
        // SAFETY: the library's arguments; `op` says which member of the union there is.
        unsafe {
            let args = args(args_at)?;
            let host = h.context.host;
            match args.op {
                0 => {
                    let info = super::args(args.args.info)?;
                    info.feature_flags = 0;
                    info.token_size = 8;
                    info.blob_id_size = 16;
                }
                1 => args.args.id = fapl(h)?.give(),
                2 => args.args.id = fcpl(h)?.give(),
                3 => *args.args.fileno = h.context.opening.shared.number,
                4 => *args.args.flags = h.context.opening.intent(),
                5 => {
                    let name = args.args.name;
                    give_text(&h.context.opening.name, name.buf, name.buf_size, name.len);
                }
                6 => *args.args.obj_count.count = ids(host, h, args.args.obj_count.types, usize::MAX).len(),
                7 => {
                    let asked = args.args.obj_ids;
                    let found = ids(host, h, asked.types, asked.max);
                    for (i, id) in found.iter().enumerate() {
                        *asked.list.add(i) = *id;
                    }
                    *asked.count = found.len();
                }
                op => return Err(Failure::unsupported(format!("query {op} of a file"))),
            }
        }
        Ok(())
    })
}

/// An access list with our connector.
fn fapl(h: &Handle) -> Result<List> {
    let host = h.context.host;
    let list = match &h.context.access {
        Some(list) => List::copy(host, list.id)?,
        None => {
            let list = List::new(host, "H5P_CLS_FILE_ACCESS_ID_g\0")?;
            h.context.kept.give(host, list.id);
            list
        }
    };
    let info: Box<Info> = Box::new(Ok(h.context.opening.shared.config));
    // SAFETY: the library copies what it is given by our own class.
    unsafe {
        (host.api.H5Pset_vol)(list.id, h.context.connector, std::ptr::from_ref(&*info).cast());
    }
    Ok(list)
}

/// The creation list of the file.
fn fcpl(h: &Handle) -> Result<List> {
    let host = h.context.host;
    let (encoded, order, attributes) = {
        let state = h.context.opening.shared.lock();
        let root = state.tree.objects.get(&ROOT);
        let order = state.tree.group(ROOT).map_or(0, |g| g.order);
        (state.tree.fcpl.clone(), order, root.map_or(0, |o| o.attribute_order))
    };
    if !encoded.is_empty() {
        // SAFETY: bytes that a library wrote, from a catalogue whose checksum was right.
        let id = quietly(host, || unsafe { (host.api.H5Pdecode)(encoded.as_ptr().cast()) });
        if id >= 0 {
            let list = List::copy(host, id);
            // SAFETY: the id that was decoded.
            unsafe { (host.api.H5Pclose)(id) };
            return list;
        }
    }
    let list = List::new(host, "H5P_CLS_FILE_CREATE_ID_g\0")?;
    // SAFETY: plain numbers.
    unsafe {
        (host.api.H5Pset_link_creation_order)(list.id, u32::from(order));
        (host.api.H5Pset_attr_creation_order)(list.id, u32::from(attributes));
    }
    Ok(list)
}

struct Search {
    host: &'static Host,
    shared: usize,
    opening: Option<usize>,
    found: Vec<Hid>,
    max: usize,
}

unsafe extern "C" fn collect(id: Hid, data: *mut c_void) -> Herr {
    // SAFETY: `ids` gives its own search, which outlives the iteration.
    let search = unsafe { &mut *data.cast::<Search>() };
    if let Some(handle) = behind(search.host, id) {
        let opening = &handle.context.opening;
        let same = Arc::as_ptr(&opening.shared) as usize == search.shared
            && search.opening.is_none_or(|o| Arc::as_ptr(opening) as usize == o);
        if same && search.found.len() < search.max {
            search.found.push(id);
        }
    }
    0
}

/// Ids of the open objects of a file, of the requested types.
fn ids(host: &'static Host, h: &Handle, types: c_uint, max: usize) -> Vec<Hid> {
    let opening = &h.context.opening;
    let mut search = Search {
        host,
        shared: Arc::as_ptr(&opening.shared) as usize,
        opening: (types & 0x20 != 0).then_some(Arc::as_ptr(opening) as usize),
        found: Vec::new(),
        max,
    };
    for (bit, kind) in [(1, id::FILE), (2, id::DATASET), (4, id::GROUP), (8, id::DATATYPE), (16, id::ATTR)] {
        if types & bit != 0 {
            // SAFETY: the callback gets our search.
            quietly(host, || unsafe {
                (host.api.H5Iiterate)(kind, collect, std::ptr::from_mut(&mut search).cast())
            });
        }
    }
    search.found
}

pub(crate) unsafe extern "C" fn specific<const H: usize>(
    at: Void,
    args_at: *mut FileSpecific,
    _dxpl: Hid,
    _req: Req,
) -> Herr {
    let host = Host::of(H);
    guard(host, -1, || {
        // SAFETY: the library's arguments; `op` says which member of the union there is.
        unsafe {
            let args = args(args_at)?;
            match args.op {
                0 => Handle::from_void(at)?.context.opening.flush()?,
                1 => {
                    let h = Handle::from_void(at)?;
                    // SAFETY: another reference to an id that is held.
                    (h.context.host.api.H5Iinc_ref)(h.context.connector);
                    let context = Arc::new(Context {
                        host: h.context.host,
                        opening: h.context.opening.again(),
                        connector: h.context.connector,
                        mimic: h.context.mimic,
                        kept: h.context.kept,
                        file: AtomicUsize::new(0),
                        creation: std::sync::Mutex::default(),
                        access: h
                            .context
                            .access
                            .as_ref()
                            .and_then(|list| List::copy(h.context.host, list.id).ok()),
                    });
                    *args.args.file = hold(context);
                }
                2 => {
                    let asked = args.args.accessible;
                    *asked.accessible = Opening::accessible(text(asked.name))?;
                }
                3 => {
                    let asked = args.args.accessible;
                    let ranks = host.map_or(Ok(None), |host| mpi::ranks(host, asked.fapl_id))?;
                    Opening::delete(text(asked.name), ranks)?;
                }
                4 => {
                    let h = Handle::from_void(at)?;
                    let asked = args.args.equal;
                    *asked.same = match Handle::from_void(asked.other) {
                        Ok(other) => Arc::ptr_eq(&h.context.opening.shared, &other.context.opening.shared),
                        Err(_) => true, // with mimic: one file stands for all
                    };
                }
                op => return Err(Failure::unsupported(format!("operation {op} on a file"))),
            }
        }
        Ok(0)
    })
}

pub(crate) unsafe extern "C" fn optional(
    at: Void,
    args_at: *mut OptionalArgs,
    _dxpl: Hid,
    _req: Req,
) -> Herr {
    done(at, |h| {
        // SAFETY: the library's arguments.
        let args = unsafe { args(args_at) }?;
        match args.op_type {
            28 => Ok(()), // after opening: nothing to adjust
            13 => {
                h.context.writable()?; // H5Fstart_swmr_write: readers see what was flushed anyway
                h.context.opening.flush()?;
                h.context.opening.shared.swmr.store(true, std::sync::atomic::Ordering::SeqCst);
                Ok(())
            }
            8 => {
                // SAFETY: H5Fget_filesize gives a pointer to a pointer to the size.
                unsafe { **args.args.cast::<*mut u64>() = size_of_file(h) };
                Ok(())
            }
            op => Err(Failure::unsupported(format!("file operation {op} is only there for native files"))),
        }
    })
}

/// Bytes of the container's files.
fn size_of_file(h: &Handle) -> u64 {
    let path = &h.context.opening.shared.path;
    if let Some(url) = far::url(path.as_os_str().as_encoded_bytes()) {
        return far::size(url).unwrap_or(0);
    }
    fn sum(folder: &std::path::Path) -> u64 {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries
            .map(|e| match e.metadata() {
                Ok(m) if m.is_dir() => sum(&e.path()),
                Ok(m) => m.len(),
                Err(_) => 0,
            })
            .sum()
    }
    match crate::file::stub::read(path) {
        Ok(crate::file::stub::FileContent::Stub(stub)) => sum(&path.with_file_name(stub.container)),
        _ => sum(path), // a container opened directly, without a stub
    }
}

pub(crate) unsafe extern "C" fn close(at: Void, _dxpl: Hid, _req: Req) -> Herr {
    done(at, |h| {
        let flushed = h.context.opening.flush().and_then(|()| match Arc::strong_count(&h.context) {
            1 => h.context.publish(),
            _ => Ok(()),
        });
        // The library keeps a file that could not be closed: the program can free space and try again, or end.
        if flushed.is_err() && !h.told.replace(true) {
            return flushed;
        }
        Handle::close(at)
    })
}
