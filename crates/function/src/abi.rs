//! The call of a function: crates/capi/include/drystone_function.h, version 1.

use std::ffi::{c_char, c_int, c_void};
use std::path::Path;
use std::time::Duration;

use drystone_format::dtype::Scalar;

use crate::declared::{Declared, NDIM, code};
use crate::turn::Turn;
use crate::{Error, Result};

/// Bytes for a message of the function.
const MESSAGE: usize = 512;
/// Bytes before and behind an output tile, which detect writes outside it.
const GUARD: usize = 64;
const GUARDED: u8 = 0xA5;

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

/// `struct drystone_function`.
#[repr(C)]
pub struct Described {
    struct_size: u32,
    version: u32,
    flags: u32,
    in_type: u32,
    out_type: u32,
    ndim: u32,
    halo: [u32; NDIM],
    call: Option<Call>,
    state: *mut c_void,
}

/// The version of the interface.
const VERSION: u32 = 1;
/// The flag of functions that several threads may call.
const THREAD_SAFE: u32 = 2;

/// `drystone_function_call`.
type Call = unsafe extern "C" fn(*const Tile, usize, *mut Tile, *mut c_void) -> c_int;

/// Bytes that are aligned for every element.
#[derive(Debug, Default)]
pub struct Aligned {
    words: Vec<u64>,
    len: usize,
}

impl Aligned {
    /// Zeros. `None`: there is no such memory.
    pub fn zeros(len: usize) -> Option<Aligned> {
        Aligned::default().resized(len)
    }

    /// The same memory with another length; bytes that are added are zeros. `None`: there is no such memory.
    pub fn resized(mut self, len: usize) -> Option<Aligned> {
        let many = len.div_ceil(8);
        self.words.try_reserve_exact(many.saturating_sub(self.words.len())).ok()?;
        self.words.resize(many, 0);
        self.len = len;
        Some(self)
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: the words have at least `len` bytes.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr().cast(), self.len) }
    }

    /// The bytes.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the words have at least `len` bytes, and every byte pattern is a word.
        unsafe { std::slice::from_raw_parts_mut(self.words.as_mut_ptr().cast(), self.len) }
    }
}

/// A tile that a function is called for.
#[derive(Debug)]
pub struct Job {
    /// The step; `None` without steps.
    pub step: Option<u64>,
    /// The first cell of the output.
    pub offset: Vec<u64>,
    /// Extents of the output.
    pub count: Vec<u64>,
    /// The input with its halo.
    pub input: Aligned,
    /// Memory for the output, of any length. The call makes it fit.
    pub output: Aligned,
}

impl Job {
    /// The elements of the output after the call.
    pub fn made(&self) -> &[u8] {
        let bytes = self.output.bytes();
        bytes.get(GUARD..bytes.len().saturating_sub(GUARD)).unwrap_or_default()
    }
}

/// A registered function.
pub struct Function {
    declared: Declared,
    call: Call,
    /// The address that each call receives.
    state: usize,
    turn: Turn,
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
            Error::Invalid(format!("{symbol:?} of the library {} cannot be used: {error}", library.display()))
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
            return Err(Error::Invalid("a function needs an address; 0 was given".into()));
        }
        // SAFETY: the caller guarantees that it is such a function; a function pointer has the size of an address.
        let call = unsafe { std::mem::transmute::<usize, Call>(address) };
        Ok(Self::new(declared, call, state))
    }

    /// The function that a `struct drystone_function` describes, which is copied.
    ///
    /// # Safety
    /// The function stays callable from any thread until the process ends, and accepts the state.
    pub unsafe fn described(
        name: &str,
        function: &Described,
        deadline: Duration,
        memory: u64,
    ) -> Result<Function> {
        let Described { struct_size, version, flags, in_type, out_type, ndim, halo, call, state } = function;
        if (*struct_size as usize) < size_of::<Described>() || *version != VERSION {
            return Err(Error::Invalid(format!(
                "a struct drystone_function of {struct_size} bytes and version {version}; {} and {VERSION} are needed",
                size_of::<Described>()
            )));
        }
        let Some(call) = call else {
            return Err(Error::Invalid("a function needs an address; NULL was given".into()));
        };
        let scalar = |wanted: u32| {
            Scalar::all()
                .find(|scalar| code(*scalar) == Some(wanted))
                .ok_or_else(|| Error::Invalid(format!("{wanted:#x} is no type of functions")))
        };
        let halo = halo
            .get(..*ndim as usize)
            .ok_or_else(|| Error::Invalid(format!("a function has 1 to {NDIM} dimensions, not {ndim}")))?;
        let declared = Declared {
            name: name.to_owned(),
            input: scalar(*in_type)?,
            output: scalar(*out_type)?,
            halo: halo.iter().map(|cells| u64::from(*cells)).collect(),
            thread_safe: flags & THREAD_SAFE != 0,
            deadline,
            memory,
        };
        declared.check()?;
        Ok(Self::new(declared, *call, state.addr()))
    }

    fn new(declared: Declared, call: Call, state: usize) -> Function {
        Function { declared, call, state, turn: Turn::default() }
    }

    /// Its properties.
    pub fn declared(&self) -> &Declared {
        &self.declared
    }

    /// Whose turn it is to call it, and the calls that were left behind.
    pub(crate) fn turn(&self) -> &Turn {
        &self.turn
    }

    /// Calls it for a tile. The error is the reason why there is no output.
    pub(crate) fn call(&self, job: &mut Job) -> std::result::Result<(), String> {
        let Declared { input, output, halo, .. } = &self.declared;
        let around: Vec<u64> = job.count.iter().zip(halo).map(|(n, halo)| n + 2 * halo).collect();
        let signed = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let inner: Vec<i64> = job.offset.iter().map(|at| signed(*at)).collect();
        let outer: Vec<i64> = inner.iter().zip(halo).map(|(at, halo)| at - signed(*halo)).collect();
        let cells = job.count.iter().fold(1, |all: u64, n| all.saturating_mul(*n));
        let len = usize::try_from(cells).unwrap_or(usize::MAX).saturating_mul(output.size() as usize);
        let memory = std::mem::take(&mut job.output);
        job.output = len
            .checked_add(2 * GUARD)
            .and_then(|len| memory.resized(len))
            .ok_or("there is no memory for it")?;
        let (front, back) = (GUARD, GUARD + len);
        let bytes = job.output.bytes_mut();
        bytes[..front].fill(GUARDED);
        bytes[back..].fill(GUARDED);
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
        let data = unsafe { bytes.as_mut_ptr().add(front) };
        let mut wanted = Tile {
            origin: inner.as_ptr(),
            shape: job.count.as_ptr(),
            strides: strides_out.as_ptr(),
            ..tile(*output, &mut message, data)
        };
        // SAFETY: the structures are those of the header, and their memory lives until the call returns. The owner of
        // the process declares that the function follows the header.
        let failed = unsafe { (self.call)(&raw const given, 1, &raw mut wanted, self.state as *mut c_void) };
        let bytes = job.output.bytes();
        let is_guarded = |part: Option<&[u8]>| part.is_some_and(|part| part.iter().all(|b| *b == GUARDED));
        if !is_guarded(bytes.get(..front)) || !is_guarded(bytes.get(back..)) {
            return Err("wrote outside its tile".into());
        }
        if failed != 0 {
            let text = message.split(|byte| *byte == 0).next().unwrap_or_default();
            let text = if text.is_empty() { "no text".into() } else { String::from_utf8_lossy(text) };
            return Err(format!("returned {failed}: {text}"));
        }
        Ok(())
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
