//! Schema operations: pure functions on a schema, so that a commit can replay them on a newer schema.

use crate::layout;
use crate::schema::declared::parsed;
use drystone_format::schema::{MAX_DECLARATIONS, MAX_DECLARED, MAX_VALUES};
use std::collections::{BTreeMap, HashSet};

use drystone_dataset::{Access, Axes, Diagnostic, Diagnostics};
use drystone_format::MAX_NDIM;
use drystone_format::dtype::DType;
use drystone_format::instant::NAT;
use drystone_format::meaning::Meaning;
use drystone_format::schema::{Attrs, Declaration, MAX_ACCESS, Name, Schema, Variable, check_path};
use drystone_format::value::Value;
use drystone_transform::Transform;

use crate::schema::derived::{Definition, define, expression_edge, settle};
use crate::schema::element_type::logical;

use crate::base::random;
use crate::schema::near_miss::no_such;
use crate::{Error, Result};

/// Definition of a new variable.
#[derive(Debug, Clone, PartialEq)]
pub struct NewVariable {
    /// Element type.
    pub dtype: DType,
    /// Extent per dimension, without the step axis. `None` grows as blocks are put.
    pub shape: Vec<Option<u64>>,
    /// Names of the dimensions, or empty.
    pub dims: Vec<String>,
    /// Whether there is one value per output time, rather than one in all.
    pub steps: bool,
    /// Whether there is one value, or one array of any shape, per writer (and step).
    pub local: bool,
    /// The codec chain as text; empty for none.
    pub transform: String,
    /// Subchunk shape into which blocks are cut.
    pub chunks: Option<Vec<u64>>,
    /// The bytes of the fill value of one element; `None` for zeros.
    pub fill: Option<Vec<u8>>,
    /// Attributes.
    pub attrs: Attrs,
    /// The expected mix of reads (docs/reference/language.md); empty if unknown.
    pub access: String,
    /// The meaning of the integers. `None` if they are plain numbers.
    pub meaning: Option<Meaning>,
}

impl NewVariable {
    /// The variable that this creates, with an id and a uid from the caller. It permits putting values before the
    /// commit that creates the variable ([`crate::Writer::put_to`]).
    pub fn declared(&self, path: &str, id: u32, uid: u64) -> Result<Variable> {
        let asked = validate(path, self)?;
        Ok(Variable {
            id,
            dtype: self.dtype.clone(),
            shape: self.shape.iter().map(|n| n.unwrap_or(0)).collect(),
            growable: self.shape.iter().map(Option::is_none).collect(),
            dims: self.dims.clone(),
            steps: self.steps,
            local: self.local,
            transform: if asked.is_identity() { String::new() } else { asked.canonical() },
            chunks: self.chunks.clone(),
            fill: self.fill_bytes().filter(|f| f.iter().any(|b| *b != 0)),
            attrs: self.attrs.clone(),
            created: 0,
            clips: Vec::new(),
            uid,
            access: self.expected().ok().flatten().map(|access| access.to_string()).unwrap_or_default(),
            meaning: self.meaning.clone(),
            derived: None,
        })
    }

    /// The value of unwritten cells: as given, else "no time" if the elements are times, else zeros.
    fn fill_bytes(&self) -> Option<Vec<u8>> {
        if self.fill.is_some() {
            return self.fill.clone();
        }
        let meaning = self.meaning.as_ref()?;
        let mut fill = vec![0; self.dtype.item_size() as usize];
        no_times(&self.dtype, meaning, &mut fill);
        Some(fill)
    }

    /// The expected reads that `access` states, by axes.
    fn expected(&self) -> std::result::Result<Option<Access>, Diagnostic> {
        access(&self.access, &self.dims, self.shape.len(), self.steps)
    }
}

/// Sets the times in an element to NaT.
fn no_times(dtype: &DType, meaning: &Meaning, element: &mut [u8]) {
    match (meaning, dtype) {
        (Meaning::Instant(_) | Meaning::Duration(_), _) => {
            element.chunks_exact_mut(8).for_each(|one| one.copy_from_slice(&NAT.to_le_bytes()));
        }
        (Meaning::Members(members), DType::Record(record)) => {
            for member in &record.members {
                let Some(below) = members.get(&member.name) else { continue };
                let item = member.dtype.item_size() as usize;
                let begin = member.offset as usize;
                let end = begin + item * member.shape.iter().product::<u64>() as usize;
                let Some(part) = element.get_mut(begin..end) else { continue };
                part.chunks_exact_mut(item.max(1)).for_each(|one| no_times(&member.dtype, below, one));
            }
        }
        _ => {}
    }
}

/// The mix of reads that a variable declares, if it declares one.
pub(crate) fn expected_reads(variable: &Variable) -> std::result::Result<Option<Access>, Diagnostic> {
    access(&variable.access, &variable.dims, variable.shape.len(), variable.steps)
}

fn access(
    text: &str,
    dims: &[String],
    count: usize,
    steps: bool,
) -> std::result::Result<Option<Access>, Diagnostic> {
    let names: Vec<&str> = dims.iter().map(String::as_str).collect();
    let axes = Axes { count, names: &names, steps };
    (!text.trim().is_empty()).then(|| Access::parse(text, &axes)).transpose()
}

/// One change of the schema.
#[derive(Debug, Clone, PartialEq)]
pub enum SchemaOp {
    /// Creates a variable and the groups above it. If an identical one exists, nothing changes.
    CreateVariable(String, Box<NewVariable>),
    /// Creates a group and the groups above it. The attributes are merged into existing ones.
    CreateGroup(String, Attrs),
    /// Sets attributes of the variable or group at a path; `None` removes one, which must exist.
    SetAttrs(String, BTreeMap<String, Option<Value>>),
    /// Sets the shape (without the step axis).
    Resize(String, Vec<u64>),
    /// Moves a variable, link or group (with everything below) to another path.
    Rename(String, String),
    /// Removes a name; for a group, everything below as well.
    Delete(String),
    /// Makes a path an alias of another path.
    Link(String, String),
    /// Stores a declared text. If an identical one exists, nothing changes. Separate operations create its variables.
    Declare(Declaration),
    /// Creates a variable that is computed from others. If its definition exists, nothing changes.
    Derive(String, Box<Definition>),
}

impl SchemaOp {
    /// Applies the operation. `version` is the commit that will contain it. Returns `false` if nothing changed.
    pub fn apply(&self, schema: &mut Schema, version: u64) -> Result<bool> {
        let changed = self.apply_alone(schema, version)?;
        if let (true, SchemaOp::Resize(..)) = (changed, self) {
            let before = schema.clone();
            settle(schema, &before, version);
        }
        Ok(changed)
    }

    fn apply_alone(&self, schema: &mut Schema, version: u64) -> Result<bool> {
        match self {
            SchemaOp::CreateVariable(path, new) => create_variable(schema, path, new, version),
            SchemaOp::CreateGroup(path, attrs) => create_group(schema, path, attrs),
            SchemaOp::SetAttrs(path, changes) => set_attrs(schema, path, changes),
            SchemaOp::Resize(path, shape) => resize(schema, path, shape, version),
            SchemaOp::Rename(from, to) => rename(schema, from, to),
            SchemaOp::Delete(path) => delete(schema, path),
            SchemaOp::Link(path, target) => link(schema, path, target),
            SchemaOp::Declare(declaration) => keep(schema, declaration),
            SchemaOp::Derive(path, new) => derive(schema, path, new, version),
        }
    }
}

fn checked<'a>(path: &'a str, what: &str) -> Result<&'a str> {
    check_path(path).map_err(|why| Error::invalid(format!("\"{path}\" cannot name a {what}: {why}")))?;
    Ok(path)
}

/// Every proper prefix of a path, outermost first.
fn parents(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(i, _)| &path[..i])
}

fn make_parents(schema: &mut Schema, path: &str) -> Result<bool> {
    let mut changed = false;
    for parent in parents(path) {
        if schema.names.contains_key(parent) {
            return Err(Error::conflict(format!("\"{path}\" cannot be made: \"{parent}\" is not a group")));
        }
        if !schema.groups.contains_key(parent) {
            schema.groups.insert(parent.to_string(), Attrs::new());
            changed = true;
        }
    }
    Ok(changed)
}

fn validate(path: &str, new: &NewVariable) -> Result<Transform> {
    let bad = |why: String| Error::invalid(format!("variable \"{path}\": {why}"));
    check_attrs(path, new.attrs.keys())?;
    new.dtype.validate().map_err(|why| bad(format!("dtype {}: {why}", new.dtype)))?;
    if !is_packed(&new.dtype) {
        return Err(bad(format!(
            "dtype {}: a record with members of any length has its members one behind the other, without padding; \
             each text or list has 16 bytes",
            new.dtype
        )));
    }
    if let Some(meaning) = &new.meaning {
        meaning.validate(&new.dtype).map_err(&bad)?;
    }
    let ndim = new.shape.len();
    if ndim > MAX_NDIM {
        return Err(bad(format!("{ndim} dimensions; at most {MAX_NDIM} are supported")));
    }
    if new.local && ndim > 0 {
        return Err(bad(
            "a local variable has no global shape: each writer's block has its own; leave shape out".into(),
        ));
    }
    let mut cells: u64 = new.dtype.item_size().max(1) as u64;
    for n in new.shape.iter().flatten() {
        cells = cells
            .checked_mul((*n).max(1))
            .filter(|c| i64::try_from(*c).is_ok())
            .ok_or_else(|| bad("the shape is too large: more than 2^63 bytes".into()))?;
    }
    if !new.dims.is_empty() && new.dims.len() != ndim {
        return Err(bad(format!("{} dimension names for {ndim} dimensions", new.dims.len())));
    }
    for (i, name) in new.dims.iter().enumerate() {
        if name.contains('\0') {
            return Err(bad(format!(
                "dimension name {name:?} contains a NUL character, which ends texts in C"
            )));
        }
        if name.is_empty() || name.len() > 256 || new.dims[..i].contains(name) {
            return Err(bad(format!("dimension name \"{name}\" is empty, too long or there twice")));
        }
    }
    if let Some(chunks) = &new.chunks {
        if !new.local && chunks.len() != ndim {
            return Err(bad(format!("chunks has {} entries for {ndim} dimensions", chunks.len())));
        }
        if chunks.contains(&0) {
            return Err(bad("a chunk edge of 0; edges are at least 1".into()));
        }
    }
    let item = new.dtype.item_size();
    match &new.fill {
        Some(_) if new.dtype.is_blob() => {
            return Err(bad(format!("{} has no fill value; an empty one is read", new.dtype)));
        }
        Some(fill) if fill.len() != item as usize => {
            return Err(bad(format!(
                "the fill value has {} bytes, an element of {} has {item}",
                fill.len(),
                new.dtype
            )));
        }
        Some(fill) => {
            if let Some(leaf) = new.dtype.leaves().iter().find(|leaf| leaf.fills_with_blob(fill)) {
                return Err(bad(format!(
                    "member \"{}\" is {}, which has no fill value; an empty one is read",
                    leaf.path, leaf.dtype
                )));
            }
        }
        None => {}
    }
    if new.access.len() > MAX_ACCESS {
        return Err(bad(format!("access has {} bytes; at most {MAX_ACCESS} are possible", new.access.len())));
    }
    new.expected()
        .map_err(|wrong| bad(format!("access \"{}\": {}", new.access, Diagnostics::from(wrong))))?;
    let chain = Transform::parse(&new.transform).map_err(|e| bad(format!("transform: {e}")))?;
    for leaf in new.dtype.leaves() {
        chain.check_takes(&logical(&leaf, &[0])).map_err(|e| bad(format!("transform: {e}")))?;
    }
    Ok(chain)
}

/// Whether records with members of any length, which have no layout in a caller's memory, are without padding: then the
/// same members are the same type, whichever program declares them.
fn is_packed(dtype: &DType) -> bool {
    let DType::Record(record) = dtype else { return true };
    if !dtype.has_blobs() {
        return true;
    }
    let mut end = 0;
    for member in &record.members {
        let repeat: u64 = member.shape.iter().product();
        if u64::from(member.offset) != end || !is_packed(&member.dtype) {
            return false;
        }
        end += repeat * u64::from(member.dtype.item_size());
    }
    u64::from(record.itemsize) == end
}

fn create_variable(schema: &mut Schema, path: &str, new: &NewVariable, version: u64) -> Result<bool> {
    let path = checked(path, "variable")?;
    let mut variable = Variable { created: version, ..new.declared(path, 0, random::id64())? };
    if let Some(old) = schema.resolve(path) {
        if let Some(derived) = &old.derived {
            return Err(Error::conflict(format!(
                "variable \"{path}\" exists and is derived: {}; delete or rename it first",
                derived.text
            )));
        }
        return match difference(old, &variable) {
            None => Ok(false),
            Some(what) => Err(Error::conflict(format!(
                "variable \"{path}\" exists with another {what}; open it as it is, or delete or rename it first"
            ))),
        };
    }
    if schema.groups.contains_key(path) || schema.names.contains_key(path) {
        return Err(Error::conflict(format!("\"{path}\" exists and is not a variable; choose another name")));
    }
    make_parents(schema, path)?;
    variable.id = schema.next_id;
    schema.next_id =
        schema.next_id.checked_add(1).ok_or_else(|| Error::unsupported("2^32 variables were created"))?;
    schema.names.insert(path.to_string(), Name::Variable(variable.id));
    schema.variables.insert(variable.id, variable);
    Ok(true)
}

fn derive(schema: &mut Schema, path: &str, new: &Definition, version: u64) -> Result<bool> {
    let path = checked(path, "variable")?;
    check_attrs(path, new.attrs.keys())?;
    let id = schema.next_id;
    if let Some(old) = schema.resolve(path) {
        let Some(derived) = &old.derived else {
            return Err(Error::conflict(format!(
                "variable \"{path}\" exists and holds values; choose another name"
            )));
        };
        // If it were created again, it would be younger than the variables derived from it.
        let same = define(schema, path, new, id, 0)?.derived.is_some_and(|again| again == *derived);
        if same && new.attrs.iter().all(|(key, value)| old.attrs.get(key) == Some(value)) {
            return Ok(false);
        }
        let what = if same { "other attributes" } else { "another definition" };
        return Err(Error::conflict(format!(
            "variable \"{path}\" exists with {what} ({}, kind \"{}\", edge \"{}\"); delete or rename it first",
            derived.text,
            derived.kind.name(),
            expression_edge(derived.edge).name()
        )));
    }
    if schema.groups.contains_key(path) || schema.names.contains_key(path) {
        return Err(Error::conflict(format!("\"{path}\" exists and is not a variable; choose another name")));
    }
    let variable = Variable { created: version, ..define(schema, path, new, id, random::id64())? };
    make_parents(schema, path)?;
    schema.next_id = id.checked_add(1).ok_or_else(|| Error::unsupported("2^32 variables were created"))?;
    schema.names.insert(path.to_string(), Name::Variable(id));
    schema.variables.insert(id, variable);
    Ok(true)
}

/// The way in which an existing variable differs from a requested one.
fn difference(old: &Variable, new: &Variable) -> Option<String> {
    let same_shape = old.growable == new.growable
        && old.shape.iter().zip(&new.shape).zip(&old.growable).all(|((o, n), grows)| *grows || o == n);
    let show = |name: &str, o: &dyn std::fmt::Debug, n: &dyn std::fmt::Debug| {
        Some(format!("{name} ({o:?}, not {n:?})"))
    };
    if old.dtype != new.dtype {
        return Some(format!("dtype ({}, not {})", old.dtype, new.dtype));
    }
    if old.meaning != new.meaning {
        let said = |meaning: &Option<Meaning>, dtype: &DType| {
            meaning.as_ref().map_or_else(|| dtype.to_string(), ToString::to_string)
        };
        return Some(format!(
            "dtype ({}, not {})",
            said(&old.meaning, &old.dtype),
            said(&new.meaning, &new.dtype)
        ));
    }
    if !same_shape {
        return show("shape", &old.shape, &new.shape);
    }
    if old.dims != new.dims {
        return show("dims", &old.dims, &new.dims);
    }
    if old.steps != new.steps {
        return show("steps", &old.steps, &new.steps);
    }
    if old.local != new.local {
        return show("local", &old.local, &new.local);
    }
    if old.transform != new.transform {
        return show("transform", &old.transform, &new.transform);
    }
    if old.chunks != new.chunks {
        return show("chunks", &old.chunks, &new.chunks);
    }
    if old.fill != new.fill {
        return show("fill value", &old.fill, &new.fill);
    }
    if old.access != new.access {
        return show("access", &old.access, &new.access);
    }
    let changed = new.attrs.iter().find(|(k, v)| old.attrs.get(*k) != Some(v))?;
    Some(format!("attribute \"{}\"", changed.0))
}

/// Checks the names of attributes to be set. Older commits could store an empty name, or one with a NUL; such
/// attributes stay until they are removed.
fn check_attrs<'a>(path: &str, mut names: impl Iterator<Item = &'a String>) -> Result<()> {
    let Some(name) = names.find(|name| name.is_empty() || name.contains('\0')) else { return Ok(()) };
    let owner = if path.is_empty() { "the container".into() } else { format!("\"{path}\"") };
    if !name.is_empty() {
        return Err(Error::invalid(format!(
            "an attribute of {owner} has the name {name:?} with a NUL character, which ends texts in C; leave it out"
        )));
    }
    Err(Error::invalid(format!(
        "an attribute of {owner} has the empty name; give it one (HDF5 and netCDF have none either)"
    )))
}

fn create_group(schema: &mut Schema, path: &str, attrs: &Attrs) -> Result<bool> {
    if path.is_empty() {
        let changes = attrs.iter().map(|(k, v)| (k.clone(), Some(v.clone()))).collect();
        return set_attrs(schema, path, &changes);
    }
    let path = checked(path, "group")?;
    check_attrs(path, attrs.keys())?;
    if schema.names.contains_key(path) {
        return Err(Error::conflict(format!("\"{path}\" exists and is not a group; choose another name")));
    }
    let mut changed = make_parents(schema, path)?;
    let mut fresh = false;
    let group = schema.groups.entry(path.to_string()).or_insert_with(|| {
        fresh = true;
        Attrs::new()
    });
    changed |= fresh;
    for (key, value) in attrs {
        changed |= group.insert(key.clone(), value.clone()).as_ref() != Some(value);
    }
    Ok(changed)
}

fn attrs_of<'a>(schema: &'a mut Schema, path: &str) -> Result<&'a mut Attrs> {
    if schema.groups.contains_key(path) {
        return schema.groups.get_mut(path).ok_or_else(|| Error::not_found("the group no longer exists"));
    }
    let id = schema.resolve(path).map(|v| v.id).ok_or_else(|| no_such(schema, path))?;
    schema
        .variables
        .get_mut(&id)
        .map(|v| &mut v.attrs)
        .ok_or_else(|| Error::not_found("the variable no longer exists"))
}

fn set_attrs(schema: &mut Schema, path: &str, changes: &BTreeMap<String, Option<Value>>) -> Result<bool> {
    check_attrs(path, changes.iter().filter(|(_, value)| value.is_some()).map(|(name, _)| name))?;
    let attrs = attrs_of(schema, path)?;
    let mut changed = false;
    for (key, value) in changes {
        match value {
            Some(value) => changed |= attrs.insert(key.clone(), value.clone()).as_ref() != Some(value),
            None if attrs.remove(key).is_some() => changed = true,
            None => return Err(Error::not_found(format!("\"{path}\" has no attribute \"{key}\""))),
        }
    }
    Ok(changed)
}

fn resize(schema: &mut Schema, path: &str, shape: &[u64], version: u64) -> Result<bool> {
    let id = schema.resolve(path).map(|v| v.id).ok_or_else(|| no_such(schema, path))?;
    let Some(variable) = schema.variables.get_mut(&id) else {
        return Err(Error::not_found("the variable no longer exists"));
    };
    if variable.local {
        return Err(Error::invalid(format!("\"{path}\" is a local variable: it has no shape to set")));
    }
    if let Some(derived) = &variable.derived {
        let inputs: Vec<&str> = derived.inputs.iter().map(|input| input.name.as_str()).collect();
        return Err(Error::invalid(format!(
            "\"{path}\" is derived and has the shape of its inputs; resize {}",
            inputs.join(", ")
        )));
    }
    if shape.len() != variable.shape.len() {
        return Err(Error::invalid(format!(
            "\"{path}\" has {} dimensions (the step axis aside), the new shape {}",
            variable.shape.len(),
            shape.len()
        )));
    }
    let bytes =
        shape.iter().try_fold(variable.dtype.item_size().max(1) as u64, |c, n| c.checked_mul((*n).max(1)));
    if bytes.is_none_or(|b| i64::try_from(b).is_err()) {
        return Err(Error::invalid(format!("\"{path}\": the new shape is too large")));
    }
    if shape == variable.shape {
        return Ok(false);
    }
    if shape.iter().zip(&variable.shape).any(|(new, old)| new < old) {
        variable.clips.push((version, shape.to_vec()));
    }
    variable.shape = shape.to_vec();
    Ok(true)
}

fn inside(path: &str, group: &str) -> bool {
    path == group || (path.starts_with(group) && path.as_bytes().get(group.len()) == Some(&b'/'))
}

fn rename(schema: &mut Schema, from: &str, to: &str) -> Result<bool> {
    let to = checked(to, "variable or group")?;
    if from == to {
        return if schema.names.contains_key(from) || schema.groups.contains_key(from) {
            Ok(false)
        } else {
            Err(no_such(schema, from))
        };
    }
    if schema.names.contains_key(to) || schema.groups.contains_key(to) {
        return Err(Error::conflict(format!("cannot rename \"{from}\": \"{to}\" exists")));
    }
    if let Some(name) = schema.names.remove(from) {
        make_parents(schema, to)?;
        schema.names.insert(to.to_string(), name);
        return Ok(true);
    }
    if from.is_empty() || !schema.groups.contains_key(from) {
        return Err(no_such(schema, from));
    }
    if inside(to, from) {
        return Err(Error::invalid(format!("cannot move the group \"{from}\" into itself")));
    }
    make_parents(schema, to)?;
    let moved = |path: &str| format!("{to}{}", &path[from.len()..]);
    let groups = std::mem::take(&mut schema.groups);
    schema.groups =
        groups.into_iter().map(|(p, a)| if inside(&p, from) { (moved(&p), a) } else { (p, a) }).collect();
    let names = std::mem::take(&mut schema.names);
    schema.names =
        names.into_iter().map(|(p, n)| if inside(&p, from) { (moved(&p), n) } else { (p, n) }).collect();
    Ok(true)
}

fn delete(schema: &mut Schema, path: &str) -> Result<bool> {
    if schema.names.contains_key(path) {
        schema.names.remove(path);
    } else if !path.is_empty() && schema.groups.contains_key(path) {
        schema.groups.retain(|p, _| !inside(p, path));
        schema.names.retain(|p, _| !inside(p, path));
    } else {
        return Err(no_such(schema, path));
    }
    let named: HashSet<u32> = schema
        .names
        .values()
        .filter_map(|n| if let Name::Variable(id) = n { Some(*id) } else { None })
        .collect();
    schema.variables.retain(|id, _| named.contains(id));
    Ok(true)
}

fn link(schema: &mut Schema, path: &str, target: &str) -> Result<bool> {
    let path = checked(path, "link")?;
    let target = checked(target, "link target")?;
    if schema.names.get(path) == Some(&Name::Link(target.to_string())) {
        return Ok(false);
    }
    if schema.names.contains_key(path) || schema.groups.contains_key(path) {
        return Err(Error::conflict(format!("cannot link \"{path}\": it exists")));
    }
    make_parents(schema, path)?;
    schema.names.insert(path.to_string(), Name::Link(target.to_string()));
    Ok(true)
}

/// Stores the text in the schema. Returns `false` if it is there already.
fn keep(schema: &mut Schema, new: &Declaration) -> Result<bool> {
    if schema.declarations.contains(new) {
        return Ok(false);
    }
    let bytes: usize = schema.declarations.iter().map(|d| d.text.len()).sum();
    if schema.declarations.len() >= MAX_DECLARATIONS
        || bytes + new.text.len() > MAX_DECLARED
        || new.values.len() > MAX_VALUES
    {
        return Err(Error::unsupported(format!(
            "{} texts of {bytes} bytes are declared; {MAX_DECLARATIONS} of {MAX_DECLARED} bytes together are possible",
            schema.declarations.len()
        )));
    }
    let program = parsed(new)?;
    for old in &schema.declarations {
        let old = parsed(old)?;
        let twice = program.fragments().find(|f| old.fragments().any(|o| o.name == f.name));
        if let Some(fragment) = twice {
            return Err(Error::conflict(format!(
                "a fragment \"{}\" is declared by another text, or with other values of parameters; choose another name",
                fragment.name
            )));
        }
    }
    layout::check(schema, new, &program)?;
    schema.declarations.push(new.clone());
    Ok(true)
}
