//! A server: containers behind HTTP/1.1, for clients with rights. docs/guide/server.md says what it promises, docs/format/wire.md every byte.
//!
//! ```text
//! serve ── listen (TCP, TLS, Unix sockets) ── answer ── route, rights, admission
//!                                               ├─ objects: one object, plain HTTP      upload: one that arrives in pieces
//!                                               ├─ events: commits as they come
//!                                               ├─ page: the page in the browser, by the face that started the server
//!                                               ├─ arena: memory shared with clients of this machine
//!                                               └─ batch: frames of asks and answers ── method: read programs; regions
//! config, name, place, token, tls: what an operator said      open, buffers, quick: stores, memory, threads   metrics, log: what an operator sees
//! node: one server for the processes of a machine             processes: which of them have a container open
//! ```
//!
//! Invariants
//! - a container is named by a table of the configuration; no request holds a path of the file system;
//! - nothing but `/healthz` and the form that asks for a token is answered without a right, except to processes of the same user on a Unix socket;
//! - memory and requests under way are bounded; what is too much is told so (429) before anything is done.

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
