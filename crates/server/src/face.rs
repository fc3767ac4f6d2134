//! The page in the browser, which the face that starts a server provides. It is part of the Python package.

/// Provides the files of the page and answers its requests. Several threads may call it at once.
pub trait Page: Send + Sync {
    /// The content and the media type of a file of the page; `None` if there is no such file.
    fn file(&self, name: &str) -> Option<(Vec<u8>, String)>;

    /// Answers `question`, with the query of its URL, about the container at `place`, a path or URL. The page shows the
    /// container as `name`. No answer reads more than `most` bytes.
    fn answer(&self, place: &str, name: &str, question: &str, query: &str, most: u64) -> PageAnswer;
}

/// An answer for a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageAnswer {
    /// The HTTP status.
    pub status: u16,
    /// The media type of the body.
    pub kind: String,
    /// The body.
    pub body: Vec<u8>,
}
