//! Objects that the newest snapshot names and the store lacks. Reads no payload.

use std::collections::BTreeSet;

use super::verify::{Damage, check_logs};
use crate::base::sync::lock;
use crate::container::Container;
use crate::history::loss::Loss;
use crate::{ErrorKind, Result};

impl Container {
    /// The lost objects of the newest snapshot: manifests, and files of the log that are missing or too short. Checks
    /// only names and lengths; [`Container::verify`] reads everything.
    pub fn lost(&self) -> Result<Vec<Damage>> {
        self.inner.require_open()?;
        let mut out: Vec<Damage> = Vec::new();
        for Loss { key, message, .. } in lock(&self.inner.losses).clone().found {
            out.push(Damage { key, variable: None, step: None, message });
        }
        let known: BTreeSet<String> = out.iter().map(|damage| damage.key.clone()).collect();
        match check_logs(&self.inner, &self.snapshot()) {
            Ok(short) => out.extend(short.into_iter().filter(|d| !known.contains(&d.key))),
            Err(e) if e.kind() == ErrorKind::Corrupt => {
                out.push(Damage { key: "index".into(), variable: None, step: None, message: e.to_string() });
            }
            Err(e) => return Err(e),
        }
        Ok(out)
    }
}
