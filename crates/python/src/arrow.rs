//! Tables as Arrow streams: the C data interface, wrapped in the capsules of the PyCapsule protocol.
//!
//! Python describes the columns (`Field`) and gives an iterator of batches. A batch has a node per column:
//! length, number of nulls, buffers as objects with the buffer protocol, children. Buffers are not copied: an
//! array holds references to them until its consumer releases it.
//!
//! Invariants
//! - a structure whose `release` is null has been moved or released by its consumer;
//! - an array or stream may be released on any thread, and after the interpreter has ended, when Python objects
//!   are leaked;
//! - an error of the iterator becomes an error code and the text of `get_last_error`, never an exception.

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCapsule, PyIterator};

use crate::error::{Result, invalid};

/// Flag: nulls may occur.
const NULLABLE: i64 = 2;
/// Error code; `get_last_error` gives the details.
const EIO: c_int = 5;

/// `ArrowSchema` of the C data interface.
#[repr(C)]
struct ArrowSchema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *mut *mut ArrowSchema,
    dictionary: *mut ArrowSchema,
    release: Option<unsafe extern "C" fn(*mut ArrowSchema)>,
    private_data: *mut c_void,
}

/// `ArrowArray` of the C data interface.
#[repr(C)]
struct ArrowArray {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *mut *const c_void,
    children: *mut *mut ArrowArray,
    dictionary: *mut ArrowArray,
    release: Option<unsafe extern "C" fn(*mut ArrowArray)>,
    private_data: *mut c_void,
}

/// `ArrowArrayStream` of the C stream interface.
#[repr(C)]
struct ArrowArrayStream {
    get_schema: Option<unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowSchema) -> c_int>,
    get_next: Option<unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowArray) -> c_int>,
    get_last_error: Option<unsafe extern "C" fn(*mut ArrowArrayStream) -> *const c_char>,
    release: Option<unsafe extern "C" fn(*mut ArrowArrayStream)>,
    private_data: *mut c_void,
}

// SAFETY: the structure owns everything that its pointers lead to, and one thread uses it at a time, as the
// interface demands.
unsafe impl Send for ArrowSchema {}
// SAFETY: as above.
unsafe impl Send for ArrowArrayStream {}

impl Drop for ArrowSchema {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: it was not released, and `self` is the structure that it belongs to.
            unsafe { release(self) };
        }
    }
}

impl Drop for ArrowArrayStream {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: it was not released, and `self` is the structure that it belongs to.
            unsafe { release(self) };
        }
    }
}

/// A field: name, format, children.
#[derive(Clone, FromPyObject)]
pub(crate) struct Field(String, String, Vec<Field>);

/// Memory owned by a schema.
struct SchemaParts {
    _format: CString,
    _name: CString,
    children: Vec<*mut ArrowSchema>,
}

fn text(text: &str) -> CString {
    // A name may contain a NUL, which a C string cannot.
    CString::new(text.replace('\0', "\u{fffd}")).unwrap_or_default()
}

impl ArrowSchema {
    fn new(field: &Field, flags: i64) -> ArrowSchema {
        let (format, name) = (text(&field.1), text(&field.0));
        let children = field.2.iter().map(|child| Box::into_raw(Box::new(ArrowSchema::new(child, NULLABLE))));
        let mut parts = Box::new(SchemaParts { _format: format, _name: name, children: children.collect() });
        ArrowSchema {
            format: parts._format.as_ptr(),
            name: parts._name.as_ptr(),
            metadata: ptr::null(),
            flags,
            n_children: parts.children.len() as i64,
            children: parts.children.as_mut_ptr(),
            dictionary: ptr::null_mut(),
            release: Some(release_schema),
            private_data: Box::into_raw(parts).cast(),
        }
    }

    fn of(fields: &[Field]) -> ArrowSchema {
        ArrowSchema::new(&Field(String::new(), "+s".to_owned(), fields.to_vec()), 0)
    }
}

unsafe extern "C" fn release_schema(schema: *mut ArrowSchema) {
    // SAFETY: the consumer passes the structure that holds this callback, once; `private_data` is the box of `new`.
    unsafe {
        let parts = Box::from_raw((*schema).private_data.cast::<SchemaParts>());
        for &child in &parts.children {
            // A child that the consumer has moved has a null `release`; its box is freed here nevertheless.
            drop(Box::from_raw(child));
        }
        (*schema).release = None;
    }
}

/// A node: length, number of nulls, buffers, children.
#[derive(FromPyObject)]
struct Node<'py>(i64, i64, Vec<Option<Bound<'py, PyAny>>>, Vec<Node<'py>>);

/// Memory owned by an array.
struct ArrayParts {
    held: Vec<PyBuffer<u8>>,
    buffers: Vec<*const c_void>,
    children: Vec<*mut ArrowArray>,
}

impl ArrowArray {
    fn new(node: &Node<'_>) -> PyResult<ArrowArray> {
        let (mut held, mut buffers) = (Vec::new(), Vec::new());
        for buffer in &node.2 {
            buffers.push(match buffer {
                Some(object) => {
                    let buffer = PyBuffer::<u8>::get(object)?;
                    let at = buffer.buf_ptr() as *const c_void;
                    held.push(buffer);
                    at
                }
                None => ptr::null(),
            });
        }
        let made = node.3.iter().map(ArrowArray::new).collect::<PyResult<Vec<_>>>()?;
        let children = made.into_iter().map(|child| Box::into_raw(Box::new(child))).collect();
        let mut parts = Box::new(ArrayParts { held, buffers, children });
        Ok(ArrowArray {
            length: node.0,
            null_count: node.1,
            offset: 0,
            n_buffers: parts.buffers.len() as i64,
            n_children: parts.children.len() as i64,
            buffers: parts.buffers.as_mut_ptr(),
            children: parts.children.as_mut_ptr(),
            dictionary: ptr::null_mut(),
            release: Some(release_array),
            private_data: Box::into_raw(parts).cast(),
        })
    }
}

impl Drop for ArrowArray {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: it was not released, and `self` is the structure that it belongs to.
            unsafe { release(self) };
        }
    }
}

unsafe extern "C" fn release_array(array: *mut ArrowArray) {
    // SAFETY: the consumer passes the structure that holds this callback, once; `private_data` is the box of `new`.
    unsafe {
        let mut parts = Box::from_raw((*array).private_data.cast::<ArrayParts>());
        for &child in &parts.children {
            drop(Box::from_raw(child));
        }
        let held = std::mem::take(&mut parts.held);
        (*array).release = None;
        leave(held);
    }
}

/// Set when the program ends. Threads of consumers, which read ahead, must not wait for an interpreter that is ending.
static ENDING: AtomicBool = AtomicBool::new(false);
/// Number of threads that execute Python for a consumer, or wait to.
static INSIDE: AtomicUsize = AtomicUsize::new(0);
/// How long the end of the program waits for them.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs a function with the interpreter attached; `None`, without running it, once the program ends.
fn inside<T>(work: impl FnOnce(Python<'_>) -> T) -> Option<T> {
    INSIDE.fetch_add(1, Ordering::SeqCst);
    let done = if ENDING.load(Ordering::SeqCst) { None } else { Python::try_attach(work) };
    INSIDE.fetch_sub(1, Ordering::SeqCst);
    done
}

/// Called when the program ends: no stream enters the interpreter from now on. Waits for the streams inside it,
/// up to [`PATIENCE`].
#[pyfunction]
fn end_streams(py: Python<'_>) {
    ENDING.store(true, Ordering::SeqCst);
    py.detach(|| {
        let since = Instant::now();
        while INSIDE.load(Ordering::SeqCst) > 0 && since.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
}

/// Registers [`end_streams`] to be called once when the program ends.
fn watch_the_end(py: Python<'_>) -> PyResult<()> {
    static WATCHED: PyOnceLock<()> = PyOnceLock::new();
    WATCHED
        .get_or_try_init(py, || {
            let call = wrap_pyfunction!(end_streams, py)?;
            py.import("atexit")?.call_method1("register", (call,))?;
            Ok(())
        })
        .copied()
}

/// Drops Python objects. They must not be touched once the interpreter is shutting down.
fn leave<T>(held: T) {
    let mut held = Some(held);
    if inside(|_| drop(held.take())).is_none() {
        std::mem::forget(held);
    }
}

/// Memory owned by a stream.
struct StreamParts {
    fields: Vec<Field>,
    batches: Mutex<Option<Py<PyIterator>>>,
    error: Mutex<CString>,
}

unsafe extern "C" fn stream_schema(stream: *mut ArrowArrayStream, out: *mut ArrowSchema) -> c_int {
    // SAFETY: the consumer passes a stream of ours that is not released, and memory for a schema with any content.
    unsafe {
        let parts = &*(*stream).private_data.cast::<StreamParts>();
        ptr::write(out, ArrowSchema::of(&parts.fields));
    }
    0
}

fn next(parts: &StreamParts) -> std::result::Result<Option<ArrowArray>, String> {
    let found = inside(|py| -> PyResult<Option<ArrowArray>> {
        let batches =
            parts.batches.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|b| b.clone_ref(py));
        let Some(batches) = batches else { return Ok(None) };
        match batches.into_bound(py).next() {
            Some(batch) => {
                let batch = batch?;
                let (rows, columns): (i64, Vec<Node<'_>>) = batch.extract()?;
                // A table is a struct without nulls.
                ArrowArray::new(&Node(rows, 0, vec![None], columns)).map(Some)
            }
            None => {
                parts.batches.lock().unwrap_or_else(PoisonError::into_inner).take();
                Ok(None)
            }
        }
    });
    match found {
        Some(Ok(batch)) => Ok(batch),
        Some(Err(error)) => Err(error.to_string()),
        None => Err("the interpreter is shutting down".to_owned()),
    }
}

unsafe extern "C" fn stream_next(stream: *mut ArrowArrayStream, out: *mut ArrowArray) -> c_int {
    // SAFETY: see `stream_schema`; one thread at a time reads a stream.
    let parts = unsafe { &*(*stream).private_data.cast::<StreamParts>() };
    match next(parts) {
        Ok(Some(batch)) => {
            // SAFETY: `out` is memory for an array.
            unsafe { ptr::write(out, batch) };
            0
        }
        Ok(None) => {
            // SAFETY: an array of zeros is a released one: the end of the stream.
            unsafe { ptr::write_bytes(out, 0, 1) };
            0
        }
        Err(said) => {
            *parts.error.lock().unwrap_or_else(PoisonError::into_inner) = text(&said);
            EIO
        }
    }
}

unsafe extern "C" fn stream_error(stream: *mut ArrowArrayStream) -> *const c_char {
    // SAFETY: see `stream_schema`. The text stays valid until the next call on the stream.
    let parts = unsafe { &*(*stream).private_data.cast::<StreamParts>() };
    parts.error.lock().unwrap_or_else(PoisonError::into_inner).as_ptr()
}

unsafe extern "C" fn release_stream(stream: *mut ArrowArrayStream) {
    // SAFETY: the consumer passes the structure that holds this callback, once; `private_data` is the box of
    // `arrow_stream`.
    let parts = unsafe {
        let parts = Box::from_raw((*stream).private_data.cast::<StreamParts>());
        (*stream).release = None;
        parts
    };
    leave(parts.batches.into_inner().unwrap_or_else(PoisonError::into_inner));
}

/// A capsule `arrow_schema` of fields (name, format, children).
#[pyfunction]
pub(crate) fn arrow_schema<'py>(py: Python<'py>, fields: Vec<Field>) -> Result<Bound<'py, PyCapsule>> {
    Ok(PyCapsule::new_with_value(py, ArrowSchema::of(&fields), c"arrow_schema")?)
}

/// A capsule `arrow_array_stream` of an iterator of batches: (rows, a node per field), a node being (length, nulls,
/// buffers, children).
#[pyfunction]
pub(crate) fn arrow_stream<'py>(
    py: Python<'py>,
    fields: Vec<Field>,
    batches: &Bound<'py, PyAny>,
) -> Result<Bound<'py, PyCapsule>> {
    let Ok(batches) = batches.cast::<PyIterator>() else {
        return Err(invalid("batches come from an iterator"));
    };
    watch_the_end(py)?;
    let parts = Box::new(StreamParts {
        fields,
        batches: Mutex::new(Some(batches.clone().unbind())),
        error: Mutex::default(),
    });
    let stream = ArrowArrayStream {
        get_schema: Some(stream_schema),
        get_next: Some(stream_next),
        get_last_error: Some(stream_error),
        release: Some(release_stream),
        private_data: Box::into_raw(parts).cast(),
    };
    Ok(PyCapsule::new_with_value(py, stream, c"arrow_array_stream")?)
}
