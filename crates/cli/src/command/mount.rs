//! `drystone mount`: shows a container as files until it is unmounted or interrupted; `drystone umount` unmounts it.

use super::{open_as, warn};
use crate::args::{Mount, Umount};
use crate::failure::{Failure, Result};
use crate::output::Output;

#[cfg(feature = "mount")]
pub(super) fn run(asked: &Mount, output: &mut Output) -> Result<i32> {
    use drystone_mount::Access;

    use crate::failure::{IO, NOT_FOUND, OK};

    let access = match (asked.write, asked.writeback) {
        (_, true) => Access::WriteBack,
        (true, _) => Access::Write,
        _ => Access::Read,
    };
    let mode = if access == Access::Read { drystone::Mode::Read } else { drystone::Mode::ReadWrite };
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
    // An absolute path stays valid if the working directory changes. URLs are left as they are.
    let folder = asked.path.canonicalize().ok().filter(|path| path.is_dir());
    let served = drystone_mount::serve(container, folder, &asked.at, access, ready);
    served.map_err(|error| Failure::new(IO, format!("mounting {run} at {at}: {error}{}", advice(&error))))?;
    Ok(OK)
}

/// A remedy for an error of mounting.
#[cfg(feature = "mount")]
fn advice(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::NotFound => {
            " (FUSE is needed: /dev/fuse, and for ordinary users fusermount3 of the package fuse3)"
        }
        std::io::ErrorKind::PermissionDenied => {
            " (may this user open /dev/fuse? Ordinary users also need fusermount3 of the package fuse3)"
        }
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
