//! Where profiles are kept: `devices/HASH.json` in the user's cache folder, one per device (docs/calibration.md).
//!
//! The folder is `DRYSTONE_CACHE`, else `drystone` in `XDG_CACHE_HOME`, else in `~/.cache`.

use std::path::{Path, PathBuf};

use drystone_plan::layout::{AtDepth, Profile};
use serde_json::{Value, json};

use crate::segment::crc32;

/// After so long a device is as if it had never been measured.
const EXPIRES: u64 = 30 * 24 * 3600 * 1_000_000_000;
/// A profile's file is not longer than this.
const MAX_LEN: u64 = 64 << 10;
/// Profiles hold no more depths.
const MAX_DEPTHS: usize = 64;

/// The folder for what can be found again; `None` where the environment names none.
pub(crate) fn cache_folder() -> Option<PathBuf> {
    let given = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let xdg = || given("XDG_CACHE_HOME").filter(|path| path.is_absolute()).map(|path| path.join("drystone"));
    let home = || given("HOME").map(|path| path.join(".cache/drystone"));
    given("DRYSTONE_CACHE").or_else(xdg).or_else(home)
}

fn file(folder: &Path, device: &str) -> PathBuf {
    let reversed: Vec<u8> = device.bytes().rev().collect();
    folder.join("devices").join(format!("{:08x}{:08x}.json", crc32(device.as_bytes()), crc32(&reversed)))
}

/// Keeps a profile; the file, or why not.
pub(super) fn keep(device: &str, profile: &Profile) -> Result<PathBuf, String> {
    let folder =
        cache_folder().ok_or("no cache folder: neither DRYSTONE_CACHE, XDG_CACHE_HOME nor HOME is set")?;
    keep_in(&folder, device, profile)
}

fn keep_in(folder: &Path, device: &str, profile: &Profile) -> Result<PathBuf, String> {
    let path = file(folder, device);
    let written = std::fs::create_dir_all(folder.join("devices")).and_then(|()| {
        let beside = path.with_extension(format!("{:x}.tmp", crate::random::id64()));
        std::fs::write(&beside, encode(device, profile))
            .and_then(|()| std::fs::rename(&beside, &path))
            .inspect_err(|_| {
                // Half a file under a name that nobody looks for.
                let _ = std::fs::remove_file(&beside);
            })
    });
    written.map(|()| path.clone()).map_err(|e| format!("{} cannot be written: {e}", path.display()))
}

/// The profile that is kept for a device, unless it is too old at `now` or not sound.
pub(super) fn find(device: &str, now: u64) -> Option<Profile> {
    find_in(&cache_folder()?, device, now)
}

fn find_in(folder: &Path, device: &str, now: u64) -> Option<Profile> {
    let path = file(folder, device);
    let fits = std::fs::metadata(&path).ok().is_some_and(|m| m.is_file() && m.len() <= MAX_LEN);
    let profile = decode(device, &std::fs::read(&path).ok().filter(|_| fits)?)?;
    (profile.is_sound() && now.saturating_sub(profile.time) < EXPIRES).then_some(profile)
}

fn encode(device: &str, profile: &Profile) -> Vec<u8> {
    let reads: Vec<Value> = profile
        .reads
        .iter()
        .map(|r| json!({"depth": r.depth, "bandwidth": r.bandwidth, "request": r.request}))
        .collect();
    let document = json!({
        "device": device,
        "time": profile.time,
        "probed": profile.probed,
        "cold": profile.cold,
        "reads": reads,
        "write": profile.write,
        "sync": profile.sync,
    });
    let mut text = format!("{document:#}").into_bytes();
    text.push(b'\n');
    text
}

fn decode(device: &str, bytes: &[u8]) -> Option<Profile> {
    let document: Value = serde_json::from_slice(bytes).ok()?;
    let number = |value: &Value, name: &str| value.get(name)?.as_f64();
    let read = |value: &Value| {
        let depth = u32::try_from(value.get("depth")?.as_u64()?).ok()?;
        Some(AtDepth { depth, bandwidth: number(value, "bandwidth")?, request: number(value, "request")? })
    };
    let reads = document.get("reads")?.as_array().filter(|reads| reads.len() <= MAX_DEPTHS)?;
    (document.get("device")?.as_str()? == device).then_some(())?;
    Some(Profile {
        reads: reads.iter().map(read).collect::<Option<_>>()?,
        write: number(&document, "write")?,
        sync: number(&document, "sync")?,
        cold: document.get("cold")?.as_bool(),
        probed: document.get("probed")?.as_u64()?,
        time: document.get("time")?.as_u64()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile() -> Profile {
        let reads = vec![
            AtDepth { depth: 1, bandwidth: 1.5e9, request: 2.5e-4 },
            AtDepth { depth: 8, bandwidth: 3e9, request: 4e-5 },
        ];
        Profile { reads, write: 9e8, sync: 1e-3, cold: None, probed: 1 << 20, time: 1_000 }
    }

    #[test]
    fn a_profile_is_found_for_its_device_until_it_expires() {
        let folder = tempfile::tempdir().unwrap();
        let path = keep_in(folder.path(), "host ext4 /dev/a", &profile()).unwrap();
        assert!(path.starts_with(folder.path().join("devices")));
        assert_eq!(find_in(folder.path(), "host ext4 /dev/a", 2_000), Some(profile()));
        assert_eq!(find_in(folder.path(), "host ext4 /dev/b", 2_000), None);
        assert_eq!(find_in(folder.path(), "host ext4 /dev/a", 1_000 + EXPIRES), None);
        assert_eq!(std::fs::read_dir(folder.path().join("devices")).unwrap().count(), 1);
    }

    #[test]
    fn a_damaged_profile_is_as_if_nobody_had_measured() {
        let folder = tempfile::tempdir().unwrap();
        let path = keep_in(folder.path(), "d", &profile()).unwrap();
        let good = std::fs::read(&path).unwrap();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            if let Some(found) = decode("d", &bad) {
                assert!(!found.reads.is_empty() || !found.is_sound());
            }
            assert!(at + 1 == good.len() || decode("d", &good[..at]).is_none());
        }
        for text in ["", "[]", "{\"device\": \"d\"}", "nonsense"] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(find_in(folder.path(), "d", 2_000), None, "{text}");
        }
        let no_folder = folder.path().join("devices/x/y");
        std::fs::write(folder.path().join("devices/x"), "a file").unwrap();
        assert!(keep_in(&no_folder, "d", &profile()).unwrap_err().contains("cannot be written"));
    }
}
