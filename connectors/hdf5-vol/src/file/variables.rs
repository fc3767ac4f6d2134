//! The variables of a file: one per dataset, and those for catalogue and heap. They are created in a commit
//! of their own, where values must be put before a flush or by a program of one process; with several ranks
//! they are created in a flush ([`crate::file::deferred`]).
//!
//! Invariant: where several ranks may create a variable, it records the opening and object that it was
//! created for.

use std::collections::BTreeSet;

use drystone::format::dtype::{DType, Scalar};
use drystone::format::schema::{Attrs, Schema, Variable, check_path};
use drystone::format::value::Value;
use drystone::{NewVariable, SchemaOp};

use crate::file::heap::{CATALOGUE, HEAP};
use crate::file::state::FileState;
use crate::library::failure::{Failure, Result};
use crate::model::element;
use crate::model::tree::Body;

/// Attribute of a variable of several ranks: the opening and object that it was created for.
pub(crate) const OBJECT: &str = "hdf5_object";

/// A variable of bytes that grows.
pub(crate) fn bytes_variable() -> NewVariable {
    NewVariable {
        dtype: DType::Scalar(Scalar::U8),
        shape: vec![None],
        dims: Vec::new(),
        steps: false,
        local: false,
        transform: String::new(),
        chunks: None,
        fill: None,
        attrs: Attrs::new(),
        access: String::new(),
        meaning: None,
    }
}

impl FileState {
    /// Learns the path of each variable.
    pub(crate) fn learn_variables(&mut self) {
        let schema = self.container.schema();
        self.variables = schema.named().map(|(path, v)| (v.id, path.to_owned())).collect();
    }

    /// Whether a dataset has no variable.
    pub(crate) fn misses_variables(&self) -> bool {
        self.tree.objects.values().any(Self::lacks_variable)
    }

    /// Whether catalogue and heap have variables.
    pub(crate) fn has_books(&self) -> bool {
        let schema = self.container.schema();
        [CATALOGUE, HEAP].iter().all(|path| schema.resolve(path).is_some())
    }

    /// Creates, in one commit, the variables of all datasets that have none, and extends those whose datasets
    /// have grown.
    ///
    /// Each rank of several does so independently, and creating the same again is no change. An existing
    /// variable records the opening and object that it was created for, so leftovers of a killed program, or
    /// of a rank that did something else, are not mistaken for it.
    pub(crate) fn make_variables(&mut self) -> Result<()> {
        if self.session.is_some() && !self.misses_variables() && self.has_books() {
            return Ok(());
        }
        match self.try_variables()? {
            None => Ok(()),
            Some(_) if self.session.is_some() => {
                self.container.refresh()?; // another rank was first with some of the names
                match self.try_variables()? {
                    None => Ok(()),
                    Some(conflict) => Err(conflict.into()),
                }
            }
            Some(conflict) => Err(conflict.into()),
        }
    }

    /// The error is that of a conflict with another program's variables.
    fn try_variables(&mut self) -> Result<Option<drystone::Error>> {
        let schema = self.container.schema();
        let mut preview: Schema = (*schema).clone();
        let mut ops = Vec::new();
        let mut made = Vec::new();
        for path in [CATALOGUE, HEAP] {
            if preview.resolve(path).is_none() {
                let op = SchemaOp::CreateVariable(path.into(), Box::new(bytes_variable()));
                op.apply(&mut preview, 0)?;
                ops.push(op);
            }
        }
        for (id, object) in &self.tree.objects {
            let Body::Dataset(dataset) = &object.body else { continue };
            if let Some((variable, _)) = dataset.variable {
                if self.session.is_some() {
                    continue; // blocks let it grow; a size set by one rank could cut off what another has put
                }
                if let Some(op) = self.variables.get(&variable).and_then(|path| {
                    let v = preview.variables.get(&variable)?;
                    let shape =
                        element::Element::of(&v.dtype, dataset.dtype.size).count(dataset.space.dims());
                    let grown: Vec<u64> = shape.iter().zip(&v.shape).map(|(n, o)| *n.max(o)).collect();
                    (grown != v.shape).then(|| SchemaOp::Resize(path.clone(), grown))
                }) {
                    ops.push(op);
                }
                continue;
            }
            let Some(mut new) = element::variable(dataset) else { continue };
            let whose = self.session.map(|session| Value::Text(format!("{id} of {session:016x}")));
            if let Some(whose) = &whose {
                new.attrs.insert(OBJECT.into(), whose.clone());
            }
            let named = self.named.get(id).map(|path| path.trim_matches('/').to_string());
            let named = named.filter(|p| check_path(p).is_ok() && !p.starts_with(".hdf5"));
            let own = (1..1000).map(|n| match (self.session, n) {
                (Some(session), n) => format!(".hdf5/data/{id}-{session:016x}-{n}"),
                (None, 1) => format!(".hdf5/data/{id}"),
                (None, n) => format!(".hdf5/data/{id}-{n}"),
            });
            let mut path = None;
            for candidate in named.into_iter().chain(own) {
                let ours = |v: &Variable| whose.is_some() && v.attrs.get(OBJECT) == whose.as_ref();
                if preview.resolve(&candidate).is_some_and(|v| !ours(v)) {
                    continue;
                }
                let there = preview.resolve(&candidate).is_some();
                let op = SchemaOp::CreateVariable(candidate.clone(), Box::new(new.clone()));
                match op.apply(&mut preview, 0) {
                    Ok(_) => {
                        ops.extend((!there).then_some(op)); // the same again is no change
                        path = Some(candidate);
                        break;
                    }
                    Err(e) if preview.resolve(&candidate).is_some_and(ours) => {
                        return Err(Failure::invalid(format!(
                            "another rank has created {candidate} differently: {e}"
                        )));
                    }
                    Err(_) => {}
                }
            }
            let path = path.ok_or_else(|| {
                Failure::unsupported(format!("dataset {id} cannot be stored: no variable fits it"))
            })?;
            made.push((*id, path));
        }
        if ops.is_empty() && made.is_empty() {
            return Ok(None);
        }
        if !ops.is_empty() {
            match self.container.apply(ops) {
                Err(e) if e.kind() == drystone::ErrorKind::Conflict => return Ok(Some(e)),
                done => {
                    let changed = done?;
                    if let Some(head) = &mut self.head {
                        head.check(&self.container, changed)?;
                    }
                }
            }
        }
        let schema = self.container.schema();
        for (id, path) in made {
            let variable = schema.resolve(&path).ok_or_else(|| Failure::write("a new variable is gone"))?;
            self.variables.insert(variable.id, path);
            if let Some(dataset) = self.tree.dataset_mut(id) {
                dataset.variable = Some((variable.id, variable.uid));
            }
        }
        self.dirty = true;
        Ok(None)
    }

    /// The variables that no dataset has.
    pub(crate) fn unused(&self) -> Vec<(u32, String)> {
        let used: BTreeSet<u32> = self
            .tree
            .objects
            .values()
            .filter_map(|o| if let Body::Dataset(d) = &o.body { Some(d.variable?.0) } else { None })
            .collect();
        self.variables
            .iter()
            .filter(|(id, path)| !used.contains(id) && *path != CATALOGUE && *path != HEAP)
            .map(|(id, path)| (*id, path.clone()))
            .collect()
    }

    /// Deletes the variables that no dataset has.
    pub(crate) fn drop_variables(&mut self) -> Result<()> {
        let unused = self.unused();
        if unused.is_empty() {
            return Ok(());
        }
        let delete = unused.iter().map(|(_, path)| SchemaOp::Delete(path.clone())).collect();
        let changed = self.container.apply(delete)?;
        if let Some(head) = &mut self.head {
            head.check(&self.container, changed)?;
        }
        for (id, _) in unused {
            self.variables.remove(&id);
        }
        Ok(())
    }
}
