//! Writers: steps, and blocks from the caller's memory.

use crate::argument::optional_step;
use std::ffi::c_char;

use drystone::collective::{Call, TeamWriter};
use drystone::format::dtype::DType;
use drystone::member::member;
use drystone::{Container, ErrorKind, FragmentHandle, Writer, WriterOptions};

use crate::argument::{fits, give, handle_place, optional_text, options, set, text, versioned};
use crate::container::{committed, container, dry_commit_report, dry_container, report};
use crate::dtype::{Type, check_element};
use crate::failure::{Failure, Result, Status, guard};
use crate::handle::{Handled, get, keep, take};
use crate::log;
use crate::memory::{Memory, extents, optional_extents};
use crate::schema::path;
use crate::tiers::level;

/// The handle of a writer.
#[repr(C)]
pub(crate) struct dry_writer {
    _private: [u8; 0],
}

/// A writer, and the container that resolves its variables.
pub(crate) struct OpenWriter {
    kind: WriterKind,
    container: Container,
}

/// The kind of writer. C has one handle type for both, so programs of many ranks and of one rank put in the same way.
enum WriterKind {
    Alone(Writer),
    Together(Box<TeamWriter>),
}

impl Handled for OpenWriter {
    type Opaque = dry_writer;
    const KIND: u64 = 2;
}

/// How to open a writer.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct dry_writer_options {
    struct_size: u32,
    rank: u32,
    nranks: u32,
    has_run: u32,
    run: u64,
    segment_limit: u64,
}

versioned!(dry_writer_options, 32);

/// Options for a block.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct dry_put_options {
    struct_size: u32,
    reserved: u32,
    item_size: u64,
    strides: *const i64,
    member: *const c_char,
}

versioned!(dry_put_options, 32, reserved);

impl dry_writer_options {
    /// The engine's form of the options.
    pub(crate) fn parse(&self) -> Result<WriterOptions> {
        if self.nranks == 0 && self.rank > 0 {
            return Err(Failure::invalid("dry_writer_options has a rank but no nranks"));
        }
        Ok(WriterOptions {
            rank: (self.nranks > 0).then_some((self.rank, self.nranks)),
            run: (self.has_run != 0).then_some(self.run),
            segment_limit: (self.segment_limit > 0).then_some(self.segment_limit),
            ..WriterOptions::default()
        })
    }
}

impl OpenWriter {
    /// The arguments of a call that ends a step. A step that this rank cannot end, no rank ends.
    fn accepts<T>(&self, given: Result<T>) -> Result<T> {
        given.map_err(|failure| match &self.kind {
            WriterKind::Alone(_) => failure,
            WriterKind::Together(writer) => writer.declined(Call::EndStep, failure.error()).into(),
        })
    }

    /// The writer of a team's rank.
    pub(crate) fn together(writer: TeamWriter, container: Container) -> Self {
        OpenWriter { kind: WriterKind::Together(Box::new(writer)), container }
    }

    /// Puts texts, or the bytes of lists.
    pub(crate) fn put_strings(
        &self,
        name: &str,
        count: &[u64],
        values: &[&[u8]],
        offset: Option<&[u64]>,
        field: Option<&str>,
    ) -> Result<()> {
        match &self.kind {
            WriterKind::Alone(writer) => writer.put_strings(name, count, values, offset, field)?,
            WriterKind::Together(writer) => writer.put_strings(name, count, values, offset, field)?,
        }
        Ok(())
    }

    /// Puts the memory of a fragment.
    pub(crate) fn put_fragment(&self, fragment: &FragmentHandle, data: &[u8]) -> Result<()> {
        match &self.kind {
            WriterKind::Alone(writer) => fragment.write(writer, data)?,
            WriterKind::Together(writer) => fragment.write(&**writer, data)?,
        }
        Ok(())
    }

    /// Type and axes of the variable at a path and member. Refreshes once if it is missing: another process may
    /// have just created it.
    pub(crate) fn element(&self, name: &str, field: Option<&str>) -> Result<(DType, Vec<u64>)> {
        let reading = match self.container.reading(name, field) {
            Err(e) if e.kind() == ErrorKind::NotFound => {
                self.container.refresh()?;
                self.container.reading(name, field)?
            }
            other => other?,
        };
        let whole = &reading.variable().dtype;
        Ok(match field.and_then(|field| member(whole, field)) {
            Some(found) => (found.dtype, found.shape),
            None => (whole.clone(), Vec::new()),
        })
    }
}

/// The writer of a handle.
pub(crate) fn writer(handle: *const dry_writer) -> Result<std::sync::Arc<OpenWriter>> {
    get(handle)
}

/// Opens a writer.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_writer_open(
    handle: *const dry_container,
    given: *const dry_writer_options,
    out: *mut *mut dry_writer,
) -> Status {
    guard(|| {
        // SAFETY: pointers are as drystone.h specifies.
        let (given, out) = unsafe { (options(given)?, handle_place(out)?) };
        let container = container(handle)?;
        let writer = container.writer(given.parse()?)?;
        log::tell_warnings(&container);
        // A separate handle on the same state: if the container's handle is closed, the writer can still look
        // up its variables.
        *out = keep(OpenWriter { kind: WriterKind::Alone(writer), container: (*container).clone() });
        Ok(())
    })
}

/// Closes a writer.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn dry_writer_close(handle: *mut dry_writer) -> Status {
    guard(|| {
        if let Some(open) = take::<OpenWriter>(handle)? {
            match &open.kind {
                WriterKind::Alone(writer) => writer.close()?,
                WriterKind::Together(writer) => writer.close()?,
            }
        }
        Ok(())
    })
}

/// Begins a step.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_begin_step(
    handle: *const dry_writer,
    step: i64,
    replace: i32,
    out: *mut u64,
) -> Status {
    guard(|| {
        let open = writer(handle)?;
        let (step, replace) = (optional_step(step), replace != 0);
        let begun = match &open.kind {
            WriterKind::Alone(writer) => writer.begin_step(step?, replace)?,
            WriterKind::Together(writer) => {
                // A step that this rank cannot begin, no rank begins.
                let step = step.map_err(|e| writer.declined(Call::BeginStep, e.error()))?;
                writer.begin_step(step, replace)?
            }
        };
        // SAFETY: pointers are as drystone.h specifies.
        unsafe { set(out, begun, "the step") }
    })
}

/// Ends the step.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_end_step(
    handle: *const dry_writer,
    out: *mut dry_commit_report,
) -> Status {
    guard(|| {
        let open = writer(handle)?;
        // SAFETY: pointers are as drystone.h specifies.
        open.accepts(unsafe { fits(out) })?;
        let done = match &open.kind {
            WriterKind::Alone(writer) => report(writer.end_step()?.as_ref(), &open.container),
            WriterKind::Together(writer) => committed(writer.end_step()?),
        };
        log::tell_warnings(&open.container);
        // SAFETY: pointers are as drystone.h specifies.
        unsafe { give(out, &done) }
    })
}

/// Ends the step and returns when it has a level.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_end_step_at(
    handle: *const dry_writer,
    wanted: i32,
    out: *mut dry_commit_report,
) -> Status {
    guard(|| {
        let open = writer(handle)?;
        // SAFETY: pointers are as drystone.h specifies.
        let wanted = open.accepts(unsafe { fits(out) }.and_then(|()| level(wanted)))?;
        let done = match &open.kind {
            WriterKind::Alone(writer) => report(writer.end_step_at(wanted)?.as_ref(), &open.container),
            WriterKind::Together(writer) => committed(writer.end_step_at(Some(wanted))?),
        };
        log::tell_warnings(&open.container);
        // SAFETY: pointers are as drystone.h specifies.
        unsafe { give(out, &done) }
    })
}

/// Drops the open step.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn dry_abort_step(handle: *const dry_writer) -> Status {
    guard(|| match &writer(handle)?.kind {
        WriterKind::Alone(writer) => Ok(writer.abort_step()?),
        WriterKind::Together(writer) => Ok(writer.abort_step()?),
    })
}

/// Passes all buffered data to the store.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn dry_writer_flush(handle: *const dry_writer) -> Status {
    guard(|| match &writer(handle)?.kind {
        WriterKind::Alone(writer) => Ok(writer.flush()?),
        WriterKind::Together(_) => Ok(()), // its blocks go out when the step ends
    })
}

/// Writes a block.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_put(
    handle: *const dry_writer,
    name: *const c_char,
    type_: Type,
    data: *const u8,
    size: u64,
    ndim: u32,
    offset: *const u64,
    count: *const u64,
    given: *const dry_put_options,
) -> Status {
    guard(|| {
        // SAFETY: pointers are as drystone.h specifies.
        let (name, offset, count, given) = unsafe {
            (
                path(name)?,
                optional_extents(offset, ndim, "the offset")?,
                extents(count, ndim, "the count")?,
                options(given)?,
            )
        };
        // SAFETY: pointers are as drystone.h specifies.
        let field = unsafe { optional_text(given.member, "the member")? };
        let open = writer(handle)?;
        let (dtype, inner) = open.element(name, field)?;
        let what = field.map_or_else(|| format!("\"{name}\""), |f| format!("member \"{f}\" of \"{name}\""));
        let item = check_element(&what, &dtype, &inner, type_, given.item_size)?;
        // SAFETY: `strides` has an entry per dimension or is NULL, and the memory does not change until this returns.
        let source = unsafe { Memory::new(data.cast_mut(), size, count, given.strides, item)?.source()? };
        match &open.kind {
            WriterKind::Alone(writer) => writer.put(name, &dtype, &source, offset, field)?,
            WriterKind::Together(writer) => writer.put(name, &dtype, &source, offset, field)?,
        }
        Ok(())
    })
}

/// Writes a block of strings.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_put_strings(
    handle: *const dry_writer,
    name: *const c_char,
    values: *const *const c_char,
    lengths: *const u64,
    ndim: u32,
    offset: *const u64,
    count: *const u64,
) -> Status {
    guard(|| {
        // SAFETY: pointers are as drystone.h specifies.
        let (name, offset, count) = unsafe {
            (path(name)?, optional_extents(offset, ndim, "the offset")?, extents(count, ndim, "the count")?)
        };
        // SAFETY: as many texts, and if there are lengths as many lengths, as the count says.
        let texts = unsafe { crate::strings::gather(values, lengths, product(count)?)? };
        writer(handle)?.put_strings(name, count, &texts, offset, None)
    })
}

/// Writes a block of strings of a member of records.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_put_member_strings(
    handle: *const dry_writer,
    name: *const c_char,
    member: *const c_char,
    values: *const *const c_char,
    lengths: *const u64,
    many: usize,
    ndim: u32,
    offset: *const u64,
    count: *const u64,
) -> Status {
    guard(|| {
        // SAFETY: pointers are as drystone.h specifies.
        let (name, member, offset, count) = unsafe {
            (
                path(name)?,
                text(member, "the member")?,
                optional_extents(offset, ndim, "the offset")?,
                extents(count, ndim, "the count")?,
            )
        };
        // SAFETY: as many texts, and if there are lengths as many lengths, as the caller says.
        let texts = unsafe { crate::strings::gather(values, lengths, many)? };
        writer(handle)?.put_strings(name, count, &texts, offset, Some(member))
    })
}

/// The number of cells of a block.
pub(crate) fn product(count: &[u64]) -> Result<usize> {
    let cells = count.iter().try_fold(1u64, |cells, n| cells.checked_mul(*n));
    let cells = cells.and_then(|cells| usize::try_from(cells).ok());
    cells.ok_or_else(|| Failure::invalid("the count is too large"))
}
