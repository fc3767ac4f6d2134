//! Identifies the device of a folder by host and source of the file system, so that a measurement in one folder holds
//! for others.
//!
//! Linux names the source in `/proc/self/mountinfo`; elsewhere the device number is used.

use std::path::Path;

/// A text that is the same for all folders of a file system as this host sees it; `None` if the folder cannot be
/// examined.
pub(super) fn identity(root: &Path) -> Option<String> {
    let number = rustix::fs::stat(root).ok()?.st_dev;
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let source =
        source(&mounts, &format!("{major}:{minor}")).unwrap_or_else(|| format!("device {major}:{minor}"));
    Some(format!("{} {source}", host.trim()))
}

/// Type and source of the mount with this device number. If the source names no device or server, the number
/// distinguishes it.
fn source(mounts: &str, number: &str) -> Option<String> {
    mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let (mut kind, found) = (after.split(' '), before.split(' ').nth(2)?);
        let (kind, source) = (kind.next()?, kind.next()?);
        let named = source.starts_with('/') || source.contains(':');
        let source = if named { source.to_owned() } else { format!("{source} {number}") };
        (found == number).then(|| format!("{kind} {source}"))
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_mount_is_named_by_its_source_or_its_number() {
        let mounts = "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw\n\
                      40 1 0:51 / / rw - overlay overlay rw,lowerdir=/a\n41 1 0:60 / /home rw shared:4 - nfs4 srv:/home rw\n";
        let named = |number: &str| super::source(mounts, number);
        assert_eq!(named("98:0").as_deref(), Some("ext3 /dev/root"));
        assert_eq!(named("0:51").as_deref(), Some("overlay overlay 0:51"));
        assert_eq!(named("0:60").as_deref(), Some("nfs4 srv:/home"));
        assert_eq!(named("1:1"), None);
        assert_eq!(super::source("nonsense", "1:1"), None);
    }
}
