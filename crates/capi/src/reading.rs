//! Variables of a snapshot, or single members of their records: properties, and reads into the caller's memory.

use std::ffi::c_char;
use std::sync::Arc;

use drystone::array::Target;
use drystone::format::MAX_NDIM;
use drystone::format::dtype::DType;
use drystone::member::{FoundMember, member};
use drystone::plan::selection::{Axis, Selection};
use drystone::{BlockInfo, Precision, ReadReport, Reading};

use crate::argument::optional_step;
use crate::argument::{
    give, give_list, give_names, give_structs, give_text, handle_place, list, optional_text, options,
    versioned,
};
use crate::container::{container, dry_container};
use crate::dtype::{Type, check_element, length_of, number_of};
use crate::failure::{Failure, Result, Status, guard};
use crate::handle::{Handled, get, keep, take};
use crate::memory::{Memory, check_ndim, extents, optional_extents};
use crate::schema::path;

/// The handle of a variable.
#[repr(C)]
pub(crate) struct dry_variable {
    _private: [u8; 0],
}

/// A variable for reading, whole or one member.
pub(crate) struct OpenVariable {
    pub(crate) reading: Arc<Reading>,
    member: Option<FoundMember>,
    pub(crate) what: String,
}

impl Handled for OpenVariable {
    type Opaque = dry_variable;
    const KIND: u64 = 3;
}

/// The properties of a variable.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct dry_variable_info {
    struct_size: u32,
    type_: Type,
    length: u32,
    ndim: u32,
    item_size: u64,
    snapshot: u64,
    step_axis: u64,
    shape: [u64; 8],
    chunks: [u64; 8],
    member_shape: [u64; 8],
    member_offset: u64,
    fill_size: u64,
    chunk_ndim: u32,
    member_ndim: u32,
    has_steps: u32,
    local: u32,
    grows: u32,
    reserved: u32,
}

versioned!(dry_variable_info, 272);

/// Cells along one axis.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct dry_axis {
    start: u64,
    count: u64,
    step: i64,
}

/// Options for the memory of a read.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct dry_read_options {
    struct_size: u32,
    accuracy: u32,
    item_size: u64,
    strides: *const i64,
    report: *mut dry_read_report,
    max_error: f64,
    level: u32,
    readers: u32,
}

versioned!(dry_read_options, 48);

/// The cost of a read.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct dry_read_report {
    struct_size: u32,
    readers: u32,
    wanted_bytes: u64,
    read_bytes: u64,
    requests: u64,
    blocks: u64,
    max_error: f64,
    max_relative_error: f64,
}

versioned!(dry_read_report, 56);

/// A written block.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct dry_block {
    struct_size: u32,
    ndim: u32,
    step: i64,
    offset: [u64; 8],
    count: [u64; 8],
    cut: [u64; 8],
    snapshot: u64,
    writer: u64,
    put: u64,
    stored_bytes: u64,
    nans: u64,
    min: u64,
    max: u64,
    has_min_max: u32,
    reserved: u32,
}

versioned!(dry_block, 272);

/// Returns the cost of a read.
pub(crate) unsafe fn give_report(out: *mut dry_read_report, report: &ReadReport, readers: u32) -> Result<()> {
    let report = dry_read_report {
        struct_size: 0,
        readers,
        wanted_bytes: report.wanted_bytes,
        read_bytes: report.read_bytes,
        requests: report.requests,
        blocks: report.blocks,
        max_error: report.bound.absolute,
        max_relative_error: report.bound.relative,
    };
    // SAFETY: guaranteed by the caller.
    unsafe { give(out, &report) }
}

/// The variable of a handle.
pub(crate) fn variable(handle: *const dry_variable) -> Result<Arc<OpenVariable>> {
    get(handle)
}

/// A selection, step axis first.
pub(crate) unsafe fn selection(naxes: u32, axes: *const dry_axis) -> Result<Selection> {
    // SAFETY: guaranteed by the caller: `naxes` entries.
    let axes = unsafe { list(axes, check_ndim(naxes)?, "the axes")? };
    let mut out = Selection::default();
    for (d, axis) in axes.iter().enumerate() {
        // A step of 0 means 1, for plain boxes.
        let step = if axis.step == 0 { 1 } else { axis.step };
        let last = i128::from(axis.start) + i128::from(step) * (i128::from(axis.count) - 1);
        if axis.count > 0 && last < 0 {
            return Err(Failure::invalid(format!(
                "axis {d} of the selection leads to cell {last}: cells are numbered from 0"
            )));
        }
        if axis.count > 0 && last > i128::from(i64::MAX) {
            return Err(Failure::invalid(format!(
                "axis {d} of the selection leads to cell {last}, beyond the 63-bit index range"
            )));
        }
        out.axes.push(Axis { start: axis.start, step, count: axis.count });
    }
    Ok(out)
}

fn padded(values: &[u64]) -> [u64; 8] {
    let mut out = [0; 8];
    out.iter_mut().zip(values).for_each(|(to, from)| *to = *from);
    out
}

impl dry_read_options {
    /// The reading with the requested accuracy.
    fn accurate(&self, reading: &Arc<Reading>) -> Result<Arc<Reading>> {
        let precision = match self.accuracy {
            0 if self.max_error == 0.0 && self.level == 0 => Precision::Exact,
            1 if self.level == 0 => Precision::Absolute(self.max_error),
            2 if self.level == 0 => Precision::Relative(self.max_error),
            3 if self.max_error == 0.0 => Precision::Level(self.level),
            0..=3 => {
                return Err(Failure::invalid(
                    "max_error or level are given, but accuracy does not ask for them",
                ));
            }
            other => return Err(Failure::invalid(format!("{other} is not an accuracy (dry_accuracy)"))),
        };
        if matches!(precision, Precision::Exact) {
            return Ok(Arc::clone(reading));
        }
        Ok(Arc::new(Reading::clone(reading).with_precision(precision)?))
    }
}

impl OpenVariable {
    pub(crate) fn dtype(&self) -> &DType {
        self.member.as_ref().map_or(&self.reading.variable().dtype, |m| &m.dtype)
    }

    fn inner(&self) -> &[u64] {
        self.member.as_ref().map_or(&[], |m| &m.shape)
    }

    /// The caller's memory of the given shape, with a leading step axis of one cell if `one_step`.
    unsafe fn memory(
        &self,
        type_: Type,
        out: *mut u8,
        size: u64,
        shape: &[u64],
        given: &dry_read_options,
        one_step: bool,
    ) -> Result<Memory> {
        let item = check_element(&self.what, self.dtype(), self.inner(), type_, given.item_size)?;
        // SAFETY: guaranteed by the caller: `strides` has an entry per dimension or is NULL.
        let memory = unsafe { Memory::new(out, size, shape, given.strides, item)? };
        Ok(if one_step { memory.with_leading_axis() } else { memory })
    }

    /// A box at a step as a selection, and its shape.
    unsafe fn boxed(
        &self,
        step: i64,
        ndim: u32,
        offset: *const u64,
        count: *const u64,
    ) -> Result<(Selection, Vec<u64>)> {
        let shape = self.reading.shape();
        let steps = self.reading.variable().steps;
        let cells = &shape[usize::from(steps)..];
        if ndim as usize != cells.len() {
            return Err(Failure::invalid(format!(
                "the box has {ndim} dimensions, {} has {} (the step axis aside)",
                self.what,
                cells.len()
            )));
        }
        // SAFETY: guaranteed by the caller: an entry per dimension or NULL.
        let (offset, count) = unsafe {
            (optional_extents(offset, ndim, "the offset")?, optional_extents(count, ndim, "the count")?)
        };
        let none = [0; MAX_NDIM + 1];
        let offset = offset.unwrap_or_else(|| none.get(..cells.len()).unwrap_or_default());
        let rest = || cells.iter().zip(offset).map(|(n, o)| n.saturating_sub(*o)).collect();
        let count = count.map_or_else(rest, <[u64]>::to_vec);
        let mut axes = Vec::with_capacity(cells.len() + 1);
        match (steps, optional_step(step)?) {
            (true, Some(start)) => axes.push(Axis { start, step: 1, count: 1 }),
            (true, None) => return Err(Failure::invalid(format!("{} has steps: say which", self.what))),
            (false, Some(_)) => {
                return Err(Failure::invalid(format!("{} has no steps: give DRY_NO_STEP", self.what)));
            }
            (false, None) => {}
        }
        axes.extend(offset.iter().zip(&count).map(|(&start, &count)| Axis { start, step: 1, count }));
        let selection = Selection { axes };
        Ok((selection, count))
    }
}

impl OpenVariable {
    /// A reading and the caller's memory for this many listed cells.
    ///
    /// # Safety
    /// As for `Asked::selected`.
    pub(crate) unsafe fn listed<'a>(
        &self,
        type_: Type,
        out: *mut u8,
        size: u64,
        count: u64,
        given: *const dry_read_options,
    ) -> Result<(Arc<Reading>, Target<'a>, *mut dry_read_report)> {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let given = options(given)?;
            let target = self.memory(type_, out, size, &[count], &given, false)?.target()?;
            Ok((given.accurate(&self.reading)?, target, given.report))
        }
    }
}

/// Opens a variable of the handle's snapshot.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_variable_open(
    handle: *const dry_container,
    name: *const c_char,
    field: *const c_char,
    out: *mut *mut dry_variable,
) -> Status {
    guard(|| {
        // SAFETY: pointers are as drystone.h specifies.
        let (name, field, out) =
            unsafe { (path(name)?, optional_text(field, "the member")?, handle_place(out)?) };
        let reading = Arc::new(container(handle)?.reading(name, field)?);
        let member = field.and_then(|field| member(&reading.variable().dtype, field));
        let what = field.map_or_else(|| format!("\"{name}\""), |f| format!("member \"{f}\" of \"{name}\""));
        *out = keep(OpenVariable { reading, member, what });
        Ok(())
    })
}

/// Closes a variable's handle.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn dry_variable_close(handle: *mut dry_variable) -> Status {
    guard(|| take::<OpenVariable>(handle).map(|_| ()))
}

/// Describes a variable.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_variable_describe(
    handle: *const dry_variable,
    out: *mut dry_variable_info,
) -> Status {
    guard(|| {
        let open = variable(handle)?;
        let stored = open.reading.variable();
        let chunks = stored.chunks.as_deref().unwrap_or(&[]);
        let grows = stored.growable.iter().enumerate().map(|(d, grows)| u32::from(*grows) << d);
        let info = dry_variable_info {
            struct_size: 0,
            type_: number_of(open.dtype()),
            length: length_of(open.dtype()),
            ndim: stored.shape.len() as u32,
            item_size: open.reading.item().into(),
            snapshot: open.reading.snapshot().version(),
            step_axis: if stored.steps { open.reading.snapshot().step_axis() } else { 0 },
            shape: padded(&stored.shape),
            chunks: padded(chunks),
            member_shape: padded(open.inner()),
            member_offset: open.member.as_ref().map_or(0, |m| m.offset.into()),
            fill_size: stored.fill.as_ref().map_or(0, |f| f.len() as u64),
            chunk_ndim: chunks.len() as u32,
            member_ndim: open.inner().len() as u32,
            has_steps: stored.steps.into(),
            local: stored.local.into(),
            grows: grows.fold(0, |all, bit| all | bit),
            reserved: 0,
        };
        // SAFETY: pointers are as drystone.h specifies.
        unsafe { give(out, &info) }
    })
}

/// A text about a variable.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_variable_text(
    handle: *const dry_variable,
    which: i32,
    out: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> Status {
    guard(|| {
        let open = variable(handle)?;
        let found = match which {
            0 => open.dtype().to_string(),
            1 => open.reading.variable().transform.clone(),
            2 => open.reading.variable().access.clone(),
            other => return Err(Failure::invalid(format!("{other} is not a text of a variable (dry_text)"))),
        };
        // SAFETY: pointers are as drystone.h specifies.
        unsafe { give_text(&found, out, capacity, length) }
    })
}

/// Names that belong to a variable.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_variable_names(
    handle: *const dry_variable,
    which: i32,
    out: *mut c_char,
    capacity: usize,
    length: *mut usize,
    count: *mut usize,
) -> Status {
    guard(|| {
        let open = variable(handle)?;
        let found: Vec<String> = match (which, open.dtype()) {
            (0, _) => open.reading.variable().dims.clone(),
            (1, DType::Record(record)) => record.members.iter().map(|m| m.name.clone()).collect(),
            (1, _) => Vec::new(),
            (other, _) => {
                return Err(Failure::invalid(format!("{other} is not a list of names of a variable")));
            }
        };
        // SAFETY: pointers are as drystone.h specifies.
        unsafe { give_names(&found, out, capacity, length, count) }
    })
}

/// The bytes of the fill value.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_variable_fill(
    handle: *const dry_variable,
    out: *mut u8,
    capacity: usize,
    size: *mut usize,
) -> Status {
    guard(|| {
        let open = variable(handle)?;
        let fill = open.reading.variable().fill.as_deref().unwrap_or(&[]);
        // SAFETY: pointers are as drystone.h specifies.
        unsafe { give_list(fill, "the fill value", out, capacity, size) }
    })
}

/// Committed steps in which the variable has a block.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_variable_steps(
    handle: *const dry_variable,
    out: *mut u64,
    capacity: usize,
    count: *mut usize,
) -> Status {
    guard(|| {
        let steps = variable(handle)?.reading.steps()?;
        // SAFETY: pointers are as drystone.h specifies.
        unsafe { give_list(&steps, "steps", out, capacity, count) }
    })
}

/// A read into the caller's memory with checked arguments.
pub(crate) struct CheckedRead<'a> {
    pub(crate) reading: Arc<Reading>,
    pub(crate) selection: Selection,
    pub(crate) target: Target<'a>,
    pub(crate) report: *mut dry_read_report,
    pub(crate) readers: u32,
}

impl CheckedRead<'_> {
    /// A selection, step axis first.
    ///
    /// # Safety
    /// Pointers are as drystone.h specifies; the caller does not use the memory while this lives.
    pub(crate) unsafe fn selected(
        handle: *const dry_variable,
        type_: Type,
        out: *mut u8,
        size: u64,
        naxes: u32,
        axes: *const dry_axis,
        given: *const dry_read_options,
    ) -> Result<Self> {
        let open = variable(handle)?;
        // SAFETY: guaranteed by the caller.
        unsafe {
            let (selection, given) = (selection(naxes, axes)?, options(given)?);
            let memory = open.memory(type_, out, size, &selection.shape(), &given, false)?;
            Self::new(&open, selection, &memory, &given)
        }
    }

    /// A box at a step.
    ///
    /// # Safety
    /// As for `selected`.
    pub(crate) unsafe fn boxed(
        handle: *const dry_variable,
        step: i64,
        type_: Type,
        out: *mut u8,
        size: u64,
        ndim: u32,
        offset: *const u64,
        count: *const u64,
        given: *const dry_read_options,
    ) -> Result<Self> {
        let open = variable(handle)?;
        // SAFETY: guaranteed by the caller.
        unsafe {
            let given = options(given)?;
            let (selection, count) = open.boxed(step, ndim, offset, count)?;
            let one_step = open.reading.variable().steps;
            let memory = open.memory(type_, out, size, &count, &given, one_step)?;
            Self::new(&open, selection, &memory, &given)
        }
    }

    unsafe fn new(
        open: &OpenVariable,
        selection: Selection,
        memory: &Memory,
        given: &dry_read_options,
    ) -> Result<Self> {
        let reading = given.accurate(&open.reading)?;
        // SAFETY: guaranteed by the caller.
        let target = unsafe { memory.target()? };
        Ok(CheckedRead { reading, selection, target, report: given.report, readers: given.readers })
    }

    /// Reads on this rank alone.
    fn read(&self) -> Result<()> {
        if self.readers != 0 {
            return Err(Failure::invalid("readers are chosen in dry_team_read and dry_team_read_box only"));
        }
        // SAFETY: the pointer is as drystone.h specifies.
        unsafe { give_report(self.report, &self.reading.read(&self.selection, &self.target)?, 0) }
    }
}

/// Reads a selection, step axis first.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_read(
    handle: *const dry_variable,
    type_: Type,
    out: *mut u8,
    size: u64,
    naxes: u32,
    axes: *const dry_axis,
    given: *const dry_read_options,
) -> Status {
    // SAFETY: pointers are as drystone.h specifies; the caller does not use the memory until this returns.
    guard(|| unsafe { CheckedRead::selected(handle, type_, out, size, naxes, axes, given)?.read() })
}

/// Reads a box at a step.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_read_box(
    handle: *const dry_variable,
    step: i64,
    type_: Type,
    out: *mut u8,
    size: u64,
    ndim: u32,
    offset: *const u64,
    count: *const u64,
    given: *const dry_read_options,
) -> Status {
    // SAFETY: pointers are as drystone.h specifies; the caller does not use the memory until this returns.
    guard(|| unsafe {
        CheckedRead::boxed(handle, step, type_, out, size, ndim, offset, count, given)?.read()
    })
}

/// The plan of a read, as text.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_explain(
    handle: *const dry_variable,
    naxes: u32,
    axes: *const dry_axis,
    out: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> Status {
    guard(|| {
        // SAFETY: pointers are as drystone.h specifies.
        let selection = unsafe { selection(naxes, axes)? };
        let plan = variable(handle)?.reading.explain(&selection)?;
        // SAFETY: pointers are as drystone.h specifies.
        unsafe { give_text(&plan.to_string(), out, capacity, length) }
    })
}

fn block(info: &BlockInfo) -> dry_block {
    let (min, max) = info.min_max.unwrap_or((0, 0));
    dry_block {
        struct_size: 0,
        ndim: info.count.len() as u32,
        step: info.step.map_or(-1, |step| step as i64), // below 2^62
        offset: padded(&info.offset),
        count: padded(&info.count),
        cut: padded(&info.cut),
        snapshot: info.commit,
        writer: info.writer,
        put: info.put,
        stored_bytes: info.stored_bytes,
        nans: info.nans,
        min,
        max,
        has_min_max: info.min_max.is_some().into(),
        reserved: 0,
    }
}

/// The blocks written in a step, oldest first.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_blocks(
    handle: *const dry_variable,
    step: i64,
    out: *mut dry_block,
    struct_size: usize,
    capacity: usize,
    count: *mut usize,
) -> Status {
    guard(|| {
        let found = variable(handle)?.reading.blocks(optional_step(step)?)?;
        let found: Vec<dry_block> = found.iter().map(block).collect();
        // SAFETY: pointers are as drystone.h specifies.
        unsafe { give_structs(&found, out, struct_size, capacity, count) }
    })
}

/// Reads one block as written.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_read_block(
    handle: *const dry_variable,
    step: i64,
    number: usize,
    type_: Type,
    out: *mut u8,
    size: u64,
    ndim: u32,
    count: *const u64,
    given: *const dry_read_options,
) -> Status {
    guard(|| {
        let open = variable(handle)?;
        // SAFETY: pointers are as drystone.h specifies; the caller does not use the memory until this returns.
        unsafe {
            let (count, given) = (extents(count, ndim, "the count")?, options(given)?);
            let target = open.memory(type_, out, size, count, &given, false)?.target()?;
            let reading = given.accurate(&open.reading)?;
            let block = reading.block(optional_step(step)?, number)?;
            give_report(given.report, &reading.read(&block, &target)?, 0)
        }
    })
}
