//! A server that offers containers over HTTP/1.1 to clients with rights. docs/guide/server.md states its guarantees;
//! docs/format/wire.md specifies every byte.
//!
//! ```text
//! serve ── listen (TCP, TLS, Unix sockets) ── answer ── route, rights, admission
//!     ├─ objects   one object, by plain HTTP
//!     ├─ upload    one object that arrives in pieces
//!     ├─ events    waiting for commits
//!     ├─ page      the page in the browser, provided by the face that started the server
//!     ├─ arena     memory shared with clients of this machine
//!     └─ batch     frames of asks and answers ── method: read programs; regions
//! config, name, place, token, tls    the configuration
//! open, buffers, quick               stores, memory, threads
//! metrics, log                       output for the operator
//! node                               one server for a container and all processes of a machine
//! processes                          the processes that have a container open
//! ```
//!
//! Invariants
//! - the configuration maps names to containers; no request contains a path of the file system;
//! - without a right, only `/healthz`, the form that asks for a token and, if the configuration says so, `/metrics` are
//!   answered. Processes of the same user on a Unix socket need no right;
//! - memory and requests under way are bounded. A request beyond the bounds is refused (429) before anything is done.

mod admission;
mod answer;
mod arena;
mod arenas;
mod asked;
mod batch;
mod buffers;
mod config;
mod events;
mod face;
mod idempotence;
mod listen;
mod log;
mod method;
mod metrics;
mod name;
mod node;
mod objects;
mod open;
mod page;
mod place;
mod processes;
mod quick;
mod regions;
mod reply;
mod route;
mod serve;
mod state;
mod tls;
mod token;
mod upload;

pub use config::{Config, InvalidConfig, Limits};
pub use face::{Page, PageAnswer};
pub use node::serve_node;
pub use serve::{Server, serve_until_signal};
pub use token::{Issued, Right, Scope, Tokens, issue, revoke};
