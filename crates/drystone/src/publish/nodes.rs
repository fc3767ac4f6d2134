//! A snapshot's schema as a Zarr hierarchy: one array per variable; a record has one array per leaf member, below a
//! group.

use std::collections::{BTreeMap, BTreeSet};

use drystone_dataset::Access;
use drystone_format::dtype::{DType, Scalar};
use drystone_format::meaning::Meaning;
use drystone_format::schema::{Schema, Variable};
use serde_json::{Map, Value as Json};

use super::attributes;
use super::element::Element;
use super::meaning::{data_type, flags};
use crate::base::checksum::crc32;
use crate::history::snapshot::Snapshot;
use crate::schema::derived::Derivation;
use crate::schema::member::member;
use crate::schema::near_miss::no_such;
use crate::schema_op::expected_reads;
use crate::{Container, Error, Result};

/// The group for objects outside the hierarchy, which a Zarr store keeps unchanged.
pub(super) const OBJECTS: &str = ".zarr-objects";

/// A variable that was not published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// The path of the variable.
    pub variable: String,
    /// The reason.
    pub reason: String,
}

/// The name of the step axis.
const STEP: &str = "step";
/// The assumed size in bytes of a text of any length, for cutting arrays.
const TEXT: u64 = 64;
/// The longest component of a node's path, so that keys stay within the limits of stores.
const MOST_NAME: usize = 200;

/// One Zarr array.
#[derive(Debug, Clone)]
pub(super) struct Array {
    /// Its path below the root of the hierarchy.
    pub(super) node: String,
    /// Path of the variable.
    pub(super) variable: String,
    pub(super) id: u32,
    pub(super) uid: u64,
    /// Number and path of the leaf member.
    pub(super) leaf: u32,
    pub(super) member: String,
    pub(super) steps: bool,
    /// Extents in cells, steps first.
    pub(super) shape: Vec<u64>,
    /// Bytes per cell; an assumption for texts of any length.
    pub(super) item: u64,
    pub(super) element: Element,
    /// The value of unwritten cells.
    pub(super) fill: Vec<u8>,
    /// The value that a missing chunk reads as in Zarr, per cell. It equals `fill` if Zarr can express that.
    pub(super) missing: Vec<u8>,
    pub(super) fill_value: Json,
    /// One name per axis of the Zarr array; all are unique.
    pub(super) dims: Vec<String>,
    pub(super) attributes: Map<String, Json>,
    /// Whether its values are computed. The index then does not show which cells have values.
    pub(super) derived: bool,
    pub(super) transform: String,
    /// The declared mix of reads. It is only a hint: it is left out if a newer program wrote it in an unknown form.
    pub(super) access: Option<Access>,
    pub(super) dtype: String,
    /// The meaning of the integers, such as times.
    pub(super) meaning: Option<Meaning>,
    pub(super) clips: Vec<(u64, Vec<u64>)>,
}

/// The hierarchy.
#[derive(Debug)]
pub(super) struct Nodes {
    /// The arrays to publish, ordered by path of the variable and number of the member.
    pub(super) arrays: Vec<Array>,
    /// All groups with their attributes; the root is "".
    pub(super) groups: BTreeMap<String, Map<String, Json>>,
    /// Nodes of all variables that can be published, chosen or not.
    pub(super) known: BTreeSet<String>,
    pub(super) skipped: Vec<Skipped>,
}

impl Array {
    /// Zarr's data type.
    pub(super) fn data_type(&self) -> Json {
        self.meaning.as_ref().and_then(data_type).unwrap_or_else(|| self.element.data_type())
    }

    /// Extents in cells, followed by the cell's own axes.
    pub(super) fn with_tail(&self, cells: &[u64]) -> Vec<u64> {
        cells.iter().chain(&self.element.tail).copied().collect()
    }

    /// The cell's own axes in HDF5, where a text of fixed length is a row of characters.
    pub(super) fn file_tail(&self) -> Vec<u64> {
        self.element.tail.iter().copied().chain(self.element.characters()).collect()
    }

    /// The array's extents in HDF5, for these extents in cells.
    pub(super) fn file_shape(&self, cells: &[u64]) -> Vec<u64> {
        cells.iter().copied().chain(self.file_tail()).collect()
    }

    /// Unique names of all axes of the array in HDF5.
    pub(super) fn file_dims(&self) -> Vec<String> {
        let mut names = self.dims.clone();
        if let Some(characters) = self.element.characters() {
            let mut name = format!("string{characters}");
            while names.contains(&name) {
                name.push('_');
            }
            names.push(name);
        }
        names
    }
}

/// The rules for names of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Names that every file system accepts.
    Portable,
    /// Original names, for readers that request objects from this program by key.
    Exact,
}

impl Nodes {
    /// All nodes that a Zarr reader can be shown, under their original names.
    pub(super) fn exact(snapshot: &Snapshot) -> Result<Self> {
        Self::build(snapshot, None, Form::Exact)
    }

    /// The nodes of the chosen variables, or of all. Errors: `NotFound` and `Unsupported`, for variables that were
    /// chosen by name.
    pub(super) fn of(snapshot: &Snapshot, chosen: Option<&[String]>) -> Result<Self> {
        Self::build(snapshot, chosen, Form::Portable)
    }

    fn build(snapshot: &Snapshot, chosen: Option<&[String]>, form: Form) -> Result<Self> {
        let schema = &snapshot.schema;
        let mut wanted = BTreeSet::new();
        for path in chosen.unwrap_or_default() {
            let path = Container::normal_path(path);
            let followed = schema.follow(path).filter(|p| schema.names.contains_key(p));
            wanted.insert(followed.ok_or_else(|| no_such(schema, path))?);
        }
        let mut nodes = Nodes {
            arrays: Vec::new(),
            groups: BTreeMap::new(),
            known: BTreeSet::new(),
            skipped: Vec::new(),
        };
        for (path, attrs) in schema.groups.iter().filter(|(path, _)| !is_private(path)) {
            nodes.groups.insert(form.node(path), attributes::object(attrs));
        }
        for (path, variable) in schema.named().filter(|(path, _)| !is_private(path)) {
            let named = wanted.contains(path);
            match arrays_of(schema, (path, variable), snapshot.step_axis(), form) {
                Ok(arrays) => {
                    nodes.known.extend(arrays.iter().map(|a| a.node.clone()));
                    if matches!(variable.dtype, DType::Record(_)) {
                        nodes.groups.insert(form.node(path), attributes::object(&variable.attrs));
                    }
                    if named || chosen.is_none() {
                        nodes.arrays.extend(arrays);
                    }
                }
                Err(reason) if named => {
                    return Err(Error::unsupported(format!("\"{path}\" cannot be published: {reason}")));
                }
                Err(_) if chosen.is_some() => {} // not chosen by name
                Err(reason) => nodes.skipped.push(Skipped { variable: path.to_owned(), reason }),
            }
        }
        nodes.with_ancestors();
        nodes.check()?;
        Ok(nodes)
    }

    /// Leaves out the arrays that a netCDF file cannot hold: netCDF libraries know no float of 2 bytes, and crash on
    /// one.
    ///
    /// Errors: `Unsupported` if all variables are `named` by the caller.
    pub(super) fn in_netcdf(mut self, named: bool) -> Result<Self> {
        let (kept, omitted): (Vec<Array>, Vec<Array>) =
            self.arrays.into_iter().partition(|array| array.element.scalar != Scalar::F16);
        self.arrays = kept;
        for array in omitted {
            let variable = match array.member.as_str() {
                "" => array.variable,
                member => format!("{}.{member}", array.variable),
            };
            let reason = "netCDF has no float16; export it, which converts to float32".to_owned();
            if named {
                return Err(Error::unsupported(format!("\"{variable}\" cannot be published: {reason}")));
            }
            self.known.remove(&array.node);
            self.skipped.push(Skipped { variable, reason });
        }
        Ok(self)
    }

    /// Adds the groups above every node.
    fn with_ancestors(&mut self) {
        let all: Vec<String> = self.groups.keys().chain(&self.known).cloned().collect();
        for node in all {
            for (at, _) in node.match_indices('/') {
                self.groups.entry(node[..at].to_owned()).or_default();
            }
        }
        self.groups.entry(String::new()).or_default();
    }

    /// Refuses two variables whose names become the same Zarr node.
    fn check(&self) -> Result<()> {
        let mut seen: BTreeSet<&str> = self.groups.keys().map(String::as_str).collect();
        match self.arrays.iter().find(|array| !seen.insert(&array.node)) {
            Some(array) => Err(Error::conflict(format!(
                "\"{}\" would be published as {}, which another node is; rename one of them",
                array.variable, array.node
            ))),
            None => Ok(()),
        }
    }
}

/// The arrays of one variable, or the reason why there are none.
fn arrays_of(
    schema: &Schema,
    (path, variable): (&str, &Variable),
    steps: u64,
    form: Form,
) -> std::result::Result<Vec<Array>, String> {
    if variable.local {
        return Err("it is local: its blocks are not one array".into());
    }
    if let (Some(derived), Form::Portable) = (&variable.derived, form) {
        // If an input was deleted, or no longer fits, the variable cannot be computed.
        Derivation::check(schema, path, derived).map_err(|e| e.to_string())?;
        if let Some(function) = Derivation::lacking(schema, path, derived).map_err(|e| e.to_string())? {
            return Err(format!("it calls function \"{function}\", which is not registered in this process"));
        }
    }
    let base = form.node(path);
    let mut shapes = Vec::new();
    leaf_shapes(&variable.dtype, &[], &mut shapes);
    let zeros = vec![0; variable.dtype.item_size() as usize];
    let fill = variable.fill.as_deref().unwrap_or(&zeros);
    let record = matches!(variable.dtype, DType::Record(_));
    let access = expected_reads(variable).ok().flatten();
    let mut arrays = Vec::new();
    for (number, (leaf, own)) in variable.dtype.leaves().into_iter().zip(shapes).enumerate() {
        let element = Element::of(&leaf.dtype, &own).ok_or("it holds lists of numbers, for which Zarr has no type; `drystone export` writes them to HDF5 and netCDF")?;
        if element.is_text() && !element.tail.is_empty() {
            return Err(format!(
                "its member \"{}\" is an array of strings; `drystone export` writes them to HDF5",
                leaf.path
            ));
        }
        let node = if record { format!("{base}/{}", form.component(&leaf.path)) } else { base.clone() };
        let at = leaf.offset as usize;
        let fill = fill.get(at..at + leaf.size as usize).ok_or("its fill value is too short")?.to_vec();
        let (missing, fill_value) = match element.fill_value(&fill) {
            Some(value) => (fill.clone(), value),
            None => {
                let zeros = vec![0; fill.len()];
                let value = element.fill_value(&zeros).unwrap_or(Json::Null);
                (zeros, value)
            }
        };
        let meaning = match &variable.meaning {
            Some(whole) if record => {
                member(&variable.dtype, &leaf.path).and_then(|found| found.meaning(Some(whole)).cloned())
            }
            whole => whole.clone(),
        };
        let mut attributes =
            if record { Map::new() } else { attributes::of_array(&variable.attrs, &leaf.dtype) };
        if let Some(meaning) = &meaning {
            for (name, value) in attributes::object(&flags(meaning, element.scalar)) {
                attributes.entry(name).or_insert(value);
            }
        }
        let mut shape = if variable.steps { vec![steps] } else { Vec::new() };
        shape.extend(&variable.shape);
        let name = node.rsplit('/').next().unwrap_or_default().to_owned();
        arrays.push(Array {
            dims: dims(variable, &name, element.tail.len()),
            variable: path.to_owned(),
            id: variable.id,
            uid: variable.uid,
            derived: variable.derived.is_some(),
            leaf: number as u32,
            member: leaf.path,
            steps: variable.steps,
            shape,
            item: if element.is_text() { TEXT } else { u64::from(leaf.size) },
            element,
            fill,
            missing,
            fill_value,
            attributes,
            meaning,
            transform: variable.transform.clone(),
            access: access.clone(),
            dtype: leaf.dtype.to_string(),
            clips: variable.clips.clone(),
            node,
        });
    }
    Ok(arrays)
}

/// Shapes of the leaves' own arrays, in the order of [`DType::leaves`].
fn leaf_shapes(dtype: &DType, own: &[u64], out: &mut Vec<Vec<u64>>) {
    match dtype {
        DType::Record(record) => {
            for _ in 0..own.iter().product::<u64>() {
                for member in &record.members {
                    leaf_shapes(&member.dtype, &member.shape, out);
                }
            }
        }
        _ => out.push(own.to_vec()),
    }
}

/// Unique names of all axes. Axes without a name are named after the variable.
fn dims(variable: &Variable, name: &str, tail: usize) -> Vec<String> {
    let cells = variable.shape.len();
    let mut names: Vec<String> = if variable.steps { vec![STEP.to_owned()] } else { Vec::new() };
    for axis in 0..cells + tail {
        let given = variable.dims.get(axis).filter(|given| !given.is_empty() && !names.contains(given));
        let mut one = given.cloned().unwrap_or_else(|| format!("{name}_{axis}"));
        while names.contains(&one) {
            one.push('_');
        }
        names.push(one);
    }
    names
}

impl Form {
    /// The node of a path in the container.
    fn node(self, path: &str) -> String {
        match self {
            Form::Exact => path.to_owned(),
            Form::Portable => node_of(path),
        }
    }

    fn component(self, name: &str) -> String {
        match self {
            Form::Exact => name.to_owned(),
            Form::Portable => component(name),
        }
    }
}

/// Whether a path is private to a Zarr store, which keeps objects beside its hierarchy.
fn is_private(path: &str) -> bool {
    path.strip_prefix(OBJECTS).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The hierarchy's path for a path of the schema.
fn node_of(path: &str) -> String {
    if path.is_empty() {
        return String::new();
    }
    path.split('/').map(component).collect::<Vec<_>>().join("/")
}

/// The name itself, if every Zarr reader and every store accepts it. Otherwise a similar name with a checksum of the
/// original.
fn component(name: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    let usable = name.bytes().all(plain)
        && name.len() <= MOST_NAME
        && !name.starts_with("__")
        && !name.bytes().all(|b| b == b'.')
        && !matches!(name, "zarr.json" | "c");
    if usable {
        return name.to_owned();
    }
    let near =
        name.chars().take(MOST_NAME - 16).map(|c| if c.is_ascii() && plain(c as u8) { c } else { '_' });
    let near: String = near.collect();
    format!("{}-{:08x}", near.trim_start_matches('_'), crc32(name.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use drystone_format::dtype::{Member, Record};

    #[test]
    fn ordinary_names_stay_and_others_become_portable_and_unique() {
        for name in ["T", "velocity.x", "a-b_c", "2m_temperature", "._x"] {
            assert_eq!(component(name), name);
        }
        let long = "x".repeat(900);
        let odd =
            ["größe", "grösse", "a b", "a%b", "__x", "..", "zarr.json", "c", "p[2].x", long.as_str(), "日本"];
        let written: BTreeSet<String> = odd.iter().map(|name| component(name)).collect();
        assert_eq!(written.len(), odd.len());
        for name in &written {
            assert!(drystone_store::validate_key(name).is_ok() && !name.starts_with("__"), "{name}");
            assert_eq!(&component(name), name, "a portable name stays the same");
        }
        assert_eq!(node_of("fields/größe").split('/').count(), 2);
    }

    #[test]
    fn every_leaf_has_its_own_shape() {
        let scalar = DType::Scalar(Scalar::F32);
        let member = |name: &str, dtype: &DType, shape: Vec<u64>, offset| Member {
            name: name.into(),
            dtype: dtype.clone(),
            shape,
            offset,
        };
        let inner = DType::Record(Record {
            itemsize: 12,
            members: vec![member("x", &scalar, vec![], 0), member("t", &scalar, vec![2], 4)],
        });
        let outer = DType::Record(Record {
            itemsize: 40,
            members: vec![
                member("p", &inner, vec![2], 0),
                member("m", &scalar, vec![2, 1], 24),
                member("s", &DType::Bytes(4), vec![], 32),
            ],
        });
        let mut shapes = Vec::new();
        leaf_shapes(&outer, &[], &mut shapes);
        let leaves = outer.leaves();
        assert_eq!(shapes.len(), leaves.len());
        for (leaf, shape) in leaves.iter().zip(&shapes) {
            assert_eq!(leaf.repeat, shape.iter().product::<u64>(), "{}", leaf.path);
        }
        assert_eq!(shapes, [vec![], vec![2], vec![], vec![2], vec![2, 1], vec![]]);
    }
}
