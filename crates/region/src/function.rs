//! Registered functions over tiles: crates/capi/include/drystone_function.h, version 1.
//!
//! A function has a name here, and a library or an address that only the owner of the process gives: the configuration
//! of a server, or the program itself. Requests and containers hold names, never libraries.
//!
//! Invariants
//! - a call has memory of its own, so a function that a deadline leaves behind touches nothing else;
//! - while a call is left behind, the function is not called again;
//! - a function that does not declare itself thread-safe is called by one thread at a time.

use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_void};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};
use std::time::Duration;

use drystone::Result;
use drystone::format::dtype::Scalar;

use super::error::{invalid, not_found};
use super::sync::lock;

/// The most dimensions of a tile.
const NDIM: usize = 8;
/// The widest halo, in cells.
const HALO: u64 = 1024;
/// The longest name, in bytes.
const NAME: usize = 64;
/// Bytes for a message of the function.
const MESSAGE: usize = 512;
/// Bytes before and behind an output tile, which detect writes outside it.
const GUARD: usize = 64;
const GUARDED: u8 = 0xA5;

/// The properties of a function, as its owner declares them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    /// The name by which rules name it.
    pub name: String,
    /// The type that it reads.
    pub input: Scalar,
    /// The type that it writes.
    pub output: Scalar,
    /// The cells that it needs on each side, by dimension. Tiles have as many dimensions.
    pub halo: Vec<u64>,
    /// Whether several threads may call it at once.
    pub thread_safe: bool,
    /// The time for the results of one release.
    pub deadline: Duration,
    /// The most bytes of a release and its results.
    pub memory: u64,
}

impl Declared {
    /// The default of `deadline`.
    pub const DEADLINE: Duration = Duration::from_secs(10);
    /// The default of `memory`.
    pub const MEMORY: u64 = 256 << 20;

    /// Checks the declaration. Errors name the value.
    pub fn check(&self) -> Result<()> {
        if !is_name(&self.name) {
            return Err(invalid(format!(
                "{:?} is no name of a function: it has 1 to {NAME} letters, digits, '_', '-' and '.'",
                self.name
            )));
        }
        if self.halo.is_empty() || self.halo.len() > NDIM {
            return Err(invalid(format!("a function has 1 to {NDIM} dimensions, not {}", self.halo.len())));
        }
        if let Some(halo) = self.halo.iter().find(|halo| **halo > HALO) {
            return Err(invalid(format!("a halo has at most {HALO} cells, not {halo}")));
        }
        for scalar in [self.input, self.output] {
            code(scalar).ok_or_else(|| {
                invalid(format!("functions take truth values, integers and floats, not {}", scalar.name()))
            })?;
        }
        if self.deadline.is_zero() {
            return Err(invalid("a deadline is longer than 0"));
        }
        Ok(())
    }
}

/// Whether a text can be the name of a function.
pub(super) fn is_name(name: &str) -> bool {
    let is_sound = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-' | b'.');
    (1..=NAME).contains(&name.len()) && name.bytes().all(is_sound)
}

/// The element type of a text: `f4`, or NumPy's name, as `float32`.
pub fn element_type(text: &str) -> Option<Scalar> {
    let short = |scalar: Scalar| {
        code(scalar).is_some_and(|code| {
            let kind = char::from(u8::try_from(code >> 8).unwrap_or(0));
            text.strip_prefix(kind).is_some_and(|size| size == scalar.size().to_string())
        })
    };
    Scalar::all()
        .find(|scalar| short(*scalar))
        .or_else(|| Scalar::parse(text).filter(|scalar| code(*scalar).is_some()))
}

/// The header's code of a type: the letter of NumPy's kind, and the size.
fn code(scalar: Scalar) -> Option<u32> {
    use Scalar::{Bool, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
    let kind = match scalar {
        Bool => b'b',
        I8 | I16 | I32 | I64 => b'i',
        U8 | U16 | U32 | U64 => b'u',
        F16 | F32 | F64 => b'f',
        _ => return None,
    };
    Some(u32::from(kind) << 8 | scalar.size())
}

/// `struct drystone_tile`.
#[repr(C)]
struct Tile {
    struct_size: u32,
    kind: u32,
    ndim: u32,
    message_size: u32,
    step: i64,
    data: *mut c_void,
    origin: *const i64,
    shape: *const u64,
    strides: *const i64,
    message: *mut c_char,
}

/// `drystone_function_call`.
type Call = unsafe extern "C" fn(*const Tile, usize, *mut Tile, *mut c_void) -> c_int;

/// Bytes that are aligned for every element.
#[derive(Default)]
pub(super) struct Aligned {
    words: Vec<u64>,
    len: usize,
}

impl Aligned {
    /// Zeros. `None`: there is no such memory.
    pub(super) fn zeros(len: usize) -> Option<Aligned> {
        let (many, mut words) = (len.div_ceil(8), Vec::new());
        words.try_reserve_exact(many).ok()?;
        words.resize(many, 0);
        Some(Aligned { words, len })
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the words have at least `len` bytes, and every byte pattern is a word.
        unsafe { std::slice::from_raw_parts_mut(self.words.as_mut_ptr().cast(), self.len) }
    }
}

/// A tile that a function is called for.
pub(super) struct Job {
    /// Its number among the tiles of a release.
    pub(super) number: usize,
    pub(super) step: Option<u64>,
    /// The first cell of the output.
    pub(super) offset: Vec<u64>,
    /// Extents of the output.
    pub(super) count: Vec<u64>,
    /// The input with its halo.
    pub(super) input: Aligned,
}

/// A registered function.
pub struct Function {
    declared: Declared,
    call: Call,
    /// The address that each call receives.
    state: usize,
    /// Calls that a deadline has left behind.
    left: AtomicUsize,
    turn: Mutex<()>,
}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Function({:?})", self.declared)
    }
}

impl Function {
    /// The function behind a symbol of a shared library, which stays loaded until the process ends.
    pub fn load(declared: Declared, library: &Path, symbol: &str) -> Result<Function> {
        declared.check()?;
        let cannot = |error: libloading::Error| {
            invalid(format!("{symbol:?} of the library {} cannot be used: {error}", library.display()))
        };
        // SAFETY: the owner of the process names the library, whose initialisers run with its rights.
        let library = unsafe { libloading::Library::new(library) }.map_err(cannot)?;
        // SAFETY: the owner declares that the symbol is a function of this convention.
        let call = unsafe { library.get::<Call>(symbol.as_bytes()) }.map_err(cannot)?;
        let call = *call;
        std::mem::forget(library);
        Ok(Self::new(declared, call, 0))
    }

    /// The function at an address.
    ///
    /// # Safety
    /// The address is that of a `drystone_function_call` that stays callable from any thread until the process ends,
    /// and accepts `state`.
    pub unsafe fn at(declared: Declared, address: usize, state: usize) -> Result<Function> {
        declared.check()?;
        if address == 0 {
            return Err(invalid("a function needs an address; 0 was given"));
        }
        // SAFETY: the caller guarantees that it is such a function; a function pointer has the size of an address.
        let call = unsafe { std::mem::transmute::<usize, Call>(address) };
        Ok(Self::new(declared, call, state))
    }

    fn new(declared: Declared, call: Call, state: usize) -> Function {
        Function { declared, call, state, left: AtomicUsize::new(0), turn: Mutex::default() }
    }

    /// Its properties.
    pub fn declared(&self) -> &Declared {
        &self.declared
    }

    /// The turn of a function that several threads must not call; `None` for others.
    pub(super) fn turn(&self) -> Option<MutexGuard<'_, ()>> {
        (!self.declared.thread_safe).then(|| lock(&self.turn))
    }

    /// The counter of calls that were left behind.
    pub(super) fn left(&self) -> &AtomicUsize {
        &self.left
    }

    /// Whether a call was left behind and has not returned.
    pub(super) fn is_stuck(&self) -> bool {
        self.left.load(Ordering::Acquire) > 0
    }

    /// Calls it for a tile: the elements of the output tile, or the reason why there are none.
    pub(super) fn call(&self, job: &mut Job) -> std::result::Result<Vec<u8>, String> {
        let Declared { input, output, halo, .. } = &self.declared;
        let around: Vec<u64> = job.count.iter().zip(halo).map(|(n, halo)| n + 2 * halo).collect();
        let signed = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let inner: Vec<i64> = job.offset.iter().map(|at| signed(*at)).collect();
        let outer: Vec<i64> = inner.iter().zip(halo).map(|(at, halo)| at - signed(*halo)).collect();
        let cells = job.count.iter().fold(1, |all: u64, n| all.saturating_mul(*n));
        let len = usize::try_from(cells).unwrap_or(usize::MAX).saturating_mul(output.size() as usize);
        let mut made =
            len.checked_add(2 * GUARD).and_then(Aligned::zeros).ok_or("there is no memory for it")?;
        let (front, back) = (GUARD, GUARD + len);
        made.bytes_mut().fill(GUARDED);
        let mut message = [0_u8; MESSAGE];
        let (strides_in, strides_out) = (strides(&around, input.size()), strides(&job.count, output.size()));
        let step = job.step.map_or(-1, signed);
        let tile = |scalar: Scalar, message: &mut [u8], data: *mut u8| Tile {
            struct_size: size_of::<Tile>() as u32,
            kind: code(scalar).unwrap_or(0),
            ndim: halo.len() as u32,
            message_size: message.len() as u32,
            step,
            data: data.cast(),
            origin: std::ptr::null(),
            shape: std::ptr::null(),
            strides: std::ptr::null(),
            message: if message.is_empty() { std::ptr::null_mut() } else { message.as_mut_ptr().cast() },
        };
        let given = Tile {
            origin: outer.as_ptr(),
            shape: around.as_ptr(),
            strides: strides_in.as_ptr(),
            ..tile(*input, &mut [], job.input.bytes_mut().as_mut_ptr())
        };
        // SAFETY: the guards before the elements lie in the memory.
        let data = unsafe { made.bytes_mut().as_mut_ptr().add(front) };
        let mut wanted = Tile {
            origin: inner.as_ptr(),
            shape: job.count.as_ptr(),
            strides: strides_out.as_ptr(),
            ..tile(*output, &mut message, data)
        };
        // SAFETY: the structures are those of the header, and their memory lives until the call returns. The owner of
        // the process declares that the function follows the header.
        let failed = unsafe { (self.call)(&raw const given, 1, &raw mut wanted, self.state as *mut c_void) };
        let bytes = made.bytes_mut();
        let is_guarded = |part: Option<&[u8]>| part.is_some_and(|part| part.iter().all(|b| *b == GUARDED));
        if !is_guarded(bytes.get(..front)) || !is_guarded(bytes.get(back..)) {
            return Err("wrote outside its tile".into());
        }
        if failed != 0 {
            let text = message.split(|byte| *byte == 0).next().unwrap_or_default();
            let text = if text.is_empty() { "no text".into() } else { String::from_utf8_lossy(text) };
            return Err(format!("returned {failed}: {text}"));
        }
        Ok(bytes.get(front..back).unwrap_or_default().to_vec())
    }
}

fn strides(count: &[u64], item: u32) -> Vec<i64> {
    let mut stride = i64::from(item);
    let mut out: Vec<i64> = Vec::new();
    for n in count.iter().rev() {
        out.push(stride);
        stride = stride.saturating_mul(i64::try_from(*n).unwrap_or(i64::MAX));
    }
    out.reverse();
    out
}

/// Functions by name.
#[derive(Debug, Default)]
pub struct Functions {
    named: Mutex<BTreeMap<String, Arc<Function>>>,
}

impl Functions {
    /// Those of this process, for regions that no server keeps.
    pub fn of_process() -> Arc<Functions> {
        static OWN: LazyLock<Arc<Functions>> = LazyLock::new(Arc::default);
        Arc::clone(&OWN)
    }

    /// Adds a function. One of the same name gives way; its calls end as they began.
    pub fn insert(&self, function: Function) {
        lock(&self.named).insert(function.declared.name.clone(), Arc::new(function));
    }

    /// The function of a name.
    pub(super) fn find(&self, name: &str) -> Result<Arc<Function>> {
        let named = lock(&self.named);
        named.get(name).cloned().ok_or_else(|| {
            let names: Vec<&str> = named.keys().map(String::as_str).collect();
            let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            not_found(format!(
                "there is no function {name:?} where the container is released (there: {known}): name it under \
                 [functions] in the configuration of the server, or register it in the process that releases"
            ))
        })
    }
}
