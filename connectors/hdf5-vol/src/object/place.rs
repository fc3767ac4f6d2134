//! Objects of open files, before anything is held of them.

use std::sync::Arc;

use crate::library::failure::{Failure, Result};
use crate::model::tree::{Body, Id};
use crate::object::context::Context;
use crate::object::kind::Kind;

/// An object of an open file.
#[derive(Clone)]
pub struct Place {
    /// The opening.
    pub context: Arc<Context>,
    /// The object.
    pub id: Id,
    /// The path by which it was reached.
    pub name: Vec<u8>,
}

impl Place {
    /// What it is.
    pub fn kind(&self) -> Result<Kind> {
        let state = self.context.opening.shared.lock();
        match state.tree.objects.get(&self.id).map(|o| &o.body) {
            Some(Body::Group(_)) => Ok(Kind::Group),
            Some(Body::Dataset(_)) => Ok(Kind::Dataset),
            Some(Body::Type(_)) => Ok(Kind::Datatype),
            None => Err(Failure::not_found("the object is gone")),
        }
    }

    /// What a name of it leads to.
    pub fn child(&self, name: &[u8], id: Id) -> Place {
        Place { context: self.context.clone(), id, name: join(&self.name, name) }
    }
}

/// A path in a group.
pub fn join(group: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = group.to_vec();
    if !path.ends_with(b"/") {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}
