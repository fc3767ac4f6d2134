//! Ranks of a program together: the communicator's table of callbacks, and the container that all have opened.

use std::ffi::{c_char, c_void};
use std::sync::Arc;

use drystone::collective::{Communicator, Team, TeamWriterOptions};
use drystone::{CreateOptions, Error, ErrorKind};

use crate::argument::{Sized32, options, place, text};
use crate::container::{dry_container, dry_create_options};
use crate::failure::{Failure, Result, Status, guard};
use crate::handle::{Handled, get, keep, take};
use crate::log;
use crate::writer::{OpenWriter, dry_writer};

/// The handle of a team.
#[repr(C)]
pub(crate) struct dry_team {
    _private: [u8; 0],
}

impl Handled for Team {
    type Opaque = dry_team;
    const KIND: u64 = 6;
}

/// `dry_all_gather` of the header.
pub(crate) type dry_all_gather =
    Option<unsafe extern "C" fn(*mut c_void, *const c_void, u64, *mut c_void) -> i32>;
/// `dry_exchange` of the header.
pub(crate) type dry_exchange =
    Option<unsafe extern "C" fn(*mut c_void, *const c_void, *const u64, *mut c_void, *const u64) -> i32>;

/// How the ranks of a program reach each other.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct dry_communicator {
    struct_size: u32,
    rank: u32,
    size: u32,
    reserved: u32,
    node: u64,
    context: *mut c_void,
    all_gather: dry_all_gather,
    exchange: dry_exchange,
}

// SAFETY: repr(C), a u32 first, and zeros are a value of each field.
unsafe impl Sized32 for dry_communicator {
    const NAME: &'static str = "dry_communicator";
    const FIRST: usize = 48;
    fn reserved(&self) -> u32 {
        self.reserved
    }
}

/// How to open a writer of a team.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct dry_team_writer_options {
    struct_size: u32,
    writers: u32,
}

// SAFETY: repr(C), a u32 first, and zeros are a value of each field.
unsafe impl Sized32 for dry_team_writer_options {
    const NAME: &'static str = "dry_team_writer_options";
    const FIRST: usize = 8;
}

/// A table of callbacks that has been checked.
struct Callbacks {
    table: dry_communicator,
    all_gather: unsafe extern "C" fn(*mut c_void, *const c_void, u64, *mut c_void) -> i32,
    exchange: unsafe extern "C" fn(*mut c_void, *const c_void, *const u64, *mut c_void, *const u64) -> i32,
}

// SAFETY: the header asks for callbacks and a context that may be used by the thread that makes a collective call, whichever that is.
unsafe impl Send for Callbacks {}
// SAFETY: as above; collective calls of one team are made one after the other.
unsafe impl Sync for Callbacks {}

impl Callbacks {
    fn new(table: dry_communicator) -> Result<Self> {
        let (Some(all_gather), Some(exchange)) = (table.all_gather, table.exchange) else {
            return Err(Failure::invalid("a callback of the communicator is NULL"));
        };
        if table.rank >= table.size || table.size > 1 << 24 {
            return Err(Failure::invalid(format!(
                "rank {} of {}: ranks are 0..size-1",
                table.rank, table.size
            )));
        }
        Ok(Callbacks { table, all_gather, exchange })
    }
}

fn answered(code: i32, what: &str) -> drystone::Result<()> {
    if code == 0 {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Io, format!("the communicator's {what} failed with code {code}")))
}

impl Communicator for Callbacks {
    fn rank(&self) -> u32 {
        self.table.rank
    }
    fn size(&self) -> u32 {
        self.table.size
    }
    fn node(&self) -> u64 {
        self.table.node
    }
    fn all_gather(&self, send: &[u8], receive: &mut [u8]) -> drystone::Result<()> {
        // SAFETY: the header says what the callback does: it reads `send`, and writes as many bytes for every rank.
        let code = unsafe {
            (self.all_gather)(
                self.table.context,
                send.as_ptr().cast(),
                send.len() as u64,
                receive.as_mut_ptr().cast(),
            )
        };
        answered(code, "all_gather")
    }
    fn exchange(
        &self,
        send: &[u8],
        send_sizes: &[u64],
        receive: &mut [u8],
        receive_sizes: &[u64],
    ) -> drystone::Result<()> {
        // SAFETY: the header says what the callback does: it reads and writes as many bytes as the sizes, one per rank, add up to.
        let code = unsafe {
            (self.exchange)(
                self.table.context,
                send.as_ptr().cast(),
                send_sizes.as_ptr(),
                receive.as_mut_ptr().cast(),
                receive_sizes.as_ptr(),
            )
        };
        answered(code, "exchange")
    }
}

unsafe fn communicator(given: *const dry_communicator) -> Result<Arc<dyn Communicator>> {
    if given.is_null() {
        return Err(Failure::invalid("the communicator is NULL"));
    }
    // SAFETY: what the caller of this promises.
    Ok(Arc::new(Callbacks::new(unsafe { options(given)? })?))
}

fn team(handle: *const dry_team) -> Result<Arc<Team>> {
    get(handle)
}

/// Creates a container; all ranks open it.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_team_create(
    path: *const c_char,
    given: *const dry_create_options,
    ranks: *const dry_communicator,
    out: *mut *mut dry_team,
) -> Status {
    guard(|| {
        // SAFETY: pointers as drystone.h says.
        let (path, given, ranks, out) = unsafe {
            (text(path, "the path")?, options(given)?, communicator(ranks)?, place(out, "the handle")?)
        };
        *out = std::ptr::null_mut();
        let created = Team::create_local(path, CreateOptions { durability: given.durability()? }, ranks)?;
        log::tell_warnings(created.container());
        *out = keep(created);
        Ok(())
    })
}

/// Opens a container on all ranks.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_team_open(
    path: *const c_char,
    mode: i32,
    ranks: *const dry_communicator,
    out: *mut *mut dry_team,
) -> Status {
    guard(|| {
        // SAFETY: pointers as drystone.h says.
        let (path, ranks, out) =
            unsafe { (text(path, "the path")?, communicator(ranks)?, place(out, "the handle")?) };
        *out = std::ptr::null_mut();
        let opened = Team::open_local(path, crate::container::mode(mode)?, ranks)?;
        log::tell_warnings(opened.container());
        *out = keep(opened);
        Ok(())
    })
}

/// Closes a team's handle.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn dry_team_close(handle: *mut dry_team) -> Status {
    guard(|| {
        if let Some(team) = take::<Team>(handle)? {
            team.container().close();
        }
        Ok(())
    })
}

/// This rank's handle of the container.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_team_container(
    handle: *const dry_team,
    out: *mut *mut dry_container,
) -> Status {
    guard(|| {
        // SAFETY: pointers as drystone.h says.
        let out = unsafe { place(out, "the handle")? };
        *out = std::ptr::null_mut();
        *out = keep(team(handle)?.container().clone());
        Ok(())
    })
}

/// Tells all ranks how each has fared.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn dry_team_agree(handle: *const dry_team, mine: Status) -> Status {
    guard(|| {
        let team = team(handle)?;
        let local = if mine == 0 { Ok(()) } else { Err(Failure::last(mine)) };
        Ok(team.agree(local)?)
    })
}

/// Opens a writer on all ranks.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_team_writer_open(
    handle: *const dry_team,
    given: *const dry_team_writer_options,
    out: *mut *mut dry_writer,
) -> Status {
    guard(|| {
        // SAFETY: pointers as drystone.h says.
        let (given, out) = unsafe { (options(given)?, place(out, "the handle")?) };
        *out = std::ptr::null_mut();
        let team = team(handle)?;
        let writers = (given.writers > 0).then_some(given.writers);
        let writer = team.writer(TeamWriterOptions { writers })?;
        *out = keep(OpenWriter::together(writer, team.container().clone()));
        Ok(())
    })
}
