//! A cluster: that of a variable, or one of its own.
#![allow(clippy::unwrap_used, unreachable_pub, reason = "a test ends at the first surprise")]

use std::path::{Path, PathBuf};
use std::process::Command;

use drystone_store_rados::{Options, RadosStore};

/// A cluster for a test.
pub struct Cluster {
    conf: String,
    started: Option<PathBuf>,
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/servers/ceph.py")
}

impl Cluster {
    /// The one whose configuration a variable names, or one that is started with these arguments; `None` where Ceph is
    /// not installed.
    pub fn get(variable: &str, arguments: &[&str]) -> Option<Cluster> {
        if let Ok(conf) = std::env::var(variable) {
            return Some(Cluster { conf, started: None });
        }
        let folder = std::env::temp_dir().join(format!("drystone-ceph-{}", std::process::id()));
        let started =
            Command::new("python3").arg(script()).arg("start").arg(&folder).args(arguments).output().unwrap();
        if !started.status.success() {
            let why = String::from_utf8_lossy(&started.stderr).into_owned();
            assert!(why.contains("not installed"), "{why}");
            println!("skipped: {why}");
            return None;
        }
        let conf = String::from_utf8(started.stdout).unwrap().trim().to_owned();
        Some(Cluster { conf, started: Some(folder) })
    }

    /// A store at a place of the cluster.
    pub fn open(&self, place: &str, more: &[(&str, &str)]) -> RadosStore {
        let options = [&[("conf", self.conf.as_str())], more].concat();
        RadosStore::open(&format!("rados://{place}"), Options::new(options).unwrap()).unwrap()
    }
}

impl Cluster {
    /// Storage daemons that wrote a report of their end.
    #[allow(dead_code, reason = "not every test asks")]
    pub fn deaths(&self) -> usize {
        let reports = Path::new(&self.conf).with_file_name("crash");
        std::fs::read_dir(reports)
            .map_or(0, |found| found.filter(|e| e.as_ref().is_ok_and(|e| e.file_name() != "posted")).count())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Some(folder) = &self.started {
            drop(Command::new("python3").arg(script()).arg("stop").arg(folder).status());
            drop(std::fs::remove_dir_all(folder));
        }
    }
}
