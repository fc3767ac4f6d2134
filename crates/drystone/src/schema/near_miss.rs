//! Variables that are not there, and the names near to what was asked for.

use drystone_format::schema::{self, Name, Schema};

use crate::Error;

/// "No such variable", with the nearest names.
pub(crate) fn no_such(schema: &Schema, path: &str) -> Error {
    let mut near: Vec<(usize, &String)> =
        schema.names.keys().chain(schema.groups.keys()).map(|name| (distance(path, name), name)).collect();
    // A name of which half is otherwise is another one.
    let alike = |d: usize, name: &str| d == 1 || 2 * d <= path.chars().count().max(name.chars().count());
    near.retain(|(d, name)| *d <= 3 && !name.is_empty() && alike(*d, name));
    near.sort();
    let hint = match near.first() {
        Some((_, name)) => format!("; did you mean \"{name}\"?"),
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
        return Error::not_found(format!("\"{path}\" is a group, no variable"));
    }
    if let Some(Name::Link(target)) = schema.names.get(path) {
        return Error::not_found(format!("\"{path}\" is a link to \"{target}\", which is not there"));
    }
    Error::not_found(format!("there is no variable \"{path}\"{hint}"))
}

/// Edit distance, for suggestions.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().take(64).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().take(64).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let next = (diagonal + usize::from(ca != *cb)).min(row[j] + 1).min(row[j + 1] + 1);
            diagonal = row[j + 1];
            row[j + 1] = next;
        }
    }
    row[b.len()]
}
