//! The container handle: every call releases the interpreter lock while the engine works.

mod arguments;
mod held;
mod reports;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use drystone::format::schema::Name;
use drystone::{
    BlockLayout, Compressor, Container, CreateOptions, Definition, Durability, Format, GcOptions, IndexKind,
    Limits, Mode, NewVariable, OpenOptions, PublishOptions, SchemaOp, Scheme, StoreOptions, Targets,
    WriterOptions,
};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::credentials::Callback;
use crate::error::{Result, invalid};
use crate::expression::ExpressionHandle;
use crate::fragment::FragmentHandle;
use crate::progress::watched;
use crate::query::QueryHandle;
use crate::reading::ReadingHandle;
use crate::writer::{WriterHandle, parse_level};
use crate::zarr::ZarrHandle;
use crate::{dtype, key, transform, value};
use arguments::{adopted, normal, parameters, parse_mode, parse_timeout, ranks, tier_folders};
use held::Held;
use reports::{
    CalibrationResult, CommitResult, Described, GcResult, IndexResult, ProfileItem, PublishResult,
    RecoverResult, StagedItem, TierItem, Used, VerifyResult,
};

/// An open container.
#[pyclass(frozen, name = "ContainerHandle", module = "drystone._core")]
pub(crate) struct ContainerHandle {
    container: Held,
}

impl ContainerHandle {
    pub(crate) fn open_container(&self) -> Result<&Container> {
        if self.container.is_closed() {
            return Err(invalid(format!("the container {} is closed", self.container.location())));
        }
        Ok(&self.container)
    }

    fn apply(&self, py: Python<'_>, op: SchemaOp) -> Result<bool> {
        Ok(py.detach(|| self.container.apply(vec![op]))?)
    }
}

#[pymethods]
impl ContainerHandle {
    /// Creates a container in a local directory, or at a URL with options of its store.
    #[staticmethod]
    #[expect(clippy::too_many_arguments, reason = "each is one argument of Python's function")]
    fn create(
        py: Python<'_>,
        path: &str,
        durability: &str,
        targets: Option<Vec<PathBuf>>,
        spread: &str,
        among_files: bool,
        store: Vec<(String, String)>,
        credentials: Option<Py<PyAny>>,
        tiers: Option<Vec<(PathBuf, Option<u64>)>>,
        redundancy: &str,
    ) -> Result<Self> {
        let redundancy = Scheme::parse(redundancy).map_err(invalid)?;
        let durability = Durability::parse(durability).ok_or_else(|| {
            invalid(format!("durability is \"async\", \"durable\" or \"memory\", not \"{durability}\""))
        })?;
        let options = CreateOptions {
            durability,
            tiers: tiers.is_some(),
            redundancy,
            targets: targets.map(|folders| Targets::parse(folders, spread)).transpose()?,
            among_files,
            store: StoreOptions { values: store, credentials: Callback::of(credentials), cache: None },
            ..CreateOptions::default()
        };
        let tiers = tiers.map(tier_folders);
        let container = py.detach(|| {
            let created = Container::create(path, options)?;
            match &tiers {
                Some(tiers) => created.use_tiers(tiers).map(|()| created),
                None => Ok(created),
            }
        })?;
        Ok(ContainerHandle { container: Held::new(container) })
    }

    /// Opens a container in a local directory, or at a URL with options of its store.
    #[staticmethod]
    #[expect(clippy::too_many_arguments, reason = "each is one argument of Python's function")]
    fn open(
        py: Python<'_>,
        path: &str,
        mode: &str,
        targets: Option<Vec<PathBuf>>,
        spread: &str,
        store: Vec<(String, String)>,
        credentials: Option<Py<PyAny>>,
        tiers: Option<Vec<(PathBuf, Option<u64>)>>,
    ) -> Result<Self> {
        let options = OpenOptions {
            targets: targets.map(|folders| Targets::parse(folders, spread)).transpose()?,
            store: StoreOptions { values: store, credentials: Callback::of(credentials), cache: None },
            ..OpenOptions::from(parse_mode(mode)?)
        };
        let container = py.detach(|| {
            let opened = Container::open(path, options)?;
            match tiers {
                Some(tiers) => opened.use_tiers(&tier_folders(tiers)).map(|()| opened),
                None => Ok(opened),
            }
        })?;
        Ok(ContainerHandle { container: Held::new(container) })
    }

    /// Removes the container at a URL, and nothing else.
    #[staticmethod]
    fn remove_url(
        py: Python<'_>,
        url: &str,
        store: Vec<(String, String)>,
        credentials: Option<Py<PyAny>>,
    ) -> Result<()> {
        let options = StoreOptions { values: store, credentials: Callback::of(credentials), cache: None };
        Ok(py.detach(|| Container::remove_url(url, &options))?)
    }

    /// The options of a store that are no secrets.
    #[staticmethod]
    fn public_options(store: Vec<(String, String)>) -> Vec<(String, String)> {
        drystone::public_options(&store)
    }

    /// The folders of the storage targets of the container at a path, and how they are used.
    #[staticmethod]
    fn targets(path: &str) -> Result<Option<(Vec<PathBuf>, &'static str)>> {
        Ok(Container::targets(path)?)
    }

    /// The storage target that holds each object, by key: a folder, or a storage daemon of Ceph.
    #[staticmethod]
    fn holders(
        py: Python<'_>,
        place: &str,
        store: Vec<(String, String)>,
        keys: Vec<String>,
    ) -> Result<Vec<Option<String>>> {
        Ok(py.detach(|| drystone::holders(place, &store, &keys))?)
    }

    /// (weight, extents) of the observed reads of a variable.
    fn learnt_reads(&self, py: Python<'_>, path: &str) -> Result<Vec<(u64, Vec<u64>)>> {
        Ok(py.detach(|| self.container.learnt_reads(path))?)
    }

    fn at(&self, py: Python<'_>, version: &Bound<'_, PyAny>) -> Result<Self> {
        let version = key::unsigned(version, "the snapshot")?;
        let container = py.detach(|| self.container.at(version))?;
        Ok(ContainerHandle { container: Held::new(container) })
    }

    /// `drain`: whether to drain its tiers first.
    fn close(&self, py: Python<'_>, drain: bool) -> Result<()> {
        Ok(py.detach(|| match drain {
            true => self.container.finish(),
            false => {
                self.container.close();
                Ok(())
            }
        })?)
    }

    /// Drains the tiers of this node. `timeout` in seconds; none: no limit.
    fn drain(&self, py: Python<'_>, timeout: Option<f64>, progress: Option<Py<PyAny>>) -> Result<()> {
        let timeout = parse_timeout(timeout)?;
        watched(py, progress.as_ref(), |progress| self.container.drain(timeout, progress))
    }

    /// Informs the drain whether the application computes.
    fn computing(&self, on: bool) {
        self.container.computing(on);
    }

    /// The redundancy of data in tiers against the loss of nodes.
    #[getter]
    fn redundancy(&self) -> String {
        self.container.redundancy().to_string()
    }

    /// Tiers: folder, bytes, undrained bytes, oldest undrained step, bytes per second of the drain, hits, and
    /// why it is not used.
    fn tiers(&self) -> Vec<TierItem> {
        self.container.tiers().into_iter().map(reports::tier).collect()
    }

    /// Number and bytes of the files that programs wrote through a mount; `None` if there never were any.
    fn byte_files(&self, py: Python<'_>) -> Result<Option<(u64, u64)>> {
        let usage = py.detach(|| self.container.files_usage())?;
        Ok(usage.map(|usage| (usage.files, usage.bytes)))
    }

    /// Parts that are not home: node, writer and part number, step, bytes, and whether this node has lost it.
    fn staged(&self, py: Python<'_>) -> Result<Vec<StagedItem>> {
        let found = py.detach(|| self.container.staged())?;
        Ok(found.into_iter().map(reports::staged).collect())
    }

    /// Why the drain is stuck.
    fn drain_failure(&self) -> Option<String> {
        self.container.drain_failure().map(|error| error.to_string())
    }

    /// Files that the snapshot needs and that are missing or damaged: (file, what is wrong).
    fn lost(&self, py: Python<'_>) -> Result<Vec<(String, String)>> {
        let found = py.detach(|| self.container.lost())?;
        Ok(found.into_iter().map(|damage| (damage.key, damage.message)).collect())
    }

    /// Opens a container with lost files, to read what is left.
    #[staticmethod]
    fn open_damaged(py: Python<'_>, path: &str) -> Result<Self> {
        let options = OpenOptions { damaged: true, ..OpenOptions::from(Mode::Read) };
        let container = py.detach(|| Container::open(path, options))?;
        Ok(ContainerHandle { container: Held::new(container) })
    }

    #[getter]
    fn closed(&self) -> bool {
        self.container.is_closed()
    }

    #[getter]
    fn writable(&self) -> bool {
        self.container.is_writable()
    }

    #[getter]
    fn uuid(&self) -> String {
        self.container.identity().uuid.iter().map(|b| format!("{b:02x}")).collect()
    }

    #[getter]
    fn durability(&self) -> &'static str {
        self.container.identity().durability.name()
    }

    fn take_warnings(&self) -> Vec<String> {
        self.container.take_warnings()
    }

    /// Version and time of the handle's snapshot.
    fn snapshot(&self) -> Result<(u64, u64)> {
        let snapshot = self.open_container()?.snapshot();
        Ok((snapshot.version(), snapshot.time()))
    }

    /// Versions and times of all readable snapshots.
    fn history(&self, py: Python<'_>) -> Result<Vec<(u64, u64)>> {
        Ok(py.detach(|| self.container.history())?)
    }

    fn refresh(&self, py: Python<'_>) -> Result<bool> {
        Ok(py.detach(|| self.container.refresh())?)
    }

    fn commit(&self, py: Python<'_>) -> Result<CommitResult> {
        Ok(reports::committed(py.detach(|| self.container.commit())?))
    }

    /// Files, writers, and uncommitted steps.
    fn describe(&self, py: Python<'_>) -> Result<Described> {
        Ok(reports::described(py.detach(|| self.container.describe())?))
    }

    /// By path of each variable: blocks, subchunks, bytes stored and decoded, codec chains.
    fn usage(&self, py: Python<'_>) -> Result<BTreeMap<String, Used>> {
        let schema = self.open_container()?.schema();
        let found = py.detach(|| self.container.usage(true))?;
        let named = schema.named().filter_map(|(path, v)| Some((path.to_owned(), found.get(&v.id)?)));
        Ok(named.map(|(path, u)| (path, reports::used(u))).collect())
    }

    /// By path of each variable: shapes of the subchunks of its blocks; None for blocks that are not cut.
    fn cuts(&self, py: Python<'_>) -> Result<BTreeMap<String, Vec<Option<Vec<u64>>>>> {
        let schema = self.open_container()?.schema();
        let found = py.detach(|| self.container.usage(false))?;
        let cuts = |id: &u32| found.get(id).map(|u| u.cuts.iter().cloned().collect());
        Ok(schema.named().filter_map(|(path, v)| Some((path.to_owned(), cuts(&v.id)?))).collect())
    }

    /// The path of a variable or group after following links; None if it does not exist.
    fn followed(&self, path: &str) -> Result<Option<String>> {
        Ok(self.open_container()?.schema().follow(normal(path)))
    }

    fn flush(&self, py: Python<'_>) -> Result<u64> {
        Ok(py.detach(|| self.container.flush())?)
    }

    /// Level of each committed step, by its name.
    fn levels(&self, py: Python<'_>) -> Result<BTreeMap<u64, &'static str>> {
        let found = py.detach(|| self.container.levels())?;
        Ok(found.into_iter().map(|(step, level)| (step, level.name())).collect())
    }

    /// The same, from what this handle already knows; for counting.
    fn known_levels(&self, py: Python<'_>) -> Result<BTreeMap<u64, &'static str>> {
        let found = py.detach(|| self.container.known_levels())?;
        Ok(found.into_iter().map(|(step, level)| (step, level.name())).collect())
    }

    /// Waits until a step has a level. `timeout` in seconds; none: no limit.
    fn wait(&self, py: Python<'_>, step: &Bound<'_, PyAny>, level: &str, timeout: Option<f64>) -> Result<()> {
        let step = key::unsigned(step, "the step")?;
        let level = parse_level(level)?;
        let timeout = parse_timeout(timeout)?;
        watched(py, None, |progress| self.container.wait_for(step, level, timeout, &mut || progress(0, 0)))
    }

    fn steps(&self, py: Python<'_>) -> Result<Vec<u64>> {
        let snapshot = self.open_container()?.snapshot();
        Ok(py.detach(|| snapshot.steps.iter().collect()))
    }

    /// Paths of the variables (and links to variables) and of the groups below a group, relative to it, sorted.
    fn names(&self, group: &str) -> Result<(Vec<String>, Vec<String>)> {
        let schema = self.open_container()?.schema();
        let group = normal(group);
        let inside = |path: &String| match path.strip_prefix(group) {
            Some(rest) if group.is_empty() => Some(rest.to_string()),
            Some(rest) => rest.strip_prefix('/').map(str::to_string),
            None => None,
        };
        let mut groups: BTreeSet<String> = schema.groups.keys().filter_map(inside).collect();
        let mut variables = Vec::new();
        for (path, name) in &schema.names {
            let Some(relative) = inside(path) else { continue };
            match name {
                Name::Variable(_) => variables.push(relative),
                Name::Link(_) if schema.resolve(path).is_some() => variables.push(relative),
                Name::Link(_) => {
                    if schema.follow(path).is_some() {
                        groups.insert(relative);
                    }
                }
            }
        }
        groups.remove("");
        Ok((variables, groups.into_iter().collect()))
    }

    /// "variable", "group" or nothing.
    fn kind(&self, path: &str) -> Result<Option<&'static str>> {
        let schema = self.open_container()?.schema();
        let Some(path) = schema.follow(normal(path)) else { return Ok(None) };
        Ok(Some(if schema.groups.contains_key(&path) { "group" } else { "variable" }))
    }

    /// The container's location, as spans name it.
    fn location(&self) -> String {
        self.container.location()
    }

    /// Counters by name.
    fn metrics(&self) -> BTreeMap<&'static str, u64> {
        self.container.metrics().named().into_iter().collect()
    }

    /// The variable at a path; the error names near misses.
    #[pyo3(signature = (path, member=None))]
    fn reading(&self, py: Python<'_>, path: &str, member: Option<&str>) -> Result<ReadingHandle> {
        let reading = py.detach(|| self.container.reading(path, member))?;
        ReadingHandle::new(reading, member)
    }

    /// A query for the cells that satisfy a condition. `over`: further variables that determine the grid.
    fn query(
        &self,
        py: Python<'_>,
        condition: &Bound<'_, ExpressionHandle>,
        over: Vec<String>,
    ) -> Result<QueryHandle> {
        let tree = &condition.get().tree;
        let container = self.open_container()?;
        Ok(QueryHandle::new(py.detach(|| container.query(tree, &over))?))
    }

    #[pyo3(signature = (path, dtype, shape, dims, steps, local, transform, chunks, fill, attrs, access))]
    #[expect(clippy::too_many_arguments, reason = "the arguments of create_variable")]
    fn create_variable(
        &self,
        py: Python<'_>,
        path: &str,
        dtype: &Bound<'_, PyAny>,
        shape: &Bound<'_, PyTuple>,
        dims: Option<Vec<String>>,
        steps: bool,
        local: bool,
        transform: Option<&Bound<'_, PyAny>>,
        chunks: Option<&Bound<'_, PyAny>>,
        fill: Option<Vec<u8>>,
        attrs: Option<&Bound<'_, PyAny>>,
        access: Option<String>,
    ) -> Result<bool> {
        let element = dtype::parse(dtype)?;
        let new = NewVariable {
            dtype: element.dtype,
            meaning: element.meaning,
            shape: arguments::shape(shape)?,
            dims: dims.unwrap_or_default(),
            steps,
            local,
            transform: transform::parse(transform)?,
            chunks: chunks.map(|c| key::extents(c, "chunks")).transpose()?,
            fill,
            attrs: value::attrs(attrs)?,
            access: access.unwrap_or_default(),
        };
        self.apply(py, SchemaOp::CreateVariable(normal(path).into(), Box::new(new)))
    }

    /// Creates a variable that is computed from others.
    #[pyo3(signature = (path, text, kind, edge, attrs))]
    fn derive(
        &self,
        py: Python<'_>,
        path: &str,
        text: &str,
        kind: &str,
        edge: &str,
        attrs: Option<&Bound<'_, PyAny>>,
    ) -> Result<bool> {
        let definition = Definition {
            text: text.to_owned(),
            kind: kind.to_owned(),
            edge: edge.to_owned(),
            attrs: value::attrs(attrs)?,
        };
        self.apply(py, SchemaOp::Derive(normal(path).into(), Box::new(definition)))
    }

    /// Stores derived values that are not current. Returns blocks, cells, bytes, and boxes beyond the budget.
    #[pyo3(signature = (paths, steps, budget))]
    fn store_derived(
        &self,
        py: Python<'_>,
        paths: Option<Vec<String>>,
        steps: Option<Vec<u64>>,
        budget: Option<u64>,
    ) -> Result<(u64, u64, u64, u64)> {
        let done = py.detach(|| self.container.store_derived(paths.as_deref(), steps.as_deref(), budget))?;
        Ok((done.blocks, done.cells, done.bytes, done.left))
    }

    fn create_group(&self, py: Python<'_>, path: &str, attrs: Option<&Bound<'_, PyAny>>) -> Result<bool> {
        self.apply(py, SchemaOp::CreateGroup(normal(path).into(), value::attrs(attrs)?))
    }

    fn rename(&self, py: Python<'_>, old: &str, new: &str) -> Result<bool> {
        self.apply(py, SchemaOp::Rename(normal(old).into(), normal(new).into()))
    }

    fn delete(&self, py: Python<'_>, path: &str) -> Result<bool> {
        self.apply(py, SchemaOp::Delete(normal(path).into()))
    }

    fn link(&self, py: Python<'_>, path: &str, target: &str) -> Result<bool> {
        self.apply(py, SchemaOp::Link(normal(path).into(), normal(target).into()))
    }

    fn resize(&self, py: Python<'_>, path: &str, shape: &Bound<'_, PyAny>) -> Result<bool> {
        let shape = key::extents(shape, "the shape")?;
        self.apply(py, SchemaOp::Resize(normal(path).into(), shape))
    }

    /// Attributes of the variable or group at a path.
    fn attrs<'py>(&self, py: Python<'py>, path: &str) -> Result<Bound<'py, PyDict>> {
        let schema = self.open_container()?.schema();
        let path = normal(path);
        let group = schema.follow(path).and_then(|path| schema.groups.get(&path));
        match group {
            Some(attrs) => value::dict(py, attrs),
            None => value::dict(py, &self.container.variable(path)?.attrs),
        }
    }

    /// Sets the attributes in `changes` and removes those in `gone`, as one commit.
    fn change_attrs(
        &self,
        py: Python<'_>,
        path: &str,
        changes: &Bound<'_, PyAny>,
        gone: Vec<String>,
    ) -> Result<bool> {
        let mut all: BTreeMap<String, Option<_>> =
            value::attrs(Some(changes))?.into_iter().map(|(k, v)| (k, Some(v))).collect();
        all.extend(gone.into_iter().map(|k| (k, None)));
        self.apply(py, SchemaOp::SetAttrs(normal(path).into(), all))
    }

    /// Declares a text with values of its parameters; returns the names of its variables.
    fn declare(&self, py: Python<'_>, text: &str, values: &Bound<'_, PyDict>) -> Result<Vec<String>> {
        let values = parameters(values)?;
        let values: Vec<(&str, i64)> = values.iter().map(|(n, v)| (n.as_str(), *v)).collect();
        Ok(py.detach(|| self.container.declare(text, &values))?)
    }

    /// The declared texts.
    fn declarations(&self) -> Result<Vec<String>> {
        Ok(self.container.declarations()?.into_iter().map(|d| d.text).collect())
    }

    fn fragment(&self, py: Python<'_>, name: &str, params: &Bound<'_, PyDict>) -> Result<FragmentHandle> {
        let params = parameters(params)?;
        let params: Vec<(&str, i64)> = params.iter().map(|(n, v)| (n.as_str(), *v)).collect();
        Ok(FragmentHandle::new(py.detach(|| self.container.fragment(name, &params))?))
    }

    fn zarr_view(&self, py: Python<'_>, consolidated: bool) -> Result<ZarrHandle> {
        let container = self.open_container()?;
        Ok(ZarrHandle::new(py.detach(|| container.zarr_view(consolidated))?))
    }

    fn begin_batch(&self, py: Python<'_>) -> Result<()> {
        Ok(py.detach(|| self.container.begin_batch())?)
    }

    fn end_batch(&self, py: Python<'_>, commit: bool) -> Result<()> {
        Ok(py.detach(|| self.container.end_batch(commit))?)
    }

    /// How the model cuts a block, as text; the shape of a subchunk; the source of the expected reads.
    fn cut_of(
        &self,
        py: Python<'_>,
        path: &str,
        block: &Bound<'_, PyAny>,
    ) -> Result<(String, Vec<u64>, String)> {
        let block = key::extents(block, "block")?;
        let (cut, from) = py.detach(|| self.container.cut_of(normal(path), &block))?;
        Ok((cut.to_string(), cut.edges, from))
    }

    #[pyo3(signature = (rank, nranks, run, layout))]
    fn writer(
        &self,
        py: Python<'_>,
        rank: Option<&Bound<'_, PyAny>>,
        nranks: Option<&Bound<'_, PyAny>>,
        run: Option<&Bound<'_, PyAny>>,
        layout: &str,
    ) -> Result<WriterHandle> {
        let rank = ranks(rank, nranks)?;
        let run = run.map(|run| key::unsigned(run, "run")).transpose()?;
        let layout = BlockLayout::parse(layout)
            .ok_or_else(|| invalid(format!("layout is \"model\" or \"log\", not \"{layout}\"")))?;
        let options = WriterOptions { rank, run, layout, ..WriterOptions::default() };
        let writer = py.detach(|| self.container.writer(options))?;
        Ok(WriterHandle::new(writer, self.container.clone()))
    }

    /// `which`: true for all steps, false for none, else the steps to adopt, or, with `but`, those not to adopt.
    fn recover(
        &self,
        py: Python<'_>,
        which: &Bound<'_, PyAny>,
        but: bool,
        lost_nodes: Vec<String>,
    ) -> Result<RecoverResult> {
        let adopt = adopted(which, but)?;
        Ok(reports::recovered(py.detach(|| self.container.recover(&adopt, &lost_nodes))?))
    }

    /// `progress(done, total)` is called from time to time, in bytes. If it returns `False` or raises, the work stops.
    #[pyo3(signature = (variables, memory, compressor, chunks, format, path, folder, progress))]
    #[expect(clippy::too_many_arguments, reason = "the arguments of publish")]
    fn publish(
        &self,
        py: Python<'_>,
        variables: Option<Vec<String>>,
        memory: &Bound<'_, PyAny>,
        compressor: &str,
        chunks: &Bound<'_, PyDict>,
        format: Option<&str>,
        path: Option<PathBuf>,
        folder: PathBuf,
        progress: Option<Py<PyAny>>,
    ) -> Result<PublishResult> {
        let options = PublishOptions {
            variables,
            memory: key::unsigned(memory, "memory")?,
            compressor: Compressor::parse(compressor)?,
            chunks: arguments::chunks(chunks)?,
            format: format.map(Format::parse).transpose()?,
            ..PublishOptions::default()
        };
        let container = &self.container;
        let (file, report) = match (options.format, path) {
            (Some(Format::Netcdf), path) => {
                let path = path.unwrap_or_else(|| drystone::netcdf_path(&folder));
                let report = watched(py, progress.as_ref(), |progress| {
                    container.publish_netcdf(&path, &options, progress)
                })?;
                (Some(path), report)
            }
            (_, Some(_)) => return Err(invalid("only a netCDF file has a path (format=\"netcdf\")")),
            _ => (None, watched(py, progress.as_ref(), |progress| container.publish(&options, progress))?),
        };
        Ok(reports::published(report, file))
    }

    /// `older_than` in seconds. `progress(done, total)` is called per object; if it returns `False` or raises,
    /// the work stops.
    fn gc(
        &self,
        py: Python<'_>,
        keep: Option<&Bound<'_, PyAny>>,
        older_than: Option<f64>,
        dry_run: bool,
        progress: Option<Py<PyAny>>,
    ) -> Result<GcResult> {
        let age = |seconds: f64| {
            let bad = |_| invalid("older_than is a time of 0 seconds or more");
            std::time::Duration::try_from_secs_f64(seconds).map_err(bad)
        };
        let keep = keep.map(|keep| key::unsigned(keep, "keep")).transpose()?;
        let options = GcOptions { keep, older_than: older_than.map(age).transpose()?, dry_run };
        let report = watched(py, progress.as_ref(), |progress| self.container.gc(&options, progress))?;
        Ok(reports::collected(report))
    }

    /// (blocks, blocks that already had an index, bytes of values, bytes of the index, snapshot); `progress` as
    /// in `gc`.
    fn index(
        &self,
        py: Python<'_>,
        name: &str,
        kind: &str,
        progress: Option<Py<PyAny>>,
    ) -> Result<IndexResult> {
        let kind = IndexKind::parse(kind)?;
        let done = watched(py, progress.as_ref(), |progress| self.container.index(name, kind, progress))?;
        Ok(reports::indexed(done))
    }

    /// The report of `index`, for the blocks of the key.
    fn sort(&self, py: Python<'_>, name: &str, by: &str, progress: Option<Py<PyAny>>) -> Result<IndexResult> {
        let done = watched(py, progress.as_ref(), |progress| self.container.sort(name, by, progress))?;
        Ok(reports::indexed(done))
    }

    /// Returns how many blocks had a sorted replica.
    fn drop_sort(&self, py: Python<'_>, name: &str, by: &str) -> Result<u64> {
        Ok(py.detach(|| self.container.drop_sort(name, by))?)
    }

    /// Returns how many blocks had an index.
    fn drop_index(&self, py: Python<'_>, name: &str) -> Result<u64> {
        Ok(py.detach(|| self.container.drop_index(name))?)
    }

    /// Limits of a calibration, in seconds and bytes.
    fn calibrate(&self, py: Python<'_>, seconds: f64, most: &Bound<'_, PyAny>) -> Result<CalibrationResult> {
        let time = std::time::Duration::try_from_secs_f64(seconds)
            .map_err(|_| invalid("seconds is a positive number"))?;
        let limits = Limits { time, bytes: key::unsigned(most, "max_bytes")? };
        Ok(reports::calibrated(py.detach(|| self.container.calibrate(&limits))?))
    }

    /// The stored profile of the store.
    fn profile(&self, py: Python<'_>) -> Option<ProfileItem> {
        py.detach(|| self.container.profile()).map(|found| reports::profile(&found))
    }

    /// `progress(done, total)` is called from time to time. If it returns `False` or raises, the work stops.
    fn verify(&self, py: Python<'_>, progress: Option<Py<PyAny>>, values: bool) -> Result<VerifyResult> {
        let report = watched(py, progress.as_ref(), |progress| match values {
            true => self.container.verify_values(progress),
            false => self.container.verify(progress),
        })?;
        Ok(reports::verified(report))
    }
}
