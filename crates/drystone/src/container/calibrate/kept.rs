//! Stored profiles: `devices/HASH.json` in the user's cache folder, one per device (docs/guide/calibration.md).
//!
//! The folder is `DRYSTONE_CACHE`, else `drystone` in `XDG_CACHE_HOME`, else in `~/.cache`.

use std::path::{Path, PathBuf};

use drystone_plan::layout::{AtDepth, Doubt, Profile};
use serde_json::{Value, json};

use crate::base::checksum::crc32;

/// Nanoseconds after which a measured profile is ignored.
const EXPIRES: u64 = 30 * 24 * 3600 * 1_000_000_000;
/// The same limit for a profile that was measured while other programs used the machine.
const NOISY_EXPIRES: u64 = 24 * 3600 * 1_000_000_000;
/// The greatest length of a profile's file, in bytes.
const MAX_LEN: u64 = 64 << 10;
/// The most depths in a profile.
const MAX_DEPTHS: usize = 64;

/// The folder for files that can be recreated. `None` if the environment names none.
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

/// Stores a profile. Returns its file, or the reason why it could not be stored.
pub(super) fn keep(device: &str, profile: &Profile) -> Result<PathBuf, String> {
    let folder =
        cache_folder().ok_or("no cache folder: neither DRYSTONE_CACHE, XDG_CACHE_HOME nor HOME is set")?;
    keep_in(&folder, device, profile)
}

fn keep_in(folder: &Path, device: &str, profile: &Profile) -> Result<PathBuf, String> {
    let path = file(folder, device);
    if profile.doubt.is_noisy()
        && let Some(better) = find_in(folder, device, profile.time).filter(|kept| !kept.doubt.is_noisy())
    {
        let days = profile.time.saturating_sub(better.time) / (24 * 3600 * 1_000_000_000);
        return Err(format!("it is noisy, and a quiet one of {days} days ago stays in {}", path.display()));
    }
    let written = std::fs::create_dir_all(folder.join("devices")).and_then(|()| {
        let beside = path.with_extension(format!("{:x}.tmp", crate::base::random::id64()));
        std::fs::write(&beside, encode(device, profile))
            .and_then(|()| std::fs::rename(&beside, &path))
            .inspect_err(|_| {
                // If removing fails, an incomplete file remains under a name that is never looked up.
                let _ = std::fs::remove_file(&beside);
            })
    });
    written.map(|()| path.clone()).map_err(|e| format!("{} cannot be written: {e}", path.display()))
}

/// The stored profile of a device. `None` if it is too old at `now`, invalid, or implausible: the device then counts
/// as unmeasured.
pub(super) fn find(device: &str, now: u64) -> Option<Profile> {
    find_in(&cache_folder()?, device, now)
}

fn find_in(folder: &Path, device: &str, now: u64) -> Option<Profile> {
    let path = file(folder, device);
    let fits = std::fs::metadata(&path).ok().is_some_and(|m| m.is_file() && m.len() <= MAX_LEN);
    let profile = decode(device, &std::fs::read(&path).ok().filter(|_| fits)?)?;
    let expires = if profile.doubt.is_noisy() { NOISY_EXPIRES } else { EXPIRES };
    let holds = profile.is_sound() && profile.is_plausible();
    (holds && now.saturating_sub(profile.time) < expires).then_some(profile)
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
        "spread": profile.doubt.spread,
        "moved": profile.doubt.moved,
        "load": profile.doubt.load,
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
        // A profile of an older version has none of these fields.
        doubt: Doubt {
            spread: number(&document, "spread").unwrap_or(Doubt::NONE.spread),
            moved: number(&document, "moved").unwrap_or(Doubt::NONE.moved),
            load: number(&document, "load"),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile() -> Profile {
        let reads = vec![
            AtDepth { depth: 1, bandwidth: 1.5e9, request: 2.5e-4 },
            AtDepth { depth: 2, bandwidth: 2e9, request: 1.5e-4 },
        ];
        Profile {
            reads,
            write: 9e8,
            sync: 1e-3,
            cold: None,
            probed: 1 << 20,
            time: 1_000,
            doubt: Doubt::NONE,
        }
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

    /// Symptom: a profile that was measured while tests ran determined the layout of blocks for a month. Such a
    /// profile now expires after a day, and it never replaces a better one.
    #[test]
    fn a_noisy_profile_expires_soon_and_replaces_no_quiet_one() {
        let folder = tempfile::tempdir().unwrap();
        let doubt = Doubt { spread: 4.0, moved: 1.6, load: Some(3.0) };
        let noisy = Profile { doubt, write: 1e8, ..profile() };
        let found = |now| find_in(folder.path(), "d", now);
        keep_in(folder.path(), "d", &noisy).unwrap();
        assert_eq!(found(2_000), Some(noisy.clone()));
        assert_eq!(found(1_000 + NOISY_EXPIRES), None);
        keep_in(folder.path(), "d", &profile()).unwrap();
        let again = Profile { time: 5_000, ..noisy.clone() };
        assert!(keep_in(folder.path(), "d", &again).unwrap_err().contains("is noisy"));
        assert_eq!(found(6_000), Some(profile()));
        let late = Profile { time: 1_000 + EXPIRES, ..noisy };
        keep_in(folder.path(), "d", &late).unwrap();
        assert_eq!(found(late.time + 1), Some(late));
    }

    #[test]
    fn an_old_profile_that_contradicts_itself_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let old = |last: f64| {
            let line = |depth: u32, bandwidth: f64| {
                format!(r#"{{"depth":{depth},"bandwidth":{bandwidth},"request":1.6e-5}}"#)
            };
            let lines = [line(1, 9e8), line(4, 1e9), line(8, 1e9), line(16, last)].join(",");
            let rest = r#""time":1000,"probed":1,"cold":true,"write":1e9,"sync":1e-4"#;
            std::fs::write(file(folder.path(), "d"), format!(r#"{{"device":"d","reads":[{lines}],{rest}}}"#))
                .unwrap();
            find_in(folder.path(), "d", 2_000)
        };
        std::fs::create_dir(folder.path().join("devices")).unwrap();
        assert_eq!(old(1.1e9).unwrap().doubt, Doubt::NONE);
        assert_eq!(old(2.5e9), None);
    }

    #[test]
    fn a_damaged_profile_counts_as_unmeasured() {
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
