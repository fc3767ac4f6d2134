//! Whether a tier is in use, as [`Health`] of `drystone-store` decides.

pub(crate) use drystone_store::Health;
