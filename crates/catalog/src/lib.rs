//! Catalogues: which containers have which attributes and ranges of values, without opening the containers.
//!
//! ```text
//! catalog     find, add, check: the store, visible pages, concurrent processes
//! look        a container -> its facts
//! answer      a question, pages -> the containers              pure
//! question    text -> steps over keys                          pure
//! manifest, page, column, identity    bytes <-> values         pure; docs/format/catalog.md
//! facts, value, bits                  what questions can ask for
//! ```
//!
//! A catalogue is derived data: its pages never change, its manifests are put if absent, and it can be rebuilt from the
//! containers at any time. Every answer names its snapshot, and is compared with the container before it is returned.

#![forbid(unsafe_code)]

mod answer;
mod bits;
mod bytes;
mod catalog;
mod column;
mod expand;
mod facts;
#[cfg(feature = "fuzzing")]
mod fuzzing;
mod glance;
mod identity;
mod look;
mod manifest;
mod merge;
mod page;
mod question;
mod value;
mod workers;

pub use catalog::{AddReport, Catalog, CheckReport, FoundContainer, FoundReport};
pub use column::Column;
pub use facts::{Facts, Key, KeyKind};
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub use fuzzing::fuzz;
pub use manifest::{Manifest, PageRef};
pub use page::{Directory, PageBuilder, Section};
pub use question::Question;
pub use value::Value;
