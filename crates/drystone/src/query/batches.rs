//! The hits of a query in order, with the values of variables at the hits.

use std::sync::{Arc, OnceLock};

use drystone_format::dtype::DType;
use drystone_format::meaning::Meaning;

use super::answers::{QueryReport, report};
use super::asked::Query;
use super::bits;
use super::hits::{Picked, TileHits};
use super::names::{self, Input};
use super::order::{Numbered, Order};
use super::place::{Place, extents};
use super::plan::{Known, StepPlan, Summary, Tile, ZoneSet};
use super::run::{Costs, Run};
use super::slab::{SlabHits, Slabs};
use crate::base::cpus::threads;
use crate::read::Reading;
use crate::schema::member::member;
use crate::{Error, Result};

/// Some consecutive hits.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// The number of hits.
    pub rows: usize,
    /// Their coordinates, one cell after the other. If the grid has steps, the step comes first.
    pub coords: Vec<i64>,
    /// Elements of each requested variable, one after the other.
    pub values: Vec<Vec<u8>>,
    /// For each variable, a byte per cell: 1 if the element was written, else 0. `None` if all were written.
    pub written: Vec<Option<Vec<u8>>>,
}

/// All hits of a query. Their coordinates are computed on request.
pub struct Found {
    query: Query,
    slabs: Vec<Slab>,
    report: QueryReport,
}

/// Elements of variables at all hits.
#[derive(Debug, Clone, Default)]
pub struct Columns {
    /// The number of hits.
    pub rows: usize,
    /// For each variable, its elements, one after the other.
    pub values: Vec<Vec<u8>>,
    /// For each variable, a byte per hit: 1 if the element was written, else 0. `None` if all were written.
    pub written: Vec<Option<Vec<u8>>>,
    /// The cost of finding the hits and reading the elements.
    pub report: QueryReport,
}

impl Query {
    /// Finds all hits. They occupy a bit per cell if there are many, and four bytes each if there are few.
    pub fn find(&self) -> Result<Found> {
        let mut batches = Batches { all: true, ..self.batches(&[])? };
        let mut slabs = Vec::new();
        while let Some(slab) = batches.next_slab()? {
            slabs.extend((slab.rows > 0).then_some(slab));
        }
        Ok(Found { query: self.clone(), slabs, report: batches.report() })
    }

    /// The coordinates of all hits, one cell after the other. If there are steps, the step comes first.
    pub fn coords(&self) -> Result<(Vec<i64>, QueryReport)> {
        let found = self.find()?;
        let mut coords = vec![0; found.rows() * found.width()];
        found.coords(&mut coords)?;
        Ok((coords, found.report))
    }

    /// The elements of variables at all hits, in order.
    ///
    /// Errors: those of [`batches`](Query::batches).
    pub fn values(&self, variables: &[String]) -> Result<Columns> {
        let mut batches = Batches { all: true, ..self.batches(variables)? };
        let mut out = Columns {
            values: vec![Vec::new(); variables.len()],
            written: vec![None; variables.len()],
            ..Columns::default()
        };
        while let Some(slab) = batches.next_slab()? {
            for (own, values) in out.values.iter_mut().zip(slab.values) {
                if own.is_empty() { *own = values } else { own.extend_from_slice(&values) }
            }
            for (own, written) in out.written.iter_mut().zip(slab.written) {
                join_written(own, out.rows, written, slab.rows);
            }
            out.rows += slab.rows;
        }
        out.report = batches.report();
        Ok(out)
    }

    /// The hits in order, with the values of variables at them.
    ///
    /// Errors: `NotFound` for a variable that does not exist, `InvalidArgument` for one that does not fit the grid.
    pub fn batches(&self, variables: &[String]) -> Result<Batches> {
        let mut columns = Vec::with_capacity(variables.len());
        for path in variables {
            let column = names::joined(&self.asked.container, path, &self.asked.grid)?;
            if column.reading().is_some_and(Reading::has_blobs) {
                return Err(Error::unsupported(format!(
                    "\"{path}\" holds strings, which a query does not gather: read them by their coordinates"
                )));
            }
            columns.push(column);
        }
        // Values of a column that the condition also uses were read when the condition was tested.
        let same = |column: &Input| {
            column.reading()?;
            self.asked.inputs.iter().position(|input| {
                let items = (input.reading().map(Reading::item), column.reading().map(Reading::item));
                input.name == column.name && items.0 == items.1 && input.axes == column.axes
            })
        };
        Ok(Batches {
            costs: Costs::new(self.asked.terms.len()),
            constant: columns.iter().map(|_| OnceLock::new()).collect(),
            keep: columns.iter().map(same).collect(),
            query: self.clone(),
            columns,
            next_step: 0,
            sum: Summary::of(&self.asked.terms),
            step: None,
            slab: None,
            all: false,
        })
    }
}

impl Found {
    /// The number of hits.
    pub fn rows(&self) -> usize {
        self.slabs.iter().map(|slab| slab.rows).sum()
    }

    /// The number of coordinates of each hit.
    pub fn width(&self) -> usize {
        self.query.asked.grid.shape.len() + usize::from(self.query.asked.grid.steps)
    }

    /// The cost of finding the hits.
    pub fn report(&self) -> &QueryReport {
        &self.report
    }

    /// Writes the coordinates of the hits, one cell after the other. If there are steps, the step comes first.
    ///
    /// Errors: `InvalidArgument` if `out` has another size.
    pub fn coords(&self, out: &mut [i64]) -> Result<()> {
        let (found, needed) = (out.len(), self.rows() * self.width());
        if found != needed {
            let what = format!("the memory holds {found} coordinates, the hits have {needed}");
            return Err(Error::invalid(what));
        }
        let mut rest = out;
        for slab in &self.slabs {
            let (own, after) = std::mem::take(&mut rest).split_at_mut(slab.rows * self.width());
            slab.numbered(&self.query).write_all(&slab.hits, own, threads())?;
            rest = after;
        }
        Ok(())
    }
}

/// Hits with values, returned in order. Memory is bounded by one slab.
pub struct Batches {
    query: Query,
    columns: Vec<Input>,
    /// For each column, the input of the condition that equals it, if there is one.
    keep: Vec<Option<usize>>,
    constant: Vec<OnceLock<Arc<ZoneSet>>>,
    costs: Costs,
    sum: Summary,
    /// Index of the next step among the committed ones.
    next_step: usize,
    step: Option<OneStep>,
    /// The current slab.
    slab: Option<Slab>,
    /// Whether all hits will be requested.
    all: bool,
}

/// Hits of a part of a step.
struct Slab {
    step: u64,
    lo: Place,
    shape: Vec<u64>,
    hits: SlabHits,
    rows: usize,
    values: Vec<Vec<u8>>,
    written: Vec<Option<Vec<u8>>>,
    /// The number of hits that were returned, and the cell at which the others begin.
    given: usize,
    cell: usize,
}

impl Slab {
    fn numbered<'a>(&'a self, query: &'a Query) -> Numbered<'a> {
        let asked = &*query.asked;
        let step = asked.grid.steps.then_some(self.step);
        Numbered { step, lo: &self.lo, shape: &self.shape, axes: &asked.cells.axes }
    }

    /// The next `rows` hits.
    fn part(&mut self, rows: usize, query: &Query) -> Batch {
        let range = self.given..self.given + rows;
        let mut last = self.cell;
        let numbered = self.numbered(query);
        let mut coords = vec![0; rows * numbered.width()];
        match &self.hits {
            SlabHits::Few(few) => {
                let few = few.get(range.clone()).unwrap_or_default();
                numbered.write(few.iter().map(|cell| *cell as usize), &mut coords);
            }
            SlabHits::Bits(set) => {
                let cells = bits::each_from(set, self.cell).take(rows);
                numbered.write(cells.inspect(|cell| last = cell + 1), &mut coords);
            }
        }
        (self.given, self.cell) = (range.end, last);
        let count = self.rows.max(1);
        let values = |all: &Vec<u8>| {
            let item = all.len() / count;
            all[range.start * item..range.end * item].to_vec()
        };
        let written = |all: &Option<Vec<u8>>| {
            let own = all.as_ref().map(|all| all[range.clone()].to_vec());
            own.filter(|bytes| bytes.contains(&0))
        };
        Batch {
            rows,
            coords,
            values: self.values.iter().map(values).collect(),
            written: self.written.iter().map(written).collect(),
        }
    }
}

/// The current step.
struct OneStep {
    number: u64,
    zones: Vec<Arc<ZoneSet>>,
    columns: Vec<Arc<ZoneSet>>,
    tiles: Vec<Tile>,
    slabs: Slabs,
}

impl Batches {
    /// The stored types of the elements of the requested variables, and their meanings.
    pub fn dtypes(&self) -> Vec<(DType, Option<Meaning>)> {
        let of = |column: &Input| match column.reading() {
            None => (DType::Scalar(drystone_format::dtype::Scalar::I64), None),
            Some(reading) => {
                let variable = reading.variable();
                let field = column.name.strip_prefix(reading.path()).and_then(|rest| rest.strip_prefix('.'));
                match field.and_then(|field| member(&variable.dtype, field)) {
                    Some(found) => {
                        let meaning = found.meaning(variable.meaning.as_ref()).cloned();
                        (found.dtype, meaning)
                    }
                    None => (variable.dtype.clone(), variable.meaning.clone()),
                }
            }
        };
        self.columns.iter().map(of).collect()
    }

    /// The bytes of an element, for each variable.
    pub fn items(&self) -> Vec<u64> {
        let item = |column: &Input| column.reading().map_or(8, |reading| reading.item().into());
        self.columns.iter().map(item).collect()
    }

    /// For each variable whose elements are arrays, their extents.
    pub fn inner(&self) -> Vec<Vec<u64>> {
        let of = |column: &Input| {
            let reading = column.reading()?;
            let field = column.name.strip_prefix(reading.path())?.strip_prefix('.')?;
            Some(member(&reading.variable().dtype, field)?.shape)
        };
        self.columns.iter().map(|column| of(column).unwrap_or_default()).collect()
    }

    /// The cost so far.
    pub fn report(&self) -> QueryReport {
        report(&self.costs, self.sum.clone())
    }

    /// The next hits, at most `rows`. `None` after the last.
    pub fn next(&mut self, rows: usize) -> Result<Option<Batch>> {
        let rows = rows.max(1);
        let mut out: Option<Batch> = None;
        loop {
            let have = out.as_ref().map_or(0, |batch| batch.rows);
            if have == rows {
                return Ok(out);
            }
            let Some(slab) = self.slab.as_mut().filter(|slab| slab.given < slab.rows) else {
                self.slab = self.next_slab()?;
                if self.slab.is_none() {
                    return Ok(out);
                }
                continue;
            };
            let taken = (rows - have).min(slab.rows - slab.given);
            let part = slab.part(taken, &self.query);
            match &mut out {
                None => out = Some(part),
                Some(batch) => batch.append(part),
            }
        }
    }

    /// The next slab that has tiles, with the values at its hits.
    fn next_slab(&mut self) -> Result<Option<Slab>> {
        let query = self.query.clone();
        let asked = &*query.asked;
        let ndim = asked.grid.shape.len();
        // Frees the hits that were returned.
        self.slab = None;
        loop {
            let Some(at) = &mut self.step else {
                let Some(&(_, number)) = asked.present.get(self.next_step) else { return Ok(None) };
                self.next_step += 1;
                let zones = asked.zones(number)?;
                let plan = StepPlan::new(&asked.terms, &asked.known(number, &zones));
                self.sum.add(&plan.sum);
                let columns = asked.zones_of(&self.columns, &self.constant, number)?;
                let bytes = self.columns.iter().map(item).sum();
                let free = !zones.iter().chain(&columns).any(|zones| zones.has_whole);
                let borders = |axis: usize| {
                    let tiles = plan.tiles.iter().filter(|tile| !tile.open.is_empty());
                    let mut lines: Vec<u64> = tiles.flat_map(|tile| [tile.lo[axis], tile.hi[axis]]).collect();
                    for (column, zones) in self.columns.iter().zip(&columns) {
                        let Some(d) = column.axes.iter().position(|of| *of == axis) else { continue };
                        lines.extend(zones.all().iter().flat_map(|zone| [zone.lo[d], zone.hi[d]]));
                    }
                    lines
                };
                let slabs = Slabs::new(&asked.cells.shape(), borders, free, (bytes, self.all));
                self.step = Some(OneStep { number, zones, columns, tiles: plan.tiles, slabs });
                continue;
            };
            let Some((lo, hi, tiles)) = at.slabs.next(&at.tiles) else {
                self.step = None;
                continue;
            };
            let known = asked.known(at.number, &at.zones);
            let columns = Known { inputs: &self.columns, ..asked.known(at.number, &at.columns) };
            let run = Run {
                known,
                terms: &asked.terms,
                costs: &self.costs,
                only_count: false,
                keep: &self.keep,
                columns: Some(columns),
            };
            let mut found = run.hits(&tiles)?;
            let hits = SlabHits::of(&found, &lo, &hi, ndim);
            let shape = extents(&lo, &hi, ndim);
            let (mut values, mut written) = (Vec::new(), Vec::new());
            if !self.columns.is_empty() {
                let order = Order::of(&found, &lo, &shape);
                let known = Known { inputs: &self.columns, ..asked.known(at.number, &at.columns) };
                for (number, column) in self.columns.iter().enumerate() {
                    let mut picked: Vec<Option<Picked>> =
                        found.iter_mut().map(|tile| tile.picked.get_mut(number)?.take()).collect();
                    let left: Vec<&TileHits> = found
                        .iter()
                        .zip(&picked)
                        .filter(|(_, own)| own.is_none())
                        .map(|(tile, _)| tile)
                        .collect();
                    let mut read = known.gather(number, &left, &self.costs)?.into_iter();
                    picked.iter_mut().filter(|own| own.is_none()).for_each(|own| *own = read.next());
                    let mut picked: Vec<Picked> = picked.into_iter().map(Option::unwrap_or_default).collect();
                    written.push(match picked.iter().any(|own| own.written.is_some()) {
                        false => None,
                        true => {
                            let of = |(own, tile): (&mut Picked, &TileHits)| {
                                own.written.take().unwrap_or_else(|| vec![1; tile.count() as usize])
                            };
                            let parts = picked.iter_mut().zip(&found).map(of).collect();
                            Some(order.merged(parts, 1, threads())?)
                        }
                    });
                    let parts = picked.into_iter().map(|own| own.values).collect();
                    values.push(order.merged(parts, item(column), threads())?);
                }
            }
            let rows = hits.count();
            let step = at.number;
            return Ok(Some(Slab { step, lo, shape, hits, rows, values, written, given: 0, cell: 0 }));
        }
    }
}

/// The bytes of an element of a column.
fn item(column: &Input) -> usize {
    column.reading().map_or(8, |reading| reading.item() as usize)
}

/// Appends to the list, which covers earlier hits, which of `count` further hits were written.
fn join_written(own: &mut Option<Vec<u8>>, before: usize, more: Option<Vec<u8>>, count: usize) {
    if own.is_some() || more.is_some() {
        let all = own.get_or_insert_with(|| vec![1; before]);
        all.extend(more.unwrap_or_else(|| vec![1; count]));
    }
}

impl Batch {
    fn append(&mut self, mut more: Batch) {
        for (own, other) in self.written.iter_mut().zip(more.written) {
            join_written(own, self.rows, other, more.rows);
        }
        for (own, new) in self.values.iter_mut().zip(&mut more.values) {
            own.append(new);
        }
        self.coords.append(&mut more.coords);
        self.rows += more.rows;
    }
}
