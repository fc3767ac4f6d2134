//! Deferred creation: variables are created in the commit that takes their first values, and in a flush every
//! rank knows their ids without a message.
//!
//! Why not a commit for them before that of the values: one rank made it while the others waited, and each of
//! them then read back a schema of all datasets, of which it needs only those that it writes.
//!
//! Invariants
//! - ids are assigned in the order of objects, from the first free one in a schema that all ranks have, and
//!   trees are the same on all ranks, as the flush has verified;
//! - while a deferred creation stands, and from the moment when the ranks state their schema, no rank creates
//!   variables in another way;
//! - uids are derived from the opening and the object. So leftovers of a killed program are never mistaken:
//!   without the commit that creates them, no reader takes blocks of deferred variables.

use drystone::format::schema::{Schema, Variable};
use drystone::format::value::Value;
use drystone::{Error, ErrorKind, NewVariable, SchemaOp};

use crate::file::heap::{CATALOGUE, HEAP};
use crate::file::state::{Deferred, FileState};
use crate::file::variables::{OBJECT, bytes_variable};
use crate::library::failure::{Failure, Result};
use crate::model::element;
use crate::model::tree::{Body, Id, Object, Space};

/// The uid of the variable of an object: different for each opening, and never 0.
fn uid(session: u64, id: Id) -> u64 {
    // The mixer of splitmix64: neighbours get unrelated numbers.
    let mut x = session ^ id.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (x ^ (x >> 31)).max(1)
}

/// Creates a variable with an id and a uid; `false` if its path is taken or invalid.
fn create(
    schema: &mut Schema,
    path: &str,
    new: Box<NewVariable>,
    id: u32,
    uid: u64,
) -> (bool, Box<NewVariable>) {
    let op = SchemaOp::CreateVariable(path.to_string(), new);
    let created = schema.next_id == id && matches!(op.apply(schema, 0), Ok(true));
    if let (true, Some(variable)) = (created, schema.variables.get_mut(&id)) {
        variable.uid = uid;
    }
    match op {
        SchemaOp::CreateVariable(_, new) => (created, new),
        _ => (created, Box::new(bytes_variable())),
    }
}

impl FileState {
    /// Whether it is a dataset without a variable.
    pub(crate) fn lacks_variable(object: &Object) -> bool {
        let Body::Dataset(dataset) = &object.body else { return false };
        dataset.variable.is_none() && dataset.space != Space::Null
    }

    /// Assigns the variables that ranks of this opening have created between flushes to their datasets.
    pub(crate) fn adopt_variables(&mut self) {
        let Some(session) = self.session else { return };
        let schema = self.container.schema();
        for (id, variable) in schema.variables.range(self.adopted..) {
            let Some(Value::Text(whose)) = variable.attrs.get(OBJECT) else { continue };
            let Some((object, of)) = whose.split_once(" of ") else { continue };
            let (Ok(object), true) = (object.parse::<Id>(), of == format!("{session:016x}")) else {
                continue;
            };
            if let Some(dataset) = self.tree.dataset_mut(object).filter(|d| d.variable.is_none()) {
                dataset.variable = Some((*id, variable.uid));
                self.dirty = true;
            }
        }
        self.adopted = schema.next_id;
    }

    /// Defers the creation of variables for all datasets that have none; `commits`: this rank will create
    /// them. All ranks have the same schema and the same tree.
    pub(crate) fn defer(&mut self, session: u64, commits: bool) -> Result<()> {
        let base = self.container.schema();
        let mut schema = commits.then(|| (*base).clone());
        let mut next = base.next_id;
        let mut free = || {
            let id = next;
            next = next.checked_add(1).ok_or_else(|| Failure::unsupported("2^32 variables were created"))?;
            Ok::<u32, Failure>(id)
        };
        for (path, number) in [(CATALOGUE, 0), (HEAP, 1)] {
            if base.resolve(path).is_none() {
                let id = free()?;
                let uid = uid(session, u64::MAX - number);
                if let Some(schema) = &mut schema
                    && !create(schema, path, Box::new(bytes_variable()), id, uid).0
                {
                    return Err(Failure::write(format!("the variable {path} cannot be created")));
                }
                self.variables.insert(id, path.to_string());
            }
        }
        let missing: Vec<Id> = self
            .tree
            .objects
            .iter()
            .filter(|(_, object)| Self::lacks_variable(object))
            .map(|(id, _)| *id)
            .collect();
        for id in missing {
            let uid = uid(session, id);
            let variable = free()?;
            let named = self.name_for(id);
            let Some(dataset) = self.tree.dataset_mut(id) else { continue };
            if let Some(schema) = &mut schema {
                let unfit =
                    || Failure::unsupported(format!("dataset {id} cannot be stored: no variable fits it"));
                let mut new = Box::new(element::variable(dataset).ok_or_else(unfit)?);
                let own = (1..1000).map(|n| format!(".hdf5/data/{id}-{session:016x}-{n}"));
                let mut path = None;
                for candidate in named.into_iter().chain(own) {
                    let (created, back) = create(schema, &candidate, new, variable, uid);
                    if created {
                        path = Some(candidate);
                        break;
                    }
                    new = back;
                }
                self.variables.insert(variable, path.ok_or_else(unfit)?);
            }
            dataset.variable = Some((variable, uid));
        }
        self.dirty = true;
        let schemas = schema.map(|schema| (base.clone(), schema));
        self.deferred = Some(Deferred { from: base.next_id, schemas });
        Ok(())
    }

    /// The path of a dataset's variable, from its name in HDF5.
    fn name_for(&self, id: Id) -> Option<String> {
        let path = self.named.get(&id)?.trim_matches('/');
        let plain = drystone::format::schema::check_path(path).is_ok() && !path.starts_with(".hdf5");
        plain.then(|| path.to_string())
    }

    /// A deferred variable with its path (or, where only the committing rank knows that, one for messages).
    pub(crate) fn deferred_variable(
        &self,
        id: u32,
        dataset: Option<Id>,
    ) -> Result<Option<(String, Variable)>> {
        let Some(deferred) = self.deferred.as_ref().filter(|p| id >= p.from) else { return Ok(None) };
        if let Some((_, schema)) = &deferred.schemas {
            let found = schema.variables.get(&id).cloned();
            return Ok(self.variables.get(&id).cloned().zip(found));
        }
        let Some((of, dataset)) = dataset.and_then(|id| Some((id, self.tree.dataset(id)?))) else {
            return Ok(None);
        };
        let Some((_, uid)) = dataset.variable.filter(|(variable, _)| *variable == id) else {
            return Ok(None);
        };
        let path = self.name_for(of).unwrap_or_else(|| format!(".hdf5/data/{of}"));
        let new = element::variable(dataset).map(|new| new.declared(&path, id, uid)).transpose()?;
        Ok(new.map(|variable| (path, variable)))
    }

    /// The schema after the commit, on the rank that commits it.
    pub(crate) fn deferred_schema(&self) -> Option<&Schema> {
        self.deferred.as_ref()?.schemas.as_ref().map(|(_, schema)| schema)
    }

    /// Creates the deferred variables, on the rank that commits: `lengths` are those of catalogue and heap.
    pub(crate) fn commit_deferred(&mut self, writers: &[u64], lengths: [(&str, u64); 2]) -> Result<()> {
        let deferred = self.deferred.as_ref().and_then(|deferred| deferred.schemas.as_ref());
        let variables = &self.variables;
        self.container.commit_sealed(writers, |schema, version| {
            let mut changed = false;
            if let Some((base, made)) = deferred {
                let from = base.next_id;
                if *schema == **base {
                    schema.clone_from(made);
                } else {
                    // Another process has committed meanwhile (a publisher, say): the variables are created
                    // on top of that.
                    add(schema, made, from, variables)?;
                }
                schema.variables.range_mut(from..).for_each(|(_, variable)| variable.created = version);
                changed = true;
            }
            for (path, length) in lengths {
                let Some(id) = schema.resolve(path).map(|variable| variable.id) else { continue };
                if let Some(extent) = schema.variables.get_mut(&id).and_then(|v| v.shape.first_mut())
                    && *extent < length
                {
                    *extent = length;
                    changed = true;
                }
            }
            Ok(changed)
        })?;
        self.deferred = None;
        Ok(())
    }

    /// After a failed flush, on this rank or another: only those deferred variables exist that the container
    /// has.
    pub(crate) fn end_deferred(&mut self) {
        let Some(deferred) = self.deferred.take() else { return };
        let _ = self.container.refresh();
        self.learn_variables();
        let schema = self.container.schema();
        let there = |(id, uid): (u32, u64)| schema.variables.get(&id).is_some_and(|v| v.uid == uid);
        for object in self.tree.objects.values_mut() {
            if let Body::Dataset(dataset) = &mut object.body
                && dataset.variable.is_some_and(|variable| variable.0 >= deferred.from && !there(variable))
            {
                dataset.variable = None;
            }
        }
    }
}

/// Creates the variables of `made` with `from` and later ids, under the same ids.
fn add(
    schema: &mut Schema,
    made: &Schema,
    from: u32,
    paths: &std::collections::BTreeMap<u32, String>,
) -> drystone::Result<()> {
    for (id, variable) in made.variables.range(from..) {
        let free = schema.next_id == *id && paths.get(id).is_some_and(|path| schema.follow(path).is_none());
        let Some(path) = paths.get(id).filter(|_| free) else {
            let why = "another program has created variables in the container while the file was flushed";
            return Err(Error::new(ErrorKind::Conflict, why));
        };
        for (at, _) in path.match_indices('/') {
            schema.groups.entry(path[..at].to_string()).or_default();
        }
        schema.next_id += 1;
        schema.names.insert(path.clone(), drystone::format::schema::Name::Variable(*id));
        schema.variables.insert(*id, variable.clone());
    }
    Ok(())
}
