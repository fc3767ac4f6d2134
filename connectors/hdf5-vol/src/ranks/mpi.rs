//! The MPI of the program, found at run time: the communicator of a file access list, and the few calls by
//! which ranks meet.
//!
//! Nothing is linked or compiled against MPI. Implementations differ in the kind of a handle (an `int` in the
//! MPICH family, a pointer in Open MPI) and in the handle of a byte. A handle is kept here in a word that was
//! zero before: an `int` is its low half on the little-endian machines for which there are plug-ins, and a
//! function that takes an `int` ignores the rest.
//!
//! MPI is called only in callbacks, thus in the thread that called HDF5, which itself would call MPI there. A
//! rank that waits for the others sleeps: MPI's own waiting keeps a processor busy, which ranks that still
//! write values, and their threads, may need.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::Arc;
use std::time::Duration;

use crate::library::abi::{Hid, P_DEFAULT, Void};
use crate::library::failure::{Failure, Result};
use crate::library::host::{Host, quietly};
use crate::ranks::team::Ranks;

/// Whether a transfer list asks for a collective transfer.
pub fn is_collective(host: &Host, dxpl: Hid) -> bool {
    const COLLECTIVE: i32 = 1; // H5FD_MPIO_COLLECTIVE
    let mut mode = 0;
    let Some(ask) = host.api.H5Pget_dxpl_mpio.filter(|_| dxpl != P_DEFAULT) else { return false };
    // SAFETY: any id may be given; writes one number.
    quietly(host, || unsafe { ask(dxpl, &mut mode) }) >= 0 && mode == COLLECTIVE
}

/// `MPI_BYTE` of the MPICH family (MPICH, Intel MPI, Cray MPICH, MVAPICH), which have one binary interface.
const MPICH_BYTE: usize = 0x4c00_010d;

/// `MPI_Iallgather`: send buffer, receive buffer, the communicator, the request.
type Gather =
    unsafe extern "C" fn(*const c_void, c_int, usize, *mut c_void, c_int, usize, usize, *mut usize) -> c_int;
/// `MPI_Test`: the request, whether it is done, its status.
type Test = unsafe extern "C" fn(*mut usize, *mut c_int, *mut c_int) -> c_int;

/// The longest sleep of a rank between two tests of a request.
const SLEEP: Duration = Duration::from_micros(200);

/// A communicator of the program, a copy that is ours.
struct Mpi {
    communicator: usize,
    rank: u32,
    size: u32,
    byte: usize,
    gather: Gather,
    test: Test,
    finalized: unsafe extern "C" fn(*mut c_int) -> c_int,
    free: unsafe extern "C" fn(*mut usize) -> c_int,
}

/// A function (or variable) of the MPI that the library was linked with, or else of the process.
fn symbol(host: &Host, name: &CStr) -> Option<Void> {
    // SAFETY: a handle of dlopen, or the default, and a name.
    let found = [host.library(), libc::RTLD_DEFAULT].map(|of| unsafe { libc::dlsym(of, name.as_ptr()) });
    found.into_iter().find(|at| !at.is_null())
}

fn missing(what: &str) -> Failure {
    Failure::unsupported(format!("a file of several MPI ranks: {what}"))
}

fn needed(host: &Host, name: &CStr) -> Result<Void> {
    symbol(host, name).ok_or_else(|| missing(&format!("no {} in this process", name.to_string_lossy())))
}

/// The handle of a byte.
fn byte(host: &Host) -> Result<usize> {
    if let Some(at) = symbol(host, c"ompi_mpi_byte") {
        return Ok(at as usize);
    }
    let mut text = [0 as c_char; 8192 + 1]; // MPI_MAX_LIBRARY_VERSION_STRING is 8192 in MPICH, 256 in Open MPI
    let mut length: c_int = 0;
    // SAFETY: the function has this signature, and the buffer the room that the standard asks for.
    let text = unsafe {
        let ask: unsafe extern "C" fn(*mut c_char, *mut c_int) -> c_int =
            std::mem::transmute(needed(host, c"MPI_Get_library_version")?);
        ask(text.as_mut_ptr(), &mut length);
        CStr::from_ptr(text.as_ptr()).to_string_lossy().into_owned()
    };
    match ["MPICH", "Intel(R) MPI", "MVAPICH"].iter().any(|family| text.contains(family)) {
        true => Ok(MPICH_BYTE),
        false => {
            let name = text.lines().next().unwrap_or("unknown");
            Err(missing(&format!("this MPI ({name}) is neither Open MPI nor of the MPICH family")))
        }
    }
}

/// The ranks behind a file access list; `None` if there is only one. All ranks call this together.
pub fn ranks(host: &Host, fapl: Hid) -> Result<Option<Arc<dyn Ranks>>> {
    let Some(ask) = host.api.H5Pget_fapl_mpio else { return Ok(None) };
    let mut communicator = 0usize;
    let at: *mut usize = &mut communicator;
    // SAFETY: writes a handle, which is an int or a pointer and fits; the list's info is not asked for.
    if quietly(host, || unsafe { ask(fapl, at.cast(), std::ptr::null_mut()) }) < 0 {
        return Ok(None);
    }
    // SAFETY: functions of the standard with these signatures; handles are passed as they came.
    unsafe {
        let number = |name| {
            let ask: unsafe extern "C" fn(usize, *mut c_int) -> c_int =
                std::mem::transmute(needed(host, name)?);
            let mut found: c_int = -1;
            match ask(communicator, &mut found) {
                0 => u32::try_from(found).map_err(|_| missing("a communicator without ranks")),
                _ => Err(missing("its communicator cannot be asked")),
            }
        };
        let (rank, size) = (number(c"MPI_Comm_rank")?, number(c"MPI_Comm_size")?);
        let mut mpi = Mpi {
            communicator,
            rank,
            size,
            byte: 0,
            gather: std::mem::transmute::<Void, Gather>(needed(host, c"MPI_Iallgather")?),
            test: std::mem::transmute::<Void, Test>(needed(host, c"MPI_Test")?),
            finalized: std::mem::transmute::<Void, unsafe extern "C" fn(*mut c_int) -> c_int>(needed(
                host,
                c"MPI_Finalized",
            )?),
            free: std::mem::transmute::<Void, unsafe extern "C" fn(*mut usize) -> c_int>(needed(
                host,
                c"MPI_Comm_free",
            )?),
        };
        if size == 1 {
            return Ok(None); // a program of one rank is like any other
        }
        mpi.byte = byte(host)?;
        Ok(Some(Arc::new(mpi)))
    }
}

impl Mpi {
    fn is_over(&self) -> bool {
        let mut over: c_int = 0;
        // SAFETY: writes one int; may be called at any time.
        unsafe { (self.finalized)(&mut over) };
        over != 0
    }
}

impl Ranks for Mpi {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn all_gather(&self, send: &[u8]) -> Result<Vec<u8>> {
        if self.is_over() {
            return Err(Failure::write("MPI was finalized before the file was closed"));
        }
        let count = c_int::try_from(send.len()).map_err(|_| Failure::invalid("too much for one message"))?;
        let failed = |what: &str, rc: c_int| {
            Err(Failure::write(format!("the ranks cannot reach each other: {what} failed with {rc}")))
        };
        let send = send.to_vec();
        let mut out = vec![0u8; send.len() * self.size as usize];
        let mut request = 0;
        // SAFETY: `out` has room for what every rank sends; all send equally many bytes; both buffers stay
        // until the request is done.
        let rc = unsafe {
            (self.gather)(
                send.as_ptr().cast(),
                count,
                self.byte,
                out.as_mut_ptr().cast(),
                count,
                self.byte,
                self.communicator,
                &mut request,
            )
        };
        if rc != 0 {
            return failed("MPI_Iallgather", rc);
        }
        let mut wait = Duration::ZERO;
        loop {
            let (mut done, mut status): (c_int, [c_int; 32]) = (0, [0; 32]); // a status has 20 to 24 bytes
            // SAFETY: the request of above, not yet done; room for a status.
            match unsafe { (self.test)(&mut request, &mut done, status.as_mut_ptr()) } {
                0 if done != 0 => return Ok(out),
                0 => {}
                rc => {
                    std::mem::forget((send, out)); // MPI may still use them
                    return failed("MPI_Test", rc);
                }
            }
            if wait.is_zero() {
                std::thread::yield_now();
            } else {
                std::thread::sleep(wait);
            }
            wait = (wait * 2).clamp(Duration::from_micros(10), SLEEP);
        }
    }

    fn lane(&self) -> u32 {
        0
    }
}

impl Drop for Mpi {
    fn drop(&mut self) {
        if !self.is_over() {
            // SAFETY: the copy that H5Pget_fapl_mpio gave, freed once.
            unsafe { (self.free)(&mut self.communicator) };
        }
    }
}
