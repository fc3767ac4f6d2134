//! Codecs that are not built in: a registered [`Maker`] makes their names known wherever transforms are parsed.
//!
//! This crate loads nothing. Programs that embed it register codecs; the engine does so for plug-ins. A registration
//! lasts as long as the process, since chains made from it stay in use.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use crate::text::is_codec_name;
use crate::{Codec, CodecSpec, TransformError};

/// Names of the built-in codecs; no other codec may take one of them.
pub(crate) const BUILT_IN: [&str; 22] = [
    "identity",
    "shuffle",
    "bitshuffle",
    "delta",
    "bytedelta",
    "lorenzo",
    "bitround",
    "zstd",
    "lz4",
    "zlib",
    "gzip",
    "bzip2",
    "szip",
    "pcodec",
    "blosc",
    "aplod",
    "isobar",
    "alacrity",
    "multilevel",
    "mloc",
    "zfp",
    "sorted",
];

fn is_built_in(name: &str) -> bool {
    BUILT_IN.contains(&name)
}

/// Makes codecs with one name.
pub trait Maker: Send + Sync {
    /// The codec with this name and these parameters, which are checked. Its [`Codec::spec`] must make the same codec
    /// again.
    fn make(&self, spec: &CodecSpec) -> Result<Arc<dyn Codec>, TransformError>;
}

static MAKERS: RwLock<BTreeMap<String, Arc<dyn Maker>>> = RwLock::new(BTreeMap::new());

/// Registers a name. It is an error if the text is no valid name, is built in or `auto`, or was registered before: the
/// meaning of a stored name must not change.
pub fn register(name: &str, maker: Arc<dyn Maker>) -> Result<(), TransformError> {
    let refuse = |problem: &str| Err(TransformError::InvalidArgument(format!("codec {name:?}: {problem}")));
    if !is_codec_name(name) {
        return refuse("a name is a lower-case letter, then lower-case letters, digits, '_', '.' or '-'");
    }
    if is_built_in(name) || matches!(name, "auto" | "none" | "bounds") {
        return refuse("a codec of this name is built in");
    }
    let mut makers = MAKERS.write().unwrap_or_else(PoisonError::into_inner);
    if makers.contains_key(name) {
        return refuse("a codec of this name is there already");
    }
    makers.insert(name.into(), maker);
    Ok(())
}

/// The registered names.
pub fn registered() -> Vec<String> {
    MAKERS.read().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
}

/// A registered codec; `None` if none has this name.
pub(crate) fn make(spec: &CodecSpec) -> Option<Result<Arc<dyn Codec>, TransformError>> {
    let maker = MAKERS.read().unwrap_or_else(PoisonError::into_inner).get(&spec.name).cloned();
    maker.map(|maker| maker.make(spec))
}
