//! How much memory this process may use: that of the machine, or the limit of its control groups, if that is
//! less.
//!
//! A job's share of a node, a container and a systemd unit are control groups. In versions 1 and 2 the limit
//! of a group also holds for the groups in it, so the smallest on the path to the root counts. An unreadable
//! limit is no limit.

use std::path::{Path, PathBuf};

/// Bytes that this process may have.
pub fn available() -> u64 {
    // SAFETY: it takes a number and returns one, -1 if it does not know.
    let (pages, size) = unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    let machine = u64::try_from(pages).unwrap_or(0).saturating_mul(u64::try_from(size).unwrap_or(0));
    let text = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    match allowed(&text("/proc/self/cgroup"), &text("/proc/self/mountinfo"), Path::new("/")) {
        Some(limit) => machine.min(limit),
        None => machine,
    }
}

/// The smallest limit of the groups that a process is in, by its `/proc/self/cgroup` and
/// `/proc/self/mountinfo`; files are looked for under `root`.
fn allowed(groups: &str, mounts: &str, root: &Path) -> Option<u64> {
    let of_group = |line: &str| {
        let mut words = line.splitn(3, ':');
        let (number, controllers, group) = (words.next()?, words.next()?, words.next()?);
        let (kind, file) = match controllers {
            "" if number == "0" => ("cgroup2", "memory.max"),
            some if some.split(',').any(|c| c == "memory") => ("cgroup", "memory.limit_in_bytes"),
            _ => return None,
        };
        let (top, group_at) = mounts.lines().find_map(|mount| place(mount, kind, group))?;
        let under = |path: &Path| root.join(path.strip_prefix("/").unwrap_or(path));
        let folders = group_at.ancestors().take_while(|folder| folder.starts_with(&top));
        folders.filter_map(|folder| limit(&under(&folder.join(file)))).min()
    };
    groups.lines().filter_map(of_group).min()
}

/// Where a hierarchy is mounted and a group lies in it; `None` if the line of `mountinfo` describes something
/// else.
fn place(mount: &str, kind: &str, group: &str) -> Option<(PathBuf, PathBuf)> {
    let (left, right) = mount.split_once(" - ")?;
    let mut left = left.split(' ').skip(3);
    let (root, top) = (left.next()?, PathBuf::from(left.next()?));
    let mut right = right.split(' ');
    let (found, options) = (right.next()?, right.nth(1)?);
    let ours = found == kind && (kind == "cgroup2" || options.split(',').any(|o| o == "memory"));
    // If a container sees only a part of the hierarchy, that part is mounted: then the group is the mount
    // itself, or in it.
    let inside = Path::new(group).strip_prefix(root).unwrap_or(Path::new(""));
    ours.then(|| (top.clone(), top.join(inside)))
}

fn limit(file: &Path) -> Option<u64> {
    std::fs::read_to_string(file).ok()?.trim().parse().ok() // "max" is no limit
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]
    use super::*;

    const V1: &str = "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                      33 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n";
    const V2: &str = "24 1 8:1 / / rw - ext4 /dev/sda rw\n\
                      30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

    fn with(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn of_version_2_the_smallest_limit_on_the_way_up_counts() {
        let root = with(&[
            ("sys/fs/cgroup/job/memory.max", "1073741824\n"),
            ("sys/fs/cgroup/job/task/memory.max", "max\n"),
            ("sys/fs/cgroup/other/memory.max", "4096\n"),
        ]);
        assert_eq!(allowed("0::/job/task\n", V2, root.path()), Some(1 << 30));
        assert_eq!(allowed("0::/\n", V2, root.path()), None);
        assert_eq!(allowed("0::/job/task\n", "", root.path()), None);
    }

    #[test]
    fn of_version_1_the_controller_of_memory_is_asked() {
        let root = with(&[
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/memory/slurm/job_7/memory.limit_in_bytes", "2147483648\n"),
            ("sys/fs/cgroup/cpu/other/memory.limit_in_bytes", "4096\n"),
        ]);
        let groups = "5:cpu,cpuacct:/other\n4:memory:/slurm/job_7/step\n0::/\n";
        assert_eq!(allowed(groups, V1, root.path()), Some(2 << 30));
    }

    #[test]
    fn a_container_that_sees_a_part_of_the_hierarchy_finds_its_limit_there() {
        let mounts =
            "30 23 0:26 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n99 no mount\n";
        let root = with(&[("sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912")]);
        assert_eq!(allowed("4:memory:/docker/abc\n", mounts, root.path()), Some(512 << 20));
        assert_eq!(allowed("4:memory:/elsewhere\nnonsense\n4:\n", mounts, root.path()), Some(512 << 20));
    }

    #[test]
    fn this_process_may_have_some_memory() {
        assert!(available() > 1 << 20);
    }
}
