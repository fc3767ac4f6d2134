//! Teams: the communicator's table of callbacks, and the container that all ranks of a program have opened.

use std::ffi::{c_char, c_void};
use std::sync::Arc;

use drystone::collective::{Call, Communicator, Readers, Team, TeamWriterOptions};
use drystone::{Error, ErrorKind};

use crate::argument::{handle_place, options, text, versioned};
use crate::container::{dry_container, dry_create_options};
use crate::dtype::Type;
use crate::failure::{Failure, Result, Status, guard};
use crate::handle::{Handled, get, keep, take};
use crate::log;
use crate::reading::{CheckedRead, dry_axis, dry_read_options, dry_variable, give_report};
use crate::writer::{OpenWriter, dry_writer};

/// `DRY_ALONE` of the header: each rank reads for itself.
const ALONE: u32 = u32::MAX;

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

/// The communicator of the ranks of a program.
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

versioned!(dry_communicator, 48, reserved);

/// How to open a writer of a team.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct dry_team_writer_options {
    struct_size: u32,
    writers: u32,
}

versioned!(dry_team_writer_options, 8);

/// A table of callbacks that has been checked.
struct Callbacks {
    table: dry_communicator,
    all_gather: unsafe extern "C" fn(*mut c_void, *const c_void, u64, *mut c_void) -> i32,
    exchange: unsafe extern "C" fn(*mut c_void, *const c_void, *const u64, *mut c_void, *const u64) -> i32,
}

// SAFETY: the header requires that the callbacks and the context may be used by any thread that makes a
// collective call.
unsafe impl Send for Callbacks {}
// SAFETY: as above; collective calls of one team do not overlap.
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
        // SAFETY: the header specifies the callback: it reads `send`, and writes that many bytes for every rank.
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
        // SAFETY: the header specifies the callback: it reads and writes as many bytes as the sizes, one per
        // rank, add up to.
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
    // SAFETY: guaranteed by the caller.
    Ok(Arc::new(Callbacks::new(unsafe { options(given)? })?))
}

fn team(handle: *const dry_team) -> Result<Arc<Team>> {
    get(handle)
}

/// The arguments of a collective call on this rank. If one is missing, the rank declines: then all ranks fail,
/// and none waits.
fn ready<T>(found: Result<T>, decline: impl FnOnce(Error) -> Error) -> Result<T> {
    found.map_err(|failure| decline(failure.error()).into())
}

/// Makes a team from a rank's arguments; if they are wrong, the rank declines.
///
/// # Safety
/// Pointers are as drystone.h specifies.
unsafe fn begin<T>(
    out: *mut *mut dry_team,
    ranks: *const dry_communicator,
    given: impl FnOnce() -> Result<T>,
    make: impl FnOnce(T, Arc<dyn Communicator>) -> drystone::Result<Team>,
) -> Result<()> {
    // SAFETY: guaranteed by the caller.
    let (out, ranks) = unsafe { (handle_place(out), communicator(ranks)?) };
    let mine = out.and_then(|out| Ok((given()?, out)));
    let (given, out) = ready(mine, |e| Team::decline(ranks.clone(), Call::Open, e))?;
    let team = make(given, ranks)?;
    log::tell_warnings(team.container());
    *out = keep(team);
    Ok(())
}

/// Creates a container in a folder, or at a URL with options from the environment; all ranks open it.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_team_create(
    path: *const c_char,
    given: *const dry_create_options,
    ranks: *const dry_communicator,
    out: *mut *mut dry_team,
) -> Status {
    // SAFETY: pointers are as drystone.h specifies.
    guard(|| unsafe {
        let mine = || Ok((text(path, "the path")?, options(given)?.create()?));
        begin(out, ranks, mine, |(path, options), ranks| Team::create(path, options, ranks))
    })
}

/// Opens a container in a folder, or at a URL with options from the environment, on all ranks.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_team_open(
    path: *const c_char,
    mode: i32,
    ranks: *const dry_communicator,
    out: *mut *mut dry_team,
) -> Status {
    // SAFETY: pointers are as drystone.h specifies.
    guard(|| unsafe {
        let mine = || Ok((text(path, "the path")?, crate::container::mode(mode)?));
        begin(out, ranks, mine, |(path, mode), ranks| Team::open(path, mode, ranks))
    })
}

/// Closes a team's handle.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn dry_team_close(handle: *mut dry_team) -> Status {
    guard(|| {
        if let Some(team) = take::<Team>(handle)? {
            let drained = team.container().drain_remaining();
            team.container().close();
            drained?;
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
        // SAFETY: pointers are as drystone.h specifies.
        let out = unsafe { handle_place(out)? };
        *out = keep(team(handle)?.container().clone());
        Ok(())
    })
}

/// Exchanges the status of all ranks.
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
        let team = team(handle)?;
        // SAFETY: pointers are as drystone.h specifies.
        let mine = unsafe { options(given).and_then(|given| Ok((given, handle_place(out)?))) };
        let (given, out) = ready(mine, |e| team.declined(Call::OpenWriter, e))?;
        let writers = (given.writers > 0).then_some(given.writers);
        let writer = team.writer(TeamWriterOptions { writers })?;
        *out = keep(OpenWriter::together(writer, team.container().clone()));
        Ok(())
    })
}

/// Reads a selection of one variable on all ranks, each its own.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_team_read(
    handle: *const dry_team,
    of: *const dry_variable,
    type_: Type,
    out: *mut u8,
    size: u64,
    naxes: u32,
    axes: *const dry_axis,
    given: *const dry_read_options,
) -> Status {
    guard(|| {
        let team = team(handle)?;
        // SAFETY: pointers are as drystone.h specifies; the caller does not use the memory until this returns.
        let mine = unsafe { CheckedRead::selected(of, type_, out, size, naxes, axes, given) };
        read(&team, mine)
    })
}

/// Reads a box at a step on all ranks, for each its own.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_team_read_box(
    handle: *const dry_team,
    of: *const dry_variable,
    step: i64,
    type_: Type,
    out: *mut u8,
    size: u64,
    ndim: u32,
    offset: *const u64,
    count: *const u64,
    given: *const dry_read_options,
) -> Status {
    guard(|| {
        let team = team(handle)?;
        // SAFETY: pointers are as drystone.h specifies; the caller does not use the memory until this returns.
        let mine = unsafe { CheckedRead::boxed(of, step, type_, out, size, ndim, offset, count, given) };
        read(&team, mine)
    })
}

fn read(team: &Team, mine: Result<CheckedRead<'_>>) -> Result<()> {
    let asked = ready(mine, |e| team.declined(Call::Read, e))?;
    let readers = match asked.readers {
        0 => Readers::Cheapest,
        ALONE => Readers::Alone,
        some => Readers::Count(some),
    };
    let done = team.read(&asked.reading, &asked.selection, &asked.target, readers)?;
    // SAFETY: the pointer is as drystone.h specifies.
    unsafe { give_report(asked.report, &done.read, done.readers as u32) }
}
