//! `drystone mount`: a container as files, until it is told to stop; `drystone umount` tells it.

use super::{open_as, warn};
use crate::args::{Mount, Umount};
use crate::failure::{Failure, Result};
use crate::output::Output;

#[cfg(feature = "mount")]
pub(super) fn run(asked: &Mount, output: &mut Output) -> Result<i32> {
    use crate::failure::{IO, NOT_FOUND, OK};

    let mode = if asked.write { drystone::Mode::ReadWrite } else { drystone::Mode::Read };
    let container = open_as(&asked.path, &asked.far, mode)?;
    warn(&container);
    if !asked
        .at
        .metadata()
        .map_or_else(|error| error.kind() != std::io::ErrorKind::NotFound, |at| at.is_dir())
    {
        return Err(Failure::new(
            NOT_FOUND,
            format!("there is no folder {} to mount at", asked.at.display()),
        ));
    }
    let (run, at) = (asked.path.display(), asked.at.display());
    let ready = || {
        output.text(&format!("mounted {run} at {at}\n"));
        output.hand_on();
    };
    // The folder stays the same whatever a program above it does; a URL is none.
    let folder = asked.path.canonicalize().ok().filter(|path| path.is_dir());
    let served = drystone_mount::serve(container, folder, &asked.at, asked.write, ready);
    served.map_err(|error| Failure::new(IO, format!("mounting {run} at {at}: {error}{}", advice(&error))))?;
    Ok(OK)
}

/// What to do about an error of mounting.
#[cfg(feature = "mount")]
fn advice(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::NotFound => {
            " (FUSE is needed: /dev/fuse, and for ordinary users fusermount3 of the package fuse3)"
        }
        std::io::ErrorKind::PermissionDenied => " (may this user mount? fusermount3 is in the package fuse3)",
        _ => "",
    }
}

#[cfg(feature = "mount")]
pub(super) fn end(asked: &Umount) -> Result<i32> {
    use crate::failure::{IO, OK};

    let at = &asked.at;
    drystone_mount::unmount(at)
        .map_err(|error| Failure::new(IO, format!("unmounting {}: {error}", at.display())))?;
    Ok(OK)
}

#[cfg(not(feature = "mount"))]
pub(super) fn run(_: &Mount, _: &mut Output) -> Result<i32> {
    Err(Failure::usage("this build of drystone cannot mount (feature `mount`)"))
}

#[cfg(not(feature = "mount"))]
pub(super) fn end(_: &Umount) -> Result<i32> {
    Err(Failure::usage("this build of drystone cannot mount (feature `mount`)"))
}
