//! Errors of this crate, for the person who wrote the transform text or owns the data.

/// Why a transform could not be parsed, applied or undone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransformError {
    /// The transform text does not follow the syntax.
    #[error("transform {text:?}, at byte {at}: {problem}")]
    Syntax {
        /// The text as given, shortened if it was long.
        text: String,
        /// Byte offset in the text.
        at: usize,
        /// What was found and what was expected.
        problem: String,
    },
    /// A codec of this name is not built in.
    #[error("unknown codec {name:?}{}; known are {known}; codecs of plug-ins are known once the configuration lists their files", did_you_mean(.suggestion))]
    UnknownCodec {
        /// The name as given.
        name: String,
        /// The nearest known name, if one is near.
        suggestion: Option<&'static str>,
        /// All known names.
        known: String,
    },
    /// A codec was given a parameter that it does not take, or a value out of range.
    #[error("codec {codec}: {problem}")]
    BadParameter {
        /// The codec's name.
        codec: String,
        /// What was found and what is allowed.
        problem: String,
    },
    /// More data than one subchunk may hold.
    #[error("a subchunk of {len} bytes exceeds the limit of {limit}; cut the block into smaller subchunks", limit = crate::MAX_DECODED_LEN)]
    TooLarge {
        /// Decoded bytes asked for.
        len: usize,
    },
    /// The arguments of a call contradict each other.
    #[error("{0}")]
    InvalidArgument(String),
    /// A codec failed to encode; the data is not at fault.
    #[error("codec {codec} could not encode: {problem}")]
    Encode {
        /// The codec's name.
        codec: String,
        /// What its library reported.
        problem: String,
    },
    /// Stored bytes contradict themselves or the declared decoded size.
    #[error("damaged encoded data at byte {at}: {what}")]
    Corrupt {
        /// What was found.
        what: String,
        /// Byte offset within the stored bytes (or within the codec's own part of them).
        at: u64,
    },
    /// Well-formed, but made by a newer version.
    #[error("encoded data needs a newer reader: {what}")]
    Unsupported {
        /// What this version does not know.
        what: String,
    },
}

fn did_you_mean(suggestion: &Option<&'static str>) -> String {
    suggestion.map(|name| format!(" (did you mean {name:?}?)")).unwrap_or_default()
}

impl TransformError {
    pub(crate) fn corrupt(what: impl Into<String>, at: u64) -> TransformError {
        TransformError::Corrupt { what: what.into(), at }
    }

    pub(crate) fn bad_parameter(codec: &str, problem: impl Into<String>) -> TransformError {
        TransformError::BadParameter { codec: codec.into(), problem: problem.into() }
    }
}
