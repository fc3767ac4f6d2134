//! Errors for variables that do not exist, with names similar to the requested one.

use drystone_format::schema::{self, Name, Schema};

use crate::Error;

/// The error "no such variable", with similar names.
pub(crate) fn no_such(schema: &Schema, path: &str) -> Error {
    let known = schema.names.keys().chain(schema.groups.keys()).map(String::as_str);
    let hint = match drystone_suggest::nearest(path, known) {
        Some(name) => format!("; did you mean \"{name}\"?"),
        None if schema.names.is_empty() => "; the container has no variables".into(),
        None => {
            let some: Vec<&str> = schema.names.keys().take(8).map(String::as_str).collect();
            format!("; there are: {}{}", some.join(", "), if schema.names.len() > 8 { ", …" } else { "" })
        }
    };
    if let Err(why) = schema::check_path(path) {
        return Error::not_found(format!("\"{path}\" is not a path: {why}{hint}"));
    }
    if schema.groups.contains_key(path) && !path.is_empty() {
        return Error::not_found(format!("\"{path}\" is a group, not a variable"));
    }
    if let Some(Name::Link(target)) = schema.names.get(path) {
        return Error::not_found(format!("\"{path}\" is a link to \"{target}\", which does not exist"));
    }
    Error::not_found(format!("there is no variable \"{path}\"{hint}"))
}
