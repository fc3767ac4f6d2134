//! Containers in Ceph: the objects of a RADOS pool behind the [`Store`](drystone_store::Store) trait.
//!
//! librados is loaded when the first container is opened, so that a program with this crate in it runs where there is
//! no Ceph; the message then says what to install. Requests are asynchronous operations of librados, whose completions
//! complete them.
//!
//! Invariants
//! - what is acknowledged is durable: RADOS answers when all replicas have it;
//! - creation is one operation on one object, so exactly one of several creators wins;
//! - an append is written under the version at which the object had its length: a second writer's is refused;
//! - a child of a fork uses a connection of its own.

mod address;
mod completion;
mod connection;
mod library;
mod options;
mod order;
mod store;

pub use address::{Address, SCHEME};
pub use options::{InvalidOption, Options};
pub use store::RadosStore;
