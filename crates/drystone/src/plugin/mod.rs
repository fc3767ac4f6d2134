//! Plug-ins: codecs in shared libraries, used through the interface of `drystone_transform.h`.
//!
//! A plug-in is code, so nothing that comes with data may load one. Only the configuration named by the environment
//! (`DRYSTONE_CONFIG`) lists files to load. They are loaded by their paths, never searched for. docs/guide/plugins.md
//! is the guide.
//!
//! Invariants
//! - a library is loaded once and never unloaded, since chains made of its codecs may exist anywhere;
//! - a codec's description of itself is checked before its name is registered: version, size, functions, name;
//! - results of its functions are checked like bytes from outside.

mod abi;
mod foreign;
#[cfg(feature = "fuzzing")]
mod fuzzing;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::ffi::CStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use drystone_transform::{CodecSpec, Maker, TransformError, register};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use crate::base::sync::lock;
use crate::{Error, Result};
use foreign::Foreign;
#[cfg(feature = "fuzzing")]
pub(crate) use fuzzing::fuzz_plugin;

/// The most codecs of one library.
const MOST: u32 = 256;

/// The files that were loaded.
static LOADED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Loads a plug-in, unless it is loaded already, and registers its codecs.
pub(crate) fn load(path: &Path) -> Result<()> {
    let named = |problem: String| Error::invalid(format!("the plug-in {}: {problem}", path.display()));
    let file = path.canonicalize().map_err(|e| named(format!("cannot be found: {e}")))?;
    let mut loaded = lock(&LOADED);
    if loaded.contains(&file) {
        return Ok(());
    }
    // SAFETY: loading runs the library's initialisers; the author of the configuration trusts the file.
    let library = unsafe { Library::open(Some(&file), RTLD_NOW | RTLD_LOCAL) }
        .map_err(|e| named(format!("cannot be loaded: {e}")))?;
    // SAFETY: the header gives the function with this name this type.
    let entry = unsafe { library.get::<abi::Entry>(b"drystone_codec\0") }
        .map(|symbol| *symbol)
        .map_err(|_| named("does not export drystone_codec (see drystone_transform.h)".into()))?;
    // The codecs point into the library for as long as the process runs.
    std::mem::forget(library);
    let mut has_codecs = false;
    for number in 0..MOST {
        // SAFETY: a function of the plug-in, called as the header requires.
        let codec = unsafe { entry(abi::ABI, number) };
        if codec.is_null() {
            break;
        }
        // SAFETY: the pointer is not null, and the header requires the plug-in to keep the codec for ever.
        let maker = unsafe { Plugin::of(codec) }.map_err(named)?;
        let name = maker.name.clone();
        register(&name, Arc::new(maker)).map_err(|e| named(e.to_string()))?;
        has_codecs = true;
    }
    if !has_codecs {
        return Err(named(format!(
            "has no codec for version {} of drystone_transform.h, which this program speaks",
            abi::ABI
        )));
    }
    loaded.insert(file);
    Ok(())
}

/// A codec of a plug-in, without parameters yet.
struct Plugin {
    name: String,
    table: abi::Codec,
}

// SAFETY: the pointers in the table are to functions and constants, which the header permits any thread to use.
unsafe impl Send for Plugin {}
// SAFETY: as above.
unsafe impl Sync for Plugin {}

impl Plugin {
    /// Copies the part of the codec's table that both sides know, and checks it.
    ///
    /// # Safety
    /// `codec` points to a structure with as many bytes as its first field says, and its pointers are as the header
    /// requires.
    unsafe fn of(codec: *const abi::Codec) -> std::result::Result<Plugin, String> {
        let mut table = abi::Codec {
            struct_size: 0,
            abi: 0,
            name: std::ptr::null(),
            flags: 0,
            open: None,
            close: None,
            max_encoded_length: None,
            encode: None,
            decode: None,
            meta_length: None,
            plan_read: None,
            decode_part: None,
        };
        // SAFETY: the first two fields exist in every version.
        let (size, version) = unsafe { ((*codec).struct_size as usize, (*codec).abi) };
        if version != abi::ABI {
            return Err(format!(
                "was made for version {version} of drystone_transform.h, this program supports version {}: compile it again",
                abi::ABI
            ));
        }
        if size < abi::LEAST {
            return Err(format!("a codec whose struct_size is {size}; it has at least {} bytes", abi::LEAST));
        }
        let known = size.min(size_of::<abi::Codec>());
        // SAFETY: both sides have `known` bytes. A missing function pointer reads as none.
        unsafe { std::ptr::copy_nonoverlapping(codec.cast::<u8>(), (&raw mut table).cast::<u8>(), known) };
        if table.name.is_null() {
            return Err("a codec without a name".into());
        }
        // SAFETY: the header requires the name to be a text that ends with NUL.
        let name = unsafe { CStr::from_ptr(table.name) };
        let name = name.to_str().map_err(|_| "a codec whose name is not UTF-8".to_owned())?.to_owned();
        let lacks = |what: &str| Err(format!("the codec {name:?} lacks {what}"));
        if table.max_encoded_length.is_none() || table.encode.is_none() || table.decode.is_none() {
            return lacks("max_encoded_length, encode or decode");
        }
        let parts = [table.meta_length.is_some(), table.plan_read.is_some(), table.decode_part.is_some()];
        if parts.contains(&true) && parts.contains(&false) {
            return lacks("one of meta_length, plan_read and decode_part, which go together");
        }
        Ok(Plugin { name, table })
    }
}

impl Maker for Plugin {
    fn make(
        &self,
        spec: &CodecSpec,
    ) -> std::result::Result<Arc<dyn drystone_transform::Codec>, TransformError> {
        Ok(Arc::new(Foreign::open(&self.table, spec)?))
    }
}
