//! Whether a tier is used: [`Health`] of `drystone-store`.

pub(crate) use drystone_store::Health;
