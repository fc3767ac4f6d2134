//! A server in this process, with a root `scratch`.
#![allow(dead_code, unreachable_pub, reason = "each test program uses a part of it")]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use drystone_client::{Options, ServerStore};
use drystone_server::{Config, Scope, Server, issue};

pub struct Rig {
    pub dir: tempfile::TempDir,
    server: Server,
    count: AtomicU64,
}

impl Rig {
    /// Starts it with further lines of configuration.
    pub fn start(more: &str) -> Rig {
        Self::start_in(tempfile::tempdir().unwrap(), more)
    }

    pub fn start_in(dir: tempfile::TempDir, more: &str) -> Rig {
        std::fs::create_dir_all(dir.path().join("scratch")).unwrap();
        let tokens = dir.path().join("tokens.toml");
        if !tokens.exists() {
            std::fs::write(&tokens, "").unwrap();
        }
        let text = format!(
            "listen = [\"127.0.0.1:0\", \"unix:server.sock\"]\ntokens = \"tokens.toml\"\nlog = \"failures\"\n{more}\n\
             [roots]\nscratch = \"scratch\"\n"
        );
        let server = Server::start(Config::parse(&text, dir.path()).unwrap()).unwrap();
        Rig { dir, server, count: AtomicU64::new(0) }
    }

    pub fn start_encrypted() -> Rig {
        let dir = tempfile::tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(vec!["localhost".into(), "127.0.0.1".into()]).unwrap();
        std::fs::write(dir.path().join("server.pem"), made.cert.pem()).unwrap();
        std::fs::write(dir.path().join("server.key"), made.signing_key.serialize_pem()).unwrap();
        Self::start_in(dir, "[tls]\ncertificate = \"server.pem\"\nkey = \"server.key\"")
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn certificate(&self) -> String {
        self.path().join("server.pem").to_str().unwrap().to_owned()
    }

    pub fn authority(&self) -> PathBuf {
        self.path().join("server.pem")
    }

    pub fn unix(&self) -> String {
        format!("drys+unix://{}:", self.path().join("server.sock").display())
    }

    pub fn port(&self) -> u16 {
        self.server.addresses()[0].rsplit_once(':').unwrap().1.parse().unwrap()
    }

    pub fn tcp(&self) -> String {
        format!("dry://127.0.0.1:{}", self.port())
    }

    pub fn tls(&self) -> String {
        format!("drys://localhost:{}", self.port())
    }

    pub fn token(&self, scopes: &[&str]) -> String {
        let scopes: Vec<Scope> = scopes.iter().map(|text| Scope::parse(text).unwrap()).collect();
        issue(&self.path().join("tokens.toml"), &scopes, None).unwrap().word
    }

    pub fn store(&self, url: &str, options: &[(&str, &str)]) -> ServerStore {
        ServerStore::open(url, &Options::new(options.iter().map(|(k, v)| (*k, *v)))).unwrap()
    }

    /// A separate store below the root.
    pub fn fresh(&self, server: &str, options: &[(&str, &str)]) -> ServerStore {
        let n = self.count.fetch_add(1, Ordering::Relaxed);
        self.store(&format!("{server}/scratch/deep/{n}.dry"), options)
    }

    pub fn stop(self) -> tempfile::TempDir {
        assert!(self.server.stop(std::time::Duration::from_secs(5)), "all requests were answered");
        self.dir
    }
}
