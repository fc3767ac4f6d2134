//! Arguments of the container's methods, as the engine takes them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use drystone::{Adopt, Container, Mode, TierFolder};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};

use crate::error::{Failure, Result, invalid};
use crate::key;

pub(super) fn parse_timeout(timeout: Option<f64>) -> Result<Option<Duration>> {
    match timeout {
        None => Ok(None),
        Some(seconds) if seconds >= 0.0 => {
            Ok(Some(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)))
        }
        Some(seconds) => Err(invalid(format!("timeout is a number of seconds from 0 on, not {seconds}"))),
    }
}

pub(super) fn tier_folders(given: Vec<(PathBuf, Option<u64>)>) -> Vec<TierFolder> {
    given.into_iter().map(|(folder, budget)| TierFolder { folder, budget }).collect()
}

pub(super) fn normal(path: &str) -> &str {
    Container::normal_path(path)
}

pub(super) fn parameters(given: &Bound<'_, PyDict>) -> Result<Vec<(String, i64)>> {
    let mut out = Vec::with_capacity(given.len());
    for (name, value) in given {
        let name: String = name.extract()?;
        let number = value.call_method0("__index__").and_then(|index| index.extract::<i64>());
        let number = number.map_err(|_| {
            invalid(format!("the parameter \"{name}\" is an integer of 64 bits, not {value}"))
        })?;
        out.push((name, number));
    }
    Ok(out)
}

/// How a container is opened.
pub(super) fn parse_mode(mode: &str) -> Result<Mode> {
    match mode {
        "r" => Ok(Mode::Read),
        "r+" => Ok(Mode::ReadWrite),
        "a" => Ok(Mode::Append),
        "w" | "w-" | "x" => {
            Err(invalid(format!("mode \"{mode}\" is not for open(); create() makes a new container")))
        }
        _ => Err(invalid(format!("mode is \"r\", \"r+\" or \"a\", not \"{mode}\""))),
    }
}

/// A shape; `None` or `"*"` stands for a growable axis.
pub(super) fn shape(given: &Bound<'_, PyTuple>) -> Result<Vec<Option<u64>>> {
    let mut extents = Vec::new();
    for n in given {
        let grows = n.is_none() || n.cast::<PyString>().is_ok_and(|text| text == "*");
        extents.push(if grows { None } else { Some(key::unsigned(&n, "an extent of the shape")?) });
    }
    Ok(extents)
}

/// Chunk shapes by path of the variable.
pub(super) fn chunks(given: &Bound<'_, PyDict>) -> Result<BTreeMap<String, Vec<u64>>> {
    let mut chunks = BTreeMap::new();
    for (name, extents) in given {
        let name: String = name.extract()?;
        chunks.insert(normal(&name).to_owned(), key::extents(&extents, "chunks")?);
    }
    Ok(chunks)
}

/// Which steps a recovery adopts: true for all, false for none, else the steps to adopt, or (`but`) those not to.
pub(super) fn adopted(which: &Bound<'_, PyAny>, but: bool) -> Result<Adopt> {
    let steps = || Ok::<_, Failure>(key::extents(which, "a step")?.into_iter().collect());
    Ok(match which.extract::<bool>() {
        Ok(true) => Adopt::All,
        Ok(false) => Adopt::None,
        Err(_) if but => Adopt::AllBut(steps()?),
        Err(_) => Adopt::Steps(steps()?),
    })
}

/// Rank and number of ranks of a writer.
pub(super) fn ranks(
    rank: Option<&Bound<'_, PyAny>>,
    nranks: Option<&Bound<'_, PyAny>>,
) -> Result<Option<(u32, u32)>> {
    let small = |given: &Bound<'_, PyAny>, what| -> Result<u32> {
        u32::try_from(key::unsigned(given, what)?).map_err(|_| invalid(format!("{what} is too large")))
    };
    match (rank, nranks) {
        (None, None) => Ok(None),
        (Some(rank), Some(nranks)) => Ok(Some((small(rank, "rank")?, small(nranks, "nranks")?))),
        _ => Err(invalid("rank and nranks are given together, or neither")),
    }
}
