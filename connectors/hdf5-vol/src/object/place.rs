//! References to objects of open files, before a handle holds them.

use std::sync::Arc;

use crate::library::failure::{Failure, Result};
use crate::model::tree::{Body, Id};
use crate::object::context::Context;
use crate::object::kind::ObjectKind;

/// An object of an open file.
#[derive(Clone)]
pub struct ObjectRef {
    /// The opening.
    pub context: Arc<Context>,
    /// The object.
    pub id: Id,
    /// The path by which it was reached.
    pub name: Vec<u8>,
}

impl ObjectRef {
    /// The kind of object.
    pub fn kind(&self) -> Result<ObjectKind> {
        let state = self.context.opening.shared.lock();
        match state.tree.objects.get(&self.id).map(|o| &o.body) {
            Some(Body::Group(_)) => Ok(ObjectKind::Group),
            Some(Body::Dataset(_)) => Ok(ObjectKind::Dataset),
            Some(Body::Type(_)) => Ok(ObjectKind::Datatype),
            None => Err(Failure::not_found("the object is gone")),
        }
    }

    /// The target of a name in it.
    pub fn child(&self, name: &[u8], id: Id) -> ObjectRef {
        ObjectRef { context: self.context.clone(), id, name: join(&self.name, name) }
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
