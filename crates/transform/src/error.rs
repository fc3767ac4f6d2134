//! Errors of this crate, written for the author of the transform text or the owner of the data.

/// Why a transform could not be parsed, applied or undone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransformError {
    /// The transform text does not follow the syntax.
    #[error("transform {text:?}, at byte {at}: {problem}")]
    Syntax {
        /// The given text, shortened if it is long.
        text: String,
        /// Byte offset in the text.
        at: usize,
        /// What was found and what was expected.
        problem: String,
    },
    /// A codec of this name is not built in.
    #[error("unknown codec {name:?}{}; known are {known}; codecs of plug-ins are known once the configuration lists \
        their files", did_you_mean(.suggestion))]
    UnknownCodec {
        /// The given name.
        name: String,
        /// The nearest known name, if there is a similar one.
        suggestion: Option<&'static str>,
        /// All known names.
        known: String,
    },
    /// A codec got a parameter that it does not have, or a value out of range.
    #[error("codec {codec}: {problem}")]
    BadParameter {
        /// The codec's name.
        codec: String,
        /// What was found and what is allowed.
        problem: String,
    },
    /// A subchunk with more data than the limit.
    #[error("a subchunk of {len} bytes exceeds the limit of {limit}; cut the block into smaller subchunks", limit = crate::MAX_DECODED_LEN)]
    TooLarge {
        /// Requested number of decoded bytes.
        len: usize,
    },
    /// The arguments of a call contradict each other.
    #[error("{0}")]
    InvalidArgument(String),
    /// A codec failed to encode. The data is not the cause.
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
    /// Stored bytes are well-formed, but a newer version made them.
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
