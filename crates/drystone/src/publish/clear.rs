//! Removes objects that do not belong under `zarr/`: arrays with a new cut, deleted variables, shards beyond the
//! shape.
//!
//! An array is removed from the root's metadata first, then its own document, then its shards: no document ever
//! describes shards of another layout. Foreign objects are left alone.

use std::collections::BTreeSet;

use drystone_store::{PutMode, Store};

use super::Published;
use super::convert::remove;
use super::document;
use super::nodes::Nodes;
use crate::published::ROOT;
use crate::published::sidecar;
use crate::published::stamp::STAMP;
use crate::published::stamp::stamp_of;
use crate::{Error, Result};

/// Removes arrays that will be published in another layout, or that a group replaces.
pub(super) fn replaced(store: &dyn Store, there: &Published, nodes: &[String], sync: bool) -> Result<()> {
    if let Some(root) = there.documents.get("").filter(|root| root.json.is_object()) {
        let text = serde_json::to_vec_pretty(&document::without(&root.json, nodes))
            .map_err(|e| Error::invalid(e.to_string()))?;
        store.put(&document::key(""), &[&text], PutMode::Replace, sync)?;
    }
    for node in nodes {
        array(store, there, node)?;
    }
    Ok(())
}

/// Removes objects that no longer belong to any node. `keep` are the objects of the arrays that were just published.
/// Returns whether there were any.
///
/// Arrays of deleted variables are removed only if everything was published (`whole`).
pub(super) fn leftover(
    store: &dyn Store,
    there: &Published,
    nodes: &Nodes,
    keep: &BTreeSet<String>,
    whole: bool,
) -> Result<bool> {
    let mut removed = false;
    let published: BTreeSet<&str> = nodes.arrays.iter().map(|a| a.node.as_str()).collect();
    if whole {
        for (node, document) in &there.documents {
            let gone = !published.contains(node.as_str()) && !nodes.groups.contains_key(node);
            if gone && document.ours {
                array(store, there, node)?;
                removed = true;
            }
        }
    }
    for key in there.objects.keys().filter(|key| !keep.contains(*key)) {
        let owner = owner(key, |node| published.contains(node) || there.documents.contains_key(node));
        let stale = match owner {
            Some(node) if published.contains(node) => true,
            Some(_) => false, // of an array that was not chosen or is foreign, or removed already
            None => whole && is_ours(store, key)?,
        };
        if stale {
            remove(store, key)?;
            removed = true;
        }
    }
    Ok(removed)
}

/// Whether an object without a document is one of our shards, in any format, or the statistics of one.
fn is_ours(store: &dyn Store, key: &str) -> Result<bool> {
    const LARGEST: u64 = 1 << 24;
    if key.contains(sidecar::FOLDER) {
        return sidecar::is_one(store, key);
    }
    if stamp_of(store, key, 0)?.is_some() {
        return Ok(true);
    }
    let len = store.len(key).unwrap_or(0);
    let mut base = 512;
    while base <= LARGEST && base < len {
        if stamp_of(store, key, base - STAMP as u64)?.is_some() {
            return Ok(true);
        }
        base *= 2;
    }
    Ok(false)
}

/// Removes one array: its document, then its objects.
fn array(store: &dyn Store, there: &Published, node: &str) -> Result<()> {
    let prefix = format!("{ROOT}{node}/c/");
    let single = format!("{ROOT}{node}/c");
    // An array without axes is one object without a stamp. It is removed first: without the document it could not be
    // recognised as ours.
    if there.objects.contains_key(&single) {
        remove(store, &single)?;
    }
    remove(store, &document::key(node))?;
    for prefix in [prefix, format!("{ROOT}{node}/{}/", sidecar::FOLDER)] {
        let objects = there.objects.range(prefix.clone()..).map(|(key, _)| key);
        for key in objects.take_while(|key| key.starts_with(&prefix)) {
            remove(store, key)?;
        }
    }
    Ok(())
}

/// The node of an object: its nearest ancestor that is a node.
fn owner(key: &str, is_node: impl Fn(&str) -> bool) -> Option<&str> {
    let path = key.strip_prefix(ROOT)?;
    if let Some((node, _)) = path.split_once(sidecar::FOLDER)
        && let Some(node) = node.strip_suffix('/')
    {
        return is_node(node).then_some(node);
    }
    path.rmatch_indices("/c").map(|(at, _)| (&path[..at], &path[at + 2..])).find_map(|(node, rest)| {
        let chunk = rest.is_empty() || rest.starts_with('/');
        (chunk && is_node(node)).then_some(node)
    })
}

#[cfg(test)]
mod tests {
    use super::owner;

    #[test]
    fn an_object_belongs_to_the_array_whose_chunk_it_is() {
        let nodes = ["a", "a/b", "x/c1"];
        let owner = |key| owner(key, |node| nodes.contains(&node));
        assert_eq!(owner("zarr/a/c/0/1"), Some("a"));
        assert_eq!(owner("zarr/a/c"), Some("a"));
        assert_eq!(owner("zarr/a/b/c/0"), Some("a/b"));
        assert_eq!(owner("zarr/x/c1/c/5"), Some("x/c1"));
        assert_eq!(owner("zarr/x/c/0"), None);
        assert_eq!(owner("zarr/a/b/.drystone/statistics/0.1"), Some("a/b"));
        assert_eq!(owner("zarr/x/.drystone/statistics/0.1"), None);
        assert_eq!(owner("zarr/a/cc/0"), None);
    }
}
