//! The library's side: its structs and functions, its errors, and its ids of types, selections, property
//! lists and drivers as values of this connector.

pub mod abi;
pub mod driver;
pub mod failure;
pub mod host;
pub mod nulls;
pub mod props;
pub mod space;
pub mod types;
