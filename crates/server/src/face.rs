//! What the face that starts a server brings: the page in the browser, which is in the Python package.

/// What gives the files of the page and answers its questions. It may be asked by several threads at once.
pub trait Page: Send + Sync {
    /// A file of the page by its name, and its type; `None` where there is none.
    fn file(&self, name: &str) -> Option<(Vec<u8>, String)>;

    /// The answer to `question` with the query of its address, about the container at a path or URL that is shown as
    /// `name`. No answer reads more than `most` bytes.
    fn answer(&self, place: &str, name: &str, question: &str, query: &str, most: u64) -> PageAnswer;
}

/// An answer for a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageAnswer {
    /// Of HTTP.
    pub status: u16,
    /// The type of the body.
    pub kind: String,
    /// What is sent.
    pub body: Vec<u8>,
}
