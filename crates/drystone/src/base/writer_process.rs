//! Identifies the process that writes or publishes, so that another process on the same machine can find out whether
//! it is alive.

use std::sync::{Mutex, OnceLock};

use drystone_format::manifest::MAX_BOOT;
use serde_json::{Value as Json, json};

use super::sync::lock;

/// A process, described so that another process on the same machine can find out whether it is alive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) host: String,
    /// The boot of the machine: it changes at each start.
    boot: String,
    /// Process numbers are unique only within one namespace.
    namespace: String,
    pub(crate) pid: u32,
    /// Start time of the process, since process numbers are reused.
    start: String,
}

/// The init process always exists. If it is not visible from this process, others are not either.
const FIRST: u32 = 1;

impl Process {
    /// This process. Determined once, and again after a fork.
    pub(crate) fn current() -> Self {
        static KNOWN: Mutex<Option<Process>> = Mutex::new(None);
        let mut known = lock(&KNOWN);
        match &*known {
            Some(me) if me.pid == std::process::id() => me.clone(),
            _ => known.insert(Process::look()).clone(),
        }
    }

    fn look() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let pid = std::process::id();
        let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        Process {
            host: read("/proc/sys/kernel/hostname"),
            boot: read("/proc/sys/kernel/random/boot_id"),
            namespace: namespace.to_string_lossy().into_owned(),
            pid,
            start: started(pid).unwrap_or_default(),
        }
    }

    /// The stored form: JSON.
    pub(crate) fn text(&self) -> String {
        self.json().to_string()
    }

    fn json(&self) -> Json {
        json!({"host": self.host, "boot": self.boot, "namespace": self.namespace, "pid": self.pid, "start": self.start})
    }

    /// The stored form, with a number under a further key if there is one.
    pub(crate) fn text_with(&self, key: &str, number: Option<u64>) -> String {
        let mut json = self.json();
        if let Some(number) = number {
            json[key] = number.into();
        }
        json.to_string()
    }

    /// The number under a further key of a stored form.
    pub(crate) fn number_of(text: &str, key: &str) -> Option<u64> {
        serde_json::from_str::<Json>(text).ok()?[key].as_u64()
    }

    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let json: Json = serde_json::from_slice(bytes).ok()?;
        let text = |name: &str| json[name].as_str().map(str::to_owned);
        Some(Process {
            host: text("host")?,
            boot: text("boot")?,
            namespace: text("namespace")?,
            pid: u32::try_from(json["pid"].as_u64()?).ok()?,
            start: text("start")?,
        })
    }

    /// Whether the process is certainly dead: the machine was restarted since, or no process of this machine has
    /// these numbers.
    pub(crate) fn is_dead(&self, me: &Process) -> bool {
        let here = !self.boot.is_empty() && self.boot == me.boot;
        if here { self.has_ended(me) } else { !self.host.is_empty() && self.host == me.host }
    }

    /// Whether the process certainly lives: this process sees it.
    pub(crate) fn lives(&self, me: &Process) -> bool {
        let here = !self.boot.is_empty() && self.boot == me.boot;
        here && !self.namespace.is_empty()
            && self.namespace == me.namespace
            && started(self.pid).is_some_and(|start| start == self.start)
    }

    /// Whether the process ran on this machine since its last start, and no longer exists. `false` for a process of
    /// an earlier boot, or of another machine with the same name.
    pub(crate) fn has_ended(&self, me: &Process) -> bool {
        let here = !self.boot.is_empty() && self.boot == me.boot;
        here && !self.namespace.is_empty()
            && self.namespace == me.namespace
            && !self.start.is_empty()
            && started(FIRST).is_some()
            && started(self.pid).is_none_or(|start| start != self.start)
    }
}

/// The random name that the kernel gave this boot. `None` if it has none.
pub(crate) fn boot() -> Option<&'static str> {
    static KNOWN: OnceLock<Option<String>> = OnceLock::new();
    let read = || {
        let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let boot = text.trim();
        (boot.len() >= LEAST_BOOT && boot.len() <= MAX_BOOT).then(|| boot.to_owned())
    };
    KNOWN.get_or_init(read).as_deref()
}

/// A shorter name cannot be a random one.
const LEAST_BOOT: usize = 16;

/// Whether the process in this text ran during this boot.
pub(crate) fn is_of_boot(process: &str, boot: &str) -> bool {
    // The text of this process needs no parsing, since names of boots are random.
    process.contains(boot)
}

/// The start time of a process in clock ticks of its machine. `None` if it does not exist or is a zombie.
fn started(pid: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in parentheses and may contain any bytes.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    let state = fields.next()?;
    let start = fields.nth(18)?;
    (!matches!(state, "Z" | "X" | "x")).then(|| start.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_counts_as_dead_only_if_that_is_certain() {
        let me = Process::current();
        assert!(!me.is_dead(&me));
        let other = |change: fn(&mut Process)| {
            let mut process = me.clone();
            change(&mut process);
            assert_eq!(Process::parse(process.text().as_bytes()), Some(process.clone()));
            process.is_dead(&me)
        };
        assert!(other(|p| p.start = "1".into()), "the number is used again");
        assert!(other(|p| p.pid = u32::MAX), "no such process");
        assert!(other(|p| p.boot = "before".into()), "the machine has started since");
        assert!(!Process { boot: "before".into(), ..me.clone() }.has_ended(&me));
        assert!(Process { pid: u32::MAX, ..me.clone() }.has_ended(&me) && !me.has_ended(&me));
        assert!(!other(|p| (p.boot, p.host) = ("x".into(), "elsewhere".into())), "another machine");
        assert!(!other(|p| (p.namespace, p.pid) = ("pid:[1]".into(), u32::MAX)), "another name space");
        assert!(Process::parse(b"{}").is_none() && Process::parse(b"\xff").is_none());
    }
}
