//! The versioned schema: groups, variables, names, attributes (docs/format/manifest.md, Schema section).

use std::collections::BTreeMap;

use crate::Corrupt;
use crate::cbor::{Sink, Source};
use crate::derived::Derived;
use crate::dtype::DType;
use crate::meaning::Meaning;
use crate::value::Value;

/// Attributes of a group or variable.
pub type Attrs = BTreeMap<String, Value>;

/// What a name refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Name {
    /// A variable by its permanent id.
    Variable(u32),
    /// Another path.
    Link(String),
}

/// One variable.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub struct Variable {
    pub id: u32,
    pub dtype: DType,
    /// Extents, without the step axis.
    pub shape: Vec<u64>,
    pub growable: Vec<bool>,
    /// One name per dimension, or none.
    pub dims: Vec<String>,
    pub steps: bool,
    pub local: bool,
    /// Canonical text of the codec chain; empty if there is none.
    pub transform: String,
    pub chunks: Option<Vec<u64>>,
    /// Bytes of one element in memory order; `None` if all are zero.
    pub fill: Option<Vec<u8>>,
    pub attrs: Attrs,
    pub created: u64,
    /// Entries of commits up to and including this one are cut to the shape.
    pub clips: Vec<(u64, Vec<u64>)>,
    /// Random number drawn at creation, which distinguishes the variable from another one with the same id whose
    /// creation a power cut lost; 0 if there is none.
    pub uid: u64,
    /// The expected mix of reads, in the language of docs/reference/language.md; empty if none was declared.
    pub access: String,
    /// What the elements represent, if not only themselves.
    pub meaning: Option<Meaning>,
    /// How it is computed from other variables, if it is.
    pub derived: Option<Box<Derived>>,
}

/// The whole schema of one snapshot.
#[derive(Debug, Clone, PartialEq, Default)]
#[allow(missing_docs)]
pub struct Schema {
    pub next_id: u32,
    /// Path to attributes; "" is the root and always present.
    pub groups: BTreeMap<String, Attrs>,
    pub variables: BTreeMap<u32, Variable>,
    pub names: BTreeMap<String, Name>,
    /// Texts in the dataset language, in the order in which they were declared.
    pub declarations: Vec<Declaration>,
}

/// A text in the dataset language, and the values of its parameters.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Declaration {
    /// The text, as given. This crate does not interpret it.
    pub text: String,
    /// Values of its parameters.
    pub values: BTreeMap<String, i64>,
}

/// Most declared texts in one schema.
pub const MAX_DECLARATIONS: usize = 256;

/// Most bytes of all declared texts together.
pub const MAX_DECLARED: usize = 1 << 20;

/// Most parameters of one declared text.
pub const MAX_VALUES: usize = 1024;

/// Most links that are followed; beyond them a path is circular.
pub const MAX_LINKS: usize = 16;

/// Most bytes of a path.
pub const MAX_PATH: usize = 1024;

/// Most bytes of the expected mix of reads of a variable.
pub const MAX_ACCESS: usize = 4096;

/// Most components of a path.
pub const MAX_COMPONENTS: usize = 64;

/// Checks a path: components separated by `/`, none empty, `.` or `..`, no NUL.
pub fn check_path(path: &str) -> Result<(), String> {
    if path.is_empty() {
        return Err("the name is empty".into());
    }
    if path.len() > MAX_PATH {
        return Err(format!("a path of {} bytes; {MAX_PATH} are possible", path.len()));
    }
    if path.contains('\0') {
        return Err(format!("{path:?} contains a NUL character"));
    }
    if path.split('/').count() > MAX_COMPONENTS {
        return Err(format!("{path:?} has more than {MAX_COMPONENTS} components"));
    }
    match path.split('/').find(|component| matches!(*component, "" | "." | "..")) {
        Some(component) => Err(format!("{path:?} has the component {component:?}")),
        None => Ok(()),
    }
}

impl Variable {
    /// Checks that shapes, names and fill value are consistent.
    pub fn validate(&self) -> Result<(), String> {
        let ndim = self.shape.len();
        let fits = |n: usize| n == ndim;
        self.dtype.validate()?;
        if ndim > crate::MAX_NDIM {
            return Err(format!("{ndim} dimensions; {} are possible", crate::MAX_NDIM));
        }
        if let Some(extent) = self.shape.iter().find(|&&extent| extent > i64::MAX as u64) {
            return Err(format!("an extent of {extent} is too large"));
        }
        if !fits(self.growable.len()) {
            return Err(format!("{} growable flags for {ndim} dimensions", self.growable.len()));
        }
        if !self.dims.is_empty() && !fits(self.dims.len()) {
            return Err(format!("{} dimension names for {ndim} dimensions", self.dims.len()));
        }
        if let Some(chunks) = &self.chunks
            && (!fits(chunks.len()) && !self.local || chunks.len() > crate::MAX_NDIM || chunks.contains(&0))
        {
            return Err(format!("chunks {chunks:?} for {ndim} dimensions"));
        }
        if let Some(fill) = &self.fill
            && (self.dtype.is_blob() || fill.len() as u64 != u64::from(self.dtype.item_size()))
        {
            return Err(format!("a fill value of {} bytes for {}", fill.len(), self.dtype));
        }
        if let Some(fill) = &self.fill
            && let Some(leaf) = self.dtype.leaves().iter().find(|leaf| leaf.fills_with_blob(fill))
        {
            return Err(format!("a fill value of member {:?}, which is a {}", leaf.path, leaf.dtype));
        }
        if self.access.len() > MAX_ACCESS {
            return Err(format!("a mix of reads of {} bytes; {MAX_ACCESS} are possible", self.access.len()));
        }
        if let Some(meaning) = &self.meaning {
            meaning.validate(&self.dtype)?;
        }
        let mut above = None;
        for (commit, shape) in &self.clips {
            if !fits(shape.len()) || above.is_some_and(|a| *commit < a) {
                return Err(format!("clip of commit {commit} to {shape:?}"));
            }
            above = Some(*commit);
        }
        if let Some(derived) = &self.derived {
            if self.local {
                return Err("a local variable that is derived".into());
            }
            derived.validate(self.id)?;
        }
        self.attrs.values().try_for_each(Value::validate)
    }

    fn write(&self, out: &mut Sink) {
        let rare = [self.uid != 0, !self.access.is_empty(), self.meaning.is_some(), self.derived.is_some()];
        out.map(13 + rare.into_iter().filter(|there| *there).count()).u64(0).u64(self.id.into()).u64(1);
        self.dtype.write(out);
        write_extents(out.u64(2), &self.shape);
        out.u64(3).array(self.growable.len());
        self.growable.iter().for_each(|&g| _ = out.bool(g));
        out.u64(4).array(self.dims.len());
        self.dims.iter().for_each(|d| _ = out.text(d));
        out.u64(5).bool(self.steps).u64(6).bool(self.local).u64(7).text(&self.transform).u64(8);
        match &self.chunks {
            Some(chunks) => write_extents(out, chunks),
            None => _ = out.null(),
        }
        out.u64(9);
        match &self.fill {
            Some(fill) => out.bytes(fill),
            None => out.null(),
        };
        write_attrs(out.u64(10), &self.attrs);
        out.u64(11).u64(self.created).u64(12).array(self.clips.len());
        for (commit, shape) in &self.clips {
            write_extents(out.array(2).u64(*commit), shape);
        }
        if self.uid != 0 {
            out.u64(13).u64(self.uid);
        }
        if !self.access.is_empty() {
            out.u64(14).text(&self.access);
        }
        if let Some(meaning) = &self.meaning {
            meaning.write(out.u64(15));
        }
        if let Some(derived) = &self.derived {
            derived.write(out.u64(16));
        }
    }

    fn read(source: &mut Source<'_>) -> Result<Self, Corrupt> {
        let at = source.position();
        let (mut id, mut dtype, mut shape, mut growable, mut dims) = (None, None, None, None, None);
        let (mut steps, mut local, mut transform, mut chunks, mut fill) = (None, None, None, None, None);
        let (mut attrs, mut created, mut clips, mut uid, mut access) = (None, None, None, 0, String::new());
        let (mut meaning, mut derived) = (None, None);
        source.fields(|source, key| {
            match key {
                0 => id = Some(source.u32()?),
                1 => dtype = Some(DType::read(source)?),
                2 => shape = Some(source.list(Source::u64)?),
                3 => growable = Some(source.list(Source::bool)?),
                4 => dims = Some(source.list(|s| Ok(s.text()?.to_owned()))?),
                5 => steps = Some(source.bool()?),
                6 => local = Some(source.bool()?),
                7 => transform = Some(source.text()?.to_owned()),
                8 if source.null()? => {}
                8 => chunks = Some(source.list(Source::u64)?),
                9 if source.null()? => {}
                9 => fill = Some(source.bytes()?.to_vec()),
                10 => attrs = Some(read_attrs(source)?),
                11 => created = Some(source.u64()?),
                12 => {
                    clips = Some(source.list(|source| {
                        source.tuple(2)?;
                        Ok((source.u64()?, source.list(Source::u64)?))
                    })?)
                }
                13 => uid = source.u64()?,
                14 => access = source.text()?.to_owned(),
                15 => meaning = Some(Meaning::read(source)?),
                16 => derived = Some(Box::new(Derived::read(source)?)),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        let variable = Variable {
            id: source.need(id, "variable id")?,
            dtype: source.need(dtype, "variable type")?,
            shape: source.need(shape, "variable shape")?,
            growable: source.need(growable, "growable flags")?,
            dims: dims.unwrap_or_default(),
            steps: steps.unwrap_or_default(),
            local: local.unwrap_or_default(),
            transform: transform.unwrap_or_default(),
            chunks,
            fill,
            attrs: attrs.unwrap_or_default(),
            created: created.unwrap_or_default(),
            clips: clips.unwrap_or_default(),
            uid,
            access,
            meaning,
            derived,
        };
        variable.validate().map_err(|e| Corrupt::new(format!("variable {}: {e}", variable.id), at))?;
        Ok(variable)
    }
}

impl Declaration {
    fn write(&self, out: &mut Sink) {
        out.array(2).text(&self.text).map(self.values.len());
        for (name, value) in &self.values {
            out.text(name).integer((*value).into());
        }
    }

    fn read(source: &mut Source<'_>) -> Result<Self, Corrupt> {
        source.tuple(2)?;
        let text = source.text()?.to_owned();
        let mut values = BTreeMap::new();
        source.entries(|source, name| {
            let value = source.integer()?;
            let value = i64::try_from(value)
                .map_err(|_| source.corrupt(format!("the parameter {name:?} is {value}")))?;
            values.insert(name.to_owned(), value);
            Ok(())
        })?;
        Ok(Declaration { text, values })
    }
}

fn write_extents(out: &mut Sink, extents: &[u64]) {
    out.array(extents.len());
    extents.iter().for_each(|&n| _ = out.u64(n));
}

fn write_attrs(out: &mut Sink, attrs: &Attrs) {
    out.map(attrs.len());
    for (key, value) in attrs {
        out.text(key);
        value.write(out);
    }
}

fn read_attrs(source: &mut Source<'_>) -> Result<Attrs, Corrupt> {
    let mut attrs = Attrs::new();
    source.entries(|source, key| {
        attrs.insert(key.to_owned(), Value::read(source)?);
        Ok(())
    })?;
    Ok(attrs)
}

impl Schema {
    /// The schema of an empty container: the root group.
    pub fn empty() -> Self {
        let groups = BTreeMap::from([(String::new(), Attrs::new())]);
        Schema { groups, ..Schema::default() }
    }

    /// The variable that a path names, through links to variables and to groups. `None` if there is none, or links are
    /// circular.
    pub fn resolve(&self, path: &str) -> Option<&Variable> {
        let found = match self.names.get(path) {
            Some(Name::Variable(id)) => Some(id),
            _ => match self.names.get(&self.follow(path)?) {
                Some(Name::Variable(id)) => Some(id),
                _ => None,
            },
        };
        self.variables.get(found?)
    }

    fn is_derived(&self, id: u32) -> bool {
        self.variables.get(&id).is_some_and(|variable| variable.derived.is_some())
    }

    /// Every variable with its path, in the order of paths. Links are not followed.
    pub fn named(&self) -> impl Iterator<Item = (&str, &Variable)> {
        self.names.iter().filter_map(|(path, name)| match name {
            Name::Variable(id) => Some((path.as_str(), self.variables.get(id)?)),
            Name::Link(_) => None,
        })
    }

    /// The path of the variable or group that a path refers to, with links followed; `None` if there is none.
    pub fn follow(&self, path: &str) -> Option<String> {
        let mut path = path.to_owned();
        for _ in 0..=MAX_LINKS {
            match self.names.get(&path) {
                Some(Name::Variable(_)) => return Some(path),
                Some(Name::Link(target)) => path = target.clone(),
                None if self.groups.contains_key(&path) => return Some(path),
                None => path = self.through_a_linked_group(&path)?,
            }
        }
        None
    }

    /// The path with its longest linked ancestor replaced by the link's target.
    fn through_a_linked_group(&self, path: &str) -> Option<String> {
        path.rmatch_indices('/').find_map(|(at, _)| {
            let (group, rest) = path.split_at(at);
            match self.names.get(group) {
                Some(Name::Link(target)) if target.len() + rest.len() <= MAX_PATH => {
                    Some(format!("{target}{rest}"))
                }
                _ => None,
            }
        })
    }

    /// Checks ids, paths, targets and every variable: a valid schema is stored and read back exactly.
    pub fn validate(&self) -> Result<(), String> {
        if !self.groups.contains_key("") {
            return Err("the root group is missing".into());
        }
        for (path, attrs) in &self.groups {
            if !path.is_empty() {
                check_path(path)?;
            }
            attrs.values().try_for_each(Value::validate)?;
        }
        for (&id, variable) in &self.variables {
            if variable.id != id || id >= self.next_id {
                return Err(format!(
                    "variable {id} has the id {}, the next is {}",
                    variable.id, self.next_id
                ));
            }
            variable.validate().map_err(|e| format!("variable {id}: {e}"))?;
        }
        for (path, name) in &self.names {
            check_path(path)?;
            match name {
                Name::Variable(id) if !self.variables.contains_key(id) => {
                    return Err(format!("{path:?} names variable {id}, which is not there"));
                }
                Name::Link(target) => check_path(target)?,
                Name::Variable(_) => {}
            }
        }
        self.validate_declarations()
    }

    fn validate_declarations(&self) -> Result<(), String> {
        let bytes: usize = self.declarations.iter().map(|d| d.text.len()).sum();
        if self.declarations.len() > MAX_DECLARATIONS || bytes > MAX_DECLARED {
            return Err(format!(
                "{} declared texts of {bytes} bytes; {MAX_DECLARATIONS} of {MAX_DECLARED} bytes together are possible",
                self.declarations.len()
            ));
        }
        match self.declarations.iter().map(|d| d.values.len()).find(|&n| n > MAX_VALUES) {
            Some(n) => Err(format!("{n} values of parameters; {MAX_VALUES} are possible")),
            None => Ok(()),
        }
    }

    /// The bytes of the schema section. `decode` refuses what `validate` refuses.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Sink::new();
        let declared = usize::from(!self.declarations.is_empty());
        out.map(4 + declared).u64(0).u64(self.next_id.into()).u64(1).map(self.groups.len());
        for (path, attrs) in &self.groups {
            write_attrs(out.text(path), attrs);
        }
        out.u64(2).array(self.variables.len());
        self.variables.values().for_each(|v| v.write(&mut out));
        out.u64(3).map(self.names.len());
        for (path, name) in &self.names {
            out.text(path).array(2);
            match name {
                // A reader that does not know definitions then refuses the name, rather than showing fill values.
                Name::Variable(id) => out.u64(if self.is_derived(*id) { 2 } else { 0 }).u64((*id).into()),
                Name::Link(target) => out.u64(1).text(target),
            };
        }
        if !self.declarations.is_empty() {
            out.u64(4).array(self.declarations.len());
            self.declarations.iter().for_each(|d| d.write(&mut out));
        }
        out.finish()
    }

    /// Decodes a schema section; everything in it has passed `validate`.
    pub fn decode(bytes: &[u8]) -> Result<Self, Corrupt> {
        let mut source = Source::new(bytes);
        let mut next_id = None;
        let mut schema = Schema::default();
        source.fields(|source, key| {
            match key {
                0 => next_id = Some(source.u32()?),
                1 => source.entries(|source, path| {
                    schema.groups.insert(path.to_owned(), read_attrs(source)?);
                    Ok(())
                })?,
                2 => {
                    for variable in source.list(Variable::read)? {
                        let id = variable.id;
                        if schema.variables.insert(id, variable).is_some() {
                            return Err(source.corrupt(format!("two variables with the id {id}")));
                        }
                    }
                }
                3 => source.entries(|source, path| {
                    source.tuple(2)?;
                    let name = match source.u64()? {
                        kind @ (0 | 2) => {
                            let id = source.u32()?;
                            if schema.is_derived(id) != (kind == 2) {
                                let what = format!("the name {path:?} of variable {id} is of kind {kind}");
                                return Err(source.corrupt(what));
                            }
                            Name::Variable(id)
                        }
                        1 => Name::Link(source.text()?.to_owned()),
                        kind => return Err(source.corrupt(format!("unknown kind of name {kind}"))),
                    };
                    schema.names.insert(path.to_owned(), name);
                    Ok(())
                })?,
                4 => schema.declarations = source.list(Declaration::read)?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        source.end()?;
        schema.next_id = source.need(next_id, "next variable id")?;
        schema.validate().map_err(|e| source.corrupt(format!("schema: {e}")))?;
        Ok(schema)
    }
}
