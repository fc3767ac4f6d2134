//! New objects under new names: the common part of creating groups, datasets and committed types.

use crate::library::abi::Hid;
use crate::library::failure::{Failure, Result};
use crate::library::props;
use crate::model::tree::{Object, Target};
use crate::object::place::{ObjectRef, join};
use crate::object::walk::last_for_new;

/// Adds a new object and, if it has a name, the link to it.
pub(crate) fn add(from: &ObjectRef, name: &[u8], lcpl: Hid, lapl: Hid, object: Object) -> Result<ObjectRef> {
    from.context.writable()?;
    let (make, cset) = props::of_link(from.context.host, lcpl)?;
    let shared = &from.context.opening.shared;
    if name.is_empty() {
        let mut state = shared.lock();
        let id = state.tree.add(object);
        state.dirty = true;
        return Ok(ObjectRef { id, name: Vec::new(), ..from.clone() });
    }
    let at = last_for_new(from, name, make.then(|| object.between()).as_ref(), lapl)?;
    at.group.context.writable()?;
    let mut state = at.group.context.opening.shared.lock();
    let Some(group) = state.tree.group(at.group.id) else {
        return Err(Failure::wrong_kind("cannot create an object in something that is not a group"));
    };
    if group.links.contains_key(&at.name) {
        return Err(Failure::exists(format!(
            "unable to create: name already exists: '{}'",
            String::from_utf8_lossy(&at.name)
        )));
    }
    let id = state.tree.add(object);
    state.tree.link(at.group.id, &at.name, cset, Target::Hard(id));
    state.dirty = true;
    let path = join(&at.group.name, &at.name);
    if let Ok(text) = std::str::from_utf8(&path) {
        state.named.insert(id, text.to_string());
    }
    drop(state);
    Ok(ObjectRef { context: at.group.context, id, name: path })
}
