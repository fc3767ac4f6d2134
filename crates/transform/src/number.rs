//! Names of the kinds of numbers, as parameters of codecs that interpret bits.

use crate::params::{Params, named_text};
use crate::stats::ScalarKind;
use crate::{Param, TransformError};

const NAMES: [(&str, ScalarKind); 12] = [
    ("i1", ScalarKind::I8),
    ("i2", ScalarKind::I16),
    ("i4", ScalarKind::I32),
    ("i8", ScalarKind::I64),
    ("u1", ScalarKind::U8),
    ("u2", ScalarKind::U16),
    ("u4", ScalarKind::U32),
    ("u8", ScalarKind::U64),
    ("f2", ScalarKind::F16),
    ("bf2", ScalarKind::BF16),
    ("f4", ScalarKind::F32),
    ("f8", ScalarKind::F64),
];

/// The parameter `dtype`: the kind of the scalars inside the elements, if it differs from the variable's.
pub(crate) fn from_params(params: &Params<'_>) -> Result<Option<ScalarKind>, TransformError> {
    let words = NAMES.map(|(name, _)| name);
    let Some(word) = params.word("dtype", &words)? else { return Ok(None) };
    Ok(NAMES.iter().find(|(name, _)| *name == word).map(|(_, kind)| *kind))
}

/// The parameter that names `kind`; `None` for kinds that are not numbers.
pub(crate) fn to_param(kind: ScalarKind) -> Option<Param> {
    name(kind).map(|name| named_text("dtype", name))
}

/// The short name of a kind of number; `None` for other kinds.
pub(crate) fn name(kind: ScalarKind) -> Option<&'static str> {
    NAMES.iter().find(|(_, known)| *known == kind).map(|(name, _)| *name)
}
